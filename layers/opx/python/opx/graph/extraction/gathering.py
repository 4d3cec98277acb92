"""What the rules found, each thing and relation once, and no more than is kept of one document."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from opx.domain.graph import EdgeName, EdgeStatement, NodeStatement, Value, node_type
from opx.domain.record import replace
from opx.domain.remarks import MAX_REMARKS, Remark, RemarkKind, bounded
from opx.graph.extraction.material import Findings
from opx.graph.extraction.passages import MAX_PASSAGES
from opx.graph.versions import several, union

MAX_EDGES = 5_000
MAX_NODES = 5_000
"""Of one document, the ends of its edges not counted. What is beyond is left out, and a remark says so."""

VERSIONS = "versions"
"""The property with ranges of versions: what several passages say of it counts together."""

VERSION = "version"
"""The property with what runs, which may be several versions at a time."""

MAX_ALIASES = 100
"""Of one document."""

_MAX_NOTED = 100 * MAX_REMARKS


class Gathered:
    """Statements in the order in which they were found first."""

    def __init__(self) -> None:
        self.nodes: dict[str, NodeStatement] = {}
        self.edges: dict[EdgeName, EdgeStatement] = {}
        self.aliases: dict[tuple[str, str], None] = {}
        self._remarks: dict[Remark, None] = {}
        self._beyond: set[str] = set()

    @property
    def is_full(self) -> bool:
        """Whether there are more relations than are kept."""
        return "relations" in self._beyond

    def take(self, findings: Findings) -> None:
        """Add what was found, and forget it there."""
        for one in findings.statements:
            if isinstance(one, EdgeStatement):
                self._add_edge(one)
            else:
                self.add_node(one)
        for remark in findings.remarks:
            if len(self._remarks) < _MAX_NOTED:
                self._remarks[remark] = None
        for alias in findings.aliases:
            if len(self.aliases) < MAX_ALIASES or alias in self.aliases:
                self.aliases[alias] = None
            else:
                self._beyond.add("aliases")
        findings.statements.clear()
        findings.remarks.clear()
        findings.aliases.clear()

    def add_node(self, one: NodeStatement) -> None:
        known = self.nodes.get(one.key)
        if known is not None:
            self.nodes[one.key] = _with(known, one)
        elif len(self.nodes) < MAX_NODES:
            self.nodes[one.key] = replace(one, chunk_ids=one.chunk_ids[:MAX_PASSAGES])
        else:
            self._beyond.add("things")

    def _add_edge(self, one: EdgeStatement) -> None:
        known = self.edges.get(one.name)
        if known is not None:
            self.edges[one.name] = _surest(known, one)
        elif len(self.edges) < MAX_EDGES:
            self.edges[one.name] = replace(one, chunk_ids=one.chunk_ids[:MAX_PASSAGES])
        else:
            self._beyond.add("relations")

    def ends(self) -> Iterator[NodeStatement]:
        """The ends of all edges, with the edges' passages."""
        for edge in self.edges.values():
            for key in (edge.source, edge.target):
                yield NodeStatement(key, node_type(key), chunk_ids=edge.chunk_ids)

    def with_ends(self) -> dict[str, NodeStatement]:
        """All things by their references, those that are only ends of edges last."""
        found = dict(self.nodes)
        for one in self.ends():
            known = found.get(one.key)
            found[one.key] = _with(known, one) if known else one
        return found

    def remarks(self) -> tuple[Remark, ...]:
        """What the document's reader should know, what was left out first."""
        limits = {"relations": MAX_EDGES, "things": MAX_NODES, "aliases": MAX_ALIASES}
        left_out = (
            Remark(
                RemarkKind.LEFT_OUT_OF_GRAPH,
                f"it has more than {limits[what]:,} {what}, and only the first are in the graph: split the document",
            )
            for what in sorted(self._beyond)
        )
        return bounded((*left_out, *self._remarks))


def _with(known: NodeStatement, one: NodeStatement) -> NodeStatement:
    return replace(
        known,
        properties={**one.properties, **known.properties},
        chunk_ids=_joined(known.chunk_ids, one.chunk_ids),
        declared=known.declared or one.declared,
    )


def _surest(known: EdgeStatement, one: EdgeStatement) -> EdgeStatement:
    """The surest rule's statement, with the passages of both."""
    best, other = (known, one) if known.confidence >= one.confidence else (one, known)
    return replace(
        best,
        at=max(best.at, other.at),
        properties=_properties(best.properties, other.properties),
        chunk_ids=_joined(known.chunk_ids, one.chunk_ids),
    )


def _properties(best: Mapping[str, Value], other: Mapping[str, Value]) -> Mapping[str, Value]:
    found = {**other, **best}
    if VERSIONS in best and VERSIONS in other:
        found[VERSIONS] = union(str(best[VERSIONS]), str(other[VERSIONS]))
    if VERSION in best and VERSION in other:
        found[VERSION] = several(str(best[VERSION]), str(other[VERSION]))
    return found


def _joined(first: tuple[str, ...], second: tuple[str, ...]) -> tuple[str, ...]:
    """Both, each once. Looking at no more than is kept: a thing may be in all of thousands of passages."""
    if len(first) >= MAX_PASSAGES or not second:
        return first
    return tuple(dict.fromkeys((*first, *second[:MAX_PASSAGES])))[:MAX_PASSAGES]
