"""Version counters: of the corpus, where the search service counts no changes, and of the graph's incarnation."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress

from opx.errors import StoreUnavailableError
from opx.ports import (
    Clock,
    DocumentChange,
    Equals,
    KeyAbsent,
    SearchIndex,
    Table,
)
from opx.ports.search import CorpusState, WrappedIndex
from opx.ports.tables import SHARDS, put_if

SETTLING_SECONDS = 20
"""Time for which a counted change may not be found yet: OpenSearch Serverless shows it after up to 15 seconds, and the
clocks of two functions differ a little."""

_KEYS = [{"documentId": f"#corpus#{number}" if number else "#corpus", "entry": "version"} for number in range(SHARDS)]
"""Keys in the table of documents, to which ingestion has write access, and search read access. No document has such an id,
and no index has the items. Several, so that many writers don't wait for one another."""

_ATTEMPTS = 50
"""Each failed attempt means that another writer succeeded: far more than there are writers of an item."""


class CorpusCount:
    """A `CorpusVersion` in the table of documents: a few counters. A read costs their items.

    A counter is written only if nobody else has written it since it was read, so that no change is counted twice or lost; a
    writer that was too late goes on to another one. The first writer makes all of them: else the number that a reader reads
    would depend on how often others write.
    """

    def __init__(self, table: Table, clock: Clock, *, choose: Callable[[int], int] = secrets.randbelow) -> None:
        self._table = table
        self._clock = clock
        self._choose = choose

    def current(self) -> CorpusState:
        """The state now. The version names each counter up to the last one that counted something: they are not read at one
        moment, so that their sum could be the same for two states."""
        items = {str(item["documentId"]): item for item in self._table.get_many(_KEYS)}
        if not items:
            return CorpusState("0")
        counts = [items[name]["count"] if (name := key["documentId"]) in items else 0 for key in _KEYS]
        last = max((number for number, count in enumerate(counts) if count), default=0)
        changed = max(item["changedAt"] for item in items.values())
        return CorpusState(".".join(map(str, counts[: last + 1])), self._clock() >= changed + SETTLING_SECONDS)

    def advance(self) -> None:
        """Counts one more change; concurrent writers are all counted. Raises `StoreUnavailableError`."""
        first = self._choose(SHARDS)
        if not any(self._advanced(_KEYS[(first + attempt) % SHARDS]) for attempt in range(_ATTEMPTS)):
            raise StoreUnavailableError("can't count a change of the corpus: too many concurrent writers")

    def _advanced(self, key: Mapping[str, str]) -> bool:
        """False if another writer was faster."""
        stored = self._table.get(key)
        if stored is None:
            self._make()
        count, changed = (stored["count"], stored["changedAt"]) if stored else (0, 0.0)
        item = {**key, "count": count + 1, "changedAt": max(self._clock(), changed)}
        return put_if(self._table, item, Equals("count", count))

    def _make(self) -> None:
        for key in _KEYS:
            put_if(self._table, {**key, "count": 0, "changedAt": 0.0}, KeyAbsent())  # unless another writer did


# -- incarnation of the graph


_GRAPH_KEY = {"place": "#graph", "entry": "incarnation"}
"""No scope and no reference has this prefix."""


def incarnation(table: Table) -> str:
    """The random name of the graph in this table; created if missing. Raises `StoreUnavailableError`."""
    item = table.get(_GRAPH_KEY)
    if item is None or "token" not in item:
        put_if(table, {**_GRAPH_KEY, "token": secrets.token_hex(8)}, KeyAbsent("token"))  # unless another process did
        item = table.get(_GRAPH_KEY)
    return str(item["token"]) if item else ""


def renew(table: Table) -> None:
    """Renames the graph: all documents count as missing in it. Raises `StoreUnavailableError`."""
    table.put({**_GRAPH_KEY, "token": secrets.token_hex(8)})


# -- counted index


class CountedIndex(WrappedIndex):
    """A `SearchIndex` that counts each batch of changes after it was applied.

    If a process ends between the two, the documents of the batch are not recorded as ingested: they are applied again, and
    then counted.
    """

    def __init__(self, index: SearchIndex, corpus: CorpusCount) -> None:
        super().__init__(lambda: index)
        self._corpus = corpus

    def apply(self, changes: Iterable[DocumentChange]) -> list[list[str]]:
        try:
            written = super().apply(changes)
        except StoreUnavailableError:
            with suppress(StoreUnavailableError):  # the first error is more specific
                self._corpus.advance()  # some of the changes may be found
            raise
        if written:
            self._corpus.advance()
        return written
