"""Two ranked lists to one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from opx.domain.queries import Fusion

Scored = Sequence[tuple[str, float]]
"""Entry ids with their scores, best first."""

RRF_K = 60
"""Cormack, Clarke and Buettcher, Reciprocal rank fusion outperforms Condorcet (SIGIR 2009)."""

LEXICAL_WEIGHT = 0.6
"""Of both legs' weights together. Measured, see docs/decisions/0003-fusion.md: nearly flat between .6 and .8."""

COVERED_ENOUGH = 0.2
"""Share of a question that the best hit by words has to cover for words to get their full weight."""

DEFAULT_FUSION = Fusion.MIN_MAX


def reciprocal_rank_fusion(
    lists: Sequence[Scored], weights: Sequence[float] | None = None, k: int = RRF_K
) -> list[tuple[str, float]]:
    """Sum of weight / (k + i + 1) over the lists that hold an entry at rank i, counted from 0."""
    fused: dict[str, float] = {}
    for scored, weight in zip(lists, weights or [1.0] * len(lists), strict=True):
        for i, (entry, _) in enumerate(scored):
            fused[entry] = fused.get(entry, 0.0) + weight / (k + i + 1)
    return _ordered(fused)


def min_max_fusion(lists: Sequence[Scored], weights: Sequence[float]) -> list[tuple[str, float]]:
    """Weighted sum of each list's scores, scaled to [0, 1] over that list; an entry that a list lacks has 0 there."""
    fused: dict[str, float] = {}
    for scored, weight in zip(lists, weights, strict=True):
        for entry, value in _scaled(scored):
            fused[entry] = fused.get(entry, 0.0) + weight * value
    return _ordered(fused)


def fuse(
    method: Fusion, lexical: Scored, vector: Scored, lexical_weight: float = LEXICAL_WEIGHT
) -> list[tuple[str, float]]:
    """Both legs as one list, best first, ties by id. A leg without hits leaves the other's order and all the weight."""
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
