"""The files of an index's vectors: rows of 16-bit integers, which stand for nearly the vectors that were written."""

from __future__ import annotations

import os
import shutil
from contextlib import closing
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from opx.adapters.embedded import vector_files
from opx.adapters.embedded.vector_files import (
    StoredRows,
    VectorWriter,
    paths_of,
    quantised,
    record_of,
    row_of,
    stored_rows,
    vectors_of,
)
from opx.errors import EmbeddingError, IndexUnavailableError
from tests.unit.adapters.test_quantised_vectors import KINDS, any_rows

Floats = npt.NDArray[np.float32]

DIMENSIONS = (1, 3, 16, 385)


class TestRows:
    @settings(max_examples=60, deadline=None)
    @given(kind=st.sampled_from(KINDS), dimension=st.sampled_from(DIMENSIONS), seed=st.integers(0, 1_000))
    def test_stand_for_vectors_to_a_64000th_of_their_largest_component(
        self, kind: str, dimension: int, seed: int
    ) -> None:
        vectors = any_rows(kind, 300, dimension, seed)
        largest = np.abs(vectors).max(axis=1, keepdims=True)
        assert (np.abs(vectors_of(quantised(vectors)) - vectors) <= largest / 64_000).all()

    @settings(max_examples=60, deadline=None)
    @given(
        vectors=arrays(np.float32, (20, 5), elements=st.floats(-(2.0**100), 2.0**100, width=32, allow_subnormal=False)),
        exponent=st.integers(-20, 20),
    )
    def test_of_what_rows_stand_for_are_the_same_rows(self, vectors: Floats, exponent: int) -> None:
        vectors = np.where(np.abs(vectors) < 1e-30, np.float32(0), vectors)
        for each in (vectors, any_rows("spread", 50, 7, abs(exponent)) * np.float32(10.0**exponent)):
            rows = quantised(each)
            assert quantised(vectors_of(rows)).tobytes() == rows.tobytes()

    @settings(max_examples=60, deadline=None)
    @given(kind=st.sampled_from(KINDS), dimension=st.sampled_from(DIMENSIONS), seed=st.integers(0, 1_000))
    def test_have_the_lengths_of_their_two_parts(self, kind: str, dimension: int, seed: int) -> None:
        rows = quantised(any_rows(kind, 100, dimension, seed))
        records = rows["record"]
        high = records["codes"] * records["step"].astype(float)[:, None]
        assert records["length"] == pytest.approx(np.linalg.norm(high, axis=1), rel=1e-6)
        assert records["error"] == pytest.approx(np.linalg.norm(vectors_of(rows) - high, axis=1), rel=1e-4, abs=1e-6)

    @pytest.mark.parametrize("smallest", [1e-45, 1e-40, 1e-38])
    def test_of_numbers_next_to_nothing_are_next_to_nothing(self, smallest: float) -> None:
        assert np.abs(vectors_of(quantised(np.full((1, 4), smallest, np.float32)))).max() <= 2e-38

    def test_take_780_bytes_at_384_components(self) -> None:
        assert (row_of(384).itemsize, record_of(384).itemsize) == (780, 396)
        assert row_of(385).itemsize == 388 + 12 + 385


class AnIndexOfVectors:
    """The files, as a writer keeps them."""

    def __init__(self, folder: Path, dimension: int = 5, count: int = 3_000) -> None:
        self.base = folder / "rows"
        self.dimension = dimension
        self.vectors = any_rows("spread", count, dimension, 1)

    def write(self, start: int, stop: int) -> None:
        with closing(VectorWriter(self.base, self.dimension)) as writer:
            for at in range(start, stop, 1_000):
                writer.write(at, self.vectors[at : min(at + 1_000, stop)])
            writer.sync()

    def is_right(self, rows: StoredRows, count: int) -> bool:
        wanted = quantised(self.vectors[:count])
        slots = np.arange(0, count, 7)
        return rows.rows(0, count).tobytes() == wanted.tobytes() and bool(
            (rows.vectors(slots) == vectors_of(wanted[slots])).all()
        )


class TestFiles:
    @pytest.mark.parametrize("dimension", DIMENSIONS)
    @pytest.mark.parametrize("mapped", [0, 2**20])
    def test_have_the_rows_that_were_written(
        self, tmp_path: Path, dimension: int, mapped: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(vector_files, "_MOST_MAPPED", mapped)
        index = AnIndexOfVectors(tmp_path, dimension)
        index.write(0, 2_500)
        assert index.is_right(stored_rows(index.base, dimension, 2_500), 2_500)
        assert stored_rows(index.base, dimension, 2_500).vectors(np.empty(0, np.intp)).shape == (0, dimension)

    def test_rows_of_an_unfinished_batch_are_written_over(self, tmp_path: Path) -> None:
        index = AnIndexOfVectors(tmp_path)
        index.write(0, 2_000)
        index.vectors[1_500:] = any_rows("spread", 1_500, 5, 9)
        index.write(1_500, 2_500)
        assert index.is_right(stored_rows(index.base, 5, 2_500), 2_500)

    def test_map_is_used_on_while_rows_are_added(self, tmp_path: Path) -> None:
        index = AnIndexOfVectors(tmp_path)
        index.write(0, 2_000)
        before = stored_rows(index.base, 5, 2_000)
        index.write(2_000, 2_100)
        after = stored_rows(index.base, 5, 2_100, before)
        assert after is before
        assert index.is_right(after, 2_100)
        index.write(2_100, 3_000)
        assert stored_rows(index.base, 5, 3_000, before) is not before

    def test_map_that_a_writer_has_lengthened_by_half_is_not_used_on(self, tmp_path: Path) -> None:
        index = AnIndexOfVectors(tmp_path)
        index.write(0, 2_000)
        os.truncate(paths_of(index.base)[0], 5_000 * record_of(5).itemsize)
        before = stored_rows(index.base, 5, 2_000)
        index.write(2_000, 3_000)
        assert index.is_right(stored_rows(index.base, 5, 3_000, before), 3_000)

    def test_files_of_the_same_name_are_not_taken_for_those_before(self, tmp_path: Path) -> None:
        (tmp_path / "other").mkdir()
        index, other = AnIndexOfVectors(tmp_path), AnIndexOfVectors(tmp_path / "other")
        other.vectors = any_rows("spread", 3_000, 5, 2)
        for each in (index, other):
            each.write(0, 2_000)
        before = stored_rows(index.base, 5, 2_000)
        shutil.move(paths_of(other.base)[1], paths_of(index.base)[1])
        shutil.move(paths_of(other.base)[0], paths_of(index.base)[0])
        assert other.is_right(stored_rows(index.base, 5, 2_000, before), 2_000)
        assert index.is_right(before, 2_000)

    def test_no_more_is_added_than_16384_rows(self, tmp_path: Path) -> None:
        index = AnIndexOfVectors(tmp_path, 1, 200_000)
        with closing(VectorWriter(index.base, 1)) as writer:
            writer.write(0, index.vectors)
        assert [path.stat().st_size for path in paths_of(index.base)] == [216_384 * 16, 216_384]

    @pytest.mark.parametrize("ending", [0, 1])
    def test_missing_rows_are_an_error(self, tmp_path: Path, ending: int) -> None:
        index = AnIndexOfVectors(tmp_path)
        index.write(0, 2_000)
        path = paths_of(index.base)[ending]
        os.truncate(path, path.stat().st_size // 2)
        with pytest.raises(IndexUnavailableError, match=rf"{path.name} has 1,\d+ of 2,000 vectors"):
            stored_rows(index.base, 5, 2_000)
        with pytest.raises(IndexUnavailableError, match=rf"{path.name} has 1,\d+ of 2,000 vectors"):
            index.write(2_000, 2_001)

    def test_file_that_is_cut_short_while_it_is_read_is_an_error(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(vector_files, "_MOST_MAPPED", 0)
        index = AnIndexOfVectors(tmp_path)
        index.write(0, 2_000)
        rows = stored_rows(index.base, 5, 2_000)
        os.truncate(paths_of(index.base)[1], 1_000)
        with pytest.raises(OSError, match=r"rows\.lo has been cut short"):
            rows.vectors(np.array([10, 1_900]))

    def test_vectors_without_a_direction_and_of_another_dimension_are_refused(self, tmp_path: Path) -> None:
        with closing(VectorWriter(tmp_path / "rows", 3)) as writer:
            for wrong in ([0.0, 0.0, 0.0], [1.0, float("nan"), 0.0], [float("inf"), 1.0, 0.0]):
                with pytest.raises(EmbeddingError, match="all zeros, or have no finite numbers"):
                    writer.write(0, [[1.0, 0.0, 0.0], wrong])
            with pytest.raises(ValueError, match="dimension"):
                writer.write(0, [[1.0, 0.0]])
        assert paths_of(tmp_path / "rows")[0].stat().st_size == 0
