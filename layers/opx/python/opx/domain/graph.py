"""Things and how they are related, each with the text that says so.

What a document says is kept as statements of that document: they come and go with it, so that a relation without any
text behind it can't be. A node or an edge is what all statements about it that a reader may see say together.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Annotated, TypeVar

from msgspec import UNSET, Meta, UnsetType, field

from opx.domain.documents import KnowledgeDocument, Remark
from opx.domain.knowledge import Tier
from opx.domain.record import INTERNAL, Record, always, derive, replace
from opx.domain.scopes import Scope
from opx.errors import InvalidInputError

T = TypeVar("T", "Node", "Edge")

Value = str | int | float | bool
Properties = Annotated[Mapping[str, Value], Meta(description="Texts, numbers, true or false, by name.")]

EdgeName = tuple[str, str, str]
"""What makes a relation this one: where it begins, its type, where it ends."""

MAX_HOPS = 3
MAX_FAN_OUT = 1_000
MAX_NODES = 5_000

NODE_TYPES: Mapping[str, str] = MappingProxyType({
    "jira": "jira_issue",
    "confluence": "confluence_page",
})  # fmt: skip
"""Types of nodes by the namespace of their reference, where they differ from it: `user:john` is a `user`."""


def node_type(reference: str) -> str:
    """The type of the node with this reference, as its namespace says it."""
    namespace = reference.partition(":")[0]
    return NODE_TYPES.get(namespace, namespace)


class Direction(StrEnum):
    """Along edges, against them, or both."""

    OUT = "out"
    IN = "in"
    BOTH = "both"


@dataclass(frozen=True, slots=True)
class NodeStatement:
    """What one document says of a thing. `key` is a normalised reference, `namespace:value`.

    `chunk_ids` are the passages that name it; without any, the extraction looks for them. `declared`: the document is
    an authority on it (it is about it, or lists what there is), and doesn't only mention it.
    """

    key: str
    type: str
    properties: Mapping[str, Value] = dataclasses.field(default_factory=dict)
    chunk_ids: tuple[str, ...] = ()
    declared: bool = False


@dataclass(frozen=True, slots=True)
class EdgeStatement:
    """What one document says of how two things are related.

    `edge_type` is in small letters with underscores. `at` is when it happened, ISO 8601; "" for the document's last
    update. `rule` names what found it. `confidence` in (0, 1] is how sure that rule can be.
    """

    source: str
    edge_type: str
    target: str
    chunk_ids: tuple[str, ...] = ()
    at: str = ""
    rule: str = ""
    confidence: float = 1.0
    properties: Mapping[str, Value] = dataclasses.field(default_factory=dict)

    @property
    def name(self) -> EdgeName:
        return self.source, self.edge_type, self.target


@dataclass(frozen=True, slots=True)
class Statements:
    """All that one version of a document says. `own` is the reference of what the document is about itself; `aliases` are
    other names of things, each with the reference that is meant."""

    own: str = ""
    nodes: tuple[NodeStatement, ...] = ()
    edges: tuple[EdgeStatement, ...] = ()
    remarks: tuple[Remark, ...] = ()
    aliases: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Origin:
    """The document version that statements are from."""

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
    """Text of one document that proves an edge or names a node: its passages, and how they were understood.

    `stated` is how the document writes the references, where that differs from the canonical ones. `key_id` names the
    document's key; `shown` leaves it out.
    """

    document_id: str
    chunk_ids: tuple[str, ...]
    tier: Tier
    trust: float
    at: Annotated[str, Meta(description="When that was so, or the document was last updated.")]
    rule: Annotated[str, Meta(description="What found it in the text.")] = always("")
    confidence: Annotated[float, Meta(description="How sure that rule can be.")] = always(1.0)
    stated: Annotated[
        tuple[str, ...], Meta(description="How the document writes the references, where that differs.")
    ] = ()
    key_id: Annotated[str, Meta(extra_json_schema={INTERNAL: True})] | UnsetType = UNSET

    def __post_init__(self) -> None:
        derive(self, confidence=round(self.confidence, 6))


class Node(Record, frozen=True):
    """A thing, as far as a reader may know of it. `properties` are those of the most trusted, then the newest statement
    that has them."""

    key: Annotated[str, Meta(description="namespace:value")]
    type: str
    properties: Properties = field(default_factory=dict)
    evidence: tuple[GraphEvidence, ...] = ()
    declared: Annotated[
        bool, Meta(description="True if a document is about it, or lists it; else it is only mentioned.")
    ] = False
    rag_chunks: Annotated[tuple[str, ...], Meta(description="Chunks that name it.")] = ()

    def __post_init__(self) -> None:
        derive(self, rag_chunks=_chunks_of(self.evidence))


class Edge(Record, frozen=True):
    """A relation, as far as a reader may know of it. `evidence` is never empty, the newest first.

    `at` is when it was true last, as far as is known. `confidence` is that of its best evidence, weighted with the trust in
    the document. Raises `InvalidInputError` without evidence.
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
        """The end that `key` isn't."""
        return self.target if key == self.source else self.source


def _chunks_of(evidence: Iterable[GraphEvidence]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(chunk for one in evidence for chunk in one.chunk_ids))


def shown(things: Iterable[T]) -> tuple[T, ...]:
    """Nodes or edges without the keys of the documents that prove them, which nobody outside needs."""
    return tuple(replace(one, evidence=tuple(replace(proof, key_id=UNSET) for proof in one.evidence)) for one in things)


@dataclass(frozen=True, slots=True)
class Walk:
    """How far to go from where one starts, and along what.

    `fan_out` bounds the edges that are followed from one node, the newest first; `most_nodes` all that are reached.
    `since` and `until` bound when an edge was true, ISO 8601, both included; "" for no bound. Raises
    `InvalidInputError`.
    """

    hops: int = 1
    direction: Direction = Direction.BOTH
    edge_types: tuple[str, ...] = ()
    fan_out: int = 50
    most_nodes: int = 500
    since: str = ""
    until: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "direction", Direction(self.direction))
        for name, value, most in (
            ("hops", self.hops, MAX_HOPS),
            ("fan_out", self.fan_out, MAX_FAN_OUT),
            ("most_nodes", self.most_nodes, MAX_NODES),
        ):
            if not 1 <= value <= most:
                raise InvalidInputError(f"{name} must be between 1 and {most}, not {value}")


@dataclass(frozen=True, slots=True)
class Reached:
    """A node on a walk: how many edges away it is, and by which it was reached first, from the start."""

    key: str
    distance: int
    path: tuple[Edge, ...] = ()


@dataclass(frozen=True, slots=True)
class Subgraph:
    """Where a walk led. `reached` has its start, too, the nearest first; `cut` names nodes of which not all edges were
    followed. `contradicting` are pairs of `edges` that can't both be true."""

    reached: tuple[Reached, ...] = ()
    edges: tuple[Edge, ...] = ()
    cut: tuple[str, ...] = ()
    contradicting: tuple[tuple[Edge, Edge], ...] = ()


@dataclass(frozen=True, slots=True)
class Route:
    """How two things are connected: the edges from one to the other, none if they are one; None if no way was found.

    `cut` names nodes of which not all edges were looked at: there may be a shorter way, or any at all, behind them.
    """

    source: str
    target: str
    edges: tuple[Edge, ...] | None
    cut: tuple[str, ...] = ()


class Relinked(Record, frozen=True):
    """Counts of a run that added mentions of names to documents. `left_out` names what it didn't get to."""

    names: int = 0
    documents: int = 0
    mentions: int = 0
    busy: Annotated[int, Meta(description="Documents that were being ingested just then.")] = 0
    left_out: tuple[str, ...] = ()


# -- aliases


class Alias(Record, frozen=True):
    """Another name of a thing, for those who may see the scope `area` (its key).

    `seen_count` is how often it was registered, `last_seen_at` when last (ISO 8601). `set_by` is who set it, "" if that is
    not known or nobody did; `is_set` tells whether a person did. `documents` is how many documents say it.
    """

    alias: str
    canonical: str
    area: Annotated[str, Meta(description="The scope that it is of.")]
    seen_count: int = 1
    last_seen_at: str = ""
    is_set: bool = False
    set_by: str = ""
    documents: int = 0


class MergeState(StrEnum):
    """How far a merge is. What is `merging` or `undoing` was interrupted, or is being done."""

    MERGING = "merging"
    MERGED = "merged"
    UNDOING = "undoing"
    UNDONE = "undone"


class Merge(Record, frozen=True):
    """Two things that were made one in the scope `area` (its key): what is said of `source` is said of `into`."""

    merge_id: str
    area: str
    source: str
    into: str
    state: MergeState
    by: str = ""
    at: str = ""
    undone_by: str = ""
    undone_at: str = ""
