"""The shortest way between two things, searched from both."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from opx.domain.graph import Direction, Edge, Route, Walk
from opx.domain.record import replace
from opx.errors import InvalidInputError
from opx.graph.adjacent import is_within
from opx.graph.reads import GraphReads

MOST_HOPS = 6
PLACES_AT_ONCE = 64
_BACK = {Direction.OUT: Direction.IN, Direction.IN: Direction.OUT, Direction.BOTH: Direction.BOTH}


class PathSearch:
    """Goes on from the end with fewer nodes to go on from, a distance at a time, until both ends meet.

    Of several shortest ways it finds the same one each time: the newest edges come first. `most_nodes` bounds what both
    ends reach together.
    """

    def __init__(self, store: GraphReads, scopes: Sequence[str], walk: Walk, most_hops: int) -> None:
        if not 1 <= most_hops <= MOST_HOPS:
            raise InvalidInputError(f"a path may have 1 to {MOST_HOPS} edges, not {most_hops}")
        self._store = store
        self._scopes = scopes
        self._walk = walk
        self._most_hops = most_hops

    def find(self, source: str, target: str) -> Route:
        if source == target:
            return Route(source, target, ())
        direct = self._direct(source, target)
        if direct:
            return Route(source, target, (direct,))
        ends = _End(source, self._walk), _End(target, replace(self._walk, direction=_BACK[self._walk.direction]))
        for _ in range(self._most_hops):
            if any(not end.level and not end.cut for end in ends):
                return Route(source, target, None)  # all around one end was seen, whatever is behind the other's bounds
            near = min(ends, key=lambda end: len(end.level) or math.inf)  # the source, if both are alike
            far = ends[1] if near is ends[0] else ends[0]
            met = self._grow(near, far)
            if met:
                return Route(source, target, (*ends[0].way(met), *reversed(ends[1].way(met))), _cut(ends))
        return Route(source, target, None, _cut(ends))

    def _direct(self, source: str, target: str) -> Edge | None:
        """An edge between the two: of two things with very many edges neither would show it."""
        walk = self._walk
        for edge in self._store.between(self._scopes, source, target):
            along = walk.direction is Direction.BOTH or (edge.source == source) == (walk.direction is Direction.OUT)
            wanted = not walk.edge_types or edge.edge_type in walk.edge_types
            if along and wanted and is_within(edge, walk):
                return edge
        return None

    def _grow(self, near: _End, far: _End) -> str:
        """Go one edge further from the near end; returns where it met the other, or ""."""
        level, near.level = near.level, []
        for start in range(0, len(level), PLACES_AT_ONCE):
            keys = level[start : start + PLACES_AT_ONCE]
            if len(near.steps) + len(far.steps) >= self._walk.most_nodes:
                near.cut.update(dict.fromkeys(keys))
                continue
            adjacent = self._store.edges_of(self._scopes, keys, near.walk)
            for key in keys:
                edges, more = adjacent.get(key, ([], False))
                if more:
                    near.cut[key] = None
                met = next((one for one in near.follow(key, edges) if one in far.steps), "")
                if met:
                    return met
        return ""


def _cut(ends: Iterable[_End]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(key for end in ends for key in end.cut))


class _End:
    """What was reached from one end: of each node the edge that led to it, and from where."""

    def __init__(self, start: str, walk: Walk) -> None:
        self.walk = walk
        self.steps: dict[str, tuple[str, Edge] | None] = {start: None}
        self.level = [start]
        self.cut: dict[str, None] = {}

    def follow(self, key: str, edges: Sequence[Edge]) -> list[str]:
        """The nodes that are new."""
        new = []
        for edge in edges:
            other = edge.other(key)
            if other not in self.steps:
                self.steps[other] = (key, edge)
                new.append(other)
        self.level.extend(new)
        return new

    def way(self, key: str) -> list[Edge]:
        """The edges from the start to this node."""
        way: list[Edge] = []
        step = self.steps[key]
        while step:
            key, edge = step
            way.append(edge)
            step = self.steps[key]
        return way[::-1]
