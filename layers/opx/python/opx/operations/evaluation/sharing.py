"""Searches that several modes ask for are done once, and their time counts for each of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, cast

from opx.domain.record import replace
from opx.ingestion.indexing.capability import Indexing
from opx.ports import Embedder, SearchEngine, SearchIndex, SearchRequest, SearchResponse, Vector


@dataclass(slots=True)
class Shared:
    """What the index and the embedder answered since the last `forget`.

    `saved` has the milliseconds, by part of an answer, that answers from memory took when they were made. `keys` has the
    document key of everything that was found, by the id and the source of its document.
    """

    saved: dict[str, float] = field(default_factory=dict)
    keys: dict[tuple[str, str], str] = field(default_factory=dict)
    _known: dict[object, tuple[Any, float]] = field(default_factory=dict)

    def forget(self) -> None:
        """For the next question."""
        self._known.clear()
        self.saved.clear()

    def once(self, part: str, asked: object, do: Callable[[], Any]) -> Any:
        """What `do` gives, done at the first time only."""
        if (part, asked) in self._known:
            made, milliseconds = self._known[part, asked]
            self.saved[part] = self.saved.get(part, 0.0) + milliseconds
            return made
        started = time.perf_counter()
        made = do()
        self._known[part, asked] = (made, 1000 * (time.perf_counter() - started))
        return made


@contextmanager
def shared_searches(indexing: Indexing) -> Iterator[Shared]:
    """While the block runs, the index and the embedder answer the same question once."""
    index, embedder, shared = indexing.index, indexing.embedder, Shared()
    asked = indexing.editions.current().embedder if indexing.has_editions else embedder
    replacements = cast("SearchIndex", _Index(index, shared)), cast("Embedder", _Embedder(asked, shared))
    with indexing.replaced(*replacements):
        yield shared


class _Index:
    def __init__(self, index: SearchEngine, shared: Shared) -> None:
        self._index = index
        self._shared = shared

    def __getattr__(self, name: str) -> Any:
        return getattr(self._index, name)

    def search(self, request: SearchRequest) -> SearchResponse:
        vector = None if request.vector is None else tuple(request.vector)
        asked = (replace(request, vector=None), vector)
        response: SearchResponse = self._shared.once("search", asked, lambda: self._index.search(request))
        for indexed in response.chunks.values():
            self._shared.keys[indexed.chunk.document_id, indexed.source_uri] = indexed.key_id
        return response


class _Embedder:
    def __init__(self, embedder: Embedder, shared: Shared) -> None:
        self._embedder = embedder
        self._shared = shared

    def __getattr__(self, name: str) -> Any:
        return getattr(self._embedder, name)

    def embed_query(self, text: str) -> Vector:
        vector: Vector = self._shared.once("embed", text, lambda: self._embedder.embed_query(text))
        return vector
