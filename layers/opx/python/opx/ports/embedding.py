"""Texts to vectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

Vector = Sequence[float]
"""A unit vector; adapters return compact sequences (arrays), not lists of objects."""


class Embedder(Protocol):
    """Texts to unit vectors whose dot product is their similarity.

    `model_id` identifies model, version and dimension; vectors of different ids must never be compared.
    """

    @property
    def model_id(self) -> str: ...

    @property
    def dimension(self) -> int: ...

    def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        """One vector a text, in order; `[]` for none. Longer texts than the model reads are cut by it. An empty text
        has a vector too. Raises `EmbeddingError`."""

    def embed_query(self, text: str) -> Vector:
        """The vector of a question. Raises `EmbeddingError`."""
