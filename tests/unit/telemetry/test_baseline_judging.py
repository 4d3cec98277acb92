"""Verdicts on values: anomalous ones, and the rate of false alarms on healthy ones."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import pytest

from opx.domain.baselines import MAX_SCORE, BaselineStats, Distribution, limit_of
from opx.errors import InvalidInputError
from opx_telemetry.baselines.summary import Summary
from tests.benchmarks.baseline_figures import SHAPES, rate, stats_of


def stats(values: Sequence[float]) -> BaselineStats:
    """Without hours."""
    summary = Summary()
    summary.add(values)
    return BaselineStats(node="web-01", metric="cpu", time_window="7d", **summary.numbers())


def drawn(shape: str, count: int = 2016) -> list[float]:
    chance = random.Random(shape)
    return [SHAPES[shape](chance, step) for step in range(count)]


def test_without_values_nothing_is_anomalous_and_the_reason_states_it() -> None:
    verdict = stats([]).judge(97.3)
    assert (verdict.anomalous, verdict.score) == (False, None)
    assert verdict.reason == "no data: cpu of web-01 has no values in the last 7d"


def test_with_few_values_nothing_is_out_of_the_ordinary() -> None:
    values = [float(n) for n in range(29)]
    assert stats(values).judge(1e6).reason == "too little data: 29 of 30 values"
    assert not stats(values).judge(1e6).anomalous
    assert stats([*values, 29.0]).judge(1e6).anomalous


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, True, "7"])
def test_value_that_is_no_finite_number_is_refused(value: float) -> None:
    with pytest.raises(InvalidInputError, match="finite number"):
        stats([1.0] * 40).judge(value)


@pytest.mark.parametrize("hour", [-1, 24, True])
def test_an_hour_that_no_day_has_is_refused(hour: int) -> None:
    with pytest.raises(InvalidInputError, match="0 to 23"):
        stats([1.0] * 40).judge(1.0, hour)


@pytest.mark.parametrize("constant", [5.0, 0.0, -3.5, 1e300])
def test_whatever_differs_from_what_never_changed_is_out_of_the_ordinary(constant: float) -> None:
    known = stats([constant] * 100)
    same, other = known.judge(constant), known.judge(constant + max(1.0, abs(constant) / 100))
    assert (same.anomalous, other.anomalous) == (False, True)
    assert other.score == MAX_SCORE
    assert "all 100 values were" in other.reason


@pytest.mark.parametrize("shape", ["normal (50, 10)", "normal (100, 1)", "log-normal (3, 0.5)", "uniform (10, 90)"])
def test_values_within_the_range_are_distinguished_from_distant_ones(shape: str) -> None:
    known = stats(drawn(shape))
    middle, high = known.p50 or 0, known.maximum or 0
    assert not known.judge(middle).anomalous
    assert known.judge(middle + 6 * (high - middle)).anomalous


def test_a_verdict_has_the_usual_range_and_the_score_of_the_value() -> None:
    verdict = stats(drawn("normal (50, 10)")).judge(97.3)
    assert verdict.anomalous
    assert verdict.score == pytest.approx(4.73, abs=0.3)
    assert verdict.low == pytest.approx(15, abs=3)
    assert verdict.high == pytest.approx(85, abs=3)
    assert verdict.percentile == 100
    assert verdict.reason.startswith("97.3 is above what is usual: ")


def test_a_twentieth_of_values_from_an_outage_doesnt_hide_the_next_one() -> None:
    known = stats([*drawn("normal (50, 10)"), *([99.0] * 106)])
    assert known.judge(99.0).anomalous


def test_zero_is_below_what_was_always_positive() -> None:
    verdict = stats(drawn("log-normal (3, 0.5)")).judge(0.0)
    assert (verdict.anomalous, verdict.score) == (True, -MAX_SCORE)


def test_value_with_a_share_of_two_percent_is_normal_and_of_a_fifth_percent_anomalous() -> None:
    assert not stats([0.0] * 980 + [1.0] * 20).judge(1.0).anomalous
    assert stats([0.0] * 998 + [1.0] * 2).judge(1.0).anomalous


def test_mean_and_deviation_decide_where_nothing_else_is_known() -> None:
    recorded = BaselineStats(node="n", metric="m", time_window="7d", count=1000, mean=50, stddev=10)
    assert recorded.judge(90).anomalous
    assert not recorded.judge(80).anomalous
    assert recorded.judge(90).percentile is None


def test_the_limit_is_wider_for_few_values() -> None:
    assert limit_of(30) == pytest.approx(4.43, abs=0.01)
    assert limit_of(100_000) == pytest.approx(3.5, abs=0.001)


@pytest.fixture(scope="module")
def rhythm() -> BaselineStats:
    """40 in the night and 70 from 8 to 19, for a month."""
    chance = random.Random(11)
    return stats_of([(step, SHAPES["daily rhythm"](chance, step)) for step in range(30 * 288)])


class TestHours:
    def test_with_the_hour_a_value_is_compared_with_those_of_that_hour(self, rhythm: BaselineStats) -> None:
        assert rhythm.judge(70.0, hour=3).anomalous
        assert not rhythm.judge(70.0, hour=12).anomalous
        assert "03:00 to 04:00 UTC" in rhythm.judge(70.0, hour=3).reason

    def test_without_the_hour_what_any_hour_has_is_usual(self, rhythm: BaselineStats) -> None:
        assert not rhythm.judge(70.0).anomalous
        assert not rhythm.judge(40.0).anomalous
        assert rhythm.judge(200.0).anomalous

    def test_a_job_of_every_night_is_none_by_itself(self) -> None:
        chance = random.Random(5)
        known = stats_of([(step, SHAPES["job every night"](chance, step)) for step in range(30 * 288)])
        verdict = known.judge(90.0)
        assert not verdict.anomalous
        assert "from 02:00 to 03:00 UTC" in verdict.reason
        assert known.judge(90.0, hour=14).anomalous

    def test_an_hour_with_few_values_is_judged_by_all(self) -> None:
        known = stats_of([(step, 50.0 + step % 7) for step in range(24 * 12)])
        assert "00:00 UTC has only 12 values" in known.judge(53.0, hour=0).reason


@pytest.mark.parametrize(
    ("shape", "hourly", "most"),
    [
        ("normal (50, 10)", False, 0.002),
        ("log-normal (0, 1)", False, 0.002),
        ("Pareto (2.5)", False, 0.01),
        ("daily rhythm", True, 0.005),
    ],
)
def test_healthy_values_are_rarely_called_out_of_the_ordinary(shape: str, hourly: bool, most: float) -> None:
    """The table of `docs/operations.md`, in small: `python -m tests.benchmarks.baseline_figures rates` makes it."""
    assert rate(SHAPES[shape], 7, hourly=hourly, rounds=4, tried=500) <= most


def test_stats_survive_json() -> None:
    known = stats_of([(step, float(step % 97)) for step in range(600)])
    assert BaselineStats.from_json(known.to_json()) == known
    assert known.to_json()["byHour"][0]["hour"] == 0
    assert Distribution().p50 is None
