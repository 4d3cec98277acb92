"""What is kept of some values: their moments and a sketch of their percentiles."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

from opx.telemetry.baselines.moments import SIZE, Moments
from opx.telemetry.baselines.sketch import MAX_BUCKETS, Sketch

_SHARES = {"p01": 0.01, "p10": 0.1, "p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99}


class Summary:
    """Values added up. Two of them can be put together, and the result is as if all values had gone into one."""

    __slots__ = ("moments", "sketch")

    def __init__(
        self, moments: Moments | None = None, sketch: Sketch | None = None, *, limit: int = MAX_BUCKETS
    ) -> None:
        self.moments = moments or Moments()
        self.sketch = sketch or Sketch(limit=limit)

    def add(self, values: Sequence[float]) -> None:
        """Add finite values, of at most 1e300 either way."""
        self.moments = self.moments.merged(Moments.of(values))
        self.sketch.add(values)

    def merge(self, other: Summary) -> None:
        self.moments = self.moments.merged(other.moments)
        self.sketch.merge(other.sketch)

    def numbers(self) -> dict[str, Any]:
        """The fields of a `Distribution`."""
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
        """Raises `ValueError` for what `to_bytes` didn't give."""
        try:
            moments = Moments.from_bytes(data[:SIZE])
        except struct.error as exc:
            raise ValueError("a summary is cut off") from exc
        return cls(moments, Sketch.from_bytes(data[SIZE:], limit=limit))
