"""Queues in SQLite."""

from __future__ import annotations

import time
from collections.abc import Callable

from opx.adapters.embedded.database import Database
from opx.adapters.limits import MAX_HIDE_SECONDS, MAX_RECEIVED, check_message, check_whole
from opx.ports import Clock, Message

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
        with database.translated_errors():
            known = database.connection().execute("SELECT 1 FROM sqlite_master WHERE name = 'queue_messages_visible'")
            complete = known.fetchone() is not None
        if not complete:  # else don't wait for a writer
            with database.transaction() as connection:
                for statement in _SCHEMA:
                    connection.execute(statement)

    def send(self, body: str, *, delay_seconds: int = 0) -> None:
        check_message(body, delay_seconds)
        with self._database.transaction() as connection:
            connection.execute(
                "INSERT INTO queue_messages (queue, body, visible_at, receives, in_flight) VALUES (?, ?, ?, 0, 0)",
                (self._name, body, self._clock() + delay_seconds),
            )

    def receive(self, *, limit: int = 10, hide_seconds: int = 300) -> list[Message]:
        check_whole("limit", limit, 1, MAX_RECEIVED)
        check_whole("hide_seconds", hide_seconds, 0, MAX_HIDE_SECONDS)
        now = self._clock()
        # Most polls find nothing: they shouldn't wait for a writer.
        with self._database.translated_errors():
            if self._database.connection().execute(_NEXT, (self._name, now, 1)).fetchone() is None:
                return []
        with self._database.transaction() as connection:
            rows = connection.execute(_TAKE, (now + hide_seconds, self._name, now, limit)).fetchall()
        return [Message(body, f"{identifier}:{receives}", receives) for identifier, body, receives in rows]

    def done(self, receipt: str) -> None:
        with self._database.transaction() as connection:
            connection.execute(
                "DELETE FROM queue_messages WHERE queue = ? AND id = ? AND receives = ?", self._delivery(receipt)
            )

    def retry(self, receipt: str, *, delay_seconds: int = 0) -> None:
        check_whole("delay_seconds", delay_seconds, 0, MAX_HIDE_SECONDS)
        with self._database.transaction() as connection:
            connection.execute(
                "UPDATE queue_messages SET visible_at = ?, in_flight = 0 WHERE queue = ? AND id = ? AND receives = ?",
                (self._clock() + delay_seconds, *self._delivery(receipt)),
            )

    def discard(self, unwanted: Callable[[str], bool], *, dry: bool = False) -> int:
        """Remove the messages of these bodies, also hidden ones, or with `dry` count them; how many there are."""
        with self._database.transaction() as connection:
            rows = connection.execute("SELECT id, body FROM queue_messages WHERE queue = ?", (self._name,)).fetchall()
            found = [(identifier,) for identifier, body in rows if unwanted(body)]
            if not dry:
                connection.executemany("DELETE FROM queue_messages WHERE id = ?", found)
        return len(found)

    def waiting(self) -> int:
        with self._database.translated_errors():
            statement = "SELECT count(*) FROM queue_messages WHERE queue = ?"
            return int(self._database.connection().execute(statement, (self._name,)).fetchone()[0])

    def release_all(self) -> int:
        """Make messages visible that were received and neither done nor retried; return how many.

        For the one process that works on the queue, when it starts: whoever received them before is gone.
        """
        with self._database.transaction() as connection:
            return connection.execute(
                "UPDATE queue_messages SET visible_at = ?, in_flight = 0 WHERE queue = ? AND in_flight = 1",
                (self._clock(), self._name),
            ).rowcount

    def _delivery(self, receipt: str) -> tuple[str, int, int]:
        identifier, _, receives = receipt.partition(":")
        valid = identifier.isdecimal() and receives.isdecimal()
        return (self._name, int(identifier), int(receives)) if valid else (self._name, 0, 0)
