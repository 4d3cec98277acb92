"""Summaries of values: exact moments, percentiles within 1 %, and the same result in any order of merging."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable, Sequence

import pytest

from opx_telemetry.baselines.summary import GROWTH, LARGEST, MAX_BUCKETS, SMALLEST, Moments, Sketch, Summary

SHARES = (0.0, 0.01, 0.1, 0.5, 0.9, 0.95, 0.99, 1.0)
SHAPES: dict[str, Callable[[random.Random], float]] = {
    "normal": lambda chance: chance.gauss(50, 10),
    "around zero": lambda chance: chance.gauss(0, 1),
    "log-normal": lambda chance: chance.lognormvariate(0, 1),
    "negative": lambda chance: -chance.lognormvariate(2, 1),
    "mostly zero": lambda chance: chance.choice((0.0, 0.0, 0.0, 1.0, -2.0, 1e-5)),
}


def values_of(shape: str, count: int = 4000) -> list[float]:
    chance = random.Random(shape)
    return [SHAPES[shape](chance) for _ in range(count)]


def sketch_of(values: Sequence[float], limit: int = MAX_BUCKETS) -> Sketch:
    sketch = Sketch(limit=limit)
    sketch.add(values)
    return sketch


class TestSketch:
    @pytest.mark.parametrize("shape", SHAPES)
    def test_percentiles_are_within_a_hundredth_of_the_value_that_they_stand_for(self, shape: str) -> None:
        values = values_of(shape)
        sketch = sketch_of(values)
        values.sort()
        for share in SHARES:
            exact = values[math.floor(share * (len(values) - 1))]
            assert abs(sketch.quantile(share) - exact) <= 0.0101 * abs(exact)

    @pytest.mark.parametrize("shape", SHAPES)
    def test_parts_put_together_are_the_same_bytes_as_the_whole(self, shape: str) -> None:
        values = values_of(shape)
        parts = [sketch_of(values[at : at + 100]) for at in range(0, len(values), 100)]
        random.Random(1).shuffle(parts)
        whole = Sketch()
        for part in parts:
            whole.merge(part)
        assert whole.to_bytes() == sketch_of(values).to_bytes()

    def test_parts_that_had_to_be_made_coarser_are_the_same_bytes_too(self) -> None:
        """Whatever was made coarser when: in the end it depends on the values alone."""
        chance = random.Random(7)
        values = [chance.choice((-1, 1)) * 10 ** chance.uniform(-300, 300) for _ in range(3000)]
        whole = sketch_of(values, limit=64)
        assert whole.level > 5
        merged = Sketch(limit=64)
        for at in range(0, 3000, 7):
            merged.merge(sketch_of(values[at : at + 7], limit=64))
        assert merged.to_bytes() == whole.to_bytes()

    def test_a_coarse_sketch_is_as_exact_as_its_buckets_are_wide(self) -> None:
        chance = random.Random(9)
        values = sorted(chance.choice((-1, 1)) * chance.lognormvariate(0, 8) for _ in range(3000))
        sketch = sketch_of(values, limit=128)
        width = GROWTH ** (2**sketch.level)
        assert sketch.level >= 3
        for share in SHARES:
            exact = values[math.floor(share * (len(values) - 1))]
            assert abs(exact) / width <= abs(sketch.quantile(share)) <= abs(exact) * width

    def test_a_coarse_sketch_is_added_to_a_fine_one(self) -> None:
        coarse = sketch_of([10.0**power for power in range(-100, 100)], limit=8)
        fine = sketch_of([5.0] * 1000)
        fine.merge(coarse)
        assert fine.level == coarse.level
        assert fine.count == 1200

    @pytest.mark.parametrize("shape", SHAPES)
    def test_sketch_is_read_back_as_it_was_written(self, shape: str) -> None:
        data = sketch_of(values_of(shape, 500)).to_bytes()
        assert Sketch.from_bytes(data).to_bytes() == data

    def test_an_empty_one_is_read_back_and_has_no_percentiles(self) -> None:
        empty = Sketch.from_bytes(Sketch().to_bytes())
        assert empty.count == 0
        with pytest.raises(ValueError, match="empty"):
            empty.quantile(0.5)

    def test_the_widest_range_that_is_taken_stays_small(self) -> None:
        chance = random.Random(3)
        values = [chance.choice((-1, 1)) * 10 ** chance.uniform(-300, 300) for _ in range(20_000)]
        values += [0.0, -0.0, LARGEST, -LARGEST, SMALLEST, -SMALLEST, 5e-324]
        sketch = sketch_of(values)
        assert sketch.count == len(values)
        assert len(sketch.to_bytes()) < 5 * MAX_BUCKETS
        assert all(math.isfinite(sketch.quantile(share)) for share in SHARES)

    @pytest.mark.parametrize("data", [b"", b"\x07\x00\x00\x00\x00", b"\x01\x00\x00\x05\x02"])
    def test_other_bytes_are_refused(self, data: bytes) -> None:
        with pytest.raises(ValueError, match="sketch"):
            Sketch.from_bytes(data)


class TestMoments:
    @pytest.mark.parametrize("shape", SHAPES)
    def test_parts_put_together_have_the_deviation_of_the_whole(self, shape: str) -> None:
        values = values_of(shape)
        merged = Moments()
        for at in range(0, len(values), 33):
            merged = merged.merged(Moments.of(values[at : at + 33]))
        assert merged.count == len(values)
        assert merged.mean == pytest.approx(statistics.fmean(values), rel=1e-9, abs=1e-12)
        assert merged.stddev == pytest.approx(statistics.stdev(values), rel=1e-12)
        assert (merged.minimum, merged.maximum) == (min(values), max(values))

    def test_a_small_deviation_beside_a_large_mean_isnt_lost(self) -> None:
        """Sums of squares would lose all digits here."""
        values = [1e9 + part for part in (4.0, 7.0, 13.0, 16.0)] * 50
        merged = Moments()
        for value in values:
            merged = merged.merged(Moments.of([value]))
        assert merged.stddev == pytest.approx(statistics.stdev(values), rel=1e-6)

    def test_the_largest_values_dont_overflow(self) -> None:
        found = Moments.of([LARGEST, -LARGEST]).merged(Moments.of([-LARGEST, LARGEST]))
        assert found.mean == 0
        assert found.deviation == pytest.approx(LARGEST)

    def test_of_one_value_or_equal_ones_the_deviation_is_zero(self) -> None:
        assert Moments.of([0.1]).stddev == 0
        assert Moments.of([0.1] * 7).merged(Moments.of([0.1] * 3)).stddev == 0


def test_a_summary_is_read_back_as_it_was() -> None:
    summary = Summary()
    summary.add(values_of("normal"))
    read = Summary.from_bytes(summary.to_bytes())
    assert read.numbers() == summary.numbers()
    with pytest.raises(ValueError, match="cut off"):
        Summary.from_bytes(summary.to_bytes()[:10])


def test_percentiles_stay_between_the_smallest_and_the_largest_value() -> None:
    summary = Summary()
    summary.add([41.0, 41.0, 41.0])
    assert {summary.numbers()[name] for name in ("p01", "p50", "p99", "minimum", "maximum", "mean")} == {41.0}
