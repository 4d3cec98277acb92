"""Writing to the embedded index: one batch of changes at a time, by one process at a time."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, islice
from pathlib import Path
from types import TracebackType

from filelock import FileLock, Timeout

from opx.adapters.embedded.index_database import IndexDatabase
from opx.adapters.embedded.lexical import LexicalWriter
from opx.adapters.embedded.segments import SegmentRow, indexed_chunk
from opx.adapters.embedded.vector_file import VECTORS, VectorWriter, read_rows
from opx.domain.results import IndexedChunk
from opx.errors import IndexUnavailableError
from opx.ports import DocumentChange, IndexEntry, Vector

_BLOCK = 256
"""Entries held in memory at a time."""

_DEAD_ROWS_KEPT = 10_000
_LOCK_SECONDS = 120
_Facets = tuple[str, ...]


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
        self._database = IndexDatabase(self._folder / "index.db")
        self._lexical = LexicalWriter(self._folder / "terms")
        self._vectors = VectorWriter(self._vector_path(), self._dimension)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._vectors.close()
        self._lexical.close()
        self._database.close()
        self._lock.release()

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
        for segment in buried:
            self._lexical.remove_segment(segment)
        return buried

    def _compact(self) -> None:
        """Write the vectors of live segments to a new file when most of the old one is dead."""
        segments = self._database.segments()
        live = sum(row.count for row in segments)
        if int(self._database.meta("next_slot", "0")) <= 2 * live + _DEAD_ROWS_KEPT:
            return
        old = self._vector_path()
        name = f"vectors-{secrets.token_hex(4)}.f32"
        fresh = VectorWriter(self._folder / name, self._dimension)
        with self._database.transaction():
            slot = 0
            for row in segments:
                rows = read_rows(old, self._dimension, row.first_slot + row.count)[row.first_slot :]
                fresh.write(slot, rows)
                self._database.move_segment(row.id, slot)
                slot += row.count
            fresh.sync()
            self._database.set_meta("next_slot", str(slot))
            self._database.set_meta("vectors", name)
            self._database.next_generation()
        self._vectors.close()
        self._vectors = fresh
        old.unlink()

    def _write(self, change: DocumentChange, batch: str) -> list[str]:
        written: list[str] = []
        fresh: set[int] = set()
        for facets, group in groupby(change.entries, key=lambda entry: _facets(entry.indexed)):
            segment = secrets.randbits(62)
            fresh.add(segment)
            written.extend(self._write_segment(segment, facets, group, change.key_id, batch))
        self._remove([*change.superseded, *written], fresh, batch)
        return written

    def _write_segment(
        self, segment: int, facets: _Facets, entries: Iterator[IndexEntry], key_id: str, batch: str
    ) -> list[str]:
        first_slot = int(self._database.meta("next_slot", "0"))
        ids: list[str] = []
        while block := list(islice(entries, _BLOCK)):
            self._vectors.write(first_slot + len(ids), [entry.vector for entry in block])
            self._write_block(segment, len(ids), [entry.indexed for entry in block], batch)
            ids.extend(entry.indexed.entry_id for entry in block)
        scope, category, tier, language, document_id, tags, *facts = facets
        row = SegmentRow(segment, first_slot, len(ids), scope, category, tier, language, document_id, tags)
        names = ("trust", "source_uri", "last_updated")
        self._database.add_segment(row, key_id, json.dumps(dict(zip(names, facts, strict=True))))
        self._database.set_meta("next_slot", str(first_slot + len(ids)))
        return ids

    def _write_block(self, segment: int, position: int, block: Sequence[IndexedChunk], batch: str) -> None:
        rows = [(position + n, item.entry_id, item.chunk.to_json_line()) for n, item in enumerate(block)]
        self._database.add_entries(segment, rows)
        for n, item in enumerate(block):
            self._lexical.add(segment, position + n, batch, item)

    def _remove(self, entry_ids: Sequence[str], fresh: set[int], batch: str) -> None:
        """Drop entries by id, except in the segments just written; a segment that keeps some is written anew."""
        for segment, gone in self._database.holders(entry_ids).items():
            if segment in fresh:
                continue
            stored = self._database.segment(segment)
            assert stored is not None
            row, key_id, facts = stored
            kept = [entry for entry in self._database.entries_of(segment) if entry[1] not in gone]
            if kept:
                self._copy(row, key_id, facts, kept, batch)
            self._database.drop_segment(segment)

    def _copy(self, row: SegmentRow, key_id: str, facts: str, kept: list[tuple[int, str, str]], batch: str) -> None:
        self._vectors.sync()
        rows = read_rows(self._vector_path(), self._dimension, row.first_slot + row.count)
        known = json.loads(facts)
        entries = [
            IndexEntry(indexed_chunk((entry, chunk), row, key_id, known), _vector(rows[row.first_slot + position]))
            for position, entry, chunk in kept
        ]
        segment = secrets.randbits(62)
        self._write_segment(segment, _facets(entries[0].indexed), iter(entries), key_id, batch)


def _vector(row: object) -> Vector:
    return row  # type: ignore[return-value]


def _facets(indexed: IndexedChunk) -> _Facets:
    """Everything that the entries of a segment share."""
    chunk = indexed.chunk
    return (
        indexed.scope_key,
        chunk.category,
        indexed.tier.value,
        indexed.language,
        chunk.document_id,
        "\n".join(chunk.tags),
        repr(indexed.trust),
        indexed.source_uri,
        indexed.last_updated,
    )
