"""Documents that are put together, files that are derived from those of a batch, and a disk that can't keep them."""

from __future__ import annotations

import errno
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from opx.adapters.embedded import object_store
from opx.adapters.embedded.database import Database
from opx.adapters.embedded.durable_files import sync_all
from opx.domain.scopes import Scope
from opx.errors import UnwritableStoreError
from opx.ingestion.files import FileToIngest, plan_files
from opx.ingestion.manager import IngestionManager
from opx.ports import SearchFilter
from opx.settings import Settings
from opx.system import bootstrap
from tests.support.cli_support import WordEmbedder


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
