"""Provides the ports of an installation on AWS."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from opx.adapters.limits import check_item, check_metadata, check_object_key
from opx.errors import ForbiddenAddressError, IncompatibleIndexError
from opx.ports.tables import TableSpec
from opx.settings import FIRST_COLLECTION

if TYPE_CHECKING:
    from opx.ingestion.indexing.book import Edition
    from opx.ports import Clock, Embedder, Item, ObjectStore, Queue, SearchIndex, Table
    from opx.ports.sources import SourceSchedules, StreamSubscriptions
    from opx.settings import Settings
    from opx_aws.object_store import S3ObjectStore, S3UploadSigner
    from opx_aws.object_versions import S3ObjectHistory, S3PastObjects
    from opx_aws.replaced_objects import S3ReplaceableObjects
    from opx_aws.table import DynamoTable

SETTLING_SECONDS = 20.0
"""DynamoDB's indexes lag for a moment, OpenSearch Serverless for up to 15 seconds."""

CLASSIC_SETTLING_SECONDS = 65.0
"""A classic collection shows writes after its next refresh, which comes every minute."""

NODE_SETTLING_SECONDS = 1.0
"""A node of OpenSearch shows writes after its next refresh, which comes every second."""

EDITION_CACHE_SECONDS = 10.0
"""A warm function searches a replaced index no longer than this."""

log = logging.getLogger(__name__)

NewClient = Callable[..., Any]
"""Creates a client of a service, with the options of `opx_aws.clients.client`."""


class AwsClients:
    """Creates boto3 clients that share a session, which caches service descriptions."""

    @cached_property
    def session(self) -> Any:
        from opx_aws.clients import new_session

        return new_session()

    def __call__(self, service: str, **options: Any) -> Any:
        from opx_aws.clients import client

        return client(service, session=self.session, **options)

    def load(self, *services: str) -> None:
        """Loads the service descriptions of these clients. Needs no credentials and opens no connection."""
        from opx_aws.clients import load_descriptions

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
        from opx_aws.table import DynamoTable

        return DynamoTable(spec, self._client, prefix=self._prefix, clock=self._clock)

    def every_item(self, spec: TableSpec, *, after: Item | None = None) -> Iterator[Item]:
        return self._table(spec).scan(after)

    def check_item(self, spec: TableSpec, item: Mapping[str, Any]) -> None:
        check_item(spec, item)

    def unit_of_work(self, *, synced: bool = True) -> AbstractContextManager[Any]:  # noqa: ARG002 - each write is durable
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
    integrity = None

    def __init__(self, bucket: str, client: NewClient) -> None:
        self._bucket = bucket
        self._new_client = client

    def together(self) -> AbstractContextManager[None]:
        return nullcontext()  # an object is durable when its request ends

    def grouped(self) -> AbstractContextManager[None]:
        return nullcontext()

    @cached_property
    def objects(self) -> S3ObjectStore:
        return self._objects_of(self._bucket)

    def _objects_of(self, bucket: str) -> S3ObjectStore:
        from opx_aws.object_store import S3ObjectStore

        return S3ObjectStore(bucket, self._new_client("s3"))

    @cached_property
    def replaceable(self) -> S3ReplaceableObjects:
        from opx_aws.replaced_objects import S3ReplaceableObjects

        return S3ReplaceableObjects(self._bucket, self._new_client("s3"))

    @cached_property
    def history(self) -> S3ObjectHistory:
        from opx_aws.object_versions import S3ObjectHistory

        return S3ObjectHistory(self._bucket, self._new_client("s3"))

    @cached_property
    def past(self) -> S3PastObjects:
        from opx_aws.object_versions import S3PastObjects

        return S3PastObjects(self._bucket, self._new_client("s3"))

    @cached_property
    def signer(self) -> S3UploadSigner:
        from opx_aws.object_store import S3UploadSigner

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

    def exclusive(self, waits: Callable[[], None] | None = None) -> AbstractContextManager[None]:  # noqa: ARG002
        return nullcontext()

    def exclusive_pull(self, source_id: str) -> AbstractContextManager[None]:  # noqa: ARG002 - leases do
        return nullcontext()

    def exclusive_bulk(self, job_id: str) -> AbstractContextManager[None]:  # noqa: ARG002 - executions run it
        return nullcontext()

    def exclusive_reindex(self) -> AbstractContextManager[None]:
        return nullcontext()

    def discard(self, unwanted: Callable[[str], bool], *, dry: bool = False) -> int | None:  # noqa: ARG002
        return None


@dataclass(frozen=True)
class SearchCollection:
    """A collection of OpenSearch Serverless, or a node. `client` creates its client; `own_ids` is as for `OpenSearchIndex`,
    and `engine` searches the vectors of indexes that are made in it, empty for its default."""

    client: Callable[[], Any]
    generation: str = "nextgen"
    own_ids: bool | None = None
    engine: str = ""
    settling_seconds: float = SETTLING_SECONDS

    @classmethod
    def of_generation(cls, client: Callable[[], Any], generation: str, own_ids: str) -> SearchCollection:
        """One of OpenSearch Serverless; `own_ids` is `on`, `off` or empty."""
        from opx_aws.opensearch_schema import CLASSIC_ENGINE

        known = own_ids == "on" if own_ids else None
        if generation == "classic":
            return cls(client, generation, known, CLASSIC_ENGINE, CLASSIC_SETTLING_SECONDS)
        return cls(client, generation, known)

    @cached_property
    def opened(self) -> Any:
        """Its client, created on first use, which loads credentials."""
        return self.client()


class OpenSearchIndexes:
    """`IndexService` of OpenSearch: one index per edition, whose name begins with that of the first one, in the edition's
    collection.

    `collections` are those of the deployment by name, the one of the settings first. On a self-hosted node (`is_node`),
    opening creates the first index, which the deployment does elsewhere.
    """

    cache_seconds = EDITION_CACHE_SECONDS
    counts_changes = False

    def __init__(
        self, collections: Mapping[str, SearchCollection], name: str, *, timeout: float, is_node: bool = False
    ) -> None:
        self._collections = collections
        self.collections: Sequence[str] = () if is_node else tuple(collections)
        self._own, *_ = collections
        self.own_name = name if self._own in ("", FIRST_COLLECTION) else f"{name} in {self._own}"
        self.subject = f"index {name}"
        self._name = name
        self._timeout = timeout
        self._is_node = is_node
        self.settling_seconds = max(one.settling_seconds for one in collections.values())
        self.may_sleep = not is_node and any(one.generation == "nextgen" for one in collections.values())

    def connect(self) -> None:
        """Creates the client of the settings' collection, which loads credentials."""
        assert self._collections[self._own].opened

    def _index_name(self, edition: Edition) -> str:
        return f"{self._name}-{edition.name}" if edition.name else self._name

    def _collection(self, edition: Edition) -> SearchCollection:
        """Editions of earlier releases have no collection: they are in the first one."""
        if self._is_node:
            return self._collections[self._own]
        name = edition.collection or FIRST_COLLECTION
        if name not in self._collections:
            raise IncompatibleIndexError(
                f"the index is in the collection {name}, which this deployment doesn't use: deploy with both "
                f"collections (docs/rebuild.md, 'Another collection'), or remove the index with `opx reindex --discard`"
            )
        return self._collections[name]

    def open(self, edition: Edition, embedder: Callable[[], Embedder]) -> SearchIndex:
        from opx_aws.opensearch import OpenSearchIndex

        collection, model = self._collection(edition), embedder()
        if self._is_node and not edition.name:
            self._make(edition, model.model_id, model.dimension)
        return OpenSearchIndex(
            collection.opened,
            self._index_name(edition),
            generation=collection.generation,
            own_ids=collection.own_ids,
            timeout=self._timeout,
            vectors_of=model,
        )

    def make(self, edition: Edition) -> None:
        self._make(edition, edition.model_id, edition.dimension)

    def _make(self, edition: Edition, model_id: str, dimension: int) -> None:
        from opx_aws.opensearch import ensure_index

        collection, name = self._collection(edition), self._index_name(edition)
        ensure_index(collection.opened, name, model_id=model_id, dimension=dimension, engine=collection.engine)

    def remove(self, edition: Edition) -> None:
        from opx_aws.opensearch import delete_index

        try:
            collection = self._collection(edition)
        except IncompatibleIndexError as exc:
            log.warning("index %s was left where it is: %s", self._index_name(edition), exc)
            return
        delete_index(collection.opened, self._index_name(edition))

    def check(self, edition: Edition) -> None:
        from opx_aws.opensearch import check_index

        client, name = self._collection(edition).opened, self._index_name(edition)
        check_index(client, name, model_id=edition.model_id, dimension=edition.dimension)


class DeployedFunctions:
    """`Functions` of a deployed system, by the queue, group or name in the settings."""

    def __init__(self, settings: Settings, client: NewClient) -> None:
        self._settings = settings
        self._new_client = client

    def _queue(self, url: str) -> Queue | None:
        from opx_aws.queue import SqsQueue

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
        from opx_aws.triggers import EventBridgeSchedules, PullTarget

        settings = self._settings
        if not settings.schedule_group:
            return None
        target = PullTarget(settings.pull_queue_arn, settings.pull_role_arn, settings.pull_failed_arn)
        return EventBridgeSchedules(self._new_client("scheduler"), settings.schedule_group, target)

    @cached_property
    def stream_subscriptions(self) -> StreamSubscriptions | None:
        from opx_aws.triggers import EventSourceMappings

        function, failed = self._settings.stream_function, self._settings.stream_failed_arn
        return EventSourceMappings(self._new_client("lambda"), function, failed=failed) if function else None
