"""Caches embeddings in a table, by model and text."""

from __future__ import annotations

import hashlib
import logging
import struct
import sys
import time
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from opx.errors import StoreUnavailableError
from opx.ingestion.indexing.editions import EditionEmbedder, Editions
from opx.ports import Clock, Embedder, Table, Vector, Vectors
from opx.ports.search import WrappedEmbedder, embed_each, embedded_in_order
from opx.runtime.metrics import Metric, Report

KEPT_AT_ONCE, KEPT_SECONDS = 25, 1.0
"""Vectors are written when there are so many, or after this time: they are paid for, and the process may be killed."""

_log = logging.getLogger(__name__)


class CachedEmbedder(WrappedEmbedder):
    """`Embedder` that calls another one only for texts without an entry in the table of `tables.EMBEDDINGS`.

    The key is the model id and SHA-256 of the text; an entry holds its vectors as concatenated little-endian 32-bit floats,
    and expires after `days`. Queries are not cached. If the table can't be read or written, all texts are embedded.
    `hits` and `misses` count texts, equal ones in a call once as a miss and then as hits.
    """

    def __init__(self, embedder: Embedder, table: Table, *, days: float = 90, clock: Clock = time.time) -> None:
        super().__init__(embedder)
        self._table = table
        self._seconds = days * 86_400
        self._clock = clock
        self.hits = 0
        self.misses = 0

    def embed_documents(self, texts: Sequence[str]) -> list[Vectors]:
        return embedded_in_order(self, texts)

    def embed_each(self, texts: Sequence[str], found: Callable[[int, Vectors], None]) -> None:
        """As `ProgressiveEmbedder.embed_each`; every vector is written to the table, also when a later one fails."""
        positions: dict[str, list[int]] = {}
        for position, text in enumerate(texts):
            positions.setdefault(self._key(text), []).append(position)

        def give(key: str, vectors: Vectors) -> None:
            for position in positions[key]:
                found(position, vectors)

        cached = self._cached(list(positions))
        for key, vectors in cached.items():
            self.hits += len(positions[key])
            give(key, vectors)
        missing = [key for key in positions if key not in cached]
        fresh = _Fresh(self._keep, self._clock)

        def keep(number: int, vectors: Vectors) -> None:
            key = missing[number]
            self.misses += 1
            self.hits += len(positions[key]) - 1
            fresh.add(key, vectors)
            give(key, vectors)

        try:
            embed_each(self._embedder, [texts[positions[key][0]] for key in missing], keep)
        finally:
            fresh.write()

    def stored(self, texts: Sequence[str]) -> dict[str, Vectors]:
        """Cached vectors by text, without embedding the others."""
        found = self._cached(list({self._key(text) for text in texts}))
        by_text = {text: found.get(self._key(text)) for text in texts}
        return {text: vector for text, vector in by_text.items() if vector is not None}

    def unkept(self, texts: Sequence[str]) -> list[Vectors]:
        """Embeds texts without writing to the table: for processes that may only read."""
        return self._embedder.embed_documents(texts)

    def keep(self, vectors: Mapping[str, Vectors]) -> None:
        """Writes vectors, by text, that were computed elsewhere by the same model."""
        self._keep({self._key(text): each for text, each in vectors.items()})

    def known(self, texts: Sequence[str]) -> int:
        """Number of cached entries of distinct texts, over all models. Raises `StoreUnavailableError`."""
        keys = [{"cacheKey": key} for text in texts for key in self._keys(text)]
        return len(self._table.get_many(keys)) if keys else 0

    def forget(self, texts: Sequence[str]) -> None:
        """Deletes the cached vectors of these texts. Raises `StoreUnavailableError`."""
        for key in dict.fromkeys(key for text in texts for key in self._keys(text)):
            self._table.delete({"cacheKey": key})

    def other_models(self) -> Iterable[str]:
        """Other models whose vectors may be in the table: `known` and `forget` include them."""
        return ()

    def _keys(self, text: str) -> list[str]:
        return [_key(model, text) for model in dict.fromkeys((self.model_id, *self.other_models()))]

    def _key(self, text: str) -> str:
        return _key(self.model_id, text)

    def _cached(self, keys: Sequence[str]) -> dict[str, Vectors]:
        try:
            items = self._table.get_many([{"cacheKey": key} for key in keys]) if keys else []
        except StoreUnavailableError as exc:
            _log.warning("embedding cache can't be read, embedding all %d texts: %s", len(keys), exc)
            return {}
        whole = 4 * self.dimension
        found = {item["cacheKey"]: item["vector"] for item in items}
        return {key: unpacked(data, whole) for key, data in found.items() if data and len(data) % whole == 0}

    def _keep(self, vectors: Mapping[str, Vectors]) -> None:
        expires = int(self._clock() + self._seconds)
        items = [{"cacheKey": k, "vector": packed(v), "expiresAt": expires} for k, v in vectors.items()]
        try:
            self._table.put_many(items)
        except StoreUnavailableError as exc:
            _log.warning("embedding cache can't be written, %d vectors are not kept: %s", len(items), exc)


class _Fresh:
    """Vectors that are written in small groups."""

    def __init__(self, write: Callable[[Mapping[str, Vectors]], None], clock: Clock) -> None:
        self._write = write
        self._clock = clock
        self._waiting: dict[str, Vectors] = {}
        self._written_at = clock()

    def add(self, key: str, vectors: Vectors) -> None:
        self._waiting[key] = vectors
        if len(self._waiting) >= KEPT_AT_ONCE or self._clock() - self._written_at >= KEPT_SECONDS:
            self.write()

    def write(self) -> None:
        waiting, self._waiting, self._written_at = self._waiting, {}, self._clock()
        if waiting:
            self._write(waiting)


def _key(model_id: str, text: str) -> str:
    return f"{model_id}#{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()}"


def packed(vectors: Vectors) -> bytes:
    return b"".join(map(_floats_of, vectors))


def _floats_of(vector: Vector) -> bytes:
    """Little-endian 32-bit floats; memory that holds some is copied as it is."""
    try:
        view = memoryview(vector)  # type: ignore[arg-type]
    except TypeError:
        view = memoryview(array("f", vector))
    if view.format != "f" or sys.byteorder == "big":
        return struct.pack(f"<{len(vector)}f", *vector)
    return view.tobytes()


def unpacked(data: bytes, size: int) -> Vectors:
    """Splits the data into vectors of `size` bytes."""
    vectors = tuple(array("f", data[at : at + size]) for at in range(0, len(data), size))
    if sys.byteorder == "big":
        for vector in vectors:
            vector.byteswap()
    return vectors


# -- cache metrics


@contextmanager
def reported_cache(embedder: CachedEmbedder, report: Report) -> Iterator[None]:
    """Reports the cache hits and misses of the block; nothing if it embedded no documents."""
    hits, misses = embedder.hits, embedder.misses
    try:
        yield
    finally:
        found, missed = embedder.hits - hits, embedder.misses - misses
        if found + missed:
            report(Metric.CACHE_HITS, float(found))
            report(Metric.CACHE_MISSES, float(missed))


# -- cache of the active edition


class EditionCache(CachedEmbedder):
    """Embedding cache by the model of the active edition, which stays the same during a call."""

    def __init__(self, editions: Editions, *args: Any, **options: Any) -> None:
        super().__init__(EditionEmbedder(editions), *args, **options)
        self._editions = editions

    def embed_each(self, texts: Sequence[str], found: Callable[[int, Vectors], None]) -> None:
        with self._editions.bound(self._editions.current()):
            super().embed_each(texts, found)

    def other_models(self) -> Iterable[str]:
        return self._editions.models()
