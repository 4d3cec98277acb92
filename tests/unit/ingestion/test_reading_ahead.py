"""Documents of a batch are prepared while others are embedded; those put together, derived files, and a full disk."""

from __future__ import annotations

import errno
import sqlite3
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from opx.adapters.embedded import object_store
from opx.adapters.embedded.database import Database
from opx.adapters.embedded.durable_files import sync_all
from opx.domain.scopes import Scope
from opx.errors import StoreUnavailableError, ThrottledError, UnwritableStoreError
from opx.formats.registry import parse
from opx.ingestion import pipeline
from opx.ingestion.files import FileToIngest, plan_files
from opx.ingestion.manager import IngestionManager
from opx.ingestion.pipeline import READ_AHEAD_FROM
from opx.operations.system import System
from opx.ports import SearchFilter, Vectors
from opx.settings import Settings
from opx.system import bootstrap
from tests.support.cli_support import WordEmbedder

MANY = 2 * READ_AHEAD_FROM
EVERYTHING = SearchFilter(scopes=(Scope().key,))


class NotedEmbedder(WordEmbedder):
    """Notes that it was called; raises an error from its so manyth call on."""

    def __init__(self, error: Exception | None = None, fails_from: int = 0) -> None:
        super().__init__()
        self.called = threading.Event()
        self._error = error
        self._calls_left = fails_from

    def embed_documents(self, texts: Sequence[str]) -> list[Vectors]:
        self.called.set()
        self._calls_left -= 1
        if self._error and self._calls_left < 0:
            raise self._error
        return super().embed_documents(texts)


@pytest.fixture(autouse=True)
def few_chunks_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "EMBED_AT_ONCE", 2)


def system_of(home: Path, embedder: WordEmbedder) -> System:
    return bootstrap(Settings(home=str(home), retry_base_seconds=0.0), embedder=embedder)


def put(system: System, count: int) -> None:
    for number in range(count):
        text = f"# Page {number}\n\nWhat to do about thing{number}.\n"
        system.manager.put_document("runbooks/procedures", text, {"source": f"page{number}.md"})


def test_first_documents_are_embedded_while_later_ones_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    embedder, in_time = NotedEmbedder(), []

    def parsed(stream: object, *, name: str, **options: object) -> object:
        if name.endswith(f"page{MANY - 1}.md"):
            in_time.append(embedder.called.wait(20))
        return parse(stream, name=name, **options)  # type: ignore[arg-type]

    monkeypatch.setattr("opx.ingestion.reading.parse", parsed)
    with system_of(tmp_path, embedder) as system:
        put(system, MANY)
        assert Counter(outcome.result for outcome in system.manager.work()) == {"ingested": MANY}
        assert system.index.count(EVERYTHING) == MANY
    assert in_time == [True]


def test_document_that_cannot_be_read_fails_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:

    def parsed(stream: object, *, name: str, **options: object) -> object:
        if name.endswith("page3.md"):
            raise ZeroDivisionError("unforeseen")
        return parse(stream, name=name, **options)  # type: ignore[arg-type]

    monkeypatch.setattr("opx.ingestion.reading.parse", parsed)
    with system_of(tmp_path, WordEmbedder()) as system:
        put(system, MANY)
        outcomes = {outcome.object_key.rpartition("/")[2]: outcome.result for outcome in system.manager.work()}
    assert outcomes.pop("page3.md") == "failed"
    assert Counter(outcomes.values()) == {"ingested": MANY - 1}


def test_failing_model_leaves_no_claim(tmp_path: Path) -> None:
    error = StoreUnavailableError("down")
    with system_of(tmp_path, NotedEmbedder(error, fails_from=2)) as system:
        put(system, MANY)
        kept = 4  # vectors of the first calls, with which documents are written when they are tried again
        results = Counter(outcome.result for outcome in system.manager.work())
        assert results == {"ingested": kept, "failed": MANY - kept}
        assert system.index.count(EVERYTHING) == kept
    with system_of(tmp_path, WordEmbedder()) as system:
        put(system, MANY)
        assert Counter(outcome.result for outcome in system.manager.work()) == {
            "ingested": MANY - kept,
            "unchanged": kept,
        }


def test_used_up_quota_writes_what_is_embedded_and_postpones_the_others(tmp_path: Path) -> None:
    embedder = NotedEmbedder(ThrottledError("the quota is used up", 3600.0), fails_from=3)
    with system_of(tmp_path, embedder) as system:
        put(system, MANY)
        worker = system.ingestion.worker
        messages = [message for _ in range(MANY) for message in system.queue.receive(limit=10)]
        outcomes = worker.process([(message.body, 1) for message in messages])
        assert Counter((outcome.result, outcome.postponed) for outcome in outcomes) == {
            ("ingested", False): 6,
            ("retry", True): MANY - 6,
        }
        assert system.index.count(EVERYTHING) == 6


def test_batch_whose_files_are_not_durable_is_repeated_before_it_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    where = SearchFilter(scopes=(Scope().key,))
    with bootstrap(Settings(home=str(tmp_path), retry_base_seconds=0.0), embedder=WordEmbedder()) as system:

        def full_at_first(paths: Sequence[Path]) -> None:
            synced.append(len(paths))
            if len(synced) == 1:
                assert system.index.count(where) == 0
                raise OSError(errno.ENOSPC, "No space left on device")
            sync_all(paths)

        monkeypatch.setattr(object_store, "sync_all", full_at_first)
        texts = [f"# Disk {number}\n\nFind the biggest directories with du.\n" for number in range(3)]
        with pytest.raises(UnwritableStoreError):
            system.manager.ingest_batch("internal", "runbooks/procedures", texts)
        assert system.ingestion.drain
        assert [outcome.result for outcome in system.ingestion.drain.run()] == ["ingested"] * 3
        assert system.index.count(where) == 3
    assert synced[0] == 6
    assert not any(synced[1:]), "what replaces an object waits for the disk by itself"


def test_commits_that_a_repeated_event_makes_again_do_not_wait_for_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commits: Counter[bool] = Counter()
    transaction = Database.transaction

    @contextmanager
    def counted(self: Database, *, immediate: bool = True, synced: bool = True) -> Iterator[sqlite3.Connection]:
        outermost = immediate and not self.connection().in_transaction
        with transaction(self, immediate=immediate, synced=synced) as connection:
            before = connection.total_changes
            yield connection
            commits[synced] += outermost and self.path.name == "opx.db" and connection.total_changes > before

    with bootstrap(Settings(home=str(tmp_path)), embedder=WordEmbedder()) as system:
        system.manager.ingest_batch("internal", "runbooks/procedures", ["# Disk\n\nFind the biggest directories.\n"])
        monkeypatch.setattr(Database, "transaction", counted)
        system.manager.ingest_batch("internal", "runbooks/procedures", ["# Load\n\nFind the busiest process.\n"])
    assert commits == {True: 3, False: 4}, "event, before and after the index; queue, claim, vectors, queue"


@pytest.fixture
def files(tmp_path: Path) -> list[FileToIngest]:
    folder = tmp_path / "files"
    folder.mkdir()
    for number in range(3):
        (folder / f"{number}.md").write_text(
            f"# Disk {number}\n\nFind the biggest directories with du.\n", encoding="utf-8"
        )
    return [one for one in plan_files([folder], folder) if isinstance(one, FileToIngest)]


def test_files_of_a_group_are_stored_and_announced_when_it_ends(tmp_path: Path, files: list[FileToIngest]) -> None:
    with bootstrap(Settings(home=str(tmp_path / "home")), embedder=WordEmbedder()) as system:
        with system.manager.grouped():
            for file in files:
                assert system.manager.put_file(file, {}) is None
            assert (list(system.store.list()), system.queue.waiting()) == ([], 0)
        assert (len(list(system.store.list())), system.queue.waiting()) == (3, 3)
        assert [outcome.result for outcome in system.manager.work()] == ["ingested"] * 3


def interrupted(manager: IngestionManager, work: Callable[[], object]) -> None:
    """Does the work in a group that is interrupted then."""

    def stopped() -> None:
        with manager.grouped():
            work()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stopped()


def test_group_that_is_interrupted_is_neither_stored_nor_announced(tmp_path: Path, files: list[FileToIngest]) -> None:
    with bootstrap(Settings(home=str(tmp_path / "home")), embedder=WordEmbedder()) as system:
        manager = system.manager
        interrupted(manager, lambda: manager.put_file(files[0], {}))
        assert (list(system.store.list()), system.queue.waiting()) == ([], 0)
        assert system.manager.put_file(files[0], {}) is None  # alone, at once
        assert (len(list(system.store.list())), system.queue.waiting()) == (1, 1)


def test_object_that_is_deleted_in_a_group_is_announced_at_once(tmp_path: Path, files: list[FileToIngest]) -> None:
    with bootstrap(Settings(home=str(tmp_path / "home")), embedder=WordEmbedder()) as system:
        system.manager.put_file(files[0], {})
        list(system.manager.work())
        (key,) = [info.key for info in system.store.list() if info.key.startswith("documents/")]
        manager = system.manager
        interrupted(manager, lambda: manager.delete_object(key))
        assert [outcome.result for outcome in system.manager.work()] == ["deleted"]
