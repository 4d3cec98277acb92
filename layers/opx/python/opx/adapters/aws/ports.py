"""Provides the ports of an installation on AWS."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from typing import TYPE_CHECKING, Any

from opx.adapters.limits import check_item, check_metadata, check_object_key
from opx.errors import ForbiddenAddressError
from opx.ports.tables import TableSpec

if TYPE_CHECKING:
    from opx.adapters.aws.object_store import S3ObjectHistory, S3ObjectStore, S3PastObjects, S3UploadSigner
    from opx.adapters.aws.table import DynamoTable
    from opx.ingestion.indexing.book import Edition
    from opx.ports import Clock, Embedder, Item, ObjectStore, Queue, SearchIndex, Table
    from opx.ports.sources import SourceSchedules, StreamSubscriptions
    from opx.settings import Settings

SETTLING_SECONDS = 20.0
"""DynamoDB's indexes lag for a moment, OpenSearch Serverless for up to 15 seconds."""

NODE_SETTLING_SECONDS = 1.0
"""A node of OpenSearch shows writes after its next refresh, which comes every second."""

EDITION_CACHE_SECONDS = 10.0
"""A warm function searches a replaced index no longer than this."""

NewClient = Callable[..., Any]
"""Creates a client of a service, with the options of `opx.adapters.aws.clients.client`."""


class AwsClients:
    """Creates boto3 clients that share a session, which caches service descriptions."""

    @cached_property
    def session(self) -> Any:
        from opx.adapters.aws.clients import new_session

        return new_session()

    def __call__(self, service: str, **options: Any) -> Any:
        from opx.adapters.aws.clients import client

        return client(service, session=self.session, **options)

    def load(self, *services: str) -> None:
        """Loads the service descriptions of these clients. Needs no credentials and opens no connection."""
        from opx.adapters.aws.clients import load_descriptions

        load_descriptions(self.session, *services)


class DynamoTables:
    """`Tables` in DynamoDB, whose names are `prefix` and the name in the specification."""

    read_threads = 8
    settling_seconds = SETTLING_SECONDS
    in_folder = False

    def __init__(self, client: NewClient, prefix: str, clock: Clock) -> None:
        self._new_client = client
        self._prefix = prefix
        self._clock = clock

    @cached_property
    def _client(self) -> Any:
        return self._new_client("dynamodb")

    def table(self, spec: TableSpec) -> Table:
        return self._table(spec)

    def _table(self, spec: TableSpec) -> DynamoTable:
        from opx.adapters.aws.table import DynamoTable

        return DynamoTable(spec, self._client, prefix=self._prefix, clock=self._clock)

    def every_item(self, spec: TableSpec) -> Iterator[Item]:
        return self._table(spec).scan()

    def check_item(self, spec: TableSpec, item: Mapping[str, Any]) -> None:
        check_item(spec, item)

    def unit_of_work(self) -> AbstractContextManager[Any]:
        return nullcontext()

    def purge_expired(self) -> int:
        """DynamoDB purges by itself."""
        return 0

    def scrub(self) -> None:
        """No-op: there are no local files."""

    def close(self) -> None:
        pass


class S3Storage:
    """`Storage` in a bucket."""

    read_threads = 8

    def __init__(self, bucket: str, client: NewClient) -> None:
        self._bucket = bucket
        self._new_client = client

    @cached_property
    def objects(self) -> S3ObjectStore:
        return self._objects_of(self._bucket)

    def _objects_of(self, bucket: str) -> S3ObjectStore:
        from opx.adapters.aws.object_store import S3ObjectStore

        return S3ObjectStore(bucket, self._new_client("s3"))

    @cached_property
    def history(self) -> S3ObjectHistory:
        from opx.adapters.aws.object_store import S3ObjectHistory

        return S3ObjectHistory(self._bucket, self._new_client("s3"))

    @cached_property
    def past(self) -> S3PastObjects:
        from opx.adapters.aws.object_store import S3PastObjects

        return S3PastObjects(self._bucket, self._new_client("s3"))

    @cached_property
    def signer(self) -> S3UploadSigner:
        from opx.adapters.aws.object_store import S3UploadSigner

        return S3UploadSigner(self._bucket, self._new_client("s3", addressing="virtual"))

    def location(self, key: str) -> str:
        return f"s3://{self._bucket}/{key}"

    def check(self, key: str, metadata: Mapping[str, str]) -> None:
        check_object_key(key)
        check_metadata(metadata)

    def other_bucket(self, name: str) -> ObjectStore:
        if name == self._bucket:
            raise ForbiddenAddressError(f"{name} is the corpus itself: its documents are knowledge already")
        return self._objects_of(name)


class FunctionWorkQueue:
    """`WorkQueue` that functions consume, opened on first use; the corpus bucket sends the events."""

    in_process = False
    next_number = None

    def __init__(self, new_queue: Callable[[], Queue]) -> None:
        self._new_queue = new_queue

    @cached_property
    def queue(self) -> Queue:
        return self._new_queue()

    def exclusive(self) -> AbstractContextManager[None]:
        return nullcontext()

    def exclusive_pull(self, source_id: str) -> AbstractContextManager[None]:  # noqa: ARG002 - leases do
        return nullcontext()

    def exclusive_reindex(self) -> AbstractContextManager[None]:
        return nullcontext()

    def discard(self, unwanted: Callable[[str], bool], *, dry: bool = False) -> int | None:  # noqa: ARG002
        return None


class OpenSearchIndexes:
    """`IndexService` of OpenSearch: one index per edition, whose name begins with that of the first one.

    `client` creates the client on first use. On a self-hosted node (`is_node`), opening creates the first index, which the
    deployment does elsewhere, and Lucene searches the vectors, as every node has it.
    """

    cache_seconds = EDITION_CACHE_SECONDS
    counts_changes = False

    def __init__(
        self,
        client: Callable[[], Any],
        name: str,
        *,
        generation: str,
        timeout: float,
        own_ids: bool | None = None,
        settling_seconds: float = SETTLING_SECONDS,
        is_node: bool = False,
    ) -> None:
        self._new_client = client
        self.own_name = name
        self.subject = f"index {name}"
        self.settling_seconds = settling_seconds
        self._generation = generation
        self._timeout = timeout
        self._own_ids = own_ids
        self._is_node = is_node
        self.may_sleep = generation == "nextgen" and not is_node

    @cached_property
    def _client(self) -> Any:
        return self._new_client()

    def connect(self) -> None:
        """Creates the client, which loads credentials."""
        assert self._client

    def _name(self, edition: Edition) -> str:
        return f"{self.own_name}-{edition.name}" if edition.name else self.own_name

    def open(self, edition: Edition, embedder: Callable[[], Embedder]) -> SearchIndex:
        from opx.adapters.aws.opensearch import OpenSearchIndex

        model = embedder()
        if self._is_node and not edition.name:
            self._make(edition, model.model_id, model.dimension)
        return OpenSearchIndex(
            self._client,
            self._name(edition),
            generation=self._generation,
            own_ids=self._own_ids,
            timeout=self._timeout,
            vectors_of=model,
        )

    def make(self, edition: Edition) -> None:
        self._make(edition, edition.model_id, edition.dimension)

    def _make(self, edition: Edition, model_id: str, dimension: int) -> None:
        from opx.adapters.aws.opensearch import ensure_index

        engine = "lucene" if self._is_node else ""
        ensure_index(self._client, self._name(edition), model_id=model_id, dimension=dimension, engine=engine)

    def remove(self, edition: Edition) -> None:
        from opx.adapters.aws.opensearch import delete_index

        delete_index(self._client, self._name(edition))

    def check(self, edition: Edition) -> None:
        from opx.adapters.aws.opensearch import check_index

        check_index(self._client, self._name(edition), model_id=edition.model_id, dimension=edition.dimension)


class DeployedFunctions:
    """`Functions` of a deployed system, by the queue, group or name in the settings."""

    def __init__(self, settings: Settings, client: NewClient) -> None:
        self._settings = settings
        self._new_client = client

    def _queue(self, url: str) -> Queue | None:
        from opx.adapters.aws.queue import SqsQueue

        return SqsQueue(self._new_client("sqs"), url) if url else None

    @cached_property
    def pulls(self) -> Queue | None:
        return self._queue(self._settings.pull_queue_url)

    @cached_property
    def checkpoints(self) -> Queue | None:
        return self._queue(self._settings.checkpoint_queue_url)

    @cached_property
    def learning_failed(self) -> Queue | None:
        return self._queue(self._settings.learning_failed_url)

    @cached_property
    def rebuilds(self) -> Queue | None:
        return self._queue(self._settings.rebuild_queue_url)

    @cached_property
    def source_schedules(self) -> SourceSchedules | None:
        from opx.adapters.aws.triggers import EventBridgeSchedules, PullTarget

        settings = self._settings
        if not settings.schedule_group:
            return None
        target = PullTarget(settings.pull_queue_arn, settings.pull_role_arn, settings.pull_failed_arn)
        return EventBridgeSchedules(self._new_client("scheduler"), settings.schedule_group, target)

    @cached_property
    def stream_subscriptions(self) -> StreamSubscriptions | None:
        from opx.adapters.aws.triggers import EventSourceMappings

        function, failed = self._settings.stream_function, self._settings.stream_failed_arn
        return EventSourceMappings(self._new_client("lambda"), function, failed=failed) if function else None
