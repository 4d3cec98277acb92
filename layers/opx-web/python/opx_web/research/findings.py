"""Merges the results of searches: each passage once, the best first, with every part of the topic represented."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from opx.domain.documents import ChunkMetadata, DocumentChunk
from opx.domain.record import replace
from opx.domain.results import Answer, RetrievalResult
from opx.hygiene.near_duplicates import are_copies
from opx.text.fields import query_terms
from opx_web.reports import Finding
from opx_web.research.planning import OpenQuestion, SubQuery, one_line
from opx_web.research.topics import content_words, subject

MAX_CHARACTERS = 40_000
"""Characters of all findings' contents together."""

MAX_NEAR = 3


@dataclass(slots=True)
class _Passage:
    """A result of its best search, with the searches that found it, and its score for each part of the topic that they were
    for."""

    result: RetrievalResult
    found_by: list[str]
    parts: dict[str, float]
    copies: list[dict[str, Any]] = field(default_factory=list)

    def finding(self) -> Finding:
        result = self.result
        others = {str(copy["documentId"]): copy for copy in (*result.copies, *self.copies)}
        others.pop(result.document_id, None)
        if others:
            result = replace(result, metadata={**result.metadata, "copies": list(others.values())})
        return Finding.of(result, tuple(dict.fromkeys(self.found_by)))


class CollectedFindings:
    """Collects the results of searches that reach `min_confidence`."""

    def __init__(self, min_confidence: float) -> None:
        self._bar = min_confidence
        self._passages: dict[str, _Passage] = {}
        self._near: dict[str, dict[str, RetrievalResult]] = {}

    def add(self, query: SubQuery, answer: Answer) -> int:
        """Adds an answer; returns the number of its results that are new."""
        before = len(self._passages)
        judged = [_judged(result, query.judged_by) for result in answer.results]
        good = [result for result in judged if result.confidence >= self._bar]
        for result in good:
            self._take(query, result)
        near = answer.best_rejected or next(iter(judged), None)
        if near is not None and not good:
            known = self._near.setdefault(query.part, {})
            known[_id(near)] = _better(known.get(_id(near), near), near)
        return len(self._passages) - before

    def gaps(self, parts: Sequence[str]) -> tuple[OpenQuestion, ...]:
        """Parts without a finding of their own searches."""
        covered = {part for passage in self._passages.values() for part in passage.parts}
        return tuple(OpenQuestion(part, self._nearest(part)) for part in parts if part not in covered)

    def nearest(self, parts: Sequence[str]) -> list[RetrievalResult]:
        """The nearest result for each part without a good finding, each once, the best first."""
        near = {_id(gap.near[0]): gap.near[0] for gap in self.gaps(parts) if gap.near}
        return sorted(near.values(), key=lambda result: -result.score)

    def best(self, parts: Sequence[str], most: int, per_document: int) -> tuple[list[Finding], int]:
        """Up to `most` findings, and the number of findings left out for their length.

        First the best for each part, then the others, both by score; at most `per_document` of a document, except the
        parts' best.
        """
        ordered = self._distinct()
        first = _representatives(ordered, parts)
        wanted = [*first, *(passage for passage in ordered if not any(passage is other for other in first))]
        chosen = list(_thinned(wanted, len(first), per_document))[:most]
        kept: list[Finding] = []
        room = MAX_CHARACTERS
        for passage in chosen:
            if len(passage.result.content) <= room:
                room -= len(passage.result.content)
                kept.append(passage.finding())
        return kept, len(chosen) - len(kept)

    def _take(self, query: SubQuery, result: RetrievalResult) -> None:
        label = one_line(query.text)
        known = self._passages.get(_id(result))
        if known is None:
            self._passages[_id(result)] = _Passage(result, [label], {query.part: result.score})
            return
        known.result = _better(known.result, result)
        known.found_by.append(label)
        known.parts[query.part] = max(result.score, known.parts.get(query.part, 0.0))

    def _nearest(self, part: str) -> tuple[RetrievalResult, ...]:
        near = sorted(self._near.get(part, {}).values(), key=lambda result: -result.score)
        return tuple(near[:MAX_NEAR])

    def _distinct(self) -> list[_Passage]:
        """The passages by score, near-duplicates collapsed: the most trusted of them, at the best one's rank."""
        groups: list[tuple[DocumentChunk, list[_Passage]]] = []
        for passage in sorted(self._passages.values(), key=lambda passage: -passage.result.score):
            chunk = _chunk(passage.result)
            group = next((members for first, members in groups if are_copies(chunk, first)), None)
            if group is None:
                groups.append((chunk, [passage]))
            else:
                group.append(passage)
        return [_as_one(members) for _, members in groups]


def _judged(result: RetrievalResult, by: str) -> RetrievalResult:
    """Converts the confidence that a result answers the search to the confidence that it answers `by`, by its share of the
    words of `by`. A search for a document's own title finds that document for certain, whatever the topic is."""
    words = content_words(subject(by) or by)
    if not words:
        return result
    there = set(query_terms(f"{result.title} {result.section} {result.content}"))
    share = sum(not there.isdisjoint(query_terms(word)) for word in words) / len(words)
    parts = result.parts
    if parts is not None:
        parts = replace(parts, confidence=share * parts.confidence, final=share * parts.final)
    return replace(result, score=share * result.score, parts=parts)


def _id(result: RetrievalResult) -> str:
    """The chunk id; for a result without one, such as a page of the web, its source and text."""
    return str(result.metadata.get("chunkId") or f"{result.source}\n{result.content}")


def _better(one: RetrievalResult, other: RetrievalResult) -> RetrievalResult:
    return other if other.score > one.score else one


def _as_one(members: Sequence[_Passage]) -> _Passage:
    if len(members) == 1:
        return members[0]
    shown = max(members, key=lambda passage: passage.result.trust_score)
    return _Passage(
        shown.result,
        [label for passage in members for label in passage.found_by],
        {part: max(passage.parts.get(part, 0.0) for passage in members) for member in members for part in member.parts},
        [_named(passage.result) for passage in members if passage is not shown],
    )


def _named(result: RetrievalResult) -> dict[str, Any]:
    """A near-duplicate in the form of `RetrievalResult.copies`."""
    return {
        "documentId": result.document_id,
        "title": result.title,
        "source": result.source,
        "tier": result.tier,
        "trust": result.trust_score,
    }


def _representatives(ordered: Sequence[_Passage], parts: Sequence[str]) -> list[_Passage]:
    """The best passage for each part, in the order of all."""
    best = {id(passage) for part in parts for passage in [_best_for(part, ordered)] if passage}
    return [passage for passage in ordered if id(passage) in best]


def _best_for(part: str, ordered: Sequence[_Passage]) -> _Passage | None:
    found = [passage for passage in ordered if part in passage.parts]
    return max(found, key=lambda passage: passage.parts[part], default=None)


def _thinned(passages: Sequence[_Passage], first: int, per_document: int) -> Iterator[_Passage]:
    """At most `per_document` passages of a document, except the first ones."""
    counts: dict[str, int] = {}
    for at, passage in enumerate(passages):
        document = passage.result.document_id or passage.result.source
        if at < first or counts.get(document, 0) < per_document:
            counts[document] = counts.get(document, 0) + 1
            yield passage


def _chunk(result: RetrievalResult) -> DocumentChunk:
    """The result as a chunk, for comparison with others."""
    return DocumentChunk(
        chunk_id=_id(result),
        document_id=result.document_id,
        chunk_index=0,
        content=result.content,
        token_count=0,
        section=tuple(result.metadata.get("section", ())),
        start=0,
        end=len(result.content),
        metadata=ChunkMetadata(result.title, result.category),
    )
