"""Runs that never were, for tests of what is made of runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from opx.evaluation.datasets import Question
from opx.evaluation.runs import Reply, Run

CONFIDENCE = 0.9


def a_question(
    name: str,
    *relevant: str,
    kind: str = "words",
    split: str = "",
    text: str = "",
    grades: Mapping[str, int] | None = None,
) -> Question:
    """A question that these pages answer; without any, one that none does."""
    return Question(name, text or f"text of {name}", kind, dict(grades or dict.fromkeys(relevant, 1)), split)


def a_reply(*pages: str, confidences: tuple[float, ...] = (), milliseconds: float = 5.0) -> Reply:
    """Pages in this order; without confidences, all are sure."""
    return Reply(pages, confidences or (CONFIDENCE,) * len(pages), milliseconds, {"search": milliseconds / 2})


def a_run(*asked: tuple[Question, Reply], **others: Sequence[Reply]) -> Run:
    """A run of the mode `balanced`; `others` are further modes."""
    questions, replies = [question for question, _ in asked], [reply for _, reply in asked]
    found = {"balanced": tuple(replies), **{name: tuple(each) for name, each in others.items()}}
    return Run("set", "corpus-1", tuple(questions), found, tuple(found), {"pages": 3.0})
