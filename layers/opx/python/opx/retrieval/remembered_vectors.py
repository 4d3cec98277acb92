"""The vectors of the questions of a moment ago, for those who look at an answer afterwards."""

from __future__ import annotations

from collections.abc import Sequence

from opx.errors import EmbeddingError
from opx.ports import Embedder, Vector

_KEPT = 8


class RememberedVectors:
    """An `Embedder` that remembers the last few questions."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._vectors: dict[str, Vector] = {}

    @property
    def model_id(self) -> str:
        return self._embedder.model_id

    @property
    def dimension(self) -> int:
        return self._embedder.dimension

    def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        return self._embedder.embed_documents(texts)

    def embed_query(self, text: str) -> Vector:
        vector = self._embedder.embed_query(text)
        if len(self._vectors) >= _KEPT:
            self._vectors.clear()
        self._vectors[text] = vector
        return vector

    def of(self, text: str) -> Vector | None:
        """The vector of a question, for which the model is asked if need be; None if it fails."""
        found = self._vectors.get(text)
        try:
            return self._embedder.embed_query(text) if found is None else found
        except EmbeddingError:
            return None
