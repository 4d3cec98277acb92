"""Stores segments of the embedded index, runs of entries that share a document and all filtered fields, and its tables.

Held in memory as arrays (one row per segment, not per chunk), so that a filter over 100,000 chunks takes well under a
millisecond and opening takes a few.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Struct

from opx.adapters.embedded.database import open_database
from opx.domain.documents import DocumentChunk
from opx.domain.knowledge import Tier
from opx.domain.record import from_json
from opx.domain.results import LATER_FACTS, IndexedChunk, later_facts
from opx.errors import DamagedStoreError, IndexUnavailableError, StoreUnavailableError
from opx.ports import SearchFilter

# -- the vector file: unit vectors of float32, read through a memory map, which opens at once at any size

VECTORS = "vectors.f32"
"""Name of an index's first file; compaction writes others."""

Matrix = npt.NDArray[np.float32]


def read_rows(path: Path, dimension: int, count: int) -> Matrix:
    """The first `count` rows, shape (count, dimension), mapped and read-only. Raises `IndexUnavailableError` if the file has
    fewer."""
    if count == 0:
        return np.empty((0, dimension), dtype=np.float32)
    check_rows(path, path.stat().st_size // (4 * dimension) if path.is_file() else 0, count)
    rows: Matrix = np.memmap(path, dtype="<f4", mode="r", shape=(count, dimension)).view(np.ndarray)
    return rows


def check_rows(path: Path, there: int, needed: int) -> None:
    """Raises `IndexUnavailableError` if vectors are missing at the end of the file."""
    if there < needed:
        raise IndexUnavailableError(
            f"the index in {path.parent} is damaged: {path.name} has {there:,} of {needed:,} vectors. `opx repair` makes a "
            "new one from the documents"
        )


# -- segments

Mask = npt.NDArray[np.bool_]
Numbers = npt.NDArray[np.intp]


class SegmentRow(Struct, frozen=True):
    """A segment as the database holds it. Its `count` entries have `slots` consecutive rows in the vector file.

    `tags` and `services` are joined by newlines; `updated_day` counts from 1970-01-01. `spread` is the number of rows per
    entry, as little-endian 16-bit numbers; it is empty if each has one.
    """

    id: int
    first_slot: int
    count: int
    slots: int
    scope: str
    category: str
    tier: str
    language: str
    document_id: str
    tags: str
    services: str
    updated_day: int | None
    spread: bytes = b""

    @property
    def bounds(self) -> list[int]:
        """The first row of each entry within the segment's, and the end of the last."""
        each = np.frombuffer(self.spread, SPREAD) if self.spread else np.ones(self.count, SPREAD)
        return [0, *np.cumsum(each, dtype=np.int64).tolist()]


SPREAD = np.dtype("<u2")


class SegmentFacts(Struct, frozen=True):
    """Fields that the entries of a segment share and no filter uses."""

    key_id: str
    trust: float
    source_uri: str
    last_updated: str


class SegmentChecksums(Struct, frozen=True):
    """SHA-256 of a segment's entries with the fields that they share, and of its vectors."""

    entries: str
    vectors: str


class SegmentDigest:
    """Computes the checksums of a segment while it is written or read, entry by entry."""

    def __init__(self) -> None:
        self._entries = hashlib.sha256()
        self._vectors = hashlib.sha256()

    def add_entries(self, rows: Iterable[tuple[int, str, str]]) -> None:
        """Adds rows of position, entry id and the entry's JSON line."""
        for row in rows:
            self._entries.update(json.dumps(row, separators=(",", ":")).encode() + b"\n")

    def add_vectors(self, rows: bytes) -> None:
        """Adds vectors as the file holds them."""
        self._vectors.update(rows)

    def checksums(self, row: SegmentRow, facts: SegmentFacts) -> SegmentChecksums:
        """The checksums of all that was added; the position in the vector file is no part of them, as compaction moves it."""
        fields = [getattr(row, name) for name in _SEALED_FIELDS]
        shared = [*fields, row.spread.hex(), facts.key_id, facts.trust, facts.source_uri, facts.last_updated]
        self._entries.update(json.dumps(shared, separators=(",", ":")).encode())
        return SegmentChecksums(self._entries.hexdigest(), self._vectors.hexdigest())


_SEALED_FIELDS = (
    "count",
    "slots",
    "scope",
    "category",
    "tier",
    "language",
    "document_id",
    "tags",
    "services",
    "updated_day",
)


class SegmentMap:
    """An immutable view of all live segments, whose entries are numbered in their order."""

    def __init__(self, rows: Sequence[SegmentRow]) -> None:
        self._rows = rows
        self._by_id = {row.id: index for index, row in enumerate(rows)}
        counts = np.fromiter((row.count for row in rows), dtype=np.int64, count=len(rows))
        firsts = np.fromiter((row.first_slot for row in rows), dtype=np.int64, count=len(rows))
        self._columns = {
            "scopes": _Column(row.scope for row in rows),
            "categories": _Column(row.category for row in rows),
            "tiers": _Column(row.tier for row in rows),
            "languages": _Column(row.language for row in rows),
            "document_ids": _Column(row.document_id for row in rows),
        }
        self._lists = {
            "tags": _list_index(row.tags for row in rows),
            "services": _list_index(row.services for row in rows),
        }
        self._days = _Days([row.updated_day for row in rows])
        self.counts = counts
        self.live = int(counts.sum())
        self.slots = max((row.first_slot + row.slots for row in rows), default=0)
        self._starts = np.cumsum(counts) - counts
        self._segment_of = np.repeat(np.arange(len(rows), dtype=np.int32), counts)
        self._slot_counts = _slot_counts(rows)
        each = np.ones(self.live, dtype=np.intp) if self._slot_counts is None else self._slot_counts
        before = np.cumsum(each) - each
        self._first_slots: Numbers = before + np.repeat(firsts - before[self._starts], counts)

    def row(self, segment_id: int) -> SegmentRow:
        """The live segment with this id."""
        return self._rows[self._by_id[segment_id]]

    def is_among(self, segment_id: int, allowed: Mask) -> bool:
        """True if the segment is live and allowed."""
        index = self._by_id.get(segment_id)
        return index is not None and bool(allowed[index])

    def allowed(self, where: SearchFilter) -> Mask:
        """Mask of the segments that pass the filter, shape (segments,)."""
        mask = self._columns["scopes"].any_of(where.scopes)
        for name in ("categories", "tiers", "languages", "document_ids"):
            values: tuple[str, ...] = getattr(where, name)
            if values:
                mask &= self._columns[name].any_of(values)
        for name, wanted in (
            ("tags", where.tags),
            ("tags", where.also_tags),
            ("services", where.services),
            ("services", where.also_services),
        ):
            if wanted:
                mask &= self._with_any(self._lists[name], wanted)
        if where.updated_from is not None or where.updated_before is not None:
            mask &= self._days.within(where.updated_from, where.updated_before)
        return mask

    def _with_any(self, index: Mapping[str, list[int]], wanted: Iterable[str]) -> Mask:
        mask = np.zeros(len(self._rows), dtype=np.bool_)
        for value in wanted:
            mask[index.get(value, [])] = True
        return mask

    def live_in(self, scopes: Sequence[str]) -> int:
        """Counts live entries of the scopes."""
        return int(self.counts[self._columns["scopes"].any_of(scopes)].sum())

    def share(self, allowed: Mask) -> float:
        """Share of the live entries that are in allowed segments."""
        return float(self.counts[allowed].sum()) / self.live if self.live else 0.0

    def entries_of(self, allowed: Mask) -> Numbers:
        """The entries of allowed segments, ascending."""
        return np.flatnonzero(allowed[self._segment_of])

    def entries_at(self, locations: Iterable[tuple[int, int]], allowed: Mask) -> Numbers:
        """The entries at those locations that are in allowed segments, ascending."""
        found = (
            self._starts[index] + position
            for segment, position in locations
            if (index := self._by_id.get(segment)) is not None and allowed[index]
        )
        return np.sort(np.fromiter(found, dtype=np.intp))

    def slots_of(self, entries: Numbers) -> tuple[Numbers, Numbers | None]:
        """The slots of these entries, concatenated, and the start of each entry's; None if each has one."""
        firsts = self._first_slots[entries]
        if self._slot_counts is None:
            return firsts, None
        counts = self._slot_counts[entries]
        starts = np.cumsum(counts) - counts
        return np.repeat(firsts - starts, counts) + np.arange(int(counts.sum())), starts

    def runs_of(self, allowed: Mask) -> tuple[Numbers, Numbers]:
        """The first slot of each allowed segment, and the end of its slots, ascending."""
        chosen = np.flatnonzero(allowed)
        first = self._starts[chosen]
        last = first + self.counts[chosen] - 1
        return self._first_slots[first], self._first_slots[last] + self._slots_each(last)

    def runs_at(self, entries: Numbers) -> tuple[Numbers, Numbers]:
        """The first slot of each of these entries, and the end of its slots."""
        return self._first_slots[entries], self._first_slots[entries] + self._slots_each(entries)

    def _slots_each(self, entries: Numbers) -> Numbers | int:
        return 1 if self._slot_counts is None else self._slot_counts[entries]

    def holders(self, slots: Numbers) -> Numbers:
        """The entries that these slots belong to, for slots of live entries."""
        return np.searchsorted(self._first_slots, slots, side="right") - 1

    def locations(self, entries: Iterable[int]) -> list[tuple[int, int]]:
        """Segment id and position within it of each entry."""
        found = []
        for entry in entries:
            index = self._segment_of[entry]
            found.append((self._rows[index].id, int(entry - self._starts[index])))
        return found


def _slot_counts(rows: Sequence[SegmentRow]) -> Numbers | None:
    """The number of slots of each entry; None if each has one."""
    if not any(row.spread for row in rows):
        return None
    ones = np.ones(max(row.count for row in rows), SPREAD).tobytes()
    spread = b"".join(row.spread or ones[: row.count * SPREAD.itemsize] for row in rows)
    return np.frombuffer(spread, SPREAD).astype(np.intp)


class _Column:
    """The values of one attribute, as small numbers."""

    def __init__(self, values: Iterable[str]) -> None:
        self._codes: dict[str, int] = {}
        codes = [self._codes.setdefault(value, len(self._codes)) for value in values]
        self._values = np.array(codes, dtype=np.int32)

    def any_of(self, wanted: Sequence[str]) -> Mask:
        table = np.zeros(len(self._codes) + 1, dtype=np.bool_)
        for value in wanted:
            table[self._codes.get(value, len(self._codes))] = True
        table[-1] = False
        mask: Mask = table[self._values]
        return mask


class _Days:
    """The day of each segment, if it has one."""

    def __init__(self, days: Sequence[int | None]) -> None:
        self._known = np.array([day is not None for day in days], dtype=np.bool_)
        self._days = np.array([day or 0 for day in days], dtype=np.int64)

    def within(self, first: int | None, end: int | None) -> Mask:
        """Mask of days from the first on and before the end; None is no bound."""
        mask = self._known.copy()
        if first is not None:
            mask &= self._days >= first
        if end is not None:
            mask &= self._days < end
        return mask


def _list_index(joined: Iterable[str]) -> dict[str, list[int]]:
    """Segments by value, for values that are joined by newlines."""
    index: dict[str, list[int]] = {}
    for number, values in enumerate(joined):
        for value in values.split("\n") if values else ():
            index.setdefault(value, []).append(number)
    return index


_ENCODED = dict(zip(IndexedChunk.__struct_fields__, IndexedChunk.__struct_encode_fields__, strict=True))
_TIERS = {tier.value: tier for tier in Tier}
_OWN = {name: _ENCODED[name] for name in LATER_FACTS if name != "services"}
"""Fields of an entry's line beside its chunk, and their names in the line: services are those of its segment."""


def entry_line(indexed: IndexedChunk) -> str:
    """An entry as a line of JSON: its chunk and its own fields."""
    own = {encoded: getattr(indexed, name) for name, encoded in _OWN.items()}
    found = indexed.chunk.to_json() | {name: value for name, value in own.items() if value}
    return json.dumps(found, ensure_ascii=False, separators=(",", ":"))


def _read_line(line: str) -> dict[str, Any]:
    """Decodes the JSON of an entry. `json` alone reads halves of surrogate pairs, and takes three times as long."""
    try:
        found: dict[str, Any] = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeEncodeError):
        found = json.loads(line)
    return found


def indexed_chunk(entry: tuple[str, str], row: SegmentRow, facts: SegmentFacts) -> IndexedChunk:
    """Builds the chunk of an entry (id and line) and its segment's shared fields."""
    line = _read_line(entry[1])
    return IndexedChunk(
        entry_id=entry[0],
        chunk=from_json(DocumentChunk, line),
        key_id=facts.key_id,
        scope_key=row.scope,
        tier=_TIERS[row.tier],
        trust=facts.trust,
        source_uri=facts.source_uri,
        last_updated=facts.last_updated,
        language=row.language,
        services=tuple(row.services.split("\n")) if row.services else (),
        **later_facts(line, _OWN),
    )


# -- the tables: live entries, their content, and leftovers of crashes

SCHEMA = """
CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS segments (
    id INTEGER PRIMARY KEY, key_id TEXT NOT NULL, first_slot INTEGER NOT NULL, count INTEGER NOT NULL,
    scope TEXT NOT NULL, category TEXT NOT NULL, tier TEXT NOT NULL, language TEXT NOT NULL,
    document_id TEXT NOT NULL, tags TEXT NOT NULL, services TEXT NOT NULL, updated_day INTEGER,
    trust REAL NOT NULL, source_uri TEXT NOT NULL, last_updated TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS segments_by_key ON segments (key_id);
CREATE TABLE IF NOT EXISTS several_vectors (segment INTEGER PRIMARY KEY, slots INTEGER NOT NULL, spread BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS entries (
    segment INTEGER NOT NULL, position INTEGER NOT NULL, entry_id TEXT NOT NULL, chunk TEXT NOT NULL,
    PRIMARY KEY (segment, position));
CREATE INDEX IF NOT EXISTS entries_by_id ON entries (entry_id);
CREATE TABLE IF NOT EXISTS unfinished (batch TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS graveyard (segment INTEGER PRIMARY KEY);
CREATE TABLE IF NOT EXISTS segment_checksums (segment INTEGER PRIMARY KEY, entries TEXT NOT NULL, vectors TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS file_checksums (name TEXT PRIMARY KEY, sha256 TEXT NOT NULL) WITHOUT ROWID;
"""

_ROW = (
    "id, first_slot, count, COALESCE(slots, count), scope, category, tier, language, document_id, tags, services,"
    " updated_day, COALESCE(spread, x'')"
)
_SEGMENTS = "segments LEFT JOIN several_vectors ON segment = id"
_FACTS = "key_id, trust, source_uri, last_updated"
_LOOKUP_SIZE = 500
"""Values in one SQL statement; SQLite's own limit is higher everywhere."""


@contextmanager
def index_errors(folder: Path) -> Iterator[None]:
    """Raises `IndexUnavailableError` for errors of SQLite or the disk."""
    try:
        yield
    except (sqlite3.Error, OSError) as exc:
        raise IndexUnavailableError(f"the index in {folder} can't be used: {exc}") from exc
    except StoreUnavailableError as exc:
        # Another subclass has a better message, such as which process holds the lock.
        if type(exc) not in (StoreUnavailableError, DamagedStoreError):
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
        """Reads in the block see one state, unaffected by other commits."""
        with self._database.transaction(immediate=False):
            yield

    # -- properties of the whole index

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
        if row.spread:
            self._db.execute("INSERT INTO several_vectors VALUES (?, ?, ?)", (row.id, row.slots, row.spread))

    def add_entries(self, segment: int, rows: Iterable[tuple[int, str, str]]) -> None:
        """Adds rows of position, entry id and the entry's JSON line."""
        self._db.executemany("INSERT INTO entries VALUES (?, ?, ?, ?)", ((segment, *row) for row in rows))

    def put_checksums(self, segment: int, checksums: SegmentChecksums) -> None:
        row = (segment, checksums.entries, checksums.vectors)
        self._db.execute("INSERT OR REPLACE INTO segment_checksums VALUES (?, ?, ?)", row)

    def checksums(self) -> dict[int, SegmentChecksums]:
        """The checksums of segments; those written by an earlier release have none."""
        rows = self._db.execute("SELECT segment, entries, vectors FROM segment_checksums")
        return {segment: SegmentChecksums(entries, vectors) for segment, entries, vectors in rows}

    def file_checksums(self) -> dict[str, str] | None:
        """SHA-256 of the index's other files by name; None if they may have changed since these were recorded."""
        if not self.meta("files") or self.meta("files") != self.meta("generation", "0"):
            return None
        return dict(self._db.execute("SELECT name, sha256 FROM file_checksums"))

    def known_files(self) -> dict[str, str]:
        return dict(self._db.execute("SELECT name, sha256 FROM file_checksums"))

    def put_file_checksums(self, files: Mapping[str, str]) -> None:
        """Records the checksums of all files, as of the present generation."""
        self._db.execute("DELETE FROM file_checksums")
        self._db.executemany("INSERT INTO file_checksums VALUES (?, ?)", files.items())
        self.set_meta("files", self.meta("generation", "0"))

    def forget_file_checksums(self) -> None:
        """Marks the checksums of files as outdated, before files change."""
        self.set_meta("files", "")

    def move_segment(self, segment: int, first_slot: int) -> None:
        self._db.execute("UPDATE segments SET first_slot = ? WHERE id = ?", (first_slot, segment))

    def drop_segment(self, segment: int) -> None:
        self._db.execute("DELETE FROM segments WHERE id = ?", (segment,))
        self._db.execute("DELETE FROM entries WHERE segment = ?", (segment,))
        self._db.execute("DELETE FROM several_vectors WHERE segment = ?", (segment,))
        self._db.execute("DELETE FROM segment_checksums WHERE segment = ?", (segment,))
        self._db.execute("INSERT OR REPLACE INTO graveyard VALUES (?)", (segment,))

    def segments(self) -> list[SegmentRow]:
        return [SegmentRow(*row) for row in self._db.execute(f"SELECT {_ROW} FROM {_SEGMENTS} ORDER BY first_slot")]  # noqa: S608

    def segment(self, segment: int) -> tuple[SegmentRow, SegmentFacts]:
        """A segment that exists."""
        row = self._db.execute(f"SELECT {_ROW}, {_FACTS} FROM {_SEGMENTS} WHERE id = ?", (segment,)).fetchone()  # noqa: S608
        return SegmentRow(*row[:13]), SegmentFacts(*row[13:])

    def entries(self, locations: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int, str, str, SegmentFacts]]:
        """Segment, position, entry id, chunk line and the segment's facts of those locations that exist."""
        for at in range(0, len(locations), _LOOKUP_SIZE):
            part = locations[at : at + _LOOKUP_SIZE]
            marks = ",".join(["(?, ?)"] * len(part))
            query = (
                f"WITH wanted (s, p) AS (VALUES {marks})"  # noqa: S608
                f" SELECT segment, position, entry_id, chunk, {_FACTS} FROM wanted"
                " CROSS JOIN entries ON segment = s AND position = p CROSS JOIN segments ON id = s"
            )
            for row in self._db.execute(query, [value for location in part for value in location]):
                yield (*row[:4], SegmentFacts(*row[4:]))

    def entries_of(self, segment: int) -> list[tuple[int, str, str]]:
        query = "SELECT position, entry_id, chunk FROM entries WHERE segment = ? ORDER BY position"
        return list(self._db.execute(query, (segment,)))

    def holders(self, entry_ids: Sequence[str]) -> dict[int, set[str]]:
        """Entry ids by the segments that hold them."""
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
        """Scope, key, document and category with the number of their entries, in that order, after `after`."""
        names = "scope, key_id, document_id, category"
        behind = f" WHERE ({names}) > (?, ?, ?, ?)" if after else ""
        query = f"SELECT {names}, SUM(count) FROM segments{behind} GROUP BY {names} ORDER BY {names} LIMIT ?"  # noqa: S608
        return [(*row[:4], int(row[4])) for row in self._db.execute(query, (*after, limit))]

    # -- pending clean-up

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
