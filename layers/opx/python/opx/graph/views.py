"""What the graph answers through every way in, with the passages that prove it, and the JSON of it both ways.

Readers ignore fields that they don't know, as those of `opx.wire` do.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from opx.domain.graph import Edge, Evidence, Node, Reached
from opx.domain.knowledge import Tier

Json = dict[str, Any]
Names = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Passage:
    """A chunk that proves something, and where it is from. `section` is the headings above it, as `A > B`; `flags` are
    those of its document (`suspected_instruction`)."""

    chunk_id: str
    document_id: str
    title: str
    section: str
    source: str
    category: str
    tier: Tier
    content: str
    flags: tuple[str, ...] = ()

    @property
    def untrusted(self) -> bool:
        return self.tier is not Tier.INTERNAL

    def to_json(self) -> Json:
        return {
            "chunkId": self.chunk_id,
            "documentId": self.document_id,
            "title": self.title,
            "section": self.section,
            "source": self.source,
            "category": self.category,
            "tier": self.tier.value,
            "untrusted": self.untrusted,
            "content": self.content,
            **({"flags": list(self.flags)} if self.flags else {}),
        }


@dataclass(frozen=True, slots=True)
class NodeView:
    """A thing and its relations, the newest first; `more` if there are more of them than these. `names` has what things
    are called, by reference, where that says more; `aliases` are the thing's other references."""

    node: Node
    edges: tuple[Edge, ...] = ()
    more: bool = False
    passages: tuple[Passage, ...] = ()
    names: Names = field(default_factory=dict)
    aliases: tuple[str, ...] = ()

    def to_json(self) -> Json:
        return {
            "node": self.node.to_json(),
            "aliases": list(self.aliases),
            "edges": [edge.to_json() for edge in self.edges],
            "more": self.more,
            "passages": [passage.to_json() for passage in self.passages],
            "names": dict(self.names),
        }


@dataclass(frozen=True, slots=True)
class Neighbourhood:
    """What is around a thing. `cut` names those of which not all relations were followed; `contradicting` has relations
    that can't both be; `names` as in `NodeView`."""

    start: str
    reached: tuple[Reached, ...] = ()
    edges: tuple[Edge, ...] = ()
    cut: tuple[str, ...] = ()
    contradicting: tuple[tuple[Edge, Edge], ...] = ()
    passages: tuple[Passage, ...] = ()
    names: Names = field(default_factory=dict)

    def to_json(self) -> Json:
        """The edges of paths and contradictions are those of `edges` with the same ends and type."""
        return {
            "start": self.start,
            "reached": [
                {"key": one.key, "distance": one.distance, "path": [_edge_name(edge) for edge in one.path]}
                for one in self.reached
            ],
            "edges": [edge.to_json() for edge in self.edges],
            "cut": list(self.cut),
            "contradicting": [[_edge_name(edge) for edge in pair] for pair in self.contradicting],
            "passages": [passage.to_json() for passage in self.passages],
            "names": dict(self.names),
        }


@dataclass(frozen=True, slots=True)
class Connection:
    """How two things are connected: the edges from one to the other, each in its own direction. Not `found`: within the
    steps that were looked at they aren't, and if `cut` names things, these have more relations than were followed."""

    source: str
    target: str
    found: bool
    steps: tuple[Edge, ...] = ()
    cut: tuple[str, ...] = ()
    passages: tuple[Passage, ...] = ()

    def to_json(self) -> Json:
        return {
            "from": self.source,
            "to": self.target,
            "found": self.found,
            "steps": [edge.to_json() for edge in self.steps],
            "cut": list(self.cut),
            "passages": [passage.to_json() for passage in self.passages],
        }


def in_words(edge_type: str) -> str:
    """`depends on` for `depends_on`."""
    return edge_type.replace("_", " ")


def said(edge: Edge) -> str:
    """`service:checkout depends on service:payments`."""
    return f"{edge.source} {in_words(edge.edge_type)} {edge.target}"


def name_of(node: Node) -> str:
    """What it is called, "" if its reference says no less."""
    name = str(node.properties.get("title") or node.properties.get("name") or "")
    return "" if name.casefold() == node.key.partition(":")[2] else name


def evidence_of(things: Iterable[Node | Edge]) -> Iterable[Evidence]:
    """The evidence of all of them, the best first within each."""
    return (one for thing in things for one in thing.evidence)


# -- from JSON


def evidence_from_json(data: Mapping[str, Any]) -> Evidence:
    """Whose document it is stays where it came from."""
    return Evidence(
        document_id=data["documentId"],
        chunk_ids=tuple(data["chunkIds"]),
        key_id="",
        scope_key="",
        tier=Tier(data["tier"]),
        trust=data["trust"],
        at=data["at"],
        rule=data["rule"],
        confidence=data["confidence"],
        stated=tuple(data.get("stated", ())),
    )


def node_from_json(data: Mapping[str, Any]) -> Node:
    evidence = tuple(map(evidence_from_json, data["evidence"]))
    return Node(data["key"], data["type"], dict(data["properties"]), evidence, data["declared"])


def edge_from_json(data: Mapping[str, Any]) -> Edge:
    evidence = tuple(map(evidence_from_json, data["evidence"]))
    return Edge(data["from"], data["edgeType"], data["to"], evidence, dict(data["properties"]))


def passage_from_json(data: Mapping[str, Any]) -> Passage:
    return Passage(
        chunk_id=data["chunkId"],
        document_id=data["documentId"],
        title=data["title"],
        section=data["section"],
        source=data["source"],
        category=data["category"],
        tier=Tier(data["tier"]),
        content=data["content"],
        flags=tuple(data.get("flags", ())),
    )


def node_view_from_json(data: Mapping[str, Any]) -> NodeView:
    return NodeView(
        node_from_json(data["node"]),
        _edges(data["edges"]),
        data["more"],
        _passages(data),
        dict(data["names"]),
        tuple(data.get("aliases", ())),
    )


def neighbourhood_from_json(data: Mapping[str, Any]) -> Neighbourhood:
    edges = _edges(data["edges"])
    by_name = {edge.name: edge for edge in edges}

    def named(some: Iterable[Mapping[str, Any]]) -> Iterable[Edge]:
        return (by_name[one["from"], one["edgeType"], one["to"]] for one in some)

    reached = tuple(Reached(one["key"], one["distance"], tuple(named(one["path"]))) for one in data["reached"])
    pairs = tuple((first, second) for first, second in map(named, data["contradicting"]))
    return Neighbourhood(data["start"], reached, edges, tuple(data["cut"]), pairs, _passages(data), dict(data["names"]))


def connection_from_json(data: Mapping[str, Any]) -> Connection:
    steps, cut = _edges(data["steps"]), tuple(data["cut"])
    return Connection(data["from"], data["to"], data["found"], steps, cut, _passages(data))


def _edges(data: Iterable[Mapping[str, Any]]) -> tuple[Edge, ...]:
    return tuple(map(edge_from_json, data))


def _passages(data: Mapping[str, Any]) -> tuple[Passage, ...]:
    return tuple(map(passage_from_json, data["passages"]))


def _edge_name(edge: Edge) -> Json:
    return {"from": edge.source, "edgeType": edge.edge_type, "to": edge.target}
