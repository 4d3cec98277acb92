"""A number that only grows, shared by all processes that use a database."""

from __future__ import annotations

from opx.adapters.embedded.database import Database


class SqliteSequence:
    """Calling it gives the next number, from 1; no number is ever given twice."""

    def __init__(self, database: Database, name: str) -> None:
        self._database = database
        self._name = name
        with database.transaction() as connection:
            connection.execute("CREATE TABLE IF NOT EXISTS sequences (name TEXT PRIMARY KEY, value INTEGER NOT NULL)")
            connection.execute("INSERT OR IGNORE INTO sequences VALUES (?, 0)", (name,))

    def __call__(self) -> int:
        with self._database.transaction() as connection:
            row = connection.execute(
                "UPDATE sequences SET value = value + 1 WHERE name = ? RETURNING value", (self._name,)
            ).fetchone()
        return int(row[0])
