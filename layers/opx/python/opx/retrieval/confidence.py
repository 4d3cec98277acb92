"""How likely a hit answers the question: a logistic model over parts of its score, and never more than it is likely that
the question has an answer here at all, which another one says.

Within one query the confidence never rises where the fused score falls, so it doesn't change the order; across queries
and ways of fusing it means the same, which a fused score doesn't. The coefficients are in `confidence.json`, with the
data, the date and the command that made them; docs/confidence.md has the method and how well it is calibrated.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files
from itertools import pairwise
from statistics import fmean, pstdev
from typing import Any

from opx.retrieval.hybrid import FusedHit, FusedHits, coverage, passage_terms, terms_of
from opx.text.analyzer import analyze, split_identifiers
from opx.text.fields import words
from opx.text.languages import document_languages

# -- how far a hit covers the question, and what sets it apart from the other hits
#
# Everything is computed from texts and counts that a search brings back anyway, with no model and no further call, so that
# it is the same on every engine. Weights of words are those of `hybrid.term_weights`: how rare each is in the index.

Parts = dict[str, float]
GRAM = 3
"""Characters of the pieces of titles and questions that are compared: they match where words are inflected or joined."""

BM25_MOST = 2.2
"""k1 + 1: what one field of BM25 gives a term at most, times its weight."""

TOP = 5
"""Hits that are looked at for what a question as a whole finds."""


def title_match(found: FusedHits, hit: FusedHit) -> float:
    """Geometric mean of the share of the title that is in the question and of the question that is in the title."""
    title = words(hit.indexed.chunk.title, document_languages(hit.indexed.language))
    counted = [word for word in found.words if found.term_weights.get(word, 0.0) > 0] or list(found.words)
    if not title or not counted:
        return 0.0
    asked = {term for terms in found.words.values() for term in terms}
    there = {term for terms in title.values() for term in terms}
    in_query = sum(not asked.isdisjoint(terms) for terms in title.values()) / len(title)
    in_title = sum(not there.isdisjoint(found.words[word]) for word in counted) / len(counted)
    return math.sqrt(in_query * in_title)


def question_parts(text: str, found: FusedHits) -> Parts:
    """What the first hits say about whether the question has an answer here at all."""
    top = found.hits[:TOP]
    covering = Cover(text, found)
    best_possible = BM25_MOST * sum(found.term_weights.values())
    lexical = max((hit.lexical[1] for hit in top if hit.lexical), default=0.0)
    return {
        "cosine": max((hit.vector[1] for hit in found.hits if hit.vector), default=0.0),
        "bm25_share": lexical / best_possible if best_possible else 0.0,
        "coverage": max((covering.document(hit) for hit in top), default=0.0),
        "pairs": max((covering.pairs(hit) for hit in top), default=0.0),
        "title_grams": max((covering.title_grams(hit) for hit in top), default=0.0),
        "title_coverage": max((covering.title(hit) for hit in top), default=0.0),
        "length": math.log1p(len(found.words)),
        "lead": lead(found),
    }


def lead(found: FusedHits) -> float:
    """How far the best hit is ahead of the next document."""
    if not found.hits:
        return 0.0
    documents = [hit.indexed.chunk.document_id for hit in found.hits]
    levels = zip(documents, found.levels, strict=True)
    return found.levels[0] - next((level for document, level in levels if document != documents[0]), 0.0)


class Cover:
    """How far hits cover one question. `weights` are those of its words, by each term that stands for one."""

    def __init__(self, text: str, found: FusedHits) -> None:
        self._found = found
        self._weights = found.term_weights
        self._words = found.words
        self._grams = grams(text)
        self.weights = {term: self._weights.get(word, 0.0) for word, terms in self._words.items() for term in terms}
        order = [term for term in analyze(text) if self.weights.get(term, 0.0) > 0]  # every text has its English terms
        self._pairs = {pair: min(self.weights[pair[0]], self.weights[pair[1]]) for pair in pairwise(order)}

    def passage(self, hit: FusedHit) -> float:
        """Share of the question, by weight, that the hit's text has, its title aside."""
        return coverage(self._weights, self._words, passage_terms(hit.indexed))

    def document(self, hit: FusedHit) -> float:
        """The same of all that was found of the hit's document."""
        return coverage(self._weights, self._words, self.document_terms(hit))

    def document_terms(self, hit: FusedHit) -> Set[str]:
        """The terms of all that was found of the hit's document."""
        pieces = self._found.passages.get(hit.indexed.chunk.document_id) or (hit.indexed,)
        return {term for piece in pieces for term in terms_of(piece)}

    def title(self, hit: FusedHit) -> float:
        """The same of its title."""
        return coverage(self._weights, self._words, title_terms(hit))

    def pairs(self, hit: FusedHit) -> float:
        """Share of the question's neighbouring words that are neighbours in the hit, too, by the lesser weight."""
        total = sum(self._pairs.values())
        there = _pairs_of(hit.indexed.chunk.text)
        return sum(weight for pair, weight in self._pairs.items() if pair in there) / total if total else 0.0

    def title_grams(self, hit: FusedHit) -> float:
        """Share of the title's pieces of three letters that are in the question."""
        there = grams(hit.indexed.chunk.title)
        return sum(min(count, self._grams[gram]) for gram, count in there.items()) / max(sum(there.values()), 1)

    @property
    def grams(self) -> Mapping[str, int]:
        """The question's pieces of three letters."""
        return self._grams

    @property
    def terms(self) -> Set[str]:
        """All terms that stand for a word of the question."""
        return {term for terms in self._words.values() for term in terms}


class Contrast:
    """What sets each of some hits apart from the others: a word that all of them have tells them apart from nothing."""

    def __init__(self, cover: Cover, hits: Sequence[FusedHit]) -> None:
        self._cover = cover
        self._weights = cover.weights
        self._titles = [title_terms(hit) for hit in hits]
        self._passages = [terms_of(hit.indexed) for hit in hits]
        self._documents = [cover.document_terms(hit) for hit in hits]
        self._grams = [frozenset(grams(hit.indexed.chunk.title)) for hit in hits]
        self._rare = {
            name: _rarities(sets)
            for name, sets in (
                ("title", self._titles),
                ("passage", self._passages),
                ("document", self._documents),
                ("grams", self._grams),
            )
        }
        self._most = math.log(len(hits) + 1)

    def passage(self, at: int) -> float:
        """Share of the question that the hit's text has, by weight times rarity among the hits."""
        return self._share(self._passages[at], self._rare["passage"])

    def document(self, at: int) -> float:
        """The same of all that was found of its document."""
        return self._share(self._documents[at], self._rare["document"])

    def title_missing(self, at: int) -> float:
        """How much of the title that the other titles don't have is not in the question."""
        rare, asked = self._rare["title"], self._cover.terms
        missing = sum(max(rare[term], 0.0) for term in self._titles[at] if term not in asked)
        return missing / max(1.0, self._most)

    def title_grams(self, at: int) -> float:
        """Share of the title's pieces that are in the question, by rarity among the titles."""
        rare, grams_there = self._rare["grams"], self._grams[at]
        total = sum(rare[gram] for gram in grams_there)
        return sum(rare[gram] for gram in grams_there if gram in self._cover.grams) / total if total > 0 else 0.0

    def question_grams(self, at: int) -> float:
        """Share of the question's pieces, as far as any title has them, that are in this title, by rarity."""
        rare, there = self._rare["grams"], self._grams[at]
        total = sum(rare.get(gram, 0.0) for gram in self._cover.grams)
        return sum(rare[gram] for gram in self._cover.grams if gram in there) / total if total > 0 else 0.0

    def _share(self, there: Set[str], rare: Mapping[str, float]) -> float:
        worth = {
            term: self._weights.get(term, 0.0) * max(rare[term], 0.0) for term in self._cover.terms if term in rare
        }
        total = sum(worth.values())
        return sum(value for term, value in worth.items() if term in there) / total if total > 0 else 0.0


def title_terms(hit: FusedHit) -> Set[str]:
    """The terms of the hit's title, in its language."""
    found = words(hit.indexed.chunk.title, document_languages(hit.indexed.language))
    return {term for terms in found.values() for term in terms}


def standardised(values: Sequence[float]) -> list[float]:
    """(value - mean) / standard deviation; zeros where all are the same."""
    if not values:
        return []
    mean, spread = fmean(values), pstdev(values)
    return [(value - mean) / (spread + 1e-6) for value in values]


@lru_cache(2048)
def grams(text: str) -> Counter[str]:
    """The pieces of three letters of a text's words, taken apart where they are joined."""
    plain = " ".join("".join(c if c.isalnum() else " " for c in split_identifiers(text).lower()).split())
    padded = f" {plain} "
    return Counter(padded[at : at + GRAM] for at in range(len(padded) - GRAM + 1))


@lru_cache(1024)
def _pairs_of(text: str) -> frozenset[tuple[str, str]]:
    return frozenset(pairwise(analyze(text)))


def _rarities(sets: Iterable[Set[str]]) -> dict[str, float]:
    """ln((n + 1) / (those that have it + .5)) of each member."""
    many = list(sets)
    counted = Counter(member for one in many for member in one)
    return {member: math.log((len(many) + 1) / (count + 0.5)) for member, count in counted.items()}


# -- a probability

FEATURES = ("fused", "lead", "fused_x_title", "fused_x_coverage", "length", "best_fused", "fused_x_cosine")

BEST_COSINE_OF = 3
"""The question's cosine is the highest among so many first hits."""


@dataclass(frozen=True, slots=True)
class LogisticModel:
    """p = 1 / (1 + exp(-z)), z = intercept + the sum of coefficient x (value - mean) / scale."""

    intercept: float
    parts: Mapping[str, tuple[float, float, float]]

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> LogisticModel:
        parts = {n: (f["coefficient"], f["mean"], f["scale"]) for n, f in data["features"].items()}
        return cls(float(data["intercept"]), parts)

    def probability(self, row: Mapping[str, float]) -> float:
        z = self.intercept + sum(c * (row[name] - mean) / scale for name, (c, mean, scale) in self.parts.items())
        return 1 / (1 + math.exp(-max(-700.0, min(700.0, z))))


@cache
def logistic(name: str) -> LogisticModel:
    """A shipped model: `fused`, `answerable` or `ranked`."""
    text = files("opx.retrieval").joinpath("confidence.json").read_text(encoding="utf-8")
    return LogisticModel.from_json(json.loads(text)[name])


def answerable(text: str, found: FusedHits) -> float:
    """How likely it is that the knowledge has an answer to the question."""
    return logistic("answerable").probability(question_parts(text, found)) if found.hits else 0.0


def confidences(text: str, found: FusedHits, model: LogisticModel | None = None) -> list[float]:
    """The confidence of each hit, in order, in [0, 1]: the engine's own where it gives one."""
    if found.judged:
        return [hit.fused for hit in found.hits]
    used = model or logistic("fused")
    most = answerable(text, found)
    return [min(used.probability(row), most) for row in feature_rows(found)]


def feature_rows(found: FusedHits) -> list[dict[str, float]]:
    """The model's inputs for each hit. The query's part is the same for all: what its best document matches of it."""
    hits = found.hits
    if not hits:
        return []
    best = found.levels[0]
    gap = lead(found)
    title = title_match(found, hits[0])
    covered = coverage(found.term_weights, found.words, _terms_of_best(hits))
    cosine = max((hit.vector[1] for hit in hits[:BEST_COSINE_OF] if hit.vector), default=0.0)
    length = math.log1p(len(found.words))
    return [
        {
            "fused": level,
            "lead": 0.0 if rank else gap,
            "fused_x_title": level * title,
            "fused_x_coverage": level * covered,
            "length": length,
            "best_fused": best,
            "fused_x_cosine": level * cosine,
        }
        for rank, level in enumerate(found.levels)
    ]


def _terms_of_best(hits: Sequence[FusedHit]) -> Set[str]:
    """The terms of all hits of the first hit's document."""
    document = hits[0].indexed.chunk.document_id
    return {term for hit in hits if hit.indexed.chunk.document_id == document for term in terms_of(hit.indexed)}
