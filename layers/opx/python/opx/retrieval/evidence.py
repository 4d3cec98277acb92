"""Computes evidence that a document answers a question, and that anything here does: inputs of the confidence models.

Everything is computed from the records of chunks and counts that a search returns anyway, without a language model and
without another call, so it is the same on every engine. Terms are numbers (`opx.retrieval.judging_records`). Weights of words
are those of `FusedHits.term_weights`: their rarity in the index.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from itertools import chain, pairwise

from opx.retrieval.hybrid import FusedHit, FusedHits, thinned
from opx.retrieval.judging import PASSAGES, DocumentHits
from opx.retrieval.judging_records import JudgingRecord, grams, hashed
from opx.text.analyzer import analyze

Parts = dict[str, float]

BM25_MOST = 2.2
"""k1 + 1: the most that one field of BM25 contributes for a term, times its weight."""


class Cover:
    """Measures how far hits cover one question: its `terms`, each with the weight of its word (`weights`), and its trigrams
    (`grams`)."""

    def __init__(self, text: str, found: FusedHits) -> None:
        self._found = found
        self._words = {word: frozenset(hashed(terms)) for word, terms in found.words.items()}
        self._counted = [word for word in found.words if found.term_weights.get(word, 0.0) > 0] or list(found.words)
        self.grams = frozenset(hashed(grams(text)))
        self.weights = {
            term: found.term_weights.get(word, 0.0) for word, terms in self._words.items() for term in terms
        }
        self.terms = frozenset(self.weights)
        order = [term for term in hashed(analyze(text)) if self.weights.get(term, 0.0) > 0]  # texts have English terms
        self._pairs = {pair: min(self.weights[pair[0]], self.weights[pair[1]]) for pair in pairwise(order)}
        self._all_weights, self._all_pairs = sum(found.term_weights.values()), sum(self._pairs.values())

    def document_terms(self, hit: FusedHit) -> Set[int]:
        """The terms of the question that any found passage of the hit's document has."""
        return frozenset[int]().union(*(self.terms.intersection(one.terms) for one in self._found.records(hit)))

    def share(self, there: Set[int]) -> float:
        """Share of the question, by weight, that is among the terms."""
        weights = self._found.term_weights.items()
        found = (weight for word, weight in weights if not there.isdisjoint(self._words.get(word, ())))
        return sum(found) / self._all_weights if self._all_weights else 0.0

    def title_match(self, record: JudgingRecord) -> float:
        """Geometric mean of the share of the title that is in the question and of the question that is in the title."""
        words, there = record.title_words, frozenset(record.title)
        if not words or not self._counted:
            return 0.0
        matched = {word for word, term in zip(words, record.title, strict=True) if term in self.terms}
        in_query = len(matched) / (words[-1] + 1)
        in_title = sum(not there.isdisjoint(self._words[word]) for word in self._counted) / len(self._counted)
        return math.sqrt(in_query * in_title)

    def title_share(self, record: JudgingRecord) -> float:
        """Share of the title's terms that represent a word of the question."""
        there = frozenset(record.title)
        return len(there & self.terms) / max(len(there), 1)

    def pairs(self, hits: Iterable[FusedHit]) -> float:
        """Share of the question's neighbouring words that are neighbours in a hit, too, by the lesser weight; of several
        hits, the highest."""
        most = max((self._pairs_in(hit.record) for hit in hits), default=0.0) if self._pairs else 0.0
        return most / self._all_pairs if self._all_pairs else 0.0

    def _pairs_in(self, record: JudgingRecord) -> float:
        return sum(weight for pair, weight in self._pairs.items() if record.has_neighbours(*pair))


class Contrast:
    """Measures what distinguishes each of some documents from the others: a word that all of them have distinguishes none.
    `documents` are the question's terms in each."""

    def __init__(self, cover: Cover, hits: Sequence[FusedHit], documents: Sequence[Set[int]]) -> None:
        self._cover = cover
        self._titles = [frozenset(hit.record.title) for hit in hits]
        self._grams = [frozenset(hit.record.grams) for hit in hits]
        self._passages = [cover.terms.intersection(hit.record.terms) for hit in hits]
        self._documents = documents
        self._rare_titles, self._rare_grams = _rarities(self._titles), _rarities(self._grams)
        self._rare_passages, self._rare_documents = _rarities(self._passages), _rarities(self._documents)
        self._most = math.log(len(hits) + 1)

    def passage(self, at: int) -> float:
        """Share of the question that the hit's text has, by weight times rarity among the documents."""
        return self._share(self._passages[at], self._rare_passages)

    def document(self, at: int) -> float:
        """Like `passage`, of all found passages of its document."""
        return self._share(self._documents[at], self._rare_documents)

    def title_missing(self, at: int) -> float:
        """The part of the title that neither the question nor the other titles have, by rarity among the titles."""
        missing = sum(self._rare_titles[term] for term in self._titles[at] - self._cover.terms)
        return missing / max(1.0, self._most)

    def title_grams(self, at: int) -> float:
        """Share of the title's trigrams that are in the question, by rarity among the titles."""
        return _rare_share(self._grams[at], self._cover.grams, self._rare_grams)

    def question_grams(self, at: int) -> float:
        """Share of the question's trigrams that any title has which are in this title, by rarity."""
        return _rare_share(self._cover.grams, self._grams[at], self._rare_grams)

    def _share(self, there: Set[int], rare: Mapping[int, float]) -> float:
        worth = {term: weight * rare[term] for term, weight in self._cover.weights.items() if term in rare}
        total = sum(worth.values())
        return sum(value for term, value in worth.items() if term in there) / total if total > 0 else 0.0


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
    cover, hits = Cover(text, found), [page.best for page in pages]
    documents = [cover.document_terms(hit) for hit in hits]
    contrast = Contrast(cover, hits, documents)
    cosines, most = _cosines(found, pages), BM25_MOST * sum(found.term_weights.values())
    bm25 = [max((hit.lexical[1] for hit in page.evidence if hit.lexical), default=0.0) for page in pages]
    shared = {"length": math.log1p(len(found.words)), "unknown": _unknown(found)}
    rows = [
        {
            "fused": page.level,
            "bm25": bm25[at] / most if most else 0.0,
            "cosine": cosines[at],
            "document": cover.share(documents[at]),
            "title_match": cover.title_match(page.best.record),
            "title_asked": cover.title_share(page.best.record),
            "title_letters": contrast.title_grams(at),
            "question_letters": contrast.question_grams(at),
            "document_rare": contrast.document(at),
            "passage_rare": contrast.passage(at),
            "title_missing": contrast.title_missing(at),
            "pairs": cover.pairs(page.evidence),
            "both": float(any(hit.lexical for hit in page.evidence) and any(hit.vector for hit in page.evidence)),
            **shared,
        }
        for at, page in enumerate(pages)
    ]
    best = {f"{name}_best": max((row[name] for row in rows), default=0.0) for name in ("cosine", "bm25", "document")}
    return [row | best for row in rows]


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


def _rarities(sets: Sequence[Set[int]]) -> dict[int, float]:
    """Rarity of each member: ln((n + 1) / (sets with it + .5)), above 0."""
    counted = Counter(chain.from_iterable(sets))
    return {member: math.log((len(sets) + 1) / (count + 0.5)) for member, count in counted.items()}


def _rare_share(pieces: Iterable[int], others: Set[int], rare: Mapping[int, float]) -> float:
    """Share of the trigrams, by rarity, that are among the others."""
    total = sum(rare.get(piece, 0.0) for piece in pieces)
    return sum(rare[piece] for piece in pieces if piece in others) / total if total > 0 else 0.0
