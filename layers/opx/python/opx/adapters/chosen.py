"""Selects the adapter of each port by its address in the settings.

A port is opened on first use, and its adapter is imported then: a function that only searches never loads the code of
ingestion.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, TypedDict
from urllib.parse import unquote, urlsplit

from opx.domain.record import replace
from opx.errors import InvalidInputError
from opx.ports.models import ParsingTools
from opx.ports.tables import EMBEDDINGS
from opx.settings import FOLDER, Settings, secret_of_environment

if TYPE_CHECKING:
    from pathlib import Path

    from opx.adapters.embedded.home import HomeDatabases
    from opx.connectors.runner import Feed
    from opx.connectors.streams.taking import RecordTaker
    from opx.domain.sources import StreamDefinition
    from opx.ingestion.indexing.capability import NewEmbedder
    from opx.ingestion.indexing.editions import IndexService
    from opx.ports import (
        ChatModel,
        ChunkCopies,
        Clock,
        Embedder,
        IndexSync,
        ObjectStore,
        Queue,
        Reranker,
        SearchEngine,
        SearchIndex,
        Storage,
        Table,
        Tables,
        UploadSigner,
        WorkQueue,
    )
    from opx.ports.bulk import BatchEmbedder, BulkRunner
    from opx.ports.files import StoreFiles
    from opx.ports.models import ImageDescriber, Ocr
    from opx.ports.queues import Functions
    from opx.ports.search import WordsSegments
    from opx.ports.sources import OpenWeb, Secrets
    from opx.ports.telemetry import MetricReader, TelemetryStores
    from opx.runtime.knowledge_file import Installation
    from opx.runtime.speed_limit import SpeedLimit
    from opx_aws.ports import AwsClients, NewClient


log = logging.getLogger(__name__)


class Given(TypedDict, total=False):
    """Ports that replace those of the settings."""

    aws: NewClient
    batch_embedder: BatchEmbedder
    bulk_runner: BulkRunner
    chat: ChatModel
    embedder: Embedder
    functions: Functions
    index: SearchIndex
    indexes: IndexService
    metric_reader: MetricReader
    new_chat: Callable[[str], ChatModel]
    new_embedder: NewEmbedder
    secrets: Secrets
    storage: Storage
    store: ObjectStore
    tables: Tables
    telemetry_stores: TelemetryStores
    upload_signer: UploadSigner
    work: WorkQueue


class Ports:
    """The ports of an installation. Ports in `given` replace the adapters of the settings."""

    def __init__(self, installation: Installation, given: Given) -> None:
        self._installation = installation
        self.given = given
        self.speed_limits: dict[str, SpeedLimit] = {}
        self.remarks: list[str] = []
        for name in ("tables", "storage", "work", "secrets", "functions", "indexes"):
            if (port := given.get(name)) is not None:
                setattr(self, name, port)  # in place of the one that the property opens

    @property
    def settings(self) -> Settings:
        return self._installation.settings

    @property
    def _clock(self) -> Clock:
        return self._installation.clock

    def load(self) -> None:
        """Imports the code that queries need. Opens no connection and needs no credentials."""
        if self.settings.backend == "aws":
            from opx_aws import bedrock_embedder, opensearch, table  # noqa: F401 - loaded, not used

            reranking = ["bedrock-agent-runtime"] if self.settings.reranker == "bedrock" else []
            verifying = ["secretsmanager"] if self.settings.gateway_secret else []
            self._aws_session.load("bedrock-runtime", "dynamodb", *reranking, *verifying)

    def connect(self) -> None:
        """Creates the clients of the index, which load credentials."""
        connect = getattr(self.indexes, "connect", None)
        if connect:
            connect()

    def close(self) -> None:
        """Releases opened files and connections."""
        for name in ("tables", "_home"):
            if name in self.__dict__:
                self.__dict__[name].close()

    @cached_property
    def _home_folder(self) -> Path:
        """The home folder, which only its owner can read from now on."""
        from opx.adapters.embedded.durable_files import withdraw_rights_of_others
        from opx.adapters.embedded.home_format import check_format

        check_format(self.settings.home_path)
        if remark := withdraw_rights_of_others(self.settings.home_path):
            log.warning("%s", remark)
            self.remarks.append(remark)
        return self.settings.home_path

    @cached_property
    def _home(self) -> HomeDatabases:
        from opx.adapters.embedded.home import HomeDatabases

        return HomeDatabases(self._home_folder)

    @cached_property
    def _aws_session(self) -> AwsClients:
        from opx_aws.ports import AwsClients

        return AwsClients()

    @property
    def _aws(self) -> NewClient:
        return self.given.get("aws") or self._aws_session

    @cached_property
    def tables(self) -> Tables:
        scheme, _, prefix = self.settings.address("tables").partition(":")
        if scheme == FOLDER:
            from opx.adapters.embedded.home import HomeTables

            return HomeTables(self._home, self._clock)
        from opx_aws.ports import DynamoTables

        return DynamoTables(self._aws, prefix, self._clock)

    @cached_property
    def storage(self) -> Storage:
        address = self.settings.address("store")
        if address == FOLDER:
            from opx.adapters.embedded.home import FolderStorage

            return FolderStorage(self._home_folder / "corpus")
        from opx_aws.ports import S3Storage

        return S3Storage(address.removeprefix("s3://").rstrip("/"), self._aws)

    @cached_property
    def work(self) -> WorkQueue:
        address = self.settings.address("queue")
        if address == FOLDER:
            from opx.adapters.embedded.home import HomeWorkQueue

            return HomeWorkQueue(self._home, self._clock)
        from opx_aws.ports import FunctionWorkQueue

        def queue() -> Queue:
            from opx_aws.queue import SqsQueue

            return SqsQueue(self._aws("sqs"), self.settings.ingest_queue_url if address == "https:" else address)

        return FunctionWorkQueue(queue)

    @cached_property
    def secrets(self) -> Secrets:
        if self.settings.address("secrets") == FOLDER:
            from opx.adapters.embedded.secrets import FileSecrets

            return FileSecrets(self.settings.home_path / "secrets.json", secret_of_environment)
        from opx_aws.secrets import ManagedSecrets

        prefix = f"{self.settings.table_prefix}opx-knowledge/"
        return ManagedSecrets(self._aws("secretsmanager"), prefix, self._clock)

    @cached_property
    def deployment_secrets(self) -> Secrets:
        """Secrets by their full names: those of the agents' gateway, of originals and of seals are none that sources may
        name."""
        if "secrets" in self.given or self.settings.address("secrets") == FOLDER:
            return self.secrets
        from opx_aws.secrets import ManagedSecrets

        return ManagedSecrets(self._aws("secretsmanager"), "", self._clock)

    @cached_property
    def functions(self) -> Functions:
        if self.work.in_process:
            from opx.ports.queues import ThisProcess

            return ThisProcess()
        from opx_aws.ports import DeployedFunctions

        return DeployedFunctions(self.settings, self._aws)

    @cached_property
    def indexes(self) -> IndexService:
        address = self.settings.address("index")
        if address == FOLDER:
            from opx.adapters.embedded.home import HomeIndexes

            return HomeIndexes(self._home_folder)
        if address.startswith("aoss:"):
            return self._serverless_indexes(address)
        if address.startswith("opensearch"):
            return self._node_indexes(address)
        from opx import plugins

        opened: IndexService = plugins.used(plugins.ADAPTERS, address.partition(":")[0])(address, self.settings)
        return opened

    @cached_property
    def words(self) -> WordsSegments:
        from opx.adapters.embedded.words import EmbeddedWords

        return EmbeddedWords()

    @property
    def files(self) -> StoreFiles | None:
        """The files of the home folder, where the settings put tables there."""
        if "tables" in self.given or self.settings.address("tables") != FOLDER or not self.settings.home_path.is_dir():
            return None
        from opx.adapters.embedded.home import QUEUE_NAME
        from opx.adapters.embedded.home_files import HomeFiles

        return HomeFiles(self._home_folder, queue=QUEUE_NAME, clock=self._clock)

    def _serverless_indexes(self, address: str) -> IndexService:
        from opx_aws.ports import OpenSearchIndexes, SearchCollection

        settings, found = self.settings, urlsplit(address)

        def collection(endpoint: str, generation: str, own_ids: str) -> SearchCollection:
            def client() -> Any:
                from opx_aws.opensearch import serverless_client

                return serverless_client(endpoint, timeout=settings.search_timeout, session=self._aws_session.session)

            return SearchCollection.of_generation(client, generation, own_ids)

        endpoint = f"https://{found.netloc}" if found.netloc else settings.search_endpoint
        own = collection(endpoint, settings.search_generation, settings.search_own_ids)
        collections = {settings.search_collection: own}
        if settings.next_search_endpoint:
            following = settings.next_search_endpoint, settings.next_search_generation, settings.next_search_own_ids
            collections[settings.next_search_collection] = collection(*following)
        name = found.path.strip("/") or settings.search_index
        return OpenSearchIndexes(collections, name, timeout=settings.search_timeout)

    def _node_indexes(self, address: str) -> IndexService:
        from opx_aws.ports import NODE_SETTLING_SECONDS, OpenSearchIndexes, SearchCollection

        found, settings = urlsplit(address), self.settings
        try:
            port = found.port or 9200
        except ValueError:
            port = 0
        if not found.hostname or not port or not found.path.strip("/"):
            raise InvalidInputError("OPX_INDEX must name host, port and index: opensearch://HOST:PORT/NAME")

        def client() -> Any:
            from opx_aws.opensearch import node_client

            scheme = "https" if found.scheme.endswith("https") else "http"
            endpoint = f"{scheme}://{found.hostname}:{port}"
            user = (unquote(found.username), unquote(found.password or "")) if found.username else None
            return node_client(endpoint, user, timeout=settings.search_timeout)

        node = SearchCollection(client, engine="lucene", settling_seconds=NODE_SETTLING_SECONDS)  # which every node has
        return OpenSearchIndexes({"": node}, found.path.strip("/"), timeout=settings.search_timeout, is_node=True)

    def new_embedder(self, model: str, model_path: str, dimension: int) -> Embedder:
        settings, given = self.settings, self.given.get("new_embedder")
        if given is not None:
            return given(model, model_path, dimension)
        if settings.address("embedder").partition(":")[0] == "local":
            from opx.adapters.embedded.embedders import chosen_embedder

            return chosen_embedder(replace(settings, embedding_model=model, model_path=model_path))
        from opx.ingestion.indexing.query_vectors import CachedQueries
        from opx_aws.bedrock_embedder import DEFAULT_MODEL, THREADS, BedrockEmbedder

        embedder = BedrockEmbedder(
            self._aws("bedrock-runtime", attempts=1),  # the embedder retries within its speed limit
            model or DEFAULT_MODEL,
            dimension=dimension or None,
            limit=self.speed_limit(model or DEFAULT_MODEL),
            threads=settings.embedding_threads or THREADS,
        )
        days = settings.query_cache_days
        return CachedQueries(embedder, self._embeddings, days=days, clock=self._clock) if days else embedder

    def speed_limit(self, model: str) -> SpeedLimit:
        """The limit that all workers share which call this model."""
        from opx.runtime.speed_limit import Quota, SpeedLimit
        from opx_aws.bedrock_embedder import DEFAULT_MODEL

        settings = self.settings
        of_settings = Quota(settings.embedding_requests_per_minute, settings.embedding_tokens_per_minute)
        quota = of_settings if model == (settings.embedding_model or DEFAULT_MODEL) else Quota()
        limit = SpeedLimit(quota, self._embeddings, model)
        return self.speed_limits.setdefault(model, limit)

    def _embeddings(self) -> Table:
        return self.tables.table(EMBEDDINGS)

    def bulk_runner(self) -> BulkRunner | None:
        """The given one, or that of the deployment; None on a machine, where the process that starts a job runs it."""
        settings, given = self.settings, self.given.get("bulk_runner")
        if given is not None or not settings.bulk_state_machine:
            return given
        from opx_aws.executions import StateMachineRunner

        client = self._aws("stepfunctions")
        return StateMachineRunner(client, settings.bulk_state_machine, children=settings.bulk_children)

    def batch_embedder(self, model: str = "", dimension: int = 0) -> BatchEmbedder | None:
        """The given one, or that of the deployment; None on a machine, whose cores embed, and for models without one."""
        from opx_aws.bedrock_embedder import DEFAULT_MODEL, BedrockEmbedder

        settings, given = self.settings, self.given.get("batch_embedder")
        if given is not None or not settings.bulk_batch_role:
            return given
        from opx.ports.bulk import BatchLimits
        from opx_aws.batch_embedder import BedrockBatchEmbedder

        wanted = model or settings.embedding_model or DEFAULT_MODEL
        embedder = BedrockEmbedder(self._aws("bedrock-runtime"), wanted, dimension=dimension or None)
        limits = BatchLimits(settings.batch_fewest_records, settings.batch_most_records, jobs=settings.batch_jobs)
        clients = self._aws("bedrock"), self._aws("s3")
        made = BedrockBatchEmbedder(
            *clients, settings.corpus_bucket, embedder, role=settings.bulk_batch_role, limits=limits
        )
        return made if embedder.works_in_batches else None

    def new_chat(self, model: str) -> ChatModel:
        given = self.given.get("new_chat")
        if given is not None:
            return given(model)
        if self.settings.chat_url:
            from opx.adapters.openai_chat import chat_at_url

            return chat_at_url(self.settings, self.secrets, model)
        from opx.adapters.json_chat import READ_SECONDS, JsonChat
        from opx_aws.bedrock_chat import BedrockChatService
        from opx_aws.clients import once

        client = once(lambda: self._aws("bedrock-runtime", read_seconds=READ_SECONDS, attempts=1))
        return JsonChat(BedrockChatService(client, model))

    def new_reranker(self, model: str) -> Reranker:
        from opx_aws.bedrock_reranker import BedrockReranker
        from opx_aws.clients import once

        return BedrockReranker(once(lambda: self._aws("bedrock-agent-runtime", attempts=1)), model)

    def parsing_tools(self) -> ParsingTools:
        from opx.adapters.reading_tools import limits

        return ParsingTools(ocr=self._ocr(), describer=self._describer(), limits=limits(self.settings))

    def _ocr(self) -> Ocr | None:
        chosen, on_aws = self.settings.ocr, self.settings.backend == "aws"
        if chosen == "off":
            return None
        if chosen == "textract" or (chosen == "auto" and on_aws):
            from opx_aws.pictures import TextractOcr

            return TextractOcr(cache(lambda: self._aws("textract", read_seconds=60.0)))
        from opx.adapters.reading_tools import tesseract

        return tesseract(self.settings)

    def _describer(self) -> ImageDescriber | None:
        settings = self.settings
        if not settings.vision_model:
            return None
        if settings.vision_url:
            from opx.adapters.reading_tools import describer_at_url

            return describer_at_url(settings, self.secrets)
        from opx_aws.pictures import BedrockImageDescriber

        client = cache(lambda: self._aws("bedrock-runtime", read_seconds=120.0))
        return BedrockImageDescriber(client, settings.vision_model)

    def managed_engine(self) -> SearchEngine:
        from opx_aws.bedrock_knowledge_base import BedrockKnowledgeBase

        client = self._aws("bedrock-agent-runtime", read_seconds=self.settings.search_timeout, attempts=2)
        return BedrockKnowledgeBase(client, self.settings.knowledge_base_id)

    def copies_of(self, store: ObjectStore) -> ChunkCopies | None:
        """Receives the same changes as the index, where a managed service builds its own index from the corpus store."""
        if not self.settings.sync_queue_url:
            return None
        from opx_aws.knowledge_base_objects import KnowledgeBaseCopies
        from opx_aws.queue import SqsQueue

        requests = SqsQueue(self._aws("sqs"), self.settings.sync_queue_url)
        return KnowledgeBaseCopies(store, requests, self._clock)

    @cached_property
    def index_sync(self) -> IndexSync:
        """Starts ingestion jobs of the managed knowledge base for changed copies."""
        from opx_aws.knowledge_base_objects import KnowledgeBaseSync

        client = self._aws("bedrock-agent", attempts=1)  # requests to sync are redelivered by their queue
        return KnowledgeBaseSync(client, self.settings.knowledge_base_id, self.settings.data_source_id)

    def telemetry_stores(self) -> TelemetryStores | None:
        """Clients retry once at most: the caller waits for the answer."""
        given = self.given.get("telemetry_stores")
        if given is not None or self.settings.backend != "aws":
            return given
        from opx.ports.telemetry import TelemetryStores
        from opx_aws.telemetry import CloudWatchLogs, CloudWatchSeries, XRayTraces

        patience: dict[str, Any] = {"read_seconds": 8.0, "attempts": 2}
        return TelemetryStores(
            CloudWatchLogs(self._aws("logs", **patience)),
            CloudWatchSeries(self._aws("cloudwatch", **patience)),
            XRayTraces(self._aws("xray", **patience), self._clock),
        )

    def metric_reader(self) -> MetricReader | None:
        given = self.given.get("metric_reader")
        if given is not None or self.settings.backend != "aws":
            return given
        from opx_aws.telemetry import CloudWatchMetrics

        return CloudWatchMetrics(self._aws("cloudwatch"))

    @property
    def open_web(self) -> OpenWeb:
        from opx.adapters.web import open_web

        return open_web

    def redis_feeds(
        self,
        streams: Callable[[], Sequence[StreamDefinition]],
        taker: Callable[[StreamDefinition], RecordTaker],
    ) -> Feed:
        from opx.adapters.redis_streams import RedisFeeds, RedisStreamFeed

        def feed(stream: StreamDefinition) -> RedisStreamFeed:
            return RedisStreamFeed(stream, taker(stream), password=lambda: self.secrets.get(stream.password_secret))

        return RedisFeeds(streams, feed)
