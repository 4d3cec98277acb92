"""An embedded index with so many rows that there is a quantised copy of its vectors: it may lack, lag behind, or be lost."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from opx.adapters.embedded import index_writer, search_index, vectors
from opx.adapters.embedded.index_writer import IndexWriter
from opx.adapters.embedded.search_index import EmbeddedIndex
from opx.adapters.embedded.vectors import RecordWriter
from opx.errors import EmbeddingError, InvalidInputError
from opx.ports import SearchRequest
from tests.support.builders import EVERYONE, VECTOR_DIMENSION, a_change, an_entry, any_vector
from tests.support.embedded_index_writer import DOCUMENTS, changes, entries_of, open_index, parts_of

ROOT = Path(__file__).parents[3]
FEW, MANY = 1, 10**9
"""Numbers of rows from which there is a copy: it is there from the first row on, or never."""


@pytest.fixture(autouse=True)
def from_the_first_row_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vectors, "QUANTISED_FROM", FEW)


@pytest.fixture
def index(tmp_path: Path) -> Iterator[EmbeddedIndex]:
    index = open_index(tmp_path)
    yield index
    index.close()


def near(index: EmbeddedIndex, number: int = 1) -> dict[str, float]:
    """The entries nearest to a question, by id."""
    return dict(index.search(SearchRequest(EVERYONE, vector=any_vector(f"q {number}"), depth=200)).vector.hits)


def scanned(version: int, number: int = 1) -> dict[str, float]:
    """The same, of documents of that version, by a plain scan."""
    entries = [entry for document in range(DOCUMENTS) for entry in entries_of("w", document, version)]
    query = np.array(any_vector(f"q {number}"))
    return {entry.indexed.entry_id: max(float(np.dot(each, query)) for each in entry.vectors) for entry in entries}


def assert_right(index: EmbeddedIndex, version: int) -> None:
    """The copy is used, and nothing is missing."""
    for number in range(4):
        assert near(index, number) == pytest.approx(scanned(version, number), abs=2e-6)
    assert index._view is not None
    assert index._view.quantised is not None


def copies(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("vectors*.i8"))


class TestCopyOfAnIndex:
    def test_follows_every_batch(self, index: EmbeddedIndex) -> None:
        for version in range(5):
            index.apply(changes(index, "w", version))
            assert_right(index, version)

    def test_index_of_an_earlier_release_gets_one_when_it_is_opened(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(vectors, "QUANTISED_FROM", MANY)
        earlier = open_index(tmp_path)
        earlier.apply(changes(earlier, "w", 3))
        assert near(earlier) == pytest.approx(scanned(3), abs=2e-6)
        earlier.close()
        assert copies(tmp_path) == []
        monkeypatch.setattr(vectors, "QUANTISED_FROM", FEW)
        index = open_index(tmp_path)
        assert copies(tmp_path) == ["vectors.i8"]
        assert_right(index, 3)
        index.close()

    def test_batch_of_an_earlier_release_is_added_when_it_is_opened(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        index = open_index(tmp_path)
        index.apply(changes(index, "w", 1))
        with monkeypatch.context() as patch:
            patch.setattr(RecordWriter, "write", lambda *_: None)
            index.apply(changes(index, "w", 2))
        assert near(index) == pytest.approx(scanned(2), abs=2e-6)
        index.close()
        index = open_index(tmp_path)
        assert_right(index, 2)
        index.close()

    @pytest.mark.parametrize("damage", [lambda path: path.unlink(), lambda path: path.write_bytes(b"short")])
    def test_lost_one_is_done_without_and_written_anew(self, tmp_path: Path, damage: object) -> None:
        index = open_index(tmp_path)
        index.apply(changes(index, "w", 1))
        index.close()
        assert callable(damage)
        damage(tmp_path / "vectors.i8")
        index = open_index(tmp_path)
        assert near(index) == pytest.approx(scanned(1), abs=2e-6)
        index.apply(changes(index, "w", 2))
        assert_right(index, 2)
        index.close()

    def test_waits_for_nobody_for_long(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(vectors, "QUANTISED_FROM", MANY)
        earlier = open_index(tmp_path)
        earlier.apply(changes(earlier, "w", 3))
        monkeypatch.setattr(vectors, "QUANTISED_FROM", FEW)
        monkeypatch.setattr(search_index, "_PATIENCE", 0.01)
        with IndexWriter(tmp_path, VECTOR_DIMENSION, "kept open"):
            index = open_index(tmp_path)
        assert near(index) == pytest.approx(scanned(3), abs=2e-6)
        for each in (index, earlier):
            each.close()

    def test_compaction_writes_another_and_removes_the_old_one(
        self, index: EmbeddedIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(index_writer, "_DEAD_ROWS_KEPT", 5)
        found = set()
        for version in range(12):
            index.apply(changes(index, "w", 1 + version * 5))
            assert_right(index, 1 + version * 5)
            assert copies(tmp_path) == sorted(path.with_suffix(".i8").name for path in tmp_path.glob("vectors*.f32"))
            found.update(copies(tmp_path))
        assert len(found) > 2


class TestKilledWriter:
    def test_copy_is_right_after_every_kill(self, tmp_path: Path) -> None:
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


def kill_a_writer(folder: Path, start: int, seconds: float) -> None:
    """Kills a program that replaces the documents over and over, some time after its first batch."""
    program = (
        "import sys; from pathlib import Path; from opx.adapters.embedded import vectors; vectors.QUANTISED_FROM = 1\n"
        "from tests.support.embedded_index_writer import main; main(Path(sys.argv[1]), 'w', int(sys.argv[2]), 10**6)"
    )
    arguments = [sys.executable, "-c", program, str(folder), str(start)]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True, cwd=ROOT) as writer:
        assert writer.stdout is not None
        for _ in range(2):
            writer.stdout.readline()
        time.sleep(seconds)
        writer.send_signal(signal.SIGKILL)


class TestUselessVectors:
    @pytest.mark.parametrize("value", [0.0, float("nan"), float("inf")])
    @pytest.mark.parametrize("start", [FEW, MANY])
    def test_are_refused_and_change_nothing(
        self, index: EmbeddedIndex, value: float, start: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(vectors, "QUANTISED_FROM", start)
        index.apply(changes(index, "w", 1))
        wrong = an_entry("common wrong", source="x.md", vectors=[any_vector("x"), [value] * VECTOR_DIMENSION])
        with pytest.raises(EmbeddingError, match="all zeros, or have no finite numbers"):
            index.apply([a_change(an_entry("common", source="y.md")), a_change(wrong)])
        assert near(index) == pytest.approx(scanned(1), abs=2e-6)

    def test_question_with_one_is_refused(self, index: EmbeddedIndex) -> None:
        index.apply(changes(index, "w", 1))
        with pytest.raises(InvalidInputError, match="not finite"):
            index.search(SearchRequest(EVERYONE, vector=[float("nan")] * VECTOR_DIMENSION))
