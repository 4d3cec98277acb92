"""Writes and searches immutable segments of the corpus's words: tantivy's files, and the chunks in compressed blocks.

A segment is a folder that never changes: `terms/`, `chunks` (blocks of a few chunks as compressed JSON) and `offsets` (of the
blocks). Chunks of versions that were replaced or removed since are recognised by the catalog, not here.
"""

from __future__ import annotations

import json
import os
import weakref
import zlib
from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from opx.adapters.embedded.durable_files import make_folders
from opx.adapters.embedded.hits import SPARE_HITS, Scored, leg_of, levelled, with_ties
from opx.adapters.embedded.lexical import MAX_QUERY_TERMS, TERMS, LexicalReader, LexicalWriter, Location, Rarity
from opx.domain.record import from_json
from opx.domain.results import IndexedChunk
from opx.errors import IndexUnavailableError
from opx.ports import SearchFilter, SearchRequest, SearchResponse
from opx.ports.search import VersionName, WordsCount
from opx.text.analyzer import ANALYZER_VERSION
from opx.text.fields import Words, first_words

FORMAT = "1"
CHUNKS, OFFSETS = "chunks", "offsets"
_BLOCK = 8
"""Chunks that are compressed together: more are smaller, and take longer to read one of."""

_TERMS_SHARE = 1.8
"""Bytes of a segment for each byte of its compressed chunks, rounded up: with the terms of English prose it is 1.5."""

_LARGER = 4
_BATCH = "words"


class EmbeddedWords:
    """`WordsSegments` with the lexical code of the embedded index."""

    identity = f"format-{FORMAT}/analyzer-{ANALYZER_VERSION}"

    def write(
        self, folder: Path, documents: Iterable[tuple[int, Sequence[IndexedChunk]]], *, chunks: int, size: int
    ) -> WordsCount:
        writer = _SegmentWriter(folder)
        whole = True
        for version, some in documents:
            if writer.chunks + len(some) > chunks or writer.size * _TERMS_SHARE > size:
                whole = False
                break
            writer.add(version, some)
        return writer.finish(whole=whole)

    def open(self, folder: Path, current: Callable[[Collection[VersionName]], Collection[VersionName]]) -> WordsSegment:
        return WordsSegment(folder, current)


class _SegmentWriter:
    """Adds documents to a segment in a new folder."""

    def __init__(self, folder: Path) -> None:
        make_folders(folder)
        self._folder = folder
        self._terms = LexicalWriter(folder / TERMS)
        self._blocks = (folder / CHUNKS).open("wb")
        self._offsets = array("Q", [0])
        self._waiting: list[list[Any]] = []
        self.size = 0
        self.documents = 0
        self.chunks = 0

    def add(self, version: int, chunks: Sequence[IndexedChunk]) -> None:
        for indexed in chunks:
            self._terms.add(self.documents, self.chunks, _BATCH, indexed)
            self._waiting.append([version, indexed.to_json()])
            self.chunks += 1
            if len(self._waiting) == _BLOCK:
                self._write_block()
        self.documents += 1

    def _write_block(self) -> None:
        if self._waiting:
            self.size += self._blocks.write(zlib.compress(json.dumps(self._waiting, separators=(",", ":")).encode()))
            self._offsets.append(self.size)
            self._waiting = []

    def finish(self, *, whole: bool) -> WordsCount:
        self._write_block()
        self._blocks.close()
        (self._folder / OFFSETS).write_bytes(self._offsets.tobytes())
        self._terms.commit()
        self._terms.close()
        return WordsCount(self.documents, self.chunks, whole=whole)


class WordsSegment:
    """A `SearchEngine` of one segment, without vectors. Chunks of versions that `current` doesn't return are never found.
    Threads may share it."""

    def __init__(self, folder: Path, current: Callable[[Collection[VersionName]], Collection[VersionName]]) -> None:
        self._current = current
        try:
            self._offsets = array("Q", (folder / OFFSETS).read_bytes())
            self._blocks = os.open(folder / CHUNKS, os.O_RDONLY | os.O_CLOEXEC)
        except (OSError, ValueError) as exc:
            raise IndexUnavailableError(f"the segment of words in {folder} can't be read: {exc}") from exc
        weakref.finalize(self, os.close, self._blocks)  # with the last search that reads it
        self._terms = LexicalReader(folder / TERMS).latest()

    def search(self, request: SearchRequest) -> SearchResponse:
        words = first_words(request.text or "", request.languages, MAX_QUERY_TERMS)
        rarity = self._terms.rarity(request.filter.scopes)
        scored, chunks = self._hits(words, request, rarity) if words else ([], {})
        kept = with_ties(scored, request.depth)
        leg = leg_of(kept, {location: chunk.entry_id for location, chunk in chunks.items()}, request.depth)
        named = {name for name, _ in leg.hits}
        return SearchResponse(
            lexical=leg,
            chunks={one.entry_id: one for one in chunks.values() if one.entry_id in named},
            term_frequencies=self._terms.frequencies(words, rarity),
            entry_count=rarity.entries,
        )

    def entries_with(self, terms: Iterable[str], scopes: Sequence[str]) -> Mapping[str, int]:
        return self._terms.entries_with(terms, self._terms.rarity(tuple(scopes)))

    def _hits(
        self, words: Words, request: SearchRequest, rarity: Rarity
    ) -> tuple[list[Scored], dict[Location, IndexedChunk]]:
        """Hits of current versions, best first: all of them, or more than the depth."""
        wanted = limit = request.depth + SPARE_HITS
        chunks: dict[Location, IndexedChunk] = {}
        seen: set[Location] = set()
        while True:
            scored = self._terms.search(words, request.filter, limit, rarity, request.values)
            fresh = [location for location, _ in scored if location not in seen]
            seen.update(fresh)
            chunks |= self._shown(fresh, request.filter)
            kept = [hit for hit in scored if hit[0] in chunks]
            if len(kept) >= wanted or len(scored) < limit:
                return levelled(kept) if rarity.corrects else kept, chunks
            limit *= _LARGER

    def _shown(self, locations: Sequence[Location], where: SearchFilter) -> dict[Location, IndexedChunk]:
        """The chunks at these locations whose versions are current."""
        read = dict(self._read(locations))
        names = {location: (one.key_id, one.chunk.document_id, version) for location, (version, one) in read.items()}
        current = set(self._current(set(names.values()))) if names else set()
        return {
            location: one
            for location, (_, one) in read.items()
            if names[location] in current and one.scope_key in where.scopes
        }

    def _read(self, locations: Sequence[Location]) -> Iterator[tuple[Location, tuple[int, IndexedChunk]]]:
        blocks: dict[int, list[Any]] = {}
        for location in locations:
            number, at = divmod(location[1], _BLOCK)
            if number not in blocks:
                blocks[number] = self._block(number)
            version, found = blocks[number][at]
            yield location, (int(version), from_json(IndexedChunk, found))

    def _block(self, number: int) -> list[Any]:
        """The chunks of a block. Raises `IndexUnavailableError` for a damaged one."""
        try:
            start, end = self._offsets[number : number + 2]
            data = zlib.decompress(os.pread(self._blocks, end - start, start))
            found: list[Any] = json.loads(data)
        except (OSError, ValueError, zlib.error) as exc:
            raise IndexUnavailableError(f"a segment of words is damaged: {exc}") from exc
        return found
