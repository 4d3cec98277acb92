"""Walks of a reader's graph from several things at once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from opx.domain.graph import MAX_FAN_OUT, MAX_NODES, Direction, Edge, Subgraph, Walk
from opx.graph.traversal import Traversal

if TYPE_CHECKING:
    from opx.graph.knowledge_graph import KnowledgeGraph


def walked(graph: KnowledgeGraph, starts: Iterable[str], walk: Walk) -> Subgraph:
    """From these references, which are canonical ones. Raises `StoreUnavailableError`."""
    found = list(dict.fromkeys(starts))
    return Traversal(graph.store, graph.reader.visible).walk(found, walk) if found else Subgraph()


def along(hops: int, direction: Direction, *edge_types: str, since: str = "", until: str = "") -> Walk:
    """A walk that leaves out as little as one may."""
    return Walk(hops, direction, edge_types, MAX_FAN_OUT, MAX_NODES, since, until)


def is_a(key: str, *namespaces: str) -> bool:
    return key.partition(":")[0] in namespaces


def paths_of(found: Subgraph) -> dict[str, tuple[Edge, ...]]:
    """By which relations each thing was reached; the starts by none."""
    return {one.key: one.path for one in found.reached}
