"""Segments of the embedded index: runs of entries that share a document and all that is filtered by.

Held in memory as arrays (one row a segment, not a chunk), so that a filter over 100,000 chunks takes well under a
millisecond and opening takes a few. Their unit vectors are float32 rows of one file, read through a memory map: it opens
at once at any size.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from opx.adapters.embedded.durable_files import sync_file, sync_folder
from opx.domain.documents import DocumentChunk
from opx.domain.knowledge import Tier
from opx.domain.record import from_json
from opx.domain.results import IndexedChunk
from opx.ports import SearchFilter, Vector

VECTORS = "vectors.f32"
"""Name of an index's first file; compaction writes others."""

Matrix = npt.NDArray[np.float32]


class VectorWriter:
    """Writes rows from a slot on. What is beyond the last committed slot is garbage and may be overwritten."""

    def __init__(self, path: Path, dimension: int) -> None:
        self._row_bytes = 4 * dimension
        self._dimension = dimension
        new = not path.exists()
        self._file = path.open("w+b" if new else "r+b")
        if new:
            sync_folder(path.parent)

    def write(self, slot: int, vectors: Sequence[Vector] | Matrix) -> None:
        """Put `vectors` at `slot` and the following ones. Raises `ValueError` for another dimension."""
        rows = np.asarray(vectors, dtype="<f4")
        if rows.shape[1:] != (self._dimension,):
            raise ValueError(f"vectors have dimension {rows.shape[1:]}, the index has {self._dimension}")
        self._file.seek(slot * self._row_bytes)
        self._file.write(rows.tobytes())

    def sync(self) -> None:
        """Return when all rows written are on disk."""
        sync_file(self._file)

    def close(self) -> None:
        self._file.close()


def read_rows(path: Path, dimension: int, count: int) -> Matrix:
    """The first `count` rows, shape (count, dimension), mapped and read-only."""
    if count == 0:
        return np.empty((0, dimension), dtype=np.float32)
    rows: Matrix = np.memmap(path, dtype="<f4", mode="r", shape=(count, dimension)).view(np.ndarray)
    return rows


Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class SegmentRow:
    """A segment as the database holds it. `tags` and `services` are joined by newlines; `updated_day` counts from
    1970-01-01."""

    id: int
    first_slot: int
    count: int
    scope: str
    category: str
    tier: str
    language: str
    document_id: str
    tags: str
    services: str
    updated_day: int | None


@dataclass(frozen=True, slots=True)
class SegmentFacts:
    """What the entries of a segment share beyond what is filtered by."""

    key_id: str
    trust: float
    source_uri: str
    last_updated: str


class SegmentMap:
    """An immutable view of all live segments."""

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
        self.slots = int((firsts + counts).max()) if len(rows) else 0
        self._segment_of_slot = np.full(self.slots, -1, dtype=np.int32)
        live_slots = np.repeat(firsts - (np.cumsum(counts) - counts), counts) + np.arange(self.live)
        self._segment_of_slot[live_slots] = np.repeat(np.arange(len(rows), dtype=np.int32), counts)

    def row(self, segment_id: int) -> SegmentRow:
        """The live segment with this id."""
        return self._rows[self._by_id[segment_id]]

    def is_among(self, segment_id: int, allowed: Mask) -> bool:
        """True if the segment is live and allowed."""
        index = self._by_id.get(segment_id)
        return index is not None and bool(allowed[index])

    def allowed(self, where: SearchFilter) -> Mask:
        """Which segments pass the filter, shape (segments,)."""
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
        """How many live entries the scopes have."""
        return int(self.counts[self._columns["scopes"].any_of(scopes)].sum())

    def share(self, allowed: Mask) -> float:
        """Share of the live entries that are in allowed segments."""
        return float(self.counts[allowed].sum()) / self.live if self.live else 0.0

    def slots_of(self, allowed: Mask) -> npt.NDArray[np.intp]:
        """The slots of allowed segments, ascending; a dead slot's -1 finds the appended False."""
        return np.flatnonzero(np.append(allowed, False)[self._segment_of_slot])

    def slots_at(self, places: Iterable[tuple[int, int]], allowed: Mask) -> npt.NDArray[np.intp]:
        """The slots of those places that are in allowed segments, ascending."""
        found = (
            self._rows[index].first_slot + position
            for segment, position in places
            if (index := self._by_id.get(segment)) is not None and allowed[index]
        )
        return np.sort(np.fromiter(found, dtype=np.intp))

    def places(self, slots: Iterable[int]) -> list[tuple[int, int]]:
        """Segment id and position within it of each slot."""
        found = []
        for slot in slots:
            row = self._rows[self._segment_of_slot[slot]]
            found.append((row.id, slot - row.first_slot))
        return found


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
        """Those from the first day on and before the end; None is no bound."""
        mask = self._known.copy()
        if first is not None:
            mask &= self._days >= first
        if end is not None:
            mask &= self._days < end
        return mask


def _list_index(joined: Iterable[str]) -> dict[str, list[int]]:
    """Which segments have each value, of values that are joined by newlines."""
    index: dict[str, list[int]] = {}
    for number, values in enumerate(joined):
        for value in values.split("\n") if values else ():
            index.setdefault(value, []).append(number)
    return index


def entry_line(indexed: IndexedChunk) -> str:
    """What is kept of an entry as JSON: its chunk, and what is its own beside it."""
    own = {
        "flags": indexed.flags,
        "fingerprint": indexed.fingerprint,
        "expires": indexed.expires,
        "reviewBy": indexed.review_by,
    }
    found = indexed.chunk.to_json() | {name: value for name, value in own.items() if value}
    return json.dumps(found, ensure_ascii=False, separators=(",", ":"))


def indexed_chunk(entry: tuple[str, str], row: SegmentRow, facts: SegmentFacts) -> IndexedChunk:
    """An entry (id and line) with what its segment holds for all."""
    line = json.loads(entry[1])
    return IndexedChunk(
        entry_id=entry[0],
        chunk=from_json(DocumentChunk, line),
        key_id=facts.key_id,
        scope_key=row.scope,
        tier=Tier(row.tier),
        trust=facts.trust,
        source_uri=facts.source_uri,
        last_updated=facts.last_updated,
        language=row.language,
        flags=tuple(line.get("flags", ())),
        fingerprint=line.get("fingerprint", ""),
        services=tuple(row.services.split("\n")) if row.services else (),
        expires=line.get("expires", ""),
        review_by=line.get("reviewBy", ""),
    )
