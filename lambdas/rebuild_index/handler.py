"""Builds a new index beside the one that answers, in time-boxed slices: a message starts the job, and each slice sends the
next. When a message requests that, calibrates the models of confidence, or makes the segment of words that answers while the
index wakes up."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from opx.lifecycle.reindex.reindexing import calibrate_on_message, handle_message
from opx.lifecycle.warm_words import make_on_message
from opx.operations.system import System
from opx.runtime.functions import function_settings, observed
from opx.runtime.metrics import Report
from opx.system import bootstrap

RESERVE_MS = 240_000
"""Left for the step in hand: a hundred documents, read, embedded and indexed."""


def start() -> System:
    """The system that the environment describes."""
    return bootstrap(function_settings())


def make_handler(start: Callable[[], System] = start) -> Callable[[Any, Any], None]:
    """The function's handler; `start` is called at the first event, once a cold start."""
    started = cache(start)

    @observed
    def handler(event: Any, context: Any, report: Report) -> None:  # noqa: ARG001
        """The queue hands out one message at a time. One that fails comes again, and is set aside in the end."""

        def stop() -> bool:
            return bool(context.get_remaining_time_in_millis() < RESERVE_MS)

        lifecycle = started().lifecycle
        for record in event["Records"]:
            body = record["body"]
            if make_on_message(body, lifecycle.warm_words, stop) or calibrate_on_message(body, lifecycle.calibrator):
                continue
            handle_message(body, lifecycle.reindexer, started().ports.functions.rebuilds, stop=stop)

    return handler


handler = make_handler()
