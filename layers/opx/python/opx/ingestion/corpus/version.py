"""Version counters: of the corpus, where the search service counts no changes, and of the graph's incarnation."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

from opx.errors import ConditionFailedError, StoreUnavailableError
from opx.ports import (
    Clock,
    Condition,
    DocumentChange,
    Equals,
    HeldDocument,
    KeyAbsent,
    SearchFilter,
    SearchIndex,
    SearchRequest,
    SearchResponse,
    Table,
)
from opx.ports.search import CorpusState

SETTLING_SECONDS = 20
"""Time for which a counted change may not be found yet: OpenSearch Serverless shows it after up to 15 seconds, and the
clocks of two functions differ a little."""

_KEY = {"documentId": "#corpus", "entry": "version"}
"""Key in the table of documents, to which ingestion has write access, and search read access. No document has such an id,
and no index has the item."""

_ATTEMPTS = 50
"""Each failed attempt means that another writer succeeded: far more than there are writers."""


class CorpusCount:
    """A `CorpusVersion` in the table of documents. A read costs one item."""

    def __init__(self, table: Table, clock: Clock) -> None:
        self._table = table
        self._clock = clock

    def current(self) -> CorpusState:
        item = self._table.get(_KEY)
        if item is None:
            return CorpusState("0")
        return CorpusState(str(item["count"]), self._clock() >= item["changedAt"] + SETTLING_SECONDS)

    def advance(self) -> None:
        """Counts one more change; concurrent writers are all counted. Raises `StoreUnavailableError`."""
        for _ in range(_ATTEMPTS):
            stored = self._table.get(_KEY)
            count = stored["count"] if stored else 0
            now = max(self._clock(), stored["changedAt"]) if stored else self._clock()
            unchanged: Condition = Equals("count", count) if stored else KeyAbsent()
            item = {**_KEY, "count": count + 1, "changedAt": now}
            try:
                self._table.put(item, condition=unchanged)
            except ConditionFailedError:
                continue
            return
        raise StoreUnavailableError("can't count a change of the corpus: too many concurrent writers")


# -- incarnation of the graph


_GRAPH_KEY = {"place": "#graph", "entry": "incarnation"}
"""No scope and no reference has this prefix."""


def incarnation(table: Table) -> str:
    """The random name of the graph in this table; created if missing. Raises `StoreUnavailableError`."""
    item = table.get(_GRAPH_KEY)
    if item is None or "token" not in item:
        with suppress(ConditionFailedError):  # another process was first
            table.put({**_GRAPH_KEY, "token": secrets.token_hex(8)}, condition=KeyAbsent("token"))
        item = table.get(_GRAPH_KEY)
    return str(item["token"]) if item else ""


def renew(table: Table) -> None:
    """Renames the graph: all documents count as missing in it. Raises `StoreUnavailableError`."""
    table.put({**_GRAPH_KEY, "token": secrets.token_hex(8)})


# -- counted index


class CountedIndex:
    """A `SearchIndex` that counts each batch of changes after it was applied.

    If a process ends between the two, the documents of the batch are not recorded as ingested: they are applied again, and
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
            with suppress(StoreUnavailableError):  # the first error is more specific
                self._corpus.advance()  # some of the changes may be found
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
