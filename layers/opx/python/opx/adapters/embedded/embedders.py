"""Which model embeds on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from opx.errors import InvalidInputError
from opx.settings import Settings

if TYPE_CHECKING:
    from opx.ports import Embedder

MINI_LM = "all-MiniLM-L6-v2"
MULTILINGUAL = "universal-sentence-encoder-multilingual"


def chosen_embedder(settings: Settings) -> Embedder:
    """The model in the folder `OPX_MODEL_PATH`, else the one that `OPX_EMBEDDING_MODEL` names, else all-MiniLM-L6-v2.

    Raises `InvalidInputError` for a name that isn't known, and `EmbeddingError` for a model that isn't there.
    """
    if settings.model_path:
        from opx.adapters.embedded.onnx_embedder import OnnxEmbedder, sentence_model

        folder = Path(settings.model_path)
        return OnnxEmbedder(folder, sentence_model(folder), threads=settings.embedding_threads)
    if settings.embedding_model == MULTILINGUAL:
        from opx.adapters.embedded.universal_encoder import UniversalSentenceEncoder

        return UniversalSentenceEncoder()
    if settings.embedding_model not in ("", MINI_LM):
        raise InvalidInputError(
            f"OPX_EMBEDDING_MODEL is {settings.embedding_model!r}, which this machine doesn't have: "
            f"use {MINI_LM} or {MULTILINGUAL}, or name the folder of a sentence-transformers ONNX export in OPX_MODEL_PATH"
        )
    from opx.adapters.embedded.onnx_embedder import MiniLmEmbedder, default_model

    return MiniLmEmbedder(default_model(), threads=settings.embedding_threads)
