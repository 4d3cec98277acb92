"""Provides the ports of an installation in one home folder of this machine."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opx.adapters.embedded.durable_files import held
from opx.adapters.limits import check_item, check_metadata, check_object_key
from opx.errors import BulkBusyError, ReindexBusyError, SourceBusyError, SourceRefusedError
from opx.ports.tables import AUDIT, GAPS, TableSpec

if TYPE_CHECKING:
    from opx.adapters.embedded.database import Database, SqliteSequence
    from opx.adapters.embedded.object_store import FolderObjectStore
    from opx.adapters.embedded.search_index import EmbeddedIndex
    from opx.adapters.embedded.table import SqliteQueue, SqliteTable
    from opx.ingestion.indexing.book import Edition
    from opx.ports import Clock, Embedder, Item, ObjectStore, Table
    from opx.ports.objects import ObjectHistory, ObjectIntegrity

QUEUE_NAME = "ingest"


class HomeDatabases:
    """The SQLite databases of a home folder, opened on first use. Answers are recorded in a database of their own: a
    query never waits for ingestion."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @cached_property
    def main(self) -> Database:
        from opx.adapters.embedded.database import open_database
        from opx.adapters.embedded.home_format import MAIN, check_mark, mark_format

        check_mark(self.folder)
        database = open_database(self.folder / MAIN)
        mark_format(self.folder, database)
        return database

    @cached_property
    def questions(self) -> Database:
        from opx.adapters.embedded.database import open_database

        return open_database(self.folder / "questions.db", busy_seconds=3.0)

    def close(self) -> None:
        """Closes the databases that were opened."""
        for name in ("main", "questions"):
            if name in self.__dict__:
                self.__dict__[name].close()


class HomeTables:
    """`Tables` in SQLite."""

    read_threads = 1
    settling_seconds = 0.0
    in_folder = True

    def __init__(self, databases: HomeDatabases, clock: Clock) -> None:
        self._databases = databases
        self._clock = clock

    def table(self, spec: TableSpec) -> Table:
        return self._table(spec)

    def _table(self, spec: TableSpec) -> SqliteTable:
        from opx.adapters.embedded.table import SqliteTable

        databases = self._databases
        database = databases.questions if spec in (AUDIT, GAPS) else databases.main
        return SqliteTable(spec, database, clock=self._clock)

    def every_item(self, spec: TableSpec, *, after: Item | None = None) -> Iterator[Item]:
        return self._table(spec).scan(after)

    def check_item(self, spec: TableSpec, item: Mapping[str, Any]) -> None:
        check_item(spec, item)

    def unit_of_work(self, *, synced: bool = True) -> AbstractContextManager[Any]:
        return self._databases.main.transaction(synced=synced)

    def purge_expired(self) -> int:
        from opx.lifecycle.rows import all_tables

        return sum(self._table(spec).purge_expired() for spec in all_tables() if spec.ttl)

    def scrub(self) -> None:
        """Scrubs all but the files of the words and vectors of the index, which are rewritten when enough of them is dead."""
        from opx.adapters.embedded.database import open_database

        for database in (self._databases.main, self._databases.questions):
            database.scrub()
        for index in self._databases.folder.glob("index*/index.db"):
            with closing(open_database(index)) as database:
                database.scrub()

    def close(self) -> None:
        self._databases.close()


class FolderStorage:
    """`Storage` in a folder."""

    read_threads = 1
    past = None
    signer = None

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @cached_property
    def replaceable(self) -> FolderObjectStore:
        from opx.adapters.embedded.object_store import FolderObjectStore

        return FolderObjectStore(self._folder)

    @property
    def objects(self) -> ObjectStore:
        return self.replaceable

    def together(self) -> AbstractContextManager[None]:
        return self.replaceable.together()

    def grouped(self) -> AbstractContextManager[None]:
        return self.replaceable.grouped()

    @cached_property
    def integrity(self) -> ObjectIntegrity:
        from opx.adapters.embedded.object_store import FolderObjectIntegrity

        return FolderObjectIntegrity(self._folder)

    @cached_property
    def history(self) -> ObjectHistory:
        from opx.adapters.embedded.object_store import FolderObjectHistory

        return FolderObjectHistory(self._folder)

    def location(self, key: str) -> str:
        return key

    def check(self, key: str, metadata: Mapping[str, str]) -> None:
        check_object_key(key)
        check_metadata(metadata)

    def other_bucket(self, name: str) -> ObjectStore:
        raise SourceRefusedError(
            f"bucket {name} can be read by a system on AWS alone (OPX_BACKEND=aws); copy its files here and watch the folder"
        )


class HomeWorkQueue:
    """`WorkQueue` of the processes of one machine, in SQLite and with file locks."""

    in_process = True

    def __init__(self, databases: HomeDatabases, clock: Clock) -> None:
        self._databases = databases
        self._clock = clock

    @cached_property
    def queue(self) -> SqliteQueue:
        from opx.adapters.embedded.table import SqliteQueue

        return SqliteQueue(self._databases.main, QUEUE_NAME, clock=self._clock)

    @cached_property
    def next_number(self) -> SqliteSequence:
        from opx.adapters.embedded.database import SqliteSequence

        return SqliteSequence(self._databases.main, "events")

    @contextmanager
    def exclusive(self, waits: Callable[[], None] | None = None) -> Iterator[None]:
        """Lets one process work on the queue at a time; messages received by a crashed one are released."""
        with held(self._databases.folder / "worker.lock", waits=waits):
            self.queue.release_all()
            yield

    def exclusive_pull(self, source_id: str) -> AbstractContextManager[None]:
        busy = SourceBusyError(f"source {source_id} is being pulled already, by another process")
        return self._locked(f"pull-{source_id}.lock", busy)

    def exclusive_reindex(self) -> AbstractContextManager[None]:
        return self._locked(
            "reindex.lock", ReindexBusyError("another process makes a new index here: wait for it, or end it")
        )

    def exclusive_bulk(self, job_id: str) -> AbstractContextManager[None]:
        return self._locked(
            "bulk.lock", BulkBusyError(f"another process runs the bulk job {job_id}: see `opx bulk status`")
        )

    def _locked(self, name: str, busy: Exception) -> AbstractContextManager[None]:
        return held(self._databases.folder / name, busy)

    def discard(self, unwanted: Callable[[str], bool], *, dry: bool = False) -> int | None:
        return self.queue.discard(unwanted, dry=dry)


class HomeIndexes:
    """`IndexService` of the embedded engine: one folder per edition."""

    subject = "index"
    own_name = ""
    cache_seconds = 0.0
    settling_seconds = 0.0
    counts_changes = True
    may_sleep = False
    collections: Sequence[str] = ()

    def __init__(self, home: Path) -> None:
        self._home = home

    def open(self, edition: Edition, embedder: Callable[[], Embedder]) -> EmbeddedIndex:
        if edition.model_id:
            return self._open(edition, edition.model_id, edition.dimension)
        model = embedder()
        return self._open(edition, model.model_id, model.dimension)

    def _open(self, edition: Edition, model_id: str, dimension: int) -> EmbeddedIndex:
        from opx.adapters.embedded.search_index import EmbeddedIndex

        return EmbeddedIndex(self._folder(edition), model_id=model_id, dimension=dimension)

    def _folder(self, edition: Edition) -> Path:
        return self._home / (f"index-{edition.name}" if edition.name else "index")

    def make(self, edition: Edition) -> None:
        """No-op: opening an index creates it."""

    def remove(self, edition: Edition) -> None:
        from opx.adapters.embedded.segments import index_errors

        folder = self._folder(edition)
        with index_errors(folder), suppress(FileNotFoundError):
            shutil.rmtree(folder)

    def check(self, edition: Edition) -> None:
        self._open(edition, edition.model_id, edition.dimension).close()
