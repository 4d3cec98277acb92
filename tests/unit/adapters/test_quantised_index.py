"""An embedded index by the vectors that it stores: it follows every batch, and converts those of an earlier release."""

from __future__ import annotations

import hashlib
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from opx.adapters.embedded import earlier_vectors, index_writer, vectors
from opx.adapters.embedded.home_files import IndexFiles
from opx.adapters.embedded.search_index import FORMATS, EmbeddedIndex
from opx.adapters.embedded.segments import IndexDatabase
from opx.adapters.embedded.vector_files import VectorWriter, quantised, vectors_of
from opx.errors import EmbeddingError, IndexUnavailableError, InvalidInputError
from opx.ports import SearchRequest
from opx.ports.files import StoreFile
from tests.support.builders import EVERYONE, VECTOR_DIMENSION, a_change, a_removal, an_entry, any_vector
from tests.support.earlier_index import as_of_format_4, as_of_format_5
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
    """Those of vectors, of this release or an earlier one."""
    return sorted(path.name for path in folder.iterdir() if path.name.startswith(("rows", "vectors")))


def meta(folder: Path, name: str) -> str:
    with closing(IndexDatabase(folder / "index.db")) as database:
        return database.meta(name)


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


class TestIndexOfAnEarlierRelease:
    @pytest.fixture(params=[as_of_format_4, as_of_format_5])
    def folder(self, tmp_path: Path, request: pytest.FixtureRequest) -> Path:
        with closing(open_index(tmp_path)) as index:
            index.apply(changes(index, "w", 1))
            index.apply(changes(index, "w", 3))  # so that there are dead rows
        request.param(tmp_path)
        assert files(tmp_path) == ["vectors.f32"]
        return tmp_path

    def test_is_converted_when_it_is_opened(self, folder: Path) -> None:
        (folder / "vectors.i8").write_bytes(b"copy in integers")
        with closing(open_index(folder)) as index:
            assert files(folder) == ["rows.i8", "rows.lo"]
            assert meta(folder, "identity").endswith(f"/format-{FORMATS[0]}")
            assert_right(index, 3)
            index.apply(changes(index, "w", 4))
            assert_right(index, 4)
        assert list(IndexFiles(folder.parent, folder).damaged()) == []

    def test_is_converted_once_by_processes_that_open_it_at_once(self, folder: Path) -> None:
        with ThreadPoolExecutor(6) as pool:
            for index in pool.map(open_index, [folder] * 6):
                with closing(index):
                    assert_right(index, 3)

    @pytest.mark.parametrize("moment", range(6))
    def test_crash_leaves_it_as_it_was_or_converted(
        self, folder: Path, moment: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A crash before the rows, after some, before and after they are on the disk, before the commit and after it."""

        class Crash(BaseException):
            pass

        def crash(*_: object) -> object:
            raise Crash

        def after(function: Callable[..., object]) -> Callable[..., object]:
            return lambda *arguments: (function(*arguments), crash())

        with monkeypatch.context() as patch:
            match moment:
                case 0:
                    patch.setattr(VectorWriter, "put", crash)
                case 1:
                    patch.setattr(VectorWriter, "put", after(VectorWriter.put))
                case 2:
                    patch.setattr(VectorWriter, "sync", crash)
                case 3:
                    patch.setattr(VectorWriter, "sync", after(VectorWriter.sync))
                case 4:
                    patch.setattr(earlier_vectors, "_renew_checksums", crash)
                case 5:
                    patch.setattr(Path, "unlink", lambda path, **_: crash() if path.suffix == ".f32" else None)
            with pytest.raises(Crash):
                open_index(folder)
        assert "vectors.f32" in files(folder)
        assert meta(folder, "rows") == ("rows" if moment == 5 else "")
        with closing(open_index(folder)) as index:
            assert_right(index, 3)
            index.apply(changes(index, "w", 4))
            assert_right(index, 4)
        assert files(folder) == ["rows.i8", "rows.lo"]
        assert list(IndexFiles(folder.parent, folder).damaged()) == []

    def test_rows_are_on_the_disk_before_they_count_and_then_the_old_ones_go(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        seen: list[tuple[str, bool, bool]] = []
        sync, unlink = VectorWriter.sync, Path.unlink

        def state(name: str) -> None:
            seen.append((name, bool(meta(folder, "rows")), (folder / "vectors.f32").exists()))

        def synced(writer: VectorWriter) -> None:
            sync(writer)
            state("synced")

        def removed(path: Path, missing_ok: bool = False) -> None:
            if path.suffix == ".f32":
                state("removed")
            unlink(path, missing_ok=missing_ok)

        monkeypatch.setattr(VectorWriter, "sync", synced)
        monkeypatch.setattr(Path, "unlink", removed)
        open_index(folder).close()
        assert seen == [("synced", False, True), ("removed", True, True)]

    def test_altered_vectors_remain_known_as_altered(self, folder: Path) -> None:
        data = bytearray((folder / "vectors.f32").read_bytes())
        with closing(IndexDatabase(folder / "index.db")) as database:
            row = database.segments()[0]
        data[row.first_slot * 4 * VECTOR_DIMENSION : row.first_slot * 4 * VECTOR_DIMENSION + 4] = b"\xff\xff\xff\x7f"
        (folder / "vectors.f32").write_bytes(data)
        open_index(folder).close()
        (found,) = IndexFiles(folder.parent, folder).damaged()
        assert (found.kind, found.problem) == (StoreFile.ENTRIES, "its vectors were altered")

    @pytest.mark.parametrize("damage", [lambda path: path.unlink(), lambda path: os.truncate(path, 40)])
    def test_lost_vectors_are_an_error_and_found_by_a_check(self, folder: Path, damage: Callable[[Path], None]) -> None:
        assert list(IndexFiles(folder.parent, folder).damaged()) == []
        damage(folder / "vectors.f32")
        with pytest.raises(IndexUnavailableError, match=r"vectors\.f32 has \d of \d+ vectors. `opx repair`"):
            open_index(folder)
        (found,) = IndexFiles(folder.parent, folder).damaged()
        assert found.kind is StoreFile.INDEX
        assert meta(folder, "rows") == ""

    def test_home_that_cannot_be_written_to_is_an_error_with_its_reason(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refused(*_: object) -> None:
            raise OSError(30, "Read-only file system")

        monkeypatch.setattr(VectorWriter, "put", refused)
        with pytest.raises(IndexUnavailableError, match=r"earlier release, and can't be converted: .*Read-only"):
            open_index(folder)
        monkeypatch.undo()
        with closing(open_index(folder)) as index:
            assert_right(index, 3)

    def test_program_of_an_earlier_release_that_has_it_open_finds_no_vectors(self, folder: Path) -> None:
        """It opens the file that the index names, and refuses to work with fewer rows than there are."""
        open_index(folder).close()
        assert meta(folder, "vectors")
        assert not (folder / meta(folder, "vectors")).exists()

    def test_empty_index_has_nothing_to_convert(self, tmp_path: Path) -> None:
        with closing(open_index(tmp_path)):
            pass
        with closing(sqlite3.connect(tmp_path / "index.db")) as database, database:
            database.execute("UPDATE meta SET value = replace(value, 'format-6', 'format-5') WHERE name = 'identity'")
        with closing(open_index(tmp_path)) as index:
            index.apply(changes(index, "w", 1))
            assert_right(index, 1)
        assert meta(tmp_path, "identity").endswith(f"/format-{FORMATS[0]}")

    def test_checksums_are_those_of_the_new_rows(self, folder: Path) -> None:
        open_index(folder).close()
        with closing(IndexDatabase(folder / "index.db")) as database:
            checksums = database.checksums()
            entries = [entry for document in range(DOCUMENTS) for entry in entries_of("w", document, 3)]
        written = {
            hashlib.sha256(quantised(np.array(vectors, np.float32)).tobytes()).hexdigest()
            for document in range(DOCUMENTS)
            if (vectors := [each for entry in entries_of("w", document, 3) for each in entry.vectors])
        }
        assert len(entries) == DOCUMENTS * parts_of(3)
        assert {each.vectors for each in checksums.values()} == written


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

    def test_index_is_whole_after_every_kill_of_a_conversion(self, tmp_path: Path) -> None:
        entries = [
            an_entry(f"common {n}", index=n, vectors=[any_vector(f"{n}/{at}") for at in range(20)]) for n in range(200)
        ]
        with closing(open_index(tmp_path)) as index:
            index.apply([a_change(*entries)])
            before = near(index)
        as_of_format_5(tmp_path)
        old = (tmp_path / "vectors.f32").read_bytes()
        for number in range(12):
            kill_a_conversion(tmp_path, 0.002 * number)
            if not meta(tmp_path, "rows"):
                assert (tmp_path / "vectors.f32").read_bytes() == old
        with closing(open_index(tmp_path)) as index:
            assert near(index) == before
            index.apply([])
        assert files(tmp_path) == ["rows.i8", "rows.lo"]
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


def kill_a_conversion(folder: Path, seconds: float) -> None:
    """Kills a program that opens an index of an earlier release, some time after it began to convert it in small parts."""
    program = (
        "import sys; from pathlib import Path; from opx.adapters.embedded import earlier_vectors\n"
        "from tests.support.embedded_index_writer import open_index; earlier_vectors._BLOCK = 16\n"
        "print('ready', flush=True); open_index(Path(sys.argv[1])); print('done')"
    )
    with subprocess.Popen([sys.executable, "-c", program, str(folder)], stdout=subprocess.PIPE, cwd=ROOT) as opener:
        assert opener.stdout is not None
        opener.stdout.readline()
        time.sleep(seconds)
        opener.send_signal(signal.SIGKILL)


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
