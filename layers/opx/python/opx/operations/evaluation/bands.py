"""How honest the bands of confidence are: how often what comes as `sure`, `likely` or `weak` is right, and which bands
questions without an answer get."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean
from typing import Any

from opx.domain.bands import Band, band_of
from opx.operations.evaluation.answers import TextTable
from opx.operations.evaluation.datasets import Question
from opx.operations.evaluation.runs import Reply, Run

NOTHING, ABSENT, SURE_AND_WRONG = "nothing found", "told absent", "sure and wrong"


def band(reply: Reply) -> str:
    """The band of the first page; `NOTHING` without one."""
    return band_of(reply.confidences[0]).value if reply.confidences else NOTHING


def _has(name: str, reply: Reply) -> bool:
    return band(reply) == name


def told_absent(reply: Reply) -> bool:
    """Whether the answer says that something the question names is absent."""
    return bool(reply.absent)


ROWS: dict[str, Callable[[Reply], bool]] = {
    **{name: partial(_has, name) for name in (*(each.value for each in Band), NOTHING)},
    ABSENT: told_absent,
}
"""Which replies a row counts. A reply has one band; it is told absent beside that."""


@dataclass(frozen=True, slots=True)
class BandFigures:
    """Questions of a row: how many have an answer, of the first pages that these got the share that is relevant (None: of
    nothing), and how many have none, by kind."""

    answerable: int
    right: float | None
    unanswerable: dict[str, int]

    def to_json(self) -> dict[str, Any]:
        return {
            "answerable": self.answerable,
            "right": None if self.right is None else round(self.right, 4),
            "unanswerable": sum(self.unanswerable.values()),
            "unanswerableByKind": self.unanswerable,
        }


def band_figures(run: Run, mode: str) -> dict[str, BandFigures]:
    """Figures of every row of a mode."""
    asked = list(zip(run.questions, run.replies[mode], strict=True))
    kinds = unanswerable_kinds(run)
    return {name: _figures([pair for pair in asked if counts(pair[1])], kinds) for name, counts in ROWS.items()}


def unanswerable_kinds(run: Run) -> dict[str, int]:
    """How many questions without an answer there are of each kind, in order of appearance."""
    return Counter(question.kind for question in run.questions if not question.answerable)


def _figures(asked: Sequence[tuple[Question, Reply]], kinds: Iterable[str]) -> BandFigures:
    answerable = [pair for pair in asked if pair[0].answerable]
    right = [float(is_right(question, reply)) for question, reply in answerable if reply.pages]
    without = Counter(question.kind for question, _ in asked if not question.answerable)
    return BandFigures(len(answerable), fmean(right) if right else None, {kind: without[kind] for kind in kinds})


def is_right(question: Question, reply: Reply) -> bool:
    """Whether the first page is relevant."""
    return bool(reply.pages) and reply.pages[0] in question.relevant


def is_sure_and_wrong(question: Question, reply: Reply) -> bool:
    return band(reply) == Band.SURE and not is_right(question, reply)


def band_table(run: Run) -> TextTable:
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
