"""Opens SQLite for several threads and processes: tables, queues and small state of an embedded installation."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

from opx.adapters.embedded.durable_files import make_folders, private
from opx.errors import DamagedStoreError, StoreUnavailableError, UnwritableStoreError

BUSY_SECONDS = 30.0
JOURNAL_BYTES = 64 * 1024 * 1024

_FULL = "the disk is full"

_UNAVAILABLE = {
    sqlite3.SQLITE_BUSY: "another process is writing; try again",
    sqlite3.SQLITE_LOCKED: "another thread is writing; try again",
    sqlite3.SQLITE_PROTOCOL: "another process is writing; try again",
    sqlite3.SQLITE_FULL: _FULL,
    sqlite3.SQLITE_IOERR: "the disk can't be read or written",
    sqlite3.SQLITE_CANTOPEN: "the file can't be opened; check that its folder exists and may be written to",
    sqlite3.SQLITE_PERM: "the file may not be accessed",
    sqlite3.SQLITE_READONLY: "the file may not be written to",
    sqlite3.SQLITE_CORRUPT: "the file is damaged; run `opx repair`: what it can't rebuild is in a backup",
    sqlite3.SQLITE_NOTADB: "the file is no SQLite database; run `opx repair`: what it can't rebuild is in a backup",
}


_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def is_undecodable(error: sqlite3.Error) -> bool:
    """True if stored text is no UTF-8, for which SQLite has no code."""
    return str(error).startswith("Could not decode")


_OF_THE_DISK = {sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM}
"""Codes that SQLite returns also where its own files beside the database can't be made."""

_LEAST_ROOM = 64 * 1024
"""Bytes that SQLite needs at least: its shared index has 32 KB."""


def _state_of_disk(folder: Path) -> str:
    """The reason why no file can be made in a folder; "" if one can, or if that can't be found out."""
    try:
        disk = os.statvfs(folder)
    except OSError:
        return ""
    if disk.f_flag & os.ST_RDONLY:
        return "its disk is read-only"
    if not os.access(folder, os.W_OK | os.X_OK):
        return "its folder may not be written to"
    return _FULL if disk.f_bavail * disk.f_frsize < _LEAST_ROOM else ""


def failure_of(error: sqlite3.Error, path: Path) -> StoreUnavailableError | None:
    """The error of ours for a failure of the file, with its cause; None for a mistake in SQL."""
    is_damaged = is_undecodable(error) or path.is_dir()
    code = sqlite3.SQLITE_CORRUPT if is_damaged else getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code not in _UNAVAILABLE:
        return None
    reason = _FULL if code == sqlite3.SQLITE_FULL else code in _OF_THE_DISK and _state_of_disk(path.parent)
    if reason:
        return _unwritable(path, reason)
    message = f"database {path}: {_UNAVAILABLE[code]}"
    if code in _DAMAGED:
        return DamagedStoreError(message, f"{path.name} is damaged; run `opx repair`")
    return StoreUnavailableError(message)


def _unwritable(path: Path, reason: str) -> UnwritableStoreError:
    return UnwritableStoreError(
        f"database {path}: {reason}: questions are answered, and nothing can be changed or recorded", reason
    )


_LOGGED_BYTES = 1000 * 4096
"""Size of the write-ahead log from which it is written into the file: SQLite's, with pages of another size, too."""


class Database:
    """A SQLite file with a connection per thread. A commit is on the disk when `transaction` ends, unless it isn't `synced`.

    On a disk that is full or read-only, SQLite can't make its files beside the database: then a connection only reads, until
    the disk can be written to. Transactions that write raise `StoreUnavailableError` meanwhile.
    """

    def __init__(self, path: Path, *, busy_seconds: float = BUSY_SECONDS, page_bytes: int = 0) -> None:
        self.path = path
        self._page_bytes = page_bytes
        self._busy_seconds = busy_seconds
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._connections: dict[threading.Thread, sqlite3.Connection] = {}
        self._only_reading: set[threading.Thread] = set()

    @contextmanager
    def transaction(self, *, immediate: bool = True, synced: bool = True) -> Iterator[sqlite3.Connection]:
        """Commits the block's writes, or none of them if it raises. Nested transactions join the outer one.

        `immediate` takes the write lock at once, so that values read in the block can't change before it writes. A commit
        that isn't `synced` may be lost when the power fails, until the next one that is.
        Raises `StoreUnavailableError` if the lock isn't free within the busy time, or if the disk fails.
        """
        connection = self.connection()
        if connection.in_transaction:
            yield connection
            return
        if immediate and self.only_reads:  # SQLite would begin a transaction that reads
            raise _unwritable(self.path, _state_of_disk(self.path.parent) or _FULL)
        with self._turn() if immediate else nullcontext(), self.translated_errors():
            if not synced:
                connection.execute("PRAGMA synchronous = NORMAL")
            try:
                connection.execute("BEGIN IMMEDIATE" if immediate else "BEGIN")
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                connection.rollback()
                raise
            finally:
                if not synced:
                    connection.execute("PRAGMA synchronous = FULL")

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """Serializes this process's writers: SQLite lets waiting ones retry at random, and some never win."""
        if not self._writing.acquire(timeout=self._busy_seconds):
            raise StoreUnavailableError(f"database {self.path}: {_UNAVAILABLE[sqlite3.SQLITE_LOCKED]}")
        try:
            yield
        finally:
            self._writing.release()

    def connection(self) -> sqlite3.Connection:
        """This thread's connection, in autocommit mode. Don't pass it to another thread."""
        thread = threading.current_thread()
        connection = self._connections.get(thread)
        if connection is not None and self._may_write_again(thread, connection):
            connection.close()
            connection = None
        if connection is None:
            with self.translated_errors():
                connection, only_reads = self._connect()
            with self._lock:
                self._close_finished_threads()
                self._connections[thread] = connection
                (self._only_reading.add if only_reads else self._only_reading.discard)(thread)
        return connection

    @property
    def only_reads(self) -> bool:
        """True while this thread can't write, as the disk is full or read-only."""
        self.connection()
        return threading.current_thread() in self._only_reading

    def _may_write_again(self, thread: threading.Thread, connection: sqlite3.Connection) -> bool:
        """True if the connection only reads, and the disk can be written to by now."""
        is_idle = thread in self._only_reading and not connection.in_transaction
        return is_idle and not _state_of_disk(self.path.parent)

    def scrub(self) -> None:
        """Rewrites the file without deleted data, and empties its journal. Raises `StoreUnavailableError` while other
        processes use it."""
        with self._turn(), self.translated_errors():
            self.connection().execute("VACUUM")
            self.connection().execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def close(self) -> None:
        """Closes the connections of all threads, which must have ended their work."""
        with self._lock:
            for connection in self._connections.values():
                connection.close()
            self._connections.clear()

    @contextmanager
    def translated_errors(self) -> Iterator[None]:
        """Raises `StoreUnavailableError` for failures of the file, and lets mistakes in SQL through."""
        try:
            yield
        except sqlite3.DatabaseError as exc:
            if failure := failure_of(exc, self.path):
                raise failure from exc
            raise

    def _connect(self) -> tuple[sqlite3.Connection, bool]:
        """A connection, and True if it only reads."""
        try:
            return self._opened(str(self.path), self._configure), False
        except sqlite3.OperationalError as exc:
            address = _address_to_read(self.path, exc)
            if not address:
                raise
            return self._opened(address, _read_something, uri=True), True

    def _opened(
        self, address: str, prepare: Callable[[sqlite3.Connection], None], *, uri: bool = False
    ) -> sqlite3.Connection:
        # close() runs in one thread and closes the connections of others.
        connection = sqlite3.connect(
            address, timeout=self._busy_seconds, isolation_level=None, check_same_thread=False, uri=uri
        )
        try:
            prepare(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _configure(self, connection: sqlite3.Connection) -> None:
        if self._page_bytes:
            connection.execute(f"PRAGMA page_size = {self._page_bytes}")  # of a new file
            connection.execute(f"PRAGMA wal_autocheckpoint = {_LOGGED_BYTES // self._page_bytes}")
        _use_write_ahead_log(connection, time.monotonic() + self._busy_seconds)
        # With NORMAL, a loss of power undoes the last commits. It costs 2 ms per write on an SSD, and nothing in batches.
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA fullfsync = ON")  # macOS: flush the drive's cache too
        connection.execute(f"PRAGMA journal_size_limit = {JOURNAL_BYTES}")

    def _close_finished_threads(self) -> None:
        for thread in [thread for thread in self._connections if not thread.is_alive()]:
            self._connections.pop(thread).close()
            self._only_reading.discard(thread)


def _address_to_read(path: Path, error: sqlite3.Error) -> str:
    """The URI that opens a database which can't be written to, and an empty one if there is no file; "" if the error has
    another cause.

    Without a log, the file has all data, and SQLite reads it without a lock and without files beside it. With one, readers
    need the shared index that a process left.
    """
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    is_of_disk = code == sqlite3.SQLITE_FULL or (code in _OF_THE_DISK and bool(_state_of_disk(path.parent)))
    if not is_of_disk:
        return ""
    if not path.exists():
        return "file::memory:"
    log = path.with_name(path.name + "-wal")
    has_log = log.exists() and log.stat().st_size > 0
    return f"{path.absolute().as_uri()}?{'mode=ro' if has_log else 'immutable=1'}"


def _read_something(connection: sqlite3.Connection) -> None:
    """Reads the file, as opening it doesn't. Raises `sqlite3.DatabaseError`."""
    connection.execute("SELECT count(*) FROM sqlite_master").fetchone()


def open_database(path: Path, *, busy_seconds: float = BUSY_SECONDS, page_bytes: int = 0) -> Database:
    """Opens the SQLite file at `path`, creating it and its folder. Raises `StoreUnavailableError`. The caller closes it. On a
    disk that is full or read-only, a missing file is opened as an empty one.

    Writers wait up to `busy_seconds` for one another. A new file has pages of `page_bytes`, by default SQLite's.
    """
    try:
        make_folders(path.parent)
    except OSError as exc:
        raise StoreUnavailableError(f"can't create folder {path.parent}: {exc.strerror}") from exc
    try:
        if not path.exists():
            open(path, "ab", opener=private).close()  # SQLite would let others read it
    except OSError as exc:
        if not _state_of_disk(path.parent):
            raise StoreUnavailableError(f"can't create {path}: {exc.strerror}") from exc
    database = Database(path, busy_seconds=busy_seconds, page_bytes=page_bytes)
    database.connection()
    return database


def _use_write_ahead_log(connection: sqlite3.Connection, deadline: float) -> None:
    """Enables the write-ahead log, so that readers and the writer don't block one another. Persistent: only the first
    opener changes the file."""
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as exc:
            # Two processes that do this at once: one is refused at once instead of waiting, lest both wait for ever.
            if exc.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() >= deadline:
                raise
            time.sleep(0.01)
        else:
            return


class SqliteSequence:
    """A persistent counter: each call returns the next number, from 1; no number is returned twice. Its row is created by
    the first call: readers of a home write nothing."""

    def __init__(self, database: Database, name: str) -> None:
        self._database = database
        self._name = name

    def __call__(self) -> int:
        with self._database.transaction() as connection:
            connection.execute("CREATE TABLE IF NOT EXISTS sequences (name TEXT PRIMARY KEY, value INTEGER NOT NULL)")
            row = connection.execute(
                "INSERT INTO sequences VALUES (?, 1) ON CONFLICT (name) DO UPDATE SET value = value + 1 RETURNING value",
                (self._name,),
            ).fetchone()
        return int(row[0])
