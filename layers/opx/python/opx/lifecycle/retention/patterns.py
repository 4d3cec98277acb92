"""Patterns are kept for as long after they last worked or failed as their category says, whenever their document is from."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from opx.domain.documents import DocumentKey, DocumentState, expiry_of
from opx.domain.knowledge import PATTERNS_CATEGORY, KnowledgeModel
from opx.domain.record import replace
from opx.lifecycle.retention.due import DueVersions, Found, Verdict

if TYPE_CHECKING:
    from opx.ingestion.corpus.calendar import CalendarEntry
    from opx.learning.patterns import PatternStore


class PatternKeeper:
    """Knows when patterns expire, and has them forgotten with their documents."""

    def __init__(self, patterns: Callable[[], PatternStore], knowledge: KnowledgeModel) -> None:
        self._patterns = patterns
        self._knowledge = knowledge

    def day_of(self, found: Found, until: str) -> str:
        """The day on which a pattern expires whose document is due; "" if that is up to `until`, and for any other."""
        document = found.document
        if found.verdict is not Verdict.DUE or document is None or document.state is not DocumentState.CURRENT:
            return ""
        pattern_id = self._pattern_id(document.key, document.category)
        head = self._patterns().head(document.key.scope.key, pattern_id) if pattern_id else None
        expires = expiry_of(PATTERNS_CATEGORY, head.embedded_at, self._knowledge) if head else ""
        return expires if expires > until else ""

    def judged(self, due: DueVersions, entries: Sequence[CalendarEntry]) -> Iterator[Found]:
        """What is to become of each entry, with what is known of patterns."""
        for found in due.judged(entries):
            yield replace(found, verdict=Verdict.LATER) if self.day_of(found, due.until) else found

    def let_go(self, found: Found) -> bool:
        """Forget the pattern whose document is to be removed, before it is: a head without one would not be found again.
        False if it was counted for meanwhile, and stays. True for any other document."""
        document = found.document
        if document is None or document.state is not DocumentState.CURRENT:
            return True
        pattern_id = self._pattern_id(document.key, document.category)
        return not pattern_id or self._patterns().forget(document.key.scope.key, pattern_id)

    def forget(self, key: DocumentKey, category: str) -> None:
        """Remove the counts of a pattern of whose document nothing is left."""
        pattern_id = self._pattern_id(key, category)
        if pattern_id:
            self._patterns().forget(key.scope.key, pattern_id)

    def _pattern_id(self, key: DocumentKey, category: str) -> str:
        return self._patterns().pattern_id_of_source(key.source) if category == PATTERNS_CATEGORY else ""
