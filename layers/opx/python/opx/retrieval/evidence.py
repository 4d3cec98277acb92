"""Computes evidence that a document answers a question, and that anything here does: inputs of the confidence models.

Everything is computed from the records of chunks and counts that a search returns anyway, without a language model and
without another call, so it is the same on every engine. All documents of a question are one matrix: a row for each of them,
or for each of their passages, and a column for each term of the question. Weights of words are those of
`FusedHits.term_weights`: their rarity in the index.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt

from opx.retrieval.hybrid import FusedHits, thinned
from opx.retrieval.judging import PASSAGES, DocumentHits
from opx.retrieval.judging_records import Terms, grams, hashed
from opx.text.analyzer import analyze

Parts = dict[str, float]
Floats = npt.NDArray[np.float64]
Numbers = npt.NDArray[np.intp]
Mask = npt.NDArray[np.bool_]

_FEW_TERMS = 128
"""Terms of a question up to which each is compared with all others: that takes less time than to look each of them up."""

BM25_MOST = 2.2
"""k1 + 1: the most that one field of BM25 contributes for a term, times its weight."""


class _Runs:
    """Arrays of terms end to end: `terms`, and for each the number of the array that it is `of`."""

    def __init__(self, parts: Sequence[Terms]) -> None:
        self.count = len(parts)
        self.terms: Terms = np.concatenate(parts) if parts else np.empty(0, np.uint32)
        self.of: Numbers = np.repeat(np.arange(len(parts)), [len(part) for part in parts])


class _Question:
    """The terms of a question, sorted, each with the weight of its word; and of its words which are counted."""

    def __init__(self, text: str, found: FusedHits) -> None:
        self.words = list(found.words)
        written = [(term, at) for at, word in enumerate(self.words) for term in found.words[word]]
        numbers, word_of = hashed(term for term, _ in written), np.array([at for _, at in written], np.intp)
        self.terms: Terms = np.unique(numbers)
        self.word_weights = np.array([found.term_weights.get(word, 0.0) for word in self.words], np.float64)
        self.weights = np.zeros(len(self.terms))
        places = np.searchsorted(self.terms, numbers)
        self.weights[places] = self.word_weights[word_of]
        self._represents = np.zeros((len(self.terms), len(self.words)), np.bool_)
        self._represents[places, word_of] = True
        weighty = self.word_weights > 0
        self.counted: Mask = weighty if weighty.any() else np.ones(len(self.words), np.bool_)
        self.grams: Terms = np.unique(hashed(grams(text)))
        self._text = text

    def located(self, runs: _Runs) -> Numbers:
        """The position of each term of the runs among those of the question, -1 for others."""
        if len(self.terms) > _FEW_TERMS:
            places = np.minimum(np.searchsorted(self.terms, runs.terms), len(self.terms) - 1)
            return np.where(self.terms[places] == runs.terms, places, -1)
        places = np.full(len(runs.terms), -1)
        for place, term in enumerate(self.terms):
            places[runs.terms == term] = place
        return places

    def terms_in(self, runs: _Runs) -> Mask:
        """Mask of the question's terms that each array has, shape (arrays, terms)."""
        mask, places = np.zeros((runs.count, len(self.terms)), np.bool_), self.located(runs)
        there = places >= 0
        mask[runs.of[there], places[there]] = True
        return mask

    def words_in(self, terms: Mask) -> Mask:
        """Mask of the words that one of the terms represents, shape (rows, words)."""
        mask: Mask = terms @ self._represents
        return mask

    @cached_property
    def pairs(self) -> Floats:
        """The lesser weight of the terms of the question that are neighbours, shape (terms, terms); 0 for others. Every text
        has its English terms."""
        numbers = hashed(analyze(self._text))
        runs = _Runs([numbers])
        places = self.located(runs)
        places = places[places >= 0]
        places = places[self.weights[places] > 0]
        first, second = places[:-1], places[1:]
        weights = np.zeros((len(self.terms), len(self.terms)))
        weights[first, second] = np.minimum(self.weights[first], self.weights[second])
        return weights


class _Titles:
    """The titles of documents: the distinct terms of each, and the position of each among those of the question."""

    def __init__(self, question: _Question, pages: Sequence[DocumentHits]) -> None:
        records = [page.best.record for page in pages]
        self._question, self._runs = question, _Runs([record.title for record in records])
        self._places = question.located(self._runs)
        self._words = np.concatenate([record.title_words for record in records]).astype(np.intp)
        self._count, self._grams = len(pages), _Runs([record.grams for record in records])
        self._distinct = np.unique((self._runs.of.astype(np.uint64) << np.uint64(32)) | self._runs.terms)

    @cached_property
    def _terms(self) -> Mask:
        return self._question.terms_in(self._runs)

    def match(self) -> Floats:
        """Geometric mean of the share of the title that is in the question and of the question that is in the title."""
        word = self._runs.of << 32 | self._words
        all_words, question_words = np.unique(word), np.unique(word[self._places >= 0])
        in_query = _counted(question_words >> 32, self._count) / np.maximum(_counted(all_words >> 32, self._count), 1)
        counted = self._question.counted
        in_title = (self._question.words_in(self._terms) & counted).sum(axis=1) / max(counted.sum(), 1)
        matches: Floats = np.sqrt(in_query * in_title)
        return matches

    def share(self) -> Floats:
        """Share of the title's terms that represent a word of the question."""
        sizes = _counted((self._distinct >> np.uint64(32)).astype(np.intp), self._count)
        shares: Floats = self._terms.sum(axis=1) / np.maximum(sizes, 1)
        return shares

    def missing(self) -> Floats:
        """The part of the title that neither the question nor the other titles have, by rarity among the titles."""
        terms, of = self._distinct & np.uint64(0xFFFFFFFF), (self._distinct >> np.uint64(32)).astype(np.intp)
        _, which, counts = np.unique(terms, return_inverse=True, return_counts=True)
        rare = _rarity(counts, self._count)[which]
        rare[np.isin(terms, self._question.terms)] = 0.0
        return np.bincount(of, rare, minlength=self._count) / max(1.0, math.log(self._count + 1))

    def letters(self) -> tuple[Floats, Floats]:
        """Share of the title's trigrams that are in the question, and share of the question's trigrams that any title has
        which are in this title; both by rarity among the titles."""
        distinct, which, counts = np.unique(self._grams.terms, return_inverse=True, return_counts=True)
        rare = _rarity(counts, self._count)
        question = np.isin(distinct, self._question.grams)
        sizes = np.bincount(self._grams.of, rare[which], minlength=self._count)
        shared = np.bincount(self._grams.of, (rare * question)[which], minlength=self._count)
        return _divided(shared, sizes), _divided(shared, rare[question].sum())


def _counted(of: Numbers, count: int) -> Floats:
    return np.bincount(of, minlength=count).astype(np.float64)


def _rarity(counts: npt.NDArray[np.intp], rows: int) -> Floats:
    """ln((n + 1) / (rows with it + .5)), above 0."""
    return np.log((rows + 1) / (counts + 0.5))


def _divided(parts: npt.ArrayLike, whole: npt.ArrayLike) -> Floats:
    """parts / whole, 0 where that is 0."""
    part, of = np.asarray(parts, np.float64), np.asarray(whole, np.float64)
    return np.where(of > 0, part / np.where(of > 0, of, 1.0), 0.0)


def _contrast(question: _Question, terms: Mask) -> Floats:
    """Share of the question that each row has, by weight times rarity among the rows: a word that all of them have
    distinguishes none."""
    counts = terms.sum(axis=0)
    worth = np.where(counts > 0, question.weights * _rarity(counts, len(terms)), 0.0)
    return _divided(terms @ worth, worth.sum())


def _pairs(question: _Question, pages: Sequence[DocumentHits]) -> Floats:
    """Share of the question's neighbouring words that are neighbours in a hit, too, by the lesser weight; of several hits,
    the highest."""
    total = question.pairs.sum()
    if not total:
        return np.zeros(len(pages))
    passages = [(at, hit.record.english) for at, page in enumerate(pages) for hit in page.evidence]
    runs = _Runs([terms for _, terms in passages])
    places = question.located(runs)
    first, second = places[:-1], places[1:]
    beside = (first >= 0) & (second >= 0) & (runs.of[:-1] == runs.of[1:])
    size = len(question.terms)
    distinct = np.unique((runs.of[:-1][beside] * size + first[beside]) * size + second[beside])
    weights = question.pairs.ravel()[distinct % size**2]
    found = np.bincount(distinct // size**2, weights, minlength=runs.count)
    most = np.zeros(len(pages))
    np.maximum.at(most, [at for at, _ in passages], found)
    shares: Floats = most / total
    return shares


# -- the inputs of the models

ORDER = (
    "fused",
    "bm25",
    "cosine",
    "document",
    "title_match",
    "title_letters",
    "question_letters",
    "document_rare",
    "passage_rare",
    "title_missing",
    "pairs",
)
"""Inputs of the model that orders documents."""

CONFIDENCE = (
    "margin",
    "first",
    "rank",
    "cosine",
    "cosine_best",
    "bm25",
    "bm25_best",
    "document",
    "document_best",
    "title_match",
    "title_asked",
    "question_letters",
    "pairs",
    "length",
    "unknown",
    "both",
)
"""Inputs of the model for the probability that a document answers the question."""

NEARNESS = ("cosine_best", "document_best")
"""Inputs of the model for the probability that anything here is near the question."""


def evidence_of(text: str, found: FusedHits, pages: Sequence[DocumentHits]) -> list[Parts]:
    """Evidence for each document: the inputs `ORDER`, and those of `CONFIDENCE` that need no order. `found` is the search
    for a question, and `text` the question without its values.

    `fused`: the level of the best hit. `bm25`: its score as a share of the possible maximum.
    `cosine`: the highest of a hit. `document`, `title_asked` and `pairs`: shares of the question's words, of the title's
    words and of the question's pairs of words that are also on the other side. Letters are compared by trigrams; `rare`
    inputs are weighted by how few of the other documents have a word. `unknown`: share of the question's words that no
    entry has.
    """
    if not pages:
        return []
    question = _Question(text, found)
    titles = _Titles(question, pages)
    passages = [(at, record) for at, page in enumerate(pages) for record in found.records(page.best)]
    terms = question.terms_in(_Runs([record.terms for _, record in passages]))
    documents = np.zeros((len(pages), len(question.terms)), np.bool_)
    np.logical_or.at(documents, [at for at, _ in passages], terms)
    best = question.terms_in(_Runs([page.best.record.terms for page in pages]))
    most = BM25_MOST * sum(found.term_weights.values())
    scores = [max((hit.lexical[1] for hit in page.evidence if hit.lexical), default=0.0) for page in pages]
    title_letters, question_letters = titles.letters()
    columns: dict[str, npt.ArrayLike] = {
        "fused": [page.level for page in pages],
        "bm25": [score / most if most else 0.0 for score in scores],
        "cosine": _cosines(found, pages),
        "document": _divided(question.words_in(documents) @ question.word_weights, question.word_weights.sum()),
        "title_match": titles.match(),
        "title_asked": titles.share(),
        "title_letters": title_letters,
        "question_letters": question_letters,
        "document_rare": _contrast(question, documents),
        "passage_rare": _contrast(question, best),
        "title_missing": titles.missing(),
        "pairs": _pairs(question, pages),
        "both": [
            any(hit.lexical for hit in page.evidence) and any(hit.vector for hit in page.evidence) for page in pages
        ],
        "length": np.full(len(pages), math.log1p(len(found.words))),
        "unknown": np.full(len(pages), _unknown(found)),
    }
    rows: list[Parts] = [
        dict(zip(columns, row, strict=True)) for row in np.array([*columns.values()], float).T.tolist()
    ]
    best_of = {f"{name}_best": max(row[name] for row in rows) for name in ("cosine", "bm25", "document")}
    return [row | best_of for row in rows]


def ordered_evidence(rows: Sequence[Parts], scores: Sequence[float]) -> list[Parts]:
    """Adds the inputs that depend on the order to the rows. `scores` of the order model are descending; `margin` is the
    difference to the best other document's score."""
    ranked = []
    for rank, (row, score) in enumerate(zip(rows, scores, strict=True)):
        rival = scores[0] if rank else (scores[1] if len(scores) > 1 else score - NO_RIVAL)
        ranked.append(row | {"margin": score - rival, "first": float(not rank), "rank": math.log1p(rank)})
    return ranked


NO_RIVAL = 3.0
"""The margin of a single found document."""


def _cosines(found: FusedHits, pages: Sequence[DocumentHits]) -> list[float]:
    """The highest cosine of each document; for one that the vector leg didn't find, the lowest of all hits."""
    hits = thinned(found.hits, PASSAGES)  # the same however many are shown
    least = min((hit.vector[1] for hit in hits if hit.vector), default=0.0)
    return [max((hit.vector[1] for hit in page.evidence if hit.vector), default=least) for page in pages]


def _unknown(found: FusedHits) -> float:
    unknown = sum(not count and word.isalpha() for word, count in found.frequencies.items())
    return unknown / max(len(found.words), 1)
