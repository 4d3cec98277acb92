"""Which series a scope has, and how many it may have."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from opx.domain.ids import stable_hash
from opx.operations.baselines.items import Series, expiry_of
from opx.operations.baselines.windows import day_of
from opx.ports import Item, Table

MAX_SERIES = 10_000
"""Of a scope. A metric that has a request's id in its name would make a series a request."""


class SeriesRegistry:
    """A note for each series that has values, which goes when its last day does."""

    def __init__(self, table: Table, *, most: int = MAX_SERIES) -> None:
        self._table = table
        self.most = most

    def known(self, wanted: Iterable[Series]) -> dict[Series, Item]:
        """The notes that there are."""
        by_key = {(_partition(one.scope_key), _sort(one)): one for one in wanted}
        found = self._table.get_many([_key(one) for one in by_key.values()])
        return {by_key[item["seriesKey"], item["day"]]: item for item in found}

    def room(self, scope_key: str) -> int:
        """How many more series the scope may have. Reads all of its notes."""
        return self.most - sum(1 for _ in self._table.query(_partition(scope_key), limit=self.most))

    def note(self, series: Series, unit: str, day_start: float, before: Item | None) -> Item:
        """The note of a series that has values of a day."""
        expires, last = expiry_of(day_start), day_of(day_start)
        return {
            **_key(series),
            "node": series.node,
            "metric": series.metric,
            "unit": unit or (before["unit"] if before else ""),
            "lastSeen": max(last, before["lastSeen"]) if before else last,
            "expiresAt": max(expires, int(before["expiresAt"])) if before else expires,
        }

    def put(self, notes: Sequence[Item]) -> None:
        self._table.put_many(notes)

    def of(self, scope_key: str) -> Iterator[Item]:
        return self._table.query(_partition(scope_key))


def _partition(scope_key: str) -> str:
    return f"{scope_key}#series"


def _sort(series: Series) -> str:
    return stable_hash("series", series.node, series.metric)


def _key(series: Series) -> dict[str, Any]:
    return {"seriesKey": _partition(series.scope_key), "day": _sort(series)}
