"""Pulls sources into the corpus, one per message, for as long as the function may run."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from opx.operations.system import System
from opx.runtime.functions import function_settings, observed
from opx.runtime.metrics import Report
from opx.system import bootstrap

RESERVE_MS = 480_000
"""Left for the page in hand. A connector gives it away after a minute or so, but its last request may take four tries of
a minute each, and as many minutes between them as a source asks for."""


def start() -> System:
    """The system that the environment describes."""
    return bootstrap(function_settings())


def make_handler(start: Callable[[], System] = start) -> Callable[[Any, Any], None]:
    """The function's handler; `start` is called at the first event, once a cold start."""
    started = cache(start)

    @observed
    def handler(event: Any, context: Any, report: Report) -> None:
        """The queue hands out one message at a time, so that one which fails is alone with it."""

        def stop() -> bool:
            return bool(context.get_remaining_time_in_millis() < RESERVE_MS)

        requests = started().connectors.pull_requests(report)
        for record in event["Records"]:
            requests.do(record["body"], stop=stop)

    return handler


handler = make_handler()
