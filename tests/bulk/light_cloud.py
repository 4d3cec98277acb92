"""A deployed system with bulk jobs for runs of many documents: as `bulk_cloud`, but for S3 and DynamoDB, which are a bucket
in memory and the tables of the embedded engine. moto takes some 4 ms a request, and a document has forty.

The synthesised state machine and its interpreter, the function and the stages' code, OpenSearch and its adapter, and batch
inference with its quotas and failures are those of `bulk_cloud`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, cast

import boto3
import pytest

from lambdas.bulk_stage.handler import make_handler
from opx.adapters.embedded.home import HomeDatabases, HomeTables
from opx.ports import ObjectInfo
from opx.ports.bulk import BatchLimits
from opx.ports.tables import FAILURES
from opx.settings import FIRST_COLLECTION, Settings
from opx.system import bootstrap
from opx_aws.batch_embedder import BedrockBatchEmbedder
from opx_aws.bedrock_embedder import BedrockEmbedder
from opx_aws.executions import StateMachineRunner
from opx_aws.opensearch import ensure_index, opensearch_client
from opx_aws.ports import OpenSearchIndexes, SearchCollection
from opx_bulk import ingesting
from opx_bulk.applying import apply_objects
from opx_bulk.files import MANIFEST
from opx_testing.fake_time import FakeTime
from tests.aws.cloud import BUCKET, INDEX
from tests.bulk.bulk_cloud import ROLE, BulkCloud
from tests.doubles.batch_inference import BatchInferenceDouble
from tests.doubles.bedrock import BedrockDouble
from tests.doubles.memory_bucket import MemoryObjects, MemoryS3, MemoryStorage
from tests.doubles.opensearch import OpenSearchDouble
from tests.doubles.step_functions import Functions, StateMachine, a_state_machine
from tests.support.fakes import function_logs

DIMENSION = 256
"""The fewest numbers that the model's vectors may have."""


class AccountTables(HomeTables):
    """Tables that are used as those of DynamoDB are: each write is visible by itself."""

    in_folder = False

    def unit_of_work(self, *, synced: bool = True) -> AbstractContextManager[Any]:
        return nullcontext()


class ReadByInterpreter(MemoryObjects):
    """Objects of which the interpreter reads a job's list of shards, in the bucket of moto's account."""

    def __init__(self, bucket: str, s3: Any) -> None:
        super().__init__(bucket)
        self._s3 = s3
        s3.create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": "eu-central-1"})

    def put(self, key: str, data: bytes | BinaryIO, *, metadata: Mapping[str, str] | None = None) -> ObjectInfo:
        info = super().put(key, data, metadata=metadata)
        if key.endswith(f"/{MANIFEST}"):
            with self.open(key) as stream:
                self._s3.put_object(Bucket=self._bucket, Key=key, Body=stream.read())
        return info


class LightCloud(BulkCloud):
    """Has no account of moto: `cloud` is None."""

    @property
    def _objects(self) -> MemoryObjects:
        return cast("MemoryObjects", self.system.storage.objects)

    def put(self, key: str, text: str) -> None:
        self._objects.put(key, text.encode())

    def failed_items(self) -> list[str]:
        return [str(item["objectKey"]) for item in self.system.tables.every_item(FAILURES)]

    def keys(self, prefix: str) -> list[str]:
        return [info.key for info in self._objects.list(prefix)]


@contextmanager
def a_light_cloud(aws: boto3.Session, definition: str, folder: Path, *, children: int = 4) -> Iterator[LightCloud]:
    """Everything deployed and empty, with its tables in a folder. The session is of an account that moto mocks as
    `INTERPRETED`."""
    clock, functions = FakeTime(), Functions({})
    storage = MemoryStorage(ReadByInterpreter(BUCKET, aws.client("s3")))
    s3 = MemoryS3(storage.objects)
    with ExitStack() as stack:
        stack.enter_context(function_logs())
        search, bedrock = stack.enter_context(OpenSearchDouble()), stack.enter_context(BedrockDouble())
        batches = stack.enter_context(BatchInferenceDouble(s3))
        for double in (search, bedrock, batches):
            double.requests, double.responses = cast("Any", deque(maxlen=10)), cast("Any", deque(maxlen=10))
        machine = stack.enter_context(a_state_machine(aws, definition, functions, clock))
        runtime = aws.client("bedrock-runtime", endpoint_url=bedrock.endpoint)
        embedder = BedrockEmbedder(runtime, "amazon.titan-embed-text-v2:0", dimension=DIMENSION)
        client = opensearch_client(search.endpoint, aws.get_credentials(), "eu-central-1")
        stack.callback(client.close)
        ensure_index(client, INDEX, model_id=embedder.model_id, dimension=DIMENSION)
        databases = HomeDatabases(folder)
        stack.callback(databases.close)
        clients = {
            "bedrock": aws.client("bedrock", endpoint_url=batches.endpoint),
            "bedrock-runtime": runtime,
            "s3": s3,
            "stepfunctions": machine.client,
        }
        limits = BatchLimits(100, 50_000, jobs=20)
        system = bootstrap(
            _settings(machine, children),
            clock=clock.clock,
            aws=lambda service, **_: clients[service],
            embedder=embedder,
            batch_embedder=BedrockBatchEmbedder(clients["bedrock"], s3, BUCKET, embedder, role=ROLE, limits=limits),
            storage=cast("Any", storage),
            tables=AccountTables(databases, clock.clock),
            indexes=OpenSearchIndexes({FIRST_COLLECTION: SearchCollection(lambda: client)}, INDEX, timeout=60.0),
        )
        functions.handlers["opx-bulk-stage"] = make_handler(lambda: system)
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        patch.setattr(ingesting, "apply_objects", partial(apply_objects, sleep=clock.sleep))
        runner = StateMachineRunner(machine.client, machine.arn, children=children)
        yield LightCloud(cast("Any", _Search(search)), system, machine, functions, batches, clock, runner)


class _Search:
    """The part of an account that `BulkCloud.indexed` reads."""

    def __init__(self, search: OpenSearchDouble) -> None:
        self.search = search


def _settings(machine: StateMachine, children: int) -> Settings:
    return Settings(
        backend="aws",
        corpus_bucket=BUCKET,
        table_prefix="test-",
        ingest_queue_url="https://sqs.eu-central-1.amazonaws.com/123456789012/ingest",
        embedding_requests_per_minute=600_000,
        query_cache_days=0,
        bulk_state_machine=machine.arn,
        bulk_batch_role=ROLE,
        bulk_children=children,
    )
