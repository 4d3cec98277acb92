"""Searches the versions that were current at a time: today's index without later versions, with those replaced since.

Vector scores compare directly. Lexical scores depend on the rarity of words, which was different then: those of replaced
versions are computed like the engine's, from the counts that it returns, corrected for added and removed entries, and are
scaled to the engine's by the hits that both score. If the hits contain all entries, all scores are those of that time.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from statistics import median
from typing import Protocol

from opx.domain.ids import day_number
from opx.domain.queries import SearchMode
from opx.domain.record import replace
from opx.domain.results import IndexedChunk
from opx.hygiene.near_duplicates import fingerprint
from opx.ports import Leg, SearchEngine, SearchFilter, SearchRequest, SearchResponse, Vectors, cosine
from opx.retrieval.hybrid import DEPTH
from opx.text.fields import LEXICAL_FIELDS, TITLE_FIELD, VALUE_WEIGHT, WHOLE_FIELD, Words, analysed_fields, words

MAX_DEPTH = 2000
"""Limit of hits per leg, many of which may be later versions; OpenSearch returns up to 10,000."""

CAME_LATER = "many passages that match better are of later versions: some earlier ones may be missing"
NOT_RANKED = "versions that were replaced since are missing: the search service ranks its results itself"

_DEEPER = 4
_SCORE_DIGITS = 6
_COMPARED = 20
"""Number of best hits from which the engine's scale is estimated."""


class VersionLookup(Protocol):
    """Finds the versions that were current at the time of the query."""

    def current_entries(self, found: Iterable[IndexedChunk]) -> set[str]:
        """Ids of the entries whose version was current. Raises `StoreUnavailableError`."""


@dataclass(frozen=True)
class PastEntry:
    """A chunk of a version that was replaced since, with its vectors if known. `unmarked`: its fingerprint is computed only
    for a hit."""

    indexed: IndexedChunk
    vectors: Vectors = ()
    unmarked: bool = False

    @cached_property
    def analysed(self) -> Analysed:
        return Analysed.of(self.indexed)

    @cached_property
    def found(self) -> IndexedChunk:
        """The chunk as a hit, with its fingerprint."""
        if not self.unmarked:
            return self.indexed
        return replace(self.indexed, fingerprint=fingerprint(self.indexed.chunk.own_text))


@dataclass(eq=False)
class PastEngine:
    """A `SearchEngine` for one query. `lacks` is called with notes on incomplete results."""

    index: SearchEngine
    versions: VersionLookup
    entries: Sequence[PastEntry]
    lacks: Callable[[str], None]

    def search(self, request: SearchRequest) -> SearchResponse:
        response, kept = self._search_current(request)
        past = {one.indexed.entry_id: one for one in self.entries if passes(request.filter, one.indexed, one.analysed)}
        past = {name: one for name, one in past.items() if name not in kept}
        if response.fused is not None:
            return self._ranked_by_service(response, kept, past)
        merged = _Merged(response, kept, past, request)
        lexical, vector = merged.lexical(), merged.vector()
        named = {name for leg in (lexical, vector) for name, _ in leg.hits}
        return replace(
            response,
            lexical=lexical,
            vector=vector,
            chunks={name: past[name].found if name in past else response.chunks[name] for name in named},
            term_frequencies=merged.frequencies,
            entry_count=merged.entry_count,
        )

    def entries_with(self, terms: Iterable[str], scopes: Sequence[str]) -> Mapping[str, int]:
        """Counts of today's index."""
        return self.index.entries_with(terms, scopes)

    def _search_current(self, request: SearchRequest) -> tuple[SearchResponse, set[str]]:
        """A response with enough hits that were current, and their ids. The depth of a fast search is enough."""
        depth = request.depth
        while True:
            response = self.index.search(replace(request, depth=depth))
            kept = self.versions.current_entries(response.chunks.values())
            legs = (response.lexical, response.vector, response.fused or Leg())
            enough = min(request.depth, DEPTH[SearchMode.FAST])
            short = [leg for leg in legs if len(leg.hits) >= depth and _count(leg, kept) < enough]
            if not short:
                return response, kept
            if depth >= MAX_DEPTH or response.fused is not None:
                self.lacks(CAME_LATER)
                return response, kept
            depth = min(_DEEPER * depth, MAX_DEPTH)

    def _ranked_by_service(
        self, response: SearchResponse, kept: set[str], past: Mapping[str, PastEntry]
    ) -> SearchResponse:
        if past:
            self.lacks(NOT_RANKED)
        ranked = response.fused or Leg()
        hits = tuple(hit for hit in ranked.hits if hit[0] in kept)
        return replace(response, fused=replace(ranked, hits=hits))


class _Merged:
    """Both legs of a search, merged with replaced versions."""

    def __init__(
        self, response: SearchResponse, kept: set[str], past: Mapping[str, PastEntry], request: SearchRequest
    ) -> None:
        self._response = response
        self._kept = kept
        self._past = past
        self._request = request
        found = words(request.text or "", request.languages)
        self._words: Words = {first: terms for first, terms in found.items() if first in response.term_frequencies}
        self._whole = len(response.chunks) >= response.entry_count

    @property
    def entry_count(self) -> int:
        return len(self._past) + (len(self._kept) if self._whole else self._response.entry_count)

    @cached_property
    def _here(self) -> dict[str, Analysed]:
        """Indexed entries that were current: all if the response contains every entry, else the best."""
        hits = [name for name, _ in self._response.lexical.hits if name in self._kept][:_COMPARED]
        return {name: Analysed.of(self._response.chunks[name]) for name in (self._kept if self._whole else hits)}

    @cached_property
    def _sample(self) -> list[Analysed]:
        return [*self._here.values(), *(one.analysed for one in self._past.values())]

    @cached_property
    def frequencies(self) -> dict[str, int]:
        """Number of entries with each word. Engines count replaced entries for a while; unless the response contains every
        entry, later versions count, too."""
        counted = dict.fromkeys(self._words, 0) if self._whole else self._response.term_frequencies
        seen = self._sample if self._whole else [one.analysed for one in self._past.values()]
        return {first: counted[first] + sum(one.has(terms) for one in seen) for first, terms in self._words.items()}

    def lexical(self) -> Leg:
        leg = self._response.lexical
        hits = {name: score for name, score in leg.hits if name in self._kept}
        if self._words:
            corpus = PastCorpus.estimated(self.entry_count, self.frequencies, self._words, self._sample)
            scorer = Bm25(self._words, corpus, self._request.values)
            past = {name: scorer.score(one.analysed) for name, one in self._past.items()}
            ours = {name: scorer.score(one) for name, one in self._here.items()}
            scale = 1.0 if self._whole else _scale(hits, ours)
            hits = {**(ours if self._whole else hits), **{name: scale * score for name, score in past.items()}}
        return _cut(leg, {name: score for name, score in hits.items() if score > 0}, self._request.depth)

    def vector(self) -> Leg:
        leg, wanted = self._response.vector, self._request.vector
        if wanted is None:
            return leg
        hits = {name: score for name, score in leg.hits if name in self._kept}
        for name, one in self._past.items():
            cosines = [cosine(wanted, each) for each in one.vectors if len(each) == len(wanted)]
            if cosines:
                hits[name] = max(cosines)
        return _cut(leg, hits, self._request.depth)


def _scale(hits: Mapping[str, float], ours: Mapping[str, float]) -> float:
    """Ratio of the engine's scores to ours; 1 if no hit has both."""
    found = [score / ours[name] for name, score in list(hits.items())[:_COMPARED] if ours.get(name)]
    return median(found) if found else 1.0


def _count(leg: Leg, kept: set[str]) -> int:
    return sum(name in kept for name, _ in leg.hits)


def _cut(leg: Leg, hits: Mapping[str, float], depth: int) -> Leg:
    """The best hits in order of score, then id."""
    rounded = ((name, round(float(score), _SCORE_DIGITS)) for name, score in hits.items())
    return replace(leg, hits=tuple(sorted(rounded, key=lambda hit: (-hit[1], hit[0]))[:depth]))


# -- BM25


K1, B = 1.2, 0.75
_EXACT_BELOW = 24
_BITS = 4


@dataclass(frozen=True, slots=True)
class Analysed:
    """Term frequencies and length of each field of a chunk."""

    counts: Mapping[str, Counter[str]]
    lengths: Mapping[str, int]

    @classmethod
    def of(cls, indexed: IndexedChunk) -> Analysed:
        fields = analysed_fields(indexed.chunk, indexed.language)
        return cls({name: Counter(terms) for name, terms in fields.items()}, {n: len(t) for n, t in fields.items()})

    def has(self, terms: Iterable[str], field: str = WHOLE_FIELD) -> bool:
        """True if a field has one of the terms."""
        return any(term in self.counts[field] for term in terms)


@dataclass(frozen=True, slots=True)
class PastCorpus:
    """Corpus statistics for BM25: number of entries, document frequency of each word (by its first term) in the text and
    in the title, and average length of each field."""

    entries: int
    frequencies: Mapping[str, float]
    title_frequencies: Mapping[str, float]
    averages: Mapping[str, float]

    @classmethod
    def estimated(
        cls, entries: int, frequencies: Mapping[str, int], words: Words, sample: Iterable[Analysed]
    ) -> PastCorpus:
        """Statistics with title frequencies and lengths estimated from a sample, all else as counted."""
        sample = list(sample)
        titles = {first: frequencies[first] * _title_share(terms, sample) for first, terms in words.items()}
        averages = {name: sum(one.lengths[name] for one in sample) / max(len(sample), 1) for name in LEXICAL_FIELDS}
        return cls(entries, frequencies, titles, averages)

    def rarity(self, field: str, first: str) -> float:
        """Lucene's idf, ln(1 + (N - n + .5) / (n + .5))."""
        found = (self.title_frequencies if field == TITLE_FIELD else self.frequencies).get(first, 0.0)
        return math.log(1 + (max(self.entries - found, 0) + 0.5) / (found + 0.5))


def _title_share(terms: tuple[str, ...], sample: list[Analysed]) -> float:
    having = [one for one in sample if one.has(terms)]
    return sum(one.has(terms, TITLE_FIELD) for one in having) / len(having) if having else 0.0


class Bm25:
    """Scores the words of a query: the sum over fields and words of boost x BM25 of the word's best term. Scores of `values`
    count `VALUE_WEIGHT`."""

    def __init__(self, words: Words, corpus: PastCorpus, values: Set[str] = frozenset()) -> None:
        self._averages = corpus.averages
        self._parts = [
            (name, terms, boost * (VALUE_WEIGHT if first in values else 1.0) * corpus.rarity(name, first))
            for name, boost in LEXICAL_FIELDS.items()
            for first, terms in words.items()
        ]

    def score(self, chunk: Analysed) -> float:
        """0 for a chunk that has none of the words."""
        total = 0.0
        for name, terms, weight in self._parts:
            counts = chunk.counts[name]
            if most := max((counts[term] for term in terms), default=0):
                relative = _kept_length(chunk.lengths[name]) / (self._averages[name] or 1.0)
                total += weight * most / (most + K1 * (1 - B + B * relative))
        return total


def _kept_length(length: int) -> int:
    """A length as Lucene and tantivy store it, in one byte: `SmallFloat.byte4ToInt(intToByte4(length))` of Lucene."""
    above = length - _EXACT_BELOW
    shift = max(above.bit_length() - _BITS, 0)
    return length if above < 0 else _EXACT_BELOW + (above >> shift << shift)


def passes(where: SearchFilter, indexed: IndexedChunk, analysed: Analysed) -> bool:
    """True if an entry passes the filter, as `SearchFilter` defines it."""
    return _has_facets(where, indexed) and _is_of_days(where, indexed) and _has_terms(where, analysed)


def _has_facets(where: SearchFilter, indexed: IndexedChunk) -> bool:
    chunk = indexed.chunk
    parts = (
        (where.categories, {chunk.category}),
        (where.tiers, {indexed.tier.value}),
        (where.tags, chunk.tags),
        (where.also_tags, chunk.tags),
        (where.document_ids, {chunk.document_id}),
        (where.languages, {indexed.language}),
        (where.resources, indexed.resources),
        (where.also_resources, indexed.resources),
    )
    return indexed.scope_key in where.scopes and all(not wanted or set(wanted) & set(found) for wanted, found in parts)


def _is_of_days(where: SearchFilter, indexed: IndexedChunk) -> bool:
    if where.updated_from is None and where.updated_before is None:
        return True
    day = day_number(indexed.last_updated)
    if day is None:
        return False
    return (where.updated_from is None or day >= where.updated_from) and (
        where.updated_before is None or day < where.updated_before
    )


def _has_terms(where: SearchFilter, analysed: Analysed) -> bool:
    return (
        all(analysed.has(terms, TITLE_FIELD) for terms in where.title_terms)
        and all(analysed.has(terms) for terms in where.required_terms)
        and not analysed.has(where.excluded_terms)
    )
