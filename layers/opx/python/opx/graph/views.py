"""Records of what the graph answers, with the passages that prove it.

Evidence in them has no key of its document, whoever makes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Protocol

from msgspec import Meta, field

from opx.domain.graph import Edge, GraphEvidence, Node, Reached, Walk, shown
from opx.domain.knowledge import Tier
from opx.domain.record import Record, always, derive
from opx.domain.results import PathStep

Names = Annotated[Mapping[str, str], Meta(description="What things are called, by reference, where that says more.")]
Passages = Annotated[tuple["Passage", ...], Meta(description="The text of evidence, by chunk id; of much, the first.")]
Cut = Annotated[tuple[str, ...], Meta(description="Things of which not all relations were followed.")]


class Passage(Record, frozen=True, kw_only=True, omit_defaults=True):
    """A chunk that proves something, and where it is from. `flags` are those of its document
    (`suspected_instruction`)."""

    chunk_id: str
    document_id: str
    title: str
    section: Annotated[str, Meta(description="The headings above it, as `A > B`.")]
    source: str
    category: str
    tier: Tier
    content: str
    untrusted: Annotated[bool, Meta(description="True if it comes from outside the organisation.")] = always(False)
    flags: Annotated[tuple[str, ...], Meta(description="What readers are to be warned of.")] = ()

    def __post_init__(self) -> None:
        derive(self, untrusted=self.tier is not Tier.INTERNAL)


class NodeView(Record, frozen=True, kw_only=True):
    """A thing and its relations, the newest first."""

    node: Node
    aliases: Annotated[
        tuple[str, ...], Meta(description="Its other references, as far as the caller may know them.")
    ] = ()
    edges: tuple[Edge, ...] = ()
    more: Annotated[bool, Meta(description="True if it has more relations than these.")] = False
    passages: Passages = ()
    names: Names = field(default_factory=dict)

    def __post_init__(self) -> None:
        derive(self, node=shown([self.node])[0], edges=shown(self.edges))


class ReachedNode(Record, frozen=True):
    """A thing on a walk: how many relations away it is, and by which it was reached first, from the start."""

    key: str
    distance: int
    path: tuple[PathStep, ...] = ()

    @classmethod
    def of(cls, reached: Reached) -> ReachedNode:
        return cls(reached.key, reached.distance, tuple(PathStep(*edge.name) for edge in reached.path))


class Neighbourhood(Record, frozen=True, kw_only=True):
    """What is around a thing. The relations of paths and contradictions are those of `edges` with the same ends and
    type."""

    start: str
    reached: tuple[ReachedNode, ...] = ()
    edges: tuple[Edge, ...] = ()
    cut: Cut = ()
    contradicting: Annotated[tuple[tuple[PathStep, ...], ...], Meta(description="Pairs that can't both be.")] = ()
    passages: Passages = ()
    names: Names = field(default_factory=dict)

    def __post_init__(self) -> None:
        derive(self, edges=shown(self.edges))

    @property
    def related(self) -> tuple[tuple[ReachedNode, tuple[Edge, ...]], ...]:
        """What was reached besides the start, each with the relations that lead to it."""
        edges = {edge.name: edge for edge in self.edges}
        return tuple((one, tuple(edges[step.name] for step in one.path)) for one in self.reached if one.path)


class Connection(Record, frozen=True, kw_only=True):
    """How two things are connected: the edges from one to the other, each in its own direction. Not `found`: within the
    steps that were looked at they aren't, and if `cut` names things, these have more relations than were followed."""

    source: str = field(name="from")
    target: str = field(name="to")
    found: Annotated[bool, Meta(description="False if there is no way of few enough steps.")]
    steps: tuple[Edge, ...] = ()
    cut: Cut = ()
    passages: Passages = ()

    def __post_init__(self) -> None:
        derive(self, steps=shown(self.steps))


class NodesFound(Record, frozen=True):
    """Things by name, in order."""

    nodes: tuple[Node, ...]

    def __post_init__(self) -> None:
        derive(self, nodes=shown(self.nodes))


def in_words(edge_type: str) -> str:
    """`depends on` for `depends_on`."""
    return edge_type.replace("_", " ")


def said(edge: Edge | PathStep) -> str:
    """`service:checkout depends on service:payments`."""
    return f"{edge.source} {in_words(edge.edge_type)} {edge.target}"


def name_of(node: Node) -> str:
    """What it is called, "" if its reference says no less."""
    name = str(node.properties.get("title") or node.properties.get("name") or "")
    return "" if name.casefold() == node.key.partition(":")[2] else name


def evidence_of(things: Iterable[Node | Edge]) -> Iterable[GraphEvidence]:
    """The evidence of all of them, the best first within each."""
    return (one for thing in things for one in thing.evidence)


# -- reads


Adjacent = tuple[list[Edge], bool]
"""Edges of a node, the newest first, and whether there are more."""


class GraphReads(Protocol):
    """Things and relations as these scopes (their keys) know them; nothing of others is read.

    Of what many documents say, the best 50 statements are read of a node, and of its relations the newest: evidence may
    be more than is shown. All may raise `StoreUnavailableError`.
    """

    def nodes(self, scopes: Sequence[str], keys: Sequence[str], /) -> list[Node]:
        """Those of these nodes that exist, in the order of `keys`."""

    def edges(self, scopes: Sequence[str], key: str, walk: Walk, /) -> Adjacent:
        """The newest edges of a node along `walk`, at most `fan_out`; none if there is no such node."""

    def edges_of(self, scopes: Sequence[str], keys: Sequence[str], walk: Walk, /) -> dict[str, Adjacent]:
        """The same of many nodes; those that don't exist are left out."""

    def between(self, scopes: Sequence[str], one: str, other: str, /) -> list[Edge]:
        """All edges from one node to another, and back, the newest first."""

    def references(self, scopes: Sequence[str], chunks: Sequence[tuple[str, str]], /) -> Mapping[str, tuple[str, ...]]:
        """The nodes that chunks (key id of the document, chunk id) are evidence of, by chunk id; a chunk without any, or
        of another scope, is left out."""

    def existing(self, scopes: Sequence[str], keys: Sequence[str], /) -> Mapping[str, str]:
        """Those of these references that there is a node of, each with the one under which it is kept."""

    def of_type(
        self, scopes: Sequence[str], node_type: str, /, *, begins_with: str = "", limit: int = 1_000
    ) -> list[Node]:
        """Nodes of a type in the order of their references, which begin so: key and type alone."""
