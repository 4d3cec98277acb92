"""Reads the best candidates again with a model, within a time; if that fails, their order stays and the answer says so."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from opx.domain.record import replace
from opx.errors import ModelError
from opx.ports import Candidate, Reranker
from opx.retrieval.asking import Asked
from opx.retrieval.judging import Judged

log = logging.getLogger(__name__)


class RerankStage:
    """Asks a reranker outside of this process. What it says decides the order; how sure the answer is of its first,
    second ... hit stays what the calibrated model says of them, as no model's scores mean the same as another's."""

    def __init__(self, reranker: Reranker, seconds: float) -> None:
        self._reranker = reranker
        self._seconds = seconds

    def reordered(self, asked: Asked, judged: Sequence[Judged]) -> list[Judged]:
        """The first `MAX_CANDIDATES` in the reranker's order, the others behind them; as they were if it fails."""
        from opx.models.candidates import MAX_CANDIDATES

        head, tail = list(judged[:MAX_CANDIDATES]), list(judged[MAX_CANDIDATES:])
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
        from opx.models.candidates import check_range
        from opx.models.deadlines import within

        candidates = [Candidate(one.hit.indexed.chunk.text) for one in head]
        ranking = within(
            self._seconds, lambda: self._reranker.rank(text, candidates, seconds=self._seconds), self._reranker.name
        )
        if len(ranking.scores) != len(head):
            raise ModelError(f"{len(ranking.scores)} scores for {len(head)} candidates")
        check_range(ranking.scores, self._reranker.name)
        return ranking.scores
