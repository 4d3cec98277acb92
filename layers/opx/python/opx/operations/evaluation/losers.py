"""The questions that a system does worst at, with what it found instead."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from opx.domain.record import replace
from opx.operations.evaluation.answers import Judgement, helped
from opx.operations.evaluation.comparison import check_comparable
from opx.operations.evaluation.datasets import Question
from opx.operations.evaluation.measures import ndcg
from opx.operations.evaluation.runs import Reply, Run


@dataclass(frozen=True, slots=True)
class Loser:
    """A question, what it got, its nDCG@10, and how much less that is than in the run it was compared with (if it was)."""

    question: Question
    reply: Reply
    ndcg: float
    lost: float | None = None

    @property
    def ranks(self) -> dict[str, int | None]:
        """Where each relevant page was found, counted from 1; None if it wasn't."""
        pages = self.reply.pages
        return {page: pages.index(page) + 1 if page in pages else None for page in self.question.relevant}


def losers(run: Run, system: str, count: int, against: Run | None = None) -> list[Loser]:
    """The worst questions first, ties by id; with `against`, those that lost most, and only those that lost."""
    found = list(_measured(run, system))
    if against is None:
        return sorted((each for each in found if each.ndcg < 1), key=lambda each: (each.ndcg, each.question.id))[:count]
    check_comparable(against, run)
    before = {each.question.id: each.ndcg for each in _measured(against, system)}
    lost = [replace(each, lost=before[each.question.id] - each.ndcg) for each in found]
    return sorted((each for each in lost if (each.lost or 0) > 0), key=lambda e: (-(e.lost or 0), e.question.id))[
        :count
    ]


def false_answers(run: Run, system: str, count: int) -> list[Loser]:
    """Questions without an answer that got the most certain ones."""
    asked = zip(run.questions, run.replies[system], strict=True)
    found = [Loser(question, reply, 0.0) for question, reply in asked if not question.answerable and reply.confidences]
    return sorted(found, key=lambda each: (-each.reply.best, each.question.id))[:count]


def unhelped(run: Run, form: str, count: int, against: Run | None = None) -> list[tuple[Question, Judgement]]:
    """Questions whose reply lacks a line that is enough, those whose page was found first, by its rank; with `against`, only
    those whose reply had one then."""
    asked = [(question, one) for question, one in zip(run.questions, run.answers[form], strict=True) if one]
    found = [(question, one) for question, one in asked if not helped(one)]
    if against is not None:
        check_comparable(against, run)
        before = zip(against.questions, against.answers.get(form, ()), strict=False)
        had = {question.id for question, one in before if one and helped(one)}
        found = [(question, one) for question, one in found if question.id in had]
    return sorted(found, key=lambda pair: (pair[1].rank or math.inf, pair[0].id))[:count]


def _measured(run: Run, system: str) -> Iterator[Loser]:
    for question, reply in zip(run.questions, run.replies[system], strict=True):
        if question.answerable:
            yield Loser(question, reply, ndcg(reply.pages, question.relevant))
