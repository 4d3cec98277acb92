"""Stores segments of the embedded index, runs of entries that share a document and all filtered fields, and its tables."""

from __future__ import annotations

import hashlib
import json
import secrets
import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
from msgspec import Struct

from opx.adapters.embedded.database import open_database
from opx.adapters.embedded.object_store import address_of
from opx.domain.documents import DocumentChunk
from opx.domain.knowledge import Tier
from opx.domain.record import from_json
from opx.domain.results import LATER_FACTS, IndexedChunk, later_facts
from opx.errors import DamagedStoreError, IndexUnavailableError, StoreUnavailableError
from opx.ports import DocumentFacts

# -- segments


class SegmentRow(Struct, frozen=True):
    """A segment as the database holds it. Its `count` entries have `slots` consecutive rows in the vector files.

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


class SegmentFacts(Struct, frozen=True, gc=False):
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
        """Adds rows of vectors, with all of their fields."""
        self._vectors.update(rows)

    def checksums(self, row: SegmentRow, facts: SegmentFacts) -> SegmentChecksums:
        """The checksums of all that was added. The position in the files is no part of them, as compaction moves it."""
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


_ENCODED = dict(zip(IndexedChunk.__struct_fields__, IndexedChunk.__struct_encode_fields__, strict=True))
_TIERS = {tier.value: tier for tier in Tier}
_OWN = {name: _ENCODED[name] for name in LATER_FACTS if name != "resources"}
"""Fields of an entry's line beside its chunk, and their names in it: resources are the `services` of its segment."""


def entry_line(indexed: IndexedChunk) -> str:
    """An entry as a line of JSON: its chunk and its own fields."""
    own = {encoded: getattr(indexed, name) for name, encoded in _OWN.items()}
    found = indexed.chunk.to_json() | {name: value for name, value in own.items() if value}
    return json.dumps(found, ensure_ascii=False, separators=(",", ":"))


_SKELETON = (
    b'"flags":["suspected_instruction"],"expires":"","reviewBy":""},"fingerprint":"","section":["","],"start":,"end":,"metadata":'
    b'{"documentTitle":"","category":"runbooks/procedures","tags":[""]}{"chunkId":"","documentId":"","chunkIndex":0,"content":"'
    b'","tokenCount":'
)
"""Text that compressed lines refer to, the likeliest last. Part of the file format."""


def packed(line: str) -> bytes:
    """A line, compressed: less than half of it."""
    packer = zlib.compressobj(6, zlib.DEFLATED, -zlib.MAX_WBITS, zlib.DEF_MEM_LEVEL, zlib.Z_DEFAULT_STRATEGY, _SKELETON)
    return packer.compress(line.encode("utf-8", "surrogatepass")) + packer.flush()


def unpacked(stored: str | bytes) -> str:
    """A line as it was packed, or as text. Raises `IndexUnavailableError` if it is damaged."""
    if isinstance(stored, str):
        return stored
    unpacker = zlib.decompressobj(-zlib.MAX_WBITS, _SKELETON)
    try:
        line = unpacker.decompress(stored)
        if unpacker.eof:
            return line.decode("utf-8", "surrogatepass")
    except (zlib.error, UnicodeDecodeError):
        pass
    raise IndexUnavailableError("an entry of the index is damaged: `opx repair` makes it again")


def _read_line(line: str) -> dict[str, Any]:
    """Decodes the JSON of an entry. `json` alone reads halves of surrogate pairs, and takes three times as long."""
    try:
        found: dict[str, Any] = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeEncodeError):
        found = json.loads(line)
    return found


class SharedFields(Struct, frozen=True, gc=False):
    """The filtered fields of a segment that its chunks have, too."""

    scope: str
    tier: str
    language: str
    services: str
    document_id: str
    category: str
    tags: str


def indexed_chunk(entry: tuple[str, str], row: SharedFields | SegmentRow, facts: SegmentFacts) -> IndexedChunk:
    """Builds the chunk of an entry (id and line) and its segment's shared fields."""
    line = _read_line(entry[1])
    return IndexedChunk(
        entry_id=entry[0],
        chunk=from_json(DocumentChunk, line),
        key_id=facts.key_id,
        scope_key=row.scope,
        tier=_TIERS[row.tier],
        trust=facts.trust,
        source_uri=address_of(facts.source_uri),
        last_updated=facts.last_updated,
        language=row.language,
        resources=_lines(row.services),
        **later_facts(line, _OWN),
    )


class EntryRow(NamedTuple):
    """An entry as it is stored: its packed line, and its judging record, which is empty if an earlier release wrote it."""

    segment: int
    position: int
    entry_id: str
    line: str | bytes
    record: bytes


class SegmentFields(Struct, frozen=True, gc=False):
    """All fields that the entries of a segment share."""

    shared: SharedFields
    facts: SegmentFacts
    document: DocumentFacts

    @classmethod
    def of(cls, shared: SharedFields, facts: SegmentFacts) -> SegmentFields:
        about = (_TIERS[shared.tier], facts.trust, address_of(facts.source_uri), facts.last_updated)
        lists = (_lines(shared.tags), _lines(shared.services))
        return cls(shared, facts, DocumentFacts(shared.document_id, facts.key_id, shared.category, *about, *lists))


def _lines(joined: str) -> tuple[str, ...]:
    return tuple(joined.split("\n")) if joined else ()


class StoredChunks(Mapping[str, IndexedChunk]):
    """The chunks of entries, by id, from their packed lines and the fields of their segments. Each is decoded when it is
    first needed, which raises `IndexUnavailableError` if it is damaged."""

    def __init__(self, entries: Mapping[str, tuple[str | bytes, SegmentFields]]) -> None:
        self._entries = entries
        self._decoded: dict[str, IndexedChunk] = {}

    def __getitem__(self, entry_id: str) -> IndexedChunk:
        if entry_id not in self._decoded:
            line, fields = self._entries[entry_id]
            self._decoded[entry_id] = indexed_chunk((entry_id, unpacked(line)), fields.shared, fields.facts)
        return self._decoded[entry_id]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)


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
CREATE TABLE IF NOT EXISTS judging_records (
    segment INTEGER NOT NULL, position INTEGER NOT NULL, record BLOB NOT NULL, PRIMARY KEY (segment, position));
CREATE TABLE IF NOT EXISTS commits (
    generation INTEGER PRIMARY KEY, name TEXT NOT NULL, segments BLOB, live_slots INTEGER NOT NULL);
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
_COMMITS_KEPT = 256
"""Generations that a reader may be behind and still learn what changed since."""

_LOOKUP_SIZE = 500
"""Values in one SQL statement; SQLite's own limit is higher everywhere."""


_IDS = np.dtype("<i8")


class Generation(Struct, frozen=True):
    """A commit: its number and a random name. Copies of an index that were changed apart have commits of the same number, and
    other names. Those of earlier releases have none."""

    number: int
    name: str


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


_PAGE_BYTES = 16_384
"""Pages of a new index. Entries of about a kilobyte leave a seventh of SQLite's usual 4 kB unused, and 3 % of these."""


class IndexDatabase:
    """The index's SQLite file. Every thread has a connection of its own."""

    def __init__(self, path: Path) -> None:
        self._database = open_database(path, page_bytes=_PAGE_BYTES)
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

    # -- commits: the changes of each generation, for readers of an earlier one

    def generation(self) -> Generation:
        """The last commit."""
        query = (
            "SELECT generation, commits.name FROM meta JOIN commits ON generation = CAST(value AS INTEGER)"
            " WHERE meta.name = 'generation'"
        )
        row = self._db.execute(query).fetchone() or (int(self.meta("generation", "0")), "")
        return Generation(*row)

    def next_generation(self, changed: Iterable[int] | None, live_slots: int) -> None:
        """Counts a commit that added or removed these segments, or changed all if it is None, and left so many rows of the
        vector files live."""
        number = int(self.meta("generation", "0")) + 1
        segments = None if changed is None else np.array(sorted(set(changed)), _IDS).tobytes()
        self.set_meta("generation", str(number))
        row = (number, secrets.token_hex(8), segments, live_slots)
        self._db.execute("INSERT OR REPLACE INTO commits VALUES (?, ?, ?, ?)", row)
        self._db.execute("DELETE FROM commits WHERE generation <= ?", (number - _COMMITS_KEPT,))

    def live_slots(self) -> int:
        """The number of rows of the vector files that belong to segments: as noted by the last commit, or counted."""
        query = "SELECT live_slots FROM commits WHERE generation = ?"
        noted = self._db.execute(query, (int(self.meta("generation", "0")),)).fetchone()
        counted = f"SELECT COALESCE(SUM(COALESCE(slots, count)), 0) FROM {_SEGMENTS}"  # noqa: S608
        return int((noted or self._db.execute(counted).fetchone())[0])

    def changed_since(self, known: Generation) -> list[int] | None:
        """The segments that were added or removed after a commit. None if that is unknown: it is too long ago, belongs to
        another copy of the index, or an earlier release has written since, which notes no changes."""
        last = self.generation()
        query = "SELECT name, segments FROM commits WHERE generation BETWEEN ? AND ? ORDER BY generation"
        rows = self._db.execute(query, (known.number, last.number)).fetchall()
        if not rows or len(rows) != last.number - known.number + 1 or rows[0][0] != known.name:
            return None
        noted = [segments for _, segments in rows[1:]]
        if any(segments is None or len(segments) % _IDS.itemsize for segments in noted):
            return None
        return [int(segment) for segment in np.unique(np.frombuffer(b"".join(noted), _IDS))]

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
        stored = ((segment, position, entry_id, packed(line)) for position, entry_id, line in rows)
        self._db.executemany("INSERT INTO entries VALUES (?, ?, ?, ?)", stored)

    def add_records(self, segment: int, rows: Iterable[tuple[int, bytes]]) -> None:
        """Adds rows of position and the entry's packed judging record."""
        stored = ((segment, position, record) for position, record in rows)
        self._db.executemany("INSERT INTO judging_records VALUES (?, ?, ?)", stored)

    def without_records(self, limit: int) -> list[tuple[int, int]]:
        """Locations of entries without a judging record, at most so many: those that an earlier release wrote."""
        query = (
            "SELECT e.segment, e.position FROM entries e LEFT JOIN judging_records r"
            " ON r.segment = e.segment AND r.position = e.position WHERE record IS NULL LIMIT ?"
        )
        return self._db.execute(query, (limit,)).fetchall()

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

    def drop_segment(self, segment: int) -> int:
        """Removes a segment that exists; returns the number of its rows in the vector files."""
        query = f"SELECT COALESCE(slots, count) FROM {_SEGMENTS} WHERE id = ?"  # noqa: S608
        slots = int(self._db.execute(query, (segment,)).fetchone()[0])
        self._db.execute("DELETE FROM segments WHERE id = ?", (segment,))
        self._db.execute("DELETE FROM entries WHERE segment = ?", (segment,))
        self._db.execute("DELETE FROM judging_records WHERE segment = ?", (segment,))
        self._db.execute("DELETE FROM several_vectors WHERE segment = ?", (segment,))
        self._db.execute("DELETE FROM segment_checksums WHERE segment = ?", (segment,))
        self._db.execute("INSERT OR REPLACE INTO graveyard VALUES (?)", (segment,))
        return slots

    def segments(self) -> list[SegmentRow]:
        return list(self.each_segment())

    def each_segment(self) -> Iterator[SegmentRow]:
        """All segments in the order of their slots."""
        return (SegmentRow(*row) for row in self._db.execute(f"SELECT {_ROW} FROM {_SEGMENTS} ORDER BY first_slot"))  # noqa: S608

    def segments_among(self, ids: Sequence[int]) -> list[SegmentRow]:
        """Those of the segments that are live, in the order of their slots."""
        found: list[SegmentRow] = []
        for at in range(0, len(ids), _LOOKUP_SIZE):
            part = ids[at : at + _LOOKUP_SIZE]
            marks = ",".join("?" * len(part))
            query = f"SELECT {_ROW} FROM {_SEGMENTS} WHERE id IN ({marks})"  # noqa: S608
            found += [SegmentRow(*row) for row in self._db.execute(query, part)]
        return sorted(found, key=lambda row: row.first_slot)

    def segment(self, segment: int) -> tuple[SegmentRow, SegmentFacts]:
        """A segment that exists."""
        row = self._db.execute(f"SELECT {_ROW}, {_FACTS} FROM {_SEGMENTS} WHERE id = ?", (segment,)).fetchone()  # noqa: S608
        return SegmentRow(*row[:13]), SegmentFacts(*row[13:])

    def entries(self, locations: Sequence[tuple[int, int]]) -> Iterator[EntryRow]:
        """The entries at those locations that exist."""
        for at in range(0, len(locations), _LOOKUP_SIZE):
            part = locations[at : at + _LOOKUP_SIZE]
            marks = ",".join(["(?, ?)"] * len(part))
            query = (
                f"WITH wanted (s, p) AS (VALUES {marks})"  # noqa: S608
                " SELECT e.segment, e.position, entry_id, chunk, COALESCE(record, x'') FROM wanted"
                " CROSS JOIN entries e ON e.segment = s AND e.position = p"
                " LEFT JOIN judging_records r ON r.segment = s AND r.position = p"
            )
            values = [value for location in part for value in location]
            yield from map(EntryRow._make, self._db.execute(query, values))

    def facts_of(self, segments: Sequence[int]) -> dict[int, SegmentFacts]:
        """The facts of those segments that exist."""
        facts: dict[int, SegmentFacts] = {}
        for at in range(0, len(segments), _LOOKUP_SIZE):
            part = segments[at : at + _LOOKUP_SIZE]
            query = f"SELECT id, {_FACTS} FROM segments WHERE id IN ({','.join('?' * len(part))})"  # noqa: S608
            facts |= {row[0]: SegmentFacts(*row[1:]) for row in self._db.execute(query, part)}
        return facts

    def entries_of(self, segment: int) -> list[tuple[int, str, str]]:
        query = "SELECT position, entry_id, chunk FROM entries WHERE segment = ? ORDER BY position"
        return [(position, entry, unpacked(line)) for position, entry, line in self._db.execute(query, (segment,))]

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
