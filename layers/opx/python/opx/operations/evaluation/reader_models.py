"""Fits how the readings of a model are combined with estimates, to labelled readings of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from opx.errors import InvalidInputError
from opx.ports.models import Reading
from opx.retrieval.reranking import assumed_model, inputs

ASSUMED_WEIGHT = 4.0
"""How much the assumed model counts: with a few dozen readings the fit stays near it, with hundreds it is the data's."""
_ITERATIONS = 100
_CONVERGED = 1e-9
_LONGEST_STEP = 1.0


class LabelledReading(NamedTuple):
    """A document that a model read: the confidence before that, what the model said, and whether it is relevant."""

    estimated: float
    reading: Reading
    relevant: bool


def fit_reader(rows: Sequence[LabelledReading]) -> dict[str, float]:
    """The model for `opx.retrieval.reranking`: a logistic regression on `inputs`, drawn towards the assumed model (a normal
    prior of precision `ASSUMED_WEIGHT` around it). Newton's steps, none longer than 1. Raises `InvalidInputError` for no
    rows, and for readings with scores among readings without."""
    kinds = {row.reading.score is not None for row in rows}
    if len(kinds) != 1:
        raise InvalidInputError("a fit needs readings that have all scores, or none")
    assumed = assumed_model(scores=kinds.pop())
    names = list(assumed)
    found = [inputs(row.estimated, row.reading) for row in rows]
    design = np.array([[row.get(name, 0.0) for name in names] for row in found])
    labels = np.array([float(row.relevant) for row in rows])
    prior = np.array([assumed[name] for name in names])
    current = prior.copy()
    for _ in range(_ITERATIONS):
        chance = 1 / (1 + np.exp(-(design @ current)))
        slope = design.T @ (chance - labels) + ASSUMED_WEIGHT * (current - prior)
        bent = (design.T * (chance * (1 - chance))) @ design + ASSUMED_WEIGHT * np.eye(len(names))
        step = np.linalg.solve(bent, slope)
        current = current - step * min(1.0, _LONGEST_STEP / max(np.abs(step).max(), 1e-12))
        if np.abs(step).max() < _CONVERGED:
            break
    return {name: round(float(value), 4) for name, value in zip(names, current, strict=True)}
