"""Records announced changes that are not ingested yet and, called by the scheduler, announces those again whose messages are
lost."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from opx.ingestion.corpus.announcements import ANNOUNCE_AGAIN
from opx.operations.system import System
from opx.runtime.functions import function_settings, observed
from opx.runtime.metrics import Metric, Report
from opx.system import bootstrap

SECONDS_TO_SPARE = 60.0
"""For the batch in hand when a run ends before Lambda ends it; the next one goes on."""


def start() -> System:
    """The system that the environment describes."""
    return bootstrap(function_settings())


def make_handler(start: Callable[[], System] = start) -> Callable[[Any, Any], dict[str, Any]]:
    """The function's handler; `start` is called at the first event, once a cold start."""
    started = cache(start)

    @observed
    def handler(event: Any, context: Any, report: Report) -> dict[str, Any]:
        """The result is for people who call the function by hand."""
        services = started()
        announcements = services.corpus.announcements
        if event == ANNOUNCE_AGAIN:
            seconds = context.get_remaining_time_in_millis() / 1000 - SECONDS_TO_SPARE
            found = announcements.announce_again(services.queue, seconds=max(seconds, 1.0))
            report(Metric.ANNOUNCED_AGAIN, float(found.sent))
            return found.to_json()
        sent = ((one["body"], int(one["attributes"]["SentTimestamp"]) / 1000) for one in event["Records"])
        return {"recorded": announcements.record(sent)}

    return handler


handler = make_handler()
