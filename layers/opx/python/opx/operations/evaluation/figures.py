"""Means of the measures, by system and kind of question."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from statistics import fmean

from opx.operations.evaluation.datasets import ALL, Question
from opx.operations.evaluation.measures import MEASURES
from opx.operations.evaluation.runs import Run

Table = dict[str, dict[str, dict[str, float]]]
"""By system, kind of question (and `all`) and measure; `questions` is how many there are."""


def measured(question: Question, pages: Sequence[str]) -> dict[str, float]:
    """Every measure of one ranking."""
    return {name: measure(pages, question.relevant) for name, measure in MEASURES.items()}


def means_by_kind(ranked: Iterable[tuple[Question, Sequence[str]]]) -> dict[str, dict[str, float]]:
    """Means over the questions that have an answer, `all` first; {} if none has."""
    rows: dict[str, list[dict[str, float]]] = {}
    for question, pages in ranked:
        if question.answerable:
            values = measured(question, pages)
            for kind in (ALL, question.kind):
                rows.setdefault(kind, []).append(values)
    return {kind: {"questions": len(row), **_means(row)} for kind, row in rows.items()}


def quality(run: Run) -> Table:
    """Means of every system of a run."""
    return {
        system: means_by_kind((question, reply.pages) for question, reply in zip(run.questions, replies, strict=True))
        for system, replies in run.replies.items()
    }


def lapses(run: Run, system: str) -> dict[str, int]:
    """What of a mode's answers was not as it should be: how many are partial, and how many were ranked by something else
    than most of them, as happens when a reranker takes too long. {} if all is well."""
    replies = run.replies[system]
    ranked = Counter(reply.ranked_by for reply in replies)
    usual = max(ranked, key=lambda name: ranked[name], default="")
    found = {"partial": sum(reply.partial for reply in replies)}
    found |= {f"ranked by {name}": count for name, count in ranked.items() if name != usual}
    return {name: count for name, count in found.items() if count}


def _means(rows: Sequence[dict[str, float]]) -> dict[str, float]:
    return {name: round(fmean(row[name] for row in rows), 4) for name in rows[0]}
