"""Contract tests of the graph over SQLite and DynamoDB."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import boto3
import pytest

from opx.adapters.embedded.database import open_database
from opx.adapters.embedded.table import SqliteTable
from opx.ports.tables import GRAPH
from opx_aws.table import DynamoTable
from opx_testing.fake_time import FakeTime
from tests.aws.tables import create_table
from tests.contract.graph_contract import GraphContract, names, store

__all__ = ["names", "store"]


class TestEmbeddedGraph(GraphContract):
    @pytest.fixture
    def table(self, tmp_path: Path, time: FakeTime) -> Iterator[SqliteTable]:
        database = open_database(tmp_path / "opx.sqlite")
        with ExitStack() as stack:
            stack.callback(database.close)
            stack.enter_context(database.transaction())
            yield SqliteTable(GRAPH, database, clock=time.clock)


class TestDynamoGraph(GraphContract):
    @pytest.fixture
    def table(self, aws: boto3.Session, time: FakeTime) -> DynamoTable:
        client: Any = aws.client("dynamodb")
        create_table(client, GRAPH, "test-")
        return DynamoTable(GRAPH, client, prefix="test-", clock=time.clock, sleep=time.sleep)
