"""A system on AWS."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

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
    from opx.ports.corpus_version import CorpusVersion
    from opx.ports.object_history import ObjectHistory
    from opx.retrieval.corpus_count import CorpusCount


class AwsServices(Services):
    """S3, DynamoDB, SQS, OpenSearch Serverless and Bedrock."""

    read_threads = 8

    def load(self) -> None:
        from opx.adapters.aws import bedrock_embedder, opensearch, table  # noqa: F401 - loaded, not used
        from opx.adapters.aws.clients import load_descriptions
        from opx.operations import records  # noqa: F401 - as above

        super().load()
        reranking = ["bedrock-agent-runtime"] if self.reranker and self.settings.reranker == "bedrock" else []
        load_descriptions(self._session, "bedrock-runtime", "dynamodb", *reranking)

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
        from opx.adapters.aws.object_history import S3ObjectHistory

        return S3ObjectHistory(self.settings.corpus_bucket, self._client("s3"))

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
        from opx.adapters.aws.upload_signer import S3UploadSigner
        from opx.tenants.guarded_store import GuardedUploadSigner

        signer = S3UploadSigner(self.settings.corpus_bucket, self._client("s3", addressing="virtual"))
        return GuardedUploadSigner(signer, self.clients.check)

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

    def chat_model(self, model: str) -> ChatModel:
        if self.settings.chat_url:
            from opx.adapters.chat_models import chat_at_url

            return chat_at_url(self.settings, self.secrets, model)
        from opx.adapters.aws.bedrock_chat import BedrockChatService
        from opx.adapters.aws.clients import once
        from opx.adapters.chat_models import READ_SECONDS
        from opx.adapters.json_chat import JsonChat

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
        from opx.adapters.aws.textract import TextractOcr

        return TextractOcr(cache(lambda: self._client("textract", read_seconds=60.0)))

    @property
    def _describer(self) -> ImageDescriber | None:
        settings = self.settings
        if not settings.vision_model:
            return None
        if settings.vision_url:
            from opx.adapters.reading_tools import describer_at_url

            return describer_at_url(settings, self.secrets)
        from opx.adapters.aws.bedrock_images import BedrockImageDescriber

        client = cache(lambda: self._client("bedrock-runtime", read_seconds=120.0))
        return BedrockImageDescriber(client, settings.vision_model)

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
        return None if self.settings.search_engine == MANAGED_ENGINE else self.embedder

    @cached_property
    def copies(self) -> ChunkCopies | None:  # type: ignore[override]
        if not self.settings.sync_queue_url:
            return None
        from opx.adapters.aws.knowledge_base_copies import KnowledgeBaseCopies
        from opx.adapters.aws.queue import SqsQueue

        requests = SqsQueue(self._client("sqs"), self.settings.sync_queue_url)
        return KnowledgeBaseCopies(self.store, requests, self.clock)

    @cached_property
    def metric_reader(self) -> MetricReader | None:  # type: ignore[override]
        from opx.adapters.aws.cloudwatch_metrics import CloudWatchMetrics

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
        from opx.adapters.aws.source_schedules import EventBridgeSchedules, PullTarget

        settings = self.settings
        if not settings.schedule_group:
            return None
        target = PullTarget(settings.pull_queue_arn, settings.pull_role_arn, settings.pull_failed_arn)
        return EventBridgeSchedules(self._client("scheduler"), settings.schedule_group, target)

    @cached_property
    def stream_subscriptions(self) -> StreamSubscriptions | None:  # type: ignore[override]
        from opx.adapters.aws.stream_subscriptions import EventSourceMappings

        function, failed = self.settings.stream_function, self.settings.stream_failed_arn
        return EventSourceMappings(self._client("lambda"), function, failed=failed) if function else None

    @cached_property
    def telemetry(self) -> TelemetryStores | None:  # type: ignore[override]
        """Clients try again once at most: who asks waits for the answer."""
        from opx.adapters.aws.cloudwatch_logs import CloudWatchLogs
        from opx.adapters.aws.cloudwatch_series import CloudWatchSeries
        from opx.adapters.aws.xray_traces import XRayTraces

        patience: dict[str, Any] = {"read_seconds": 8.0, "attempts": 2}
        return TelemetryStores(
            CloudWatchLogs(self._client("logs", **patience)),
            CloudWatchSeries(self._client("cloudwatch", **patience)),
            XRayTraces(self._client("xray", **patience), self.clock),
        )

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
