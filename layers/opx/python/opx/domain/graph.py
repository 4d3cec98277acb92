"""Things and how they are related, each with the text that says so.

What a document says is kept as statements of that document: they come and go with it, so that a relation without any
text behind it can't be. A node or an edge is what all statements about it that a reader may see say together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from opx.domain.documents import KnowledgeDocument
from opx.domain.knowledge import Tier
from opx.domain.remarks import Remark
from opx.domain.scopes import Scope
from opx.errors import InvalidInputError

Value = str | int | float | bool

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
    properties: Mapping[str, Value] = field(default_factory=dict)
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
    properties: Mapping[str, Value] = field(default_factory=dict)

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


@dataclass(frozen=True, slots=True)
class Evidence:
    """Text of one document that proves an edge or names a node: its passages, and how they were understood.

    `stated` is how the document writes the references, where that differs from the canonical ones.
    """

    document_id: str
    chunk_ids: tuple[str, ...]
    key_id: str
    scope_key: str
    tier: Tier
    trust: float
    at: str
    rule: str = ""
    confidence: float = 1.0
    stated: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "documentId": self.document_id,
            "chunkIds": list(self.chunk_ids),
            "tier": self.tier.value,
            "trust": self.trust,
            "at": self.at,
            "rule": self.rule,
            "confidence": round(self.confidence, 6),
            **({"stated": list(self.stated)} if self.stated else {}),
        }


@dataclass(frozen=True, slots=True)
class Node:
    """A thing, as far as a reader may know of it. `properties` are those of the most trusted, then the newest statement
    that has them."""

    key: str
    type: str
    properties: Mapping[str, Value] = field(default_factory=dict)
    evidence: tuple[Evidence, ...] = ()
    declared: bool = False

    @property
    def rag_chunks(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(chunk for one in self.evidence for chunk in one.chunk_ids))

    def to_json(self) -> dict[str, Any]:
        return {
            "key": self.key,
            "type": self.type,
            "properties": dict(self.properties),
            "ragChunks": list(self.rag_chunks),
            "evidence": [one.to_json() for one in self.evidence],
            "declared": self.declared,
        }


@dataclass(frozen=True, slots=True)
class Edge:
    """A relation, as far as a reader may know of it. `evidence` is never empty, the newest first."""

    source: str
    edge_type: str
    target: str
    evidence: tuple[Evidence, ...]
    properties: Mapping[str, Value] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.evidence:
            raise InvalidInputError(f"an edge needs evidence: {self.source} -[{self.edge_type}]-> {self.target}")

    @property
    def name(self) -> EdgeName:
        return self.source, self.edge_type, self.target

    @property
    def at(self) -> str:
        """When it was true last, as far as is known."""
        return max(one.at for one in self.evidence)

    @property
    def confidence(self) -> float:
        """That of its best evidence, weighted with the trust in the document."""
        return max(one.confidence * one.trust for one in self.evidence)

    @property
    def evidence_chunk_ids(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(chunk for one in self.evidence for chunk in one.chunk_ids))

    def other(self, key: str) -> str:
        """The end that `key` isn't."""
        return self.target if key == self.source else self.source

    def to_json(self) -> dict[str, Any]:
        return {
            "edgeType": self.edge_type,
            "from": self.source,
            "to": self.target,
            "evidenceChunkIds": list(self.evidence_chunk_ids),
            "evidence": [one.to_json() for one in self.evidence],
            "at": self.at,
            "confidence": round(self.confidence, 6),
            "properties": dict(self.properties),
        }


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
    cut: tuple[str, ...] = field(default=())
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
