"""The tables of the embedded index: which entries are live, what they say, and what a crash may have left behind."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from opx.adapters.embedded.database import open_database
from opx.adapters.embedded.segments import SegmentFacts, SegmentRow
from opx.errors import IndexUnavailableError, StoreUnavailableError

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
