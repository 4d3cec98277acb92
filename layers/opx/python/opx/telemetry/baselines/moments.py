"""Count, mean and standard deviation that can be added up without losing digits.

Two sets are put together as Chan, Golub and LeVeque do it ("Algorithms for Computing the Sample Variance", The American
Statistician 37, 1983): from their means and deviations, never from sums of squares, which cancel out. The deviation is
kept instead of the sum of its squares, so that values of 1e300 don't overflow.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass

_FORM = struct.Struct("<Q4d")
SIZE = _FORM.size


@dataclass(frozen=True, slots=True)
class Moments:
    """`deviation` is the root of the mean squared distance from the mean (n, not n - 1)."""

    count: int = 0
    mean: float = 0.0
    deviation: float = 0.0
    minimum: float = math.inf
    maximum: float = -math.inf

    @classmethod
    def of(cls, values: Sequence[float]) -> Moments:
        """Those of finite values of at most 1e300 either way, and fewer than 10^8 of them: their sum has to be one."""
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
        """Raises `struct.error` for what `to_bytes` didn't give."""
        return cls(*_FORM.unpack(data))
