"""Records that graph queries return, and the port `GraphReads` for reading nodes and edges.

Evidence in these records never has the key of its document.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Protocol

from msgspec import field

from opx.domain.graph import Edge, GraphEvidence, Node, Reached, Walk, shown
from opx.domain.knowledge import Tier, Untrusted
from opx.domain.record import Record, about, always, derive
from opx.domain.results import Names, PathStep

Passages = Annotated[tuple["Passage", ...], about("The text of evidence by chunk id, up to a limit.")]
Cut = Annotated[tuple[str, ...], about("Nodes of which not all edges were followed.")]


class Passage(Record, frozen=True, kw_only=True, omit_defaults=True):
    """A chunk that is evidence, with its document. `flags` are those of the document (`suspected_instruction`)."""

    chunk_id: str
    document_id: str
    title: str
    section: Annotated[str, about("The headings above it, as `A > B`.")]
    source: str
    category: str
    tier: Tier
    content: str
    untrusted: Untrusted = always(False)
    flags: Annotated[tuple[str, ...], about("Warnings for readers.")] = ()

    def __post_init__(self) -> None:
        derive(self, untrusted=self.untrusted or self.tier is not Tier.INTERNAL)


class NodeView(Record, frozen=True, kw_only=True):
    """A node and its edges, the newest first."""

    node: Node
    aliases: Annotated[tuple[str, ...], about("Its other references that the caller may know.")] = ()
    edges: tuple[Edge, ...] = ()
    more: Annotated[bool, about("True if it has more edges than these.")] = False
    passages: Passages = ()
    names: Names = field(default_factory=dict)

    def __post_init__(self) -> None:
        derive(self, node=shown([self.node])[0], edges=shown(self.edges))


class ReachedNode(Record, frozen=True):
    """A node on a walk, with its distance in edges and the path by which it was reached first, from the start."""

    key: str
    distance: int
    path: tuple[PathStep, ...] = ()

    @classmethod
    def of(cls, reached: Reached) -> ReachedNode:
        return cls(reached.key, reached.distance, tuple(PathStep(*edge.name) for edge in reached.path))


class Neighbourhood(Record, frozen=True, kw_only=True):
    """Nodes and edges around a node. The steps of paths and contradictions are the edges in `edges` with the same ends and
    type."""

    start: str
    reached: tuple[ReachedNode, ...] = ()
    edges: tuple[Edge, ...] = ()
    cut: Cut = ()
    contradicting: Annotated[tuple[tuple[PathStep, ...], ...], about("Pairs of edges that can't both hold.")] = ()
    passages: Passages = ()
    names: Names = field(default_factory=dict)

    def __post_init__(self) -> None:
        derive(self, edges=shown(self.edges))

    @property
    def related(self) -> tuple[tuple[ReachedNode, tuple[Edge, ...]], ...]:
        """Reached nodes without the start, each with the edges that lead to it."""
        edges = {edge.name: edge for edge in self.edges}
        return tuple((one, tuple(edges[step.name] for step in one.path)) for one in self.reached if one.path)


class Connection(Record, frozen=True, kw_only=True):
    """The path between two nodes: the edges from one to the other, each in its own direction. If not `found`, there is none
    within the steps that were followed; `cut` names nodes that have more edges than were followed."""

    source: str = field(name="from")
    target: str = field(name="to")
    found: Annotated[bool, about("False if there is no path of few enough steps.")]
    steps: tuple[Edge, ...] = ()
    cut: Cut = ()
    passages: Passages = ()

    def __post_init__(self) -> None:
        derive(self, steps=shown(self.steps))


class NodesFound(Record, frozen=True):
    """Nodes that were found by name, in order."""

    nodes: tuple[Node, ...]

    def __post_init__(self) -> None:
        derive(self, nodes=shown(self.nodes))


def in_words(edge_type: str) -> str:
    """`depends on` for `depends_on`."""
    return edge_type.replace("_", " ")


def edge_text(edge: Edge | PathStep) -> str:
    """`service:checkout depends on service:payments`."""
    return f"{edge.source} {in_words(edge.edge_type)} {edge.target}"


_DOCUMENTS = frozenset((
    "runbook", "document", "incident", "change", "alert_event", "commit", "jira", "confluence", "github", "cve", "rfc",
    "file", "technique", "mitigation", "group", "software", "campaign", "tactic", "detection",
))  # fmt: skip
"""Namespaces of nodes that are documents. Other nodes have a page about them at most, and its title isn't their name."""


def names_of(nodes: Iterable[Node]) -> dict[str, str]:
    """Titles of documents and names of other nodes, where they differ from the reference."""
    return {
        node.key: name for node in nodes if (name := _name_of(node)).casefold() not in ("", node.key.partition(":")[2])
    }


def _name_of(node: Node) -> str:
    title = node.properties.get("title") if node.key.partition(":")[0] in _DOCUMENTS else ""
    return str(title or node.properties.get("name") or "")


def evidence_of(things: Iterable[Node | Edge]) -> Iterable[GraphEvidence]:
    """The evidence of all nodes and edges, the best first within each."""
    return (one for thing in things for one in thing.evidence)


# -- port

Adjacent = tuple[list[Edge], bool]
"""Edges of a node, the newest first, and whether there are more."""


class GraphReads(Protocol):
    """Nodes and edges as these scopes (their keys) know them; nothing of other scopes is read.

    The best 50 statements of a node and its newest edges are read: there may be more evidence than is shown. All methods
    may raise `StoreUnavailableError`.
    """

    def nodes(self, scopes: Sequence[str], keys: Sequence[str], /) -> list[Node]:
        """The nodes of these keys that exist, in the order of `keys`."""

    def edges(self, scopes: Sequence[str], key: str, walk: Walk, /) -> Adjacent:
        """The newest edges of a node along `walk`, at most `fan_out`; none if there is no such node."""

    def edges_of(self, scopes: Sequence[str], keys: Sequence[str], walk: Walk, /) -> dict[str, Adjacent]:
        """The same for several nodes; those that don't exist are left out."""

    def between(self, scopes: Sequence[str], one: str, other: str, /) -> list[Edge]:
        """All edges from one node to another, and back, the newest first."""

    def references(self, scopes: Sequence[str], chunks: Sequence[tuple[str, str]], /) -> Mapping[str, tuple[str, ...]]:
        """The nodes that chunks (key id of the document, chunk id) are evidence of, by chunk id; a chunk without any, or
        of another scope, is left out."""

    def existing(self, scopes: Sequence[str], keys: Sequence[str], /) -> Mapping[str, str]:
        """Those of these references that have a node, each with the reference under which the node is stored."""

    def of_type(
        self, scopes: Sequence[str], node_type: str, /, *, begins_with: str = "", limit: int = 1_000
    ) -> list[Node]:
        """Nodes of a type whose references begin with `begins_with`, in the order of the references: key and type alone."""
