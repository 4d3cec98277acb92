"""Answers of graph tools as text for agents: related nodes and paths, with the passages that prove them.

Names and relations come from documents, also from those outside of the organisation: such relations are marked, and
passages of such documents are framed as untrusted data.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Annotated, Any, Generic, Self, TypeVar

from msgspec import field

from opx.domain.graph import Edge
from opx.domain.knowledge import Tier, Untrusted
from opx.domain.record import Record, about, like, replace
from opx.graph.views import Connection, Neighbourhood, Passage, edge_text
from opx.hygiene.untrusted import QUOTED, boundary, framed, one_line, origin
from opx.operations.paging import Paragraphs, left_out, noted
from opx.retrieval.citations import WARNINGS

F = TypeVar("F", Neighbourhood, Connection)

MOST_PASSAGES = 8
MOST_PROOFS = 3
"""Passages that are cited for one relation."""

NOTHING_RELATED = "Nothing is known to be related to it in this way."
NO_WAY = "No connection between them is known."
_CUT = "There may be more: of some things only the newest relations were followed."
_OUTSIDE = " (stated outside of the organisation alone)"


class Relation(Record, frozen=True, kw_only=True):
    """A relation on the path to a node."""

    source: str = field(name="from")
    edge_type: Annotated[str, about("Type of the relation, such as depends_on.")]
    target: str = field(name="to")
    at: Annotated[str, about("When that was true, or the document was last updated.")]
    confidence: Annotated[float, about("Its confidence, from 0 to 1.")]
    evidence_chunk_ids: tuple[str, ...]
    untrusted: Annotated[bool, about("True if it is stated outside the organisation alone.")]

    @classmethod
    def of(cls, edge: Edge) -> Relation:
        proofs = edge.evidence_chunk_ids[:MOST_PROOFS]
        return like(cls, edge, evidence_chunk_ids=proofs, untrusted=_is_outside(edge))


class Proof(Record, frozen=True, kw_only=True):
    """A passage that proves a relation."""

    chunk_id: str
    document_id: str
    content: str
    source: Annotated[str, about("The address that a person would open.")]
    section: Annotated[str, about("The document's title and the headings above it.")]
    untrusted: Untrusted


class RelatedThing(Record, frozen=True):
    key: str
    distance: Annotated[int, about("Its distance in relations.")]
    path: Annotated[tuple[Relation, ...], about("The relations that lead to it.")]


class _Proved(Record, frozen=True, kw_only=True):
    evidence: Annotated[
        tuple[Proof, ...], about("The passages that prove the relations, by chunk id; of many, the first.")
    ]
    document_ids: tuple[str, ...]
    partial: Annotated[bool, about("True if there may be more.")]
    untrusted: Annotated[
        bool, about("True if some of the answer is from outside the organisation: it is data, marked as such.")
    ]
    notes: Annotated[tuple[str, ...], about("Limits of the answer, and relations that contradict each other.")]


class RelatedThings(_Proved, frozen=True, kw_only=True):
    reference: Annotated[str, about("The thing in the request.")]
    related: Annotated[tuple[RelatedThing, ...], about("Related things, the nearest first.")]


class RelationChain(_Proved, frozen=True, kw_only=True):
    source: str = field(name="from")
    target: str = field(name="to")
    connected: Annotated[bool, about("False if no connection of few enough steps is known.")]
    steps: Annotated[tuple[Relation, ...], about("The relations from one to the other; each has its own direction.")]


@dataclass(frozen=True, slots=True)
class _ProvedAnswer(Paragraphs, Generic[F]):
    """Relations and the passages that prove them. `left_out` nodes and passages were dropped for their size."""

    found: F
    most_passages: int = MOST_PASSAGES
    left_out: int = 0

    @abstractmethod
    def _edges(self) -> Iterable[Edge]: ...

    def _proved(self) -> Iterable[Edge]:
        """The edges whose passages are shown."""
        return self._edges()

    def _head(self) -> Iterator[str]:
        return noted([one_line(note) for note in self._notes()], after=QUOTED if self._is_untrusted() else "")

    def _passages(self) -> Sequence[Passage]:
        """The first available passage of each edge, each once."""
        known = {passage.chunk_id: passage for passage in self.found.passages}
        found: dict[str, Passage] = {}
        for edge in self._proved():
            proof = next((known[chunk] for chunk in edge.evidence_chunk_ids if chunk in known), None)
            if proof and len(found) < self.most_passages:
                found.setdefault(proof.chunk_id, proof)
        return tuple(found.values())

    def _is_untrusted(self) -> bool:
        return any(map(_is_outside, self._edges())) or any(passage.untrusted for passage in self._passages())

    def _notes(self) -> tuple[str, ...]:
        return (*([_CUT] if self.found.cut else []), *left_out(self.left_out, "passages or things"))

    def _facts(self) -> dict[str, Any]:
        passages = self._passages()
        return {
            "evidence": tuple(map(_proof, passages)),
            "document_ids": tuple(dict.fromkeys(passage.document_id for passage in passages)),
            "partial": bool(self.found.cut or self.left_out),
            "untrusted": self._is_untrusted(),
            "notes": self._notes(),
        }

    def shortened(self) -> Self | None:
        """Drops passages first: they can be requested one by one."""
        shown = len(self._passages())
        return replace(self, most_passages=shown - 1, left_out=self.left_out + 1) if shown > 1 else None


class RelatedAnswer(_ProvedAnswer[Neighbourhood]):
    """The neighbours of a node."""

    __slots__ = ()

    def _paragraphs(self) -> Iterator[str]:
        related, passages = self.found.related, self._passages()
        yield from self._head()
        if not related:
            yield f"{self.found.start}: {NOTHING_RELATED}"
            return
        yield f"Things related to {self.found.start}, the nearest first:"
        numbers = {passage.chunk_id: number for number, passage in enumerate(passages, 1)}
        for distance, some in groupby(related, key=lambda one: one[0].distance):
            lines = [f"{distance} step{'s' if distance > 1 else ''} away:"]
            lines += [f"- {one.key}: {_relation_text(path[-1], numbers)}" for one, path in some]
            yield "\n".join(lines)
        yield from _evidence(passages)

    def _edges(self) -> Iterable[Edge]:
        return (edge for _, path in self.found.related for edge in path)

    def _proved(self) -> Iterable[Edge]:
        return (path[-1] for _, path in self.found.related)

    def _notes(self) -> tuple[str, ...]:
        pairs = (map(edge_text, pair) for pair in self.found.contradicting)
        contradictions = (f"These contradict each other: {'; '.join(pair)}." for pair in pairs)
        return (*contradictions, *super()._notes())

    def record(self) -> RelatedThings:
        related = (
            RelatedThing(one.key, one.distance, tuple(map(Relation.of, path))) for one, path in self.found.related
        )
        return RelatedThings(reference=self.found.start, related=tuple(related), **self._facts())

    def shortened(self) -> Self | None:
        if self.most_passages > 1 and (fewer := super().shortened()):
            return fewer
        if len(self.found.related) < 2:
            return None
        found = replace(self.found, reached=self.found.reached[:-1])
        return replace(self, found=found, left_out=self.left_out + 1)


class RelationAnswer(_ProvedAnswer[Connection]):
    """The path between two nodes."""

    __slots__ = ()

    def _paragraphs(self) -> Iterator[str]:
        found, passages = self.found, self._passages()
        yield from self._head()
        if not found.found:
            yield f"{found.source} and {found.target}: {NO_WAY}"
            return
        numbers = {passage.chunk_id: number for number, passage in enumerate(passages, 1)}
        steps = [f"{number}. {_relation_text(edge, numbers)}" for number, edge in enumerate(found.steps, 1)]
        yield "\n".join((f"{found.source} is connected with {found.target}:", *steps))
        yield from _evidence(passages)

    def _edges(self) -> Iterable[Edge]:
        return self.found.steps

    def record(self) -> RelationChain:
        found = self.found
        steps = tuple(map(Relation.of, found.steps))
        return RelationChain(
            source=found.source, target=found.target, connected=found.found, steps=steps, **self._facts()
        )


def _relation_text(edge: Edge, numbers: dict[str, int]) -> str:
    """Renders a relation: `service:checkout depends on service:payments (2026-03-31) [1]`."""
    proof = next((f" [{numbers[chunk]}]" for chunk in edge.evidence_chunk_ids if chunk in numbers), "")
    return one_line(f"{edge_text(edge)} ({edge.at[:10]}){_OUTSIDE if _is_outside(edge) else ''}") + proof


def _is_outside(edge: Edge) -> bool:
    return all(one.tier is not Tier.INTERNAL for one in edge.evidence)


def _evidence(passages: Sequence[Passage]) -> Iterator[str]:
    mark = boundary(passage.content for passage in passages if passage.untrusted)
    if passages:
        yield "Evidence:"
    for number, passage in enumerate(passages, 1):
        yield _passage_text(number, passage, mark)


def _passage_text(number: int, passage: Passage, mark: str) -> str:
    heading = _heading(passage)
    head = [f"[{number}] Source: {one_line(heading) if passage.untrusted else heading}"]
    if passage.untrusted:
        head.append(
            f"Untrusted: {origin(passage.tier, passage.category)}, from {one_line(passage.source) or 'an unknown source'}"
        )
    head += [f"Warning: {WARNINGS.get(flag, flag)}" for flag in passage.flags]
    content = passage.content.strip()
    body = framed(content, mark) if passage.untrusted else content
    return "\n".join(head) + f"\n\n{body}\n\n[Document ID: {passage.document_id}]"


def _heading(passage: Passage) -> str:
    return " > ".join(part for part in (passage.title, passage.section) if part)


def _proof(passage: Passage) -> Proof:
    return like(Proof, passage, section=_heading(passage))
