"""Calibration of confidence: precision of the bands `sure`, `likely` and `weak`, bands of unanswerable questions, and
reliability tables."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from statistics import fmean
from typing import Any

from opx.domain.queries import Band, band_of
from opx.domain.record import rounded
from opx_quality.evaluation.answers import TextTable
from opx_quality.evaluation.datasets import LabelledQuestion
from opx_quality.evaluation.runs import EvaluationRun, JudgedReply

NOTHING, ABSENT, SURE_AND_WRONG = "nothing found", "told absent", "sure and wrong"


def band(reply: JudgedReply) -> str:
    """The band of the first page; `NOTHING` without one."""
    return band_of(reply.confidences[0]).value if reply.confidences else NOTHING


def _has(name: str, reply: JudgedReply) -> bool:
    return band(reply) == name


def reported_absent(reply: JudgedReply) -> bool:
    """True if the answer reports that something the question names is absent."""
    return bool(reply.absent)


ROWS: dict[str, Callable[[JudgedReply], bool]] = {
    **{name: partial(_has, name) for name in (*(each.value for each in Band), NOTHING)},
    ABSENT: reported_absent,
}
"""Predicates of the replies that a row counts. A reply has one band; reported absence is counted beside that."""


@dataclass(frozen=True, slots=True)
class BandFigures:
    """Questions of a row: the number of answerable ones, the share of relevant first pages among these (None: no pages),
    and the number of unanswerable ones by kind."""

    answerable: int
    right: float | None
    unanswerable: dict[str, int]

    def to_json(self) -> dict[str, Any]:
        return {
            "answerable": self.answerable,
            "right": rounded(self.right, 4),
            "unanswerable": sum(self.unanswerable.values()),
            "unanswerableByKind": self.unanswerable,
        }


def band_figures(run: EvaluationRun, mode: str) -> dict[str, BandFigures]:
    """Figures of every row of a mode."""
    replies = list(zip(run.questions, run.replies[mode], strict=True))
    kinds = unanswerable_kinds(run)
    return {name: _figures([pair for pair in replies if counts(pair[1])], kinds) for name, counts in ROWS.items()}


def unanswerable_kinds(run: EvaluationRun) -> dict[str, int]:
    """Number of unanswerable questions of each kind, in order of appearance."""
    return Counter(question.kind for question in run.questions if not question.answerable)


def _figures(replies: Sequence[tuple[LabelledQuestion, JudgedReply]], kinds: Iterable[str]) -> BandFigures:
    answerable = [pair for pair in replies if pair[0].answerable]
    right = [float(is_right(question, reply)) for question, reply in answerable if reply.pages]
    without = Counter(question.kind for question, _ in replies if not question.answerable)
    return BandFigures(len(answerable), fmean(right) if right else None, {kind: without[kind] for kind in kinds})


def is_right(question: LabelledQuestion, reply: JudgedReply) -> bool:
    """True if the first page is relevant."""
    return bool(reply.pages) and reply.pages[0] in question.relevant


def is_sure_and_wrong(question: LabelledQuestion, reply: JudgedReply) -> bool:
    return band(reply) == Band.SURE and not is_right(question, reply)


def band_table(run: EvaluationRun) -> TextTable:
    """A row a mode and band. Kinds of questions without an answer have columns of their own if there are several."""
    kinds = unanswerable_kinds(run)
    named = kinds if len(kinds) > 1 else {}
    heads = ("answerable", "right", "unanswerable", *(f"{kind} ({count})" for kind, count in named.items()))
    rows = [
        (
            f"{mode} {name}",
            str(one.answerable),
            "-" if one.right is None else f"{one.right:.3f}",
            str(sum(one.unanswerable.values())),
            *(str(one.unanswerable[kind]) for kind in named),
        )
        for mode in run.modes
        for name, one in band_figures(run, mode).items()
    ]
    return TextTable(("bands", *heads), rows)


# -- calibration


BINS = 10
HITS = 10
"""Pages of each question that are judged."""

Judged = tuple[float, bool]
"""A confidence, and the relevance of the page."""


@dataclass(frozen=True, slots=True)
class Bin:
    """Confidences above `low` (the first bin: from it) up to `high`: their number, their mean, and the relevant share."""

    low: float
    high: float
    count: int
    confidence: float
    relevant: float


@dataclass(frozen=True, slots=True)
class CalibrationTable:
    count: int
    brier: float
    error: float
    bins: tuple[Bin, ...]

    def to_json(self) -> dict[str, Any]:
        return {
            "count": self.count,
            "brier": round(self.brier, 4),
            "expectedCalibrationError": round(self.error, 4),
            "bins": [
                {**asdict(each), "confidence": round(each.confidence, 4), "relevant": round(each.relevant, 4)}
                for each in self.bins
            ],
        }


def calibration(judged: Sequence[Judged], bins: int = BINS) -> CalibrationTable:
    """Non-empty bins in order; all figures are 0 without judgements."""
    edges = [number / bins for number in range(1, bins + 1)]
    members: dict[int, list[Judged]] = {}
    for confidence, relevant in judged:
        members.setdefault(min(bisect_left(edges, confidence), bins - 1), []).append((confidence, relevant))
    made = tuple(
        Bin(number / bins, edges[number], len(inside), fmean(c for c, _ in inside), fmean(float(r) for _, r in inside))
        for number, inside in sorted(members.items())
    )
    brier = fmean((confidence - relevant) ** 2 for confidence, relevant in judged) if judged else 0.0
    error = sum(each.count * abs(each.relevant - each.confidence) for each in made) / max(len(judged), 1)
    return CalibrationTable(len(judged), brier, error, made)


def calibrations(run: EvaluationRun, system: str) -> dict[str, CalibrationTable]:
    """Calibration tables of a mode: its first page for every question, and its first ten pages. An unanswerable question
    has no relevant page, so all that is found for it counts against the confidence."""
    return {
        "first page": calibration(list(_judged(run, system, 1))),
        "ten pages": calibration(list(_judged(run, system))),
    }


def _judged(run: EvaluationRun, system: str, hits: int = HITS) -> Iterable[Judged]:
    for question, reply in zip(run.questions, run.replies[system], strict=True):
        for page, confidence in zip(reply.pages[:hits], reply.confidences, strict=False):
            yield confidence, page in question.relevant
