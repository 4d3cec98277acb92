"""Which answers show that knowledge is missing."""

from __future__ import annotations

from opx.domain.queries import QueryConfig
from opx.domain.results import Answer
from opx.records.gaps.likeness import is_empty
from opx.retrieval.query import INDEX_DOWN, NO_TIER

FLOOR = QueryConfig().min_confidence
"""Who asks for more than this and doesn't get it has found no gap."""


def is_gap(query: str, config: QueryConfig, answer: Answer) -> bool:
    """Whether everything was searched and nothing is good enough.

    Not if only one document was searched, or a time that is over, or if more was asked of the answer than usual.
    """
    nothing_searched = answer.partial or {INDEX_DOWN, NO_TIER} & set(answer.notes)
    if answer.results or nothing_searched or config.document_id or config.as_of or is_empty(query):
        return False
    nearest = answer.best_rejected
    return nearest is None or nearest.confidence < FLOOR
