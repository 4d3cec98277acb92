"""Walks along relations: what is around a thing, and how two things are connected."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from opx.domain.graph import Edge, EdgeName, Reached, Route, Subgraph, Walk
from opx.errors import InvalidInputError
from opx.graph.contradictions import contradicting
from opx.graph.paths import MOST_HOPS, PathSearch
from opx.graph.reads import GraphReads

PLACES_AT_ONCE = 64
FEWEST_AT_ONCE = 8


class Traversal:
    """Walks within scopes (their keys). All bounds of a `Walk` hold; a cycle is walked once."""

    def __init__(self, store: GraphReads, scopes: Sequence[str]) -> None:
        self._store = store
        self._scopes = tuple(scopes)

    def walk(self, starts: Iterable[str], walk: Walk) -> Subgraph:
        """What is reached from these nodes, breadth first; starts that don't exist are left out.

        From a node the newest edges are followed. `edges` are all that were found between what was reached. Raises
        `InvalidInputError` for times that aren't, and `StoreUnavailableError`.
        """
        found = _Found(walk.most_nodes)
        level = list(dict.fromkeys(starts))
        if len(level) > walk.most_nodes:
            raise InvalidInputError(f"{len(level):,} starts are too many for a walk to {walk.most_nodes:,} nodes")
        for distance in range(walk.hops):
            level = self._level(level, walk, found, distance)
        return found.subgraph()

    def path(self, source: str, target: str, *, walk: Walk | None = None, most_hops: int = MOST_HOPS) -> Route:
        """The shortest way from one node to another over at most `most_hops` (1 to 6) edges in the direction of `walk`,
        searched from both ends. Raises `InvalidInputError`."""
        return PathSearch(self._store, self._scopes, walk or PATH_WALK, most_hops).find(source, target)

    def _level(self, level: Sequence[str], walk: Walk, found: _Found, distance: int) -> list[str]:
        """Follow the edges of these nodes; returns those that were new."""
        following: list[str] = []
        rest = list(level)
        while rest:
            if distance and found.is_full:
                found.cut.update(dict.fromkeys(rest))
                break
            # As many as may fill the walk: places are read for nothing else
            count = min(max(4 * found.room // walk.fan_out, FEWEST_AT_ONCE), PLACES_AT_ONCE)
            keys, rest = rest[:count], rest[count:]
            adjacent = self._store.edges_of(self._scopes, keys, walk)
            if not distance:
                found.start(key for key in keys if key in adjacent)
            for key in keys:
                if key in adjacent:
                    following.extend(found.follow(key, *adjacent[key]))
        return following


PATH_WALK = Walk(fan_out=200, most_nodes=5_000)


class _Found:
    """What was reached so far."""

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
        """Take these edges of a node that was reached; gives the nodes that are new."""
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
