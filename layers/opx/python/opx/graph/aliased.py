"""Resolves aliases at read time: wraps `GraphReads` and joins the nodes and edges of all names of a node."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import product

from opx.domain.graph import Edge, GraphEvidence, Node, Walk
from opx.domain.graph import node_type as type_of
from opx.domain.record import replace
from opx.graph.alias_rows import AliasView
from opx.graph.aliases import AliasRegistry
from opx.graph.rows import of_best, of_relation
from opx.graph.views import Adjacent, GraphReads


class AliasedReads:
    """`GraphReads` of nodes with several names: statements under any of the names count for the node, and are returned
    under its canonical reference. An edge from a node to itself under another name is left out.

    Without aliases it reads no more than the wrapped `GraphReads`.
    """

    def __init__(self, reads: GraphReads, aliases: AliasRegistry) -> None:
        self._reads = reads
        self._aliases = aliases

    def nodes(self, scopes: Sequence[str], keys: Sequence[str]) -> list[Node]:
        view = self._aliases.view(scopes)
        names = _names(view, keys)
        found = {node.key: node for node in self._reads.nodes(scopes, _flat(names))}
        return [
            _one_node(key, known)
            for key, members in names.items()
            if (known := [found[one] for one in members if one in found])
        ]

    def edges(self, scopes: Sequence[str], key: str, walk: Walk) -> Adjacent:
        return self.edges_of(scopes, [key], walk).get(key, ([], False))

    def edges_of(self, scopes: Sequence[str], keys: Sequence[str], walk: Walk) -> dict[str, Adjacent]:
        view = self._aliases.view(scopes)
        if view.is_empty:
            return self._reads.edges_of(scopes, keys, walk)
        requested = tuple(dict.fromkeys(keys))
        canonical_of = view.canonical(requested)
        names = view.members(canonical_of.get(key, key) for key in requested)
        found = self._reads.edges_of(scopes, _flat(names), walk)
        canonical = view.canonical({end for edges, _ in found.values() for edge in edges for end in _ends(edge)})
        answer: dict[str, Adjacent] = {}
        for key in requested:
            parts = [found[one] for one in names[canonical_of.get(key, key)] if one in found]
            if parts:
                answer[key] = _joined(parts, canonical, walk.fan_out)
        return answer

    def between(self, scopes: Sequence[str], one: str, other: str) -> list[Edge]:
        view = self._aliases.view(scopes)
        names = _names(view, [one, other])
        if len(names) < 2:
            return []
        pairs = product(*names.values())
        edges = [edge for pair in pairs for edge in self._reads.between(scopes, *pair)]
        return _one_each(edges, view.canonical({end for edge in edges for end in _ends(edge)}))

    def references(self, scopes: Sequence[str], chunks: Sequence[tuple[str, str]]) -> Mapping[str, tuple[str, ...]]:
        found = self._reads.references(scopes, chunks)
        canonical = self._aliases.view(scopes).canonical({key for keys in found.values() for key in keys})
        return {chunk: tuple(dict.fromkeys(canonical.get(key, key) for key in keys)) for chunk, keys in found.items()}

    def existing(self, scopes: Sequence[str], keys: Sequence[str]) -> dict[str, str]:
        view = self._aliases.view(scopes)
        canonical_of = view.canonical(keys)
        names = view.members(canonical_of.get(key, key) for key in keys)
        known = self._reads.existing(scopes, _flat(names))
        ends = {key: canonical_of.get(key, key) for key in keys}
        return {key: end for key, end in ends.items() if any(one in known for one in names[end])}

    def of_type(
        self, scopes: Sequence[str], node_type: str, *, begins_with: str = "", limit: int = 1_000
    ) -> list[Node]:
        found = self._reads.of_type(scopes, node_type, begins_with=begins_with, limit=limit)
        canonical = self._aliases.view(scopes).canonical(node.key for node in found)
        things: dict[str, Node] = {}
        for node in found:
            key = canonical.get(node.key, node.key)
            if type_of(key) == node_type:
                things[key] = _one_node(key, [things[key], node] if key in things else [node])
        return [things[key] for key in sorted(things)]


def _names(view: AliasView, keys: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """The canonical references of these keys, each with all its names."""
    requested = tuple(dict.fromkeys(keys))
    canonical_of = view.canonical(requested)
    return view.members(canonical_of.get(key, key) for key in requested)


def _flat(names: Mapping[str, Sequence[str]]) -> list[str]:
    return list(dict.fromkeys(one for members in names.values() for one in members))


def _ends(edge: Edge) -> tuple[str, str]:
    return edge.source, edge.target


def _one_node(key: str, nodes: Sequence[Node]) -> Node:
    """Joins nodes to one: each property comes from the most trusted, then the newest."""
    if len(nodes) == 1:
        return nodes[0] if nodes[0].key == key else replace(nodes[0], key=key, type=type_of(key))
    best = sorted(nodes, key=_standing, reverse=True)
    return Node(
        key=key,
        type=type_of(key),
        properties=of_best([node.properties for node in best]),
        evidence=_together(one for node in nodes for one in node.evidence),
        declared=any(node.declared for node in nodes),
    )


def _standing(node: Node) -> tuple[float, str]:
    return max(((one.trust, one.at) for one in node.evidence), default=(0.0, ""))


def _joined(parts: Sequence[Adjacent], canonical: Mapping[str, str], fan_out: int) -> Adjacent:
    """Edges of a node under all its names."""
    edges = parts[0][0]
    if len(parts) == 1 and not any(one.source == one.target or {*_ends(one)} & canonical.keys() for one in edges):
        return parts[0]
    merged = _one_each((edge for edges, _ in parts for edge in edges), canonical)
    return merged[:fan_out], len(merged) > fan_out or any(more for _, more in parts)


def _one_each(edges: Iterable[Edge], canonical: Mapping[str, str]) -> list[Edge]:
    """Edges with canonical ends, duplicates joined, the newest first."""
    found: dict[tuple[str, str, str], list[Edge]] = {}
    for edge in edges:
        source, target = (canonical.get(end, end) for end in _ends(edge))
        known = edge if source != target else _of_itself(edge)
        if known:
            found.setdefault((source, edge.edge_type, target), []).append(known)
    merged = [_one_edge(name, alike) for name, alike in found.items()]
    return sorted(merged, key=lambda edge: (edge.at, edge.edge_type, edge.source, edge.target), reverse=True)


def _of_itself(edge: Edge) -> Edge | None:
    """A self-edge with the evidence of documents that state it as such, not of edges between two names; None without any."""
    stated = ((one, one.stated or _ends(edge)) for one in edge.evidence)
    evidence = tuple(one for one, (source, target) in stated if source == target)
    return replace(edge, evidence=evidence) if evidence else None


def _one_edge(name: tuple[str, str, str], edges: Sequence[Edge]) -> Edge:
    source, edge_type, target = name
    if len(edges) == 1:
        return edges[0] if _ends(edges[0]) == (source, target) else replace(edges[0], source=source, target=target)
    best = sorted(edges, key=lambda edge: (edge.confidence, edge.at), reverse=True)
    properties = of_relation(edge_type, [edge.properties for edge in best])
    return Edge(source, edge_type, target, _together(one for edge in edges for one in edge.evidence), properties)


def _together(evidence: Iterable[GraphEvidence]) -> tuple[GraphEvidence, ...]:
    """Evidence without duplicates, the newest first."""
    return tuple(sorted(dict.fromkeys(evidence), key=lambda one: (one.at, one.document_id), reverse=True))
