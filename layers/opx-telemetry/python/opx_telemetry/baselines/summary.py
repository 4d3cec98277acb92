"""Summarises values mergeably: count, mean, deviation, minimum, maximum, and a sketch of their percentiles.

The moments of two sets are merged as Chan, Golub and LeVeque do it ("Algorithms for Computing the Sample Variance", The
American Statistician 37, 1983): from their means and deviations, never from sums of squares, which cancel out. The
deviation is kept instead of the sum of its squares, so that values of 1e300 don't overflow.

Values are counted in buckets whose bounds grow by 1 %, as in DDSketch (Masson, Rim and Lee, "DDSketch: A Fast and
Fully-Mergeable Quantile Sketch with Relative-Error Guarantees", VLDB 2019): a percentile is in the bucket of the value
that it stands for, hence within 1 % of it. If there are too many buckets, all of them are merged in pairs (Epicoco et
al., "UDDSketch: Accurate Tracking of Quantiles in Data Streams", IEEE Access 2020), so that precision is lost evenly,
and sketches of different precision can still be merged. A sketch depends on its values alone, not on their order or on
how they were merged.
"""

from __future__ import annotations

import math
import struct
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_SHARES = {"p01": 0.01, "p10": 0.1, "p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99}

_FORM = struct.Struct("<Q4d")
SIZE = _FORM.size

GROWTH = 1.01
MAX_BUCKETS = 1024
"""Buckets of one sketch: values without gaps may span a factor of 26,000 before they are counted less precisely."""

SMALLEST, LARGEST = 1e-300, 1e300
"""Bounds of absolute values: smaller ones count as zero, larger ones are refused."""

_LOG_GROWTH = math.log(GROWTH)
_FORMAT = 1


class Summary:
    """Summary of values. Merging two gives the same result as adding all values to one."""

    __slots__ = ("moments", "sketch")

    def __init__(
        self, moments: Moments | None = None, sketch: Sketch | None = None, *, limit: int = MAX_BUCKETS
    ) -> None:
        self.moments = moments or Moments()
        self.sketch = sketch or Sketch(limit=limit)

    def add(self, values: Sequence[float]) -> None:
        """Adds finite values with absolute values of at most 1e300."""
        self.moments = self.moments.merged(Moments.of(values))
        self.sketch.add(values)

    def merge(self, other: Summary) -> None:
        self.moments = self.moments.merged(other.moments)
        self.sketch.merge(other.sketch)

    def numbers(self) -> dict[str, Any]:
        """Returns the fields of a `Distribution`; none without values."""
        moments = self.moments
        if not moments.count:
            return {}
        percentiles = {
            name: min(max(self.sketch.quantile(share), moments.minimum), moments.maximum)
            for name, share in _SHARES.items()
        }
        return {
            "count": moments.count,
            "mean": moments.mean,
            "stddev": moments.stddev,
            "minimum": moments.minimum,
            "maximum": moments.maximum,
            **percentiles,
        }

    def to_bytes(self) -> bytes:
        return self.moments.to_bytes() + self.sketch.to_bytes()

    @classmethod
    def from_bytes(cls, data: bytes, *, limit: int = MAX_BUCKETS) -> Summary:
        """Raises `ValueError` for bytes that aren't from `to_bytes`."""
        try:
            moments = Moments.from_bytes(data[:SIZE])
        except struct.error as exc:
            raise ValueError("a summary is cut off") from exc
        return cls(moments, Sketch.from_bytes(data[SIZE:], limit=limit))


@dataclass(frozen=True, slots=True)
class Moments:
    """Moments of values. `deviation` is the root of the mean squared distance from the mean (n, not n - 1)."""

    count: int = 0
    mean: float = 0.0
    deviation: float = 0.0
    minimum: float = math.inf
    maximum: float = -math.inf

    @classmethod
    def of(cls, values: Sequence[float]) -> Moments:
        """Computes the moments of fewer than 10^8 finite values of at most 1e300 either way: their sum must not overflow."""
        if not values:
            return cls()
        count = len(values)
        mean = math.fsum(values) / count
        mean = min(max(mean, min(values)), max(values))  # where rounding would leave the range
        farthest = max(abs(value - mean) for value in values)
        squares = math.fsum(((value - mean) / farthest) ** 2 for value in values) if farthest else 0.0
        return cls(count, mean, farthest * math.sqrt(squares / count), min(values), max(values))

    def merged(self, other: Moments) -> Moments:
        if not self.count or not other.count:
            return self if self.count else other
        count = self.count + other.count
        here, there = self.count / count, other.count / count
        apart = other.mean - self.mean
        deviation = math.hypot(
            math.sqrt(here) * self.deviation, math.sqrt(there) * other.deviation, math.sqrt(here * there) * apart
        )
        low, high = min(self.minimum, other.minimum), max(self.maximum, other.maximum)
        return Moments(count, self.mean + apart * there, deviation, low, high)

    @property
    def stddev(self) -> float:
        """The standard deviation of a sample (n - 1), 0 for a single value."""
        if self.count < 2 or self.minimum == self.maximum:
            return 0.0
        return self.deviation * math.sqrt(self.count / (self.count - 1))

    def to_bytes(self) -> bytes:
        return _FORM.pack(self.count, self.mean, self.deviation, self.minimum, self.maximum)

    @classmethod
    def from_bytes(cls, data: bytes) -> Moments:
        """Raises `struct.error` for bytes that aren't from `to_bytes`."""
        return cls(*_FORM.unpack(data))


class Sketch:
    """Counts of values by bucket. Bucket `i` of level 0 has the values above 1.01^(i-1) up to 1.01^i; each level joins
    two into one."""

    __slots__ = ("_limit", "level", "negative", "positive", "zeros")

    def __init__(self, *, limit: int = MAX_BUCKETS) -> None:
        self.level = 0
        self.zeros = 0
        self.positive: Counter[int] = Counter()
        self.negative: Counter[int] = Counter()
        self._limit = limit

    @property
    def count(self) -> int:
        return self.zeros + self.positive.total() + self.negative.total()

    def add(self, values: Iterable[float]) -> None:
        """Counts finite values of at most `LARGEST` either way."""
        for value in values:
            if abs(value) < SMALLEST:
                self.zeros += 1
            elif value > 0:
                self.positive[self._bucket(value)] += 1
            else:
                self.negative[self._bucket(-value)] += 1
        self._shrink()

    def _bucket(self, value: float) -> int:
        return _joined(math.ceil(math.log(value) / _LOG_GROWTH), self.level)

    def merge(self, other: Sketch) -> None:
        """Adds the counts of another sketch."""
        while self.level < other.level:
            self._join()
        steps = self.level - other.level
        self.zeros += other.zeros
        for mine, theirs in ((self.positive, other.positive), (self.negative, other.negative)):
            if steps:
                for bucket, count in theirs.items():
                    mine[_joined(bucket, steps)] += count
            else:
                mine.update(theirs)
        self._shrink()

    def _shrink(self) -> None:
        while len(self.positive) + len(self.negative) > self._limit:
            self._join()

    def _join(self) -> None:
        self.level += 1
        self.positive = _in_pairs(self.positive)
        self.negative = _in_pairs(self.negative)

    def quantile(self, share: float) -> float:
        """Returns the value that `share` (0 to 1) of the values are at or below, interpolated within its bucket. Raises
        `ValueError` for an empty sketch."""
        count = self.count
        if not count:
            raise ValueError("an empty sketch has no percentiles")
        rank = share * (count - 1)
        before = 0
        for low, high, held in self._ascending():
            if before + held > rank:
                fraction = min(1.0, (rank - before + 0.5) / held)
                return low + (high - low) * fraction
            before += held
        raise AssertionError("a rank is below the count")

    def _ascending(self) -> Iterator[tuple[float, float, int]]:
        """Yields the lower bound, upper bound and count of each bucket."""
        for bucket in sorted(self.negative, reverse=True):
            yield -self._bound(bucket), -self._bound(bucket - 1), self.negative[bucket]
        if self.zeros:
            yield 0.0, 0.0, self.zeros
        for bucket in sorted(self.positive):
            yield self._bound(bucket - 1), self._bound(bucket), self.positive[bucket]

    def _bound(self, bucket: int) -> float:
        return math.exp(max(-708.0, min(709.0, bucket * _LOG_GROWTH * 2**self.level)))

    def to_bytes(self) -> bytes:
        """Serialises the sketch: the same bytes for the same values, however they were added."""
        found = bytearray((_FORMAT, self.level))
        _write(found, self.zeros)
        for buckets in (self.positive, self.negative):
            _write(found, len(buckets))
            before = 0
            for at, bucket in enumerate(sorted(buckets)):
                _write(found, bucket - before if at else _folded(bucket))
                _write(found, buckets[bucket])
                before = bucket
        return bytes(found)

    @classmethod
    def from_bytes(cls, data: bytes, *, limit: int = MAX_BUCKETS) -> Sketch:
        """Raises `ValueError` for bytes that aren't from `to_bytes`."""
        if not data or data[0] != _FORMAT:
            raise ValueError("this is no sketch, or one of a newer version")
        sketch = cls(limit=limit)
        sketch.level = data[1]
        numbers = _numbers(data, 2)
        try:
            sketch.zeros = next(numbers)
            for buckets in (sketch.positive, sketch.negative):
                bucket = 0
                for at in range(next(numbers)):
                    step = next(numbers)
                    bucket = bucket + step if at else _unfolded(step)
                    buckets[bucket] = next(numbers)
        except StopIteration:
            raise ValueError("a sketch is cut off") from None
        return sketch


def _joined(bucket: int, levels: int) -> int:
    """Returns the bucket with this one's values so many levels higher."""
    return -((-bucket) >> levels)


def _in_pairs(buckets: Mapping[int, int]) -> Counter[int]:
    found: Counter[int] = Counter()
    for bucket, count in buckets.items():
        found[_joined(bucket, 1)] += count
    return found


def _folded(number: int) -> int:
    """Maps integers to non-negative ones (zigzag encoding): small ones stay small."""
    return 2 * number if number >= 0 else -2 * number - 1


def _unfolded(number: int) -> int:
    return number // 2 if number % 2 == 0 else -(number + 1) // 2


def _write(target: bytearray, number: int) -> None:
    """Appends a variable-length integer: seven bits a byte, the low ones first; the eighth is set if more follow."""
    while number > 127:
        target.append(number & 127 | 128)
        number >>= 7
    target.append(number)


def _numbers(data: bytes, start: int) -> Iterator[int]:
    number = shift = 0
    for byte in memoryview(data)[start:]:
        number |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            yield number
            number = shift = 0
