"""Whether confidences mean what they say: of the hits with confidence c, a share c should be relevant.

Bins and expected calibration error as in Guo, Pleiss, Sun and Weinberger, On calibration of modern neural networks (ICML
2017): equal widths, closed on the right. Brier score as in Brier, Verification of forecasts expressed in terms of
probability (1950), for two classes with one probability: the mean squared difference from 0 or 1.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from opx.operations.evaluation.runs import Run

BINS = 10
HITS = 10
"""Pages of each question that are judged."""

Judged = tuple[float, bool]
"""A confidence, and whether the page is relevant."""


@dataclass(frozen=True, slots=True)
class Bin:
    """Confidences above `low` (the first bin: from it) up to `high`: how many, their mean, and the share that is relevant."""

    low: float
    high: float
    count: int
    confidence: float
    relevant: float


@dataclass(frozen=True, slots=True)
class Calibration:
    count: int
    brier: float
    error: float
    bins: tuple[Bin, ...]

    def to_json(self) -> dict[str, Any]:
        return {
            "count": self.count,
            "brier": round(self.brier, 4),
            "expectedCalibrationError": round(self.error, 4),
            "bins": [
                {
                    "low": each.low,
                    "high": each.high,
                    "count": each.count,
                    "confidence": round(each.confidence, 4),
                    "relevant": round(each.relevant, 4),
                }
                for each in self.bins
            ],
        }


def calibration(judged: Sequence[Judged], bins: int = BINS) -> Calibration:
    """Bins that hold something, in order; all figures are 0 for no judgements."""
    edges = [number / bins for number in range(1, bins + 1)]
    members: dict[int, list[Judged]] = {}
    for confidence, relevant in judged:
        members.setdefault(min(bisect_left(edges, confidence), bins - 1), []).append((confidence, relevant))
    made = tuple(
        Bin(number / bins, edges[number], len(inside), fmean(c for c, _ in inside), fmean(float(r) for _, r in inside))
        for number, inside in sorted(members.items())
    )
    brier = fmean((confidence - relevant) ** 2 for confidence, relevant in judged) if judged else 0.0
    error = sum(each.count * abs(each.relevant - each.confidence) for each in made) / max(len(judged), 1)
    return Calibration(len(judged), brier, error, made)


def calibrations(run: Run, system: str) -> dict[str, Calibration]:
    """Of a mode: its first page for every question, and its first ten pages. A question without an answer has no relevant
    page, so whatever is found for it counts against the confidence."""
    return {
        "first page": calibration(list(_judged(run, system, 1))),
        "ten pages": calibration(list(_judged(run, system))),
    }


def _judged(run: Run, system: str, hits: int = HITS) -> Iterable[Judged]:
    for question, reply in zip(run.questions, run.replies[system], strict=True):
        for page, confidence in zip(reply.pages[:hits], reply.confidences, strict=False):
            yield confidence, page in question.relevant
