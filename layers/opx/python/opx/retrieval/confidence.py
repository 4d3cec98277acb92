"""How likely a hit answers the question: a logistic model over parts of its score.

Within one query the confidence never rises where the fused score falls, so it doesn't change the order; across queries
and ways of fusing it means the same, which a fused score doesn't. The coefficients are in `confidence.json`, with the
data, the date and the command that made them; docs/confidence.md has the method and how well it is calibrated.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from opx.retrieval.hybrid import FusedHit, FusedHits, coverage, terms_of
from opx.text.fields import words
from opx.text.languages import document_languages

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
def shipped_model() -> LogisticModel:
    text = files("opx.retrieval").joinpath("confidence.json").read_text(encoding="utf-8")
    return LogisticModel.from_json(json.loads(text)["fused"])


def confidences(found: FusedHits, model: LogisticModel | None = None) -> list[float]:
    """The confidence of each hit, in order, in [0, 1]: the engine's own where it gives one."""
    if found.judged:
        return [hit.fused for hit in found.hits]
    used = model or shipped_model()
    return [used.probability(row) for row in feature_rows(found)]


def feature_rows(found: FusedHits) -> list[dict[str, float]]:
    """The model's inputs for each hit. The query's part is the same for all: what its best document matches of it."""
    hits = found.hits
    if not hits:
        return []
    best = found.levels[0]
    gap = best - _next_document(found)
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


def _next_document(found: FusedHits) -> float:
    """The level of the best hit of another document than the first."""
    documents = [hit.indexed.chunk.document_id for hit in found.hits]
    levels = zip(documents, found.levels, strict=True)
    return next((level for document, level in levels if document != documents[0]), 0.0)


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


def _terms_of_best(hits: Sequence[FusedHit]) -> Set[str]:
    """The terms of all hits of the first hit's document."""
    document = hits[0].indexed.chunk.document_id
    return {term for hit in hits if hit.indexed.chunk.document_id == document for term in terms_of(hit.indexed)}
