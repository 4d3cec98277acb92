"""A question every hour that has to be searched by meaning and by words, with whatever answer."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from opx.domain.ids import iso_time
from opx.domain.scopes import Identity
from opx.errors import StoreUnavailableError
from opx.ports import Clock
from opx.retrieval.capability import Questions
from opx.retrieval.stages import INDEX_DOWN
from opx.runtime.metrics import Metric, Report

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
        answer = questions.search(Identity(), recorded=False).answer(QUESTION.format(time=iso_time(clock())))
        searched = not answer.partial and INDEX_DOWN not in answer.notes
        if not searched:
            log.error("the canary's question was not searched completely: %s", "; ".join(answer.notes))
    except StoreUnavailableError:
        log.exception("the canary's question was not searched")
    finally:
        report(Metric.CANARY_FAILED, float(not searched))
    return {"searched": searched}
