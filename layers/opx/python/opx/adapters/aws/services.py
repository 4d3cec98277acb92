"""A system on AWS."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

from opx.adapters.storable import StorableChecks
from opx.errors import ForbiddenAddressError
from opx.ports import (
    ChunkCopies,
    Embedder,
    IndexSync,
    Item,
    ObjectStore,
    Queue,
    SearchEngine,
    SearchIndex,
    Table,
    UploadSigner,
)
from opx.ports.metrics import MetricReader
from opx.ports.models import ChatModel, Reranker
from opx.ports.reading import ImageDescriber, Ocr, ParsingTools
from opx.ports.sources import Secrets, SourceSchedules, StreamSubscriptions
from opx.ports.telemetry import TelemetryStores
from opx.services import Services
from opx.settings import MANAGED_ENGINE
from opx.tables import DOCUMENTS, TableSpec

if TYPE_CHECKING:
    from opx.lifecycle.reindex.book import Edition
    from opx.lifecycle.reindex.making import Pace
    from opx.ports.corpus_version import CorpusVersion
    from opx.ports.object_history import ObjectHistory, PastObjects
    from opx.retrieval.corpus_count import CorpusCount

EDITION_CACHE_SECONDS = 10.0
"""How long a function that is warm goes on asking an index that another one replaced."""

WRITERS_DONE_SECONDS = 330.0
"""After which no function is at work any more that takes documents in and began before: those have 300 seconds."""

REINDEX_LEASE_SECONDS = 960.0
"""More than a function may run: whoever holds the work after that is gone."""


class AwsServices(StorableChecks, Services):
    """S3, DynamoDB, SQS, OpenSearch Serverless and Bedrock."""

    read_threads = 8

    def load(self) -> None:
        from opx.adapters.aws import bedrock_embedder, opensearch, table  # noqa: F401 - loaded, not used
        from opx.adapters.aws.clients import load_descriptions
        from opx.records import records  # noqa: F401 - as above

        super().load()
        reranking = ["bedrock-agent-runtime"] if self.reranker and self.settings.reranker == "bedrock" else []
        load_descriptions(self._session, "bedrock-runtime", "dynamodb", *reranking)

    def open(self) -> None:
        super().open()
        if self.has_editions and self.settings.search_engine != MANAGED_ENGINE:
            _ = (self._search_client, self.embedder)

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

    def object_location(self, key: str) -> str:
        return f"s3://{self.settings.corpus_bucket}/{key}"

    def every_item(self, spec: TableSpec) -> Iterator[Item]:
        from opx.adapters.aws.table import DynamoTable

        return DynamoTable(spec, self._dynamodb, prefix=self.settings.table_prefix, clock=self.clock).scan()

    @cached_property
    def store(self) -> ObjectStore:  # type: ignore[override]
        from opx.adapters.aws.object_store import S3ObjectStore
        from opx.tenants.guarded_store import GuardedObjectStore

        return GuardedObjectStore(S3ObjectStore(self.settings.corpus_bucket, self._client("s3")), self.clients.check)

    @cached_property
    def object_history(self) -> ObjectHistory:  # type: ignore[override]
        from opx.adapters.aws.object_store import S3ObjectHistory

        return S3ObjectHistory(self.settings.corpus_bucket, self._client("s3"))

    @cached_property
    def past_objects(self) -> PastObjects | None:  # type: ignore[override]
        from opx.adapters.aws.object_store import S3PastObjects

        return S3PastObjects(self.settings.corpus_bucket, self._client("s3"))

    settling_seconds = 20.0  # an index of DynamoDB lags for a moment, OpenSearch Serverless for up to 15 seconds

    def foreign_bucket(self, name: str) -> ObjectStore:
        """Raises `ForbiddenAddressError` for the corpus: a source that copied it would copy what is another client's,
        and what it wrote itself."""
        from opx.adapters.aws.object_store import S3ObjectStore

        if name == self.settings.corpus_bucket:
            raise ForbiddenAddressError(f"{name} is the corpus itself: its documents are knowledge already")
        return S3ObjectStore(name, self._client("s3"))

    @cached_property
    def upload_signer(self) -> UploadSigner | None:  # type: ignore[override]
        from opx.adapters.aws.object_store import S3UploadSigner
        from opx.tenants.guarded_store import GuardedUploadSigner

        signer = S3UploadSigner(self.settings.corpus_bucket, self._client("s3", addressing="virtual"))
        return GuardedUploadSigner(signer, self.clients.check)

    @cached_property
    def queue(self) -> Queue:  # type: ignore[override]
        from opx.adapters.aws.queue import SqsQueue

        return SqsQueue(self._client("sqs"), self.settings.ingest_queue_url)

    @cached_property
    def embedder(self) -> Embedder:  # type: ignore[override]
        return self._bedrock_embedder(self.settings.embedding_model, 0)

    def _bedrock_embedder(self, model: str, dimension: int) -> Embedder:
        from opx.adapters.aws.bedrock_embedder import DEFAULT_MODEL, BedrockEmbedder

        return BedrockEmbedder(
            self._client("bedrock-runtime", attempts=1),  # the embedder retries within its rate limit
            model or DEFAULT_MODEL,
            dimension=dimension or None,
            requests_per_minute=self.settings.embedding_requests_per_minute,
            threads=self.settings.embedding_threads,
        )

    def chat_model(self, model: str) -> ChatModel:
        if self.settings.chat_url:
            from opx.adapters.openai_chat import chat_at_url

            return chat_at_url(self.settings, self.secrets, model)
        from opx.adapters.aws.bedrock_chat import BedrockChatService
        from opx.adapters.aws.clients import once
        from opx.adapters.json_chat import READ_SECONDS, JsonChat

        client = once(lambda: self._client("bedrock-runtime", read_seconds=READ_SECONDS, attempts=1))
        return JsonChat(BedrockChatService(client, model))

    def reranking_service(self, model: str) -> Reranker:
        from opx.adapters.aws.bedrock_reranker import BedrockReranker
        from opx.adapters.aws.clients import once

        return BedrockReranker(once(lambda: self._client("bedrock-agent-runtime", attempts=1)), model)

    @cached_property
    def parsing_tools(self) -> ParsingTools:
        from opx.adapters.reading_tools import limits

        return ParsingTools(ocr=self._ocr, describer=self._describer, limits=limits(self.settings))

    @property
    def _ocr(self) -> Ocr | None:
        if self.settings.ocr == "off":
            return None
        if self.settings.ocr == "tesseract":
            from opx.adapters.reading_tools import tesseract

            return tesseract(self.settings)
        from opx.adapters.aws.pictures import TextractOcr

        return TextractOcr(cache(lambda: self._client("textract", read_seconds=60.0)))

    @property
    def _describer(self) -> ImageDescriber | None:
        settings = self.settings
        if not settings.vision_model:
            return None
        if settings.vision_url:
            from opx.adapters.reading_tools import describer_at_url

            return describer_at_url(settings, self.secrets)
        from opx.adapters.aws.pictures import BedrockImageDescriber

        client = cache(lambda: self._client("bedrock-runtime", read_seconds=120.0))
        return BedrockImageDescriber(client, settings.vision_model)

    @cached_property
    def _search_client(self) -> Any:
        from opx.adapters.aws.opensearch import serverless_client

        settings = self.settings
        return serverless_client(settings.search_endpoint, timeout=settings.search_timeout, session=self._session)

    edition_cache_seconds = EDITION_CACHE_SECONDS
    reindex_lease_seconds = REINDEX_LEASE_SECONDS

    @property
    def editions_subject(self) -> str:
        """An index of another name is another installation's."""
        return f"index {self.settings.search_index}"

    def edition_index(self, edition: Edition) -> SearchIndex:
        from opx.adapters.aws.opensearch import OpenSearchIndex

        return OpenSearchIndex(
            self._search_client,
            self._index_name(edition),
            generation=self.settings.search_generation,
            timeout=self.settings.search_timeout,
            vectors_of=self.edition_embedder(edition),
        )

    def _index_name(self, edition: Edition) -> str:
        return f"{self.settings.search_index}-{edition.name}" if edition.name else self.settings.search_index

    def model_embedder(self, model: str, model_path: str, dimension: int) -> Embedder:  # noqa: ARG002
        return self._bedrock_embedder(model, dimension)

    def make_edition(self, edition: Edition) -> None:
        from opx.adapters.aws.opensearch import ensure_index

        facts = {"model_id": edition.model_id, "dimension": edition.dimension}
        ensure_index(self._search_client, self._index_name(edition), **facts)  # type: ignore[arg-type]

    def remove_edition(self, edition: Edition) -> None:
        from opx.adapters.aws.opensearch import delete_index

        delete_index(self._search_client, self._index_name(edition))

    def check_edition(self, edition: Edition) -> None:
        from opx.adapters.aws.opensearch import check_index

        facts = {"model_id": edition.model_id, "dimension": edition.dimension}
        check_index(self._search_client, self._index_name(edition), **facts)  # type: ignore[arg-type]

    @property
    def reindex_pace(self) -> Pace:
        from opx.lifecycle.reindex.making import Pace

        return Pace(
            start_seconds=WRITERS_DONE_SECONDS, settling_seconds=self.settling_seconds, pause_seconds=10.0, alone=False
        )

    def index_changed(self) -> None:
        self._corpus_count.advance()

    @cached_property
    def rebuilds(self) -> Queue | None:  # type: ignore[override]
        from opx.adapters.aws.queue import SqsQueue

        url = self.settings.rebuild_queue_url
        return SqsQueue(self._client("sqs"), url) if url else None

    @cached_property
    def _corpus_count(self) -> CorpusCount:
        from opx.retrieval.corpus_count import CorpusCount

        return CorpusCount(self.table(DOCUMENTS), self.clock)

    @property
    def corpus_version(self) -> CorpusVersion | None:  # type: ignore[override]
        """A managed knowledge base takes changes over when it gets to it, and doesn't tell."""
        return None if self.settings.search_engine == MANAGED_ENGINE else self._corpus_count

    @cached_property
    def written_index(self) -> SearchIndex:
        from opx.ingestion.counted_index import CountedIndex

        return CountedIndex(self.index, self._corpus_count)

    @cached_property
    def search_engine(self) -> SearchEngine:
        if self.settings.search_engine != MANAGED_ENGINE:
            return self.index
        from opx.adapters.aws.bedrock_knowledge_base import BedrockKnowledgeBase

        client = self._client("bedrock-agent-runtime", read_seconds=self.settings.search_timeout, attempts=2)
        return BedrockKnowledgeBase(client, self.settings.knowledge_base_id)

    @property
    def query_embedder(self) -> Embedder | None:
        return None if self.settings.search_engine == MANAGED_ENGINE else super().query_embedder

    @cached_property
    def copies(self) -> ChunkCopies | None:  # type: ignore[override]
        if not self.settings.sync_queue_url:
            return None
        from opx.adapters.aws.knowledge_base_objects import KnowledgeBaseCopies
        from opx.adapters.aws.queue import SqsQueue

        requests = SqsQueue(self._client("sqs"), self.settings.sync_queue_url)
        return KnowledgeBaseCopies(self.store, requests, self.clock)

    @cached_property
    def metric_reader(self) -> MetricReader | None:  # type: ignore[override]
        from opx.adapters.aws.telemetry import CloudWatchMetrics

        return CloudWatchMetrics(self._client("cloudwatch"))

    @cached_property
    def secrets(self) -> Secrets:  # type: ignore[override]
        from opx.adapters.aws.secrets import ManagedSecrets

        return ManagedSecrets(self._client("secretsmanager"), f"{self.settings.table_prefix}opx-knowledge/", self.clock)

    @cached_property
    def pulls(self) -> Queue | None:  # type: ignore[override]
        from opx.adapters.aws.queue import SqsQueue

        url = self.settings.pull_queue_url
        return SqsQueue(self._client("sqs"), url) if url else None

    @cached_property
    def checkpoint_requests(self) -> Queue | None:  # type: ignore[override]
        from opx.adapters.aws.queue import SqsQueue

        url = self.settings.checkpoint_queue_url
        return SqsQueue(self._client("sqs"), url) if url else None

    @cached_property
    def learning_failed(self) -> Queue | None:  # type: ignore[override]
        from opx.adapters.aws.queue import SqsQueue

        url = self.settings.learning_failed_url
        return SqsQueue(self._client("sqs"), url) if url else None

    @cached_property
    def source_schedules(self) -> SourceSchedules | None:  # type: ignore[override]
        from opx.adapters.aws.triggers import EventBridgeSchedules, PullTarget

        settings = self.settings
        if not settings.schedule_group:
            return None
        target = PullTarget(settings.pull_queue_arn, settings.pull_role_arn, settings.pull_failed_arn)
        return EventBridgeSchedules(self._client("scheduler"), settings.schedule_group, target)

    @cached_property
    def stream_subscriptions(self) -> StreamSubscriptions | None:  # type: ignore[override]
        from opx.adapters.aws.triggers import EventSourceMappings

        function, failed = self.settings.stream_function, self.settings.stream_failed_arn
        return EventSourceMappings(self._client("lambda"), function, failed=failed) if function else None

    @cached_property
    def telemetry(self) -> TelemetryStores | None:  # type: ignore[override]
        """Clients try again once at most: who asks waits for the answer."""
        from opx.adapters.aws.telemetry import CloudWatchLogs, CloudWatchSeries, XRayTraces

        patience: dict[str, Any] = {"read_seconds": 8.0, "attempts": 2}
        return TelemetryStores(
            CloudWatchLogs(self._client("logs", **patience)),
            CloudWatchSeries(self._client("cloudwatch", **patience)),
            XRayTraces(self._client("xray", **patience), self.clock),
        )

    @property
    def index_identity(self) -> str:  # type: ignore[override]
        """A new index has another name and lacks every document; so do copies, where there were none before."""
        own = self.settings.search_index
        index = self.editions.identity(own) if self.has_editions else own
        return index + (" with copies" if self.settings.sync_queue_url else "")

    @cached_property
    def index_sync(self) -> IndexSync:
        """Has the knowledge base index what the copies are."""
        from opx.adapters.aws.knowledge_base_objects import KnowledgeBaseSync

        client = self._client("bedrock-agent", attempts=1)  # requests to sync come again by themselves
        return KnowledgeBaseSync(client, self.settings.knowledge_base_id, self.settings.data_source_id)
