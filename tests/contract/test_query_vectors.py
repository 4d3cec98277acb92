"""Cached vectors of queries: in a process, and in the table that all share."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import pytest

from opx.adapters.embedded.table import SqliteTable
from opx.ingestion.indexing import query_vectors
from opx.ingestion.indexing.query_vectors import CachedQueries
from opx.ports import Embedder, Item, Table, Vector
from opx_testing.embedder import DISK, TEA, EmbedderContract
from opx_testing.fake_time import FakeTime
from tests.support.fakes import WordsEmbedder
from tests.support.records_support import BrokenTable

DAY = 86_400


class Counting(WordsEmbedder):
    """Notes the queries that reach it."""

    def __init__(self, model_id: str = "words/64") -> None:
        self.model_id = model_id
        self.queries: list[str] = []

    def embed_query(self, text: str) -> Vector:
        self.queries.append(text)
        return super().embed_query(text)

    def embed_documents(self, texts: Sequence[str]) -> Any:
        return [(WordsEmbedder.embed_query(self, text),) for text in texts]


def cached(embedder: Embedder, table: Any, time: FakeTime) -> CachedQueries:
    """The cache of a new process, which writes at once."""
    stored: Table = table
    return CachedQueries(embedder, lambda: stored, clock=time.clock, run=lambda work: work())


class TestContract(EmbedderContract):
    @pytest.fixture
    def embedder(self, table: SqliteTable, time: FakeTime) -> Embedder:
        return cached(WordsEmbedder(), table, time)


def test_repeated_query_needs_no_call(table: SqliteTable, time: FakeTime) -> None:
    model = Counting()
    queries = cached(model, table, time)
    assert [list(queries.embed_query(text)) for text in (DISK, TEA, DISK)] == [
        list(WordsEmbedder().embed_query(text)) for text in (DISK, TEA, DISK)
    ]
    assert model.queries == [DISK, TEA]


def test_other_processes_find_the_vector_in_the_table(table: SqliteTable, time: FakeTime) -> None:
    cached(Counting(), table, time).embed_query(DISK)
    model = Counting()
    assert list(cached(model, table, time).embed_query(DISK)) == list(WordsEmbedder().embed_query(DISK))
    assert model.queries == []


def test_vectors_of_another_model_are_not_taken(table: SqliteTable, time: FakeTime) -> None:
    cached(Counting(), table, time).embed_query(DISK)
    other = Counting("other/64")
    cached(other, table, time).embed_query(DISK)
    assert other.queries == [DISK]


def test_entries_expire_and_hold_no_text(table: SqliteTable, time: FakeTime) -> None:
    cached(Counting(), table, time).embed_query(DISK)
    (item,) = table.scan()
    assert item["cacheKey"].startswith("query#words/64#")
    assert item.keys() == {"cacheKey", "vector", "expiresAt"}
    assert item["expiresAt"] == int(time.now) + 7 * DAY


def test_a_process_keeps_the_latest_queries(
    table: SqliteTable, time: FakeTime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(query_vectors, "KEPT_QUERIES", 2)
    reads: list[object] = []
    get = table.get

    def counted(key: Item) -> Item | None:
        reads.append(key)
        return get(key)

    monkeypatch.setattr(table, "get", counted)
    queries = cached(Counting(), table, time)
    for text in ("a", "b", "a", "c", "a", "b"):
        queries.embed_query(text)
    assert len(reads) == 4  # a, b, c, and b again, which was used longest ago


def test_unavailable_table_costs_nothing_but_calls(time: FakeTime, caplog: pytest.LogCaptureFixture) -> None:
    model = Counting()
    with caplog.at_level(logging.WARNING):
        assert list(cached(model, BrokenTable(), time).embed_query(DISK)) == list(WordsEmbedder().embed_query(DISK))
    assert [record.message.split(":")[0] for record in caplog.records] == [
        "cached vectors of queries can't be read",
        "the vector of a query is not kept",
    ]


def test_documents_are_not_looked_up(time: FakeTime) -> None:
    assert len(cached(Counting(), BrokenTable(), time).embed_documents([DISK, TEA])) == 2
