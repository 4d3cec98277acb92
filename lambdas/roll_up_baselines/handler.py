"""Rolls up the metrics of the last two days, or of `days` in the event, into baselines."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from functools import cache
from typing import Any

from opx.operations.system import System
from opx.runtime.functions import function_settings, observed
from opx.runtime.metrics import Report
from opx.system import bootstrap
from opx_telemetry.baselines.definitions import DAYS
from opx_telemetry.capability import telemetry


def start() -> System:
    """The system that the environment describes."""
    return bootstrap(function_settings())


def make_handler(start: Callable[[], System] = start) -> Callable[[Any, Any], dict[str, Any]]:
    """The function's handler; `start` is called at the first event, once a cold start."""
    started = cache(start)

    @observed
    def handler(event: Any, context: Any, report: Report) -> dict[str, Any]:  # noqa: ARG001
        """The result is for people who call the function by hand. A metric that can't be read fails the call after the
        others are done, so that it is tried again; what was done is then done once more, to the same effect."""
        return asdict(started().part(telemetry).roll_up(report).run(event.get("days", DAYS)))

    return handler


handler = make_handler()
