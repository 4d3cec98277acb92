"""The stores and the queue of an installation keep their contracts: those of a home folder, and those on AWS."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest

from opx.adapters.embedded.database import Database
from opx.adapters.embedded.home import FolderStorage, HomeDatabases, HomeTables, HomeWorkQueue
from opx.adapters.embedded.object_store import FolderObjectStore
from opx.adapters.embedded.table import SqliteQueue
from opx.errors import ForbiddenAddressError, InvalidInputError, ReindexBusyError, SourceBusyError, SourceRefusedError
from opx.ports import Storage, Tables, WorkQueue
from opx.ports.tables import DOCUMENTS, PROJECTS
from opx_aws.object_store import S3ObjectStore
from opx_aws.ports import DynamoTables, FunctionWorkQueue, S3Storage
from opx_aws.queue import SqsQueue
from opx_testing.fake_time import FakeTime
from opx_testing.object_store import ObjectStoreContract
from opx_testing.queue import QueueContract
from tests.doubles.hooked_table import OneCallAtATime
from tests.doubles.memory_bucket import MemoryObjects
from tests.support.dynamo_tables import create_table

PROJECT = {"clientId": "acme", "projectId": "shop"}


class TablesContract:
    def test_tables_of_one_specification_share_their_items(self, tables: Tables) -> None:
        tables.table(PROJECTS).put({**PROJECT, "groupId": "web"})
        assert tables.table(PROJECTS).get(PROJECT) == {**PROJECT, "groupId": "web"}
        assert tables.table(DOCUMENTS).get({"documentId": "acme", "entry": "shop"}) is None

    def test_every_item_is_listed_once(self, tables: Tables) -> None:
        assert list(tables.every_item(PROJECTS)) == []
        items = [{**PROJECT, "projectId": f"p{number}"} for number in range(30)]
        tables.table(PROJECTS).put_many(items)
        assert sorted(item["projectId"] for item in tables.every_item(PROJECTS)) == sorted(
            item["projectId"] for item in items
        )

    def test_listing_goes_on_behind_any_item(self, tables: Tables) -> None:
        table = tables.table(PROJECTS)
        table.put_many({**PROJECT, "clientId": f"c{number % 7}", "projectId": f"p{number}"} for number in range(30))
        keys = [PROJECTS.key_of(item) for item in tables.every_item(PROJECTS)]
        table.delete(keys[11])
        assert [PROJECTS.key_of(item) for item in tables.every_item(PROJECTS, after=keys[11])] == keys[12:]
        assert list(tables.every_item(PROJECTS, after=keys[-1])) == []

    @pytest.mark.parametrize("item", [{"clientId": "acme"}, {"clientId": "", "projectId": "x"}])
    def test_an_item_that_would_not_be_stored_is_refused_before(self, tables: Tables, item: dict[str, str]) -> None:
        with pytest.raises(InvalidInputError):
            tables.check_item(PROJECTS, item)
        assert list(tables.every_item(PROJECTS)) == []

    def test_an_item_that_would_be_stored_is_not_stored_by_the_check(self, tables: Tables) -> None:
        tables.check_item(PROJECTS, PROJECT)
        assert list(tables.every_item(PROJECTS)) == []

    @pytest.mark.parametrize("synced", [True, False])
    def test_a_unit_of_work_keeps_what_was_written_in_it(self, tables: Tables, *, synced: bool) -> None:
        with tables.unit_of_work(synced=synced):
            tables.table(PROJECTS).put(PROJECT)
        assert tables.table(PROJECTS).get(PROJECT) == PROJECT

    def test_nothing_is_purged_or_scrubbed_that_is_in_use(self, tables: Tables) -> None:
        tables.table(PROJECTS).put(PROJECT)
        assert tables.purge_expired() == 0
        tables.scrub()
        assert tables.table(PROJECTS).get(PROJECT) == PROJECT

    def test_closing_twice_does_no_harm(self, tables: Tables) -> None:
        tables.close()
        tables.close()


class StorageContract:
    def test_an_objects_location_is_known_before_it_exists(self, storage: Storage) -> None:
        location = storage.location("documents/a b.md")
        assert storage.objects.put("documents/a b.md", b"a").location == location

    def test_history_has_what_objects_have(self, storage: Storage) -> None:
        storage.objects.put("documents/a.md", b"a")
        assert set(storage.history.held("documents/")) >= {"documents/a.md"}

    def test_objects_of_a_group_are_stored_when_it_ends(self, storage: Storage) -> None:
        with storage.grouped():
            put = [storage.objects.put(f"documents/{name}.md", b"text", metadata={"name": name}) for name in "ab"]
        assert [storage.objects.head(info.key) for info in put] == put
        with storage.grouped():
            last = [storage.objects.put("documents/a.md", text) for text in (b"first", b"last")][1]
        assert storage.objects.head("documents/a.md") == last

    @pytest.mark.parametrize("key", ["", "../a", "a//b"])
    def test_a_key_that_would_not_be_stored_is_refused_before(self, storage: Storage, key: str) -> None:
        with pytest.raises(InvalidInputError):
            storage.check(key, {})

    def test_metadata_that_is_too_long_is_refused_before(self, storage: Storage) -> None:
        storage.check("documents/a.md", {"note": "short"})
        with pytest.raises(InvalidInputError):
            storage.check("documents/a.md", {"note": "x" * 5000})

    def test_the_corpus_itself_is_no_other_bucket(self, storage: Storage) -> None:
        with pytest.raises((ForbiddenAddressError, SourceRefusedError)):
            storage.other_bucket("corpus")


class WorkQueueContract:
    def test_sent_message_waits_once(self, work: WorkQueue) -> None:
        work.queue.send("a")
        assert work.queue.waiting() == 1

    def test_numbers_grow_where_this_process_sends_the_events(self, work: WorkQueue) -> None:
        number = work.next_number
        assert (number is not None) == work.in_process
        if number:
            first, second = number(), number()
            assert first < second

    def test_exclusive_work_gives_back_what_it_holds(self, work: WorkQueue) -> None:
        for _ in range(2):
            with work.exclusive(), work.exclusive_pull("source"), work.exclusive_reindex():
                work.queue.send("a")
        assert work.queue.waiting() == 2

    def test_messages_are_discarded_where_they_can_be_looked_at(self, work: WorkQueue) -> None:
        for body in ("a", "b", "a"):
            work.queue.send(body)
        found = work.discard(lambda body: body == "a", dry=True)
        assert found in (None, 2)
        assert work.queue.waiting() == 3
        if found is not None:
            assert work.discard(lambda body: body == "a") == 2
            assert work.queue.waiting() == 1


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


class TestFolderObjectStore(ObjectStoreContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> FolderObjectStore:
        return FolderObjectStore(tmp_path / "corpus")


class TestS3ObjectStore(ObjectStoreContract):
    @pytest.fixture
    def store(self, aws: boto3.Session) -> S3ObjectStore:
        client = aws.client("s3")
        client.create_bucket(Bucket="corpus", CreateBucketConfiguration={"LocationConstraint": "eu-central-1"})
        return S3ObjectStore("corpus", client)


class TestMemoryObjects(ObjectStoreContract):
    """The double with which large runs are made."""

    @pytest.fixture
    def store(self) -> MemoryObjects:
        return MemoryObjects("corpus")


class TestSqsQueue(QueueContract):
    @pytest.fixture
    def queue(self, aws: boto3.Session) -> SqsQueue:
        client: Any = OneCallAtATime(aws.client("sqs"))
        return SqsQueue(client, client.create_queue(QueueName="ingest")["QueueUrl"], wait_seconds=0)


class TestSqliteQueue(QueueContract):
    @pytest.fixture
    def other(self, database: Database, time: FakeTime) -> SqliteQueue:
        return SqliteQueue(database, "other", clock=time.clock)

    @pytest.fixture
    def queue(self, database: Database, time: FakeTime) -> SqliteQueue:
        return SqliteQueue(database, "ingest", clock=time.clock)

    @pytest.mark.parametrize("how", ["hidden", "delayed", "retried"])
    def test_message_that_waits_is_delivered_in_time(self, queue: SqliteQueue, time: FakeTime, how: str) -> None:
        queue.send("a", delay_seconds=30 if how == "delayed" else 0)
        if how == "hidden":
            queue.receive(hide_seconds=30)
        if how == "retried":
            queue.retry(queue.receive()[0].receipt, delay_seconds=30)
        time.sleep(29)
        assert queue.receive() == []
        time.sleep(1)
        assert [message.receives for message in queue.receive()] == [1 if how == "delayed" else 2]

    def test_messages_come_in_the_order_of_their_time(self, queue: SqliteQueue, time: FakeTime) -> None:
        for body, delay in (("c", 2), ("b", 1), ("a", 0)):
            queue.send(body, delay_seconds=delay)
        time.sleep(5)
        assert [queue.receive(limit=1)[0].body for _ in range(3)] == ["a", "b", "c"]

    def test_late_receiver_can_not_touch_a_message_that_others_work_on(
        self, queue: SqliteQueue, time: FakeTime
    ) -> None:
        queue.send("a")
        (late,) = queue.receive(hide_seconds=1)
        time.sleep(2)
        (current,) = queue.receive(hide_seconds=300)
        queue.retry(late.receipt)
        queue.done(late.receipt)
        assert queue.receive() == []
        assert queue.waiting() == 1
        queue.done(current.receipt)
        assert queue.waiting() == 0

    def test_receipt_does_not_reach_a_later_message(self, queue: SqliteQueue) -> None:
        queue.send("a")
        (first,) = queue.receive()
        queue.done(first.receipt)
        queue.send("b")
        queue.receive()
        queue.done(first.receipt)
        assert queue.waiting() == 1

    def test_queues_of_one_database_are_separate(self, queue: SqliteQueue, other: SqliteQueue) -> None:
        queue.send("a")
        (message,) = queue.receive()
        assert other.receive() == []
        assert other.waiting() == 0
        other.done(message.receipt)
        other.retry(message.receipt)
        assert other.release_all() == 0
        assert (queue.receive(), queue.waiting()) == ([], 1)

    def test_release_makes_received_messages_visible_and_no_others(self, queue: SqliteQueue, time: FakeTime) -> None:
        for body, delay in (("received", 0), ("retried", 0), ("delayed", 60)):
            queue.send(body, delay_seconds=delay)
        received = {message.body: message.receipt for message in queue.receive(hide_seconds=300)}
        queue.retry(received["retried"], delay_seconds=60)
        assert queue.release_all() == 1
        assert [(message.body, message.receives) for message in queue.receive()] == [("received", 2)]
        time.sleep(60)
        assert {message.body: message.receives for message in queue.receive()} == {"retried": 2, "delayed": 1}
