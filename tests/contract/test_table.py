"""Both tables keep the contract."""

from __future__ import annotations

from typing import Any

import boto3
import pytest

from opx.adapters.embedded.database import Database
from opx.adapters.embedded.table import SqliteTable
from opx.ports.tables import SHARDS
from opx_aws.clients import client as deployed_client
from opx_aws.table import DynamoTable, to_attributes
from opx_testing.fake_time import FakeTime
from opx_testing.table import TableContract
from opx_testing.table_query import QueryContract
from opx_testing.table_spread import SpreadContract
from opx_testing.things import ALL_STATES, SPREAD_THINGS, THINGS, a_thing, names
from tests.doubles.counted_writes import CountedWrites
from tests.doubles.hooked_table import OneCallAtATime
from tests.support.dynamo_tables import create_table


class TestSqliteTable(TableContract):
    @pytest.fixture
    def table(self, database: Database, time: FakeTime, monkeypatch: pytest.MonkeyPatch) -> SqliteTable:
        monkeypatch.setattr("opx.adapters.embedded.table.CONTINUED_PAGE", 3)
        return SqliteTable(THINGS, database, clock=time.clock)


class TestDynamoTable(TableContract):
    @pytest.fixture
    def table(self, aws: boto3.Session, time: FakeTime) -> DynamoTable:
        client: Any = OneCallAtATime(deployed_client("dynamodb", session=aws))
        create_table(client, THINGS, "test-")
        return DynamoTable(THINGS, client, prefix="test-", clock=time.clock, sleep=time.sleep)


class TestSpreadSqliteTable(SpreadContract):
    @pytest.fixture
    def table(self, database: Database, time: FakeTime, monkeypatch: pytest.MonkeyPatch) -> SqliteTable:
        monkeypatch.setattr("opx.adapters.embedded.table.CONTINUED_PAGE", 3)
        return SqliteTable(SPREAD_THINGS, database, clock=time.clock)


class TestSpreadDynamoTable(QueryContract, SpreadContract):
    @pytest.fixture
    def client(self, aws: boto3.Session) -> CountedWrites:
        client = CountedWrites(OneCallAtATime(deployed_client("dynamodb", session=aws)))
        create_table(client, SPREAD_THINGS, "test-")
        return client

    @pytest.fixture
    def table(self, client: Any, time: FakeTime) -> DynamoTable:
        return DynamoTable(SPREAD_THINGS, client, prefix="test-", clock=time.clock, sleep=time.sleep)

    def test_writes_are_spread_evenly(self, client: CountedWrites, table: DynamoTable) -> None:
        table.put_many(a_thing(f"{number}", status=ALL_STATES, title="t") for number in range(400))
        table.put_many(a_thing(f"{number}", "bob", status="new", title="t") for number in range(400))
        units = {one.value: count for one, count in client.units.items() if one.index == "status-title-index"}
        assert units.pop("new") == 400
        assert len(units) == SHARDS
        assert max(units.values()) < 1.3 * 400 / SHARDS

    def test_items_of_a_release_without_shards_are_found(self, client: CountedWrites, table: DynamoTable) -> None:
        """Their stored value is the plain one, which is also that of a shard; they move when they are written again."""
        old = [a_thing(f"{number}", status=ALL_STATES, title=f"{number:02}") for number in range(20)]
        for item in old:
            client.client.put_item(TableName="test-spread-things", Item=to_attributes(item))
        table.put_many(old[10:])
        found = table.query(ALL_STATES, index="status-title-index")
        assert names(found) == [item["name"] for item in old]
        assert table.count(ALL_STATES, index="status-title-index") == 20
