"""Places of the graph's table, for those who change them."""

from __future__ import annotations

import secrets
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from opx.domain.graph import Edge, Walk, node_type
from opx.errors import ConditionFailedError, InvalidInputError
from opx.graph.rows import HEAD, head_row, is_node, key_in_table, moment
from opx.ports import AnyOf, Condition, Equals, Item, KeyRange, Table
from opx.runtime.threads import Each

ROWS_A_WRITE = 100


class Partitions:
    """Puts rows and takes them out, and keeps the heads of places: each place with a statement about its thing has one,
    and none is left in an empty place."""

    def __init__(self, table: Table, each: Each) -> None:
        self._table = table
        self._each = each

    def list(self, items: Sequence[Item]) -> None:
        """Write these as they are."""
        parts = [items[start : start + ROWS_A_WRITE] for start in range(0, len(items), ROWS_A_WRITE)]
        self._each(self._table.put_many, parts)

    def put(self, rows: Sequence[Item]) -> None:
        """Write rows, and then the heads of their places: in this order, `tidy` can't miss a row."""
        self.list(rows)
        self.put_heads(rows)

    def put_heads(self, rows: Iterable[Item]) -> None:
        heads = {str(row["place"]): row for row in rows if is_node(row)}
        self.list([self._head(row) for row in heads.values()])

    def delete(self, keys: Sequence[Mapping[str, str]], document_ids: Collection[str] | None = None) -> None:
        """Take these rows out; with `document_ids`, only those that are of these versions."""
        condition = _of_any(document_ids)
        self._each(lambda key: self._delete(key, condition), keys)

    def tidy(self, places: Iterable[str]) -> None:
        """Take the heads out of those of these places that are empty else.

        Who adds to a place writes its head anew, after the rows: a head that is the same as before the place was seen
        to be empty goes with nothing behind it.
        """
        keys = [{"place": name, "entry": HEAD} for name in dict.fromkeys(places)]
        self._each(self._tidy, self._table.get_many(keys))

    def _tidy(self, head: Item) -> None:
        if all(row["entry"] == HEAD for row in self._table.query(head["place"], limit=2)):
            self._delete(key_in_table(head), Equals("token", head["token"]))

    def _delete(self, key: Mapping[str, str], condition: Condition | None) -> None:
        try:
            self._table.delete(key, condition=condition)
        except ConditionFailedError:
            return  # another's by now

    def _head(self, row: Item) -> Item:
        key, stated = str(row["node"]), row["stated"][0]
        kind = str(row["type"]) if key == stated else node_type(key)
        return head_row(str(row["scope"]), key, kind, secrets.token_hex(8))


def _of_any(document_ids: Collection[str] | None) -> Condition | None:
    if document_ids is None:
        return None
    return AnyOf(tuple(Equals("documentId", one) for one in sorted(document_ids)))


# -- adjacent


LAST = "\U0010ffff"
MOST_TYPES = 64
"""Types of relations that are told apart in one place; of further ones the edges are left out, and said to be."""

MOST_ROWS = 1_000
"""Statements of one type that are read of one place, where few relations are stated by many documents."""


FEWEST_ROWS = 16
"""Of one type, at first: more are read of those whose rows are all among the newest."""


@dataclass(slots=True)
class FoundEdges:
    """Rows of edges, and whether there are more."""

    rows: list[Item] = field(default_factory=list)
    more: bool = False

    def add(self, other: FoundEdges) -> None:
        self.rows.extend(other.rows)
        self.more = self.more or other.more


class AdjacentRows:
    """Reads the rows of edges by one end."""

    def __init__(self, table: Table, walk: Walk) -> None:
        self._table = table
        self._types = tuple(dict.fromkeys(walk.edge_types))
        self._fan_out = walk.fan_out
        self._since, self._until = window(walk)

    def read(self, place: str, index: str) -> FoundEdges:
        """A place with few rows is read in one go. Of others, each type is asked for its newest."""
        if self._types:
            return self._of_types(place, index, self._types)
        most = 2 * self._fan_out
        rows = list(self._table.query(place, index=index, reverse=True, limit=most + 1))
        last = str(rows[-1]["edgeType"]) if len(rows) > most else ""
        found = FoundEdges(
            [row for row in rows if row["edgeType"] != last and self._since <= str(row["at"]) <= self._until]
        )
        if last:
            found.add(self._of_types(place, index, [last, *self._types_before(place, index, last)]))
        return found

    def _of_types(self, place: str, index: str, types: Sequence[str]) -> FoundEdges:
        """The newest rows of each type, as far as they can be among the newest of all."""
        first = min(self._fan_out, max(FEWEST_ROWS, 2 * self._fan_out // len(types)))
        sizes = dict.fromkeys(types[:MOST_TYPES], first)
        found: dict[str, FoundEdges] = {}
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
        every = FoundEdges(more=len(types) > MOST_TYPES)
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

    def _newest(self, place: str, index: str, edge_type: str, most: int) -> FoundEdges:
        where = KeyRange(low=f"{edge_type}#{self._since}", high=f"{edge_type}#{self._until}")
        rows = list(self._table.query(place, index=index, where=where, reverse=True, limit=most + 1))
        return FoundEdges(rows[:most], len(rows) > most)

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
