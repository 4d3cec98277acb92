"""Kinds of rows of evaluations: own questions, runs with their replies, results of canaries; and marks of contradictions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from msgspec import Meta, field

from opx.domain.record import Record
from opx.domain.record import from_json as read
from opx.errors import InvalidInputError
from opx.ports import Item
from opx.records.dismissals import DISMISSED, DismissedMark, dismissed_partition
from opx.records.evaluation_keys import QUESTIONS, RUNS, holds_canary, holds_replies
from opx_assurance.archive.rows import Count, RowKind, require_text, require_time, scope_key, whole

Positive = Annotated[int, Meta(ge=1)]


class _RunRow(Record, frozen=True, kw_only=True):
    run_id: Annotated[str, Meta(min_length=1)]
    dataset: str
    state: Literal["running", "done"]
    started: str
    finished: str = ""
    by: str = ""
    opx: str = ""
    corpus: str
    questions: Count
    asked: Count = 0
    modes: tuple[str, ...]
    figures: tuple[dict[str, Any], ...] = ()


def _run(item: Item) -> Mapping[str, Any]:
    run = read(_RunRow, item["run"])
    for time in (run.started, run.finished):
        require_time(time, "the time of a run")
    return {"gapId": run.run_id}


class _QuestionRow(Record, frozen=True):
    question_id: Annotated[str, Meta(min_length=1)]
    text: str
    expected: dict[str, Positive]
    titles: tuple[str, ...]
    source: str
    added_at: str
    by: str
    canary: bool = False


def _question(item: Item) -> Mapping[str, Any]:
    question = read(_QuestionRow, item["question"])
    require_time(question.added_at, "addedAt")
    return {"gapId": question.question_id}


class _SpanRow(Record, frozen=True, forbid_unknown_fields=True):
    page: str
    grade: int
    text: str


class _LabelledRow(Record, frozen=True, forbid_unknown_fields=True):
    id: str
    text: str
    kind: str
    relevant: dict[str, Positive]
    split: str = ""
    spans: tuple[_SpanRow, ...] = ()


class _ReplyRow(Record, frozen=True):
    pages: tuple[str, ...]
    confidences: tuple[float, ...] = ()
    milliseconds: float = 0.0
    timings_ms: dict[str, float] = field(default_factory=dict)
    ranked_by: str = ""
    partial: bool = False
    absent: tuple[str, ...] = ()


def _replies(item: Item) -> Mapping[str, Any]:
    if not re.fullmatch(r"\d{6,}", item["gapId"]):
        raise InvalidInputError("gapId is no number of a question")
    read(_LabelledRow, item["question"])
    for reply in item["replies"].values():
        read(_ReplyRow, reply)
    return {}


class _CanaryReplyRow(Record, frozen=True):
    verdict: str
    rank: int | None
    confidence: float
    ndcg: float | None
    milliseconds: float
    found: tuple[str, ...]


class _ResultRow(Record, frozen=True):
    at: str
    reply: _CanaryReplyRow | None


def _result(item: Item) -> Mapping[str, Any]:
    result = whole(_ResultRow, item["result"])
    require_time(result.at, "at")
    return {"gapId": result.at}


def _mark(item: Item) -> Mapping[str, Any]:
    whole(DismissedMark, item)
    return {"scopeKey": dismissed_partition(scope_key(item["scopeKey"].removeprefix(DISMISSED)))}


def _is_text(item: Item) -> str:
    return require_text(item["scopeKey"], "scopeKey")


EVALUATION_KINDS = (
    RowKind(lambda item: _is_text(item) == RUNS, _run, expires=True),
    RowKind(lambda item: _is_text(item) == QUESTIONS, _question),
    RowKind(lambda item: holds_replies(_is_text(item)), _replies, expires=True),
    RowKind(lambda item: holds_canary(_is_text(item)), _result, expires=True),
    RowKind(lambda item: _is_text(item).startswith(DISMISSED), _mark, times=("at",)),
)
