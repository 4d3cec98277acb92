"""Writes the embedded index: one batch of changes at a time, by one process at a time.

SQLite says which entries are live, what they say, and what a crash may have left behind.
"""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import groupby, islice
from pathlib import Path
from types import TracebackType

from filelock import FileLock, Timeout

from opx.adapters.embedded.database import open_database
from opx.adapters.embedded.lexical import LexicalWriter
from opx.adapters.embedded.segments import (
    VECTORS,
    SegmentFacts,
    SegmentRow,
    VectorWriter,
    entry_line,
    indexed_chunk,
    read_rows,
)
from opx.domain.results import IndexedChunk
from opx.domain.times import day_number
from opx.errors import IndexUnavailableError, StoreUnavailableError
from opx.ports import DocumentChange, IndexEntry

SCHEMA = """
CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS segments (
    id INTEGER PRIMARY KEY, key_id TEXT NOT NULL, first_slot INTEGER NOT NULL, count INTEGER NOT NULL,
    scope TEXT NOT NULL, category TEXT NOT NULL, tier TEXT NOT NULL, language TEXT NOT NULL,
    document_id TEXT NOT NULL, tags TEXT NOT NULL, services TEXT NOT NULL, updated_day INTEGER,
    trust REAL NOT NULL, source_uri TEXT NOT NULL, last_updated TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS segments_by_key ON segments (key_id);
CREATE TABLE IF NOT EXISTS entries (
    segment INTEGER NOT NULL, position INTEGER NOT NULL, entry_id TEXT NOT NULL, chunk TEXT NOT NULL,
    PRIMARY KEY (segment, position));
CREATE INDEX IF NOT EXISTS entries_by_id ON entries (entry_id);
CREATE TABLE IF NOT EXISTS unfinished (batch TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS graveyard (segment INTEGER PRIMARY KEY);
"""

_ROW = "id, first_slot, count, scope, category, tier, language, document_id, tags, services, updated_day"
_FACTS = "key_id, trust, source_uri, last_updated"
_LOOKUP_SIZE = 500
"""Values in one SQL statement; SQLite's own limit is higher everywhere."""


@contextmanager
def index_errors(folder: Path) -> Iterator[None]:
    """Raise `IndexUnavailableError` for what SQLite or the disk refuses."""
    try:
        yield
    except (sqlite3.Error, OSError) as exc:
        raise IndexUnavailableError(f"the index in {folder} can't be used: {exc}") from exc
    except StoreUnavailableError as exc:
        if type(exc) is not StoreUnavailableError:  # already says more, such as who feeds the index
            raise
        raise IndexUnavailableError(f"the index in {folder} can't be used: {exc}") from exc


class IndexDatabase:
    """The index's SQLite file. Every thread has a connection of its own."""

    def __init__(self, path: Path) -> None:
        self._database = open_database(path)
        try:
            self._db.executescript(SCHEMA)
        except sqlite3.Error:
            self._database.close()
            raise

    @property
    def _db(self) -> sqlite3.Connection:
        return self._database.connection()

    def close(self) -> None:
        self._database.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All or nothing; the commit is durable."""
        with self._database.transaction():
            yield

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """What is read in the block is of one state, whatever others commit meanwhile."""
        with self._database.transaction(immediate=False):
            yield

    # -- facts about the whole index

    def meta(self, name: str, default: str = "") -> str:
        row = self._db.execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchone()
        return str(row[0]) if row else default

    def set_meta(self, name: str, value: str) -> None:
        self._db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (name, value))

    def next_generation(self) -> None:
        self.set_meta("generation", str(int(self.meta("generation", "0")) + 1))

    # -- segments and entries

    def add_segment(self, row: SegmentRow, facts: SegmentFacts) -> None:
        values = (row.id, facts.key_id, row.first_slot, row.count, row.scope, row.category, row.tier, row.language)
        filtered = (row.document_id, row.tags, row.services, row.updated_day)
        self._db.execute(
            "INSERT INTO segments VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (*values, *filtered, facts.trust, facts.source_uri, facts.last_updated),
        )

    def add_entries(self, segment: int, rows: Iterable[tuple[int, str, str]]) -> None:
        """Rows of position, entry id and the entry's JSON line."""
        self._db.executemany("INSERT INTO entries VALUES (?, ?, ?, ?)", ((segment, *row) for row in rows))

    def move_segment(self, segment: int, first_slot: int) -> None:
        self._db.execute("UPDATE segments SET first_slot = ? WHERE id = ?", (first_slot, segment))

    def drop_segment(self, segment: int) -> None:
        self._db.execute("DELETE FROM segments WHERE id = ?", (segment,))
        self._db.execute("DELETE FROM entries WHERE segment = ?", (segment,))
        self._db.execute("INSERT OR REPLACE INTO graveyard VALUES (?)", (segment,))

    def segments(self) -> list[SegmentRow]:
        return [SegmentRow(*row) for row in self._db.execute(f"SELECT {_ROW} FROM segments ORDER BY first_slot")]  # noqa: S608

    def segment(self, segment: int) -> tuple[SegmentRow, SegmentFacts]:
        """A segment that exists."""
        row = self._db.execute(f"SELECT {_ROW}, {_FACTS} FROM segments WHERE id = ?", (segment,)).fetchone()  # noqa: S608
        return SegmentRow(*row[:11]), SegmentFacts(*row[11:])

    def entries(self, places: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int, str, str, SegmentFacts]]:
        """Segment, position, entry id, chunk line and the segment's facts of those places that exist."""
        for at in range(0, len(places), _LOOKUP_SIZE):
            part = places[at : at + _LOOKUP_SIZE]
            marks = ",".join(["(?, ?)"] * len(part))
            query = (
                f"WITH wanted (s, p) AS (VALUES {marks})"  # noqa: S608
                f" SELECT segment, position, entry_id, chunk, {_FACTS} FROM wanted"
                " CROSS JOIN entries ON segment = s AND position = p CROSS JOIN segments ON id = s"
            )
            for row in self._db.execute(query, [value for place in part for value in place]):
                yield (*row[:4], SegmentFacts(*row[4:]))

    def entries_of(self, segment: int) -> list[tuple[int, str, str]]:
        query = "SELECT position, entry_id, chunk FROM entries WHERE segment = ? ORDER BY position"
        return list(self._db.execute(query, (segment,)))

    def holders(self, entry_ids: Sequence[str]) -> dict[int, set[str]]:
        """Which segments hold which of the entry ids."""
        found: dict[int, set[str]] = {}
        for at in range(0, len(entry_ids), _LOOKUP_SIZE):
            part = entry_ids[at : at + _LOOKUP_SIZE]
            marks = ",".join("?" * len(part))
            query = f"SELECT segment, entry_id FROM entries WHERE entry_id IN ({marks})"  # noqa: S608
            for segment, entry in self._db.execute(query, part):
                found.setdefault(segment, set()).add(entry)
        return found

    def references(self, key_id: str) -> list[str]:
        query = "SELECT entry_id FROM entries JOIN segments ON segment = id WHERE key_id = ? ORDER BY segment, position"
        return [row[0] for row in self._db.execute(query, (key_id,))]

    def held(self, after: Sequence[str], limit: int) -> list[tuple[str, str, str, str, int]]:
        """Scope, key, document and category with the number of their entries, in that order, behind `after`."""
        names = "scope, key_id, document_id, category"
        behind = f" WHERE ({names}) > (?, ?, ?, ?)" if after else ""
        query = f"SELECT {names}, SUM(count) FROM segments{behind} GROUP BY {names} ORDER BY {names} LIMIT ?"  # noqa: S608
        return [(*row[:4], int(row[4])) for row in self._db.execute(query, (*after, limit))]

    # -- what is to be cleaned up

    def begin_batch(self, batch: str) -> None:
        self._db.execute("INSERT INTO unfinished VALUES (?)", (batch,))

    def end_batch(self, batch: str) -> None:
        self._db.execute("DELETE FROM unfinished WHERE batch = ?", (batch,))

    def unfinished(self) -> list[str]:
        return [row[0] for row in self._db.execute("SELECT batch FROM unfinished")]

    def graveyard(self) -> list[int]:
        return [row[0] for row in self._db.execute("SELECT segment FROM graveyard")]

    def empty_graveyard(self, segments: Sequence[int]) -> None:
        self._db.executemany("DELETE FROM graveyard WHERE segment = ?", ((segment,) for segment in segments))


_BLOCK = 256
"""Entries held in memory at a time."""

_DEAD_ROWS_KEPT = 10_000
_LOCK_SECONDS = 120


_Facets = tuple[str, str, str, str, str, str, str, int | None]
"""Scope, category, tier, language, document, tags, services, and the day of the last update, as `SegmentRow` has them."""


class IndexWriter:
    """Holds the folder's write lock while it is open. Raises `IndexUnavailableError` if it can't get it."""

    def __init__(self, folder: Path, dimension: int) -> None:
        self._folder = folder
        self._dimension = dimension
        self._lock = FileLock(folder / "writer.lock")

    def __enter__(self) -> IndexWriter:
        try:
            self._lock.acquire(timeout=_LOCK_SECONDS)
        except Timeout as exc:
            raise IndexUnavailableError(f"another process has been writing to {self._folder} for too long") from exc
        with ExitStack() as opened:
            opened.callback(self._lock.release)
            self._database = IndexDatabase(self._folder / "index.db")
            opened.callback(self._database.close)
            self._lexical = LexicalWriter(self._folder / "terms")
            opened.callback(self._lexical.close)
            self._vectors = VectorWriter(self._vector_path(), self._dimension)
            opened.callback(self._close_vectors)
            self._opened = opened.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._opened.close()

    def _close_vectors(self) -> None:
        """Of whichever file is written to then: compaction changes that."""
        self._vectors.close()

    def _vector_path(self) -> Path:
        return self._folder / self._database.meta("vectors", VECTORS)

    def apply(self, changes: Iterable[DocumentChange]) -> list[list[str]]:
        """Write the batch and make it visible at once; return each change's entry ids."""
        batch = secrets.token_hex(8)
        self._compact()
        buried = self._clean_up()
        with self._database.transaction():
            self._database.begin_batch(batch)
        with self._database.transaction():
            written = [self._write(change, batch) for change in changes]
            self._database.empty_graveyard(buried)
            self._database.next_generation()
            self._database.end_batch(batch)
            self._vectors.sync()
            self._lexical.commit()
        return written

    def _clean_up(self) -> list[int]:
        """Remove from the lexical index what crashed batches and replaced segments left; takes effect with the commit."""
        for batch in self._database.unfinished():
            self._lexical.remove_batch(batch)
            with self._database.transaction():
                # Forgotten only after the removal is durable.
                self._lexical.commit()
                self._database.end_batch(batch)
        buried = self._database.graveyard()
        self._lexical.remove_segments(buried)
        return buried

    def _compact(self) -> None:
        """Write the vectors of live segments to a new file when most of the old one is dead.

        The old file stays until the next batch, so that a reader that has just learnt its name can still open it.
        """
        old = self._vector_path()
        for path in self._folder.glob("vectors*.f32"):
            if path != old:
                path.unlink()
        segments = self._database.segments()
        live = sum(row.count for row in segments)
        if int(self._database.meta("next_slot", "0")) <= 2 * live + _DEAD_ROWS_KEPT:
            return
        name = f"vectors-{secrets.token_hex(4)}.f32"
        self._vectors.close()
        self._vectors = VectorWriter(self._folder / name, self._dimension)
        with self._database.transaction():
            slot = 0
            rows = read_rows(old, self._dimension, max((row.first_slot + row.count for row in segments), default=0))
            for row in segments:
                self._vectors.write(slot, rows[row.first_slot : row.first_slot + row.count])
                self._database.move_segment(row.id, slot)
                slot += row.count
            self._vectors.sync()
            self._database.set_meta("next_slot", str(slot))
            self._database.set_meta("vectors", name)
            self._database.next_generation()

    def _write(self, change: DocumentChange, batch: str) -> list[str]:
        written: list[str] = []
        fresh: set[int] = set()
        for shared, group in groupby(change.entries, key=lambda entry: _shared(entry.indexed, change.key_id)):
            segment = secrets.randbits(62)
            fresh.add(segment)
            written.extend(self._write_segment(segment, *shared, group, batch))
        self._remove([*change.superseded, *written], fresh, batch)
        return written

    def _write_segment(
        self, segment: int, facets: _Facets, facts: SegmentFacts, entries: Iterator[IndexEntry], batch: str
    ) -> list[str]:
        first_slot = int(self._database.meta("next_slot", "0"))
        ids: list[str] = []
        while block := list(islice(entries, _BLOCK)):
            self._vectors.write(first_slot + len(ids), [entry.vector for entry in block])
            self._write_block(segment, len(ids), [entry.indexed for entry in block], batch)
            ids.extend(entry.indexed.entry_id for entry in block)
        self._database.add_segment(SegmentRow(segment, first_slot, len(ids), *facets), facts)
        self._database.set_meta("next_slot", str(first_slot + len(ids)))
        return ids

    def _write_block(self, segment: int, position: int, block: Sequence[IndexedChunk], batch: str) -> None:
        rows = [(position + n, item.entry_id, entry_line(item)) for n, item in enumerate(block)]
        self._database.add_entries(segment, rows)
        for n, item in enumerate(block):
            self._lexical.add(segment, position + n, batch, item)

    def _remove(self, entry_ids: Sequence[str], fresh: set[int], batch: str) -> None:
        """Drop entries by id, except in the segments just written; a segment that keeps some is written anew."""
        for segment, gone in self._database.holders(entry_ids).items():
            if segment in fresh:
                continue
            kept = [entry for entry in self._database.entries_of(segment) if entry[1] not in gone]
            if kept:
                self._copy(*self._database.segment(segment), kept, batch)
            self._database.drop_segment(segment)

    def _copy(self, row: SegmentRow, facts: SegmentFacts, kept: list[tuple[int, str, str]], batch: str) -> None:
        self._vectors.sync()
        rows = read_rows(self._vector_path(), self._dimension, row.first_slot + row.count)
        entries = [
            IndexEntry(indexed_chunk((entry, chunk), row, facts), rows[row.first_slot + position].tolist())
            for position, entry, chunk in kept
        ]
        shared = _shared(entries[0].indexed, facts.key_id)
        self._write_segment(secrets.randbits(62), *shared, iter(entries), batch)


def _shared(indexed: IndexedChunk, key_id: str) -> tuple[_Facets, SegmentFacts]:
    """Everything that the entries of a segment share."""
    chunk = indexed.chunk
    tier, tags, services = indexed.tier.value, "\n".join(chunk.tags), "\n".join(indexed.services)
    about = (indexed.scope_key, chunk.category, tier, indexed.language, chunk.document_id)
    facts = SegmentFacts(key_id, indexed.trust, indexed.source_uri, indexed.last_updated)
    return (*about, tags, services, day_number(indexed.last_updated)), facts
