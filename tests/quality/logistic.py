"""Ridge regressions by Newton steps, logistic and listwise; need numpy alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
ITERATIONS = 100
CONVERGED = 1e-9


@dataclass(frozen=True, slots=True)
class Fit:
    """Standardisation and coefficients; `predict` gives probabilities for raw rows of shape (rows, features)."""

    mean: Array
    scale: Array
    coefficients: Array
    intercept: float

    def predict(self, rows: Array) -> Array:
        result: Array = 1 / (1 + np.exp(-self.log_odds(rows)))
        return result

    def log_odds(self, rows: Array) -> Array:
        """Log odds of the rows, positive where a row is more likely than not; shape (rows,)."""
        result: Array = ((rows - self.mean) / self.scale) @ self.coefficients + self.intercept
        return result


def fit_logistic(rows: Array, labels: Array, weights: Array, *, positive: Array, ridge: float) -> Fit:
    """Minimise the weighted log loss + ridge/2 x |coefficients|^2, with `coefficients[positive] >= 0`.

    Projected Newton steps (Bertsekas, 1982): coefficients that are at their bound and would leave it stay there, the
    others take a Newton step together, halved until the loss falls. The problem is convex and small.
    """
    used = weights > 0
    rows, labels, weights = rows[used], labels[used], weights[used]
    mean = np.average(rows, axis=0, weights=weights)
    scale = np.sqrt(np.average((rows - mean) ** 2, axis=0, weights=weights))
    scale[scale == 0] = 1.0
    design = np.hstack([(rows - mean) / scale, np.ones((len(rows), 1))])
    penalty = np.append(np.full(rows.shape[1], ridge), 0.0)
    bounded = np.append(positive, False).astype(bool)
    current = np.zeros(design.shape[1])
    loss = _loss(design, labels, weights, penalty, current)
    for _ in range(ITERATIONS):
        chance = 1 / (1 + np.exp(-(design @ current)))
        slope = design.T @ (weights * (chance - labels)) + penalty * current
        free = ~(bounded & (current <= 0) & (slope > 0))
        bent = (design[:, free] * (weights * chance * (1 - chance))[:, None]).T @ design[:, free] + np.diag(
            penalty[free]
        )
        step = np.zeros_like(current)
        step[free] = np.linalg.solve(bent + 1e-9 * np.eye(len(bent)), slope[free])
        current, loss, gained = _descended(design, labels, weights, penalty, bounded, current, step, loss)
        if gained < CONVERGED * max(loss, 1.0):
            break
    return Fit(mean, scale, current[:-1], float(current[-1]))


def _descended(
    design: Array,
    labels: Array,
    weights: Array,
    penalty: Array,
    bounded: Array,
    current: Array,
    step: Array,
    loss: float,
) -> tuple[Array, float, float]:
    """The point after the longest of the halved steps that lowers the loss, its loss, and by how much that is lower."""
    for halvings in range(30):
        point = current - step / 2**halvings
        point[bounded] = np.maximum(point[bounded], 0.0)
        reached = _loss(design, labels, weights, penalty, point)
        if reached < loss:
            return point, reached, loss - reached
    return current, loss, 0.0


def _loss(design: Array, labels: Array, weights: Array, penalty: Array, point: Array) -> float:
    z = design @ point
    return float(weights @ (np.logaddexp(0, z) - labels * z) + 0.5 * penalty @ point**2)


def fit_listwise(groups: Sequence[Array], labels: Sequence[Array], weights: Sequence[float], *, ridge: float) -> Fit:
    """Minimise the weighted cross entropy between each group's labels, which sum to 1, and the softmax of its rows' scores,
    + ridge/2 x |coefficients|^2. The intercept is 0: it would move all rows of a group alike."""
    rows = np.vstack(groups)
    mean, scale = rows.mean(axis=0), rows.std(axis=0)
    scale[scale == 0] = 1.0
    scaled = [(group - mean) / scale for group in groups]

    def loss(at: Array) -> float:
        found = ridge / 2 * float(at @ at)
        for group, wanted, weight in zip(scaled, labels, weights, strict=True):
            scores = group @ at
            highest = scores.max()
            found += weight * float(highest + np.log(np.exp(scores - highest).sum()) - wanted @ scores)
        return found

    current = np.zeros(rows.shape[1])
    least = loss(current)
    for _ in range(ITERATIONS):
        gradient, hessian = ridge * current, ridge * np.eye(len(current))
        for group, wanted, weight in zip(scaled, labels, weights, strict=True):
            scores = group @ current
            shares = np.exp(scores - scores.max())
            shares /= shares.sum()
            mixed = shares @ group
            gradient += weight * ((shares - wanted) @ group)
            hessian += weight * ((group.T * shares) @ group - np.outer(mixed, mixed))
        step = np.linalg.solve(hessian, gradient)
        while loss(current - step) > least and np.abs(step).max() > CONVERGED:
            step = step / 2
        current = current - step
        least = loss(current)
        if np.abs(step).max() < CONVERGED:
            break
    return Fit(mean, scale, current, 0.0)
