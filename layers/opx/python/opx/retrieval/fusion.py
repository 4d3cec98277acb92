"""Fuses the two legs of a search to one list, and chooses the candidates that are worth reading before any is read."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence, Set
from functools import lru_cache
from itertools import chain, islice

from msgspec import Struct

from opx.domain.knowledge import WARNINGS_CATEGORY
from opx.domain.queries import Fusion
from opx.domain.results import IndexedChunk
from opx.ports import SearchResponse
from opx.text.fields import VALUE_WEIGHT, all_terms
from opx.text.languages import document_languages

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
    response: SearchResponse, weights: Mapping[str, float], question_words: Mapping[str, tuple[str, ...]]
) -> float:
    """Lexical weight, reduced if even the best lexical hit that was read has few of the words: scaled scores would hide
    that."""
    entry, score = next((hit for hit in response.lexical.hits if hit[0] in response.chunks), ("", 0.0))
    if not entry or not any(weights.values()):
        return LEXICAL_WEIGHT
    covered = coverage(weights, question_words, terms_of(response.chunks[entry])) / COVERED_ENOUGH
    matched = score / (RARE_WORDS_ENOUGH * math.log1p(response.entry_count))
    return LEXICAL_WEIGHT * min(1.0, max(covered, matched)) if covered else 0.0


def coverage(weights: Mapping[str, float], question_words: Mapping[str, tuple[str, ...]], there: Set[str]) -> float:
    """Share of a question's words, by their weight, that are among the terms; 0 if nothing has weight."""
    total = sum(weights.values())
    found = (weight for word, weight in weights.items() if not there.isdisjoint(question_words.get(word, (word,))))
    return sum(found) / total if total else 0.0


class TextTerms(Struct, frozen=True):
    """The terms of text: the distinct ones, and all in their order, each between blanks."""

    distinct: frozenset[str]
    joined: str


def terms_of(indexed: IndexedChunk) -> Set[str]:
    """All terms of a chunk under its title and section, in its language."""
    return terms_in(indexed.chunk.text, document_languages(indexed.language)).distinct


TEXTS_KEPT = 4096
"""Texts whose terms a process keeps, up to 10 KB each: questions find the same chunks again and again."""


@lru_cache(TEXTS_KEPT)
def terms_in(text: str, languages: tuple[str, ...]) -> TextTerms:
    """The terms of `text` in these languages."""
    terms = all_terms(text, languages)
    return TextTerms(frozenset(terms), f" {' '.join(terms)} ")


# -- candidates


class Shortlist(Struct, frozen=True):
    """Chooses the candidates that are worth reading: the hits of the `documents` with the best fused scores, and of as many
    reports and warnings. `words` are those of the question, each with the terms that represent it; `values` are those that
    count less, `reports` the categories that speak them."""

    documents: int
    method: Fusion
    words: tuple[tuple[str, tuple[str, ...]], ...]
    values: frozenset[str]
    reports: frozenset[str] = frozenset()

    def __call__(self, found: SearchResponse, document_of: Callable[[str], tuple[str, str]]) -> Set[str]:
        """The chosen hits of a response that has the chunk of the best lexical one only. `document_of` returns id and
        category of a hit's document."""
        share = lexical_weight(found, term_weights(found, self.values), dict(self.words))
        lanes: tuple[dict[str, list[str]], ...] = ({}, {}, {})
        for name, _ in fuse(self.method, found.lexical.hits, found.vector.hits, share):
            document, category = document_of(name)
            lane = 2 if category == WARNINGS_CATEGORY else int(category in self.reports)
            lanes[lane].setdefault(document, []).append(name)
        best = chain.from_iterable(islice(lane.values(), self.documents) for lane in lanes)
        return set(chain.from_iterable(best))
