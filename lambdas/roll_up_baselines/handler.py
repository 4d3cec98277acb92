"""Rolls the last days' metrics up into baselines: two days, or as many as `days` in the event says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from functools import cache
from typing import Any

from opx.bootstrap import bootstrap
from opx.operations.baselines.rolling_up import DAYS
from opx.operations.functions import function_settings, observed
from opx.operations.metrics import Report
from opx.services import Services


def start() -> Services:
    """The system that the environment describes."""
    return bootstrap(function_settings())


def make_handler(start: Callable[[], Services] = start) -> Callable[[Any, Any], dict[str, Any]]:
    """The function's handler; `start` is called at the first event, once a cold start."""
    started = cache(start)

    @observed
    def handler(event: Any, context: Any, report: Report) -> dict[str, Any]:  # noqa: ARG001
        """The result is for people who call the function by hand. A metric that can't be read fails the call after the
        others are done, so that it is tried again; what was done is then done once more, to the same effect."""
        return asdict(started().roll_up(report).run(event.get("days", DAYS)))

    return handler


handler = make_handler()
