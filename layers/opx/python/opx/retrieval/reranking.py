"""Reads the best candidates again with a model, within a time; if that fails, their order stays and the answer says so."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from dataclasses import replace

from opx.errors import ModelError
from opx.models.deadlines import within
from opx.ports import Candidate, Reranker
from opx.retrieval.asking import Asked
from opx.retrieval.judging import Judged

log = logging.getLogger(__name__)

CANDIDATES = 20
"""How many hits are read again."""


class RerankStage:
    """Asks a reranker outside of this process. What it says decides the order; how sure the answer is of its first,
    second ... hit stays what the calibrated model says of them, as no model's scores mean the same as another's."""

    def __init__(self, reranker: Reranker, seconds: float) -> None:
        self._reranker = reranker
        self._seconds = seconds

    def reordered(self, asked: Asked, judged: Sequence[Judged]) -> list[Judged]:
        """The first `CANDIDATES` in the reranker's order, the others behind them; as they were if it fails."""
        head, tail = list(judged[:CANDIDATES]), list(judged[CANDIDATES:])
        if not head:
            return tail
        name = self._reranker.name
        try:
            with asked.timed("rerank"):
                scores = self._scores(asked.text, head)
        except ModelError as exc:
            log.warning("reranking with %s failed: %s", name, exc)
            asked.note(f"not reranked by {name} ({exc}): the order is that of {asked.ranked_by}")
            return [*head, *tail]
        asked.ranked_by = name
        order = sorted(range(len(head)), key=lambda at: -scores[at])
        levels = sorted((one.confidence for one in head), reverse=True)
        found = [
            replace(head[at], rerank=scores[at], confidence=level) for at, level in zip(order, levels, strict=True)
        ]
        return [*found, *tail]

    def _scores(self, text: str, head: Sequence[Judged]) -> tuple[float, ...]:
        candidates = [Candidate(one.hit.indexed.chunk.text) for one in head]
        ranking = within(
            self._seconds, lambda: self._reranker.rank(text, candidates, seconds=self._seconds), self._reranker.name
        )
        return checked(ranking.scores, len(head))


def checked(scores: Sequence[float], count: int) -> tuple[float, ...]:
    """The scores. Raises `ModelError` unless there is one in [0, 1] for each candidate."""
    if len(scores) != count:
        raise ModelError(f"{len(scores)} scores for {count} candidates")
    if not all(isinstance(score, int | float) and math.isfinite(score) and 0 <= score <= 1 for score in scores):
        raise ModelError("scores that are not between 0 and 1")
    return tuple(float(score) for score in scores)
