"""The SQL of a table that a `TableSpec` describes."""

from __future__ import annotations

import sqlite3

from opx.tables import IndexSpec, TableSpec

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
    """Whether `create` has nothing to do."""
    present = {row[0] for row in connection.execute("SELECT name FROM sqlite_master")}
    needed = {spec.name, *(name for name, _ in _indexes(spec))}
    return needed <= present and set(column_names(spec)) <= _existing_columns(connection, spec)


def create(connection: sqlite3.Connection, spec: TableSpec) -> None:
    """Create the table and its indexes where they are missing; a column that is new is filled from the items."""
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
            _fill(connection, spec, name)
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
    # Without a type, a number stays what it was: whole or not.
    return f"{quoted(name)} {'' if name in spec.numbers else 'TEXT'}".rstrip()


def _fill(connection: sqlite3.Connection, spec: TableSpec, name: str) -> None:
    path = "$." + quoted(name)
    connection.execute(f"UPDATE {quoted(spec.name)} SET {quoted(name)} = json_extract({ITEM}, ?)", (path,))  # noqa: S608


def _create_index(connection: sqlite3.Connection, spec: TableSpec, columns: tuple[str, ...], name: str) -> None:
    listed = ", ".join(map(quoted, columns))
    connection.execute(
        f"CREATE INDEX IF NOT EXISTS {quoted(name)} ON {quoted(spec.name)} ({listed})"
        f" WHERE {quoted(columns[0])} IS NOT NULL"
    )
