"""Effect of a floor of confidence: shares of refused questions, and precision of the remaining answers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from opx.domain.queries import QueryConfig
from opx.domain.record import rounded
from opx_quality.evaluation.datasets import LabelledQuestion
from opx_quality.evaluation.runs import EvaluationRun, JudgedReply

FLOOR = QueryConfig().min_confidence
FLOORS = tuple(round(step / 20, 2) for step in range(21))


@dataclass(frozen=True, slots=True)
class Abstention:
    """Figures at one floor: shares of refused questions among the answerable ones and among each kind of unanswerable
    ones (`unanswerable` is all of these), and the share of remaining answers whose first page is relevant. None: no
    questions.
    """

    floor: float
    answerable: float | None
    unanswerable: float | None
    by_kind: dict[str, float]
    right: float | None

    def to_json(self) -> dict[str, Any]:
        return {
            "floor": self.floor,
            "answerableRefused": rounded(self.answerable, 4),
            "unanswerableRefused": rounded(self.unanswerable, 4),
            "refusedByKind": {kind: round(share, 4) for kind, share in self.by_kind.items()},
            "firstPageRight": rounded(self.right, 4),
        }


def refused(reply: JudgedReply, floor: float) -> bool:
    """True if no found page reaches the floor."""
    return not any(confidence >= floor for confidence in reply.confidences)


def abstention(run: EvaluationRun, system: str, floor: float = FLOOR) -> Abstention:
    """The figures of a mode with this floor."""
    replies = list(zip(run.questions, run.replies[system], strict=True))
    kinds = dict.fromkeys(question.kind for question in run.questions if not question.answerable)
    answered = [(question, reply) for question, reply in replies if not refused(reply, floor)]
    return Abstention(
        floor=floor,
        answerable=_share(refused(reply, floor) for question, reply in replies if question.answerable),
        unanswerable=_share(refused(reply, floor) for question, reply in replies if not question.answerable),
        by_kind={kind: _of_kind(replies, kind, floor) for kind in kinds},
        right=_share(_first(reply, floor) in question.relevant for question, reply in answered),
    )


def separation(run: EvaluationRun, system: str) -> float | None:
    """The probability that a question with an answer has a higher best confidence than one without, ties counting half:
    the area under the ROC curve (Hanley and McNeil, 1982). None without questions of either kind."""
    replies = list(zip(run.questions, run.replies[system], strict=True))
    good = [reply.best for question, reply in replies if question.answerable]
    bad = [reply.best for question, reply in replies if not question.answerable]
    if not good or not bad:
        return None
    return fmean(float(one > other) + 0.5 * (one == other) for one in good for other in bad)


def _first(reply: JudgedReply, floor: float) -> str:
    return next(page for page, confidence in zip(reply.pages, reply.confidences, strict=True) if confidence >= floor)


def _of_kind(replies: Sequence[tuple[LabelledQuestion, JudgedReply]], kind: str, floor: float) -> float:
    return fmean(
        float(refused(reply, floor)) for question, reply in replies if question.kind == kind and not question.answerable
    )


def _share(each: Iterable[bool]) -> float | None:
    values = [float(one) for one in each]
    return fmean(values) if values else None
