"""The newest relations of one place in the table, without reading all of a place with very many."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from opx.domain.graph import Edge, Walk
from opx.errors import InvalidInputError
from opx.graph.when import moment
from opx.ports import Item, KeyRange, Table

LAST = "\U0010ffff"
MOST_TYPES = 64
"""Types of relations that are told apart in one place; of further ones the edges are left out, and said to be."""

MOST_ROWS = 1_000
"""Statements of one type that are read of one place, where few relations are stated by many documents."""


FEWEST_ROWS = 16
"""Of one type, at first: more are read of those whose rows are all among the newest."""


@dataclass(slots=True)
class Found:
    """Rows of edges, and whether there are more."""

    rows: list[Item] = field(default_factory=list)
    more: bool = False

    def add(self, other: Found) -> None:
        self.rows.extend(other.rows)
        self.more = self.more or other.more


class AdjacentRows:
    """Reads the rows of edges by one end."""

    def __init__(self, table: Table, walk: Walk) -> None:
        self._table = table
        self._types = tuple(dict.fromkeys(walk.edge_types))
        self._fan_out = walk.fan_out
        self._since, self._until = window(walk)

    def read(self, place: str, index: str) -> Found:
        """A place with few rows is read in one go. Of others, each type is asked for its newest."""
        if self._types:
            return self._of_types(place, index, self._types)
        most = 2 * self._fan_out
        rows = list(self._table.query(place, index=index, reverse=True, limit=most + 1))
        last = str(rows[-1]["edgeType"]) if len(rows) > most else ""
        found = Found([row for row in rows if row["edgeType"] != last and self._since <= str(row["at"]) <= self._until])
        if last:
            found.add(self._of_types(place, index, [last, *self._types_before(place, index, last)]))
        return found

    def _of_types(self, place: str, index: str, types: Sequence[str]) -> Found:
        """The newest rows of each type, as far as they can be among the newest of all."""
        first = min(self._fan_out, max(FEWEST_ROWS, 2 * self._fan_out // len(types)))
        sizes = dict.fromkeys(types[:MOST_TYPES], first)
        found: dict[str, Found] = {}
        asked = list(sizes)
        while asked:
            found.update({one: self._newest(place, index, one, sizes[one]) for one in asked})
            oldest = self._oldest(row for one in found.values() for row in one.rows)
            asked = [
                name
                for name, one in found.items()
                if one.more and sizes[name] < MOST_ROWS and str(one.rows[-1]["at"]) > oldest
            ]
            sizes.update({name: min(4 * sizes[name], MOST_ROWS) for name in asked})
        every = Found(more=len(types) > MOST_TYPES)
        for one in found.values():
            every.add(one)
        return every

    def _oldest(self, rows: Iterable[Item]) -> str:
        """The time of the last edge of those that will be followed; "" if there are not so many yet."""
        newest: dict[tuple[str, str, str], str] = {}
        for row in rows:
            name = (row["edgeType"], row["from"], row["to"])
            newest[name] = max(newest.get(name, ""), str(row["at"]))
        return sorted(newest.values(), reverse=True)[self._fan_out - 1] if len(newest) >= self._fan_out else ""

    def _newest(self, place: str, index: str, edge_type: str, most: int) -> Found:
        where = KeyRange(low=f"{edge_type}#{self._since}", high=f"{edge_type}#{self._until}")
        rows = list(self._table.query(place, index=index, where=where, reverse=True, limit=most + 1))
        return Found(rows[:most], len(rows) > most)

    def _types_before(self, place: str, index: str, edge_type: str) -> list[str]:
        """Types that sort before this one, from the last, each by a query for what sorts before the one found."""
        types: list[str] = []
        while len(types) <= MOST_TYPES:
            where = KeyRange(high=types[-1] if types else edge_type)  # in an index, there is a # behind a type
            last = next(iter(self._table.query(place, index=index, where=where, reverse=True, limit=1)), None)
            if last is None:
                break
            types.append(str(last["edgeType"]))
        return types


def window(walk: Walk) -> tuple[str, str]:
    """Between which texts the time of an edge lies: a day's or a year's end is in it. Raises `InvalidInputError`."""
    return _bound("since", walk.since), _bound("until", walk.until) + LAST


def is_within(edge: Edge, walk: Walk) -> bool:
    """Whether one of an edge's statements is of the time that the walk is about."""
    since, until = window(walk)
    return any(since <= one.at <= until for one in edge.evidence)


def _bound(name: str, text: str) -> str:
    found = moment(text)
    if text and not found:
        raise InvalidInputError(f"{name} must be an ISO 8601 time such as 2026-11-21T09:00:00Z, not {text[:50]!r}")
    return found
