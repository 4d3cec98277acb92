"""BM25 over chunks in memory, as the engines compute it, for those that no index has any more."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from opx.domain.results import IndexedChunk
from opx.domain.times import day_number
from opx.ports import SearchFilter
from opx.text.fields import LEXICAL_FIELDS, TITLE_FIELD, WHOLE_FIELD, Words, analysed_fields

K1, B = 1.2, 0.75
_EXACT_BELOW = 24
_BITS = 4


@dataclass(frozen=True, slots=True)
class Analysed:
    """How often each field of a chunk has each term, and how long it is."""

    counts: Mapping[str, Counter[str]]
    lengths: Mapping[str, int]

    @classmethod
    def of(cls, indexed: IndexedChunk) -> Analysed:
        fields = analysed_fields(indexed.chunk, indexed.language)
        return cls({name: Counter(terms) for name, terms in fields.items()}, {n: len(t) for n, t in fields.items()})

    def has(self, terms: Iterable[str], field: str = WHOLE_FIELD) -> bool:
        """Whether a field has one of the terms."""
        return any(term in self.counts[field] for term in terms)


@dataclass(frozen=True, slots=True)
class Corpus:
    """What BM25 needs of all entries: how many there are, how many have each word (by its first term) somewhere in the
    text, in how many of those it is in the title, and how long each field is on average."""

    entries: int
    frequencies: Mapping[str, float]
    title_frequencies: Mapping[str, float]
    averages: Mapping[str, float]

    @classmethod
    def estimated(
        cls, entries: int, frequencies: Mapping[str, int], words: Words, sample: Iterable[Analysed]
    ) -> Corpus:
        """Titles and lengths as in a sample, all else as it is counted."""
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
    """Scores for the words of a question: the sum over fields and words of boost x BM25, of a word's best term."""

    def __init__(self, words: Words, corpus: Corpus) -> None:
        self._averages = corpus.averages
        self._parts = [
            (name, terms, boost * corpus.rarity(name, first))
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
    """A length as Lucene and tantivy keep it, in a byte: `SmallFloat.byte4ToInt(intToByte4(length))` of Lucene."""
    above = length - _EXACT_BELOW
    shift = max(above.bit_length() - _BITS, 0)
    return length if above < 0 else _EXACT_BELOW + (above >> shift << shift)


def passes(where: SearchFilter, indexed: IndexedChunk, analysed: Analysed) -> bool:
    """Whether an entry may be found, as `SearchFilter` says."""
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
        (where.services, indexed.services),
        (where.also_services, indexed.services),
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
