"""How two series of numbers moved together: the lag at which they fit best, how well, and how likely that is by chance.

Neighbouring values of a metric are alike, so that two series which have nothing to do with each other often look as if
they had. The number of values is therefore taken for as many independent ones as it is worth: n / (1 + 2 sum of
(1 - k/n) r1(k) r2(k)), with r1 and r2 the series' correlations with themselves k steps later (M. S. Bartlett, "Some
aspects of the time-correlation problem", 1935). The chance of a correlation comes from Fisher's transformation, times
the number of correlations that were looked at (Bonferroni).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Values = Sequence[float | None]

MIN_POINTS = 12
MIN_STRENGTH = 0.5
MAX_CHANCE = 0.05
MIN_FILLED = 0.5
"""Of the periods of a series, how many must have a value."""

_FLAT = 1e-9
"""A standard deviation below this part of the mean is rounding."""
_MOST_OWN_LAGS = 4
"""Correlations of a series with itself are looked at up to this part of its length."""
_SIGNIFICANT = 2.0


@dataclass(frozen=True, slots=True)
class Fit:
    """`lag` in steps: above 0 the other series moved that much earlier. `strength` is from -1 to 1."""

    lag: int
    strength: float
    points: int
    chance: float

    @property
    def is_related(self) -> bool:
        return abs(self.strength) >= MIN_STRENGTH and self.chance <= MAX_CHANCE


@dataclass(frozen=True, slots=True)
class Prepared:
    """A series as deviations from its trend; `own` are its correlations with itself 1, 2, ... steps later."""

    values: tuple[float | None, ...]
    own: tuple[float, ...]


def on_grid(values: Mapping[int, float], start: int, end: int, period: int) -> list[float | None]:
    """The values of each period from `start` to before `end`; None where there is none, or no finite one."""
    found = [values.get(time) for time in range(start, end, period)]
    return [value if value is not None and math.isfinite(value) else None for value in found]


def problem_of(values: Values) -> str:
    """Why a series can't be compared, "" if it can."""
    present = [value for value in values if value is not None]
    if not present:
        return "no values"
    if len(present) < max(MIN_POINTS, MIN_FILLED * len(values)):
        return f"only {len(present)} of {len(values)} periods have a value"
    mean = math.fsum(present) / len(present)
    spread = math.sqrt(math.fsum((value - mean) ** 2 for value in present) / len(present))
    return "constant" if spread <= _FLAT * max(abs(mean), 1.0) else ""


def prepared(values: Values) -> Prepared:
    """The series without its linear trend, which any two things have in common that grow."""
    points = [(at, value) for at, value in enumerate(values) if value is not None]
    middle = math.fsum(at for at, _ in points) / len(points)
    mean = math.fsum(value for _, value in points) / len(points)
    width = math.fsum((at - middle) ** 2 for at, _ in points)
    slope = math.fsum((at - middle) * (value - mean) for at, value in points) / width if width else 0.0
    rest = tuple(None if value is None else value - mean - slope * (at - middle) for at, value in enumerate(values))
    return Prepared(rest, _own_correlations(rest))


def best_fit(metric: Prepared, other: Prepared, *, max_lag: int, comparisons: int) -> Fit | None:
    """The lag at which the other series fits the metric best, of equals the shortest; None if no lag leaves enough
    points. `comparisons` are how many series are tried in all."""
    lags = sorted(range(-max_lag, max_lag + 1), key=lambda lag: (abs(lag), -lag))
    best: Fit | None = None
    for lag in lags:
        strength, points = _correlation(*_shifted(metric.values, other.values, lag))
        if points >= max(MIN_POINTS, len(metric.values) // 2) and (best is None or abs(strength) > abs(best.strength)):
            best = Fit(lag, strength, points, 1.0)
    if best is None:
        return None
    chance = _chance(best.strength, _worth(best.points, metric.own, other.own)) * len(lags) * max(comparisons, 1)
    return Fit(best.lag, best.strength, best.points, min(chance, 1.0))


def _shifted(metric: Values, other: Values, lag: int) -> tuple[Values, Values]:
    """The parts of both that belong together if `other` is `lag` steps ahead."""
    if lag >= 0:
        return metric[lag:], other[: len(other) - lag]
    return metric[:lag], other[-lag:]


def _correlation(one: Values, two: Values) -> tuple[float, int]:
    """Pearson's, of the places where both have a value, and how many these are."""
    pairs = [(a, b) for a, b in zip(one, two, strict=True) if a is not None and b is not None]
    if len(pairs) < 2:
        return 0.0, len(pairs)
    mean_a, mean_b = (math.fsum(column) / len(pairs) for column in zip(*pairs, strict=True))
    covariance = math.fsum((a - mean_a) * (b - mean_b) for a, b in pairs)
    scale = math.sqrt(math.fsum((a - mean_a) ** 2 for a, _ in pairs) * math.fsum((b - mean_b) ** 2 for _, b in pairs))
    return (max(-1.0, min(1.0, covariance / scale)) if scale else 0.0), len(pairs)


def _own_correlations(values: Values) -> tuple[float, ...]:
    """Up to the first that is not told from 0: what follows is noise that would be summed up."""
    limit = _SIGNIFICANT / math.sqrt(len(values))
    found = []
    for lag in range(1, len(values) // _MOST_OWN_LAGS):
        own, _ = _correlation(values[lag:], values[:-lag])
        if abs(own) < limit:
            break
        found.append(own)
    return tuple(found)


def _worth(points: int, one: Sequence[float], two: Sequence[float]) -> float:
    """How many independent points these are worth: at most all of them."""
    alike = math.fsum((1 - lag / points) * a * b for lag, (a, b) in enumerate(zip(one, two, strict=False), start=1))
    return min(float(points), points / (1 + 2 * max(alike, 0.0)))


def _chance(strength: float, points: float) -> float:
    """How likely a correlation at least this strong is between series that have none (Fisher)."""
    if points <= 4:
        return 1.0
    if abs(strength) >= 1.0:
        return 0.0
    return math.erfc(abs(math.atanh(strength)) * math.sqrt(points - 3) / math.sqrt(2))
