"""Correlates metrics of a node: finds those that moved with one of them, with lag and strength."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from opx.domain.record import replace
from opx.errors import InvalidInputError
from opx.ports import Clock
from opx.ports.telemetry import FoundSeries, MetricId, MetricStore
from opx_telemetry.rules import TelemetryRules, metrics_of_node

# -- correlation

Values = Sequence[float | None]

MIN_POINTS = 12
MIN_STRENGTH = 0.5
MAX_CHANCE = 0.05
MIN_FILLED = 0.5
"""Share of a series' periods that must have a value."""

_FLAT = 1e-9
"""A standard deviation below this share of the mean is rounding."""

_MOST_OWN_LAGS = 4
"""Autocorrelations are computed for lags up to the length divided by this."""
_SIGNIFICANT = 2.0


@dataclass(frozen=True, slots=True)
class LagFit:
    """Best correlation of two series. `lag` in steps: above 0 the other series moved that much earlier. `strength` is from
    -1 to 1. `chance` is the probability of such a correlation between unrelated series."""

    lag: int
    strength: float
    points: int
    chance: float

    @property
    def is_related(self) -> bool:
        return abs(self.strength) >= MIN_STRENGTH and self.chance <= MAX_CHANCE


@dataclass(frozen=True, slots=True)
class PreparedSeries:
    """A series as deviations from its trend; `own` are its autocorrelations at lags of 1, 2, ... steps."""

    values: tuple[float | None, ...]
    own: tuple[float, ...]


def on_grid(values: Mapping[int, float], start: int, end: int, period: int) -> list[float | None]:
    """Returns the values of each period from `start` to before `end`; None for a missing or non-finite one."""
    found = [values.get(time) for time in range(start, end, period)]
    return [value if value is not None and math.isfinite(value) else None for value in found]


def problem_of(values: Values) -> str:
    """Returns the reason why a series can't be compared, "" if it can."""
    present = [value for value in values if value is not None]
    if not present:
        return "no values"
    if len(present) < max(MIN_POINTS, MIN_FILLED * len(values)):
        return f"only {len(present)} of {len(values)} periods have a value"
    mean = math.fsum(present) / len(present)
    spread = math.sqrt(math.fsum((value - mean) ** 2 for value in present) / len(present))
    return "constant" if spread <= _FLAT * max(abs(mean), 1.0) else ""


def prepared(values: Values) -> PreparedSeries:
    """Removes a series' linear trend: any two growing series would correlate by it."""
    points = [(at, value) for at, value in enumerate(values) if value is not None]
    middle = math.fsum(at for at, _ in points) / len(points)
    mean = math.fsum(value for _, value in points) / len(points)
    width = math.fsum((at - middle) ** 2 for at, _ in points)
    slope = math.fsum((at - middle) * (value - mean) for at, value in points) / width if width else 0.0
    rest = tuple(None if value is None else value - mean - slope * (at - middle) for at, value in enumerate(values))
    return PreparedSeries(rest, _own_correlations(rest))


def best_fit(metric: PreparedSeries, other: PreparedSeries, *, max_lag: int, comparisons: int) -> LagFit | None:
    """Returns the lag at which the other series fits the metric best, of equals the shortest; None if no lag leaves enough
    points. `comparisons` is the number of series that are compared, for the Bonferroni correction."""
    lags = sorted(range(-max_lag, max_lag + 1), key=lambda lag: (abs(lag), -lag))
    best: LagFit | None = None
    for lag in lags:
        strength, points = _correlation(*_shifted(metric.values, other.values, lag))
        if points >= max(MIN_POINTS, len(metric.values) // 2) and (best is None or abs(strength) > abs(best.strength)):
            best = LagFit(lag, strength, points, 1.0)
    if best is None:
        return None
    chance = _chance(best.strength, _worth(best.points, metric.own, other.own)) * len(lags) * max(comparisons, 1)
    return LagFit(best.lag, best.strength, best.points, min(chance, 1.0))


def _shifted(metric: Values, other: Values, lag: int) -> tuple[Values, Values]:
    """Returns the overlapping parts of both if `other` is `lag` steps ahead."""
    if lag >= 0:
        return metric[lag:], other[: len(other) - lag]
    return metric[:lag], other[-lag:]


def _correlation(one: Values, two: Values) -> tuple[float, int]:
    """Returns Pearson's correlation over the positions where both have a value, and their number."""
    pairs = [(a, b) for a, b in zip(one, two, strict=True) if a is not None and b is not None]
    if len(pairs) < 2:
        return 0.0, len(pairs)
    mean_a, mean_b = (math.fsum(column) / len(pairs) for column in zip(*pairs, strict=True))
    covariance = math.fsum((a - mean_a) * (b - mean_b) for a, b in pairs)
    scale = math.sqrt(math.fsum((a - mean_a) ** 2 for a, _ in pairs) * math.fsum((b - mean_b) ** 2 for _, b in pairs))
    return (max(-1.0, min(1.0, covariance / scale)) if scale else 0.0), len(pairs)


def _own_correlations(values: Values) -> tuple[float, ...]:
    """Returns the autocorrelations up to the first that doesn't differ from 0 significantly: the rest would add up noise."""
    limit = _SIGNIFICANT / math.sqrt(len(values))
    found = []
    for lag in range(1, len(values) // _MOST_OWN_LAGS):
        own, _ = _correlation(values[lag:], values[:-lag])
        if abs(own) < limit:
            break
        found.append(own)
    return tuple(found)


def _worth(points: int, one: Sequence[float], two: Sequence[float]) -> float:
    """Effective sample size of two autocorrelated series: at most the number of points."""
    alike = math.fsum((1 - lag / points) * a * b for lag, (a, b) in enumerate(zip(one, two, strict=False), start=1))
    return min(float(points), points / (1 + 2 * max(alike, 0.0)))


def _chance(strength: float, points: float) -> float:
    """Probability of at least this correlation between uncorrelated series (Fisher transformation)."""
    if points <= 4:
        return 1.0
    if abs(strength) >= 1.0:
        return 0.0
    return math.erfc(abs(math.atanh(strength)) * math.sqrt(points - 3) / math.sqrt(2))


# -- comparison of a node's metrics

FINE, COARSE = 60, 300
MOST_POINTS = 300
MOST_CANDIDATES = 50
_SHARE_OF_RANGE = 4
"""The range is divided by this for the longest lag: a longer one would leave too few points to compare."""


@dataclass(frozen=True, slots=True)
class MetricQuestion:
    """A comparison to run. `candidates`: names of metrics, all that are listed if empty. `max_lag` in minutes."""

    metric: str
    node: str
    minutes: int = 180
    candidates: tuple[str, ...] = ()
    max_lag: int = 30


@dataclass(frozen=True, slots=True)
class Related:
    """A metric that moved with the requested one. `lag` in minutes, above 0 if it moved first."""

    metric: str
    lag: int
    fit: LagFit

    @property
    def relation(self) -> str:
        alike = "together with" if self.fit.strength > 0 else "against"
        if not self.lag:
            return f"moved {alike} it, at the same time"
        return f"moved {alike} it, {abs(self.lag)} minutes {'before' if self.lag > 0 else 'after'} it"


@dataclass(frozen=True, slots=True)
class MetricAnswer:
    """Result of a comparison: `related` metrics, the strongest first, `unrelated` ones, and those `left_out` with reasons."""

    question: MetricQuestion
    start: int
    end: int
    period: int
    related: tuple[Related, ...] = ()
    unrelated: tuple[str, ...] = ()
    left_out: tuple[tuple[str, str], ...] = ()
    partial: bool = False
    notes: tuple[str, ...] = ()


class MetricComparison:
    """Reads all series with one call of the store and compares them."""

    def __init__(self, store: MetricStore, rules: TelemetryRules, *, clock: Clock) -> None:
        self._store = store
        self._rules = rules
        self._clock = clock

    def answer(self, question: MetricQuestion) -> MetricAnswer:
        """Runs a comparison. Raises `InvalidInputError` for what may not be queried, and `StoreUnavailableError`."""
        self._rules.check_minutes(question.minutes)
        target, candidates = _chosen(self._rules, question)
        notes = []
        if len(candidates) > MOST_CANDIDATES:
            notes.append(f"only {MOST_CANDIDATES} of {len(candidates)} metrics were compared; name the candidates")
        compared = candidates[:MOST_CANDIDATES]
        start, end, period, found = self._read([target, *compared], question.minutes)
        grids = {metric: on_grid(found.values.get(metric, {}), start, end, period) for metric in (target, *compared)}
        problem = problem_of(grids[target])
        partial = bool(notes) or not found.complete
        answer = MetricAnswer(question, start, end, period, partial=partial, notes=(*notes, *found.notes))
        if problem:
            return _nothing_known(answer, target, problem)
        return _compared(answer, target, compared, grids)

    def _read(self, metrics: Sequence[MetricId], minutes: int) -> tuple[int, int, int, FoundSeries]:
        """Reads series by the minute, or by five minutes for a long range or a metric without finer values.

        The last period isn't over, so that it is left out.
        """
        for period in (FINE, COARSE):
            end = int(self._clock()) // period * period
            start = end - 60 * minutes // period * period
            if period == FINE and 60 * minutes > MOST_POINTS * FINE:
                continue
            found = self._store.series(metrics, start=start, end=end, period=period)
            if period == COARSE or not problem_of(on_grid(found.values.get(metrics[0], {}), start, end, period)):
                break
        return start, end, period, found


def _chosen(rules: TelemetryRules, question: MetricQuestion) -> tuple[MetricId, list[MetricId]]:
    listed = list(metrics_of_node(rules, question.node))
    if not listed:
        raise InvalidInputError("no metric may be queried: the operators have listed none (telemetry.metrics)")
    names = sorted({metric.name for metric in listed})
    for name in (question.metric, *question.candidates):
        if name not in names:
            raise InvalidInputError(f"metric {name[:200]!r} may not be queried; there are: {', '.join(names)}")
    target = next(metric for metric in listed if metric.name == question.metric)
    wanted = set(question.candidates) or set(names)
    # Metrics by the same dimension mean the same thing by a node's name.
    of_prometheus = rules.is_in_prometheus(target.name)
    same_source = [metric for metric in listed if rules.is_in_prometheus(metric.name) == of_prometheus]
    same_dimension = [metric for metric in same_source if metric.dimension == target.dimension]
    others = [metric for metric in same_dimension if metric != target and metric.name in wanted]
    if not others:
        raise InvalidInputError(f"there is no other metric by {target.dimension} to compare {question.metric} with")
    return target, others


def _shown_name(metric: MetricId, target: MetricId) -> str:
    return metric.name if metric.namespace == target.namespace else f"{metric.namespace}/{metric.name}"


def _nothing_known(answer: MetricAnswer, target: MetricId, problem: str) -> MetricAnswer:
    note = f"nothing was compared: {target.name} of {target.node}: {problem}"
    return replace(answer, left_out=((target.name, problem),), partial=True, notes=(*answer.notes, note))


def _compared(
    answer: MetricAnswer, target: MetricId, candidates: Sequence[MetricId], grids: Mapping[MetricId, Values]
) -> MetricAnswer:
    problems = {metric: problem_of(grids[metric]) for metric in candidates}
    usable = [metric for metric in candidates if not problems[metric]]
    steps = len(grids[target])
    max_lag = min(60 * answer.question.max_lag // answer.period, steps // _SHARE_OF_RANGE)
    reference = prepared(grids[target])
    related, unrelated = [], []
    for metric in usable:
        fit = best_fit(reference, prepared(grids[metric]), max_lag=max_lag, comparisons=len(usable))
        if fit and fit.is_related:
            related.append(Related(_shown_name(metric, target), fit.lag * answer.period // 60, fit))
        else:
            unrelated.append(_shown_name(metric, target))
    related.sort(key=lambda one: (-abs(one.fit.strength), one.metric))
    notes = list(answer.notes)
    if 60 * answer.question.max_lag > max_lag * answer.period:
        notes.append(f"lags were compared up to {max_lag * answer.period // 60} minutes, a quarter of the range")
    left_out = tuple((_shown_name(metric, target), problem) for metric, problem in problems.items() if problem)
    return replace(answer, related=tuple(related), unrelated=tuple(unrelated), left_out=left_out, notes=tuple(notes))
