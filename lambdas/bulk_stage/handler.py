"""Does one call of a bulk job's stage for its state machine: a shard, or a turn.

What has to be repeated because a service is busy fails as `ServiceBusyError`, which the state machine retries with growing
pauses: so the children of a stage slow down together. Only this name leaves the function, and no message that may quote a
document.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import cache
from typing import Any

from opx.errors import BulkFailedError, OpxError, StoreUnavailableError
from opx.lifecycle.bulk.calls import Turn
from opx.operations.system import System
from opx.runtime.functions import function_settings, observed
from opx.runtime.metrics import Report
from opx.runtime.speed_limit import reported_limits
from opx.system import bootstrap

RESERVE_MS = 120_000
"""Left for the step in hand: a shard's lines are written."""

log = logging.getLogger("opx.bulk")


class ServiceBusyError(OpxError):
    """The call is to be repeated: a model, an index or a store is busy, wakes up, or can't be reached."""


def start() -> System:
    """The system that the environment describes."""
    return bootstrap(function_settings())


def make_handler(start: Callable[[], System] = start) -> Callable[[Any, Any], dict[str, Any]]:
    """The function's handler; `start` is called at the first event, once a cold start."""
    started = cache(start)

    @observed
    def work(event: Any, context: Any, report: Report) -> dict[str, Any] | OpxError:
        system = started()
        try:
            with reported_limits(system.ports.speed_limits, report):
                return _called(system, event, context).to_json()
        except BulkFailedError as exc:
            return exc
        except StoreUnavailableError as exc:
            log.info("%s of %s has to wait: %s", event["stage"], event["job"], exc)
            return ServiceBusyError(type(exc).__name__)

    def handler(event: Any, context: Any) -> dict[str, Any]:
        found = work(event, context)
        if isinstance(found, OpxError):
            raise found
        return found

    return handler


def _called(system: System, event: Any, context: Any) -> Turn:
    """Makes the call of an event."""
    calls, stage, job = system.bulk.calls, str(event["stage"]), str(event["job"])
    if stage == "fail":
        reason = ": ".join(filter(None, (str(event.get("error", "")), str(event.get("cause", ""))[:300])))
        return calls.fail(job, str(event["execution"]), reason)

    def stop() -> bool:
        return bool(context.get_remaining_time_in_millis() < RESERVE_MS)

    shard, retries = int(event.get("shard", 0)), int(event.get("retries", 0))
    return calls.call(stage, job, shard=shard, retries=retries, stop=stop)


handler = make_handler()
