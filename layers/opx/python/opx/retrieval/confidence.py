"""How likely a hit answers the question: a logistic model over parts of its score, and never more than it is likely that
the question has an answer here at all, which another one says.

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
from opx.retrieval.parts import lead, question_parts, title_match

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
