"""Rows of evaluations in the table of gaps: own questions, runs with their replies, results of canaries; none of a client."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from opx.domain.record import from_json
from opx.errors import InvalidInputError
from opx.ports import Item
from opx.ports.rows import RowKind, Rows, checked, require_time, whole
from opx.ports.tables import GAPS
from opx_quality.canaries import CanaryResult
from opx_quality.evaluation.datasets import LabelledQuestion
from opx_quality.evaluation.kept import KeptRun, OwnQuestion
from opx_quality.evaluation.runs import JudgedReply, question_of
from opx_quality.evaluation_keys import QUESTIONS, RUNS, holds_canary, holds_replies


def _run(item: Item) -> Mapping[str, Any]:
    run = from_json(KeptRun, item["run"])
    for time in (run.started, run.finished):
        require_time(time, "the time of a run")
    return {"gapId": run.run_id}


def _question(item: Item) -> Mapping[str, Any]:
    question = from_json(OwnQuestion, item["question"])
    require_time(question.added_at, "addedAt")
    _check_grades(question.expected)
    return {"gapId": question.question_id}


def _replies(item: Item) -> Mapping[str, Any]:
    if not re.fullmatch(r"\d{6,}", item["gapId"]):
        raise InvalidInputError("gapId is no number of a question")
    from_json(LabelledQuestion, item["question"])
    _check_grades(question_of(item["question"]).relevant)
    for reply in item["replies"].values():
        checked(JudgedReply.from_json(reply))
    return {}


def _check_grades(expected: Mapping[str, int]) -> None:
    if min(expected.values(), default=1) < 1:
        raise InvalidInputError("a grade is 1 or more")


def _result(item: Item) -> Mapping[str, Any]:
    result = whole(CanaryResult, item["result"])
    require_time(result.at, "at")
    return {"gapId": result.at}


ROWS = Rows(
    table=GAPS,
    kinds=(
        RowKind(lambda item: item["scopeKey"] == RUNS, _run, expires=True),
        RowKind(lambda item: item["scopeKey"] == QUESTIONS, _question),
        RowKind(lambda item: holds_replies(item["scopeKey"]), _replies, expires=True),
        RowKind(lambda item: holds_canary(item["scopeKey"]), _result, expires=True),
    ),
)
