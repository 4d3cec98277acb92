"""Reads the rows of a damaged SQLite database one by one, and writes those that are left to a new one.

SQLite's library has no recovery of its own. A table's rows are read in their order up to a damaged page, then from its end
back to it, and those between by their numbers, which are also in the index of the primary key.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Generator, Iterable, Iterator, Sequence, Set
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from opx.adapters.embedded.database import Database, open_database
from opx.adapters.embedded.table import ITEM, SqliteQueue, SqliteTable, key_names, quoted
from opx.errors import InvalidInputError
from opx.ports import Item
from opx.ports.files import Loss
from opx.ports.tables import KEYS, TableSpec, from_row

ROWS_AT_ONCE = 200
MOST_PROBED = 100_000
"""Numbers of rows tried one by one where neither the table nor its index shows which exist: 10 µs each."""

_SHOWN_KEYS = 5


@dataclass(slots=True)
class Salvaged:
    """Numbers of rows read by table, and what could not be read."""

    rows: dict[str, int] = field(default_factory=dict)
    lost: list[Loss] = field(default_factory=list)


def salvage(damaged: Path, target: Path, specs: Sequence[TableSpec], queue: str = "") -> Salvaged:
    """Writes every readable row to a new database at `target`: of these tables, of plugins that aren't installed, and of a
    queue."""
    found = Salvaged()
    with closing(_tolerant(damaged)) as source, closing(open_database(target)) as made:
        if not _has_schema(source):
            return Salvaged(lost=[Loss("", f"all rows of {damaged.name}")])
        for spec in (*specs, *_others(source, {spec.name for spec in specs})):
            with made.transaction():
                _table(source, made, spec, found)
        if queue:
            _messages(source, made, queue, found)
            _numbers(source, made)
    return found


def _tolerant(path: Path) -> sqlite3.Connection:
    """A connection that also reads a file that is shorter than its header says. Text is read as bytes: it may be no UTF-8."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.text_factory = bytes
    with suppress(sqlite3.DatabaseError):
        connection.execute("PRAGMA writable_schema = ON")
    return connection


def _has_schema(source: sqlite3.Connection) -> bool:
    try:
        return bool(source.execute("SELECT count(*) FROM sqlite_master").fetchone()[0])
    except sqlite3.DatabaseError:
        return False


_TABLES = """SELECT tables.name FROM sqlite_master AS tables, pragma_table_info(tables.name) AS columns
WHERE tables.type = 'table' AND columns.name = ?"""
_KEYS = "SELECT name, type FROM pragma_table_info(?) WHERE pk ORDER BY pk"


def _others(source: sqlite3.Connection, known: Set[str]) -> Iterator[TableSpec]:
    """Tables of items with other names, such as of plugins that aren't installed, with the keys of their schema."""
    with suppress(sqlite3.DatabaseError):
        for name in {row[0].decode() for row in source.execute(_TABLES, (ITEM,))} - known:
            types = {key.decode(): kind for key, kind in source.execute(_KEYS, (name,))}
            partition, sort, *_ = (*types, "", "")
            yield TableSpec(name, partition, sort, numbers=tuple(key for key, kind in types.items() if not kind))


def _table(source: sqlite3.Connection, made: Database, spec: TableSpec, found: Salvaged) -> None:
    table = SqliteTable(spec, made)
    rows = DamagedTable(source, spec.name, (*key_names(spec), ITEM))
    if rows.is_missing:
        return
    count = 0
    unreadable: list[str] = []
    for _, values in rows.read():
        if _copied(table, _item(spec, values)):
            count += 1
        else:
            unreadable.append(_shown(values[: len(key_names(spec))]))
    found.rows[spec.name] = count
    unreadable += [_shown(key) for key in rows.lost]
    if unreadable or rows.cut:
        found.lost.append(Loss(spec.name, _description(spec, unreadable, cut=rows.cut)))


def _copied(table: SqliteTable, item: Item | None) -> bool:
    """False for no item, and for one that the table wouldn't store."""
    try:
        table.put_many([item] if item else [])
    except InvalidInputError:
        return False
    return item is not None


def _description(spec: TableSpec, keys: Sequence[str], *, cut: bool) -> str:
    some = ", ".join(keys[:_SHOWN_KEYS]) + (", ..." if len(keys) > _SHOWN_KEYS else "")
    number = f"{len(keys):,} rows of {spec.name}" if keys else f"an unknown number of rows of {spec.name}"
    more = " and perhaps others" if keys and cut else ""
    return f"{number}{more}" + (f": {some}" if some else "")


def _item(spec: TableSpec, values: Sequence[Any]) -> Item | None:
    """The item of a row, whose key is that of its columns; None if it can't be read."""
    *keys, row = values
    try:
        item = from_row(row)
        named = [key.decode() if isinstance(key, bytes) else key for key in keys]
    except (ValueError, AttributeError, RecursionError):
        return None
    return {**item, **dict(zip(key_names(spec), named, strict=True))} if isinstance(item, dict) else None


def _shown(key: Iterable[Any]) -> str:
    return "/".join(part.decode("utf-8", "replace") if isinstance(part, bytes) else str(part) for part in key)


# -- rows of a damaged table


class DamagedTable:
    """The rows of a table, by their numbers. After `read`, `lost` has the keys of rows that are known and unreadable, and
    `cut` is True if there may be others."""

    def __init__(self, connection: sqlite3.Connection, name: str, columns: Sequence[str]) -> None:
        self._connection = connection
        self._name = quoted(name)
        self._columns = ", ".join(map(quoted, columns))
        self._key = ", ".join(map(quoted, columns[:-1]))
        self._table = name
        self._seen: set[int] = set()
        self.lost: list[tuple[Any, ...]] = []
        self.cut = False

    @property
    def is_missing(self) -> bool:
        """True if the schema can be read and has no such table."""
        try:
            found = self._rows("SELECT name FROM sqlite_master WHERE name = ?", self._table)
        except sqlite3.DatabaseError:
            return False
        return not found

    def read(self) -> Iterator[tuple[int, tuple[Any, ...]]]:
        """Number and values of each row that can be read, once each."""
        whole = yield from self._ordered("ASC")
        if whole:
            return
        yield from self._ordered("DESC")
        known = self._known()
        for number, key in known.items() if known is not None else self._guessed():
            if number not in self._seen:
                row = self._single(number)
                if row is not None:
                    yield number, row
                elif key:
                    self.lost.append(key)

    def _ordered(self, direction: str) -> Generator[tuple[int, tuple[Any, ...]], None, bool]:
        """Rows from one end, up to damage; returns True if there was none."""
        sign, last, size = (">", -(2**62), ROWS_AT_ONCE) if direction == "ASC" else ("<", 2**62, ROWS_AT_ONCE)
        while True:
            statement = (
                f"SELECT rowid, {self._columns} FROM {self._name} NOT INDEXED WHERE rowid {sign} ? "  # noqa: S608
                f"ORDER BY rowid {direction} LIMIT {size}"
            )
            try:
                rows = self._rows(statement, last)
            except sqlite3.DatabaseError:
                if size == 1:
                    return False
                size = 1
                continue
            for number, *values in rows:
                if number not in self._seen:
                    self._seen.add(number)
                    yield number, tuple(values)
            if len(rows) < size:
                return True
            last = rows[-1][0]

    def _known(self) -> dict[int, tuple[Any, ...]] | None:
        """The numbers of all rows with their keys, from the index of the primary key, which has nothing else; None if that
        is damaged, too."""
        statement = f"SELECT rowid, {self._key} FROM {self._name} ORDER BY {self._key}"  # noqa: S608
        try:
            return {row[0]: tuple(row[1:]) for row in self._rows(statement)}
        except sqlite3.DatabaseError:
            self.cut = True
            return None

    def _guessed(self) -> list[tuple[int, tuple[Any, ...]]]:
        """Numbers between those seen, or behind them."""
        last = max(self._seen, default=0)
        numbers = range(1, min(max(last, 1000), MOST_PROBED) + 1)
        return [(number, ()) for number in numbers if number not in self._seen]

    def _single(self, number: int) -> tuple[Any, ...] | None:
        try:
            rows = self._rows(f"SELECT {self._columns} FROM {self._name} NOT INDEXED WHERE rowid = ?", number)  # noqa: S608
        except sqlite3.DatabaseError:
            return None
        return rows[0] if rows else None

    def _rows(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        return self._connection.execute(statement, values).fetchall()


# -- the queue and the counter of events


def _messages(source: sqlite3.Connection, made: Database, name: str, found: Salvaged) -> None:
    queue = SqliteQueue(made, name)
    table = DamagedTable(source, "queue_messages", ("id", "queue", "body"))
    for _, (_, owner, body) in () if table.is_missing else table.read():
        with suppress(ValueError, AttributeError, InvalidInputError):
            if owner.decode() == name:
                queue.send(body.decode())
    if table.lost or table.cut:
        found.lost.append(Loss("queue_messages", "messages of the queue"))


def _numbers(source: sqlite3.Connection, made: Database) -> None:
    """Continues the numbers of events behind all that were used: an earlier number would be taken for an old event."""
    used = [0]
    with suppress(sqlite3.DatabaseError):
        used += [int(row[0]) for row in source.execute("SELECT value FROM sequences WHERE name = 'events'")]
    for item in SqliteTable(KEYS, made).scan():
        for name in ("sequencer", "sidecarSequencer"):
            with suppress(ValueError):
                used.append(int(str(item.get(name) or "0"), 16))
    with made.transaction() as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS sequences (name TEXT PRIMARY KEY, value INTEGER NOT NULL)")
        connection.execute("INSERT OR REPLACE INTO sequences VALUES ('events', ?)", (max(used),))
