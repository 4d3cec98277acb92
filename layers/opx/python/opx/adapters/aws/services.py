"""A system on AWS."""

from __future__ import annotations

from functools import cache, cached_property
from typing import Any

from opx.errors import ForbiddenAddressError
from opx.ports import (
    ChunkCopies,
    Embedder,
    IndexSync,
    ObjectStore,
    Queue,
    SearchEngine,
    SearchIndex,
    Table,
    UploadSigner,
)
from opx.ports.reading import ImageDescriber, Ocr, ParsingTools
from opx.ports.sources import Secrets, SourceSchedules, StreamSubscriptions
from opx.services import Services
from opx.settings import MANAGED_ENGINE
from opx.tables import TableSpec


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
    def secrets(self) -> Secrets:  # type: ignore[override]
        from opx.adapters.aws.secrets import ManagedSecrets

        return ManagedSecrets(self._client("secretsmanager"), f"{self.settings.table_prefix}opx-knowledge/", self.clock)

    @cached_property
    def pulls(self) -> Queue | None:  # type: ignore[override]
        from opx.adapters.aws.queue import SqsQueue

        url = self.settings.pull_queue_url
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
