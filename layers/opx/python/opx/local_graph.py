"""Things and relations of the services in this process, as far as one identity may see them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from opx.domain.evidence_pack import PathStep
from opx.domain.graph import Edge, Node, Walk
from opx.domain.record import replace
from opx.graph.views import (
    Connection,
    Names,
    Neighbourhood,
    NodesFound,
    NodeView,
    Passage,
    ReachedNode,
    evidence_of,
    name_of,
)

if TYPE_CHECKING:
    from opx.domain.aliases import Alias, Merge
    from opx.domain.scopes import Identity, Reader, Scope
    from opx.graph.coverage import GraphCoverage
    from opx.graph.knowledge_graph import KnowledgeGraph
    from opx.graph.questions.answers import GraphAnswer
    from opx.services import Services


MOST_NAMED = 100
"""Things whose names are looked up for one answer."""


class LocalGraph:
    """The part of a knowledge base that is about things and relations."""

    _services: Services
    _identity: Identity

    if TYPE_CHECKING:

        @property
        def scope(self) -> Scope: ...

        def _reader(self) -> Reader: ...

    def graph_node(self, reference: str, *, limit: int = 100) -> NodeView:
        graph = self._graph
        node = graph.show(reference)
        around = graph.neighbours(node.key, Walk(fan_out=limit, most_nodes=limit + 1))
        edges = tuple(sorted(around.edges, key=lambda edge: edge.at, reverse=True))
        passages = self._passages((node, *edges))
        return NodeView(
            node=node,
            aliases=graph.other_names(node.key),
            edges=edges,
            more=bool(around.cut),
            passages=passages,
            names=_names(graph, edges),
        )

    def graph_neighbours(self, reference: str, walk: Walk) -> Neighbourhood:
        graph = self._graph
        start = graph.resolve(reference)
        around = graph.neighbours(start, _normalised(walk))
        return Neighbourhood(
            start=start,
            reached=tuple(map(ReachedNode.of, around.reached)),
            edges=around.edges,
            cut=around.cut,
            contradicting=tuple(tuple(PathStep(*edge.name) for edge in pair) for pair in around.contradicting),
            passages=self._passages(around.edges),
            names=_names(graph, around.edges),
        )

    def graph_path(self, source: str, target: str, walk: Walk) -> Connection:
        graph = self._graph
        route = graph.path(source, target, _normalised(walk))
        steps = route.edges or ()
        return Connection(
            source=route.source,
            target=route.target,
            found=route.edges is not None,
            steps=steps,
            cut=route.cut,
            passages=self._passages(steps),
        )

    def graph_find(self, text: str, *, node_type: str = "", limit: int = 20) -> Sequence[Node]:
        graph = self._graph
        found = graph.find(text, node_type, limit)
        return NodesFound(tuple(graph.nodes([node.key for node in found]))).nodes

    def graph_changes(self, reference: str, *, upstream: bool = True, since: str = "", until: str = "") -> GraphAnswer:
        from opx.graph.questions.changes import changes

        return self._answered(changes(self._graph, reference, since=since, until=until, upstream=upstream))

    def graph_affected(self, cve: str, *, runbooks: bool = False) -> GraphAnswer:
        from opx.graph.questions.vulnerabilities import affected, runbooks_for_cve

        reference = cve if ":" in cve else f"cve:{cve}"
        return self._answered((runbooks_for_cve if runbooks else affected)(self._graph, reference))

    def graph_coverage(self, *, since: str = "", limit: int = 1000) -> GraphCoverage:
        from opx.graph.coverage import coverage

        return coverage(self._graph, since=since, limit=limit)

    def aliases(self, *, limit: int = 1000) -> Sequence[Alias]:
        """Who set one is told to those of its scope alone."""
        found = self._services.aliases.aliases(self._reader().visible, limit=limit)
        return [one if one.area == self.scope.key else replace(one, set_by="") for one in found]

    def merges(self) -> Sequence[Merge]:
        return self._services.merging.merges(self.scope)

    def add_alias(self, alias: str, canonical: str) -> Alias:
        return self._services.merging.add(self.scope, alias, canonical, by=self._identity.principal)

    def remove_alias(self, alias: str) -> bool:
        return self._services.merging.remove(self.scope, alias, by=self._identity.principal)

    def merge_things(self, source: str, into: str) -> Merge:
        self._graph.key_of(into)  # who writes it wrongly would make a name of nothing
        return self._services.merging.merge(self.scope, source, into, by=self._identity.principal)

    def undo_merge(self, merge_id: str) -> Merge:
        return self._services.merging.undo(self.scope, merge_id, by=self._identity.principal)

    def _answered(self, answer: GraphAnswer) -> GraphAnswer:
        return answer.with_passages(self._passages(edge for row in answer.rows for edge in row.path))

    @property
    def _graph(self) -> KnowledgeGraph:
        return self._services.graph(self._identity)

    def _passages(self, things: Iterable[Node | Edge]) -> tuple[Passage, ...]:
        return self._services.passage_reader(self._reader()).of(evidence_of(things))


def _names(graph: KnowledgeGraph, edges: Iterable[Edge]) -> Names:
    keys = dict.fromkeys(key for edge in edges for key in (edge.source, edge.target))
    nodes = graph.nodes(list(keys)[:MOST_NAMED])
    return {node.key: name for node in nodes if (name := name_of(node))}


def _normalised(walk: Walk) -> Walk:
    """With types of edges as they are kept: `DEPENDS-ON` as `depends_on`."""
    from opx.graph.names import edge_type

    return replace(walk, edge_types=tuple(map(edge_type, walk.edge_types)))
