"""What is past its day: it is not shown any more, also while it waits to be removed."""

from __future__ import annotations

from collections.abc import Callable

from opx.domain.documents import KnowledgeDocument, expiry_day, expiry_of
from opx.domain.knowledge import PATTERNS_CATEGORY, KnowledgeModel
from opx.domain.results import IndexedChunk
from opx.domain.times import iso_time
from opx.ports import Clock

DAY = len("2026-03-31")


class Validity:
    """Judges hits by today's policies. Patterns are left to those who know when each last worked."""

    def __init__(self, knowledge: KnowledgeModel, clock: Clock) -> None:
        self._knowledge = knowledge
        self._clock = clock

    def day(self, as_of: str = "") -> str:
        """The day of a question: that of the time it is about, or today's."""
        return (as_of or iso_time(self._clock()))[:DAY]

    def on(self, day: str) -> Callable[[IndexedChunk], bool]:
        """Whether a hit may be shown on a day: if it doesn't expire before, or on it."""

        def valid(indexed: IndexedChunk) -> bool:
            category = indexed.chunk.category
            expires = indexed.expires
            if not expires and category != PATTERNS_CATEGORY:
                expires = expiry_of(category, indexed.last_updated, self._knowledge)
            return not expires or day < expires

        return valid


def expired_since(document: KnowledgeDocument, knowledge: KnowledgeModel, now: str) -> str:
    """The day from which on a document is not to be shown, if that has come; "" for one that may be."""
    if document.category == PATTERNS_CATEGORY and not document.expires:
        return ""
    expires = expiry_day(document, knowledge)
    return expires if expires and expires <= now[:DAY] else ""
