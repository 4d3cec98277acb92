"""What the tools answer that go along relations: who is related to what, and the passages that prove it.

Names of things and what relates them are taken from documents, also from those of others: such relations are marked, and
passages of such documents are in a frame, as everywhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from opx.domain.graph import Edge, Reached
from opx.domain.knowledge import Tier
from opx.domain.record import replace
from opx.graph.views import Connection, Neighbourhood, Passage, said
from opx.hygiene.untrusted import QUOTED, boundary, framed, one_line
from opx.retrieval.citations import WARNINGS

MOST_PASSAGES = 8
NOTHING_RELATED = "Nothing that is known is related to it in this way."
NO_WAY = "No connection between them is known."
_CUT = "There may be more: some things have more relations than were followed, the newest were."
_OUTSIDE = " (stated outside of the organisation alone)"


@dataclass(frozen=True, slots=True)
class RelatedReply:
    """What is around a thing. `left_out` things and passages were dropped for their size."""

    found: Neighbourhood
    most_passages: int = MOST_PASSAGES
    left_out: int = 0

    def text(self) -> str:
        return "\n\n".join(self._parts())

    def _parts(self) -> Iterator[str]:
        related, passages = self._related(), self._passages()
        yield from _head(self._notes(), untrusted=self._is_untrusted())
        if not related:
            yield f"{self.found.start}: {NOTHING_RELATED}"
            return
        yield f"Things related to {self.found.start}, the nearest first:"
        numbers = {passage.chunk_id: number for number, passage in enumerate(passages, 1)}
        for distance, some in groupby(related, key=lambda one: one.distance):
            lines = [f"{distance} step{'s' if distance > 1 else ''} away:"]
            lines += [f"- {one.key}: {_relation_text(one.path[-1], numbers)}" for one in some]
            yield "\n".join(lines)
        yield from _evidence(passages)

    def _related(self) -> list[Reached]:
        return [one for one in self.found.reached if one.path]

    def _passages(self) -> Sequence[Passage]:
        return _proofs((one.path[-1] for one in self._related()), self.found.passages, self.most_passages)

    def _is_untrusted(self) -> bool:
        edges = (edge for one in self._related() for edge in one.path)
        return any(map(_is_outside, edges)) or any(passage.untrusted for passage in self._passages())

    def _notes(self) -> list[str]:
        contradictions = [
            f"These contradict each other: {said(first)}; {said(second)}." for first, second in self.found.contradicting
        ]
        return [*contradictions, *([_CUT] if self.found.cut else []), *_left_out(self.left_out)]

    def to_json(self) -> dict[str, Any]:
        return {
            "reference": self.found.start,
            "related": [
                {"key": one.key, "distance": one.distance, "path": [_edge_json(edge) for edge in one.path]}
                for one in self._related()
            ],
            **_evidence_json(self._passages()),
            "partial": bool(self.found.cut or self.left_out),
            "untrusted": self._is_untrusted(),
            "notes": self._notes(),
        }

    def shortened(self) -> RelatedReply | None:
        """Passages go first: they can be asked for one by one."""
        if self.most_passages > 1 and len(self._passages()) > 1:
            return replace(self, most_passages=len(self._passages()) - 1, left_out=self.left_out + 1)
        if len(self._related()) < 2:
            return None
        fewer = replace(self.found, reached=self.found.reached[:-1])
        return replace(self, found=fewer, left_out=self.left_out + 1)


@dataclass(frozen=True, slots=True)
class RelationReply:
    """How two things are connected. `left_out` passages were dropped for their size."""

    found: Connection
    most_passages: int = MOST_PASSAGES
    left_out: int = 0

    def text(self) -> str:
        return "\n\n".join(self._parts())

    def _parts(self) -> Iterator[str]:
        found, passages = self.found, self._passages()
        yield from _head(self._notes(), untrusted=self._is_untrusted())
        if not found.found:
            yield f"{found.source} and {found.target}: {NO_WAY}"
            return
        numbers = {passage.chunk_id: number for number, passage in enumerate(passages, 1)}
        steps = [f"{number}. {_relation_text(edge, numbers)}" for number, edge in enumerate(found.steps, 1)]
        yield "\n".join((f"{found.source} is connected with {found.target}:", *steps))
        yield from _evidence(passages)

    def _passages(self) -> Sequence[Passage]:
        return _proofs(self.found.steps, self.found.passages, self.most_passages)

    def _is_untrusted(self) -> bool:
        return any(map(_is_outside, self.found.steps)) or any(passage.untrusted for passage in self._passages())

    def _notes(self) -> list[str]:
        return [*([_CUT] if self.found.cut else []), *_left_out(self.left_out)]

    def to_json(self) -> dict[str, Any]:
        return {
            "from": self.found.source,
            "to": self.found.target,
            "connected": self.found.found,
            "steps": [_edge_json(edge) for edge in self.found.steps],
            **_evidence_json(self._passages()),
            "partial": bool(self.found.cut or self.left_out),
            "untrusted": self._is_untrusted(),
            "notes": self._notes(),
        }

    def shortened(self) -> RelationReply | None:
        if len(self._passages()) < 2:
            return None
        return replace(self, most_passages=len(self._passages()) - 1, left_out=self.left_out + 1)


def _head(notes: Sequence[str], *, untrusted: bool) -> Iterator[str]:
    if notes:
        yield "\n".join(f"Note: {one_line(note)}" for note in notes)
    if untrusted:
        yield QUOTED


def _relation_text(edge: Edge, numbers: dict[str, int]) -> str:
    """`service:checkout depends on service:payments (2026-03-31) [1]`."""
    proof = next((f" [{numbers[chunk]}]" for chunk in edge.evidence_chunk_ids if chunk in numbers), "")
    return one_line(f"{said(edge)} ({edge.at[:10]}){_OUTSIDE if _is_outside(edge) else ''}") + proof


def _is_outside(edge: Edge) -> bool:
    return all(one.tier is not Tier.INTERNAL for one in edge.evidence)


def _proofs(edges: Iterable[Edge], passages: Sequence[Passage], most: int) -> Sequence[Passage]:
    """The first passage that there is of each edge, each once."""
    known = {passage.chunk_id: passage for passage in passages}
    found: dict[str, Passage] = {}
    for edge in edges:
        proof = next((known[chunk] for chunk in edge.evidence_chunk_ids if chunk in known), None)
        if proof and len(found) < most:
            found.setdefault(proof.chunk_id, proof)
    return tuple(found.values())


def _evidence(passages: Sequence[Passage]) -> Iterator[str]:
    mark = boundary(passage.content for passage in passages if passage.untrusted)
    if passages:
        yield "Evidence:"
    for number, passage in enumerate(passages, 1):
        yield _passage_text(number, passage, mark)


def _passage_text(number: int, passage: Passage, mark: str) -> str:
    heading = " > ".join(part for part in (passage.title, passage.section) if part)
    head = [f"[{number}] Source: {one_line(heading) if passage.untrusted else heading}"]
    if passage.untrusted:
        head.append(f"Untrusted: {passage.tier.value}, from {one_line(passage.source) or 'an unknown source'}")
    head += [f"Warning: {WARNINGS.get(flag, flag)}" for flag in passage.flags]
    content = passage.content.strip()
    body = framed(content, mark) if passage.untrusted else content
    return "\n".join(head) + f"\n\n{body}\n\n[Document ID: {passage.document_id}]"


def _edge_json(edge: Edge) -> dict[str, Any]:
    return {
        "from": edge.source,
        "edgeType": edge.edge_type,
        "to": edge.target,
        "at": edge.at,
        "confidence": round(edge.confidence, 6),
        "evidenceChunkIds": list(edge.evidence_chunk_ids[:3]),
        "untrusted": _is_outside(edge),
    }


def _evidence_json(passages: Sequence[Passage]) -> dict[str, Any]:
    return {
        "evidence": [
            {
                "chunkId": passage.chunk_id,
                "documentId": passage.document_id,
                "content": passage.content,
                "source": passage.source,
                "section": " > ".join(part for part in (passage.title, passage.section) if part),
                "untrusted": passage.untrusted,
            }
            for passage in passages
        ],
        "documentIds": list(dict.fromkeys(passage.document_id for passage in passages)),
    }


def _left_out(count: int) -> list[str]:
    return [f"{count} more passages or things were left out, as the answer would be too large"] if count else []
