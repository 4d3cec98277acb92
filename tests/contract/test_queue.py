"""Both queues keep the contract."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest

from opx.adapters.embedded.database import open_database
from opx.adapters.embedded.table import SqliteQueue
from opx_aws.queue import SqsQueue
from opx_testing.fake_time import FakeTime
from opx_testing.queue import QueueContract
from tests.doubles.one_call_at_a_time import OneCallAtATime


class TestSqsQueue(QueueContract):
    @pytest.fixture
    def queue(self, aws: boto3.Session) -> SqsQueue:
        client: Any = OneCallAtATime(aws.client("sqs"))
        return SqsQueue(client, client.create_queue(QueueName="ingest")["QueueUrl"], wait_seconds=0)


class TestSqliteQueue(QueueContract):
    @pytest.fixture
    def other(self, tmp_path: Path, time: FakeTime) -> Iterator[SqliteQueue]:
        database = open_database(tmp_path / "opx.sqlite")
        yield SqliteQueue(database, "other", clock=time.clock)
        database.close()

    @pytest.fixture
    def queue(self, tmp_path: Path, time: FakeTime) -> Iterator[SqliteQueue]:
        database = open_database(tmp_path / "opx.sqlite")
        yield SqliteQueue(database, "ingest", clock=time.clock)
        database.close()

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
