"""Items with bytes are stored packed; those of an earlier release are read as they are. Pages of a new index are larger."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opx.adapters.embedded.database import Database, open_database
from opx.adapters.embedded.salvage import salvage
from opx.adapters.embedded.table import SqliteTable
from opx.errors import DamagedStoreError
from opx.ports import SearchRequest
from opx.ports.tables import EMBEDDINGS, IndexSpec, TableSpec, from_row, to_json, to_row
from opx_testing.entries import EVERYONE, a_change, an_entry
from tests.support.embedded_index_writer import open_index

VECTOR = random.Random(7).randbytes(4 * 384)
ITEM = {"cacheKey": "a", "vector": VECTOR, "model": "b"}
PLAIN = {"cacheKey": "c", "$bytes": "names that begin so are kept", "text": "é"}
SPEC = TableSpec(name="rows", partition="cacheKey")

values = st.recursive(st.none() | st.booleans() | st.integers() | st.text() | st.binary(), st.lists, max_leaves=5)


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    with closing(open_database(tmp_path / "opx.db")) as opened:
        yield opened


def rows(database: Database) -> list[str | bytes]:
    return [row[0] for row in database.connection().execute('SELECT _item FROM "rows"')]


@given(st.dictionaries(st.text(), values))
def test_item_is_the_same_after_packing(item: dict[str, object]) -> None:
    assert from_row(to_row(item)) == item


def test_bytes_take_little_more_than_themselves(database: Database) -> None:
    SqliteTable(SPEC, database).put(ITEM)
    assert len(rows(database)[0]) < 1.1 * len(VECTOR)


def test_items_without_bytes_stay_json(database: Database) -> None:
    SqliteTable(SPEC, database).put({"cacheKey": "c", "text": "plain"})
    assert rows(database) == ['{"cacheKey":"c","text":"plain"}']


def test_rows_of_an_earlier_release_are_read(database: Database) -> None:
    table = SqliteTable(SPEC, database)
    table.put_many([ITEM, PLAIN])
    with database.transaction() as connection:
        for item in (ITEM, PLAIN):
            connection.execute('UPDATE "rows" SET _item = ? WHERE "cacheKey" = ?', (to_json(item), item["cacheKey"]))
    assert [type(row) for row in rows(database)] == [str, str]
    assert list(table.scan()) == [ITEM, PLAIN]


@pytest.mark.parametrize("damage", [b"", b"\x78\x9c damaged", b"{", to_row(ITEM)[:-9]])
def test_damaged_row_is_reported(database: Database, damage: bytes) -> None:
    table = SqliteTable(SPEC, database)
    table.put(ITEM)
    with database.transaction() as connection:
        connection.execute('UPDATE "rows" SET _item = ?', (damage,))
    with pytest.raises(DamagedStoreError, match="a row of the table rows is damaged"):
        table.get({"cacheKey": "a"})


def test_a_new_index_has_rows_of_all_kinds(database: Database) -> None:
    SqliteTable(SPEC, database).put_many([ITEM, {"cacheKey": "d", "model": "b"}, {"cacheKey": "e"}])
    indexed = TableSpec(name="rows", partition="cacheKey", indexes=(IndexSpec("by-model", "model"),))
    found = SqliteTable(indexed, database).query("b", index="by-model")
    assert [item["cacheKey"] for item in found] == ["a", "d"]


def test_rows_of_all_kinds_are_salvaged(tmp_path: Path) -> None:
    items = [{**ITEM, "cacheKey": key} for key in ("packed", "text")]
    with closing(open_database(tmp_path / "damaged.db")) as database:
        SqliteTable(EMBEDDINGS, database).put_many(items)
        with database.transaction() as connection:
            changed = (to_json(items[1]), "text")
            connection.execute(f'UPDATE "{EMBEDDINGS.name}" SET _item = ? WHERE "cacheKey" = ?', changed)
    assert salvage(tmp_path / "damaged.db", tmp_path / "made.db", [EMBEDDINGS]).lost == []
    with closing(open_database(tmp_path / "made.db")) as database:
        assert list(SqliteTable(EMBEDDINGS, database).scan()) == items


def page_bytes(folder: Path) -> int:
    with closing(sqlite3.connect(folder / "index.db")) as database:
        return int(database.execute("PRAGMA page_size").fetchone()[0])


def test_a_new_index_has_pages_of_16_kb(tmp_path: Path) -> None:
    open_index(tmp_path).close()
    assert page_bytes(tmp_path) == 16_384


def test_the_log_is_as_long_with_larger_pages(tmp_path: Path) -> None:
    with closing(open_database(tmp_path / "some.db", page_bytes=16_384)) as database:
        assert database.connection().execute("PRAGMA wal_autocheckpoint").fetchone() == (250,)


def test_an_index_with_smaller_pages_is_read_and_changed(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "index.db")) as database:
        database.execute("PRAGMA page_size = 4096")
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("CREATE TABLE unfinished (batch TEXT PRIMARY KEY) WITHOUT ROWID")
    with closing(open_index(tmp_path)) as index:
        index.apply([a_change(an_entry("common first", source="a.md"))])
    assert page_bytes(tmp_path) == 4096
    with closing(open_index(tmp_path)) as index:
        assert len(index.search(SearchRequest(EVERYONE, text="common", depth=10)).chunks) == 1
