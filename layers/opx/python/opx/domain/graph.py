"""Nodes, edges and aliases of the knowledge graph, each with the text that proves it.

A document's nodes and edges are stored as statements of that document: they come and go with it, so no edge exists
without evidence. A node or an edge merges all statements about it that a reader may see.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Annotated, TypeVar

from msgspec import UNSET, Meta, Struct, UnsetType, field
from msgspec.structs import force_setattr

from opx.domain.documents import KnowledgeDocument, Remark
from opx.domain.knowledge import Tier
from opx.domain.record import INTERNAL, Record, about, always, derive, replace
from opx.domain.scopes import Scope
from opx.errors import InvalidInputError

T = TypeVar("T", "Node", "Edge")

Value = str | int | float | bool
Properties = Annotated[Mapping[str, Value], about("Strings, numbers or booleans by name.")]

EdgeName = tuple[str, str, str]
"""Identity of an edge: its source, type and target."""

MAX_HOPS = 3
MAX_FAN_OUT = 1_000
MAX_NODES = 5_000

NODE_TYPES: Mapping[str, str] = MappingProxyType({
    "jira": "jira_issue",
    "confluence": "confluence_page",
})  # fmt: skip
"""Types of nodes by the namespace of their reference, where they differ from it: `user:john` is a `user`."""


def node_type(reference: str) -> str:
    """The type of the node with this reference, by its namespace."""
    namespace = reference.partition(":")[0]
    return NODE_TYPES.get(namespace, namespace)


class Direction(StrEnum):
    """Direction of a traversal: along edges, against them, or both."""

    OUT = "out"
    IN = "in"
    BOTH = "both"


class NodeStatement(Struct, frozen=True):
    """A node as one document states it. `key` is a normalised reference, `namespace:value`.

    `chunk_ids` are the passages that name it; without any, the extraction looks for them. `declared`: the document is
    authoritative for it (it is about it, or is an inventory), and doesn't only mention it.
    """

    key: str
    type: str
    properties: Mapping[str, Value] = field(default_factory=dict)
    chunk_ids: tuple[str, ...] = ()
    declared: bool = False


class EdgeStatement(Struct, frozen=True):
    """An edge as one document states it.

    `edge_type` is lower case with underscores. `at` is when it happened, ISO 8601; "" for the document's last update.
    `rule` names the extraction rule, `confidence` in (0, 1] its reliability.
    """

    source: str
    edge_type: str
    target: str
    chunk_ids: tuple[str, ...] = ()
    at: str = ""
    rule: str = ""
    confidence: float = 1.0
    properties: Mapping[str, Value] = field(default_factory=dict)

    @property
    def name(self) -> EdgeName:
        return self.source, self.edge_type, self.target


class Statements(Struct, frozen=True):
    """All statements of one document version. `own` is the reference of the node that the document itself is about;
    `aliases` are other names of nodes, each with the reference that they stand for."""

    own: str = ""
    nodes: tuple[NodeStatement, ...] = ()
    edges: tuple[EdgeStatement, ...] = ()
    remarks: tuple[Remark, ...] = ()
    aliases: tuple[tuple[str, str], ...] = ()


class Origin(Struct, frozen=True):
    """The document version that statements come from."""

    key_id: str
    document_id: str
    scope: Scope
    tier: Tier
    trust: float
    updated: str

    @classmethod
    def of(cls, document: KnowledgeDocument) -> Origin:
        return cls(
            key_id=document.key.id,
            document_id=document.document_id,
            scope=document.key.scope,
            tier=document.tier,
            trust=document.trust,
            updated=document.last_updated,
        )


class GraphEvidence(Record, frozen=True, kw_only=True, omit_defaults=True):
    """Text of one document that proves an edge or names a node: its passages, and the rule that read them.

    `stated` has the references as the document writes them, where that differs from the canonical ones. `key_id` names
    the document's key; `shown` leaves it out.
    """

    document_id: str
    chunk_ids: tuple[str, ...]
    tier: Tier
    trust: float
    at: Annotated[str, about("When that was true, or the document was last updated.")]
    rule: Annotated[str, about("The extraction rule.")] = always("")
    confidence: Annotated[float, about("Reliability of that rule.")] = always(1.0)
    stated: Annotated[tuple[str, ...], about("The references as the document writes them, where that differs.")] = ()
    key_id: Annotated[str, Meta(extra_json_schema={INTERNAL: True})] | UnsetType = UNSET

    def __post_init__(self) -> None:
        derive(self, confidence=round(self.confidence, 6))


class Node(Record, frozen=True):
    """A node, merged from the statements that a reader may see. `properties` are those of the most trusted, then the
    newest statement that has them."""

    key: Annotated[str, about("namespace:value")]
    type: str
    properties: Properties = field(default_factory=dict)
    evidence: tuple[GraphEvidence, ...] = ()
    declared: Annotated[bool, about("True if a document is about it, or lists it; else it is only mentioned.")] = False
    rag_chunks: Annotated[tuple[str, ...], about("Chunks that name it.")] = ()

    def __post_init__(self) -> None:
        derive(self, rag_chunks=_chunks_of(self.evidence))


class Edge(Record, frozen=True):
    """An edge, merged from the statements that a reader may see. `evidence` is never empty, the newest first.

    `at` is the latest known time at which it was true. `confidence` is that of its best evidence, weighted with the trust
    in the document. Raises `InvalidInputError` without evidence.
    """

    source: str = field(name="from")
    edge_type: str
    target: str = field(name="to")
    evidence: Annotated[tuple[GraphEvidence, ...], Meta(min_length=1, description="The newest first.")]
    properties: Properties = field(default_factory=dict)
    at: str = ""
    confidence: float = 0.0
    evidence_chunk_ids: Annotated[tuple[str, ...], Meta(extra_json_schema={"minItems": 1})] = ()

    def __post_init__(self) -> None:
        if not self.evidence:
            raise InvalidInputError(f"an edge needs evidence: {self.source} -[{self.edge_type}]-> {self.target}")
        derive(
            self,
            at=max(one.at for one in self.evidence),
            confidence=round(max(one.confidence * one.trust for one in self.evidence), 6),
            evidence_chunk_ids=_chunks_of(self.evidence),
        )

    @property
    def name(self) -> EdgeName:
        return self.source, self.edge_type, self.target

    def other(self, key: str) -> str:
        """The end of the edge opposite to `key`."""
        return self.target if key == self.source else self.source


def _chunks_of(evidence: Iterable[GraphEvidence]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(chunk for one in evidence for chunk in one.chunk_ids))


def shown(things: Iterable[T]) -> tuple[T, ...]:
    """Nodes or edges without the internal keys of the documents that prove them."""
    return tuple(replace(one, evidence=tuple(replace(proof, key_id=UNSET) for proof in one.evidence)) for one in things)


class Walk(Struct, frozen=True):
    """Bounds of a traversal: direction, edge types, hops, fan-out and time range.

    `fan_out` bounds the edges followed from one node, the newest first; `most_nodes` the nodes reached in total. `since`
    and `until` bound when an edge was true, ISO 8601, both included; "" for no bound. Raises `InvalidInputError`.
    """

    hops: int = 1
    direction: Direction = Direction.BOTH
    edge_types: tuple[str, ...] = ()
    fan_out: int = 50
    most_nodes: int = 500
    since: str = ""
    until: str = ""

    def __post_init__(self) -> None:
        force_setattr(self, "direction", Direction(self.direction))
        for name, value, most in (
            ("hops", self.hops, MAX_HOPS),
            ("fan_out", self.fan_out, MAX_FAN_OUT),
            ("most_nodes", self.most_nodes, MAX_NODES),
        ):
            if not 1 <= value <= most:
                raise InvalidInputError(f"{name} must be between 1 and {most}, not {value}")


class Reached(Struct, frozen=True):
    """A node reached by a traversal: its distance in edges, and the edges by which it was reached first, from the
    start."""

    key: str
    distance: int
    path: tuple[Edge, ...] = ()


class Subgraph(Struct, frozen=True):
    """The result of a traversal. `reached` includes the start, the nearest first; `cut` names nodes of which not all
    edges were followed. `contradicting` are pairs of `edges` that can't both be true."""

    reached: tuple[Reached, ...] = ()
    edges: tuple[Edge, ...] = ()
    cut: tuple[str, ...] = ()
    contradicting: tuple[tuple[Edge, Edge], ...] = ()


class Route(Struct, frozen=True):
    """The path between two nodes: the edges from one to the other, none if they are the same; None if no path was found.

    `cut` names nodes of which not all edges were followed: there may be a path, or a shorter one, behind them.
    """

    source: str
    target: str
    edges: tuple[Edge, ...] | None
    cut: tuple[str, ...] = ()


class Relinked(Record, frozen=True):
    """Counts of a run that added mentions of names to documents. `left_out` names the documents it did not reach."""

    names: int = 0
    documents: int = 0
    mentions: int = 0
    busy: Annotated[int, about("Documents that were being ingested just then.")] = 0
    left_out: tuple[str, ...] = ()


# -- aliases


class Alias(Record, frozen=True):
    """Another name of a node, for readers who may see the scope `area` (its key).

    `seen_count` is how often it was registered, stated, or used by another document, `last_seen_at` when last (ISO 8601).
    `set_by` is the person who set it, "" if unknown or not set by a person; `is_set` is true if a person did. `documents`
    counts the documents that state
    it.
    """

    alias: str
    canonical: str
    area: Annotated[str, about("The scope that it belongs to.")]
    seen_count: int = 1
    last_seen_at: str = ""
    is_set: bool = False
    set_by: str = ""
    documents: int = 0


class MergeState(StrEnum):
    """State of a merge. `merging` and `undoing` are in progress, or were interrupted."""

    MERGING = "merging"
    MERGED = "merged"
    UNDOING = "undoing"
    UNDONE = "undone"


class Merge(Record, frozen=True):
    """Two nodes merged in the scope `area` (its key): statements about `source` count for `into`."""

    merge_id: str
    area: str
    source: str
    into: str
    state: MergeState
    by: str = ""
    at: str = ""
    undone_by: str = ""
    undone_at: str = ""
