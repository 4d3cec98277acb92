"""The second stage: reads and chunks the documents of a shard, and writes the texts that need vectors, or their vectors.

Nothing is claimed, and nothing is written but files of the job: what is prepared of an object is used when it is applied, if
the object is the same by then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Protocol

from opx.domain.documents import DocumentChunk
from opx.ingestion.events import EventOutcome, Result
from opx.ingestion.indexing.embedding_cache import CachedEmbedder
from opx.ingestion.prepared import CutDocument, spool
from opx.ports.bulk import BatchEmbedder
from opx_bulk.cuts import write_cut
from opx_bulk.files import CUTS, READING, SHARDS, TEXTS, VECTORS, BulkFiles
from opx_bulk.job import BulkFailure, ShardPrepared
from opx_bulk.vectors import text_id, write_vectors

TOKEN_CHARACTERS = 4
"""Characters a token, as a rule of English."""

READ_DIED = "the process that read it ended: it needs more memory or time than one has, or the program has a bug"


class NeededTexts:
    """Collects the texts of a shard that need vectors, each once. With `batch`, they are written for a batch job; without,
    they are embedded here if `embed`."""

    def __init__(self, embedder: CachedEmbedder, batch: BatchEmbedder | None, *, embed: bool) -> None:
        self._embedder = embedder
        self._batch = batch
        self._embed = embed
        self._texts: dict[str, str] = {}

    @property
    def is_wanted(self) -> bool:
        return self._embed or self._batch is not None

    def add(self, chunks: Iterable[DocumentChunk]) -> None:
        for chunk in chunks:
            self._texts.setdefault(text_id(chunk.text), chunk.text)

    def write(self, files: BulkFiles, number: int) -> tuple[int, int, int]:
        """Writes the texts that have no vector in the cache, or their vectors; returns their number, their tokens
        (estimated) and the bytes of the file."""
        known = self._embedder.stored(list(self._texts.values()))
        new = {one: text for one, text in self._texts.items() if text not in known}
        tokens = sum(len(text) for text in new.values()) // TOKEN_CHARACTERS
        if self._embed:
            vectors = dict(zip(new, self._embedder.unkept(list(new.values())), strict=True))
            data = write_vectors(self._embedder.model_id, self._embedder.dimension, vectors)
            files.store.put(files.name(VECTORS, number), data)
            return len(new), tokens, len(data)
        assert self._batch is not None
        rows = [{"recordId": one, "modelInput": dict(self._batch.request(text))} for one, text in new.items()]
        return len(new), tokens, files.put_lines(TEXTS, number, rows)


class Cuts(Protocol):
    """Reads and chunks documents, as `IngestionPipeline.cut`."""

    def cut(self, key: str, stack: ExitStack, /) -> CutDocument | EventOutcome: ...


class _Attempts:
    """Notes the document that is being read, from the second attempt at a shard on: one at which the process ended is left
    out of the next attempt."""

    def __init__(self, files: BulkFiles, number: int, attempt: int) -> None:
        self._files = files
        self._number = number
        self._fatal: list[str] = [str(row) for row in files.lines(files.name(READING, number))]
        self._notes = attempt > 1 or bool(self._fatal)

    @property
    def fatal(self) -> Sequence[str]:
        """Keys of documents at which the process ended."""
        return self._fatal

    @contextmanager
    def reading(self, key: str) -> Iterator[None]:
        """Notes the document while the block reads it: only a process that ends leaves the note, no error of a store."""
        if not self._notes:
            yield
            return
        self._files.put_lines(READING, self._number, [*self._fatal, key])
        try:
            yield
        finally:
            self._files.put_lines(READING, self._number, self._fatal)


def prepare_objects(
    files: BulkFiles, number: int, cuts: Cuts, texts: NeededTexts, *, attempt: int = 1
) -> ShardPrepared:
    """Prepares a shard of objects. `attempt` counts the calls for it, from 1. Raises `StoreUnavailableError`."""
    keys = [str(row["key"]) for row in files.lines(files.name(SHARDS, number))]
    tried = _Attempts(files, number, attempt)
    left, failures, settled = [], [BulkFailure(key, READ_DIED) for key in tried.fatal], dict.fromkeys(Result, 0)
    with spool() as data:
        for key in keys:
            if key in tried.fatal:
                continue
            with tried.reading(key), ExitStack() as stack:
                found = cuts.cut(key, stack)
                if isinstance(found, EventOutcome):
                    settled[found.result] += 1
                elif write_cut(data, key, found) and found.is_embedded and texts.is_wanted:
                    texts.add(found.chunks())
            if not isinstance(found, EventOutcome) or found.result is not Result.UNCHANGED:
                left.append(key)
        data.seek(0)
        files.store.put(files.name(CUTS, number), data)  # type: ignore[arg-type]
    counts = texts.write(files, number) if texts.is_wanted else (0, 0, 0)
    return ShardPrepared(
        shard=number,
        left=tuple(left),
        unchanged=settled[Result.UNCHANGED],
        failures=tuple(failures),
        texts=counts[0],
        tokens=counts[1],
        bytes=counts[2],
    )


def prepare_heads(
    files: BulkFiles, number: int, read: Callable[[Sequence[str]], Iterable[DocumentChunk]], texts: NeededTexts
) -> ShardPrepared:
    """Prepares a shard of the catalog's documents, whose chunks `read` yields. Raises `StoreUnavailableError`."""
    keys = [str(row["documentKey"]) for row in files.lines(files.name(SHARDS, number))]
    counts = (0, 0, 0)
    if texts.is_wanted:
        texts.add(read(keys))
        counts = texts.write(files, number)
    return ShardPrepared(shard=number, left=tuple(keys), texts=counts[0], tokens=counts[1], bytes=counts[2])
