"""Searches both legs in one round trip, fuses them, collapses near-duplicates and limits the chunks per document."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from functools import lru_cache, partial
from typing import TypeVar

from msgspec import Struct, field

from opx.domain.knowledge import WARNINGS_CATEGORY
from opx.domain.queries import Fusion, QueryConfig, SearchMode
from opx.domain.record import replace
from opx.domain.results import IndexedChunk
from opx.hygiene.near_duplicates import GroupsOfCopies
from opx.ports import Leg, SearchEngine, SearchFilter, SearchRequest, SearchResponse, Vector
from opx.text.analyzer import ENGLISH
from opx.text.fields import VALUE_WEIGHT, distinct_terms, words
from opx.text.languages import document_languages

# -- fusion

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


# -- near-duplicates: one of them is shown, the others are named with it

H = TypeVar("H")


def collapse_near_duplicates(hits: Sequence[H], indexed: Callable[[H], IndexedChunk]) -> Iterator[tuple[H, H, list[H]]]:
    """Yields for each group of near-duplicates, in the order of their first: the first hit, the most trusted one (ties: the
    first of them), and all others than that. `indexed` returns the chunk of a hit."""
    for group in groups_of_copies([indexed(hit) for hit in hits]):
        if len(group) == 1:
            yield hits[group[0]], hits[group[0]], []
            continue
        members = [hits[at] for at in group]
        chosen = max(members, key=lambda hit: indexed(hit).trust)
        yield members[0], chosen, [hit for hit in members if hit is not chosen]


def groups_of_copies(chunks: Sequence[IndexedChunk]) -> list[list[int]]:
    """Positions of near-duplicate chunks, group by group, in the order of each group's first.

    A chunk belongs to the first group whose first chunk it is a copy of. Chunks without a fingerprint (indexed before
    fingerprints existed) are only grouped by chunk id.
    """
    groups: list[list[int]] = []
    by_chunk: dict[str, int] = {}
    known = GroupsOfCopies()
    for position, indexed in enumerate(chunks):
        chunk, new = indexed.chunk, len(groups)
        at = by_chunk.get(chunk.chunk_id)
        if at is None:
            at = known.place(chunk, int(indexed.fingerprint, 16), new) if indexed.fingerprint else new
            by_chunk[chunk.chunk_id] = at
        if at == new:
            groups.append([])
        groups[at].append(position)
    return groups


# -- search

Accepts = Callable[[IndexedChunk], bool]
"""True if a hit may be shown."""

DEPTH = {SearchMode.FAST: 30, SearchMode.BALANCED: 100, SearchMode.THOROUGH: 100}
"""Candidates of each leg. nDCG@10 is the same within .002 from 30 to 400; see docs/decisions/0003-fusion.md."""


class FusedHit(Struct, frozen=True, gc=False):
    """A chunk with its rank (from 1) and score in each leg (None if the leg lacks it), and its fused score.

    `copies` are its near-duplicates, best first; the fused score is that of the best of all of them.
    """

    indexed: IndexedChunk
    fused: float
    lexical: tuple[int, float] | None
    vector: tuple[int, float] | None
    copies: tuple[IndexedChunk, ...] = ()


BOTH, LEXICAL, VECTOR = "both", "lexical", "vector"
"""Legs that are searched, or that took part in a search."""


class FusedHits(Struct, frozen=True):
    """All hits, best first, with the index's statistics of the query's terms and the legs.

    `levels` are the scores of the default fusion for the same hits, descending: they measure the first, second ... hit on
    one scale, whatever decided the order. `judged`: the fused scores are the engine's own estimates of relevance, in
    [0, 1]. `leg_ms` is the duration of each leg, if the engine reports it. `words` are those of the question, each with the
    terms that represent it; `term_weights` has the first of them. `passages` are all chunks of each document that either
    leg had. `frequencies`: for each word, how many of the `entries` have it, if the engine reports it. `legs`: those that
    took part, `both`, `lexical` or `vector`. `with_warnings`: the same hits with the warnings that were found, None if
    there are none.
    """

    hits: tuple[FusedHit, ...]
    levels: tuple[float, ...]
    term_weights: dict[str, float]
    failed_legs: dict[str, str]
    judged: bool = False
    notes: tuple[str, ...] = ()
    leg_ms: dict[str, float] = field(default_factory=dict)
    words: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    passages: Mapping[str, tuple[IndexedChunk, ...]] = field(default_factory=dict)
    frequencies: Mapping[str, int] = field(default_factory=dict)
    entries: int = 0
    legs: str = BOTH
    with_warnings: FusedHits | None = None


class HybridQuery(Struct, frozen=True):
    """A query for both legs: words, their vector (None: lexical only), their possible languages, and a filter of hits.
    `by_meaning`: only the vector leg is searched. `values` are those of its words that count less."""

    text: str
    vector: Vector | None
    languages: tuple[str, ...] = ENGLISH
    accepts: Accepts | None = None
    by_meaning: bool = False
    values: frozenset[str] = frozenset()


class HybridSearch:
    """Searches an index. The order of a single leg is kept, and so is that of an engine that fuses by itself."""

    def __init__(self, index: SearchEngine) -> None:
        self._index = index

    def run(self, query: HybridQuery, where: SearchFilter, config: QueryConfig, *, per_document: int = 1) -> FusedHits:
        """The fused hits, at least `per_document` of each document that has them. Warnings are separate: a warning has the
        same words as the page that it is about, and beside it the page would lose half of its confidence. Raises
        `IndexUnavailableError`."""
        depth = DEPTH[config.mode]
        text = None if query.by_meaning else query.text
        response = self._index.search(SearchRequest(where, text, query.vector, depth, query.languages, query.values))
        fused = partial(
            fused_hits,
            method=config.fusion or DEFAULT_FUSION,
            per_document=max(config.max_chunks_per_document, per_document),
            require_provenance=config.require_provenance,
            accepts=query.accepts,
            question_words=words(query.text, query.languages),
            values=query.values,
        )
        others = _without_warnings(response)
        found = replace(fused(others), legs=_legs(query, response))
        return found if others is response else replace(found, with_warnings=replace(fused(response), legs=found.legs))


def _legs(query: HybridQuery, response: SearchResponse) -> str:
    """Legs that took part; a failed leg didn't."""
    if query.by_meaning or response.lexical.error:
        return VECTOR
    return LEXICAL if query.vector is None or response.vector.error else BOTH


def fused_hits(
    response: SearchResponse,
    method: Fusion,
    per_document: int,
    *,
    require_provenance: bool = False,
    accepts: Accepts | None = None,
    question_words: Mapping[str, tuple[str, ...]] | None = None,
    values: Set[str] = frozenset(),
) -> FusedHits:
    """Fuses an index's response to one list without near-duplicates, with at most `per_document` chunks of a document.

    Hits that are not accepted, and with `require_provenance` those without a source, are removed first. Without
    `question_words`, each of the response's terms is a word. `values` are words that count less.
    """
    accepts = accepted_by(require_provenance, accepts)
    question_words = (
        question_words if question_words is not None else {term: (term,) for term in response.term_frequencies}
    )
    weights = _term_weights(response, values)
    share = _lexical_weight(response, weights, question_words)
    weights = weights or dict.fromkeys(question_words, 1.0)
    hits = (hit for hit in _fused(response, method, share) if accepts is None or accepts(hit.indexed))
    kept = tuple(thinned(_without_copies(list(hits)), per_document))
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
        passages=_by_document(response.chunks.values()),
        frequencies=response.term_frequencies,
        entries=response.entry_count,
    )


def _without_warnings(response: SearchResponse) -> SearchResponse:
    """Removes warnings; returns the same response if it has none."""
    chunks = {
        entry: indexed for entry, indexed in response.chunks.items() if indexed.chunk.category != WARNINGS_CATEGORY
    }
    if len(chunks) == len(response.chunks):
        return response

    def kept(leg: Leg) -> Leg:
        return replace(leg, hits=tuple(hit for hit in leg.hits if hit[0] in chunks))

    lexical, vector, fused = kept(response.lexical), kept(response.vector), response.fused and kept(response.fused)
    return replace(response, lexical=lexical, vector=vector, fused=fused, chunks=chunks)


def _by_document(chunks: Iterable[IndexedChunk]) -> dict[str, tuple[IndexedChunk, ...]]:
    found: dict[str, list[IndexedChunk]] = {}
    for indexed in chunks:
        found.setdefault(indexed.chunk.document_id, []).append(indexed)
    return {document: tuple(some) for document, some in found.items()}


def accepted_by(require_provenance: bool, accepts: Accepts | None) -> Accepts | None:
    """Filter of hits that may be shown; with `require_provenance`, only hits with a source. None accepts every hit."""
    if not require_provenance:
        return accepts
    return lambda indexed: bool(indexed.source_uri) and (accepts is None or accepts(indexed))


def _lexical_weight(
    response: SearchResponse, weights: Mapping[str, float], question_words: Mapping[str, tuple[str, ...]]
) -> float:
    """Lexical weight, reduced if even the best lexical hit has few of the words: scaled scores would hide that."""
    if not response.lexical.hits or not any(weights.values()):
        return LEXICAL_WEIGHT
    entry, score = response.lexical.hits[0]
    covered = coverage(weights, question_words, terms_of(response.chunks[entry])) / COVERED_ENOUGH
    matched = score / (RARE_WORDS_ENOUGH * math.log1p(response.entry_count))
    return LEXICAL_WEIGHT * min(1.0, max(covered, matched)) if covered else 0.0


def coverage(weights: Mapping[str, float], question_words: Mapping[str, tuple[str, ...]], there: Set[str]) -> float:
    """Share of a question's words, by their weight, that are among the terms; 0 if nothing has weight."""
    total = sum(weights.values())
    found = (weight for word, weight in weights.items() if not there.isdisjoint(question_words.get(word, (word,))))
    return sum(found) / total if total else 0.0


def terms_of(indexed: IndexedChunk) -> Set[str]:
    """All terms of a chunk under its title and section, in its language."""
    return terms_in(indexed.chunk.text, document_languages(indexed.language))


@lru_cache(2048)
def terms_in(text: str, languages: tuple[str, ...]) -> frozenset[str]:
    """All terms of `text` in these languages."""
    return distinct_terms(text, languages)


def _fused(response: SearchResponse, method: Fusion, share: float) -> Iterator[FusedHit]:
    lexical, vector = _ranks(response.lexical), _ranks(response.vector)
    ready = response.fused
    for entry, score in ready.hits if ready else fuse(method, response.lexical.hits, response.vector.hits, share):
        yield FusedHit(response.chunks[entry], score, lexical.get(entry), vector.get(entry))


def _levels(hits: tuple[FusedHit, ...], response: SearchResponse, method: Fusion, share: float) -> tuple[float, ...]:
    if response.fused or method is DEFAULT_FUSION:
        return tuple(hit.fused for hit in hits)
    scores = dict(fuse(DEFAULT_FUSION, response.lexical.hits, response.vector.hits, share))
    best = (max(scores[indexed.entry_id] for indexed in (hit.indexed, *hit.copies)) for hit in hits)
    return tuple(sorted(best, reverse=True))


def _ranks(leg: Leg) -> dict[str, tuple[int, float]]:
    return {entry: (rank, score) for rank, (entry, score) in enumerate(leg.hits, start=1)}


def _without_copies(hits: Sequence[FusedHit]) -> Iterator[FusedHit]:
    """One hit for each group of near-duplicates, at the best one's rank: the most trusted (ties: the best)."""
    for first, chosen, others in collapse_near_duplicates(hits, lambda hit: hit.indexed):
        copies = tuple(other.indexed for other in others)
        yield replace(chosen, fused=first.fused, copies=copies) if others else chosen


def thinned(hits: Iterable[FusedHit], per_document: int) -> Iterator[FusedHit]:
    """At most `per_document` chunks of a document."""
    counts: dict[str, int] = {}
    for hit in hits:
        document = hit.indexed.chunk.document_id
        if counts.get(document, 0) < per_document:
            counts[document] = counts.get(document, 0) + 1
            yield hit


def _term_weights(response: SearchResponse, values: Set[str]) -> dict[str, float]:
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
