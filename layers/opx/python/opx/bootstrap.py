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
from opx.operations.metrics import Report, unreported
from opx.operations.queries import MeasuredQuery, counted_as_unavailable
from opx.ports import (
    ChunkCopies,
    Clock,
    Embedder,
    IndexSync,
    ObjectInfo,
    ObjectStore,
    Queue,
    SearchEngine,
    SearchIndex,
    Table,
    UploadSigner,
)
from opx.retrieval.query import KnowledgeQuery
from opx.retrieval.readers import ProjectRegistry
from opx.settings import MANAGED_ENGINE, Settings
from opx.tables import DOCUMENTS, EMBEDDINGS, ENTRIES, FAILURES, KEYS, PROJECTS, TableSpec

if TYPE_CHECKING:
    from opx.ingestion.catalog import Catalog
    from opx.ingestion.embedding_cache import CachedEmbedder
    from opx.ingestion.failures import FailureLog
    from opx.ingestion.manager import IngestionManager
    from opx.ingestion.pipeline import IngestionPipeline
    from opx.ingestion.worker import IngestionWorker, QueueDrain
    from opx.knowledge_base import DeployedKnowledgeBase

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

    def load(self) -> None:
        """Read the code and files that questions need. Opens no connection and asks for no credentials, so that a
        snapshot may be made afterwards."""
        assert self.knowledge

    def open(self) -> None:
        """Make what questions need, so that the first one doesn't wait for it."""
        _ = (self.search_engine, self.query_embedder, self.projects, self.catalog)

    copies: ChunkCopies | None = None
    """Also get what the index gets, where a managed service makes an index of its own."""

    upload_signer: UploadSigner | None = None
    """For uploads past this process; None where there are none."""

    @property
    def search_engine(self) -> SearchEngine:
        """What answers questions."""
        return self.index

    @property
    def query_embedder(self) -> Embedder | None:
        """For questions; None if the engine embeds them itself."""
        return self.embedder

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
    def document_embedder(self) -> CachedEmbedder:
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
            copies=self.copies,
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
        return self.manager_of(self.scope)

    def manager_of(self, scope: Scope) -> IngestionManager:
        """Takes documents in for this scope."""
        from opx.ingestion.manager import IngestionManager

        return IngestionManager(
            store=self.store,
            catalog=self.catalog,
            knowledge=self.knowledge,
            drain=self.drain,
            fingerprint=self._fingerprint,
            scope=scope,
        )

    def _fingerprint(self, info: ObjectInfo, sidecar: ObjectInfo | None) -> str:
        return self.pipeline.fingerprint(info, sidecar)

    def query_service(self, identity: Identity | None = None, report: Report = unreported) -> KnowledgeQuery:
        """Questions of this identity, or of the one that the installation is configured for. Answers are reported."""
        asked = identity or Identity(self.settings.client_id, self.settings.project_id)
        with counted_as_unavailable(report):
            reader = self.projects.reader(asked)
        return MeasuredQuery(
            index=self.search_engine,
            embedder=self.query_embedder,
            knowledge=self.knowledge,
            reader=reader,
            report=report,
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

    def load(self) -> None:
        from opx.adapters.aws import bedrock_embedder, opensearch, table  # noqa: F401 - loaded, not used
        from opx.adapters.aws.clients import load_descriptions

        super().load()
        load_descriptions(self._session, "bedrock-runtime", "dynamodb")

    @cached_property
    def _session(self) -> Any:
        """One for all clients, which keeps what it has read about services."""
        from opx.adapters.aws.clients import new_session

        return new_session()

    def _client(self, service: str, **options: Any) -> Any:
        from opx.adapters.aws.clients import client

        return client(service, session=self._session, **options)

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
    def upload_signer(self) -> UploadSigner | None:  # type: ignore[override]
        from opx.adapters.aws.upload_signer import S3UploadSigner

        return S3UploadSigner(self.settings.corpus_bucket, self._client("s3", addressing="virtual"))

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
            serverless_client(settings.search_endpoint, timeout=settings.search_timeout, session=self._session),
            settings.search_index,
            generation=settings.search_generation,
            timeout=settings.search_timeout,
            vectors_of=self.embedder,
        )

    @cached_property
    def search_engine(self) -> SearchEngine:
        if self.settings.search_engine != MANAGED_ENGINE:
            return self.index
        from opx.adapters.aws.bedrock_knowledge_base import BedrockKnowledgeBase

        client = self._client("bedrock-agent-runtime", read_seconds=self.settings.search_timeout, attempts=2)
        return BedrockKnowledgeBase(client, self.settings.knowledge_base_id)

    @property
    def query_embedder(self) -> Embedder | None:
        return None if self.settings.search_engine == MANAGED_ENGINE else self.embedder

    @cached_property
    def copies(self) -> ChunkCopies | None:  # type: ignore[override]
        if not self.settings.sync_queue_url:
            return None
        from opx.adapters.aws.knowledge_base_copies import KnowledgeBaseCopies
        from opx.adapters.aws.queue import SqsQueue

        requests = SqsQueue(self._client("sqs"), self.settings.sync_queue_url)
        return KnowledgeBaseCopies(self.store, requests, self.clock)

    @property
    def index_identity(self) -> str:  # type: ignore[override]
        """A new index has another name and lacks every document; so do copies, where there were none before."""
        return self.settings.search_index + (" with copies" if self.settings.sync_queue_url else "")

    @cached_property
    def index_sync(self) -> IndexSync:
        """Has the knowledge base index what the copies are."""
        from opx.adapters.aws.knowledge_base_sync import KnowledgeBaseSync

        client = self._client("bedrock-agent", attempts=1)  # requests to sync come again by themselves
        return KnowledgeBaseSync(client, self.settings.knowledge_base_id, self.settings.data_source_id)


def open_remote(settings: Settings) -> DeployedKnowledgeBase:
    """The deployed system that the settings mean. The caller closes it.

    Its address is `api_url`, or what its stack says in the AWS account of the profile; the caller is whom the token
    or the profile's credentials are of. Raises `InvalidInputError`, `AccessDeniedError`, and `OpxError` if there is no
    such system.
    """
    from opx.adapters.remote.connections import Connections
    from opx.adapters.remote.http import bearer
    from opx.adapters.remote.knowledge_base import RemoteKnowledgeBase

    if settings.api_url and settings.api_token:  # nothing of AWS is needed
        return RemoteKnowledgeBase(settings.api_url, bearer(settings.api_token), Connections())
    from opx.adapters.aws.deployed_api import DEFAULT_ENVIRONMENT, AwsAccount

    account = AwsAccount(settings.aws_profile, settings.aws_region)
    endpoint = settings.api_url or account.api_url(settings.environment or DEFAULT_ENVIRONMENT)
    authorize = bearer(settings.api_token) if settings.api_token else account.signed
    return RemoteKnowledgeBase(endpoint, authorize, Connections(certificates=account.certificates))


def bootstrap(settings: Settings, *, clock: Clock = time.time, **overrides: object) -> Services:
    """The services for `settings`. Overrides replace parts by name (`embedder`, `index`, `store`, `queue`, ...)."""
    kind = AwsServices if settings.backend == "aws" else EmbeddedServices
    services = kind(settings, clock=clock)
    services.__dict__.update(overrides)
    return services
