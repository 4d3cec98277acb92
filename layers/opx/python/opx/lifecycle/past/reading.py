"""Versions that were replaced, read from their chunk files to be searched."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TypeVar

from opx.domain.documents import DocumentChunk, KnowledgeDocument
from opx.domain.remarks import RemarkKind
from opx.domain.results import IndexedChunk
from opx.errors import EmbeddingError, ModelError, ObjectNotFoundError
from opx.hygiene.instructions import FLAG
from opx.ingestion.corpus.chunk_files import read_chunks
from opx.ingestion.indexing.embedding_cache import CachedEmbedder
from opx.ingestion.prepared import as_indexed
from opx.lifecycle.past.engine import PastEntry
from opx.ports import ObjectStore, Vectors
from opx.runtime.parallel import Each

NOT_ALL = "partial: not all versions that were replaced since could be searched (at most {documents} documents)"
UNREADABLE = "partial: the texts of some versions that were replaced since are gone"
BY_WORDS = "partial: some versions that were replaced since were searched by words alone, as their vectors are gone"

T = TypeVar("T")
_AT_ONCE = 16
_KEPT_CHUNKS = 1000
"""Of the versions that were read last: questions about one incident are asked as of one time."""

_Names = tuple[str, tuple[tuple[str, int], ...]]
"""A model, and versions by key id and number."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Of the work for one question: rows of the calendar, versions and chunks read, texts embedded anew, and seconds
    after which no more is read."""

    rows: int = 20_000
    documents: int = 400
    chunks: int = 3_000
    embedded: int = 128
    seconds: float = 8.0


@dataclass
class Read:
    """What was read of versions that were replaced since, and what of it is missing: not all was read, texts are gone,
    vectors are."""

    entries: list[PastEntry] = field(default_factory=list)
    cut: bool = False
    unreadable: bool = False
    by_words: bool = False

    def lacks(self, bounds: Bounds) -> Iterator[str]:
        if self.cut:
            yield NOT_ALL.format(documents=bounds.documents)
        if self.unreadable:
            yield UNREADABLE
        if self.by_words:
            yield BY_WORDS

    @property
    def whole(self) -> bool:
        return not (self.cut or self.unreadable or self.by_words)


class PastReader:
    """Reads versions and their vectors. One instance may serve several threads."""

    def __init__(self, store: ObjectStore, embedder: CachedEmbedder, *, threads: int, bounds: Bounds) -> None:
        self._store = store
        self._embedder = embedder
        self._each = Each(threads)
        self._bounds = bounds
        self._last: tuple[_Names, list[PastEntry]] | None = None

    def entries(self, documents: Sequence[KnowledgeDocument], until: float) -> Read:
        """What is to be searched of these versions. What was read for the question before needn't be read again."""
        versions = documents[: self._bounds.documents]
        names = self._embedder.model_id, tuple((one.key.id, one.version) for one in versions)
        known = self._last
        if known and known[0] == names:
            return Read(known[1])
        read = self._read(versions, until)
        if read.whole and len(read.entries) <= _KEPT_CHUNKS:
            self._last = names, read.entries
        return read

    def _read(self, documents: Sequence[KnowledgeDocument], until: float) -> Read:
        """Their chunks with their vectors, as far as the bounds go."""
        read = Read()
        found: list[IndexedChunk] = []
        for portion in portions(documents, _AT_ONCE):
            if len(found) >= self._bounds.chunks or time.monotonic() > until:
                read.cut = True
                break
            for document, chunks in zip(portion, self._each(self._chunks, portion), strict=True):
                read.unreadable |= chunks is None
                flags = _flags(document)
                found.extend(as_indexed(chunk, document, flags, fingerprint="") for chunk in chunks or ())
        read.cut |= len(found) > self._bounds.chunks
        self._add_vectors(read, found[: self._bounds.chunks])
        return read

    def _chunks(self, document: KnowledgeDocument) -> list[DocumentChunk] | None:
        """The chunks of a version; None if they are gone. One document alone can't take all the memory."""
        try:
            return list(islice(read_chunks(self._store, document.key, document.document_id), self._bounds.chunks + 1))
        except ObjectNotFoundError:
            return None

    def _add_vectors(self, read: Read, found: Sequence[IndexedChunk]) -> None:
        texts = [one.chunk.text for one in found]
        vectors = self._embedder.stored(texts) if texts else {}
        missing = list(dict.fromkeys(text for text in texts if text not in vectors))
        vectors |= self._embedded(missing[: self._bounds.embedded])
        read.by_words = any(text not in vectors for text in missing)
        read.entries = [
            PastEntry(one, vectors.get(text, ()), unmarked=True) for one, text in zip(found, texts, strict=True)
        ]

    def _embedded(self, texts: Sequence[str]) -> dict[str, Vectors]:
        """Vectors made anew, and not kept: who asks changes nothing."""
        try:
            return dict(zip(texts, self._embedder.unkept(texts), strict=True)) if texts else {}
        except (EmbeddingError, ModelError):
            return {}


def portions(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    for at in range(0, len(items), size):
        yield items[at : at + size]


def _flags(document: KnowledgeDocument) -> tuple[str, ...]:
    """Which passage was suspicious isn't kept: all of the document is."""
    suspected = any(remark.kind == RemarkKind.SUSPECTED_INSTRUCTION for remark in document.remarks)
    return (FLAG,) if suspected else ()
