"""Finds which metrics of a node moved with one of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from opx.domain.record import replace
from opx.errors import InvalidInputError
from opx.ports import Clock
from opx.ports.telemetry import MetricId, MetricStore
from opx.telemetry.correlation import Fit, Values, best_fit, on_grid, prepared, problem_of
from opx.telemetry.rules import TelemetryRules, metrics_of_node

FINE, COARSE = 60, 300
MOST_POINTS = 300
MOST_CANDIDATES = 50
_SHARE_OF_RANGE = 4
"""The longest lag is this part of the range: a longer one would leave too little to compare."""


@dataclass(frozen=True, slots=True)
class MetricQuestion:
    """`candidates`: names, all that are listed if there is none. `max_lag` in minutes."""

    metric: str
    node: str
    minutes: int = 180
    candidates: tuple[str, ...] = ()
    max_lag: int = 30


@dataclass(frozen=True, slots=True)
class Related:
    """A metric that moved with the one asked for. `lag` in minutes, above 0 if it moved first."""

    metric: str
    lag: int
    fit: Fit

    @property
    def relation(self) -> str:
        alike = "together with" if self.fit.strength > 0 else "against"
        if not self.lag:
            return f"moved {alike} it, at the same time"
        return f"moved {alike} it, {abs(self.lag)} minutes {'before' if self.lag > 0 else 'after'} it"


@dataclass(frozen=True, slots=True)
class MetricAnswer:
    """`related` has the strongest first; `unrelated` was compared, `left_out` couldn't be, with the reason."""

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
    """Asks a store for all series at once and compares them."""

    def __init__(self, store: MetricStore, rules: TelemetryRules, *, clock: Clock) -> None:
        self._store = store
        self._rules = rules
        self._clock = clock

    def answer(self, question: MetricQuestion) -> MetricAnswer:
        """Raises `InvalidInputError` for what may not be asked, `StoreUnavailableError`."""
        self._rules.check_minutes(question.minutes)
        target, candidates = _chosen(self._rules, question)
        notes = []
        if len(candidates) > MOST_CANDIDATES:
            notes.append(f"only {MOST_CANDIDATES} of {len(candidates)} metrics were compared; name the candidates")
        compared = candidates[:MOST_CANDIDATES]
        start, end, period, found = self._read([target, *compared], question.minutes)
        grids = {metric: on_grid(found.get(metric, {}), start, end, period) for metric in (target, *compared)}
        problem = problem_of(grids[target])
        answer = MetricAnswer(question, start, end, period, partial=bool(notes), notes=tuple(notes))
        if problem:
            return _nothing_known(answer, target, problem)
        return _compared(answer, target, compared, grids)

    def _read(
        self, metrics: Sequence[MetricId], minutes: int
    ) -> tuple[int, int, int, Mapping[MetricId, Mapping[int, float]]]:
        """Minute by minute, or in five minutes where a range is long or the metric has no finer values.

        The last period isn't over, so that it is left out.
        """
        for period in (FINE, COARSE):
            end = int(self._clock()) // period * period
            start = end - 60 * minutes // period * period
            if period == FINE and 60 * minutes > MOST_POINTS * FINE:
                continue
            found = self._store.series(metrics, start=start, end=end, period=period)
            if period == COARSE or not problem_of(on_grid(found.get(metrics[0], {}), start, end, period)):
                break
        return start, end, period, found


def _chosen(rules: TelemetryRules, question: MetricQuestion) -> tuple[MetricId, list[MetricId]]:
    listed = list(metrics_of_node(rules, question.node))
    if not listed:
        raise InvalidInputError("no metric may be asked: the operators have listed none (telemetry.metrics)")
    names = sorted({metric.name for metric in listed})
    for name in (question.metric, *question.candidates):
        if name not in names:
            raise InvalidInputError(f"metric {name[:200]!r} may not be asked; there are: {', '.join(names)}")
    target = next(metric for metric in listed if metric.name == question.metric)
    wanted = set(question.candidates) or set(names)
    of_one = [
        metric for metric in listed if metric.dimension == target.dimension
    ]  # a node's name means one thing to them
    others = [metric for metric in of_one if metric != target and metric.name in wanted]
    if not others:
        raise InvalidInputError(f"there is no other metric by {target.dimension} to compare {question.metric} with")
    return target, others


def _called(metric: MetricId, target: MetricId) -> str:
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
    asked = prepared(grids[target])
    related, unrelated = [], []
    for metric in usable:
        fit = best_fit(asked, prepared(grids[metric]), max_lag=max_lag, comparisons=len(usable))
        if fit and fit.is_related:
            related.append(Related(_called(metric, target), fit.lag * answer.period // 60, fit))
        else:
            unrelated.append(_called(metric, target))
    related.sort(key=lambda one: (-abs(one.fit.strength), one.metric))
    notes = list(answer.notes)
    if 60 * answer.question.max_lag > max_lag * answer.period:
        notes.append(f"lags were compared up to {max_lag * answer.period // 60} minutes, a quarter of the range")
    left_out = tuple((_called(metric, target), problem) for metric, problem in problems.items() if problem)
    return replace(answer, related=tuple(related), unrelated=tuple(unrelated), left_out=left_out, notes=tuple(notes))
