"""Writes to the embedded index: one batch of changes at a time, by one process at a time."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from errno import EDQUOT, ENOSPC
from itertools import groupby, islice
from pathlib import Path
from types import TracebackType

import numpy as np

from opx.adapters.embedded.durable_files import held
from opx.adapters.embedded.lexical import SMALL_HEAP_BYTES, WRITER_HEAP_BYTES, LexicalWriter, term_files
from opx.adapters.embedded.segments import (
    SPREAD,
    IndexDatabase,
    SegmentDigest,
    SegmentFacts,
    SegmentRow,
    entry_line,
    indexed_chunk,
    unpacked,
)
from opx.adapters.embedded.vector_files import ROWS, StoredRows, VectorWriter, paths_of
from opx.domain.ids import day_number
from opx.domain.results import IndexedChunk
from opx.errors import IndexUnavailableError, UnwritableStoreError
from opx.ports import DocumentChange, IndexEntry, Vectors
from opx.retrieval.judging_records import packed_record

log = logging.getLogger(__name__)

_BLOCK = 256
"""Entries held in memory at a time."""

_RECORDS, _FILLED = "judging_records", 500
"""The property of an index whose entries all have judging records, and how many a batch makes of those that are missing."""

_DEAD_ROWS_KEPT = 10_000
_LOCK_SECONDS = 120


_Facets = tuple[str, str, str, str, str, str, str, int | None]
"""Scope, category, tier, language, document, tags, services, and the day of the last update, as in `SegmentRow`."""


class IndexWriter:
    """Holds the folder's write lock while it is open. Raises `IndexUnavailableError` if it can't get it. What it changes
    becomes an index of `identity`, which names the format. `small` is for batches of a few documents."""

    def __init__(self, folder: Path, dimension: int, identity: str, *, small: bool = False) -> None:
        self._folder = folder
        self._heap_bytes = SMALL_HEAP_BYTES if small else WRITER_HEAP_BYTES
        self._identity = identity
        self._dimension = dimension
        self._applied = False
        self._changed: set[int] = set()
        self._live_slots = 0

    def __enter__(self) -> IndexWriter:
        busy = IndexUnavailableError(f"another process has been writing to {self._folder} for too long")
        with ExitStack() as opened:
            opened.enter_context(held(self._folder / "writer.lock", busy, seconds=_LOCK_SECONDS))
            self._database = IndexDatabase(self._folder / "index.db")
            opened.callback(self._database.close)
            opened.callback(self._record_files)
            self._lexical = LexicalWriter(self._folder / "terms", self._heap_bytes)
            opened.callback(self._lexical.close)
            self._vectors = VectorWriter(self._base(), self._dimension)
            opened.callback(self._close_vectors)
            self._opened = opened.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._opened.close()

    def _record_files(self) -> None:
        """Records the checksums of the term index's files, once merges have ended. Only new files are read. They stay
        outdated if a batch failed, until the next one."""
        if not self._applied:
            return
        with self._database.transaction():
            self._database.put_file_checksums(term_files(self._folder, self._database.known_files()))

    def _close_vectors(self) -> None:
        """Closes the current vector files, which compaction may have changed."""
        self._vectors.close()

    def _base(self) -> Path:
        """The path of the vector files without their endings."""
        return self._folder / self._database.meta(ROWS, ROWS)

    def apply(self, changes: Iterable[DocumentChange]) -> list[list[str]]:
        """Writes the batch and makes it visible at once; returns each change's entry ids."""
        batch = secrets.token_hex(8)
        self._compact()
        self._fill_records()
        buried = self._clean_up()
        with self._database.transaction():
            self._database.forget_file_checksums()
            self._database.set_meta("identity", self._identity)
            self._database.set_meta(ROWS, self._base().name)
            self._database.begin_batch(batch)
        with self._database.transaction():
            self._changed, self._live_slots = set(), self._database.live_slots()
            written = [self._write(change, batch) for change in changes]
            self._database.empty_graveyard(buried)
            self._database.next_generation(self._changed, self._live_slots)
            self._database.end_batch(batch)
            self._vectors.sync()
            self._lexical.commit()
        self._applied = True
        return written

    def _clean_up(self) -> list[int]:
        """Removes leftovers of crashed batches and replaced segments from the lexical index; takes effect with the commit."""
        for batch in self._database.unfinished():
            self._lexical.remove_batch(batch)
            with self._database.transaction():
                # Forgotten only after the removal is durable.
                self._database.forget_file_checksums()
                self._lexical.commit()
                self._database.end_batch(batch)
        buried = self._database.graveyard()
        self._lexical.remove_segments(buried)
        return buried

    def _compact(self) -> None:
        """Writes the vectors of live segments to new files when most of the old ones is dead.

        The old files stay until the next batch, so that a reader that has just read their name can still open them. Where the
        disk has no room for others, the batch goes on with the old ones.
        """
        old = self._base()
        for path in self._folder.glob(f"{ROWS}*"):
            if path not in paths_of(old):
                path.unlink()
        if int(self._database.meta("next_slot", "0")) <= 2 * self._database.live_slots() + _DEAD_ROWS_KEPT:
            return
        fresh = self._folder / f"{ROWS}-{secrets.token_hex(4)}"
        self._vectors.close()
        try:
            self._copy_live(old, fresh)
        except (OSError, UnwritableStoreError) as exc:
            if isinstance(exc, OSError) and exc.errno not in (ENOSPC, EDQUOT):
                raise
            log.warning("no room to compact the vectors of %s: %s", self._folder, exc)
            for path in paths_of(fresh):
                path.unlink(missing_ok=True)
        self._vectors = VectorWriter(self._base(), self._dimension)

    def _copy_live(self, old: Path, fresh: Path) -> None:
        segments = self._database.segments()
        rows = StoredRows(old, self._dimension, max((row.first_slot + row.slots for row in segments), default=0))
        slot = 0
        with closing(VectorWriter(fresh, self._dimension)) as vectors, self._database.transaction():
            for row in segments:
                vectors.put(slot, rows.rows(row.first_slot, row.first_slot + row.slots))
                self._database.move_segment(row.id, slot)
                slot += row.slots
            vectors.sync()
            self._database.set_meta("next_slot", str(slot))
            self._database.set_meta(ROWS, fresh.name)
            self._database.next_generation(None, slot)

    def _fill_records(self) -> None:
        """Makes the judging records of some entries that an earlier release wrote; the next batch continues."""
        if self._database.meta(_RECORDS):
            return
        with self._database.transaction():
            missing = self._database.without_records(_FILLED)
            for row in list(self._database.entries(missing)):
                chunk = indexed_chunk((row.entry_id, unpacked(row.line)), *self._database.segment(row.segment))
                self._database.add_records(row.segment, [(row.position, packed_record(chunk))])
            if len(missing) < _FILLED:
                self._database.set_meta(_RECORDS, "complete")
            else:
                log.info("judging records of %d entries of an earlier release were made; more follow", len(missing))

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
        first_slot = slot = int(self._database.meta("next_slot", "0"))
        ids: list[str] = []
        spread = b""
        digest = SegmentDigest()
        while block := list(islice(entries, _BLOCK)):
            vectors = [vector for entry in block for vector in entry.vectors]
            spread += _spread(entry.vectors for entry in block)
            digest.add_vectors(self._vectors.write(slot, vectors))
            digest.add_entries(self._write_block(segment, len(ids), [entry.indexed for entry in block], batch))
            slot += len(vectors)
            ids.extend(entry.indexed.entry_id for entry in block)
        slots = slot - first_slot
        kept = spread if slots > len(ids) else b""
        row = SegmentRow(segment, first_slot, len(ids), slots, *facets, kept)
        self._database.add_segment(row, facts)
        self._database.put_checksums(segment, digest.checksums(row, facts))
        self._database.set_meta("next_slot", str(slot))
        self._changed.add(segment)
        self._live_slots += slots
        return ids

    def _write_block(
        self, segment: int, position: int, block: Sequence[IndexedChunk], batch: str
    ) -> list[tuple[int, str, str]]:
        rows = [(position + n, item.entry_id, entry_line(item)) for n, item in enumerate(block)]
        self._database.add_entries(segment, rows)
        self._database.add_records(segment, [(position + n, packed_record(item)) for n, item in enumerate(block)])
        for n, item in enumerate(block):
            self._lexical.add(segment, position + n, batch, item)
        return rows

    def _remove(self, entry_ids: Sequence[str], fresh: set[int], batch: str) -> None:
        """Removes entries by id, except in the segments just written; a segment that keeps some is rewritten."""
        for segment, gone in self._database.holders(entry_ids).items():
            if segment in fresh:
                continue
            kept = [entry for entry in self._database.entries_of(segment) if entry[1] not in gone]
            if kept:
                self._copy(*self._database.segment(segment), kept, batch)
            self._live_slots -= self._database.drop_segment(segment)
            self._changed.add(segment)

    def _copy(self, row: SegmentRow, facts: SegmentFacts, kept: list[tuple[int, str, str]], batch: str) -> None:
        self._vectors.sync()
        end = row.first_slot + row.slots
        vectors = StoredRows(self._base(), self._dimension, end).vectors(np.arange(row.first_slot, end)).tolist()
        bounds = row.bounds
        entries = [
            IndexEntry(indexed_chunk((entry, chunk), row, facts), vectors[bounds[at] : bounds[at + 1]])
            for at, entry, chunk in kept
        ]
        shared = _shared(entries[0].indexed, facts.key_id)
        self._write_segment(secrets.randbits(62), *shared, iter(entries), batch)


def _spread(entries: Iterable[Vectors]) -> bytes:
    """The number of vectors of each entry, as in `SegmentRow.spread`. Raises `ValueError` if one has none, or too many."""
    counts = [len(vectors) for vectors in entries]
    if not all(0 < count <= np.iinfo(SPREAD).max for count in counts):
        raise ValueError(f"an entry has from 1 to {np.iinfo(SPREAD).max} vectors, not {min(counts)} or {max(counts)}")
    return np.array(counts, SPREAD).tobytes()


def _shared(indexed: IndexedChunk, key_id: str) -> tuple[_Facets, SegmentFacts]:
    """Fields that all entries of a segment share."""
    chunk = indexed.chunk
    tier, tags, services = indexed.tier.value, "\n".join(chunk.tags), "\n".join(indexed.resources)
    about = (indexed.scope_key, chunk.category, tier, indexed.language, chunk.document_id)
    facts = SegmentFacts(key_id, indexed.trust, indexed.source_uri, indexed.last_updated)
    return (*about, tags, services, day_number(indexed.last_updated)), facts
