"""The nearest rows by their high bytes: the same as by scoring every row, under every kind of filter."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opx.adapters.embedded import vectors
from opx.adapters.embedded.vector_files import quantised, vectors_of
from opx.adapters.embedded.vectors import NearestRows, best_of_each

Floats = npt.NDArray[np.float32]

KINDS = ("spread", "near one another", "along axes", "with copies", "in clusters", "not of length one")


def any_rows(kind: str, count: int, dimension: int, seed: int) -> Floats:
    """Rows of unit length, except for the last kind."""
    random = np.random.default_rng(seed)
    rows = random.standard_normal((count, dimension))
    if kind == "near one another":
        rows = random.standard_normal(dimension) + rows * 1e-3
    elif kind == "along axes":
        rows = np.eye(dimension)[random.integers(0, dimension, count)] + rows * 1e-2
    elif kind == "with copies":
        rows = rows[random.integers(0, 1 + count // 50, count)]
    elif kind == "in clusters":
        rows = random.standard_normal((10, dimension))[random.integers(0, 10, count)] + rows * 0.1
    if kind != "not of length one":
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows.astype(np.float32)


class Stored:
    """Rows in memory."""

    def __init__(self, rows: Floats) -> None:
        self._rows = quantised(rows)
        self.records: npt.NDArray[np.void] = self._rows["record"].copy()

    def vectors(self, slots: npt.NDArray[np.intp]) -> Floats:
        return vectors_of(self._rows[slots])


class Filtered:
    """Entries with one row or several, of which those of some segments pass a filter."""

    def __init__(self, rows: Floats, share: float, segment: int, each: int, seed: int) -> None:
        random = np.random.default_rng(seed)
        stored = Stored(rows)
        self.rows = stored.vectors(np.arange(len(rows)))
        self.quantised = NearestRows(stored)
        self.entry_of = np.repeat(np.arange(len(rows)), random.integers(1, each + 1, len(rows)))[: len(rows)]
        bounds = np.flatnonzero(np.diff(self.entry_of // segment, prepend=-1, append=-1))
        passing = random.random(len(bounds) - 1) < share
        self.starts, self.ends = bounds[:-1][passing], bounds[1:][passing]
        self.passes = np.repeat(passing, np.diff(bounds))

    def holders(self, slots: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
        assert (np.diff(slots) > 0).all()
        return self.entry_of[slots]

    def scored(self, query: Floats) -> dict[int, float]:
        """The exact product of every entry that passes."""
        slots = np.flatnonzero(self.passes)
        entries, scores = best_of_each(self.entry_of[slots], self.rows[slots] @ query)
        return dict(zip(entries.tolist(), scores.tolist(), strict=True))

    def nearest(self, query: Floats, wanted: int) -> dict[int, float]:
        found = self.quantised.nearest((self.starts, self.ends), query, wanted, self.holders)
        entries, scores = best_of_each(self.entry_of[found[0]], found[1])
        return dict(zip(entries.tolist(), scores.tolist(), strict=True))


class TestNearest:
    @pytest.fixture(autouse=True, scope="class")
    @staticmethod
    def few_are_not_scored_at_once() -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(vectors, "_FEW_ROWS", 0)
            yield

    @settings(max_examples=80, deadline=None)
    @given(
        kind=st.sampled_from(KINDS),
        count=st.sampled_from([1, 40, 3_000, 12_000]),
        dimension=st.sampled_from([3, 16, 130]),
        share=st.sampled_from([0.0, 0.003, 0.05, 0.3, 0.9, 1.0]),
        segment=st.sampled_from([1, 8, 500]),
        each=st.sampled_from([1, 3, 7]),
        wanted=st.sampled_from([1, 10, 100]),
        seed=st.integers(0, 1_000),
    )
    def test_contains_all_that_scoring_every_row_finds(
        self, kind: str, count: int, dimension: int, share: float, segment: int, each: int, wanted: int, seed: int
    ) -> None:
        rows = any_rows(kind, count, dimension, seed)
        filtered = Filtered(rows, share, segment, each, seed)
        near = any_rows("spread", 1, dimension, seed + 1)[0]
        for query in (near, rows[0], rows[-1]):
            scores = filtered.scored(query)
            found = filtered.nearest(query, wanted)
            assert found.keys() <= scores.keys()
            last = sorted(scores.values(), reverse=True)[min(wanted, len(scores)) - 1] if scores else 0.0
            expected = {entry: score for entry, score in scores.items() if score > last - 1e-6 * abs(last)}
            assert {entry: found.get(entry) for entry in expected} == pytest.approx(expected, abs=5e-6, rel=5e-6)

    @pytest.mark.parametrize("shares", [(0.9, 0.2), (1.0, 0.9), (0.6, 1.0), (0.2, 0.9)])
    @pytest.mark.parametrize("kind", KINDS)
    def test_the_same_question_with_another_filter_finds_what_it_finds_alone(
        self, kind: str, shares: tuple[float, float]
    ) -> None:
        rows = any_rows(kind, 12_000, 16, 1)
        filters = [Filtered(rows, share, 8, 3, seed) for seed, share in enumerate(shares)]
        filters[1].quantised = filters[0].quantised
        filters[0].starts, filters[0].ends = filters[0].starts[:-20], filters[0].ends[:-20]
        alone = Filtered(rows, shares[1], 8, 3, 1)
        for query in (rows[5], rows[7_000]):
            filters[0].nearest(query, 50)
            found, expected = filters[1].nearest(query, 50), alone.scored(query)
            best = sorted(expected.values(), reverse=True)[49]
            assert found.keys() <= expected.keys()
            assert {entry for entry, score in expected.items() if score > best + 1e-6} <= found.keys()

    def test_scores_a_small_share_exactly(self) -> None:
        filtered = Filtered(any_rows("spread", 60_000, 384, 1), 1.0, 8, 1, 1)
        assert 100 <= len(filtered.nearest(any_rows("spread", 1, 384, 2)[0], 100)) <= 1_000


class TestRecords:
    @settings(max_examples=60, deadline=None)
    @given(kind=st.sampled_from(KINDS), dimension=st.sampled_from([1, 3, 16, 385]), seed=st.integers(0, 1_000))
    def test_bound_the_exact_product(self, kind: str, dimension: int, seed: int) -> None:
        from opx.adapters.embedded.vectors import _Query

        stored = Stored(any_rows(kind, 500, dimension, seed))
        rows = stored.vectors(np.arange(500))
        for query in (rows[0], any_rows("along axes", 1, dimension, seed + 1)[0]):
            middles, margins = _Query(query).bounds(stored.records)
            assert (np.abs(middles - rows.astype(float) @ query.astype(float)) <= margins).all()
            assert margins.max() < 0.1 * np.linalg.norm(rows, axis=1).max() * np.linalg.norm(query)

    def test_row_of_zeros_has_a_record(self) -> None:
        record = quantised(np.zeros((1, 8), np.float32))["record"][0]
        assert (record["step"], record["length"], record["error"]) == (0, 0, 0)

    def test_few_rows_are_all_scored(self) -> None:
        rows = any_rows("spread", 1_000, 16, 1)
        found = Filtered(rows, 0.5, 8, 3, 1)
        assert found.nearest(rows[0], 1).keys() == found.scored(rows[0]).keys()
