"""Baselines: the usual values of a metric of a node, and anomaly scores of new values against them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated

from opx.domain.record import Record, about, replace
from opx.errors import InvalidInputError

BASELINES_CATEGORY = "operations/baselines"
"""The category whose records are numbers to compare with: they are added up, not searched."""

VALUE_FIELDS = ("node", "metric", "value", "at", "unit")

MIN_VALUES = 30
"""With fewer, a percentile is decided by a value or two."""

LIMIT = 3.5
_FOR_FEW = 8.0
"""The limit is higher by this share of itself for every value in its number: 3.5 for many, 4.4 for thirty."""

_NORMAL_P90 = 1.2815515655446004
"""The 90th percentile of a normal distribution, in standard deviations above its median."""

_BUCKET = 0.01
_COARSE = 3 * _BUCKET
"""Percentiles come from buckets that are 1 % wide. Where two are closer than this share of themselves, the spread between
them is mostly bucket width, and the mean and standard deviation, which are exact, are used instead."""

MAX_SCORE = 100.0


class Distribution(Record, frozen=True, kw_only=True):
    """Summary statistics of values. Percentiles, minimum and maximum are None where only mean and deviation are known.

    `stddev` is that of a sample (n - 1), 0 for a single value. Percentiles are within 1 % of an observed value.
    """

    count: Annotated[int, about("How many values there are; 0 if nothing is known.")] = 0
    mean: float = 0.0
    stddev: Annotated[float, about("Of a sample (n - 1).")] = 0.0
    minimum: float | None = None
    maximum: float | None = None
    p01: float | None = None
    p10: float | None = None
    p50: float | None = None
    p90: float | None = None
    p95: float | None = None
    p99: float | None = None


class HourBaseline(Distribution, frozen=True):
    """The values of one hour of the day (0-23, UTC), of all days together."""

    hour: Annotated[int, about("Of the day: 0-23, UTC.")]


class BaselineStats(Distribution, frozen=True, kw_only=True):
    """The values of a metric of a node within a time window; a `count` of 0 means that there are none.

    The window covers whole hours: those that it touches. `by_hour` has the hours of the day that have values, in order,
    `days` counts the days (UTC) that do. `last_seen` is ISO 8601, "" for never. `unit` is as it was given. `notes` state
    limits of the numbers.
    """

    node: str
    metric: str
    time_window: str
    by_hour: Annotated[tuple[HourBaseline, ...], about("The same by hour of the day, for hours that have values.")] = ()
    days: Annotated[int, about("Days that have values.")] = 0
    last_seen: Annotated[str, about("When the newest value was measured, empty for never.")] = ""
    unit: str = ""
    notes: Annotated[tuple[str, ...], about("Limits of the numbers.")] = ()

    def judge(self, value: float, hour: int | None = None) -> Verdict:
        """Returns a verdict: is the value anomalous, why, and by how much.

        With an hour of the day (0-23, UTC), it is compared with the values of that hour, if there are 30; else with all
        of them. Then a value that one in a hundred reaches at some hour of the day is not anomalous, so that a nightly
        job is not reported. With fewer than 30 values nothing is anomalous. Raises `InvalidInputError` for a value that
        is not a finite number, and for an hour outside 0-23.
        """
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise InvalidInputError(f"a value to judge must be a finite number, not {value!r}")
        if hour is not None and (isinstance(hour, bool) or hour not in range(24)):
            raise InvalidInputError(f"an hour of the day is 0 to 23 (UTC), not {hour!r}")
        if not self.count:
            return Verdict(False, f"no data: {self.metric} of {self.node} has no values in the last {self.time_window}")
        if hour is not None:
            return self._judged_at(hour, value)
        found = judged(self, value)
        return self._unless_some_hour(found, value) if found.anomalous else found

    def _judged_at(self, hour: int, value: float) -> Verdict:
        values = next((one for one in self.by_hour if one.hour == hour), Distribution())
        if values.count >= MIN_VALUES:
            return _with(judged(values, value), f"of {hour:02}:00 to {(hour + 1) % 24:02}:00 UTC")
        few = f"of all hours, as {hour:02}:00 UTC has only {values.count} values"
        return _with(judged(self, value), few)

    def _unless_some_hour(self, found: Verdict, value: float) -> Verdict:
        for one in self.by_hour:
            if one.count >= MIN_VALUES and was_there(one, value):
                hours = f"{one.hour:02}:00 to {(one.hour + 1) % 24:02}:00 UTC"
                reason = f"{shown(value)} is usual from {hours}, though not at all hours; give the hour to be exact"
                return replace(found, anomalous=False, reason=reason)
        return found


class RefusedValue(Record, frozen=True):
    """A value that can't be added: its index in the batch, and the reason."""

    index: int
    reason: str


class AddedValues(Record, frozen=True):
    """Counts of a batch that was added."""

    added: int = 0
    repeated: Annotated[int, about("Values that had been counted before.")] = 0
    refused: tuple[RefusedValue, ...] = ()


def _with(verdict: Verdict, compared: str) -> Verdict:
    return replace(verdict, reason=f"{verdict.reason} (compared with the values {compared})")


class Verdict(Record, frozen=True):
    """`score` is the modified z-score (at most 100 either way), `percentile` (0-100) the share of values that are not
    above it.

    `low` and `high` bound the values that are still normal. All four are None where they can't be computed.
    """

    anomalous: bool
    reason: str
    score: Annotated[float | None, about("The modified z-score, from -100 to 100.")] = None
    percentile: float | None = None
    low: Annotated[float | None, about("Lower bound of normal values.")] = None
    high: Annotated[float | None, about("Upper bound of normal values.")] = None


def limit_of(count: int) -> float:
    """The score from which a value is anomalous, for this many values to compare it with."""
    return LIMIT * (1 + _FOR_FEW / count)


def judged(values: Distribution, value: float) -> Verdict:
    """Compares `value`, a finite number, with `values`."""
    if values.count < MIN_VALUES:
        return Verdict(False, f"too little data: {values.count} of {MIN_VALUES} values")
    if _is_constant(values):
        return _against_constant(values, value)
    measured = _Measure.of(values)
    score = measured.score(value)
    limit = limit_of(values.count)
    low, high = measured.value_at(-limit), measured.value_at(limit)
    outside = abs(score) > limit and not (measured.roughly and was_there(values, value))
    side = "above" if score > 0 else "below"
    reason = (
        f"{shown(value)} is {side} what is usual: {shown(low)} to {shown(high)}, score {score:.1f}"
        if outside
        else f"{shown(value)} is usual: {shown(low)} to {shown(high)} would be, score {score:.1f}"
    )
    return Verdict(outside, reason, score, _percentile(values, value), low, high)


def _is_constant(values: Distribution) -> bool:
    return values.stddev == 0.0 or (values.minimum is not None and values.minimum == values.maximum)


def _against_constant(values: Distribution, value: float) -> Verdict:
    """A constant series has no deviation: every other value is anomalous."""
    always = f"all {values.count:,} values were {shown(values.mean)}"
    if math.isclose(value, values.mean, rel_tol=1e-9):
        return Verdict(False, f"{shown(value)} is usual: {always}", 0.0, 100.0, values.mean, values.mean)
    score = math.copysign(MAX_SCORE, value - values.mean)
    percentile = 100.0 if value > values.mean else 0.0
    return Verdict(True, f"{shown(value)} is new: {always}", score, percentile, values.mean, values.mean)


@dataclass(frozen=True, slots=True)
class _Measure:
    """Scores and the values that they stand for: the centre, and a deviation downwards and upwards, of `logarithms` or
    not. `roughly`: computed from mean and deviation, which describe a mostly constant series poorly."""

    centre: float
    down: float
    up: float
    logarithms: bool = False
    roughly: bool = False

    @classmethod
    def of(cls, values: Distribution) -> _Measure:
        p10, p50, p90 = values.p10, values.p50, values.p90
        if p10 is None or p50 is None or p90 is None or min(_width(p10, p50), _width(p50, p90)) < _COARSE:
            return cls(values.mean, values.stddev, values.stddev, roughly=True)
        positive = values.minimum is not None and values.minimum > 0 and p10 > 0
        if positive and _skew(*map(math.log, (p10, p50, p90))) < _skew(p10, p50, p90):
            p10, p50, p90 = map(math.log, (p10, p50, p90))
        else:
            positive = False
        return cls(p50, (p50 - p10) / _NORMAL_P90, (p90 - p50) / _NORMAL_P90, positive)

    def score(self, value: float) -> float:
        if self.logarithms and value <= 0:
            return -MAX_SCORE
        distance = (math.log(value) if self.logarithms else value) - self.centre
        found = distance / (self.up if distance > 0 else self.down)
        return max(-MAX_SCORE, min(MAX_SCORE, found))

    def value_at(self, score: float) -> float:
        found = self.centre + score * (self.up if score > 0 else self.down)
        return math.exp(min(found, 709.0)) if self.logarithms else found


def _width(low: float, high: float) -> float:
    """The distance of two values as a share of the larger one."""
    largest = max(abs(low), abs(high))
    return (high - low) / largest if largest else 0.0


def _skew(low: float, middle: float, high: float) -> float:
    return abs((high - middle) - (middle - low)) / (high - low)


def was_there(values: Distribution, value: float) -> bool:
    """True if the value lies between the 1st and 99th percentiles, with a bucket's tolerance."""
    if values.p01 is None or values.p99 is None:
        return False
    return values.p01 - _BUCKET * abs(values.p01) <= value <= values.p99 + _BUCKET * abs(values.p99)


def _percentile(values: Distribution, value: float) -> float | None:
    """The percentile of a value, interpolated linearly between the known ones."""
    known = (
        (0.0, values.minimum),
        (1.0, values.p01),
        (10.0, values.p10),
        (50.0, values.p50),
        (90.0, values.p90),
        (95.0, values.p95),
        (99.0, values.p99),
        (100.0, values.maximum),
    )
    if any(point is None for _, point in known):
        return None
    points = [(percent, point) for percent, point in known if point is not None]
    if value < points[0][1]:
        return 0.0
    found = 0.0
    for (before, low), (after, high) in pairwise(points):
        if value >= high:
            found = after
        elif value > low:
            found = before + (after - before) * (value - low) / (high - low)
    return found


def shown(value: float) -> str:
    """A number for people: five significant digits."""
    return f"{value:,.5g}" if 1e-4 <= abs(value) < 1e7 or value == 0 else f"{value:.4e}"
