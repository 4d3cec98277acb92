"""Fixtures shared by the contracts of several kinds of models."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from opx.adapters.connections import Connections
from opx.adapters.embedded.database import Database
from opx.adapters.embedded.table import SqliteTable
from opx.ports import tables
from opx_testing.fake_time import FakeTime
from tests.contract.chat_model_contract import Talk, openai_talk
from tests.doubles.chat_completions import ChatCompletionsDouble


@pytest.fixture(scope="module")
def _completions() -> Iterator[tuple[ChatCompletionsDouble, Connections]]:
    connections = Connections()
    with ChatCompletionsDouble() as double:
        yield double, connections
        connections.close()


@pytest.fixture
def completions(_completions: tuple[ChatCompletionsDouble, Connections]) -> Iterator[Talk]:
    """A model of a service like OpenAI's, which received no invalid request by the end of the test."""
    double, connections = _completions
    double.restart()
    yield openai_talk(double, connections)
    assert not double.model.mistakes


@pytest.fixture
def table(database: Database, time: FakeTime) -> SqliteTable:
    return SqliteTable(tables.EMBEDDINGS, database, clock=time.clock)
