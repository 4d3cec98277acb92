"""The composition root: a system of ports and of the capabilities over them, made from settings.

A port is opened when it is first used, and adapters are imported then: a function that only searches never loads what
ingestion needs. Tests give their own adapters to the same function.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, TypedDict
from urllib.parse import unquote, urlsplit

from opx.corpus import Corpus
from opx.domain.record import replace
from opx.errors import InvalidInputError
from opx.graph.capability import Graph
from opx.installation import Installation
from opx.lifecycle.reindex.indexing import Indexing, NewEmbedder
from opx.models.access import Models
from opx.ports import Clock
from opx.ports.functions import Functions, ThisProcess
from opx.records.records import QuestionRecords
from opx.retrieval.capability import Questions
from opx.settings import FOLDER, MANAGED_ENGINE, Settings, secret_of_environment
from opx.telemetry.capability import Telemetry

if TYPE_CHECKING:
    from typing import Unpack

    from opx.adapters.aws.ports import AwsClients, NewClient
    from opx.adapters.embedded.home import HomeDatabases
    from opx.domain.scopes import Scope
    from opx.domain.streams import StreamDefinition
    from opx.ingestion.capability import Ingestion
    from opx.ingestion.manager import IngestionManager
    from opx.learning.capability import Learning
    from opx.learning.queries import PatternQueries
    from opx.lifecycle.capability import Lifecycle
    from opx.lifecycle.reindex.editions import IndexService
    from opx.ports import (
        ChatModel,
        ChunkCopies,
        Embedder,
        IndexSync,
        ObjectStore,
        Queue,
        Reranker,
        SearchEngine,
        SearchFilter,
        SearchIndex,
        Storage,
        Tables,
        UploadSigner,
        WorkQueue,
    )
    from opx.ports.metrics import MetricReader
    from opx.ports.reading import ImageDescriber, Ocr, ParsingTools
    from opx.ports.sources import Secrets
    from opx.ports.telemetry import TelemetryStores
    from opx.retrieval.query_language import Asked
    from opx.running import Feed, Runner
    from opx.sources.capability import Connectors
    from opx.streams.taking import RecordTaker
    from opx.tenants.capability import Tenants
    from opx.websearch.service import InternetSearch


class Given(TypedDict, total=False):
    """Ports that replace those of the settings."""

    aws: NewClient
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


def bootstrap(settings: Settings, *, clock: Clock = time.time, **given: Unpack[Given]) -> System:
    """The system of the settings. Nothing is opened yet. Raises `TypeError` for a port that doesn't exist."""
    unknown = given.keys() - Given.__annotations__.keys()
    if unknown:
        raise TypeError(f"bootstrap() has no port {', '.join(sorted(unknown))}")
    return System(settings, clock, given)


class System:
    """The ports of an installation and the capabilities over them. A context manager: leaving it closes what it opened."""

    def __init__(self, settings: Settings, clock: Clock, given: Given) -> None:
        self.installation = Installation(settings, clock)
        self._given = given

    @property
    def settings(self) -> Settings:
        return self.installation.settings

    @property
    def clock(self) -> Clock:
        return self.installation.clock

    def __enter__(self) -> System:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release files and connections that were opened; afterwards the system can't be used."""
        for name in ("indexing", "tables", "_home"):
            if name in self.__dict__:
                self.__dict__[name].close()

    def load(self) -> None:
        """Read the code and files that questions need. Opens no connection and asks for no credentials, so that a
        snapshot may be made afterwards."""
        if self.settings.backend == "aws":
            from opx.adapters.aws import bedrock_embedder, opensearch, table  # noqa: F401 - loaded, not used

            reranking = ["bedrock-agent-runtime"] if self.settings.reranker == "bedrock" else []
            self._aws_session.load("bedrock-runtime", "dynamodb", *reranking)
        assert self.installation.knowledge

    def open(self) -> None:
        """Make what questions need, so that the first one doesn't wait for it."""
        indexing = self.indexing
        _ = (indexing.search_engine, indexing.query_embedder, self.corpus.projects, self.corpus.catalog)
        connect = getattr(self._indexes, "connect", None)
        if connect and indexing.has_editions and self.settings.search_engine != MANAGED_ENGINE:
            connect()
            assert indexing.embedder

    # -- ports

    @cached_property
    def _home(self) -> HomeDatabases:
        from opx.adapters.embedded.home import HomeDatabases

        return HomeDatabases(self.settings.home_path)

    @cached_property
    def _aws_session(self) -> AwsClients:
        from opx.adapters.aws.ports import AwsClients

        return AwsClients()

    @property
    def _aws(self) -> NewClient:
        return self._given.get("aws") or self._aws_session

    @cached_property
    def tables(self) -> Tables:
        given = self._given.get("tables")
        if given is not None:
            return given
        scheme, _, prefix = self.settings.address("tables").partition(":")
        if scheme == FOLDER:
            from opx.adapters.embedded.home import HomeTables

            return HomeTables(self._home, self.clock)
        from opx.adapters.aws.ports import DynamoTables

        return DynamoTables(self._aws, prefix, self.clock)

    @cached_property
    def storage(self) -> Storage:
        given = self._given.get("storage")
        if given is not None:
            return given
        address = self.settings.address("store")
        if address == FOLDER:
            from opx.adapters.embedded.home import FolderStorage

            return FolderStorage(self.settings.home_path / "corpus")
        from opx.adapters.aws.ports import S3Storage

        return S3Storage(address.removeprefix("s3://").rstrip("/"), self._aws)

    @cached_property
    def work(self) -> WorkQueue:
        given = self._given.get("work")
        if given is not None:
            return given
        address = self.settings.address("queue")
        if address == FOLDER:
            from opx.adapters.embedded.home import HomeWorkQueue

            return HomeWorkQueue(self._home, self.clock)
        from opx.adapters.aws.ports import FunctionWorkQueue

        def queue() -> Queue:
            from opx.adapters.aws.queue import SqsQueue

            return SqsQueue(self._aws("sqs"), self.settings.ingest_queue_url if address == "https:" else address)

        return FunctionWorkQueue(queue)

    @property
    def queue(self) -> Queue:
        """Events of the corpus store that wait for ingestion."""
        return self.work.queue

    @property
    def store(self) -> ObjectStore:
        """The corpus store."""
        return self.corpus.store

    @property
    def index(self) -> SearchIndex:
        """What is searched and written to."""
        return self.indexing.index

    @property
    def embedder(self) -> Embedder:
        """The embedder that the settings name."""
        return self.indexing.embedder

    @cached_property
    def secrets(self) -> Secrets:
        given = self._given.get("secrets")
        if given is not None:
            return given
        if self.settings.address("secrets") == FOLDER:
            from opx.adapters.embedded.secrets import FileSecrets

            return FileSecrets(self.settings.home_path / "secrets.json", secret_of_environment)
        from opx.adapters.aws.secrets import ManagedSecrets

        prefix = f"{self.settings.table_prefix}opx-knowledge/"
        return ManagedSecrets(self._aws("secretsmanager"), prefix, self.clock)

    @cached_property
    def functions(self) -> Functions:
        given = self._given.get("functions")
        if given is not None:
            return given
        if self.work.in_process:
            return ThisProcess()
        from opx.adapters.aws.ports import DeployedFunctions

        return DeployedFunctions(self.settings, self._aws)

    @cached_property
    def _indexes(self) -> IndexService:
        given = self._given.get("indexes")
        if given is not None:
            return given
        address = self.settings.address("index")
        if address == FOLDER:
            from opx.adapters.embedded.home import HomeIndexes

            return HomeIndexes(self.settings.home_path)
        if address.startswith("aoss:"):
            return self._serverless_indexes(address)
        return self._node_indexes(address)

    def _serverless_indexes(self, address: str) -> IndexService:
        from opx.adapters.aws.ports import OpenSearchIndexes

        settings, found = self.settings, urlsplit(address)
        endpoint = f"https://{found.netloc}" if found.netloc else settings.search_endpoint

        def client() -> Any:
            from opx.adapters.aws.opensearch import serverless_client

            return serverless_client(endpoint, timeout=settings.search_timeout, session=self._aws_session.session)

        return OpenSearchIndexes(
            client,
            found.path.strip("/") or settings.search_index,
            generation=settings.search_generation,
            timeout=settings.search_timeout,
        )

    def _node_indexes(self, address: str) -> IndexService:
        from opx.adapters.aws.ports import NODE_SETTLING_SECONDS, OpenSearchIndexes

        found, settings = urlsplit(address), self.settings
        if not found.hostname or not found.path.strip("/"):
            raise InvalidInputError("OPX_INDEX must name host and index: opensearch://HOST:PORT/NAME")

        def client() -> Any:
            from opx.adapters.aws.opensearch import node_client

            scheme = "https" if found.scheme.endswith("https") else "http"
            endpoint = f"{scheme}://{found.hostname}:{found.port or 9200}"
            user = (unquote(found.username), unquote(found.password or "")) if found.username else None
            return node_client(endpoint, user, timeout=settings.search_timeout)

        return OpenSearchIndexes(
            client,
            found.path.strip("/"),
            generation="nextgen",
            timeout=settings.search_timeout,
            settling_seconds=NODE_SETTLING_SECONDS,
            is_node=True,
        )

    def _new_embedder(self, model: str, model_path: str, dimension: int) -> Embedder:
        settings, given = self.settings, self._given.get("new_embedder")
        if given is not None:
            return given(model, model_path, dimension)
        if settings.address("embedder").partition(":")[0] == "local":
            from opx.adapters.embedded.embedders import chosen_embedder

            return chosen_embedder(replace(settings, embedding_model=model, model_path=model_path))
        from opx.adapters.aws.bedrock_embedder import DEFAULT_MODEL, BedrockEmbedder

        return BedrockEmbedder(
            self._aws("bedrock-runtime", attempts=1),  # the embedder retries within its rate limit
            model or DEFAULT_MODEL,
            dimension=dimension or None,
            requests_per_minute=settings.embedding_requests_per_minute,
            threads=settings.embedding_threads,
        )

    def _new_chat(self, model: str) -> ChatModel:
        given = self._given.get("new_chat")
        if given is not None:
            return given(model)
        if self.settings.chat_url:
            from opx.adapters.chat_models import chat_at_url

            return chat_at_url(self.settings, self.secrets, model)
        from opx.adapters.aws.bedrock_chat import BedrockChatService
        from opx.adapters.aws.clients import once
        from opx.adapters.chat_models import READ_SECONDS
        from opx.adapters.json_chat import JsonChat

        client = once(lambda: self._aws("bedrock-runtime", read_seconds=READ_SECONDS, attempts=1))
        return JsonChat(BedrockChatService(client, model))

    def _new_reranker(self, model: str) -> Reranker:
        from opx.adapters.aws.bedrock_reranker import BedrockReranker
        from opx.adapters.aws.clients import once

        return BedrockReranker(once(lambda: self._aws("bedrock-agent-runtime", attempts=1)), model)

    def parsing_tools(self) -> ParsingTools:
        from opx.adapters.reading_tools import limits
        from opx.ports.reading import ParsingTools

        return ParsingTools(ocr=self._ocr(), describer=self._describer(), limits=limits(self.settings))

    def _ocr(self) -> Ocr | None:
        chosen, on_aws = self.settings.ocr, self.settings.backend == "aws"
        if chosen == "off":
            return None
        if chosen == "textract" or (chosen == "auto" and on_aws):
            from opx.adapters.aws.textract import TextractOcr

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
        from opx.adapters.aws.bedrock_images import BedrockImageDescriber

        client = cache(lambda: self._aws("bedrock-runtime", read_seconds=120.0))
        return BedrockImageDescriber(client, settings.vision_model)

    def _managed_engine(self) -> SearchEngine:
        from opx.adapters.aws.bedrock_knowledge_base import BedrockKnowledgeBase

        client = self._aws("bedrock-agent-runtime", read_seconds=self.settings.search_timeout, attempts=2)
        return BedrockKnowledgeBase(client, self.settings.knowledge_base_id)

    @cached_property
    def copies(self) -> ChunkCopies | None:
        """Also gets what the index gets, where a managed service makes an index of its own."""
        if not self.settings.sync_queue_url:
            return None
        from opx.adapters.aws.knowledge_base_copies import KnowledgeBaseCopies
        from opx.adapters.aws.queue import SqsQueue

        requests = SqsQueue(self._aws("sqs"), self.settings.sync_queue_url)
        return KnowledgeBaseCopies(self.store, requests, self.clock)

    @cached_property
    def index_sync(self) -> IndexSync:
        """Has the managed knowledge base index what the copies are."""
        from opx.adapters.aws.knowledge_base_sync import KnowledgeBaseSync

        client = self._aws("bedrock-agent", attempts=1)  # requests to sync come again by themselves
        return KnowledgeBaseSync(client, self.settings.knowledge_base_id, self.settings.data_source_id)

    def _telemetry_stores(self) -> TelemetryStores | None:
        """Clients try again once at most: who asks waits for the answer."""
        given = self._given.get("telemetry_stores")
        if given is not None or self.settings.backend != "aws":
            return given
        from opx.adapters.aws.cloudwatch_logs import CloudWatchLogs
        from opx.adapters.aws.cloudwatch_series import CloudWatchSeries
        from opx.adapters.aws.xray_traces import XRayTraces
        from opx.ports.telemetry import TelemetryStores

        patience: dict[str, Any] = {"read_seconds": 8.0, "attempts": 2}
        return TelemetryStores(
            CloudWatchLogs(self._aws("logs", **patience)),
            CloudWatchSeries(self._aws("cloudwatch", **patience)),
            XRayTraces(self._aws("xray", **patience), self.clock),
        )

    def _metric_reader(self) -> MetricReader | None:
        given = self._given.get("metric_reader")
        if given is not None or self.settings.backend != "aws":
            return given
        from opx.adapters.aws.cloudwatch_metrics import CloudWatchMetrics

        return CloudWatchMetrics(self._aws("cloudwatch"))

    def _redis_feeds(
        self,
        streams: Callable[[], Sequence[StreamDefinition]],
        taker: Callable[[StreamDefinition], RecordTaker],
    ) -> Feed:
        from opx.adapters.redis_streams import RedisFeeds, RedisStreamFeed

        def feed(stream: StreamDefinition) -> RedisStreamFeed:
            return RedisStreamFeed(stream, taker(stream), password=lambda: self.secrets.get(stream.password_secret))

        return RedisFeeds(streams, feed)

    def _internet(self) -> InternetSearch | None:
        from opx.websearch.making import internet_search

        return internet_search(self.installation, self.tables, self.secrets)

    # -- capabilities

    @cached_property
    def corpus(self) -> Corpus:
        return Corpus(
            self.installation,
            self.tables,
            self.storage,
            self.work,
            store=self._given.get("store"),
            upload_signer=self._given.get("upload_signer"),
        )

    @cached_property
    def indexing(self) -> Indexing:
        return Indexing(
            self.installation,
            self.tables,
            self._indexes,
            self._new_embedder,
            self._managed_engine,
            index=self._given.get("index"),
            embedder=self._given.get("embedder"),
        )

    @cached_property
    def models(self) -> Models:
        return Models(self.settings, self._new_chat, self._new_reranker, self._given.get("chat"))

    @cached_property
    def telemetry(self) -> Telemetry:
        return Telemetry(self.installation, self.tables, self._telemetry_stores, self._metric_reader)

    @cached_property
    def graph(self) -> Graph:
        return Graph(self.installation, self.tables, self.storage, self.corpus, self._new_chat)

    @cached_property
    def ingestion(self) -> Ingestion:
        from opx.ingestion.capability import Ingestion

        return Ingestion(
            self.installation,
            self.tables,
            self.storage,
            self.work,
            corpus=self.corpus,
            indexing=self.indexing,
            graph=self.graph,
            telemetry=self.telemetry,
            parsing_tools=self.parsing_tools,
            copies=lambda: self.copies,
            new_chat=self._new_chat,
        )

    @cached_property
    def records(self) -> QuestionRecords:
        return QuestionRecords(self.installation, self.tables, self.corpus, self.indexing)

    @cached_property
    def learning(self) -> Learning:
        from opx.learning.capability import Learning

        return Learning(
            self.installation,
            self.tables,
            corpus=self.corpus,
            indexing=self.indexing,
            manager_of=self._manager_of,
            records=self.records,
        )

    def _manager_of(self, scope: Scope) -> IngestionManager:
        return self.ingestion.manager_of(scope)

    @cached_property
    def lifecycle(self) -> Lifecycle:
        from opx.lifecycle.capability import Lifecycle

        return Lifecycle(
            self.installation,
            self.tables,
            self.storage,
            self.work,
            corpus=self.corpus,
            indexing=self.indexing,
            graph=self.graph,
            ingestion=self.ingestion,
            learning=self.learning,
            schedule=lambda: self.connectors.schedule(),  # noqa: PLW0108 - opened when it is first used
        )

    @cached_property
    def questions(self) -> Questions:
        return Questions(
            self.installation,
            corpus=self.corpus,
            indexing=self.indexing,
            models=self.models,
            graph=self.graph,
            learning=self.learning,
            telemetry=self.telemetry,
            records=self.records,
            past=self._past,
            internet=self._internet,
        )

    def _past(self, asked: Asked, where: SearchFilter, index: SearchEngine) -> SearchEngine:
        return self.lifecycle.as_of.engine(asked, where, index)

    @cached_property
    def pattern_queries(self) -> PatternQueries:
        from opx.learning.queries import PatternQueries

        return PatternQueries(self.installation, self.corpus, self.learning, self.questions, self.records)

    @cached_property
    def connectors(self) -> Connectors:
        from opx.sources.capability import Connectors

        return Connectors(
            self.installation,
            self.tables,
            self.storage,
            self.work,
            secrets=lambda: self.secrets,
            telemetry=self.telemetry,
            manager=lambda: self.manager,
            functions=self.functions,
            feeds=self._redis_feeds,
        )

    @cached_property
    def tenants(self) -> Tenants:
        from opx.tenants.capability import Tenants
        from opx.tenants.holdings import ClientStores

        tables, storage, work = self.tables, self.storage, self.work
        return Tenants(
            self.installation,
            ClientStores(tables, storage, work, self.corpus, self.indexing, lambda: self.copies),
            graph=self.graph,
            ingestion=self.ingestion,
            holds=self.lifecycle.holds,
            connectors=self.connectors,
        )

    def runner(self, tell: Callable[[str], None], feeds: Sequence[Feed] = ()) -> Runner:
        """Does in this process what schedules and functions do on AWS."""
        from opx.running import Runner

        sources, clock = self.connectors.sources, self.clock
        return Runner(
            sources, self.connectors.puller, lambda: self.ingestion.drain, clock=clock, tell=tell, feeds=feeds
        )

    @cached_property
    def manager(self) -> IngestionManager:
        """Puts documents of the installation's own scope into the corpus."""
        return self.ingestion.manager_of(self.installation.scope, self.connectors.ways_in)
