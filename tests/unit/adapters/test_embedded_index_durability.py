"""The embedded index under kills, crashes, several processes and threads: what is seen is always whole."""

from __future__ import annotations

import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Event

import pytest

from opx.adapters.embedded import index_writer
from opx.adapters.embedded.index_writer import IndexWriter
from opx.adapters.embedded.lexical import LexicalReader, LexicalSearcher, LexicalWriter
from opx.adapters.embedded.search_index import EmbeddedIndex
from opx.adapters.embedded.segments import IndexDatabase
from opx.adapters.embedded.vector_files import paths_of
from opx.errors import EmbeddingError, IncompatibleIndexError, IndexUnavailableError
from opx.ports import DocumentChange, IndexEntry, SearchRequest, SearchResponse
from opx_testing.entries import EVERYONE, VECTOR_DIMENSION, a_change, a_removal, a_unit_vector, an_entry, any_vector
from tests.support.embedded_index_writer import DOCUMENTS, changes, entries_of, open_index, parts_of

ROUNDS = 12
ROOT = Path(__file__).parents[3]
WITH_BOTH_LEGS = SearchRequest(EVERYONE, text="common", vector=a_unit_vector(1), depth=200)


@contextmanager
def opened(folder: Path) -> Iterator[EmbeddedIndex]:
    index = open_index(folder)
    yield index
    index.close()


@pytest.fixture
def index(tmp_path: Path) -> Iterator[EmbeddedIndex]:
    with opened(tmp_path) as index:
        yield index


def a_writer(folder: Path, name: str, start: int, stop: int) -> subprocess.Popen[str]:
    program = [sys.executable, "-m", "tests.support.embedded_index_writer", str(folder), name, str(start), str(stop)]
    return subprocess.Popen(program, stdout=subprocess.PIPE, text=True, cwd=ROOT)


def lexical_documents(folder: Path) -> int:
    """The number of entries in the lexical index, live or not."""
    latest = LexicalReader(folder / "terms").latest()
    return len(latest.search(a_term(), None, 10_000, latest.rarity(EVERYONE.scopes)))


def a_term() -> dict[str, tuple[str, ...]]:
    return {"common": ("common",)}


def contents(response: SearchResponse) -> list[list[str]]:
    """The texts that each leg found, in alphabetical order."""
    legs = (response.lexical, response.vector)
    return [sorted(response.chunks[entry].chunk.content for entry, _ in leg.hits) for leg in legs]


def whole_versions(response: SearchResponse, writer: str = "w") -> list[int]:
    """The version of each document, after checking that both legs show all of it, once, and nothing else, and that the
    vectors of each entry are its own."""
    lexical, vector = contents(response)
    assert lexical == vector
    versions = []
    expected = []
    for document in range(DOCUMENTS):
        found = {int(text.split()[2]) for text in lexical if text.split()[1] == f"{writer}{document}"}
        assert len(found) == 1, f"versions {found} of document {document} are visible together"
        versions.append(found.pop())
        expected += [entry.indexed.chunk.content for entry in entries_of(writer, document, versions[-1])]
    assert lexical == sorted(expected)
    assert response.entry_count == len(expected)
    entries = [entry for n, version in enumerate(versions) for entry in entries_of(writer, n, version)]
    nearness = {entry.indexed.entry_id: max(vector[0] for vector in entry.vectors) for entry in entries}
    assert dict(response.vector.hits) == pytest.approx(nearness, abs=2e-5)
    return versions


class TestKilledWriter:
    def test_every_acknowledged_change_is_whole_and_nothing_is_half_done(self, tmp_path: Path) -> None:
        chance = random.Random(7)
        acknowledged = 0
        with opened(tmp_path) as index:
            index.apply(changes(index, "w", 0))
        for round_number in range(ROUNDS):
            start = 1 + round_number * 1000
            acknowledged = max(acknowledged, *written_before_kill(tmp_path, start, chance.uniform(0, 0.12)))
            with opened(tmp_path) as index:
                versions = whole_versions(index.search(WITH_BOTH_LEGS))
                assert len(set(versions)) == 1, "half of a batch is visible"
                assert versions[0] in (acknowledged, acknowledged + 1, start)
                assert index.count(EVERYONE) == DOCUMENTS * parts_of(versions[0])
                acknowledged = start + 999
                index.apply(changes(index, "w", acknowledged))
                assert whole_versions(index.search(WITH_BOTH_LEGS)) == [acknowledged] * DOCUMENTS
        with opened(tmp_path) as index:
            index.apply([])
            assert index.count(EVERYONE) == lexical_documents(tmp_path) == DOCUMENTS * parts_of(acknowledged)

    def test_reader_that_was_open_during_the_kill_goes_on(self, tmp_path: Path) -> None:
        with opened(tmp_path) as reader:
            reader.apply(changes(reader, "w", 0))
            written = written_before_kill(tmp_path, 1, 0.05)
            assert whole_versions(reader.search(WITH_BOTH_LEGS))[0] >= max(written)
            reader.apply(changes(reader, "w", 500))
            assert whole_versions(reader.search(WITH_BOTH_LEGS)) == [500] * DOCUMENTS


def written_before_kill(folder: Path, start: int, seconds: float) -> list[int]:
    """Runs the writer, kills it at some moment of its work, and returns the acknowledged versions."""
    with a_writer(folder, "w", start, start + 900) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
        time.sleep(seconds)
        writer.send_signal(signal.SIGKILL)
        lines = writer.stdout.readlines()
    assert writer.returncode == -signal.SIGKILL
    return [int(line) for line in lines if line.endswith("\n")] or [0]


class CrashError(BaseException):
    """Simulates a kill in this process."""


class TestCrash:
    @pytest.fixture(params=["before the terms are committed", "after the terms are committed"])
    def crashed(self, request: pytest.FixtureRequest, index: EmbeddedIndex, tmp_path: Path) -> Path:
        """A folder in which writing version 2 stopped at the worst moment."""
        index.apply(changes(index, "w", 1))
        commit = LexicalWriter.commit

        def crash(writer: LexicalWriter) -> None:
            if request.param.startswith("after"):
                commit(writer)
            raise CrashError

        batch = changes(index, "w", 2)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(LexicalWriter, "commit", crash)
            with pytest.raises(CrashError):
                index.apply(batch)
        return tmp_path

    def test_readers_see_the_state_before(self, index: EmbeddedIndex, crashed: Path) -> None:
        assert whole_versions(index.search(WITH_BOTH_LEGS)) == [1] * DOCUMENTS
        with opened(crashed) as other:
            assert whole_versions(other.search(WITH_BOTH_LEGS)) == [1] * DOCUMENTS

    def test_next_write_removes_what_the_crashed_one_left(self, index: EmbeddedIndex, crashed: Path) -> None:
        index.apply([a_change(an_entry("unrelated"))])
        assert lexical_documents(crashed) == DOCUMENTS * parts_of(1)
        assert index.search(WITH_BOTH_LEGS).term_frequencies["common"] >= DOCUMENTS * parts_of(1)

    def test_same_change_can_be_applied_again(self, index: EmbeddedIndex, crashed: Path) -> None:
        index.apply(changes(index, "w", 2))
        assert whole_versions(index.search(WITH_BOTH_LEGS)) == [2] * DOCUMENTS

    def test_failing_source_of_entries_leaves_the_state_before_and_its_error(self, index: EmbeddedIndex) -> None:
        def entries() -> Iterator[IndexEntry]:
            yield from entries_of("w", 0, 2)
            raise EmbeddingError("throttled")

        index.apply(changes(index, "w", 1))
        key = entries_of("w", 0, 2)[0].indexed.key_id
        with pytest.raises(EmbeddingError, match="throttled"):
            index.apply([DocumentChange(key, "d", entries(), index.references(key))])
        assert whole_versions(index.search(WITH_BOTH_LEGS)) == [1] * DOCUMENTS
        index.apply(changes(index, "w", 2))
        assert whole_versions(index.search(WITH_BOTH_LEGS)) == [2] * DOCUMENTS


class TestSeveralProcesses:
    def test_readers_see_only_whole_states_while_another_process_writes(self, tmp_path: Path) -> None:
        with opened(tmp_path) as reader:
            reader.apply(changes(reader, "w", 0))
            seen: list[int] = []
            with a_writer(tmp_path, "w", 1, 40) as writer:
                while writer.poll() is None:
                    versions = whole_versions(reader.search(WITH_BOTH_LEGS))
                    assert len(set(versions)) == 1
                    seen.append(versions[0])
            assert writer.returncode == 0
            assert seen == sorted(seen)
            assert len(set(seen)) > 3
            assert whole_versions(reader.search(WITH_BOTH_LEGS)) == [39] * DOCUMENTS

    def test_index_is_opened_and_searched_while_another_writes_a_batch(
        self, index: EmbeddedIndex, tmp_path: Path
    ) -> None:
        index.apply(changes(index, "w", 1))
        seen: list[list[int]] = []

        def entries() -> Iterator[IndexEntry]:
            with opened(tmp_path) as other:
                seen.append(whole_versions(other.search(WITH_BOTH_LEGS)))
            yield an_entry("unrelated")

        index.apply([DocumentChange(an_entry().indexed.key_id, "d", entries())])
        assert seen == [[1] * DOCUMENTS]

    def test_terms_and_rows_are_of_one_state_when_a_commit_falls_between_reading_them(
        self, index: EmbeddedIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        index.apply(changes(index, "w", 1))
        latest, left = LexicalReader.latest, [2]

        def commit_afterwards(reader: LexicalReader) -> LexicalSearcher:
            searcher = latest(reader)
            while left[0]:
                left[0] -= 1
                index.apply(changes(index, "w", 3 - left[0]))
            return searcher

        monkeypatch.setattr(LexicalReader, "latest", commit_afterwards)
        with opened(tmp_path) as reader:
            assert whole_versions(reader.search(WITH_BOTH_LEGS)) == [3] * DOCUMENTS

    def test_two_writers_take_turns_and_both_succeed(self, tmp_path: Path) -> None:
        stop = 6
        with a_writer(tmp_path, "a", 0, stop) as one, a_writer(tmp_path, "b", 0, stop) as other:
            assert [one.wait(60), other.wait(60)] == [0, 0]
        with opened(tmp_path) as index:
            lexical, vector = contents(index.search(WITH_BOTH_LEGS))
        expected = [entries_of(name, n, stop - 1) for name in "ab" for n in range(DOCUMENTS)]
        assert lexical == vector == sorted(entry.indexed.chunk.content for some in expected for entry in some)

    def test_writer_without_the_lock_reports_another_process(
        self, index: EmbeddedIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(index_writer, "_LOCK_SECONDS", 0.05)
        with IndexWriter(tmp_path, VECTOR_DIMENSION, ""), pytest.raises(IndexUnavailableError, match="another process"):
            index.apply([])
        index.apply(changes(index, "w", 1))


class TestThreads:
    def test_eight_threads_search_while_one_writes(self, index: EmbeddedIndex) -> None:
        index.apply(changes(index, "w", 0))
        done = Event()

        def search() -> int:
            count = 0
            while not done.is_set() or not count:
                assert len(set(whole_versions(index.search(WITH_BOTH_LEGS)))) == 1
                assert index.count(EVERYONE) > 0
                count += 1
            return count

        with ThreadPoolExecutor(8) as pool:
            searches = [pool.submit(search) for _ in range(8)]
            try:
                for version in range(1, 12):
                    index.apply(changes(index, "w", version))
            finally:
                done.set()
            assert all(one.result() for one in searches)

    def test_threads_that_write_wait_for_each_other(self, index: EmbeddedIndex) -> None:
        def write(name: str) -> None:
            for version in range(3):
                index.apply(changes(index, name, version))

        with ThreadPoolExecutor(3) as pool:
            list(pool.map(write, "abc"))
        assert index.count(EVERYONE) == 3 * DOCUMENTS * parts_of(2)


class TestCompaction:
    @pytest.fixture(autouse=True)
    def eager(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(index_writer, "_DEAD_ROWS_KEPT", 5)

    def vector_files(self, folder: Path) -> list[Path]:
        return sorted(folder.glob("rows*.i8"))

    def test_results_stay_the_same(self, index: EmbeddedIndex, tmp_path: Path) -> None:
        stays = [
            an_entry(f"common stays {n}", source=f"s{n}.md", vectors=[any_vector(f"{n}/{at}") for at in range(1 + n)])
            for n in range(3)
        ]
        gone = [an_entry(f"common gone {n}", source="gone.md", index=n, document_id="gone") for n in range(30)]
        index.apply([a_change(*gone), *(a_change(entry) for entry in stays)])
        index.apply([a_removal(gone[0], [entry.indexed.entry_id for entry in gone])])
        before = index.search(WITH_BOTH_LEGS)
        old = self.vector_files(tmp_path)
        index.apply([])
        assert len(self.vector_files(tmp_path)) == len(old) + 1
        after = index.search(WITH_BOTH_LEGS)
        assert (after.lexical, after.vector, after.chunks) == (before.lexical, before.vector, before.chunks)
        assert len(after.vector.hits) == len(stays)

    def test_entries_with_many_vectors_are_not_taken_for_dead_rows(self, index: EmbeddedIndex, tmp_path: Path) -> None:
        many = [any_vector(f"{n}") for n in range(40)]
        index.apply([a_change(an_entry("common", vectors=many))])
        index.apply([])
        assert self.vector_files(tmp_path) == [tmp_path / "rows.i8"]

    def test_files_do_not_pile_up_and_shrink(self, index: EmbeddedIndex, tmp_path: Path) -> None:
        for version in range(12):
            index.apply(changes(index, "w", 1 + version * 5))
            assert len(self.vector_files(tmp_path)) <= 2
        assert max(path.stat().st_size for path in self.vector_files(tmp_path)) < 60 * (VECTOR_DIMENSION + 12)
        assert whole_versions(index.search(WITH_BOTH_LEGS)) == [56] * DOCUMENTS

    def test_readers_with_the_old_file_open_go_on(self, tmp_path: Path) -> None:
        with opened(tmp_path) as writer, opened(tmp_path) as reader:
            for version in range(8):
                writer.apply(changes(writer, "w", version))
                assert whole_versions(reader.search(WITH_BOTH_LEGS)) == [version] * DOCUMENTS

    def test_reader_that_knows_only_the_old_name_still_finds_the_file(
        self, index: EmbeddedIndex, tmp_path: Path
    ) -> None:
        database = IndexDatabase(tmp_path / "index.db")
        for version in (4, 1):
            index.apply(changes(index, "w", version))
        with database.snapshot():
            base = tmp_path / database.meta("rows")
            index.apply(changes(index, "w", 2))
            assert all(path.exists() for path in paths_of(base))
        database.close()

    def test_file_of_a_crashed_compaction_is_removed(self, index: EmbeddedIndex, tmp_path: Path) -> None:
        index.apply(changes(index, "w", 1))
        for name in ("rows-0badc0de.i8", "rows-0badc0de.lo"):
            (tmp_path / name).write_bytes(b"half a row")
        index.apply([])
        assert sorted(path.name for path in tmp_path.glob("*.lo")) == ["rows.lo"]
        assert self.vector_files(tmp_path) == [tmp_path / "rows.i8"]

    def test_index_without_entries_is_compacted_to_nothing(self, index: EmbeddedIndex) -> None:
        entries = [an_entry(f"common {n}", index=n, document_id="d") for n in range(20)]
        index.apply([a_change(*entries)])
        index.apply([a_removal(entries[0], [entry.indexed.entry_id for entry in entries])])
        index.apply([])
        assert index.search(WITH_BOTH_LEGS).chunks == {}
        index.apply(changes(index, "w", 3))
        assert whole_versions(index.search(WITH_BOTH_LEGS)) == [3] * DOCUMENTS


class TestReplacing:
    def test_superseded_entries_are_not_shown_before_they_are_cleaned_up(
        self, index: EmbeddedIndex, tmp_path: Path
    ) -> None:
        crowd = [an_entry("common " * 9, source=f"{n}.md") for n in range(60)]
        index.apply(a_change(entry) for entry in crowd)
        one = an_entry("common once among other words", source="one.md")
        removals = [a_removal(entry, [entry.indexed.entry_id]) for entry in crowd]
        index.apply([a_change(one), *removals])
        assert lexical_documents(tmp_path) == len(crowd) + 1
        response = index.search(SearchRequest(EVERYONE, text="common", vector=crowd[0].vectors[0], depth=3))
        assert contents(response) == [[one.indexed.chunk.content]] * 2
        assert response.entry_count == 1

    def test_replacing_documents_again_and_again_does_not_make_the_index_grow(
        self, index: EmbeddedIndex, tmp_path: Path
    ) -> None:
        for version in range(6):
            index.apply(
                a_change(
                    an_entry(f"common {n} in version {version}", source=f"{n}.md"),
                    superseded=index.references(an_entry(source=f"{n}.md").indexed.key_id),
                )
                for n in range(100)
            )
            assert index.count(EVERYONE) == 100
            assert lexical_documents(tmp_path) <= 200
        index.apply([])
        assert lexical_documents(tmp_path) == 100
        lexical, vector = contents(index.search(WITH_BOTH_LEGS))
        assert lexical == vector == sorted(f"common {n} in version 5" for n in range(100))

    def test_nothing_is_kept_of_the_vectors_of_replaced_documents(self, index: EmbeddedIndex, tmp_path: Path) -> None:
        for version in (1, 2, 3):
            index.apply(changes(index, "w", version))
        with closing(sqlite3.connect(tmp_path / "index.db")) as database:
            (spread,) = database.execute("SELECT COUNT(*) FROM several_vectors").fetchone()
            (segments,) = database.execute("SELECT COUNT(*) FROM segments").fetchone()
        assert spread == segments == DOCUMENTS

    def test_part_of_a_segment_can_be_removed(self, index: EmbeddedIndex) -> None:
        entries = [an_entry(f"common {n}", index=n, document_id="d", trust=0.95, tags=("a", "b")) for n in range(7)]
        index.apply([a_change(*entries)])
        gone = [entries[n].indexed.entry_id for n in (0, 3, 6)]
        index.apply([DocumentChange(entries[0].indexed.key_id, "d", superseded=gone)])
        kept = [entries[n] for n in (1, 2, 4, 5)]
        for entry in kept:
            response = index.search(SearchRequest(EVERYONE, text="common", vector=entry.vectors[0]))
            assert response.chunks == {one.indexed.entry_id: one.indexed for one in kept}
            ((entry_id, score),) = response.vector.hits[:1]
            assert (entry_id, round(score, 4)) == (entry.indexed.entry_id, 1.0)
        assert index.count(EVERYONE) == len(kept)
        assert sorted(index.references(entries[0].indexed.key_id)) == sorted(one.indexed.entry_id for one in kept)

    def test_the_last_change_of_a_document_in_a_batch_counts(self, index: EmbeddedIndex) -> None:
        first, second = entries_of("w", 0, 1), entries_of("w", 0, 2)
        old = [entry.indexed.entry_id for entry in first]
        index.apply([a_change(*first), a_change(*second, superseded=old)])
        assert contents(index.search(WITH_BOTH_LEGS)) == [[entry.indexed.chunk.content for entry in second]] * 2


class TestOpening:
    def test_other_model_is_refused_with_what_to_do(self, index: EmbeddedIndex, tmp_path: Path) -> None:
        with pytest.raises(
            IncompatibleIndexError, match=r"test-model/8.*other-model/8.*delete that folder and run `opx rebuild`"
        ):
            EmbeddedIndex(tmp_path, model_id="other-model", dimension=VECTOR_DIMENSION)

    def test_other_dimension_is_refused(self, index: EmbeddedIndex, tmp_path: Path) -> None:
        with pytest.raises(IncompatibleIndexError):
            EmbeddedIndex(tmp_path, model_id="test-model", dimension=VECTOR_DIMENSION + 1)

    def test_same_model_finds_everything_again(self, tmp_path: Path) -> None:
        with opened(tmp_path) as index:
            index.apply(changes(index, "w", 4))
            before = index.search(WITH_BOTH_LEGS)
        with opened(tmp_path) as index:
            assert index.search(WITH_BOTH_LEGS) == before

    def test_processes_that_open_a_new_index_at_once_all_succeed(self, tmp_path: Path) -> None:
        with ThreadPoolExecutor(8) as pool:
            for index in pool.map(open_index, [tmp_path / "new"] * 8):
                index.close()


def damaged_database(folder: Path) -> None:
    for path in folder.glob("index.db*"):
        path.unlink()
    (folder / "index.db").write_bytes(b"this is no database" * 100)


def missing_terms(folder: Path) -> None:
    shutil.rmtree(folder / "terms")
    (folder / "terms").write_text("in the way")


def missing_vectors(folder: Path) -> None:
    (folder / "rows.i8").unlink()


def missing_low_bytes(folder: Path) -> None:
    (folder / "rows.lo").unlink()


def shortened(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: len(data) * 8 // 9 - 1])  # an eighth of what is needed is spare


def shortened_vectors(folder: Path) -> None:
    shortened(folder / "rows.i8")


def shortened_low_bytes(folder: Path) -> None:
    shortened(folder / "rows.lo")


LOST_VECTORS = (missing_vectors, missing_low_bytes, shortened_vectors, shortened_low_bytes)


class TestUnavailable:
    @pytest.mark.parametrize("damage", [damaged_database, missing_terms, *LOST_VECTORS])
    def test_damaged_index_is_unavailable_to_searches(self, tmp_path: Path, damage: object) -> None:
        with opened(tmp_path) as index:
            index.apply(changes(index, "w", 1))
        assert callable(damage)
        damage(tmp_path)
        with pytest.raises(IndexUnavailableError), opened(tmp_path) as index:
            index.search(WITH_BOTH_LEGS)

    @pytest.mark.parametrize("damage", LOST_VECTORS)
    def test_write_behind_lost_vectors_is_refused(self, tmp_path: Path, damage: Callable[[Path], None]) -> None:
        """The gap would be read as vectors that are near nothing."""
        with opened(tmp_path) as index:
            index.apply(changes(index, "w", 1))
        damage(tmp_path)
        with (
            pytest.raises(IndexUnavailableError, match=r"rows\.(i8|lo) has .* vectors\. `opx repair`"),
            opened(tmp_path) as index,
        ):
            index.apply(changes(index, "w", 2))

    def test_failing_write_is_unavailable_and_changes_nothing(
        self, index: EmbeddedIndex, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def full(database: IndexDatabase, *_: object) -> Iterable[object]:
            raise sqlite3.OperationalError("database or disk is full")

        index.apply(changes(index, "w", 1))
        monkeypatch.setattr(IndexDatabase, "add_entries", full)
        with pytest.raises(IndexUnavailableError, match="full"):
            index.apply(changes(index, "w", 2))
        monkeypatch.undo()
        assert whole_versions(index.search(WITH_BOTH_LEGS)) == [1] * DOCUMENTS
        index.apply(changes(index, "w", 3))
        assert whole_versions(index.search(WITH_BOTH_LEGS)) == [3] * DOCUMENTS
