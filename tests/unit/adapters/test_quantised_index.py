"""An embedded index by the vectors that it stores: it follows every batch."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from opx.adapters.embedded import index_writer, vectors
from opx.adapters.embedded.home_files import IndexFiles
from opx.adapters.embedded.search_index import EmbeddedIndex
from opx.adapters.embedded.segments import IndexDatabase
from opx.adapters.embedded.vector_files import quantised, vectors_of
from opx.errors import EmbeddingError, InvalidInputError
from opx.ports import SearchRequest
from opx_testing.entries import EVERYONE, VECTOR_DIMENSION, a_change, a_removal, an_entry, any_vector
from tests.support.embedded_index_writer import DOCUMENTS, changes, entries_of, open_index, parts_of

ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def by_records(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vectors, "_FEW_ROWS", 0)


@pytest.fixture
def index(tmp_path: Path) -> Iterator[EmbeddedIndex]:
    with closing(open_index(tmp_path)) as index:
        yield index


def near(index: EmbeddedIndex, number: int = 1) -> dict[str, float]:
    """The entries nearest to a question, by id."""
    return dict(index.search(SearchRequest(EVERYONE, vector=any_vector(f"q {number}"), depth=200)).vector.hits)


def scanned(version: int, number: int = 1) -> dict[str, float]:
    """The same, of documents of that version, by a plain scan of what is stored."""
    entries = [entry for document in range(DOCUMENTS) for entry in entries_of("w", document, version)]
    query, found = np.array(any_vector(f"q {number}")), {}
    for entry in entries:
        rows = quantised(np.array(entry.vectors, np.float32))
        found[entry.indexed.entry_id] = float((vectors_of(rows) @ query).max())
    return found


def assert_right(index: EmbeddedIndex, version: int) -> None:
    for number in range(4):
        assert near(index, number) == pytest.approx(scanned(version, number), abs=2e-6)


def files(folder: Path) -> list[str]:
    """Those of vectors."""
    return sorted(path.name for path in folder.iterdir() if path.name.startswith("rows"))


class TestFollowing:
    def test_every_batch(self, index: EmbeddedIndex) -> None:
        for version in range(5):
            index.apply(changes(index, "w", version))
            assert_right(index, version)

    def test_compaction_writes_other_files_and_removes_the_old_ones(
        self, index: EmbeddedIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(index_writer, "_DEAD_ROWS_KEPT", 5)
        found = set()
        for version in range(12):
            index.apply(changes(index, "w", 1 + version * 5))
            assert_right(index, 1 + version * 5)
            names = files(tmp_path)
            assert {Path(name).stem for name in names if name.endswith(".i8")} == {Path(name).stem for name in names}
            assert len(names) in (2, 4)
            found.update(names)
        assert len(found) > 4

    def test_rows_that_are_copied_stay_the_same(
        self, index: EmbeddedIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """By compaction, and by a removal of other entries of their segment."""
        monkeypatch.setattr(index_writer, "_DEAD_ROWS_KEPT", -1)
        entries = [an_entry(f"common {n}", index=n, document_id="d", vectors=[any_vector(f"{n}")]) for n in range(9)]
        index.apply([a_change(*entries)])
        for number, entry in enumerate(entries[:8]):
            index.apply([a_removal(entry, [entry.indexed.entry_id])])
            with index._snapshot() as view, closing(IndexDatabase(tmp_path / "index.db")) as database:
                (row,) = database.segments()
                stored = view.rows.rows(row.first_slot, row.first_slot + row.slots)
            kept = np.array([each.vectors[0] for each in entries[number + 1 :]], np.float32)
            assert stored.tobytes() == quantised(kept).tobytes()


class TestKilledWriter:
    def test_rows_are_right_after_every_kill(self, tmp_path: Path) -> None:
        chance = random.Random(3)
        index = open_index(tmp_path)
        index.apply(changes(index, "w", 0))
        for round_number in range(6):
            kill_a_writer(tmp_path, 1 + round_number * 1000, chance.uniform(0.02, 0.15))
            other = open_index(tmp_path)
            response = other.search(SearchRequest(EVERYONE, vector=any_vector("q 1"), depth=200))
            version = int(next(iter(response.chunks.values())).chunk.content.split()[2])
            assert len(response.chunks) == DOCUMENTS * parts_of(version)
            assert_right(other, version)
            other.apply(changes(other, "w", version + 1))
            assert_right(other, version + 1)
            assert_right(index, version + 1)
            other.close()
        index.close()
        assert list(IndexFiles(tmp_path.parent, tmp_path).damaged()) == []


def kill_a_writer(folder: Path, start: int, seconds: float) -> None:
    """Kills a program that replaces the documents over and over, some time after its first batch."""
    arguments = [sys.executable, "-m", "tests.support.embedded_index_writer", str(folder), "w", str(start), str(10**6)]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True, cwd=ROOT) as writer:
        assert writer.stdout is not None
        for _ in range(2):
            writer.stdout.readline()
        time.sleep(seconds)
        writer.send_signal(signal.SIGKILL)


class TestUselessVectors:
    @pytest.mark.parametrize("value", [0.0, float("nan"), float("inf")])
    def test_are_refused_and_change_nothing(self, index: EmbeddedIndex, value: float) -> None:
        index.apply(changes(index, "w", 1))
        wrong = an_entry("common wrong", source="x.md", vectors=[any_vector("x"), [value] * VECTOR_DIMENSION])
        with pytest.raises(EmbeddingError, match="all zeros, or have no finite numbers"):
            index.apply([a_change(an_entry("common", source="y.md")), a_change(wrong)])
        assert near(index) == pytest.approx(scanned(1), abs=2e-6)

    def test_question_with_one_is_refused(self, index: EmbeddedIndex) -> None:
        index.apply(changes(index, "w", 1))
        with pytest.raises(InvalidInputError, match="not finite"):
            index.search(SearchRequest(EVERYONE, vector=[float("nan")] * VECTOR_DIMENSION))
