"""The newest relations of one place in the table, without reading all of a place with very many."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from opx.domain.graph import Edge, Walk
from opx.errors import InvalidInputError
from opx.graph.when import moment
from opx.ports import Item, KeyRange, Table

LAST = "\U0010ffff"
MOST_TYPES = 64
"""Types of relations that are told apart in one place; of further ones the edges are left out, and said to be."""

MOST_ROWS = 1_000
"""Statements of one type that are read of one place."""


@dataclass(slots=True)
class Found:
    """Rows of edges, and whether there are more."""

    rows: list[Item] = field(default_factory=list)
    more: bool = False


class AdjacentRows:
    """Reads the rows of edges by one end."""

    def __init__(self, table: Table, walk: Walk) -> None:
        self._table = table
        self._types = tuple(dict.fromkeys(walk.edge_types))
        self._since, self._until = window(walk)
        self._first = 2 * walk.fan_out
        self._most = min(4 * walk.fan_out, MOST_ROWS)

    def read(self, place: str, index: str) -> Found:
        """A place with few rows is read in one go. Of others, each type is asked for its newest."""
        if self._types:
            return self._of_types(place, index, self._types)
        rows = list(self._table.query(place, index=index, reverse=True, limit=self._first + 1))
        if len(rows) <= self._first:
            return Found([row for row in rows if self._since <= str(row["at"]) <= self._until])
        return self._of_types(place, index, self._all_types(place, index))

    def _of_types(self, place: str, index: str, types: Sequence[str]) -> Found:
        found = Found(more=len(types) > MOST_TYPES)
        for edge_type in types[:MOST_TYPES]:
            rows = list(
                self._table.query(place, index=index, where=self._window(edge_type), reverse=True, limit=self._most + 1)
            )
            found.rows.extend(rows[: self._most])
            found.more = found.more or len(rows) > self._most
        return found

    def _all_types(self, place: str, index: str) -> list[str]:
        """From the last one on, each by a query for what sorts before the one that was found."""
        types: list[str] = []
        where = None
        while len(types) <= MOST_TYPES:
            last = next(iter(self._table.query(place, index=index, where=where, reverse=True, limit=1)), None)
            if last is None:
                break
            types.append(str(last["edgeType"]))
            where = KeyRange(high=types[-1])  # before all of it: in an index there is a # behind the type
        return types

    def _window(self, edge_type: str) -> KeyRange:
        return KeyRange(low=f"{edge_type}#{self._since}", high=f"{edge_type}#{self._until}")


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
