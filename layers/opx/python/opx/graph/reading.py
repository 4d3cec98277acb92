"""Reads the graph's table within scopes."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import merge
from itertools import groupby, islice, product

from opx.domain.graph import Direction, Edge, Node, Walk
from opx.domain.scopes import scope_of_key
from opx.graph import manifest
from opx.graph.adjacent import AdjacentRows, Found
from opx.graph.joining import MOST_EVIDENCE, edges_of, node_of
from opx.graph.reads import Adjacent
from opx.graph.rows import EDGE, HEAD, NODE, declared_place, ends, place
from opx.ports import Item, KeyRange, Table
from opx.ports.graph import Canonical
from opx.runtime.parallel import Each

INDEXES = {
    Direction.OUT: ("out-index",),
    Direction.IN: ("in-index",),
    Direction.BOTH: ("out-index", "in-index"),
}
MOST_BETWEEN = 200


class TableReads:
    """The reads of `opx.graph.reads.GraphReads`. Heads of places are asked for first, a hundred a call: most scopes know
    nothing of most things."""

    def __init__(self, table: Table, each: Each, canonical: Canonical) -> None:
        self._table = table
        self._each = each
        self._canonical = canonical

    def nodes(self, scopes: Sequence[str], keys: Sequence[str]) -> list[Node]:
        known = self._known(scopes, keys)
        rows: dict[str, list[Item]] = {}
        for (_, key), found in zip(known, self._each(self._statements, known), strict=True):
            rows.setdefault(key, []).extend(found)
        nodes = (node_of(key, rows.get(key, ())) for key in dict.fromkeys(keys))
        return [node for node in nodes if node]

    def edges(self, scopes: Sequence[str], key: str, walk: Walk) -> Adjacent:
        return self.edges_of(scopes, [key], walk).get(key, ([], False))

    def edges_of(self, scopes: Sequence[str], keys: Sequence[str], walk: Walk) -> dict[str, Adjacent]:
        adjacent = AdjacentRows(self._table, walk)
        known = self._known(scopes, keys)
        jobs = list(product(known, INDEXES[walk.direction]))
        answers = self._each(lambda job: adjacent.read(place(*job[0]), job[1]), jobs)
        found: dict[str, list[Found]] = {key: [] for _, key in known}
        for ((_, key), _), answer in zip(jobs, answers, strict=True):
            found[key].append(answer)
        return {key: _newest(found[key], walk.fan_out) for key in dict.fromkeys(keys) if key in found}

    def between(self, scopes: Sequence[str], one: str, other: str) -> list[Edge]:
        jobs = [
            (scope, *pair) for scope in dict.fromkeys(scopes) for pair in dict.fromkeys([(one, other), (other, one)])
        ]
        return edges_of(row for rows in self._each(self._from_to, jobs) for row in rows)

    def references(self, scopes: Sequence[str], chunks: Sequence[tuple[str, str]]) -> dict[str, tuple[str, ...]]:
        found: dict[str, tuple[str, ...]] = {}
        by_scope: dict[str, dict[str, list[str]]] = {}
        for (_, chunk), stated in manifest.read_chunks(self._table, list(dict.fromkeys(chunks))).items():
            if stated.scope_key in scopes:
                keys = sorted({key for mark in stated.marks for key in ends(mark)})
                by_scope.setdefault(stated.scope_key, {})[chunk] = keys
        for scope_key, stated_keys in by_scope.items():
            every = sorted({key for keys in stated_keys.values() for key in keys})
            names = self._canonical(scope_of_key(scope_key), every)
            for chunk, keys in stated_keys.items():
                found[chunk] = tuple(dict.fromkeys(names.get(key, key) for key in keys))
        return {chunk: found[chunk] for _, chunk in chunks if chunk in found}

    def existing(self, scopes: Sequence[str], keys: Sequence[str]) -> dict[str, str]:
        return {key: key for _, key in self._known(scopes, keys)}

    def of_type(
        self,
        scopes: Sequence[str],
        node_type: str,
        *,
        begins_with: str = "",
        after: str = "",
        limit: int = 1_000,
        declared: bool = False,
    ) -> list[Node]:
        where = KeyRange(begins_with=begins_with) if begins_with else KeyRange(low=after) if after else None

        def listed(scope: str) -> list[str]:
            name = declared_place(scope, node_type) if declared else place(scope, node_type)
            most = None if declared else limit + bool(after)  # of a thing that several declare, there are several rows
            items = self._table.query(name, index="type-index", where=where, limit=most)
            keys = (str(item["nodeKey"]) for item in items)
            return list(islice((key for key, _ in groupby(keys) if key > after), limit))

        keys = dict.fromkeys(merge(*self._each(listed, list(dict.fromkeys(scopes)))))
        return [Node(key, node_type, declared=declared) for key in islice(keys, limit)]

    def _known(self, scopes: Sequence[str], keys: Sequence[str]) -> list[tuple[str, str]]:
        """Which scopes have a place for which of these things."""
        wanted = {place(scope, key): (scope, key) for key in dict.fromkeys(keys) for scope in dict.fromkeys(scopes)}
        heads = self._table.get_many([{"place": name, "entry": HEAD} for name in wanted])
        there = {str(head["place"]) for head in heads}
        return [job for name, job in wanted.items() if name in there]

    def _statements(self, job: tuple[str, str]) -> list[Item]:
        """The best of what is said of a thing in one place."""
        where = KeyRange(begins_with=NODE)
        return list(self._table.query(place(*job), where=where, reverse=True, limit=MOST_EVIDENCE))

    def _from_to(self, job: tuple[str, str, str]) -> list[Item]:
        scope, source, target = job
        rows = self._table.query(
            place(scope, source), where=KeyRange(begins_with=f"{EDGE}{target}#"), limit=MOST_BETWEEN
        )
        return [row for row in rows if row["to"] == target]


def _newest(found: Sequence[Found], fan_out: int) -> Adjacent:
    edges = edges_of((row for one in found for row in one.rows), fan_out + 1)
    return edges[:fan_out], len(edges) > fan_out or any(one.more for one in found)
