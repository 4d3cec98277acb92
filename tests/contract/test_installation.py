"""The stores and the queue of an installation keep their contracts: those of a home folder, and those on AWS."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest

from opx.adapters.embedded.home import FolderStorage, HomeDatabases, HomeTables, HomeWorkQueue
from opx.errors import ReindexBusyError, SourceBusyError
from opx.ports.tables import DOCUMENTS, PROJECTS
from opx_aws.ports import DynamoTables, FunctionWorkQueue, S3Storage
from opx_aws.queue import SqsQueue
from opx_testing.fake_time import FakeTime
from tests.aws.tables import create_table
from tests.contract.installation_contracts import StorageContract, TablesContract, WorkQueueContract


@pytest.fixture
def databases(tmp_path: Path) -> Iterator[HomeDatabases]:
    made = HomeDatabases(tmp_path / "home")
    yield made
    made.close()


class TestHomeTables(TablesContract):
    @pytest.fixture
    def tables(self, databases: HomeDatabases, time: FakeTime) -> HomeTables:
        return HomeTables(databases, time.clock)


class TestDynamoTables(TablesContract):
    @pytest.fixture
    def tables(self, aws: boto3.Session, time: FakeTime) -> DynamoTables:
        client: Any = aws.client("dynamodb")
        for spec in (PROJECTS, DOCUMENTS):
            create_table(client, spec, "test-")
        return DynamoTables(lambda _: client, "test-", time.clock)


class TestFolderStorage(StorageContract):
    @pytest.fixture
    def storage(self, tmp_path: Path) -> FolderStorage:
        return FolderStorage(tmp_path / "corpus")


class TestS3Storage(StorageContract):
    @pytest.fixture
    def storage(self, aws: boto3.Session) -> S3Storage:
        client = aws.client("s3")
        client.create_bucket(Bucket="corpus", CreateBucketConfiguration={"LocationConstraint": "eu-central-1"})
        return S3Storage("corpus", lambda _, **__: client)


class TestHomeWorkQueue(WorkQueueContract):
    @pytest.fixture
    def work(self, databases: HomeDatabases, time: FakeTime) -> HomeWorkQueue:
        return HomeWorkQueue(databases, time.clock)

    def test_a_second_pull_and_a_second_reindex_are_refused(self, databases: HomeDatabases, time: FakeTime) -> None:
        first, second = HomeWorkQueue(databases, time.clock), HomeWorkQueue(databases, time.clock)
        with first.exclusive_pull("docs"), second.exclusive_pull("blog"), first.exclusive_reindex():
            with pytest.raises(SourceBusyError, match="docs"), second.exclusive_pull("docs"):
                pass
            with pytest.raises(ReindexBusyError), second.exclusive_reindex():
                pass


class TestFunctionWorkQueue(WorkQueueContract):
    @pytest.fixture
    def work(self, aws: boto3.Session) -> FunctionWorkQueue:
        client = aws.client("sqs")
        url = client.create_queue(QueueName="ingest")["QueueUrl"]
        return FunctionWorkQueue(lambda: SqsQueue(client, url, wait_seconds=0))
