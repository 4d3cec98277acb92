"""Fits a calibration to what was seen of questions whose answers are known, and judges models by their log loss.

The method and its figures: docs/decisions/0054-calibrating-on-a-corpus.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from opx.domain.record import replace
from opx.errors import EmbeddingError
from opx.retrieval.calibration.asking import MODE, Kind, Seen
from opx.retrieval.calibration.models import CosineMap, Fit, with_changes
from opx.retrieval.confidence import Judges, logistic
from opx.retrieval.evidence import NEARNESS, ordered_evidence
from opx.retrieval.hybrid import BOTH

WRONG_MEAN, WRONG_SPREAD = 0.321, 0.121
"""Cosines of documents that were found and don't answer: mean and standard deviation with the model that the shipped
models were fitted for, on questions made as ours."""

NOTHING = -10.0
"""Log-odds that anything is near where nothing was found."""

LEAST_SPREAD = 1e-3
LEAST_LEAD = 0.25
"""Least lead of the mean cosine of right documents over that of wrong ones, in standard deviations of the wrong ones."""

OF_MADE = (1.27, -1.32)
"""Slope and intercept on log-odds that the shipped models have on made questions where they are right about people's: a
made question counts as answered by its own document alone, even where another one answers as well. Taken off again."""

PRIOR = 50.0
"""Draws slope and intercept to the shipped ones, as a normal prior with a standard deviation of .14."""

LEAST_SLOPE = 0.1

REMOVED_WEIGHT = 0.04
"""Of a question whose document was taken out, as in the fit of the shipped models."""

FOREIGN_WEIGHT = 2.0
"""Of a question about something else: there are few of them beside those that are made."""

_STEPS = 50


@dataclass(frozen=True, slots=True)
class Point:
    """The first document of a question: the log-odds that it was given, and whether it answers."""

    log_odds: float
    right: bool
    weight: float


def cosine_map(seen: Iterable[Seen]) -> CosineMap:
    """Maps cosines so that those of wrong documents have the mean and the spread that they have with the model that the
    shipped models were fitted for. Raises `EmbeddingError` if right documents aren't above them."""
    right: list[float] = []
    wrong: list[float] = []
    for one in seen:
        if one.kind is not Kind.FOREIGN:
            for row, answers in zip(one.rows, one.right, strict=True):
                (right if answers else wrong).append(row["cosine"])
    if not right or not wrong:
        raise EmbeddingError("no question found a right and a wrong document: there is nothing to measure cosines by")
    mean = math.fsum(wrong) / len(wrong)
    spread = math.sqrt(math.fsum((value - mean) ** 2 for value in wrong) / len(wrong))
    lead = math.fsum(right) / len(right) - mean
    if not (spread >= LEAST_SPREAD and lead >= LEAST_LEAD * spread):
        raise EmbeddingError(
            f"the embedding model doesn't tell right documents from others: their cosines are {lead:.3f} above those of "
            f"wrong ones, which vary by {spread:.3f}"
        )
    slope = WRONG_SPREAD / spread
    return CosineMap(slope, WRONG_MEAN - slope * mean)


def fit(embedder: str, seen: Sequence[Seen], *, mapped: bool) -> Fit:
    """The changes to the shipped models that fit best: to those with cosines, `mapped`, or to those that are shipped for the
    embedding model. Raises as `cosine_map`."""
    found = Fit(cosine_map(seen)) if mapped else Fit()
    slope, intercept = fit_scale(points_of(seen, with_changes(embedder, found, BOTH, MODE)))
    return replace(found, slope=slope, intercept=intercept)


def loss_of(seen: Sequence[Seen], judges: Judges) -> float:
    """Log loss of the confidences of first documents, and of whether anything is near, added."""
    return log_loss(points_of(seen, judges), OF_MADE) + log_loss(near_points(seen, judges))


def near_points(seen: Sequence[Seen], judges: Judges) -> list[Point]:
    """The nearness of questions with their document, and of those about something else. One that found nothing has none
    near."""
    found = []
    for one in seen:
        if one.kind is not Kind.REMOVED:
            score = judges.near.score({name: one.rows[0][name] for name in NEARNESS}) if one.rows else NOTHING
            is_near = one.kind is Kind.ANSWERED
            found.append(Point(score, is_near, 1.0 if is_near else FOREIGN_WEIGHT))
    return found


def points_of(seen: Sequence[Seen], judges: Judges) -> list[Point]:
    """The first documents of made questions, in the order of the models; questions that found nothing are left out."""
    found = []
    for one in seen:
        if one.rows and one.kind is not Kind.FOREIGN:
            scores = list(map(judges.order.score, one.rows))
            order = sorted(range(len(scores)), key=lambda at: -scores[at])
            ranked = ordered_evidence([one.rows[at] for at in order], [scores[at] for at in order])
            weight = REMOVED_WEIGHT if one.kind is Kind.REMOVED else 1.0
            found.append(Point(judges.confidence.score(ranked[0]), one.right[order[0]], weight))
    return found


def fit_scale(points: Sequence[Point]) -> tuple[float, float]:
    """Slope and intercept on log-odds (Platt, 1999) that minimise the log loss, drawn to 1 and 0. The slope is
    `LEAST_SLOPE` at least: more evidence never makes a document less likely."""
    slope, intercept = OF_MADE
    for _ in range(_STEPS):
        g1, g2 = PRIOR * (slope - OF_MADE[0]), PRIOR * (intercept - OF_MADE[1])
        h11, h12, h22 = PRIOR, 0.0, PRIOR
        for one in points:
            chance = logistic(slope * one.log_odds + intercept)
            off, bend = one.weight * (chance - one.right), one.weight * chance * (1 - chance)
            g1, g2 = g1 + off * one.log_odds, g2 + off
            h11, h12, h22 = h11 + bend * one.log_odds**2, h12 + bend * one.log_odds, h22 + bend
        det = h11 * h22 - h12 * h12
        steps = (h22 * g1 - h12 * g2) / det, (h11 * g2 - h12 * g1) / det
        slope, intercept = max(slope - steps[0], LEAST_SLOPE), intercept - steps[1]
        if max(map(abs, steps)) < 1e-9:
            break
    return slope / OF_MADE[0], (intercept - OF_MADE[1]) / OF_MADE[0]


def log_loss(points: Sequence[Point], scale: tuple[float, float] = (1.0, 0.0)) -> float:
    """Weighted mean log loss, after slope and intercept of `scale`; infinite where there is nothing to judge by."""
    total = math.fsum(one.weight for one in points)
    losses = (one.weight * _loss(scale[0] * one.log_odds + scale[1], right=one.right) for one in points)
    return math.fsum(losses) / total if total else math.inf


def _loss(log_odds: float, *, right: bool) -> float:
    """-ln of the probability of what is the case."""
    z = log_odds if right else -log_odds
    return math.log1p(math.exp(-abs(z))) + max(-z, 0.0)
