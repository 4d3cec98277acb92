"""The ports of an installation on AWS, by its settings. The adapter of a port is imported when the port is opened."""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from opx.adapters.vendors import VendorPorts
from opx.errors import InvalidInputError
from opx_aws import ports

if TYPE_CHECKING:
    from opx.ports import ChatModel, Clock, Embedder, ObjectStore, Queue, Table
    from opx.ports.telemetry import TelemetryStores
    from opx.runtime.speed_limit import SpeedLimit
    from opx.settings import Settings
    from opx_aws.batch_embedder import BedrockBatchEmbedder
    from opx_aws.bedrock_knowledge_base import BedrockKnowledgeBase
    from opx_aws.bedrock_reranker import BedrockReranker
    from opx_aws.deployed_api import AwsAccount
    from opx_aws.executions import StateMachineRunner
    from opx_aws.knowledge_base_objects import KnowledgeBaseCopies, KnowledgeBaseSync
    from opx_aws.operator import DeployedSystem
    from opx_aws.pictures import BedrockImageDescriber, TextractOcr
    from opx_aws.secrets import ManagedSecrets
    from opx_aws.telemetry import CloudWatchMetrics


class AwsPorts(VendorPorts):
    """`VendorPorts` of AWS. A given `aws` makes the clients in place of boto3's session."""

    def __init__(self, settings: Settings, clock: Clock, given: Mapping[str, Any]) -> None:
        self._settings = settings
        self._clock = clock
        self._given = given

    @cached_property
    def _clients(self) -> ports.AwsClients:
        return ports.AwsClients()

    @property
    def _client(self) -> ports.NewClient:
        return self._given.get("aws") or self._clients

    def load(self) -> None:
        from opx_aws import bedrock_embedder, opensearch, table  # noqa: F401 - loaded, not used

        reranking = ["bedrock-agent-runtime"] if self._settings.reranker == "bedrock" else []
        verifying = ["secretsmanager"] if self._settings.gateway_secret else []
        self._clients.load("bedrock-runtime", "dynamodb", *reranking, *verifying)

    def tables(self) -> ports.DynamoTables:
        return ports.DynamoTables(self._client, self._settings.address("tables").partition(":")[2], self._clock)

    def storage(self) -> ports.S3Storage:
        return ports.S3Storage(self._settings.address("store").removeprefix("s3://").rstrip("/"), self._client)

    def work(self) -> ports.FunctionWorkQueue:
        address = self._settings.address("queue")

        def queue() -> Queue:
            from opx_aws.queue import SqsQueue

            return SqsQueue(self._client("sqs"), self._settings.ingest_queue_url if address == "https:" else address)

        return ports.FunctionWorkQueue(queue)

    def secrets(self, *, of_sources: bool) -> ManagedSecrets:
        from opx_aws.secrets import ManagedSecrets

        prefix = f"{self._settings.table_prefix}opx-knowledge/" if of_sources else ""
        return ManagedSecrets(self._client("secretsmanager"), prefix, self._clock)

    def functions(self) -> ports.DeployedFunctions:
        return ports.DeployedFunctions(self._settings, self._client)

    def indexes(self) -> ports.OpenSearchIndexes:
        return self._serverless() if self._settings.address("index").startswith("aoss:") else self._node()

    def _serverless(self) -> ports.OpenSearchIndexes:
        settings, address = self._settings, urlsplit(self._settings.address("index"))

        def collection(endpoint: str, generation: str, own_ids: str) -> ports.SearchCollection:
            def client() -> Any:
                from opx_aws.opensearch import serverless_client

                return serverless_client(endpoint, timeout=settings.search_timeout, session=self._clients.session)

            return ports.SearchCollection.of_generation(client, generation, own_ids)

        endpoint = f"https://{address.netloc}" if address.netloc else settings.search_endpoint
        own = collection(endpoint, settings.search_generation, settings.search_own_ids)
        collections = {settings.search_collection: own}
        if settings.next_search_endpoint:
            following = settings.next_search_endpoint, settings.next_search_generation, settings.next_search_own_ids
            collections[settings.next_search_collection] = collection(*following)
        name = address.path.strip("/") or settings.search_index
        return ports.OpenSearchIndexes(collections, name, timeout=settings.search_timeout)

    def _node(self) -> ports.OpenSearchIndexes:
        address, timeout = urlsplit(self._settings.address("index")), self._settings.search_timeout
        try:
            port = address.port or 9200
        except ValueError:
            port = 0
        if not address.hostname or not port or not address.path.strip("/"):
            raise InvalidInputError("OPX_INDEX must name host, port and index: opensearch://HOST:PORT/NAME")

        def client() -> Any:
            from opx_aws.opensearch import node_client

            scheme = "https" if address.scheme.endswith("https") else "http"
            user = (unquote(address.username), unquote(address.password or "")) if address.username else None
            return node_client(f"{scheme}://{address.hostname}:{port}", user, timeout=timeout)

        # Every node has Lucene.
        node = ports.SearchCollection(client, engine="lucene", settling_seconds=ports.NODE_SETTLING_SECONDS)
        return ports.OpenSearchIndexes({"": node}, address.path.strip("/"), timeout=timeout, is_node=True)

    def new_embedder(
        self, model: str, dimension: int, limits: MutableMapping[str, SpeedLimit], embeddings: Callable[[], Table]
    ) -> Embedder:
        from opx.runtime.speed_limit import Quota, SpeedLimit
        from opx_aws.bedrock_embedder import DEFAULT_MODEL, THREADS, BedrockEmbedder

        settings, model = self._settings, model or DEFAULT_MODEL
        of_settings = Quota(settings.embedding_requests_per_minute, settings.embedding_tokens_per_minute)
        quota = of_settings if model == (settings.embedding_model or DEFAULT_MODEL) else Quota()
        return BedrockEmbedder(
            self._client("bedrock-runtime", attempts=1),  # the embedder retries within its speed limit
            model,
            dimension=dimension or None,
            limit=limits.setdefault(model, SpeedLimit(quota, embeddings, model)),
            threads=settings.embedding_threads or THREADS,
        )

    def batch_embedder(self, model: str, dimension: int) -> BedrockBatchEmbedder | None:
        from opx.ports.bulk import BatchLimits
        from opx_aws.batch_embedder import BedrockBatchEmbedder
        from opx_aws.bedrock_embedder import DEFAULT_MODEL, BedrockEmbedder

        settings = self._settings
        model = model or settings.embedding_model or DEFAULT_MODEL
        embedder = BedrockEmbedder(self._client("bedrock-runtime"), model, dimension=dimension or None)
        if not embedder.works_in_batches:
            return None
        limits = BatchLimits(settings.batch_fewest_records, settings.batch_most_records, jobs=settings.batch_jobs)
        clients = self._client("bedrock"), self._client("s3")
        role = settings.bulk_batch_role
        return BedrockBatchEmbedder(*clients, settings.corpus_bucket, embedder, role=role, limits=limits)

    def bulk_runner(self) -> StateMachineRunner:
        from opx_aws.executions import StateMachineRunner

        machine, children = self._settings.bulk_state_machine, self._settings.bulk_children
        return StateMachineRunner(self._client("stepfunctions"), machine, children=children)

    def new_chat(self, model: str) -> ChatModel:
        from opx.adapters.json_chat import READ_SECONDS, JsonChat
        from opx_aws.bedrock_chat import BedrockChatService
        from opx_aws.clients import once

        client = once(lambda: self._client("bedrock-runtime", read_seconds=READ_SECONDS, attempts=1))
        return JsonChat(BedrockChatService(client, model))

    def new_reranker(self, model: str) -> BedrockReranker:
        from opx_aws.bedrock_reranker import BedrockReranker
        from opx_aws.clients import once

        return BedrockReranker(once(lambda: self._client("bedrock-agent-runtime", attempts=1)), model)

    def ocr(self) -> TextractOcr:
        from opx_aws.pictures import TextractOcr

        return TextractOcr(cache(lambda: self._client("textract", read_seconds=60.0)))

    def describer(self) -> BedrockImageDescriber:
        from opx_aws.pictures import BedrockImageDescriber

        client = cache(lambda: self._client("bedrock-runtime", read_seconds=120.0))
        return BedrockImageDescriber(client, self._settings.vision_model)

    def managed_engine(self) -> BedrockKnowledgeBase:
        from opx_aws.bedrock_knowledge_base import BedrockKnowledgeBase

        client = self._client("bedrock-agent-runtime", read_seconds=self._settings.search_timeout, attempts=2)
        return BedrockKnowledgeBase(client, self._settings.knowledge_base_id)

    def copies_of(self, store: ObjectStore) -> KnowledgeBaseCopies:
        from opx_aws.knowledge_base_objects import KnowledgeBaseCopies
        from opx_aws.queue import SqsQueue

        requests = SqsQueue(self._client("sqs"), self._settings.sync_queue_url)
        return KnowledgeBaseCopies(store, requests, self._clock)

    def index_sync(self) -> KnowledgeBaseSync:
        from opx_aws.knowledge_base_objects import KnowledgeBaseSync

        client = self._client("bedrock-agent", attempts=1)  # requests to sync are redelivered by their queue
        return KnowledgeBaseSync(client, self._settings.knowledge_base_id, self._settings.data_source_id)

    def telemetry_stores(self) -> TelemetryStores:
        """Clients retry once at most: the caller waits for the answer."""
        from opx.ports.telemetry import TelemetryStores
        from opx_aws.telemetry import CloudWatchLogs, CloudWatchSeries, XRayTraces

        patience: dict[str, Any] = {"read_seconds": 8.0, "attempts": 2}
        return TelemetryStores(
            CloudWatchLogs(self._client("logs", **patience)),
            CloudWatchSeries(self._client("cloudwatch", **patience)),
            XRayTraces(self._client("xray", **patience), self._clock),
        )

    def metric_reader(self) -> CloudWatchMetrics:
        from opx_aws.telemetry import CloudWatchMetrics

        return CloudWatchMetrics(self._client("cloudwatch"))

    def account(self) -> AwsAccount:
        from opx_aws.deployed_api import AwsAccount

        return AwsAccount(self._settings.aws_profile, self._settings.aws_region)

    def operator(self, connect: Callable[[], Any]) -> DeployedSystem:
        from opx_aws.deployed_api import DEFAULT_ENVIRONMENT
        from opx_aws.operator import DeployedSystem

        return DeployedSystem(self.account(), self._settings.environment or DEFAULT_ENVIRONMENT, connect)
