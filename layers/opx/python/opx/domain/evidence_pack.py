"""What text and graph together say to a question, each piece with where it is from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from opx.domain.knowledge import Tier


class EvidenceSource(StrEnum):
    """Found as text, or by going along relations."""

    RAG = "RAG"
    GRAPH = "Graph"


@dataclass(frozen=True, slots=True)
class PathStep:
    """A relation on the way to what was found, as it was stated; a path may go along it or against it."""

    source: str
    edge_type: str
    target: str

    def to_json(self) -> dict[str, str]:
        return {"from": self.source, "edgeType": self.edge_type, "to": self.target}


@dataclass(frozen=True, slots=True)
class EvidenceItem:
    """A passage, or a relation with the passage that proves it.

    Of a relation, and of a passage that one leads to, `node` is what was reached, `relation` the last step of `path` in
    words, `at` when that was true, and `evidence_chunk_ids` are the passages that prove it; `document_id` and `chunk_id`
    say where the text in `content` is from, one of those or one about the node itself. `untrusted`: from outside of the
    organisation, data to weigh, whatever it asks for. `answers` is true for what answers a question that the graph was
    asked, not only lies near what it is about.
    """

    source: EvidenceSource
    content: str
    confidence: float
    path: tuple[PathStep, ...] = ()
    document_id: str = ""
    chunk_id: str = ""
    title: str = ""
    tier: str = Tier.INTERNAL.value
    node: str = ""
    relation: str = ""
    at: str = ""
    evidence_chunk_ids: tuple[str, ...] = ()
    answers: bool = False
    flags: tuple[str, ...] = ()

    @property
    def untrusted(self) -> bool:
        return self.tier != Tier.INTERNAL

    def to_json(self) -> dict[str, Any]:
        """The camelCase form; what is empty is left out, but for a path and a document."""
        more = {
            "title": self.title,
            "node": self.node,
            "relation": self.relation,
            "at": self.at,
            "evidenceChunkIds": list(self.evidence_chunk_ids),
            "answers": self.answers,
            "flags": list(self.flags),
        }
        return {
            "source": self.source.value,
            "content": self.content,
            "confidence": round(self.confidence, 6),
            "path": [step.to_json() for step in self.path],
            "documentId": self.document_id,
            "chunkId": self.chunk_id,
            "tier": self.tier,
            "untrusted": self.untrusted,
            **{name: value for name, value in more.items() if value},
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> EvidenceItem:
        return cls(
            source=EvidenceSource(data["source"]),
            content=data["content"],
            confidence=data["confidence"],
            path=tuple(PathStep(step["from"], step["edgeType"], step["to"]) for step in data["path"]),
            document_id=data["documentId"],
            chunk_id=data["chunkId"],
            title=data.get("title", ""),
            tier=data["tier"],
            node=data.get("node", ""),
            relation=data.get("relation", ""),
            at=data.get("at", ""),
            evidence_chunk_ids=tuple(data.get("evidenceChunkIds", ())),
            answers=bool(data.get("answers", False)),
            flags=tuple(data.get("flags", ())),
        )


@dataclass(frozen=True, slots=True)
class EvidencePack:
    """The items, those that answer a question of the graph first, then the surest. `understood` says how such a question
    was read, "" if it was none."""

    items: tuple[EvidenceItem, ...] = ()
    understood: str = ""

    @property
    def summary(self) -> str:
        """`Found 5 RAG results and 12 related graph nodes.`"""
        texts = sum(1 for item in self.items if item.source is EvidenceSource.RAG)
        nodes = len({item.node for item in self.items if item.node})
        return f"Found {_counted(texts, 'RAG result')} and {_counted(nodes, 'related graph node')}."

    def to_json(self) -> dict[str, Any]:
        """The camelCase form."""
        return {
            "items": [item.to_json() for item in self.items],
            "summary": self.summary,
            **({"understood": self.understood} if self.understood else {}),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> EvidencePack:
        """The pack that `to_json` was called on."""
        return cls(tuple(map(EvidenceItem.from_json, data["items"])), data.get("understood", ""))


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
