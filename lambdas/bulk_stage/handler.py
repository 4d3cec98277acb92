"""Does one call of a bulk job's stage for its state machine: a shard, or a turn.

What has to be repeated because a service is busy fails as `ServiceBusyError`, which the state machine retries with growing
pauses: so the children of a stage slow down together. Only this name leaves the function, and no message that may quote a
document.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from opx.errors import BulkFailedError, OpxError
from opx.operations.system import System
from opx.runtime.functions import function_settings, observed
from opx.runtime.metrics import Report
from opx.runtime.speed_limit import reported_limits
from opx.system import bootstrap
from opx_bulk.calls import ServiceBusyError
from opx_bulk.capability import Bulk

RESERVE_MS = 120_000
"""Left for the step in hand: a shard's lines are written."""


def start() -> System:
    """The system that the environment describes."""
    return bootstrap(function_settings())


def make_handler(start: Callable[[], System] = start) -> Callable[[Any, Any], dict[str, Any]]:
    """The function's handler; `start` is called at the first event, once a cold start."""
    started = cache(start)

    @observed
    def work(event: Any, context: Any, report: Report) -> dict[str, Any] | OpxError:
        def stop() -> bool:
            return bool(context.get_remaining_time_in_millis() < RESERVE_MS)

        system = started()
        try:
            with reported_limits(system.ports.speed_limits, report):
                return system.part(Bulk.of).calls.of_event(event, stop).to_json()
        except (BulkFailedError, ServiceBusyError) as exc:
            return exc

    def handler(event: Any, context: Any) -> dict[str, Any]:
        found = work(event, context)
        if isinstance(found, OpxError):
            raise found
        return found

    return handler


handler = make_handler()
