"""Writes rows with the head of their partition, and reads edge rows by either end of the edge."""

from __future__ import annotations

import secrets
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from opx.domain.graph import Edge, Walk, node_type
from opx.errors import InvalidInputError
from opx.graph.rows import HEAD, head_row, is_node, key_in_table, moment
from opx.ports import AnyOf, Condition, Equals, Item, KeyRange, Table
from opx.ports.tables import delete_if
from opx.runtime.threads import Each

ROWS_A_WRITE = 100


class Partitions:
    """Writes and deletes rows and maintains the head rows: each partition with a statement about its node has a head, and
    no empty partition keeps one."""

    def __init__(self, table: Table, each: Each) -> None:
        self._table = table
        self._each = each

    def list(self, items: Sequence[Item]) -> None:
        """Write these rows as they are, without heads."""
        parts = [items[start : start + ROWS_A_WRITE] for start in range(0, len(items), ROWS_A_WRITE)]
        self._each(self._table.put_many, parts)

    def put(self, rows: Sequence[Item]) -> None:
        """Write rows, and then the heads of their partitions: in this order, `tidy` can't miss a row."""
        self.list(rows)
        self.put_heads(rows)

    def put_heads(self, rows: Iterable[Item]) -> None:
        heads = {str(row["place"]): row for row in rows if is_node(row)}
        self.list([self._head(row) for row in heads.values()])

    def delete(self, keys: Sequence[Mapping[str, str]], document_ids: Collection[str] | None = None) -> None:
        """Delete these rows; with `document_ids`, only rows of these versions."""
        condition = _of_any(document_ids)
        self._each(lambda key: delete_if(self._table, key, condition), keys)

    def tidy(self, partitions: Iterable[str]) -> None:
        """Delete the heads of partitions that have no other row.

        A writer that adds rows writes the head again after them, with a new token: a head that is unchanged since the
        partition was read as empty can be deleted safely.
        """
        keys = [{"place": name, "entry": HEAD} for name in dict.fromkeys(partitions)]
        self._each(self._tidy, self._table.get_many(keys))

    def _tidy(self, head: Item) -> None:
        if all(row["entry"] == HEAD for row in self._table.query(head["place"], limit=2)):
            delete_if(self._table, key_in_table(head), Equals("token", head["token"]))

    def _head(self, row: Item) -> Item:
        key, stated = str(row["node"]), row["stated"][0]
        kind = str(row["type"]) if key == stated else node_type(key)
        return head_row(str(row["scope"]), key, kind, secrets.token_hex(8))


def _of_any(document_ids: Collection[str] | None) -> Condition | None:
    if document_ids is None:
        return None
    return AnyOf(tuple(Equals("documentId", one) for one in sorted(document_ids)))


# -- adjacent edges

LAST = "\U0010ffff"
MOST_TYPES = 64
"""Edge types that are queried one by one in a partition; edges of further types are left out, and `more` reports that."""

MOST_ROWS = 1_000
"""Statements of one edge type that are read from a partition: many documents may state the same few edges."""

FEWEST_ROWS = 16
"""Statements of one edge type in the first query: more are read of types whose rows are all among the newest."""


@dataclass(slots=True)
class FoundEdges:
    """Edge rows, and a flag for further ones that were not read."""

    rows: list[Item] = field(default_factory=list)
    more: bool = False

    def add(self, other: FoundEdges) -> None:
        self.rows.extend(other.rows)
        self.more = self.more or other.more


class AdjacentRows:
    """Reads edge rows by one end of the edge."""

    def __init__(self, table: Table, walk: Walk) -> None:
        self._table = table
        self._types = tuple(dict.fromkeys(walk.edge_types))
        self._fan_out = walk.fan_out
        self._since, self._until = window(walk)

    def read(self, partition: str, index: str) -> FoundEdges:
        """The newest edge rows of a partition: of small partitions with one query, else with a query per edge type."""
        if self._types:
            return self._of_types(partition, index, self._types)
        most = 2 * self._fan_out
        rows = list(self._table.query(partition, index=index, reverse=True, limit=most + 1))
        last = str(rows[-1]["edgeType"]) if len(rows) > most else ""
        found = FoundEdges(
            [row for row in rows if row["edgeType"] != last and self._since <= str(row["at"]) <= self._until]
        )
        if last:
            found.add(self._of_types(partition, index, [last, *self._types_before(partition, index, last)]))
        return found

    def _of_types(self, partition: str, index: str, types: Sequence[str]) -> FoundEdges:
        """The newest rows of each edge type, as far as they can be among the newest of all types."""
        first = min(self._fan_out, max(FEWEST_ROWS, 2 * self._fan_out // len(types)))
        sizes = dict.fromkeys(types[:MOST_TYPES], first)
        found: dict[str, FoundEdges] = {}
        pending = list(sizes)
        while pending:
            found.update({one: self._newest(partition, index, one, sizes[one]) for one in pending})
            oldest = self._oldest(row for one in found.values() for row in one.rows)
            pending = [
                name
                for name, one in found.items()
                if one.more and sizes[name] < MOST_ROWS and str(one.rows[-1]["at"]) > oldest
            ]
            sizes.update({name: min(4 * sizes[name], MOST_ROWS) for name in pending})
        every = FoundEdges(more=len(types) > MOST_TYPES)
        for one in found.values():
            every.add(one)
        return every

    def _oldest(self, rows: Iterable[Item]) -> str:
        """The time of the oldest edge within the fan-out; "" while there are fewer edges than that."""
        newest: dict[tuple[str, str, str], str] = {}
        for row in rows:
            name = (row["edgeType"], row["from"], row["to"])
            newest[name] = max(newest.get(name, ""), str(row["at"]))
        return sorted(newest.values(), reverse=True)[self._fan_out - 1] if len(newest) >= self._fan_out else ""

    def _newest(self, partition: str, index: str, edge_type: str, most: int) -> FoundEdges:
        where = KeyRange(low=f"{edge_type}#{self._since}", high=f"{edge_type}#{self._until}")
        rows = list(self._table.query(partition, index=index, where=where, reverse=True, limit=most + 1))
        return FoundEdges(rows[:most], len(rows) > most)

    def _types_before(self, partition: str, index: str, edge_type: str) -> list[str]:
        """Edge types that sort before this one, in descending order, with one query per type."""
        types: list[str] = []
        while len(types) <= MOST_TYPES:
            where = KeyRange(high=types[-1] if types else edge_type)  # in an index, there is a # behind a type
            last = next(iter(self._table.query(partition, index=index, where=where, reverse=True, limit=1)), None)
            if last is None:
                break
            types.append(str(last["edgeType"]))
        return types


def window(walk: Walk) -> tuple[str, str]:
    """Bounds of a walk's time range as strings, including the end of a day or year. Raises `InvalidInputError`."""
    return _bound("since", walk.since), _bound("until", walk.until) + LAST


def is_within(edge: Edge, walk: Walk) -> bool:
    """True if one of the edge's statements lies within the time range of the walk."""
    since, until = window(walk)
    return any(since <= one.at <= until for one in edge.evidence)


def _bound(name: str, text: str) -> str:
    found = moment(text)
    if text and not found:
        raise InvalidInputError(f"{name} must be an ISO 8601 time such as 2026-11-21T09:00:00Z, not {text[:50]!r}")
    return found
