"""Operations on the graph: nodes, relations, paths, changes, coverage, aliases and merges."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta, field

from opx.domain.graph import MAX_HOPS, Alias, Direction, Edge, Merge, Node, Relinked, Walk
from opx.domain.policy import Action
from opx.domain.record import Record, about, like, replace
from opx.domain.requests import Filled, Request
from opx.domain.results import Names, PathStep
from opx.graph import views
from opx.graph.names import edge_type
from opx.graph.questions.answers import GraphAnswer, GraphCoverage, NearRunbook, Uncovered, UnsureAlert, coverage
from opx.graph.questions.impact import affected, changes, runbooks_for_cve
from opx.graph.traversal import MAX_FOUND, MAX_SHOWN, since_when, until_when, walk_of
from opx.operations.context import Context
from opx.operations.graph_answers import RelatedAnswer, RelationAnswer
from opx.operations.registry import KNOWLEDGE, Function, agent_tool, operation

if TYPE_CHECKING:
    from opx.graph.bindings import NearPage
    from opx.graph.knowledge_graph import KnowledgeGraph

MAX_REFERENCE = 4000
"""Characters of a reference."""

MAX_TYPES = 20
LOOKED_AT, MAX_LOOKED_AT = 200, 1000
"""Things considered: each costs a few requests, and a reply has half a minute."""

MAX_ALIASES = 1000
MOST_NAMED = 100
"""Things whose display names are looked up for one answer."""

MOST_RELATED = 30
"""Things in one answer to an agent: more than it reads at once, and few enough for the size limit."""

_THING = "A thing: namespace:value, such as service:checkout, or a name that only one thing has."

Reference = Annotated[Filled, Meta(max_length=MAX_REFERENCE)]
Thing = Annotated[Reference, about(_THING)]
TypeName = Annotated[Filled, Meta(max_length=60)]
TypeNames = Annotated[
    tuple[TypeName, ...],
    about("A type of relation, such as depends_on; several for any of them.", max_length=MAX_TYPES),
]
Along = Annotated[Direction, about("Along relations, against them, or both.")]
When = Annotated[str, Meta(max_length=40)]
Since = Annotated[
    When, about("Only relations that were true then or later: how long ago (12h, 1d, 2w), a day or a time.")
]
Until = Annotated[When, about("Only relations that were true then or before.")]


class GetNode(Request, frozen=True):
    reference: Thing = field(name="ref")
    limit: Annotated[int, about("Maximum number of relations.", ge=1, le=MAX_SHOWN)] = 100


@operation(http="GET /graph/nodes")
def get_node(context: Context, request: GetNode) -> views.NodeView:
    """Get a node with its relations, the newest first, and the passages that prove them.

    Raises `NodeNotFoundError`, which names nodes with similar names, and `InvalidInputError` for a malformed reference.
    """
    graph = _graph(context)
    node = graph.show(request.reference)
    around = graph.neighbours(node.key, Walk(fan_out=request.limit, most_nodes=request.limit + 1))
    edges = tuple(sorted(around.edges, key=lambda edge: edge.at, reverse=True))
    return views.NodeView(
        node=node,
        aliases=graph.other_names(node.key),
        edges=edges,
        more=bool(around.cut),
        passages=_passages(context, (node, *edges)),
        names=_names(graph, edges),
    )


class ListNeighbours(Request, frozen=True):
    reference: Thing = field(name="ref")
    hops: Annotated[int, about("Distance in relations.", ge=1, le=MAX_HOPS)] = 1
    edge_types: TypeNames = field(name="type", default=())
    direction: Along = Direction.BOTH
    since: Since = ""
    until: Until = ""
    limit: Annotated[int, about("Maximum number of things.", ge=1, le=MAX_SHOWN)] = 100


@operation(http="GET /graph/neighbours")
def list_neighbours(context: Context, request: ListNeighbours) -> views.Neighbourhood:
    """List the neighbours of a node, the nearest first, with the relations that lead there and the passages that prove
    them.

    Raises as `get_node`, and `InvalidInputError` for malformed times.
    """
    return _neighbourhood(context, request.reference, _walk(context, request, request.hops, request.limit))


class FindPath(Request, frozen=True):
    source: Thing = field(name="from")
    target: Thing = field(name="to")
    edge_types: TypeNames = field(name="type", default=())
    direction: Along = Direction.BOTH
    since: Since = ""
    until: Until = ""


@operation(http="GET /graph/path")
def find_path(context: Context, request: FindPath) -> views.Connection:
    """Find the shortest path from one node to another, each step with the passages that prove it.

    Raises as `list_neighbours`, for either.
    """
    return _connection(context, request.source, request.target, _walk(context, request))


class FindNodes(Request, frozen=True):
    text: Annotated[Reference, about("A prefix of a name, or of a reference.")] = field(name="q")
    node_type: Annotated[TypeName, about("Only things of this type, such as service.")] | None = field(
        name="type", default=None
    )
    limit: Annotated[int, about("Maximum number of results.", ge=1, le=MAX_FOUND)] = 20


@operation(http="GET /graph/find")
def find_nodes(context: Context, request: FindNodes) -> views.NodesFound:
    """Find nodes by a prefix of their name, ignoring case."""
    graph = _graph(context)
    found = graph.find(request.text, request.node_type or "", request.limit)
    return views.NodesFound(tuple(graph.nodes([node.key for node in found])))


class Side(StrEnum):
    """Direction of dependencies: what a node depends on (upstream), or what depends on it (downstream)."""

    UPSTREAM = "upstream"
    DOWNSTREAM = "downstream"


class ListChanges(Request, frozen=True):
    reference: Thing = field(name="ref")
    side: Annotated[Side, about("Changes of what it depends on (upstream), or of what depends on it (downstream).")] = (
        Side.UPSTREAM
    )
    since: Annotated[When, about("Only changes then or later: how long ago (12h, 1d, 2w), a day or a time.")] = ""
    until: Annotated[When, about("Only changes then or before.")] = ""


@operation(http="GET /graph/changes")
def list_changes(context: Context, request: ListChanges) -> GraphAnswer:
    """List changes of a node and of those that it depends on (upstream), or that depend on it (downstream).

    Raises as `list_neighbours`.
    """
    now = context.system.clock()
    found = changes(
        _graph(context),
        request.reference,
        since=since_when(request.since, now),
        until=until_when(request.until, now),
        upstream=request.side is Side.UPSTREAM,
    )
    return _proved(context, found)


class ListAffected(Request, frozen=True):
    cve: Annotated[Reference, about("The vulnerability, such as CVE-2024-1234.")]
    runbooks: Annotated[bool, about("List the runbooks that cover these services, instead of the services.")] = False


@operation(http="GET /graph/affected")
def list_affected(context: Context, request: ListAffected) -> GraphAnswer:
    """List services that run a version affected by a vulnerability, or the runbooks that cover them.

    Raises as `get_node`.
    """
    reference = request.cve if ":" in request.cve else f"cve:{request.cve}"
    return _proved(context, (runbooks_for_cve if request.runbooks else affected)(_graph(context), reference))


class GetGraphCoverage(Request, frozen=True):
    since: Annotated[When, about("Only firings then or later: how long ago (12h, 1d, 2w), a day or a time.")] = ""
    limit: Annotated[int, about("Maximum number of things considered of each type.", ge=1, le=MAX_LOOKED_AT)] = (
        LOOKED_AT
    )


@operation(http="GET /graph/coverage")
def get_graph_coverage(context: Context, request: GetGraphCoverage) -> GraphCoverage:
    """List gaps of coverage: alerts without a runbook, those that a page exists for but none that is certainly theirs,
    runbooks whose alerts never fired, services without a runbook."""
    since = since_when(request.since, context.system.clock())
    return _without_bound(context, coverage(_graph(context), since=since, limit=request.limit))


def _without_bound(context: Context, found: GraphCoverage) -> GraphCoverage:
    """The coverage without alerts that are bound to a page by its name, and without these pages: no relation states these
    bindings. Alerts that a page may be about are listed apart from those without any."""
    from opx.graph.extraction.own_node import reference_of_source

    keys = [one.key for one in found.alerts_without_runbook]
    bindings = context.system.graph.bindings(context.reader, keys)
    pages = bindings.pages() if keys else {}
    rest = [one for one in found.alerts_without_runbook if not pages[one.key]]
    near = {one.key: bindings.near(one.key) for one in rest}
    known = [one.document for some in pages.values() for one in some]
    bound = {reference_of_source(one.key.source, one.category) for one in known}
    return replace(
        found,
        alerts_without_runbook=tuple(one for one in rest if not near[one.key]),
        alerts_unsure=tuple(_unsure(one, near[one.key]) for one in rest if near[one.key]),
        runbooks_without_alert=tuple(one for one in found.runbooks_without_alert if one.key not in bound),
    )


def _unsure(alert: Uncovered, pages: Sequence[NearPage]) -> UnsureAlert:
    shown = (NearRunbook(one.document.document_id, one.document.title, one.document.source, one.why) for one in pages)
    return UnsureAlert(alert.key, alert.firings, alert.last_fired, tuple(shown))


# -- aliases and merges


class ListAliases(Request, frozen=True):
    limit: Annotated[int, about("Maximum number of results.", ge=1, le=MAX_ALIASES)] = MAX_ALIASES


class Aliases(Record, frozen=True):
    aliases: tuple[Alias, ...]


@operation(http="GET /graph/aliases")
def list_aliases(context: Context, request: ListAliases) -> Aliases:
    """List the aliases that the caller's queries resolve.

    `setBy` is shown only to callers of the alias's own scope.
    """
    found = context.system.graph.aliases.aliases(context.reader.visible, limit=request.limit)
    own = context.scope.key if context.may(Action.READ_RECORDS, context.scope) else ""
    return Aliases(tuple(one if one.area == own else replace(one, set_by="") for one in found))


class ListMerges(Request, frozen=True):
    pass


class Merges(Record, frozen=True):
    merges: tuple[Merge, ...]


@operation(http="GET /graph/merges", action=Action.READ_RECORDS)
def list_merges(context: Context, request: ListMerges) -> Merges:  # noqa: ARG001 - as all operations
    """List the merges in the caller's scope, the newest first."""
    return Merges(tuple(context.system.graph.merging.merges(context.scope)))


class AddAlias(Request, frozen=True):
    alias: Annotated[Reference, about("The other name.")]
    canonical: Annotated[Reference, about("The reference that it stands for.")]


@operation(http="POST /graph/aliases", function=Function.MANAGE, action=Action.WRITE)
def add_alias(context: Context, request: AddAlias) -> Alias:
    """Add an alias of a node in the caller's scope.

    Raises `InvalidInputError` for a name that is a node itself, and for a loop.
    """
    by = context.identity.principal
    return context.system.graph.merging.add(context.scope, request.alias, request.canonical, by=by)


class RemoveAlias(Request, frozen=True):
    alias: Annotated[Reference, about("The other name.")]


class RemovedAlias(Record, frozen=True):
    removed: Annotated[bool, about("False if there was none.")]


@operation(http="DELETE /graph/aliases", function=Function.MANAGE, action=Action.WRITE)
def remove_alias(context: Context, request: RemoveAlias) -> RemovedAlias:
    """Remove an alias of the caller's scope."""
    return RemovedAlias(
        context.system.graph.merging.remove(context.scope, request.alias, by=context.identity.principal)
    )


class MergeNodes(Request, frozen=True):
    source: Annotated[Reference, about("The reference that becomes an alias.")] = field(name="from")
    into: Annotated[Reference, about("The reference that it stands for from then on.")]


@operation(http="POST /graph/merges", function=Function.MANAGE, action=Action.WRITE)
def merge_nodes(context: Context, request: MergeNodes) -> Merge:
    """Merge two references in the caller's scope; the evidence of both is kept.

    Raises `NodeNotFoundError` if there is no node to merge into, and `InvalidInputError` as `add_alias`.
    """
    _graph(context).key_of(request.into)  # a typing error would make an alias of nothing
    by = context.identity.principal
    return context.system.graph.merging.merge(context.scope, request.source, request.into, by=by)


class UndoMerge(Request, frozen=True):
    merge_id: Annotated[str, about("The id of a merge.", max_length=100)]


@operation(http="DELETE /graph/merges/{mergeId}", function=Function.MANAGE, action=Action.WRITE)
def undo_merge(context: Context, request: UndoMerge) -> Merge:
    """Undo a merge: the two references are separate nodes again.

    Raises `MergeNotFoundError`.
    """
    return context.system.graph.merging.undo(context.scope, request.merge_id, by=context.identity.principal)


class Relink(Request, frozen=True):
    pass


@operation(action=Action.ADMINISTER)
def relink(context: Context, request: Relink) -> Relinked:  # noqa: ARG001 - as all operations
    """Add mentions to documents of nodes that were declared after their ingestion, for all names."""
    return context.system.relinking.relink()


# -- tools of agents


class FindRelated(Request, frozen=True):
    reference: Annotated[
        Filled,
        about(
            "The thing: namespace:value, such as service:checkout or alert:highlatency, or only its name.",
            max_length=500,
        ),
    ]
    hops: Annotated[int, about("Distance in relations.", ge=1, le=MAX_HOPS)] = 1
    edge_types: Annotated[
        str,
        about("Only along these types of relations, separated by commas, such as depends_on,affects.", max_length=500),
    ] = ""
    direction: Annotated[
        Direction, about("Along relations (out: what it depends on), against them (in: what depends on it), or both.")
    ] = Direction.BOTH
    since: Annotated[
        When, about("Only relations true then or later: how long ago (12h, 1d, 2w), or a day such as 2026-03-31.")
    ] = ""


@agent_tool(
    KNOWLEDGE,
    "Find what a thing is related to: what a service depends on, what depends on it, its hosts, alerts, runbooks, "
    "changes and incidents, what a vulnerability affects. Use it once you know which service, alert or host is "
    "concerned, to see what else may be, or what changed. Each relation comes with the passage that proves it.",
)
def find_related(context: Context, request: FindRelated) -> RelatedAnswer:
    """List the neighbours of a node. Raises as `list_neighbours`."""
    walk = walk_of(
        now=context.system.clock(),
        hops=request.hops,
        direction=request.direction,
        edge_types=_types(request.edge_types.split(",")),
        since=request.since,
        limit=MOST_RELATED,
    )
    return RelatedAnswer(_neighbourhood(context, request.reference, walk))


class ExplainRelation(Request, frozen=True):
    from_reference: Annotated[
        Filled, about("One thing: namespace:value, such as alert:highlatency, or only its name.", max_length=500)
    ]
    to_reference: Annotated[Filled, about("The other thing, written alike.", max_length=500)]


@agent_tool(
    KNOWLEDGE,
    "Explain how two things are connected: the shortest chain of relations between them, each with the passage that "
    "proves it. Use it to check whether one can be the cause of the other, or before you claim that it is.",
)
def explain_relation(context: Context, request: ExplainRelation) -> RelationAnswer:
    """Show the path between two nodes. Raises as `find_path`."""
    walk = walk_of(now=context.system.clock())
    return RelationAnswer(_connection(context, request.from_reference, request.to_reference, walk))


# -- helpers


def _graph(context: Context) -> KnowledgeGraph:
    return context.system.graph.seen_by(context.identity)


def _walk(context: Context, request: ListNeighbours | FindPath, hops: int = 1, limit: int | None = None) -> Walk:
    return walk_of(
        now=context.system.clock(),
        hops=hops,
        direction=request.direction,
        edge_types=_types(request.edge_types),
        since=request.since,
        until=request.until,
        limit=limit,
    )


def _types(names: Iterable[str]) -> tuple[str, ...]:
    """Edge types in their stored form: `DEPENDS-ON` as `depends_on`."""
    return tuple(edge_type(name) for name in names if name.strip())


def _neighbourhood(context: Context, reference: str, walk: Walk) -> views.Neighbourhood:
    graph = _graph(context)
    start = graph.resolve(reference)
    around = graph.neighbours(start, walk)
    return like(
        views.Neighbourhood,
        around,
        start=start,
        reached=tuple(map(views.ReachedNode.of, around.reached)),
        contradicting=tuple(tuple(PathStep(*edge.name) for edge in pair) for pair in around.contradicting),
        passages=_passages(context, around.edges),
        names=_names(graph, around.edges),
    )


def _connection(context: Context, source: str, target: str, walk: Walk) -> views.Connection:
    route = _graph(context).path(source, target, walk)
    steps = route.edges or ()
    passages = _passages(context, steps)
    return like(views.Connection, route, found=route.edges is not None, steps=steps, passages=passages)


def _proved(context: Context, answer: GraphAnswer) -> GraphAnswer:
    return answer.with_passages(_passages(context, (edge for row in answer.rows for edge in row.path)))


def _passages(context: Context, things: Iterable[Node | Edge]) -> tuple[views.Passage, ...]:
    return context.system.graph.passage_reader(context.reader).of(views.evidence_of(things))


def _names(graph: KnowledgeGraph, edges: Iterable[Edge]) -> Names:
    keys = dict.fromkeys(key for edge in edges for key in (edge.source, edge.target))
    return views.names_of(graph.nodes(list(keys)[:MOST_NAMED]))
