"""Wakes an idle index before the questions come: when an alarm goes off, an incident is reported, or by timetable."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from opx.ingestion.indexing.capability import Indexing
from opx.runtime.metrics import Metric, Report

WAKE: Mapping[str, object] = {"task": "wake"}
"""The event of rules and schedules that wake the index."""


def is_wake(event: object, context: object) -> bool:
    """True for an event of a rule or schedule. An agent's gateway, whose arguments a model chose, sets a client context."""
    return event == WAKE and getattr(context, "client_context", None) is None


def wake(indexing: Indexing, report: Report, clock: Callable[[], float] = time.perf_counter) -> dict[str, float]:
    """Waits until the index answers, and reports how long that took. Raises `IndexWakingError` if it takes longer than the
    function has time, and `IndexUnavailableError`."""
    started = clock()
    indexing.wake(wait=True)
    taken = clock() - started
    report(Metric.WAKE_TIME, taken)
    return {"seconds": round(taken, 1)}
