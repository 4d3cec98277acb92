"""The SQLite helper: transactions, threads, processes and broken files."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from opx.adapters.embedded.database import Database, open_database
from opx.adapters.embedded.table import SqliteQueue, SqliteTable
from opx.errors import StoreUnavailableError, UnwritableStoreError
from opx.ports.tables import IndexSpec, TableSpec
from opx_testing.fake_time import FakeTime


@pytest.fixture(scope="module", autouse=True)
def quick_disk() -> None:
    """Here the disk is waited for."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "opx.sqlite"


@pytest.fixture
def database(path: Path) -> Iterator[Database]:
    database = open_database(path)
    database.connection().execute("CREATE TABLE numbers (number INTEGER)")
    yield database
    database.close()


def numbers(database: Database) -> list[int]:
    return [row[0] for row in database.connection().execute("SELECT number FROM numbers ORDER BY number")]


def add(database: Database, number: int) -> None:
    with database.transaction() as connection:
        connection.execute("INSERT INTO numbers VALUES (?)", (number,))


def test_commits_reach_the_disk(database: Database) -> None:
    settings = [
        database.connection().execute(f"PRAGMA {name}").fetchone()[0] for name in ("journal_mode", "synchronous")
    ]
    assert settings == ["wal", 2]


@pytest.mark.parametrize("fails", [False, True])
def test_only_the_transaction_that_needs_not_be_synced_is_not(database: Database, *, fails: bool) -> None:
    def synchronous() -> int:
        return int(database.connection().execute("PRAGMA synchronous").fetchone()[0])

    with suppress(KeyError), database.transaction(synced=False) as connection:
        assert synchronous() == 1
        connection.execute("INSERT INTO numbers VALUES (1)")
        if fails:
            raise KeyError
    assert synchronous() == 2
    assert numbers(database) == ([] if fails else [1])


def test_transaction_that_raises_leaves_nothing(database: Database) -> None:
    def fail() -> None:
        with database.transaction() as connection:
            connection.execute("INSERT INTO numbers VALUES (1)")
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    add(database, 2)
    assert numbers(database) == [2]


def test_inner_transaction_is_part_of_the_outer(database: Database) -> None:
    def fail() -> None:
        with database.transaction():
            add(database, 1)
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert numbers(database) == []


def test_threads_have_connections_of_their_own_that_close_after_them(database: Database) -> None:
    connections = []

    def work(number: int) -> None:
        connections.append(database.connection())
        add(database, number)

    for number in range(3):
        thread = threading.Thread(target=work, args=(number,))
        thread.start()
        thread.join()
    assert numbers(database) == [0, 1, 2]
    assert len({id(connection) for connection in [*connections, database.connection()]}) == 4
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        connections[0].execute("SELECT 1")


def test_readers_go_on_while_another_writes(path: Path, database: Database) -> None:
    add(database, 1)
    other = Database(path, busy_seconds=0.0)
    with database.transaction() as connection:
        connection.execute("INSERT INTO numbers VALUES (2)")
        assert numbers(other) == [1]
    assert numbers(other) == [1, 2]
    other.close()


def test_writer_that_waits_too_long_reports_another_writer(path: Path, database: Database) -> None:
    other = Database(path, busy_seconds=0.05)
    with database.transaction(), pytest.raises(StoreUnavailableError, match="another process is writing"):
        add(other, 1)
    add(other, 2)
    assert numbers(database) == [2]
    other.close()


def test_mistake_in_sql_is_not_called_unavailable(database: Database) -> None:
    with pytest.raises(sqlite3.OperationalError, match="no such table"), database.transaction() as connection:
        connection.execute("SELECT * FROM missing")


def test_file_that_is_no_database_is_reported(tmp_path: Path) -> None:
    (tmp_path / "opx.sqlite").write_bytes(b"not a database" * 100)
    with pytest.raises(StoreUnavailableError, match="no SQLite database"):
        open_database(tmp_path / "opx.sqlite")


def test_folder_that_can_not_be_created_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StoreUnavailableError, match="can't create folder"):
        open_database(tmp_path / "file/opx.sqlite")


def test_processes_that_start_at_once_share_a_new_database(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path;"
        "from opx.adapters.embedded.database import open_database;"
        "from opx.adapters.embedded.table import SqliteQueue;"
        "database = open_database(Path(sys.argv[1])); queue = SqliteQueue(database, 'shared');"
        "[queue.send('a') for _ in range(10)]; database.close()"
    )
    path = tmp_path / "opx.sqlite"
    processes = [subprocess.Popen([sys.executable, "-c", program, path]) for _ in range(4)]
    assert [process.wait() for process in processes] == [0] * 4
    database = open_database(path)
    assert database.connection().execute("SELECT count(*) FROM queue_messages").fetchone() == (40,)
    database.close()


def test_index_that_is_new_holds_the_items_of_before(database: Database) -> None:
    SqliteTable(TableSpec("things", "id"), database).put_many([{"id": "a", "kind": "x", "size": 2}, {"id": "b"}])
    spec = TableSpec("things", "id", indexes=(IndexSpec("kind-size", "kind", "size"),), numbers=("size",))
    table = SqliteTable(spec, database)
    assert list(table.query("x", index="kind-size")) == [{"id": "a", "kind": "x", "size": 2}]


def test_queries_use_the_indexes(database: Database) -> None:
    spec = TableSpec("things", "id", indexes=(IndexSpec("kind-size", "kind", "size"),), numbers=("size",))
    table = SqliteTable(spec, database)
    statements: list[str] = []
    database.connection().set_trace_callback(statements.append)
    list(table.query("x", index="kind-size"))
    database.connection().set_trace_callback(None)
    plan = database.connection().execute(f"EXPLAIN QUERY PLAN {statements[-1]}").fetchall()
    assert [row[3] for row in plan] == ["SEARCH things USING INDEX things/kind-size (kind=? AND size>?)"]


def test_purge_removes_expired_items_only(database: Database, time: FakeTime) -> None:
    table = SqliteTable(TableSpec("things", "id", ttl="ttl"), database, clock=time.clock)
    table.put_many([{"id": "old", "ttl": time.now - 1}, {"id": "new", "ttl": time.now + 1}, {"id": "eternal"}])
    assert table.purge_expired() == 1
    stored = database.connection().execute("SELECT id FROM things ORDER BY id").fetchall()
    assert stored == [("eternal",), ("new",)]


def test_table_without_expiry_has_nothing_to_purge(database: Database) -> None:
    assert SqliteTable(TableSpec("things", "id"), database).purge_expired() == 0


class TestDiskThatCanOnlyBeRead:
    @pytest.fixture
    def full(self, database: Database, monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
        """A database with a number, closed, on a disk where SQLite can't make its files."""
        add(database, 1)
        database.close()

        def refuse(*_: object) -> None:
            error = sqlite3.OperationalError("database or disk is full")
            error.sqlite_errorcode = sqlite3.SQLITE_FULL
            raise error

        with monkeypatch.context() as patch:
            patch.setattr("opx.adapters.embedded.database._use_write_ahead_log", refuse)
            patch.setattr("opx.adapters.embedded.database._state_of_disk", lambda _: "the disk is full")
            yield patch

    @pytest.mark.usefixtures("full")
    def test_reads_and_refuses_to_write(self, database: Database) -> None:
        assert numbers(database) == [1]
        with pytest.raises(UnwritableStoreError, match="the disk is full") as refused:
            add(database, 2)
        assert refused.value.reason == "the disk is full"
        assert numbers(database) == [1]

    def test_writes_again_when_there_is_room(self, database: Database, full: pytest.MonkeyPatch) -> None:
        assert database.only_reads
        full.undo()
        add(database, 2)
        assert (numbers(database), database.only_reads) == ([1, 2], False)

    @pytest.mark.usefixtures("full")
    def test_missing_file_is_empty(self, tmp_path: Path) -> None:
        missing = Database(tmp_path / "none.db")
        assert missing.connection().execute("SELECT count(*) FROM sqlite_master").fetchone() == (0,)
        assert missing.only_reads
        missing.close()

    def test_missing_table_is_empty_until_it_can_be_made(self, database: Database, full: pytest.MonkeyPatch) -> None:
        table = SqliteTable(TableSpec("things", "id"), database)
        assert (table.get({"id": "a"}), list(table.scan()), table.count("a")) == (None, [], 0)
        with pytest.raises(UnwritableStoreError):
            table.put({"id": "a"})
        full.undo()
        table.put({"id": "a"})
        assert table.get({"id": "a"}) == {"id": "a"}

    def test_missing_queue_is_empty_until_it_can_be_made(self, database: Database, full: pytest.MonkeyPatch) -> None:
        queue = SqliteQueue(database, "work")
        assert (queue.waiting(), queue.receive()) == (0, [])
        full.undo()
        queue.send("a")
        assert queue.waiting() == 1
