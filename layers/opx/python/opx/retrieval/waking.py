"""Wakes an idle index before the questions come (when an alarm goes off, an incident is reported, or by timetable), and asks
the canary question of a deployment."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping

from opx.domain.ids import iso_time
from opx.domain.scopes import Identity
from opx.errors import StoreUnavailableError
from opx.ingestion.indexing.capability import Indexing
from opx.ports import Clock
from opx.retrieval.capability import Questions
from opx.retrieval.stages import INDEX_DOWN
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


log = logging.getLogger(__name__)

CANARY: Mapping[str, object] = {"task": "canary"}
"""The scheduler's event for the question."""

QUESTION = "Canary {time}: what do the runbooks do first when a service is down?"
"""The time makes each question new, so that its vector isn't cached."""


def is_canary(event: object, context: object) -> bool:
    """True for a call of the scheduler. An agent's gateway, whose arguments a model chose, sets a client context."""
    return event == CANARY and getattr(context, "client_context", None) is None


def ask_canary(questions: Questions, report: Report, clock: Clock) -> dict[str, bool]:
    """Asks as a reader without a client, unrecorded, and reports 1 if the question was not searched, or not completely."""
    searched = False
    try:
        answer = questions.for_reader(Identity(), recorded=False).search(QUESTION.format(time=iso_time(clock())))
        searched = not answer.partial and INDEX_DOWN not in answer.notes
        if not searched:
            log.error("the canary's question was not searched completely: %s", "; ".join(answer.notes))
    except StoreUnavailableError:
        log.exception("the canary's question was not searched")
    finally:
        report(Metric.CANARY_FAILED, float(not searched))
    return {"searched": searched}
