"""A version of the corpus where the search service has none: an item that is counted up after each batch of changes."""

from __future__ import annotations

from opx.errors import ConditionFailedError, StoreUnavailableError
from opx.ports import Absent, Clock, Condition, Equals, Table
from opx.ports.search import CorpusState

SETTLING_SECONDS = 20
"""How long a change may be counted and not found: OpenSearch Serverless shows it after up to 15 seconds, and the clocks
of two functions differ a little."""

_KEY = {"documentId": "#corpus", "entry": "version"}
"""In the table of documents, which whoever takes documents in writes, and whoever searches reads. No document has such
an id, and no index has the item."""

_ATTEMPTS = 50
"""Each failed one means that another writer got through: far more than there are writers."""


class CorpusCount:
    """A `CorpusVersion` in the table of documents. Reading it costs one read of an item."""

    def __init__(self, table: Table, clock: Clock) -> None:
        self._table = table
        self._clock = clock

    def current(self) -> CorpusState:
        item = self._table.get(_KEY)
        if item is None:
            return CorpusState("0")
        return CorpusState(str(item["count"]), self._clock() >= item["changedAt"] + SETTLING_SECONDS)

    def advance(self) -> None:
        """Count one more change. Of writers at the same time each is counted. Raises `StoreUnavailableError`."""
        for _ in range(_ATTEMPTS):
            stored = self._table.get(_KEY)
            count = stored["count"] if stored else 0
            now = max(self._clock(), stored["changedAt"]) if stored else self._clock()
            unchanged: Condition = Equals("count", count) if stored else Absent()
            item = {**_KEY, "count": count + 1, "changedAt": now}
            try:
                self._table.put(item, condition=unchanged)
            except ConditionFailedError:
                continue
            return
        raise StoreUnavailableError("can't count a change of the corpus: too many others do at the same time")
