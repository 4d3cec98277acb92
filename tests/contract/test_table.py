"""Both tables keep the contract."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest

from opx.adapters.aws.clients import client as deployed_client
from opx.adapters.aws.table import DynamoTable
from opx.adapters.embedded.database import open_database
from opx.adapters.embedded.table import SqliteTable
from tests.aws.tables import create_table
from tests.contract.table_contract import TableContract
from tests.contract.things import THINGS
from tests.doubles.fake_time import FakeTime
from tests.doubles.one_call_at_a_time import OneCallAtATime


class TestSqliteTable(TableContract):
    @pytest.fixture
    def table(self, tmp_path: Path, time: FakeTime, monkeypatch: pytest.MonkeyPatch) -> Iterator[SqliteTable]:
        monkeypatch.setattr("opx.adapters.embedded.table.CONTINUED_PAGE", 3)
        database = open_database(tmp_path / "opx.sqlite")
        yield SqliteTable(THINGS, database, clock=time.clock)
        database.close()


class TestDynamoTable(TableContract):
    @pytest.fixture
    def table(self, aws: boto3.Session, time: FakeTime) -> DynamoTable:
        client: Any = OneCallAtATime(deployed_client("dynamodb", session=aws))
        create_table(client, THINGS, "test-")
        return DynamoTable(THINGS, client, prefix="test-", clock=time.clock, sleep=time.sleep)
