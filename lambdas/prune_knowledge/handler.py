"""Prunes expired documents. With `dryRun` in the event nothing is removed; `allowShare` is the share of a category that may
be removed at once."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from opx.operations.system import System
from opx.runtime.functions import function_settings, observed
from opx.runtime.metrics import Report
from opx.system import bootstrap

SECONDS_TO_SPARE = 120.0
"""For what is in hand when a run ends before Lambda ends it; the next one goes on."""


def start() -> System:
    """The system that the environment describes."""
    return bootstrap(function_settings())


def make_handler(start: Callable[[], System] = start) -> Callable[[Any, Any], dict[str, Any]]:
    """The function's handler; `start` is called at the first event, once a cold start."""
    started = cache(start)

    @observed
    def handler(event: Any, context: Any, report: Report) -> dict[str, Any]:
        """The result is for people who call the function by hand."""
        seconds = context.get_remaining_time_in_millis() / 1000 - SECONDS_TO_SPARE
        services = started()
        pruning = services.lifecycle.pruning(report)
        found = pruning.run(
            dry_run=bool(event.get("dryRun")), allow_share=event.get("allowShare"), seconds=max(seconds, 1.0)
        )
        return found.to_json()

    return handler


handler = make_handler()
