"""Measures of a ranking against its labels, as trec_eval defines them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence


def ndcg(ranked: Sequence[str], relevant: Mapping[str, int], k: int = 10) -> float:
    """Normalised discounted cumulative gain, linear gain, log2 discount (Jarvelin and Kekalainen, 2002)."""
    gained = sum(relevant.get(page, 0) / math.log2(rank + 2) for rank, page in enumerate(ranked[:k]))
    ideal = sorted(relevant.values(), reverse=True)[:k]
    best = sum(grade / math.log2(rank + 2) for rank, grade in enumerate(ideal))
    return gained / best if best else 0.0


def recall(ranked: Sequence[str], relevant: Mapping[str, int], k: int = 5) -> float:
    """Share of the relevant pages that are among the first k."""
    return sum(page in relevant for page in ranked[:k]) / len(relevant)


def hit_rate(ranked: Sequence[str], relevant: Mapping[str, int], k: int = 5) -> float:
    """1 if a relevant page is among the first k, else 0."""
    return float(any(page in relevant for page in ranked[:k]))


def reciprocal_rank(ranked: Sequence[str], relevant: Mapping[str, int]) -> float:
    """1 / rank of the first relevant page, 0 if there is none."""
    return next((1 / rank for rank, page in enumerate(ranked, start=1) if page in relevant), 0.0)


MEASURES = {"nDCG@10": ndcg, "recall@5": recall, "hit_rate@5": hit_rate, "MRR": reciprocal_rank}
