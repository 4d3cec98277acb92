"""A system in one folder of this machine."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opx.adapters.storable import StorableChecks
from opx.domain.baselines import BASELINES_CATEGORY
from opx.domain.record import replace
from opx.errors import ReindexBusyError, SourceBusyError
from opx.lifecycle.reindex.editions import EditionedIndex
from opx.ports import Embedder, Item, ObjectStore, Queue, Table
from opx.ports.models import ChatModel
from opx.ports.sources import Secrets
from opx.services import Services
from opx.settings import secret_of_environment
from opx.tables import ALL_TABLES, AUDIT, DOCUMENTS, ENTRIES, GAPS, GRAPH, KEYS, TableSpec

if TYPE_CHECKING:
    from opx.adapters.embedded.search_index import EmbeddedIndex
    from opx.adapters.embedded.table import SqliteTable
    from opx.domain.streams import StreamDefinition
    from opx.ingestion.catalog import Catalog
    from opx.ingestion.worker import QueueDrain
    from opx.lifecycle.reindex.book import Edition
    from opx.ports.corpus_version import CorpusVersion
    from opx.ports.object_history import ObjectHistory
    from opx.ports.reading import ParsingTools
    from opx.running import Feed
    from opx.streams.taking import RecordTaker

QUEUE_NAME = "ingest"


class EmbeddedServices(StorableChecks, Services):
    """Everything in one folder of this machine."""

    @cached_property
    def _database(self) -> Any:
        from opx.adapters.embedded.database import open_database

        return open_database(self.settings.home_path / "opx.db")

    @cached_property
    def _records_database(self) -> Any:
        """What is kept of questions, apart from the rest: a question never waits for who takes documents in."""
        from opx.adapters.embedded.database import open_database

        return open_database(self.settings.home_path / "questions.db", busy_seconds=3.0)

    def table(self, spec: TableSpec) -> Table:
        return self._sqlite_table(spec)

    def _sqlite_table(self, spec: TableSpec) -> SqliteTable:
        from opx.adapters.embedded.table import SqliteTable

        database = self._records_database if spec in (AUDIT, GAPS) else self._database
        return SqliteTable(spec, database, clock=self.clock)

    def purge_expired(self) -> int:
        return sum(self._sqlite_table(spec).purge_expired() for spec in ALL_TABLES if spec.ttl)

    def object_location(self, key: str) -> str:
        from opx.adapters.embedded.object_store import path_of

        return (self.settings.home_path / "corpus").absolute().joinpath(*path_of(key)).as_uri()

    def every_item(self, spec: TableSpec) -> Iterator[Item]:
        return self._sqlite_table(spec).scan()

    @cached_property
    def store(self) -> ObjectStore:  # type: ignore[override]
        from opx.adapters.embedded.database import SqliteSequence
        from opx.adapters.embedded.object_store import FolderObjectStore
        from opx.ingestion.announcing import AnnouncingObjectStore
        from opx.tenants.guarded_store import GuardedObjectStore

        folder = GuardedObjectStore(FolderObjectStore(self.settings.home_path / "corpus"), self.clients.check)
        sequence = SqliteSequence(self._database, "events")
        return AnnouncingObjectStore(folder, self.queue, sequence, unit_of_work=self.unit_of_work)

    @cached_property
    def object_history(self) -> ObjectHistory:  # type: ignore[override]
        from opx.adapters.embedded.object_store import FolderObjectHistory

        return FolderObjectHistory(self.settings.home_path / "corpus")

    def exclusive_work(self) -> AbstractContextManager[Any]:
        return self._only_worker()

    def discard_messages(self, unwanted: Callable[[str], bool], *, dry: bool = False) -> int | None:
        return self.queue.discard(unwanted, dry=dry)  # type: ignore[attr-defined,no-any-return]

    def scrub(self) -> None:
        """All but the files of the words and vectors of the index, which are written anew when enough of them is dead."""
        from opx.adapters.embedded.database import open_database

        for database in (self._database, self._records_database):
            database.scrub()
        for index in self.settings.home_path.glob("index*/index.db"):
            with closing(open_database(index)) as database:
                database.scrub()

    @cached_property
    def queue(self) -> Queue:  # type: ignore[override]
        from opx.adapters.embedded.queue import SqliteQueue

        return SqliteQueue(self._database, QUEUE_NAME, clock=self.clock)

    @cached_property
    def embedder(self) -> Embedder:  # type: ignore[override]
        from opx.adapters.embedded.embedders import chosen_embedder

        return chosen_embedder(self.settings)

    def chat_model(self, model: str) -> ChatModel:
        from opx.adapters.openai_chat import chat_at_url

        return chat_at_url(self.settings, self.secrets, model)

    def edition_index(self, edition: Edition) -> EmbeddedIndex:
        from opx.adapters.embedded.search_index import EmbeddedIndex

        model_id, dimension = edition.model_id, edition.dimension
        if not model_id:
            embedder = self.edition_embedder(edition)
            model_id, dimension = embedder.model_id, embedder.dimension
        return EmbeddedIndex(self._index_folder(edition), model_id=model_id, dimension=dimension)

    def _index_folder(self, edition: Edition) -> Path:
        return self.settings.home_path / (f"index-{edition.name}" if edition.name else "index")

    def model_embedder(self, model: str, model_path: str, dimension: int) -> Embedder:  # noqa: ARG002
        from opx.adapters.embedded.embedders import chosen_embedder

        return chosen_embedder(replace(self.settings, embedding_model=model, model_path=model_path))

    def check_edition(self, edition: Edition) -> None:
        self.edition_index(edition).close()

    def remove_edition(self, edition: Edition) -> None:
        from opx.adapters.embedded.segments import index_errors

        folder = self._index_folder(edition)
        with index_errors(folder), suppress(FileNotFoundError):
            shutil.rmtree(folder)

    @contextmanager
    def exclusive_reindex(self) -> Iterator[None]:
        from filelock import FileLock, Timeout

        lock = FileLock(self.settings.home_path / "reindex.lock", timeout=0)
        try:
            lock.acquire()
        except Timeout as exc:
            raise ReindexBusyError("another process makes a new index here: wait for it, or end it") from exc
        try:
            yield
        finally:
            lock.release()

    @cached_property
    def catalog(self) -> Catalog:
        """Claims without a lease: `_only_worker` lets one process in, so whoever held one before is gone."""
        from opx.ingestion.catalog import Catalog

        tables = (self.table(DOCUMENTS), self.table(KEYS), self.table(ENTRIES))
        return Catalog(*tables, clock=self.clock, lease_seconds=0, calendar=self.calendar, admits=self.clients.admit)

    @cached_property
    def corpus_version(self) -> CorpusVersion | None:  # type: ignore[override]
        from opx.adapters.embedded.corpus_version import IndexGeneration

        return IndexGeneration(self.index) if isinstance(self.index, EditionedIndex) else None

    @property
    def index_identity(self) -> str:  # type: ignore[override]
        """A document is as much missing in a new graph as in a new index."""
        from opx.graph.incarnation import incarnation

        index = self.editions.identity("") if self.has_editions else ""
        return f"{index} {incarnation(self.table(GRAPH))}"

    relink_seconds = 0.0

    @cached_property
    def secrets(self) -> Secrets:  # type: ignore[override]
        from opx.adapters.embedded.secrets import FileSecrets

        return FileSecrets(self.settings.home_path / "secrets.json", secret_of_environment)

    pull_lease_seconds = -1.0  # the lock below is free as soon as its process is gone

    @contextmanager
    def exclusive_pull(self, source_id: str) -> Iterator[None]:
        from filelock import FileLock, Timeout

        lock = FileLock(self.settings.home_path / f"pull-{source_id}.lock", timeout=0)
        try:
            lock.acquire()
        except Timeout as exc:
            raise SourceBusyError(f"source {source_id} is being pulled already, by another process") from exc
        try:
            yield
        finally:
            lock.release()

    def stream_feeds(self) -> Sequence[Feed]:
        from opx.adapters.redis_streams import RedisFeeds, RedisStreamFeed

        return [
            RedisFeeds(
                self.streams.all,
                lambda stream: RedisStreamFeed(
                    stream,
                    self._taker_of(stream),
                    password=partial(self.secrets.get, stream.password_secret),
                ),
            )
        ]

    def _taker_of(self, stream: StreamDefinition) -> RecordTaker:
        from opx.streams.taking import StreamTaker

        values = stream.category == BASELINES_CATEGORY
        return self.taker_of_values(stream) if values else StreamTaker(stream, self.manager)

    def unit_of_work(self) -> AbstractContextManager[Any]:
        database: AbstractContextManager[Any] = self._database.transaction()
        return database

    @cached_property
    def parsing_tools(self) -> ParsingTools:
        from opx.adapters.reading_tools import describer_at_url, limits, tesseract
        from opx.ports.reading import ParsingTools

        settings = self.settings
        return ParsingTools(
            ocr=None if settings.ocr == "off" else tesseract(settings),
            describer=describer_at_url(settings, self.secrets) if settings.vision_model else None,
            limits=limits(settings),
        )

    @property
    def drain(self) -> QueueDrain:
        from opx.ingestion.worker import QueueDrain

        return QueueDrain(self.queue, self.worker, exclusive=self._only_worker, unit_of_work=self.unit_of_work)

    @contextmanager
    def _only_worker(self) -> Iterator[None]:
        """One process works on the queue at a time; what a crashed one had in hand is free again."""
        from filelock import FileLock

        with FileLock(self.settings.home_path / "worker.lock"):
            self.queue.release_all()  # type: ignore[attr-defined]
            yield

    def close(self) -> None:
        """Close what was opened, and only that."""
        opened = self.__dict__
        for name in ("index", "editions"):
            if name in opened:
                opened[name].close()
        for name in ("_database", "_records_database"):
            if name in opened:
                opened[name].close()
