"""Whether the difference between two systems on the same questions is more than luck.

p is of the two-sided paired randomisation test of the difference of means, which Smucker, Allan and Carterette (A
comparison of statistical significance tests for information retrieval evaluation, CIKM 2007) found fit: under the
hypothesis that the systems are the same, either label could be on either value of a question, so each difference could as
well have the other sign. p is the share of such relabellings that differ at least as much as what was observed. All of
them are tried if there are few; else `DRAWS` at random, where the observed one counts, too, so that p is never 0 (Davison
and Hinkley, Bootstrap methods and their application, 1997, 4.2.5).

The interval is the percentile bootstrap of the mean difference over questions (Efron and Tibshirani, An introduction to
the bootstrap, 1993, chapter 13).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
DRAWS = 100_000
"""For p = .05 the standard error is .0007."""

RESAMPLES = 10_000
ALL_UP_TO = 16
"""Differences other than 0 of which all relabellings are tried: 65,536."""

SEED = 20070611
_CHUNK_VALUES = 4_000_000
_EQUAL = 1e-9
"""Sums of the same values in another order differ by less."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Second minus first, over `count` questions: means, the difference, its 95 % interval, and p."""

    count: int
    first: float
    second: float
    difference: float
    low: float
    high: float
    p: float

    def to_json(self) -> dict[str, Any]:
        return {
            "questions": self.count,
            "first": round(self.first, 4),
            "second": round(self.second, 4),
            "difference": round(self.difference, 4),
            "low": round(self.low, 4),
            "high": round(self.high, 4),
            "p": round(self.p, 6),
        }


def compared(first: Sequence[float], second: Sequence[float], *, seed: int = SEED) -> Difference:
    """Compare the values of two systems, in the order of the same questions. Equal seeds give equal results.

    Raises `ValueError` for lists of different lengths, or empty ones.
    """
    one, other = np.asarray(first, dtype=float), np.asarray(second, dtype=float)
    if len(one) != len(other) or not len(one):
        raise ValueError("both systems need a value for each question, and there must be a question")
    differences = other - one
    low, high = bootstrap_interval(differences, seed=seed)
    return Difference(
        count=len(one),
        first=float(one.mean()),
        second=float(other.mean()),
        difference=float(differences.mean()),
        low=low,
        high=high,
        p=randomisation_p(differences, seed=seed),
    )


def randomisation_p(differences: Array, *, draws: int = DRAWS, seed: int = SEED) -> float:
    """p of the two-sided paired randomisation test; 1 if nothing differs."""
    changing = differences[differences != 0]
    if not len(changing):
        return 1.0
    observed = abs(changing.sum()) - _EQUAL
    if len(changing) <= ALL_UP_TO:
        every = (np.arange(2 ** len(changing))[:, None] >> np.arange(len(changing))) & 1
        return float((np.abs((1 - 2 * every) @ changing) >= observed).mean())
    generator = np.random.default_rng(seed)
    extreme, left = 0, draws
    while left:
        rows = min(left, max(1, _CHUNK_VALUES // len(changing)))
        signs = 1.0 - 2.0 * generator.integers(0, 2, size=(rows, len(changing)), dtype=np.int8)
        extreme += int((np.abs(signs @ changing) >= observed).sum())
        left -= rows
    return (extreme + 1) / (draws + 1)


def bootstrap_interval(
    differences: Array, *, level: float = 0.95, resamples: int = RESAMPLES, seed: int = SEED
) -> tuple[float, float]:
    """The percentile interval of the mean, questions drawn with replacement."""
    generator = np.random.default_rng(seed)
    means: list[Array] = []
    left = resamples
    while left:
        rows = min(left, max(1, _CHUNK_VALUES // len(differences)))
        drawn = generator.integers(0, len(differences), size=(rows, len(differences)))
        means.append(differences[drawn].mean(axis=1))
        left -= rows
    tail = 100 * (1 - level) / 2
    low, high = np.percentile(np.concatenate(means), [tail, 100 - tail])
    return float(low), float(high)
