"""An index that has its changes counted, for search services that have no version of their own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

from opx.errors import StoreUnavailableError
from opx.ingestion.corpus.version import CorpusCount
from opx.ports import DocumentChange, HeldDocument, SearchFilter, SearchIndex, SearchRequest, SearchResponse


class CountedIndex:
    """A `SearchIndex` that counts each batch of changes after it was applied.

    If a process ends between the two, the documents of the batch are not noted as taken in: they are applied again, and
    then counted.
    """

    def __init__(self, index: SearchIndex, corpus: CorpusCount) -> None:
        self._index = index
        self._corpus = corpus

    @property
    def derives_ids(self) -> bool:
        return self._index.derives_ids

    def apply(self, changes: Iterable[DocumentChange]) -> list[list[str]]:
        try:
            written = self._index.apply(changes)
        except StoreUnavailableError:
            with suppress(StoreUnavailableError):  # the first error says more
                self._corpus.advance()  # some of them may be found
            raise
        if written:
            self._corpus.advance()
        return written

    def search(self, request: SearchRequest) -> SearchResponse:
        return self._index.search(request)

    def entries_with(self, terms: Iterable[str], scopes: Sequence[str]) -> Mapping[str, int]:
        return self._index.entries_with(terms, scopes)

    def count(self, where: SearchFilter) -> int:
        return self._index.count(where)

    def references(self, key_id: str) -> list[str]:
        return self._index.references(key_id)

    def held(self, *, after: HeldDocument | None = None, limit: int = 1000) -> list[HeldDocument]:
        return self._index.held(after=after, limit=limit)
