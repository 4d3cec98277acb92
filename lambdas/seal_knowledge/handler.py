"""Seals what is stored, by the recorded checksums of the catalog, in as many runs as that takes. With `accept` in the event,
what was altered since the last seal is sealed as it is: for people who have looked at it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from opx.operations.system import System
from opx.runtime.functions import function_settings, observed
from opx.runtime.metrics import Report
from opx.system import bootstrap
from opx_assurance.capability import assurance

SECONDS_TO_SPARE = 240.0
"""For writing a million leaves and their root when a run ends; the next one goes on."""


def start() -> System:
    """The system that the environment describes."""
    return bootstrap(function_settings())


def make_handler(start: Callable[[], System] = start) -> Callable[[Any, Any], dict[str, Any]]:
    """The function's handler; `start` is called at the first event, once a cold start."""
    started = cache(start)

    @observed
    def handler(event: Any, context: Any, report: Report) -> dict[str, Any]:
        """The result is for people who call the function by hand. A last seal that was altered itself fails the call, which
        raises an alarm."""
        seconds = context.get_remaining_time_in_millis() / 1000 - SECONDS_TO_SPARE
        sealing = started().part(assurance).daily_sealing()
        found = sealing.run(seconds=max(seconds, 1.0), accept=event.get("accept") is True)
        found.report(report)
        return found.to_json()

    return handler


handler = make_handler()
