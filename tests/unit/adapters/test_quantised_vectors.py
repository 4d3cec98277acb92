"""The nearest rows by the quantised copy of a vector file: the same as by scoring every row, under every kind of filter."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opx.adapters.embedded.vectors import (
    QUANTISED_FROM,
    QuantisedRows,
    RecordWriter,
    best_of_each,
    quantised,
    quantised_rows,
    records_path,
)

Rows = npt.NDArray[np.float32]

KINDS = ("spread", "near one another", "along axes", "with copies", "in clusters", "not of length one")


def any_rows(kind: str, count: int, dimension: int, seed: int) -> Rows:
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


class Filtered:
    """Entries with one row or several, of which those of some segments pass a filter."""

    def __init__(self, rows: Rows, share: float, segment: int, each: int, seed: int) -> None:
        random = np.random.default_rng(seed)
        self.rows = rows
        self.quantised = QuantisedRows(quantised(rows), lambda slots: rows[slots])
        self.entry_of = np.repeat(np.arange(len(rows)), random.integers(1, each + 1, len(rows)))[: len(rows)]
        bounds = np.flatnonzero(np.diff(self.entry_of // segment, prepend=-1, append=-1))
        passing = random.random(len(bounds) - 1) < share
        self.starts, self.ends = bounds[:-1][passing], bounds[1:][passing]
        self.passes = np.repeat(passing, np.diff(bounds))

    def holders(self, slots: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
        assert (np.diff(slots) > 0).all()
        return self.entry_of[slots]

    def scored(self, query: Rows) -> dict[int, float]:
        """The exact product of every entry that passes."""
        slots = np.flatnonzero(self.passes)
        entries, scores = best_of_each(self.entry_of[slots], self.rows[slots] @ query)
        return dict(zip(entries.tolist(), scores.tolist(), strict=True))

    def nearest(self, query: Rows, wanted: int) -> dict[int, float]:
        found = self.quantised.nearest((self.starts, self.ends), query, wanted, self.holders)
        entries, scores = best_of_each(self.entry_of[found[0]], found[1])
        return dict(zip(entries.tolist(), scores.tolist(), strict=True))


class TestNearest:
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

        rows = any_rows(kind, 500, dimension, seed)
        for query in (rows[0], any_rows("along axes", 1, dimension, seed + 1)[0]):
            middles, margins = _Query(query).bounds(quantised(rows))
            assert (np.abs(middles - rows.astype(float) @ query.astype(float)) <= margins).all()
            assert margins.max() < 0.1 * np.linalg.norm(rows, axis=1).max() * np.linalg.norm(query)

    def test_row_of_zeros_has_a_record(self) -> None:
        record = quantised(np.zeros((1, 8), np.float32))[0]
        assert (record["step"], record["length"], record["error"]) == (0, 0, 0)


class AVectorFile:
    """A vector file with its copy, as a writer keeps them."""

    def __init__(self, folder: Path, count: int = QUANTISED_FROM + 3_000) -> None:
        self.path = folder / "vectors.f32"
        self.rows = any_rows("spread", count, 4, 1)
        self.note = ""

    def write(self, start: int, stop: int) -> None:
        self.path.write_bytes(self.rows.tobytes())
        writer = RecordWriter(self.path, 4, self.note, lambda count: self.rows[:count])
        for at in range(start, stop, 10_000):
            writer.write(at, self.rows[at : min(at + 10_000, stop)])
        writer.sync()
        self.note = writer.note
        writer.close()

    def read(self, count: int, **more: Any) -> QuantisedRows | None:
        return quantised_rows(self.path, self.note, self.rows[:count], **more)

    def nearest(self, query: Rows) -> set[int]:
        read = self.read(QUANTISED_FROM)
        assert read is not None
        runs = np.array([0]), np.array([QUANTISED_FROM])
        return set(read.nearest(runs, query, 1, lambda slots: slots)[0].tolist())

    def is_right(self, count: int) -> bool:
        read = self.read(count)
        return read is not None and bool((read.records[:count] == quantised(self.rows[:count])).all())


class TestCopy:
    @pytest.fixture
    def file(self, tmp_path: Path) -> AVectorFile:
        return AVectorFile(tmp_path)

    def test_few_rows_have_none(self, file: AVectorFile) -> None:
        file.write(0, QUANTISED_FROM - 1)
        assert (file.note, records_path(file.path).exists()) == ("", False)
        assert file.read(QUANTISED_FROM - 1) is None

    def test_covers_earlier_rows_once_there_are_many(self, file: AVectorFile) -> None:
        file.write(0, QUANTISED_FROM - 1)
        file.write(QUANTISED_FROM - 1, QUANTISED_FROM + 1)
        assert file.is_right(QUANTISED_FROM + 1)

    def test_covers_rows_of_a_writer_that_knew_nothing_of_it(self, file: AVectorFile) -> None:
        file.write(0, QUANTISED_FROM)
        file.write(QUANTISED_FROM + 2_000, QUANTISED_FROM + 3_000)
        assert file.is_right(QUANTISED_FROM + 3_000)

    def test_rows_of_an_unfinished_batch_are_written_over(self, file: AVectorFile) -> None:
        file.write(0, QUANTISED_FROM)
        note, file.rows = file.note, file.rows.copy()
        file.write(QUANTISED_FROM, QUANTISED_FROM + 2_000)
        file.note, file.rows[QUANTISED_FROM:] = note, any_rows("spread", 3_000, 4, 9)
        file.write(QUANTISED_FROM, QUANTISED_FROM + 1_000)
        assert file.is_right(QUANTISED_FROM + 1_000)

    def test_map_is_used_on_while_records_are_added(self, file: AVectorFile) -> None:
        file.write(0, QUANTISED_FROM)
        before = file.read(QUANTISED_FROM)
        assert before is not None
        file.write(QUANTISED_FROM, QUANTISED_FROM + 3_000)
        after = file.read(QUANTISED_FROM + 3_000, known=before)
        assert after is not None
        assert after.records is before.records
        assert after.latest is not before.latest
        assert (before.records[: QUANTISED_FROM + 3_000] == quantised(file.rows)).all()

    @pytest.mark.parametrize("damage", ["cut short", "missing", "of other rows"])
    def test_damaged_one_is_not_used_and_written_anew(self, file: AVectorFile, damage: str) -> None:
        file.write(0, QUANTISED_FROM)
        path = records_path(file.path)
        if damage == "missing":
            path.unlink()
        elif damage == "cut short":
            path.write_bytes(path.read_bytes()[:-700_000])
        else:
            with TemporaryDirectory() as folder:
                other = AVectorFile(Path(folder))
                other.rows = any_rows("spread", len(other.rows), 4, 2)
                other.write(0, QUANTISED_FROM)
                path.write_bytes(records_path(other.path).read_bytes())
        assert file.read(QUANTISED_FROM) is None
        file.write(QUANTISED_FROM, QUANTISED_FROM + 10)
        assert file.is_right(QUANTISED_FROM + 10)

    def test_vector_file_that_is_cut_short_while_it_is_read_is_an_error(self, file: AVectorFile) -> None:
        file.write(0, QUANTISED_FROM)
        assert 17 in file.nearest(file.rows[17])
        os.truncate(file.path, 1_000)
        with pytest.raises(OSError, match=r"vectors\.f32 has been cut short"):
            file.nearest(file.rows[-5_000])

    def test_note_of_another_vector_file_counts_for_nothing(self, file: AVectorFile) -> None:
        file.write(0, QUANTISED_FROM)
        file.note = file.note.replace("vectors", "vectors-0badc0de")
        assert file.read(QUANTISED_FROM) is None
