"""Ridge logistic regression with non-negative coefficients where they are asked for; needs numpy alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
ITERATIONS = 3000


@dataclass(frozen=True, slots=True)
class Fit:
    """Standardisation and coefficients; `predict` gives probabilities for raw rows of shape (rows, features)."""

    mean: Array
    scale: Array
    coefficients: Array
    intercept: float

    def predict(self, rows: Array) -> Array:
        z = ((rows - self.mean) / self.scale) @ self.coefficients + self.intercept
        result: Array = 1 / (1 + np.exp(-z))
        return result


def fit_logistic(rows: Array, labels: Array, weights: Array, *, positive: Array, ridge: float) -> Fit:
    """Minimise the weighted log loss + ridge/2 x |coefficients|^2, with `coefficients[positive] >= 0`.

    Accelerated projected gradient descent (Beck and Teboulle, 2009); the problem is convex and small.
    """
    mean = np.average(rows, axis=0, weights=weights)
    scale = np.sqrt(np.average((rows - mean) ** 2, axis=0, weights=weights))
    design = np.hstack([(rows - mean) / scale, np.ones((len(rows), 1))])
    penalty = np.append(np.full(rows.shape[1], ridge), 0.0)
    curvature = 0.25 * np.linalg.eigvalsh((design * weights[:, None]).T @ design)[-1] + ridge
    bounded = np.append(positive, False)
    current = previous = np.zeros(design.shape[1])
    momentum = 1.0
    for _ in range(ITERATIONS):
        following = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
        point = current + (momentum - 1) / following * (current - previous)
        error = weights * (1 / (1 + np.exp(-(design @ point))) - labels)
        stepped = point - (design.T @ error + penalty * point) / curvature
        stepped[bounded] = np.maximum(stepped[bounded], 0.0)
        previous, current, momentum = current, stepped, following
    return Fit(mean, scale, current[:-1], float(current[-1]))
