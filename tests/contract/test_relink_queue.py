"""Contract tests of the queue of new names over SQLite and DynamoDB."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest

from opx.adapters.embedded.database import open_database
from opx.adapters.embedded.table import SqliteTable
from opx.domain.scopes import Scope
from opx.graph.relink_queue import NAMES_A_ROW, PARTITION, RelinkQueue
from opx.ports import Item, Table
from opx.ports.tables import GRAPH
from opx_aws.table import DynamoTable
from opx_testing.fake_time import FakeTime
from tests.aws.tables import create_table
from tests.support.graph_things import an_origin

HOSTS = ["host:db-1", "host:db-2", "service:büro"]
ACME = Scope("acme")


class RelinkQueueContract:
    @pytest.fixture
    def queue(self, table: Table, time: FakeTime) -> RelinkQueue:
        return RelinkQueue(table, time.clock)

    def waiting(self, queue: RelinkQueue) -> list[str]:
        return sorted(name for row in queue.waiting() for name in row.names)

    def test_an_empty_queue_has_nothing_waiting(self, queue: RelinkQueue) -> None:
        assert queue.waiting() == []
        assert list(queue.items_of(["global"])) == []
        queue.take([], 5)

    def test_names_of_a_document_wait_in_one_row_until_they_are_taken(self, queue: RelinkQueue) -> None:
        added = queue.add(an_origin(scope=ACME), HOSTS)
        assert len(added) == 1
        assert queue.waiting() == added
        assert (added[0].scope_key, list(added[0].names)) == (ACME.key, HOSTS)
        queue.take(added, len(HOSTS))
        assert queue.waiting() == []
        queue.take(added, len(HOSTS))

    def test_many_names_are_split_into_rows(self, queue: RelinkQueue) -> None:
        many = [f"host:h-{number:03}-{'x' * 490}" for number in range(NAMES_A_ROW + 1)]
        assert [len(row.names) for row in queue.add(an_origin(), many)] == [NAMES_A_ROW, 1]
        assert self.waiting(queue) == many

    def test_adding_again_replaces_the_row(self, queue: RelinkQueue) -> None:
        queue.add(an_origin(), HOSTS)
        again = queue.add(an_origin(), HOSTS)
        assert queue.waiting() == again

    def test_a_row_that_was_added_again_meanwhile_stays(self, queue: RelinkQueue) -> None:
        seen = queue.add(an_origin(), HOSTS)
        queue.add(an_origin(), HOSTS)
        queue.take(seen, len(HOSTS))
        assert self.waiting(queue) == HOSTS

    def test_another_version_with_other_names_keeps_those_of_the_first(self, queue: RelinkQueue) -> None:
        queue.add(an_origin(), HOSTS[:2])
        queue.add(an_origin(document="d2"), HOSTS[2:])
        assert self.waiting(queue) == HOSTS

    @pytest.mark.parametrize(("count", "left"), [(0, HOSTS), (1, HOSTS[1:]), (2, HOSTS[2:]), (4, [])])
    def test_the_names_behind_those_that_are_done_stay(self, queue: RelinkQueue, count: int, left: list[str]) -> None:
        rows = [*queue.add(an_origin("a"), HOSTS[:2]), *queue.add(an_origin("b"), HOSTS[2:])]
        queue.take(rows, count)
        assert self.waiting(queue) == left
        queue.take(queue.waiting(), len(HOSTS))
        assert queue.waiting() == []

    def test_rows_are_listed_by_age(self, queue: RelinkQueue, time: FakeTime) -> None:
        old = queue.add(an_origin("old"), HOSTS)
        time.now += 60
        queue.add(an_origin("young"), HOSTS)
        assert queue.waiting(seconds=60) == old
        assert len(queue.waiting()) == 2

    def test_rows_are_listed_by_scope(self, queue: RelinkQueue) -> None:
        for scope in (Scope(), ACME, Scope("acme-b"), Scope("acme", project_id="shop")):
            queue.add(an_origin(scope=scope), HOSTS)
        assert [item["scope"] for item in queue.items_of([ACME.key])] == [ACME.key]

    def test_a_damaged_row_hides_no_other(self, queue: RelinkQueue, table: Table) -> None:
        whole = queue.add(an_origin("a"), HOSTS)[0].to_item()
        damages: list[Item] = [{"names": []}, {"names": ["x"]}, {"names": 1}, {"scope": "?"}, {"since": "x"}]
        for number, damage in enumerate(damages):
            table.put({**whole, "entry": f"global|b#{number}", **damage})
        table.put({"place": PARTITION, "entry": "global|c#1", "scope": "global"})
        queue.take(queue.waiting(), len(HOSTS))
        queue.add(an_origin(), HOSTS)
        assert self.waiting(queue) == HOSTS


class TestEmbeddedRelinkQueue(RelinkQueueContract):
    @pytest.fixture
    def table(self, tmp_path: Path, time: FakeTime) -> Iterator[SqliteTable]:
        database = open_database(tmp_path / "opx.sqlite")
        yield SqliteTable(GRAPH, database, clock=time.clock)
        database.close()


class TestDynamoRelinkQueue(RelinkQueueContract):
    @pytest.fixture
    def table(self, aws: boto3.Session, time: FakeTime) -> DynamoTable:
        client: Any = aws.client("dynamodb")
        create_table(client, GRAPH, "test-")
        return DynamoTable(GRAPH, client, prefix="test-", clock=time.clock, sleep=time.sleep)
