"""Vectors that are remembered, by the model of whichever edition of the index answers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from opx.ingestion.indexing.editions import EditionEmbedder, Editions
from opx.ingestion.indexing.embedding_cache import CachedEmbedder
from opx.ports import Vectors


class EditionCache(CachedEmbedder):
    """The cache of vectors, by the model of the edition that answers throughout a call."""

    def __init__(self, editions: Editions, *args: Any, **options: Any) -> None:
        super().__init__(EditionEmbedder(editions), *args, **options)
        self._editions = editions

    def embed_documents(self, texts: Sequence[str]) -> list[Vectors]:
        with self._editions.bound(self._editions.current()):
            return super().embed_documents(texts)

    def other_models(self) -> Iterable[str]:
        return self._editions.models()
