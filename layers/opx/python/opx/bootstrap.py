"""The one composition root: settings in, a working system out.

Everything is built when it is first asked for, so that a function which only searches never loads what ingestion
needs. Tests pass their own adapters as overrides to the same function.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opx.domain.knowledge import KnowledgeModel
from opx.domain.scopes import Identity, Scope
from opx.knowledge_file import load_knowledge
from opx.ports import Clock, Embedder, ObjectInfo, ObjectStore, Queue, SearchIndex, Table
from opx.retrieval.query import KnowledgeQuery
from opx.retrieval.readers import ProjectRegistry
from opx.settings import Settings
from opx.tables import DOCUMENTS, EMBEDDINGS, ENTRIES, FAILURES, KEYS, PROJECTS, TableSpec

if TYPE_CHECKING:
    from opx.ingestion.catalog import Catalog
    from opx.ingestion.failures import FailureLog
    from opx.ingestion.manager import IngestionManager
    from opx.ingestion.pipeline import IngestionPipeline
    from opx.ingestion.worker import IngestionWorker, QueueDrain

QUEUE_NAME = "ingest"


class Services:
    """The parts of a system over one set of adapters. A context manager: leaving it closes what it opened."""

    def __init__(self, settings: Settings, *, clock: Clock = time.time) -> None:
        self.settings = settings
        self.clock = clock

    # -- adapters: each backend's class gives its own

    store: ObjectStore
    queue: Queue
    embedder: Embedder
    index: SearchIndex

    def table(self, spec: TableSpec) -> Table:  # noqa: ARG002 - each backend's class has its own
        """The table of a specification."""
        raise TypeError(f"{type(self).__name__} has no tables")

    def close(self) -> None:
        """Release files and connections; afterwards the services can't be used."""

    def __enter__(self) -> Services:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- capabilities

    @cached_property
    def knowledge(self) -> KnowledgeModel:
        path = self.settings.knowledge_file
        return load_knowledge(Path(path) if path else None)

    @cached_property
    def projects(self) -> ProjectRegistry:
        return ProjectRegistry(self.table(PROJECTS))

    @cached_property
    def catalog(self) -> Catalog:
        from opx.ingestion.catalog import Catalog

        tables = (self.table(DOCUMENTS), self.table(KEYS), self.table(ENTRIES))
        return Catalog(*tables, clock=self.clock, lease_seconds=self.settings.lease_seconds)

    @cached_property
    def failures(self) -> FailureLog:
        from opx.ingestion.failures import FailureLog

        return FailureLog(self.table(FAILURES), self.clock)

    @cached_property
    def document_embedder(self) -> Embedder:
        """The embedder with its cache; questions don't go through it."""
        from opx.ingestion.embedding_cache import CachedEmbedder

        days = self.settings.embedding_cache_days
        return CachedEmbedder(self.embedder, self.table(EMBEDDINGS), days=days, clock=self.clock)

    @cached_property
    def pipeline(self) -> IngestionPipeline:
        from opx.ingestion.pipeline import ChunkingRules, IngestionPipeline
        from opx.ingestion.reading import DocumentReader

        limit = self.settings.max_document_bytes
        return IngestionPipeline(
            store=self.store,
            reader=DocumentReader(self.store, self.knowledge, max_bytes=limit, clock=self.clock),
            catalog=self.catalog,
            embedder=self.document_embedder,
            index=self.index,
            rules=ChunkingRules(self.settings.chunk_tokens, self.settings.chunk_overlap),
            unit_of_work=self.unit_of_work,
            read_threads=self.read_threads,
            index_identity=self.index_identity,
        )

    read_threads = 1
    index_identity = ""
    """Tells this index from one that was deleted and made anew, where that can happen unseen."""

    def unit_of_work(self) -> AbstractContextManager[Any]:
        """Groups table writes into one commit where the store can; nothing depends on it but speed."""
        return nullcontext()

    @cached_property
    def worker(self) -> IngestionWorker:
        from opx.ingestion.worker import IngestionWorker, RetryRules

        rules = RetryRules(self.settings.max_attempts, self.settings.retry_base_seconds)
        return IngestionWorker(self.pipeline, self.failures, rules, unit_of_work=self.unit_of_work)

    @property
    def drain(self) -> QueueDrain | None:
        """Works on the queue in this process; None where functions do."""
        return None

    @property
    def scope(self) -> Scope:
        """Where documents of this installation go, as configured."""
        return Scope(self.settings.client_id, project_id=self.settings.project_id)

    @cached_property
    def manager(self) -> IngestionManager:
        from opx.ingestion.manager import IngestionManager

        return IngestionManager(
            store=self.store,
            catalog=self.catalog,
            knowledge=self.knowledge,
            drain=self.drain,
            fingerprint=self._fingerprint,
            scope=self.scope,
        )

    def _fingerprint(self, info: ObjectInfo, sidecar: ObjectInfo | None) -> str:
        return self.pipeline.fingerprint(info, sidecar)

    def query_service(self, identity: Identity | None = None) -> KnowledgeQuery:
        """Questions of this identity, or of the one that the installation is configured for."""
        asked = identity or Identity(self.settings.client_id, self.settings.project_id)
        return KnowledgeQuery(
            index=self.index,
            embedder=self.embedder,
            knowledge=self.knowledge,
            reader=self.projects.reader(asked),
        )


class EmbeddedServices(Services):
    """Everything in one folder of this machine."""

    @cached_property
    def _database(self) -> Any:
        from opx.adapters.embedded.database import open_database

        return open_database(self.settings.home_path / "opx.db")

    def table(self, spec: TableSpec) -> Table:
        from opx.adapters.embedded.table import SqliteTable

        return SqliteTable(spec, self._database, clock=self.clock)

    @cached_property
    def store(self) -> ObjectStore:  # type: ignore[override]
        from opx.adapters.embedded.object_store import FolderObjectStore
        from opx.adapters.embedded.sequence import SqliteSequence
        from opx.ingestion.announcing import AnnouncingObjectStore

        folder = FolderObjectStore(self.settings.home_path / "corpus")
        sequence = SqliteSequence(self._database, "events")
        return AnnouncingObjectStore(folder, self.queue, sequence, unit_of_work=self.unit_of_work)

    @cached_property
    def queue(self) -> Queue:  # type: ignore[override]
        from opx.adapters.embedded.queue import SqliteQueue

        return SqliteQueue(self._database, QUEUE_NAME, clock=self.clock)

    @cached_property
    def embedder(self) -> Embedder:  # type: ignore[override]
        from opx.adapters.embedded.embedder import MiniLmEmbedder, default_model

        folder = Path(self.settings.model_path) if self.settings.model_path else default_model()
        return MiniLmEmbedder(folder, threads=self.settings.embedding_threads)

    @cached_property
    def index(self) -> SearchIndex:  # type: ignore[override]
        from opx.adapters.embedded.search_index import EmbeddedIndex

        embedder = self.embedder
        folder = self.settings.home_path / "index"
        return EmbeddedIndex(folder, model_id=embedder.model_id, dimension=embedder.dimension)

    @cached_property
    def catalog(self) -> Catalog:
        """Claims without a lease: `_only_worker` lets one process in, so whoever held one before is gone."""
        from opx.ingestion.catalog import Catalog

        tables = (self.table(DOCUMENTS), self.table(KEYS), self.table(ENTRIES))
        return Catalog(*tables, clock=self.clock, lease_seconds=0)

    @property
    def index_identity(self) -> str:  # type: ignore[override]
        return str(getattr(self.index, "incarnation", ""))

    def unit_of_work(self) -> AbstractContextManager[Any]:
        database: AbstractContextManager[Any] = self._database.transaction()
        return database

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
        if "index" in opened:
            opened["index"].close()
        if "_database" in opened:
            opened["_database"].close()


class AwsServices(Services):
    """S3, DynamoDB, SQS, OpenSearch Serverless and Bedrock."""

    read_threads = 8

    def _client(self, service: str, **options: Any) -> Any:
        from opx.adapters.aws.clients import client

        return client(service, **options)

    @cached_property
    def _dynamodb(self) -> Any:
        return self._client("dynamodb")

    def table(self, spec: TableSpec) -> Table:
        from opx.adapters.aws.table import DynamoTable

        return DynamoTable(spec, self._dynamodb, prefix=self.settings.table_prefix, clock=self.clock)

    @cached_property
    def store(self) -> ObjectStore:  # type: ignore[override]
        from opx.adapters.aws.object_store import S3ObjectStore

        return S3ObjectStore(self.settings.corpus_bucket, self._client("s3"))

    @cached_property
    def queue(self) -> Queue:  # type: ignore[override]
        from opx.adapters.aws.queue import SqsQueue

        return SqsQueue(self._client("sqs"), self.settings.ingest_queue_url)

    @cached_property
    def embedder(self) -> Embedder:  # type: ignore[override]
        from opx.adapters.aws.bedrock_embedder import DEFAULT_MODEL, BedrockEmbedder

        return BedrockEmbedder(
            self._client("bedrock-runtime", attempts=1),  # the embedder retries within its rate limit
            self.settings.embedding_model or DEFAULT_MODEL,
            requests_per_minute=self.settings.embedding_requests_per_minute,
            threads=self.settings.embedding_threads,
        )

    @cached_property
    def index(self) -> SearchIndex:  # type: ignore[override]
        from opx.adapters.aws.opensearch import OpenSearchIndex, serverless_client

        settings = self.settings
        return OpenSearchIndex(
            serverless_client(settings.search_endpoint, timeout=settings.search_timeout),
            settings.search_index,
            generation=settings.search_generation,
            timeout=settings.search_timeout,
        )


def bootstrap(settings: Settings, *, clock: Clock = time.time, **overrides: object) -> Services:
    """The services for `settings`. Overrides replace parts by name (`embedder`, `index`, `store`, `queue`, ...)."""
    kind = AwsServices if settings.backend == "aws" else EmbeddedServices
    services = kind(settings, clock=clock)
    services.__dict__.update(overrides)
    return services
