"""Walks along edges: the neighbourhood of a node, shortest paths, contradictions, and parsing of a walk's options."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence

from opx.domain.graph import MAX_FAN_OUT, MAX_NODES, Direction, Edge, EdgeName, Reached, Route, Subgraph, Walk
from opx.domain.ids import first_day, iso_time, utc_time
from opx.domain.record import replace
from opx.errors import InvalidInputError
from opx.graph.partitions import is_within
from opx.graph.views import GraphReads

# -- paths

MOST_HOPS = 6
PATH_WALK = Walk(fan_out=200, most_nodes=5_000)
KEYS_AT_ONCE = 64
MIN_KEYS_AT_ONCE = 8
"""Nodes whose edges are read together."""

_BACK = {Direction.OUT: Direction.IN, Direction.IN: Direction.OUT, Direction.BOTH: Direction.BOTH}


class PathSearch:
    """Bidirectional breadth-first search: expands the end with the smaller frontier until both ends meet.

    Of several shortest paths it finds the same one each time: the newest edges come first. `most_nodes` bounds the nodes
    that both ends reach together.
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
                return Route(source, target, None)  # one end is exhausted: bounds of the other end don't matter
            near = min(ends, key=lambda end: len(end.level) or math.inf)  # the source, if both are alike
            far = ends[1] if near is ends[0] else ends[0]
            met = self._grow(near, far)
            if met:
                return Route(source, target, (*ends[0].path_to(met), *reversed(ends[1].path_to(met))), _cut(ends))
        return Route(source, target, None, _cut(ends))

    def _direct(self, source: str, target: str) -> Edge | None:
        """An edge between the two: of two nodes with very many edges neither may list it within the fan-out."""
        walk = self._walk
        for edge in self._store.between(self._scopes, source, target):
            along = walk.direction is Direction.BOTH or (edge.source == source) == (walk.direction is Direction.OUT)
            wanted = not walk.edge_types or edge.edge_type in walk.edge_types
            if along and wanted and is_within(edge, walk):
                return edge
        return None

    def _grow(self, near: _End, far: _End) -> str:
        """Expand the near end by one edge; returns the node where it met the far end, or ""."""
        level, near.level = near.level, []
        for start in range(0, len(level), KEYS_AT_ONCE):
            keys = level[start : start + KEYS_AT_ONCE]
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
    """The nodes reached from one end, each with the edge that led to it and the node before."""

    def __init__(self, start: str, walk: Walk) -> None:
        self.walk = walk
        self.steps: dict[str, tuple[str, Edge] | None] = {start: None}
        self.level = [start]
        self.cut: dict[str, None] = {}

    def follow(self, key: str, edges: Sequence[Edge]) -> list[str]:
        """Record these edges of a node; returns the nodes that are new."""
        new = []
        for edge in edges:
            other = edge.other(key)
            if other not in self.steps:
                self.steps[other] = (key, edge)
                new.append(other)
        self.level.extend(new)
        return new

    def path_to(self, key: str) -> list[Edge]:
        """The edges from the start to this node."""
        path: list[Edge] = []
        step = self.steps[key]
        while step:
            key, edge = step
            path.append(edge)
            step = self.steps[key]
        return path[::-1]


# -- neighbourhood


class Traversal:
    """Walks within scopes (their keys) and the bounds of a `Walk`; a cycle is walked once."""

    def __init__(self, store: GraphReads, scopes: Sequence[str]) -> None:
        self._store = store
        self._scopes = tuple(scopes)

    def walk(self, starts: Iterable[str], walk: Walk) -> Subgraph:
        """The nodes reached from these starts, breadth first; starts that don't exist are left out.

        From each node the newest edges are followed. `edges` are all edges that were found between reached nodes. Raises
        `InvalidInputError` for invalid times, and `StoreUnavailableError`.
        """
        found = _Found(walk.most_nodes)
        level = list(dict.fromkeys(starts))
        if len(level) > walk.most_nodes:
            raise InvalidInputError(f"{len(level):,} starts are too many for a walk to {walk.most_nodes:,} nodes")
        for distance in range(walk.hops):
            level = self._level(level, walk, found, distance)
        return found.subgraph()

    def path(self, source: str, target: str, *, walk: Walk | None = None, most_hops: int = MOST_HOPS) -> Route:
        """The shortest path from one node to another over at most `most_hops` (1 to 6) edges in the direction of `walk`,
        searched from both ends. Raises `InvalidInputError`."""
        return PathSearch(self._store, self._scopes, walk or PATH_WALK, most_hops).find(source, target)

    def _level(self, level: Sequence[str], walk: Walk, found: _Found, distance: int) -> list[str]:
        """Follow the edges of these nodes; returns the nodes that are new."""
        following: list[str] = []
        rest = list(level)
        while rest:
            if distance and found.is_full:
                found.cut.update(dict.fromkeys(rest))
                break
            # no more than may fill the walk, so that no partition is read for nothing
            count = min(max(4 * found.room // walk.fan_out, MIN_KEYS_AT_ONCE), KEYS_AT_ONCE)
            keys, rest = rest[:count], rest[count:]
            adjacent = self._store.edges_of(self._scopes, keys, walk)
            if not distance:
                found.start(key for key in keys if key in adjacent)
            for key in keys:
                if key in adjacent:
                    following.extend(found.follow(key, *adjacent[key]))
        return following


class _Found:
    """Nodes and edges that a walk has reached so far."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._reached: dict[str, Reached] = {}
        self._edges: dict[EdgeName, Edge] = {}
        self.cut: dict[str, None] = {}

    @property
    def room(self) -> int:
        return self._most - len(self._reached)

    @property
    def is_full(self) -> bool:
        return self.room <= 0

    def start(self, keys: Iterable[str]) -> None:
        self._reached.update({key: Reached(key, 0) for key in keys})

    def follow(self, key: str, edges: Iterable[Edge], more: bool) -> Iterator[str]:
        """Add these edges of a reached node; yields the nodes that are new."""
        if more:
            self.cut[key] = None
        here = self._reached[key]
        for edge in edges:
            other = edge.other(key)
            if other not in self._reached:
                if self.is_full:
                    self.cut[key] = None
                    continue
                self._reached[other] = Reached(other, here.distance + 1, (*here.path, edge))
                yield other
            self._edges.setdefault(edge.name, edge)

    def subgraph(self) -> Subgraph:
        edges = tuple(self._edges.values())
        return Subgraph(tuple(self._reached.values()), edges, tuple(self.cut), contradicting(edges))


# -- contradictions

ONE_WAY = frozenset((
    "blocks", "caused", "contains", "creates", "depends_on", "extends", "fixes", "hosted_on", "instance_of", "owned_by",
    "parent", "resolved_by",
))  # fmt: skip
"""Edge types that hold between two nodes in one direction at most."""


def contradicting(edges: Iterable[Edge]) -> tuple[tuple[Edge, Edge], ...]:
    """Pairs of edges that contradict each other. Both are kept: readers judge by their evidence."""
    known = {edge.name: edge for edge in edges if edge.edge_type in ONE_WAY}
    pairs = (
        (edge, known.get((target, kind, source))) for (source, kind, target), edge in known.items() if source < target
    )
    return tuple((edge, back) for edge, back in pairs if back)


# -- options of a walk

MAX_SHOWN = 500
"""Nodes or edges in one answer."""

MAX_FOUND = 200
"""Nodes found by the beginning of a name."""

_AGO = re.compile(r"([1-9][0-9]{0,4})([mhdw])\Z")
_SECONDS = {"m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}
_DAY = re.compile(r"\d{4}-\d\d-\d\d\Z")


def walk_of(
    *,
    now: float,
    hops: int = 1,
    direction: str = Direction.BOTH.value,
    edge_types: Sequence[str] = (),
    since: str = "",
    until: str = "",
    limit: int | None = None,
) -> Walk:
    """A walk to at most `limit` nodes besides its start; without a limit, to the default number. Raises
    `InvalidInputError`."""
    if direction not in tuple(Direction):
        raise InvalidInputError(f"direction must be one of {', '.join(Direction)}, not {direction[:50]!r}")
    default = Walk()
    return Walk(
        hops=hops,
        direction=Direction(direction),
        edge_types=tuple(edge_types),
        fan_out=min(MAX_FAN_OUT, max(default.fan_out, limit or 0)),
        most_nodes=default.most_nodes if limit is None else min(MAX_NODES, limit + 1),
        since=since_when(since, now),
        until=until_when(until, now),
    )


def since_when(text: str, now: float) -> str:
    """The beginning of a time range in ISO 8601 UTC, from `1d` (before `now`), a day or a time; "" for "". Raises
    `InvalidInputError`."""
    return _moment(text.strip(), now, "00:00:00")


def until_when(text: str, now: float) -> str:
    """The end of a time range, likewise; of a day, its last second."""
    return _moment(text.strip(), now, "23:59:59")


def _moment(text: str, now: float, time_of_day: str) -> str:
    if not text:
        return ""
    if ago := _AGO.match(text):
        return iso_time(max(0.0, now - int(ago[1]) * _SECONDS[ago[2]]))
    if _DAY.match(text) and first_day(text) is not None:
        return f"{text}T{time_of_day}Z"
    if (found := utc_time(text)) is not None:
        return found
    raise InvalidInputError(
        f"{text[:50]!r} is not a time: write how long ago (30m, 12h, 1d, 2w), a day (2026-03-31) "
        "or a time (2026-03-31T10:00:00Z)"
    )
