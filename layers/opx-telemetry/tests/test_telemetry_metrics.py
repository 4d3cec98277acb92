"""Correlated metrics are found with lag and direction, chance correlations are not."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from functools import cache

import pytest

from opx.errors import InvalidInputError
from opx.ports.telemetry import FoundSeries, MetricId
from opx_telemetry.metrics import (
    MetricAnswer,
    MetricComparison,
    MetricQuestion,
    best_fit,
    on_grid,
    prepared,
    problem_of,
)
from opx_telemetry.rules import MetricFamily, TelemetryRules

NOW = 1_750_000_030.0
HOST = MetricFamily("AWS/EC2", "InstanceId", ("cpu", "network", "disk", "credits"))
RULES = TelemetryRules(
    metrics=(HOST, MetricFamily("CWAgent", "InstanceId", ("memory",)), MetricFamily("X", "Queue", ("depth",)))
)
Series = Callable[[int], float | None]


def nothing(_: int) -> None:
    """A metric that has no values."""


class FakeMetrics:
    """Values as functions of the minute, by the metric's name. Remembers the requested periods."""

    def __init__(self, every: int = 60, **series: Series) -> None:
        self._every = every
        self._series = series
        self.periods: list[tuple[int, int, int]] = []

    def series(self, metrics: Sequence[MetricId], *, start: int, end: int, period: int) -> FoundSeries:
        self.periods.append((start, end, period))
        found: dict[MetricId, dict[int, float]] = {}
        for metric in metrics:
            for time in range(start, end, period):
                value = self._series.get(metric.name, nothing)((time - start) // 60)
                if value is not None and time % self._every == 0:
                    found.setdefault(metric, {})[time] = value
        return FoundSeries(found)


@cache
def noise(seed: int) -> Series:
    generator = random.Random(seed)
    values = [generator.gauss(0, 1) for _ in range(2000)]
    return lambda minute: values[minute + 100]


def bump(at: int, height: float = 10.0, seed: int = 1) -> Series:
    """A rise that lasts 20 minutes, in noise."""
    around = noise(seed)

    def value(minute: int) -> float:
        return height * math.exp(-(((minute - at) / 8) ** 2)) + (around(minute) or 0.0)

    return value


def drift(seed: int) -> Series:
    """A random walk: related to nothing, and never the same for long."""
    generator = random.Random(seed)
    values = [0.0]
    for _ in range(2000):
        values.append(values[-1] + generator.gauss(0, 1))
    return lambda minute: values[minute]


def ask(store: FakeMetrics, **question: object) -> MetricAnswer:
    request = MetricQuestion(**{"metric": "cpu", "node": "i-1", **question})  # type: ignore[arg-type]
    return MetricComparison(store, RULES, clock=lambda: NOW).answer(request)


def test_metric_that_moved_first_is_found_with_its_lag() -> None:
    answer = ask(FakeMetrics(cpu=bump(90, seed=1), network=bump(78, seed=2), disk=noise(3)))
    (found,) = answer.related
    assert found.metric == "network"
    assert found.lag == pytest.approx(12, abs=1)
    assert found.fit.strength > 0.8
    assert found.fit.chance < 0.01
    assert found.relation == f"moved together with it, {found.lag} minutes before it"
    assert answer.unrelated == ("disk",)


def test_metric_that_followed_has_a_negative_lag() -> None:
    (found,) = ask(FakeMetrics(cpu=bump(90, seed=1), network=bump(99, seed=2))).related
    assert found.lag == pytest.approx(-9, abs=1)
    assert found.relation.endswith("after it")


def test_metric_that_moved_the_other_way_is_found() -> None:
    (found,) = ask(FakeMetrics(cpu=bump(90, seed=1), credits=bump(90, -10.0, seed=2))).related
    assert found.fit.strength < -0.8
    assert found.relation.startswith("moved against it")


def test_strongest_comes_first() -> None:
    store = FakeMetrics(cpu=bump(90, seed=1), network=bump(90, 4.0, seed=2), disk=bump(90, 20.0, seed=3))
    assert [one.metric for one in ask(store).related] == ["disk", "network"]


def test_lag_beyond_the_limit_is_not_found() -> None:
    answer = ask(FakeMetrics(cpu=bump(120, seed=1), network=bump(60, seed=2)), max_lag=15)
    assert answer.related == ()


def test_unrelated_noise_is_not_taken_for_a_relation() -> None:
    false = sum(
        len(ask(FakeMetrics(cpu=noise(4 * n + 1), network=noise(4 * n + 2), disk=noise(4 * n + 3))).related)
        for n in range(5)
    )
    assert false == 0


def test_metrics_that_drift_on_their_own_are_not_taken_for_related() -> None:
    """Without regard to how alike neighbours are, most of these would be."""
    false = sum(len(ask(FakeMetrics(cpu=drift(2 * n), network=drift(2 * n + 1))).related) for n in range(12))
    assert false <= 1


def test_common_growth_is_no_relation() -> None:
    one, two = noise(1), noise(2)
    store = FakeMetrics(cpu=lambda m: m + (one(m) or 0.0), network=lambda m: 3 * m + (two(m) or 0.0))
    assert ask(store).related == ()


def test_relation_is_found_on_top_of_trends_that_differ() -> None:
    one, two = bump(90, seed=1), bump(80, seed=2)
    store = FakeMetrics(cpu=lambda m: (one(m) or 0.0) + 0.3 * m, network=lambda m: (two(m) or 0.0) - 0.3 * m)
    (found,) = ask(store).related
    assert found.lag == pytest.approx(10, abs=1)
    assert found.fit.strength > 0.5


def test_metric_that_cannot_be_compared_is_left_out_with_the_reason() -> None:
    store = FakeMetrics(cpu=bump(90), network=lambda _: 5.0, disk=lambda m: 1.0 * m if m % 5 == 0 else None)
    answer = ask(store)
    assert dict(answer.left_out) == {
        "network": "constant",
        "disk": "only 36 of 180 periods have a value",
        "credits": "no values",
        "CWAgent/memory": "no values",
    }


def test_nothing_is_compared_with_a_metric_that_has_no_values() -> None:
    answer = ask(FakeMetrics(network=bump(90)))
    assert answer.partial
    assert answer.notes == ("nothing was compared: cpu of i-1: no values",)
    assert answer.related == ()
    assert answer.unrelated == ()


def test_gaps_do_not_hide_a_relation() -> None:
    def with_gaps(series: Series) -> Series:
        return lambda minute: None if minute % 7 == 0 else series(minute)

    (found,) = ask(FakeMetrics(cpu=bump(90, seed=1), network=with_gaps(bump(80, seed=2)))).related
    assert found.lag == pytest.approx(10, abs=1)


def test_metric_without_minutes_is_read_in_steps_of_five() -> None:
    store = FakeMetrics(every=300, cpu=bump(200, seed=1), network=bump(180, seed=2))
    answer = ask(store, minutes=300)
    assert [period for _, _, period in store.periods] == [60, 300]
    assert answer.period == 300
    assert answer.related[0].lag == pytest.approx(20, abs=5)


def test_long_range_is_read_in_steps_of_five_at_once() -> None:
    store = FakeMetrics(cpu=bump(700, seed=1), network=bump(700, seed=2))
    ask(store, minutes=1440)
    assert [period for _, _, period in store.periods] == [300]


def test_period_that_is_not_over_is_left_out() -> None:
    store = FakeMetrics(cpu=bump(90))
    ask(store)
    assert store.periods[0] == (1_749_989_220, 1_750_000_020, 60)


def test_only_the_candidates_that_are_named_are_compared() -> None:
    store = FakeMetrics(cpu=bump(90, seed=1), network=bump(90, seed=2), disk=bump(90, seed=3))
    assert [one.metric for one in ask(store, candidates=("disk",)).related] == ["disk"]


def test_metric_of_another_namespace_with_the_same_dimension_is_compared() -> None:
    answer = ask(FakeMetrics(cpu=bump(90, seed=1), memory=bump(90, seed=2)))
    assert [one.metric for one in answer.related] == ["CWAgent/memory"]


@pytest.mark.parametrize(
    ("question", "message"),
    [
        ({"metric": "load"}, "metric 'load' may not be queried; there are: cpu, credits, depth, disk, memory, network"),
        ({"candidates": ("load",)}, "metric 'load' may not be queried"),
        ({"metric": "depth"}, "there is no other metric by Queue"),
        ({"minutes": 2000}, "minutes must be at most 1440"),
    ],
)
def test_an_invalid_comparison_is_refused(question: dict[str, object], message: str) -> None:
    store = FakeMetrics(cpu=bump(90))
    with pytest.raises(InvalidInputError, match=message):
        ask(store, **question)
    assert store.periods == []


def test_lag_is_at_most_a_quarter_of_the_range() -> None:
    answer = ask(FakeMetrics(cpu=bump(30, seed=1), network=bump(25, seed=2)), minutes=60, max_lag=30)
    assert answer.notes == ("lags were compared up to 15 minutes, a quarter of the range",)


class TestParts:
    def test_grid_has_none_where_there_is_no_finite_value(self) -> None:
        assert on_grid({0: 1.0, 60: math.nan, 120: math.inf, 240: 2.0}, 0, 240, 60) == [1.0, None, None, None]

    def test_large_constant_with_rounding_is_constant(self) -> None:
        assert problem_of([1e12 + (n % 2) * 1e-4 for n in range(30)]) == "constant"

    def test_too_few_points_give_no_fit(self) -> None:
        short = prepared([float(n % 3) for n in range(8)])
        assert best_fit(short, short, max_lag=1, comparisons=1) is None

    def test_series_fits_itself_best_without_a_lag(self) -> None:
        itself = prepared([bump(40)(n) for n in range(90)])
        fit = best_fit(itself, itself, max_lag=10, comparisons=1)
        assert fit is not None
        assert (fit.lag, round(fit.strength, 6), fit.points) == (0, 1.0, 90)

    def test_more_comparisons_make_chance_more_likely(self) -> None:
        one, two = (
            prepared([bump(40, 3.0, 1)(n) for n in range(90)]),
            prepared([bump(45, 3.0, 2)(n) for n in range(90)]),
        )
        few, many = (best_fit(one, two, max_lag=10, comparisons=count) for count in (1, 10))
        assert few is not None
        assert many is not None
        assert few.chance < many.chance
