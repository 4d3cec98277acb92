"""Searches both legs in one round trip, fuses them, collapses near-duplicates and limits the chunks per document."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from functools import partial
from typing import TypeVar

from msgspec import Struct, field

from opx.domain.documents import DocumentChunk
from opx.domain.knowledge import NO_KNOWLEDGE, WARNINGS_CATEGORY, KnowledgeModel
from opx.domain.queries import Fusion, QueryConfig, SearchMode
from opx.domain.record import replace
from opx.domain.results import IndexedChunk
from opx.hygiene.near_duplicates import GroupsOfCopies
from opx.ports import Leg, SearchEngine, SearchFilter, SearchRequest, SearchResponse, Vector
from opx.retrieval.judging_records import ChunkRecords, JudgingRecord, hashed
from opx.text.analyzer import ENGLISH
from opx.text.fields import VALUE_WEIGHT, all_terms, words
from opx.text.languages import document_languages

# -- search


DEPTH = {SearchMode.FAST: 30, SearchMode.BALANCED: 100, SearchMode.THOROUGH: 100}
"""Candidates of each leg. nDCG@10 is the same within .002 from 30 to 400; see docs/decisions/0003-fusion.md."""

JUDGED = 20
"""Documents that are judged one by one; the following ones keep their order."""

SPARE_DOCUMENTS = 8
"""Documents that are kept beyond those that are judged, or wanted."""


class FusedHit(Struct, frozen=True, gc=False):
    """A chunk by its entry's id, its rank (from 1) and score in each leg (None if the leg lacks it), its fused score and its
    record. `chunks` has the chunk itself, which an engine may decode only then.

    `copies` are its near-duplicates, best first; the fused score is that of the best of all of them.
    """

    entry_id: str
    record: JudgingRecord
    chunks: Mapping[str, IndexedChunk]
    fused: float = 0.0
    lexical: tuple[int, float] | None = None
    vector: tuple[int, float] | None = None
    copies: tuple[FusedHit, ...] = ()

    @property
    def indexed(self) -> IndexedChunk:
        return self.chunks[self.entry_id]

    @property
    def chunk(self) -> DocumentChunk:
        return self.chunks[self.entry_id].chunk

    @property
    def document_id(self) -> str:
        return self.record.facts.document_id


# -- near-duplicates: one of them is shown, the others are named with it

H = TypeVar("H")


def collapse_near_duplicates(hits: Sequence[H], of: Callable[[H], FusedHit]) -> Iterator[tuple[H, H, list[H]]]:
    """Yields for each group of near-duplicates, in the order of their first: the first hit, the most trusted one (ties: the
    first of them), and all others than that."""
    for group in groups_of_copies([of(hit) for hit in hits]):
        if len(group) == 1:
            yield hits[group[0]], hits[group[0]], []
            continue
        members = [hits[at] for at in group]
        chosen = max(members, key=lambda hit: of(hit).record.facts.trust)
        yield members[0], chosen, [hit for hit in members if hit is not chosen]


def groups_of_copies(hits: Sequence[FusedHit]) -> list[list[int]]:
    """Positions of near-duplicate chunks, group by group, in the order of each group's first. A chunk belongs to the first
    group whose first chunk it is a copy of."""
    groups: list[list[int]] = []
    known = GroupsOfCopies()
    for position, hit in enumerate(hits):
        at = known.place(hit.record.marks, hit, len(groups))
        if at == len(groups):
            groups.append([])
        groups[at].append(position)
    return groups


# -- hits

Accepts = Callable[[FusedHit], bool]
"""True if a hit may be shown."""


def every_hit(_: FusedHit) -> bool:
    return True


BOTH, LEXICAL, VECTOR = "both", "lexical", "vector"
"""Legs that are searched, or that took part in a search."""


class FusedHits(Struct, frozen=True):
    """All hits, best first, with the index's statistics of the query's terms and the legs.

    `levels` are the scores of the default fusion for the same hits, descending: they measure the first, second ... hit on
    one scale, whatever decided the order. `judged`: the fused scores are the engine's own estimates of relevance, in
    [0, 1]. `leg_ms` is the duration of each leg, if the engine reports it. `words` are those of the question, each with the
    terms that represent it; `term_weights` has the first of them. `passages` are all chunks of each document that were
    read. `frequencies`: for each word, how many of the `entries` have it, if the engine reports it. `legs`: those that took
    part, `both`, `lexical` or `vector`. `instructions`: the same hits without the reports, None if there are none;
    `with_warnings`: with the warnings that were found, None if there are none.
    """

    hits: tuple[FusedHit, ...]
    levels: tuple[float, ...]
    term_weights: dict[str, float]
    failed_legs: dict[str, str]
    judged: bool = False
    notes: tuple[str, ...] = ()
    leg_ms: dict[str, float] = field(default_factory=dict)
    words: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    passages: Mapping[str, tuple[FusedHit, ...]] = field(default_factory=dict)
    frequencies: Mapping[str, int] = field(default_factory=dict)
    entries: int = 0
    legs: str = BOTH
    instructions: FusedHits | None = None
    with_warnings: FusedHits | None = None

    def records(self, hit: FusedHit) -> Sequence[JudgingRecord]:
        """Those of all passages of the hit's document that were found."""
        return [passage.record for passage in self.passages.get(hit.document_id, (hit,))]


class HybridQuery(Struct, frozen=True):
    """A query for both legs: words, their vector (None: lexical only), their possible languages, and a filter of hits.
    `by_meaning`: only the vector leg is searched. `values` are those of its words that count less."""

    text: str
    vector: Vector | None
    languages: tuple[str, ...] = ENGLISH
    accepts: Accepts = every_hit
    by_meaning: bool = False
    values: frozenset[str] = frozenset()


FEW_INSTRUCTIONS = 5
"""Documents of instructions among the candidates, below which they are searched alone if reports filled the rest. The best
of a leg are among its candidates: further ones rank behind these."""


class HybridSearch:
    """Searches an index. The order of a single leg is kept, and so is that of an engine that fuses by itself. `knowledge`
    has the categories of reports."""

    def __init__(self, index: SearchEngine, knowledge: KnowledgeModel = NO_KNOWLEDGE) -> None:
        self._index = index
        self._knowledge, self._reports = knowledge, knowledge.reports

    def search(
        self, query: HybridQuery, where: SearchFilter, config: QueryConfig, *, per_document: int = 1
    ) -> FusedHits:
        """The fused hits of the best documents, at least `per_document` of each that has them. Warnings and reports are
        separate: they have the same words as the page that they are about, and beside them the page would lose half of its
        confidence. Raises `IndexUnavailableError`."""
        response = self._index.search(_request(query, where, config))
        fused = partial(
            fused_hits,
            method=config.fusion or DEFAULT_FUSION,
            per_document=max(config.max_chunks_per_document, per_document),
            documents=max(JUDGED, config.max_results) + SPARE_DOCUMENTS,
            accepts=accepted_by(config.require_provenance, query.accepts),
            question_words=words(query.text, query.languages),
            values=query.values,
        )
        everything = Candidates.of(response)
        others = everything.without(lambda category: category == WARNINGS_CATEGORY)
        found = replace(fused(others), legs=_legs(query, response))
        own = others.without(self._knowledge.is_report)
        if own is not others:
            own = self._alone(query, where, config) if _is_crowded(own, everything, config) else own
            found = replace(found, instructions=replace(fused(own), legs=found.legs))
        if others is everything:
            return found
        return replace(found, with_warnings=replace(fused(everything), legs=found.legs))

    def _alone(self, query: HybridQuery, where: SearchFilter, config: QueryConfig) -> Candidates:
        """The hits in categories of instructions alone."""
        categories = where.categories or tuple(self._knowledge.categories)
        within = tuple(path for path in categories if path not in self._reports)
        narrowed = replace(where, categories=within)
        return Candidates.of(self._index.search(_request(query, narrowed, config)) if within else SearchResponse())


def _request(query: HybridQuery, where: SearchFilter, config: QueryConfig) -> SearchRequest:
    text = None if query.by_meaning else query.text
    return SearchRequest(where, text, query.vector, DEPTH[config.mode], query.languages, query.values)


class Candidates(Struct, frozen=True):
    """A response with the records of all its chunks."""

    response: SearchResponse
    records: ChunkRecords

    @classmethod
    def of(cls, response: SearchResponse) -> Candidates:
        return cls(response, ChunkRecords(response))

    @property
    def legs(self) -> Sequence[Leg]:
        return (self.response.lexical, self.response.vector, self.response.fused or Leg())

    def without(self, excludes: Callable[[str], bool]) -> Candidates:
        """Those that are not of some categories; the same ones if none is."""
        excluded = {entry for entry in self.records if excludes(self.records.category(entry))}
        if excluded.isdisjoint(entry for leg in self.legs for entry, _ in leg.hits):
            return self
        lexical, vector, fused = (
            replace(leg, hits=tuple(hit for hit in leg.hits if hit[0] not in excluded)) for leg in self.legs
        )
        ready = fused if self.response.fused else None
        return Candidates(replace(self.response, lexical=lexical, vector=vector, fused=ready), self.records)


def _legs(query: HybridQuery, response: SearchResponse) -> str:
    """Legs that took part; a failed leg didn't."""
    if query.by_meaning or response.lexical.error:
        return VECTOR
    return LEXICAL if query.vector is None or response.vector.error else BOTH


def fused_hits(
    found: Candidates,
    method: Fusion,
    per_document: int,
    *,
    documents: int | None = None,
    accepts: Accepts = every_hit,
    question_words: Mapping[str, tuple[str, ...]] | None = None,
    values: Set[str] = frozenset(),
) -> FusedHits:
    """Fuses an index's response to one list without near-duplicates, with at most `per_document` chunks of each of the best
    `documents`, None for all.

    Hits that are not accepted are removed first. Without `question_words`, each of the response's terms is a word. `values`
    are words that count less.
    """
    response = found.response
    question_words = (
        question_words if question_words is not None else {term: (term,) for term in response.term_frequencies}
    )
    weights = term_weights(response, values)
    share = lexical_weight(response, found.records, weights, question_words)
    weights = weights or dict.fromkeys(question_words, 1.0)
    scored = response.fused.hits if response.fused else fuse(method, response.lexical.hits, response.vector.hits, share)
    hits, passages = _best_documents(found, scored, accepts, documents)
    kept = tuple(thinned(_without_copies(hits), per_document))
    legs = {"lexical": response.lexical, "vector": response.vector, "hybrid": response.fused or Leg()}
    failed = {name: leg.error for name, leg in legs.items() if leg.error}
    taken = {name: leg.took_ms for name, leg in legs.items() if leg.took_ms is not None}
    levels = _levels(kept, response, method, share)
    judged = response.fused is not None
    return FusedHits(
        kept,
        levels,
        weights,
        failed,
        judged=judged,
        notes=response.notes,
        leg_ms=taken,
        words=question_words,
        passages=passages,
        frequencies=response.term_frequencies,
        entries=response.entry_count,
    )


def _is_crowded(own: Candidates, everything: Candidates, config: QueryConfig) -> bool:
    """True if a search found few documents of instructions, and as many hits as it may."""
    documents = {own.records.document_id(entry) for leg in own.legs for entry, _ in leg.hits}
    return len(documents) < FEW_INSTRUCTIONS and any(len(leg.hits) >= DEPTH[config.mode] for leg in everything.legs)


def _best_documents(
    found: Candidates, scored: Scored, accepts: Accepts, documents: int | None
) -> tuple[list[FusedHit], dict[str, tuple[FusedHit, ...]]]:
    """The hits of the best documents that may be shown, best first; and all passages of these documents."""
    lexical, vector = _ranks(found.response.lexical), _ranks(found.response.vector)
    hits: list[FusedHit] = []
    passages: dict[str, list[FusedHit]] = {}
    for entry, score in scored:
        name = found.records.document_id(entry)
        if name not in passages and len(passages) == documents:
            continue
        hit = FusedHit(entry, found.records[entry], found.response.chunks, score, lexical.get(entry), vector.get(entry))
        if accepts(hit):
            hits.append(hit)
        elif name not in passages:
            continue
        passages.setdefault(name, []).append(hit)
    return hits, {name: tuple(some) for name, some in passages.items()}


def accepted_by(require_provenance: bool, accepts: Accepts) -> Accepts:
    """Filter of hits that may be shown; with `require_provenance`, only hits with a source."""
    if not require_provenance:
        return accepts
    return lambda hit: bool(hit.record.facts.source_uri) and accepts(hit)


def _levels(hits: tuple[FusedHit, ...], response: SearchResponse, method: Fusion, share: float) -> tuple[float, ...]:
    if response.fused or method is DEFAULT_FUSION:
        return tuple(hit.fused for hit in hits)
    scores = dict(fuse(DEFAULT_FUSION, response.lexical.hits, response.vector.hits, share))
    best = (max(scores[one.entry_id] for one in (hit, *hit.copies)) for hit in hits)
    return tuple(sorted(best, reverse=True))


def _ranks(leg: Leg) -> dict[str, tuple[int, float]]:
    return {entry: (rank, score) for rank, (entry, score) in enumerate(leg.hits, start=1)}


def _without_copies(hits: Sequence[FusedHit]) -> Iterator[FusedHit]:
    """One hit for each group of near-duplicates, at the best one's rank: the most trusted (ties: the best)."""
    for first, chosen, others in collapse_near_duplicates(hits, lambda hit: hit):
        yield replace(chosen, fused=first.fused, copies=tuple(others)) if others else chosen


def thinned(hits: Iterable[FusedHit], per_document: int) -> Iterator[FusedHit]:
    """At most `per_document` chunks of a document."""
    counts: dict[str, int] = {}
    for hit in hits:
        name = hit.document_id
        if counts.get(name, 0) < per_document:
            counts[name] = counts.get(name, 0) + 1
            yield hit


# -- fusion of the two legs

Scored = Sequence[tuple[str, float]]
"""Entry ids with their scores, best first."""

RRF_K = 60
"""Cormack, Clarke and Buettcher, Reciprocal rank fusion outperforms Condorcet (SIGIR 2009)."""

LEXICAL_WEIGHT = 0.6
"""Share of the lexical leg in the weights. Measured, see docs/decisions/0003-fusion.md: nearly flat between .6 and .8."""

COVERED_ENOUGH = 0.5
"""Share of a question that the best lexical hit has to cover for the lexical leg to get its full weight."""

RARE_WORDS_ENOUGH = 1.5
"""Words that only one entry has, or as much of more frequent ones, which are enough for the full weight, too, however long
the question is."""

DEFAULT_FUSION = Fusion.MIN_MAX


def reciprocal_rank_fusion(
    lists: Sequence[Scored], weights: Sequence[float] | None = None, k: int = RRF_K
) -> list[tuple[str, float]]:
    """Fuses by the sum of weight / (k + i + 1) over the lists with an entry at rank i, counted from 0."""
    fused: dict[str, float] = {}
    for scored, weight in zip(lists, weights or [1.0] * len(lists), strict=True):
        for i, (entry, _) in enumerate(scored):
            fused[entry] = fused.get(entry, 0.0) + weight / (k + i + 1)
    return _ordered(fused)


def min_max_fusion(lists: Sequence[Scored], weights: Sequence[float]) -> list[tuple[str, float]]:
    """Fuses by the weighted sum of scores, scaled to [0, 1] in each list; an entry that a list lacks has 0 there."""
    fused: dict[str, float] = {}
    for scored, weight in zip(lists, weights, strict=True):
        for entry, value in _scaled(scored):
            fused[entry] = fused.get(entry, 0.0) + weight * value
    return _ordered(fused)


def fuse(
    method: Fusion, lexical: Scored, vector: Scored, lexical_weight: float = LEXICAL_WEIGHT
) -> list[tuple[str, float]]:
    """Fuses both legs to one list, best first, ties by id. If one leg has no hits, the other has all the weight."""
    share = lexical_weight if lexical and vector else float(bool(lexical))
    return _METHODS[method]([lexical, vector], (share, 1 - share))


_METHODS: dict[Fusion, Callable[[Sequence[Scored], Sequence[float]], list[tuple[str, float]]]] = {
    Fusion.RRF: lambda lists, _: reciprocal_rank_fusion(lists),
    Fusion.WEIGHTED_RRF: reciprocal_rank_fusion,
    Fusion.MIN_MAX: min_max_fusion,
}


def _scaled(scored: Scored) -> list[tuple[str, float]]:
    if not scored:
        return []
    low = min(score for _, score in scored)
    span = max(score for _, score in scored) - low
    return [(entry, (score - low) / span if span > 0 else 1.0) for entry, score in scored]


def _ordered(fused: dict[str, float]) -> list[tuple[str, float]]:
    return sorted(fused.items(), key=lambda item: (-item[1], item[0]))


# -- the weight of the lexical leg


def term_weights(response: SearchResponse, values: Set[str]) -> dict[str, float]:
    """Rarity of each query term: Lucene's idf, ln(1 + (N - n + .5) / (n + .5)), times `VALUE_WEIGHT` for values.

    A term that occurs nowhere counts fully against a hit, unless it has a digit: a value from a log line (a host, a
    duration) is not expected in a runbook.
    """
    weights = {}
    total = max(response.entry_count, 1)
    for term, found in response.term_frequencies.items():
        unseen_value = found == 0 and any(character.isdigit() for character in term)
        share = VALUE_WEIGHT if term in values else 1.0
        weights[term] = 0.0 if unseen_value else share * math.log(1 + (max(total - found, 0) + 0.5) / (found + 0.5))
    return weights


def lexical_weight(
    response: SearchResponse,
    records: Mapping[str, JudgingRecord],
    weights: Mapping[str, float],
    question_words: Mapping[str, tuple[str, ...]],
) -> float:
    """Lexical weight, reduced if even the best lexical hit has few of the words: scaled scores would hide that."""
    entry, score = next((hit for hit in response.lexical.hits if hit[0] in records), ("", 0.0))
    if not entry or not any(weights.values()):
        return LEXICAL_WEIGHT
    covered = _coverage(weights, question_words, records[entry]) / COVERED_ENOUGH
    matched = score / (RARE_WORDS_ENOUGH * math.log1p(response.entry_count))
    return LEXICAL_WEIGHT * min(1.0, max(covered, matched)) if covered else 0.0


def _coverage(
    weights: Mapping[str, float], question_words: Mapping[str, tuple[str, ...]], record: JudgingRecord
) -> float:
    """Share of a question's words, by their weight, that the chunk has; 0 if nothing has weight."""
    total, there = sum(weights.values()), frozenset(record.terms)
    found = (
        weight for word, weight in weights.items() if not there.isdisjoint(hashed(question_words.get(word, (word,))))
    )
    return sum(found) / total if total else 0.0


def terms_of(indexed: IndexedChunk) -> Set[str]:
    """All terms of a chunk under its title and section, in its language."""
    return frozenset(all_terms(indexed.chunk.text, document_languages(indexed.language)))
