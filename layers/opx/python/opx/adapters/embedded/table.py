"""Implements tables and queues in SQLite."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any

from opx.adapters.embedded.database import Database
from opx.adapters.limits import (
    MAX_DELAY_SECONDS,
    MAX_HIDE_SECONDS,
    MAX_RECEIVED,
    Slice,
    check_item,
    check_message,
    check_table_key,
    check_whole,
    expiry,
    holds,
    is_expired,
    slice_of,
    with_fields,
)
from opx.domain.ids import batched
from opx.errors import ConditionFailedError, DamagedStoreError
from opx.ports import Clock, Condition, Item, ItemPage, KeyRange, Message
from opx.ports.tables import IndexSpec, TableSpec, from_row, stored, to_row

# -- SQL that creates a table

ITEM = "_item"
EXPIRES = "_expires"


def quoted(name: str) -> str:
    """A name as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def key_names(spec: TableSpec) -> tuple[str, ...]:
    return (spec.partition, spec.sort) if spec.sort else (spec.partition,)


def index_names(index: IndexSpec) -> tuple[str, ...]:
    return (index.partition, index.sort) if index.sort else (index.partition,)


def column_names(spec: TableSpec) -> tuple[str, ...]:
    """All attributes that are a key of the table or an index, once each, those of the table first."""
    names = [*key_names(spec), *(name for index in spec.indexes for name in index_names(index))]
    return tuple(dict.fromkeys(names))


def is_complete(connection: sqlite3.Connection, spec: TableSpec) -> bool:
    """True if the table, its columns and indexes exist."""
    present = {row[0] for row in connection.execute("SELECT name FROM sqlite_master")}
    needed = {spec.name, *(name for name, _ in _indexes(spec))}
    return needed <= present and set(column_names(spec)) <= _existing_columns(connection, spec)


def create(connection: sqlite3.Connection, spec: TableSpec) -> None:
    """Creates the table and its indexes where they are missing; a new column is filled from the items."""
    table = quoted(spec.name)
    definitions = [f"{_definition(spec, name)} NOT NULL" for name in key_names(spec)]
    primary = ", ".join(map(quoted, key_names(spec)))
    connection.execute(
        f"CREATE TABLE IF NOT EXISTS {table} ({', '.join(definitions)}, {EXPIRES} REAL, {ITEM} TEXT NOT NULL,"
        f" PRIMARY KEY ({primary}))"
    )
    existing = _existing_columns(connection, spec)
    for name in column_names(spec):
        if name not in existing:
            connection.execute(f"ALTER TABLE {table} ADD COLUMN {_definition(spec, name)}")
            items = connection.execute(f"SELECT rowid, {ITEM} FROM {table}")  # noqa: S608
            values = [(from_row(item).get(name), row) for row, item in items]
            connection.executemany(f"UPDATE {table} SET {quoted(name)} = ? WHERE rowid = ?", values)  # noqa: S608
    for name, columns in _indexes(spec):
        _create_index(connection, spec, columns, name)


def _indexes(spec: TableSpec) -> list[tuple[str, tuple[str, ...]]]:
    """Names and columns. Index names are global in SQLite; the key comes last, to make the order total."""
    expiry = [("expires", (EXPIRES,))] if spec.ttl else []
    indexes = [*((index.name, index_names(index)) for index in spec.indexes), *expiry]
    return [(f"{spec.name}/{name}", tuple(dict.fromkeys((*names, *key_names(spec))))) for name, names in indexes]


def _existing_columns(connection: sqlite3.Connection, spec: TableSpec) -> set[str]:
    return {row[1] for row in connection.execute(f"PRAGMA table_info({quoted(spec.name)})")}


def _definition(spec: TableSpec, name: str) -> str:
    # Without a type, a number keeps its type: int or float.
    return f"{quoted(name)} {'' if name in spec.numbers else 'TEXT'}".rstrip()


def _create_index(connection: sqlite3.Connection, spec: TableSpec, columns: tuple[str, ...], name: str) -> None:
    listed = ", ".join(map(quoted, columns))
    connection.execute(
        f"CREATE INDEX IF NOT EXISTS {quoted(name)} ON {quoted(spec.name)} ({listed})"
        f" WHERE {quoted(columns[0])} IS NOT NULL"
    )


# -- SQL that reads the items of several keys


def keys_query(spec: TableSpec, keys: Sequence[tuple[Any, ...]]) -> tuple[str, list[Any]]:
    """Statement and parameters. The keys are filled up to a power of two, lest SQLite compiles a statement for each number:
    no item has a key of NULLs."""
    names = key_names(spec)
    missing = (1 << (len(keys) - 1).bit_length()) - len(keys)
    values = ", ".join([f"({', '.join('?' * len(names))})"] * (len(keys) + missing))
    columns = ", ".join(f"key{at}" for at in range(len(names)))
    is_key = " AND ".join(f"items.{quoted(name)} = wanted.key{at}" for at, name in enumerate(names))
    statement = (
        f"WITH wanted ({columns}) AS (VALUES {values})"  # noqa: S608
        f" SELECT items.{ITEM} FROM wanted CROSS JOIN {quoted(spec.name)} AS items WHERE {is_key}"
    )
    return statement, [*(value for key in keys for value in key), *[None] * (missing * len(names))]


# -- SQL that reads one page of a query

LAST_CHARACTER = "\U0010ffff"


def page_query(
    spec: TableSpec, part: Slice | None, after: tuple[Any, ...] | None, *, reverse: bool
) -> tuple[str, list[Any]]:
    """Statement and parameters, except the last one, the number of rows. A row is the item and its sort position; without
    a part, all are read.

    `after` is the sort position of the previous page's last row.
    """
    order = position_names(spec, part)
    position = ", ".join(map(quoted, order))
    conditions = list(_bounds(part)) if part else []
    if after is not None:
        conditions.append((f"({position}) {'<' if reverse else '>'} ({', '.join('?' * len(after))})", after))
    where = " AND ".join(condition for condition, _ in conditions) or "TRUE"
    direction = ", ".join(f"{quoted(name)} {'DESC' if reverse else 'ASC'}" for name in order)
    statement = f"SELECT {ITEM}, {position} FROM {quoted(spec.name)} WHERE {where} ORDER BY {direction} LIMIT ?"  # noqa: S608
    return statement, [value for _, values in conditions for value in values]


def position_names(spec: TableSpec, part: Slice | None) -> list[str]:
    """The attributes of a sort position. The key makes the order total."""
    names = (part.sort_name if part else "", *key_names(spec))
    return [name for name in dict.fromkeys(names) if name]


def _bounds(part: Slice) -> Iterator[tuple[str, tuple[Any, ...]]]:
    yield f"{quoted(part.partition_name)} = ?", (part.partition,)
    if not part.sort_name:
        return
    sort = quoted(part.sort_name)
    yield f"{sort} IS NOT NULL", ()
    if part.low is not None:
        yield f"{sort} >= ?", (part.low,)
    if part.high is not None:
        yield f"{sort} <= ?", (part.high,)
    if part.begins_with:
        yield f"{sort} >= ?", (part.begins_with,)
        end = _after_prefix(part.begins_with)
        if end:
            yield f"{sort} < ?", (end,)


def _after_prefix(prefix: str) -> str:
    """The first string, in the order of UTF-8 bytes, after all that begin with `prefix`; "" if there is none."""
    shortened = prefix.rstrip(LAST_CHARACTER)
    if not shortened:
        return ""
    following = ord(shortened[-1]) + 1
    return shortened[:-1] + ("\ue000" if following == 0xD800 else chr(following))


# -- the table

KEYS_A_READ = 100
ITEMS_A_WRITE = 500
ITEMS_A_PAGE = 100
CONTINUED_PAGE = 1000
"""Of work that is continued by another call: as many as a page of DynamoDB has of usual items."""


class SqliteTable:
    """A `Table` in a SQLite database: key attributes in columns of their own, the item as JSON, deflated if it has bytes.

    Several threads and processes may use it; indexes never lag. Expired items stay until `purge_expired` is called.
    """

    def __init__(self, spec: TableSpec, database: Database, *, clock: Clock = time.time) -> None:
        self._spec = spec
        self._database = database
        self._clock = clock
        self._name = quoted(spec.name)
        self._columns = column_names(spec)
        self._is_key = " AND ".join(f"{quoted(name)} = ?" for name in key_names(spec))
        self._is_complete = False
        self._exists()

    def _exists(self) -> bool:
        """Creates the table where it is missing. False if it is, and can't be created now as the disk is full or read-only:
        then it has no items."""
        if self._is_complete:
            return True
        with self._database.translated_errors():
            connection = self._database.connection()
            self._is_complete = is_complete(connection, self._spec)
            if not self._is_complete and self._database.only_reads and not _existing_columns(connection, self._spec):
                return False
        if not self._is_complete:  # else don't wait for a writer
            with self._database.transaction() as connection:
                create(connection, self._spec)
            self._is_complete = not self._database.connection().in_transaction  # an outer one may be undone
        return True

    @contextmanager
    def _writing(self, *, synced: bool = True) -> Iterator[sqlite3.Connection]:
        """A transaction on the table. Raises `StoreUnavailableError`."""
        self._exists()
        with self._database.transaction(synced=synced) as connection:
            yield connection

    def get(self, key: Mapping[str, Any]) -> Item | None:
        check_table_key(self._spec, key)
        if not self._exists():
            return None
        with self._database.translated_errors():
            return self._stored(self._database.connection(), key)

    def get_many(self, keys: Sequence[Mapping[str, Any]]) -> list[Item]:
        for key in keys:
            check_table_key(self._spec, key)
        distinct = dict.fromkeys(map(self._key_values, keys))
        found: list[Item] = []
        if not self._exists():
            return found
        for batch in batched(distinct, KEYS_A_READ):
            statement, parameters = keys_query(self._spec, batch)
            with self._database.translated_errors():
                rows = self._database.connection().execute(statement, parameters).fetchall()
            items = (self._item_of(row[0]) for row in rows)
            found.extend(item for item in items if not self._is_expired(item))
        return found

    def put(self, item: Mapping[str, Any], *, condition: Condition | None = None) -> None:
        check_item(self._spec, item)
        with self._writing(synced=self._spec.synced) as connection:
            self._require(connection, condition, item)
            self._write(connection, [item])

    def put_many(self, items: Iterable[Mapping[str, Any]]) -> None:
        for batch in batched(items, ITEMS_A_WRITE):
            for item in batch:
                check_item(self._spec, item)
            with self._writing(synced=self._spec.synced) as connection:
                self._write(connection, batch)

    def delete(self, key: Mapping[str, Any], *, condition: Condition | None = None) -> None:
        check_table_key(self._spec, key)
        with self._writing() as connection:
            self._require(connection, condition, key)
            connection.execute(f"DELETE FROM {self._name} WHERE {self._is_key}", self._key_values(key))  # noqa: S608

    def query(
        self,
        partition: str | int,
        *,
        index: str = "",
        where: KeyRange | None = None,
        reverse: bool = False,
        limit: int | None = None,
    ) -> Iterator[Item]:
        part = slice_of(self._spec, partition, index, where)
        if limit is not None:
            check_whole("limit", limit, 0, 2**31)
        page = ITEMS_A_PAGE if limit is None else max(1, min(limit, ITEMS_A_PAGE))
        return islice(iter(()) if part.is_empty else self._read(part, page, reverse=reverse), limit)

    def page(
        self, partition: str | int, *, index: str = "", fields: Sequence[str] = (), begin: Item | None = None
    ) -> ItemPage:
        part = slice_of(self._spec, partition, index, None)
        names = position_names(self._spec, part)
        after = tuple(begin[name] for name in names) if begin else None
        rows = self._rows(part, after, CONTINUED_PAGE, reverse=False)
        items = (self._item_of(row[0]) for row in rows)
        found = [with_fields(item, fields) for item in items if not self._is_expired(item)]
        last = dict(zip(names, rows[-1][1:], strict=True)) if len(rows) == CONTINUED_PAGE else None
        return ItemPage(found, last)

    def count(self, partition: str | int, *, index: str = "", where: KeyRange | None = None) -> int:
        part = slice_of(self._spec, partition, index, where)
        if part.is_empty or not self._exists():
            return 0
        conditions = [*_bounds(part), (f"({EXPIRES} IS NULL OR {EXPIRES} >= ?)", (self._clock(),))]
        where_all = " AND ".join(condition for condition, _ in conditions)
        parameters = [value for _, values in conditions for value in values]
        with self._database.translated_errors():
            statement = f"SELECT count(*) FROM {self._name} WHERE {where_all}"  # noqa: S608
            return int(self._database.connection().execute(statement, parameters).fetchone()[0])

    def scan(self, after: Item | None = None) -> Iterator[Item]:
        """All items behind the key `after`, in the order of their keys; read page by page, so that items changed meanwhile
        may be missed or returned in their old state."""
        return self._read(None, ITEMS_A_PAGE, reverse=False, after=self._key_values(after) if after else None)

    def purge_expired(self) -> int:
        """Deletes the expired items and returns their number."""
        if not self._spec.ttl:
            return 0
        with self._writing() as connection:
            statement = f"DELETE FROM {self._name} WHERE {EXPIRES} < ?"  # noqa: S608
            return connection.execute(statement, (self._clock(),)).rowcount

    def _read(
        self, part: Slice | None, page: int, *, reverse: bool, after: tuple[Any, ...] | None = None
    ) -> Iterator[Item]:
        # No cursor stays open between pages: it would pin the snapshot, and the caller may write meanwhile.
        while True:
            rows = self._rows(part, after, page, reverse=reverse)
            items = (self._item_of(row[0]) for row in rows)
            yield from (item for item in items if not self._is_expired(item))
            if len(rows) < page:
                return
            after = rows[-1][1:]

    def _rows(
        self, part: Slice | None, after: tuple[Any, ...] | None, most: int, *, reverse: bool
    ) -> list[tuple[Any, ...]]:
        if not self._exists():
            return []
        statement, parameters = page_query(self._spec, part, after, reverse=reverse)
        with self._database.translated_errors():
            return self._database.connection().execute(statement, (*parameters, most)).fetchall()

    def _stored(self, connection: sqlite3.Connection, key: Mapping[str, Any]) -> Item | None:
        statement = f"SELECT {ITEM} FROM {self._name} WHERE {self._is_key}"  # noqa: S608
        row = connection.execute(statement, self._key_values(key)).fetchone()
        item = self._item_of(row[0]) if row else None
        return None if item is None or self._is_expired(item) else item

    def _require(self, connection: sqlite3.Connection, condition: Condition | None, key: Mapping[str, Any]) -> None:
        if condition is not None and not holds(condition, self._stored(connection, key)):
            shown = dict(zip(key_names(self._spec), self._key_values(key), strict=True))
            raise ConditionFailedError(f"item {shown} of table {self._spec.name} is in another state: {condition}")

    def _write(self, connection: sqlite3.Connection, items: Iterable[Mapping[str, Any]]) -> None:
        columns = [*map(quoted, self._columns), EXPIRES, ITEM]
        marks = ", ".join("?" * len(columns))
        statement = f"INSERT OR REPLACE INTO {self._name} ({', '.join(columns)}) VALUES ({marks})"  # noqa: S608
        connection.executemany(statement, map(self._row, items))

    def _item_of(self, row: str | bytes) -> Item:
        """Raises `DamagedStoreError` for an item that is no JSON."""
        try:
            return stored(self._spec, from_row(row))
        except (ValueError, RecursionError) as exc:
            raise DamagedStoreError(
                f"database {self._database.path}: a row of the table {self._spec.name} is damaged; run `opx repair`: what it "
                "can't rebuild is in a backup"
            ) from exc

    def _row(self, item: Mapping[str, Any]) -> tuple[Any, ...]:
        expires = expiry(item, self._spec.ttl)
        return (*map(item.get, self._columns), expires, to_row(item))

    def _key_values(self, item: Mapping[str, Any]) -> tuple[Any, ...]:
        return tuple(item[name] for name in key_names(self._spec))

    def _is_expired(self, item: Item) -> bool:
        return is_expired(item, self._spec.ttl, self._clock())


# -- queue


# AUTOINCREMENT: an id is never used again, so an old receipt can't reach a new message.
_SCHEMA = (
    """CREATE TABLE IF NOT EXISTS queue_messages (id INTEGER PRIMARY KEY AUTOINCREMENT, queue TEXT NOT NULL,
    body TEXT NOT NULL, visible_at REAL NOT NULL, receives INTEGER NOT NULL, in_flight INTEGER NOT NULL)""",
    "CREATE INDEX IF NOT EXISTS queue_messages_visible ON queue_messages (queue, visible_at)",
)
_NEXT = "SELECT id FROM queue_messages WHERE queue = ? AND visible_at <= ? ORDER BY visible_at, id LIMIT ?"
_TAKE = f"""UPDATE queue_messages SET visible_at = ?, receives = receives + 1, in_flight = 1
    WHERE id IN ({_NEXT}) RETURNING id, body, receives"""  # noqa: S608 - made of constants


class SqliteQueue:
    """A `Queue` in a SQLite database, which may hold several by name, for several threads and processes.

    A receipt names a delivery: once the message was delivered again, the old receipt does nothing.
    """

    def __init__(self, database: Database, name: str, *, clock: Clock = time.time) -> None:
        self._database = database
        self._name = name
        self._clock = clock
        self._is_complete = False
        self._exists()

    def _exists(self) -> bool:
        """Creates the table where it is missing. False if it is, and can't be created now as the disk is full or read-only:
        then nothing waits."""
        if self._is_complete:
            return True
        with self._database.translated_errors():
            known = self._database.connection().execute(
                "SELECT 1 FROM sqlite_master WHERE name = 'queue_messages_visible'"
            )
            self._is_complete = known.fetchone() is not None
        if not self._is_complete:  # else don't wait for a writer
            if self._database.only_reads:
                return False
            with self._database.transaction() as connection:
                for statement in _SCHEMA:
                    connection.execute(statement)
            self._is_complete = not self._database.connection().in_transaction  # an outer one may be undone
        return True

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """A transaction on the messages. Raises `StoreUnavailableError`."""
        self._exists()
        with self._database.transaction() as connection:
            yield connection

    def send(self, body: str, *, delay_seconds: int = 0) -> None:
        check_message(body, delay_seconds)
        with self._writing() as connection:
            connection.execute(
                "INSERT INTO queue_messages (queue, body, visible_at, receives, in_flight) VALUES (?, ?, ?, 0, 0)",
                (self._name, body, self._clock() + delay_seconds),
            )

    def receive(self, *, limit: int = 10, hide_seconds: int = 300) -> list[Message]:
        check_whole("limit", limit, 1, MAX_RECEIVED)
        check_whole("hide_seconds", hide_seconds, 0, MAX_HIDE_SECONDS)
        now = self._clock()
        # Most polls find nothing: they shouldn't wait for a writer.
        if not self._exists():
            return []
        with self._database.translated_errors():
            if self._database.connection().execute(_NEXT, (self._name, now, 1)).fetchone() is None:
                return []
        with self._writing() as connection:
            rows = connection.execute(_TAKE, (now + hide_seconds, self._name, now, limit)).fetchall()
        return [Message(body, f"{identifier}:{receives}", receives) for identifier, body, receives in rows]

    def done(self, receipt: str) -> None:
        with self._writing() as connection:
            connection.execute(
                "DELETE FROM queue_messages WHERE queue = ? AND id = ? AND receives = ?", self._delivery(receipt)
            )

    def retry(self, receipt: str, *, delay_seconds: int = 0) -> None:
        check_whole("delay_seconds", delay_seconds, 0, MAX_HIDE_SECONDS)
        with self._writing() as connection:
            connection.execute(
                "UPDATE queue_messages SET visible_at = ?, in_flight = 0 WHERE queue = ? AND id = ? AND receives = ?",
                (self._clock() + delay_seconds, *self._delivery(receipt)),
            )

    def discard(self, unwanted: Callable[[str], bool], *, dry: bool = False) -> int:
        """Deletes the messages with unwanted bodies, also hidden ones, or with `dry` counts them; returns their number."""
        with self._writing() as connection:
            rows = connection.execute("SELECT id, body FROM queue_messages WHERE queue = ?", (self._name,)).fetchall()
            found = [(identifier,) for identifier, body in rows if unwanted(body)]
            if not dry:
                connection.executemany("DELETE FROM queue_messages WHERE id = ?", found)
        return len(found)

    def waiting(self) -> int:
        if not self._exists():
            return 0
        with self._database.translated_errors():
            statement = "SELECT count(*) FROM queue_messages WHERE queue = ?"
            return int(self._database.connection().execute(statement, (self._name,)).fetchone()[0])

    def release_all(self) -> int:
        """Makes messages visible that were received and neither done nor retried; returns their number.

        For the one process that works on the queue, when it starts: earlier receivers are gone. So are delays longer than any
        that a message is sent with: the clock has gone back since.
        """
        now = self._clock()
        with self._writing() as connection:
            return connection.execute(
                "UPDATE queue_messages SET visible_at = ?, in_flight = 0"
                " WHERE queue = ? AND (in_flight = 1 OR visible_at > ?)",
                (now, self._name, now + MAX_DELAY_SECONDS),
            ).rowcount

    def _delivery(self, receipt: str) -> tuple[str, int, int]:
        identifier, _, receives = receipt.partition(":")
        valid = identifier.isdecimal() and receives.isdecimal()
        return (self._name, int(identifier), int(receives)) if valid else (self._name, 0, 0)
