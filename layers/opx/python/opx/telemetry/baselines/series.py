"""Which series a scope has, and how many it may have."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from opx.domain.ids import stable_hash
from opx.ports import Item, Table
from opx.telemetry.baselines.items import Series, expiry_of
from opx.telemetry.baselines.windows import day_of

MAX_SERIES = 10_000
"""Of a scope. A metric that has a request's id in its name would make a series a request."""

SCOPES = "#scopes"
"""The partition with an item a scope. No scope has this key."""

_SERIES = "#series"


class SeriesRegistry:
    """A note for each series that has values, which goes when its last day does."""

    def __init__(self, table: Table, *, most: int = MAX_SERIES) -> None:
        self._table = table
        self.most = most

    def known(self, wanted: Iterable[Series]) -> dict[Series, Item]:
        """The notes that there are."""
        by_key = {(series_partition(one.scope_key), _sort(one)): one for one in wanted}
        found = self._table.get_many([_key(one) for one in by_key.values()])
        return {by_key[item["seriesKey"], item["day"]]: item for item in found}

    def room(self, scope_key: str) -> int:
        """How many more series the scope may have. Reads all of its notes."""
        return self.most - sum(1 for _ in self._table.query(series_partition(scope_key), limit=self.most))

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
        """Keep notes, and that their scopes have some."""
        scopes = dict.fromkeys(str(note["seriesKey"]).removesuffix(_SERIES) for note in notes)
        self._table.put_many([*map(scope_note, scopes), *notes])

    def of(self, scope_key: str) -> Iterator[Item]:
        return self._table.query(series_partition(scope_key))


def scope_note(scope_key: str) -> Item:
    """Says that a scope has or had baselines, so that all of a client's can be found."""
    return {"seriesKey": SCOPES, "day": scope_key}


def series_partition(scope_key: str) -> str:
    """Where the notes of a scope are."""
    return f"{scope_key}{_SERIES}"


def _sort(series: Series) -> str:
    return stable_hash("series", series.node, series.metric)


def _key(series: Series) -> dict[str, Any]:
    return {"seriesKey": series_partition(series.scope_key), "day": _sort(series)}
