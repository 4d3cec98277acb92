"""Sentence models on the processor, without network, through ONNX Runtime."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from opx.adapters.embedded.sentence_model import SentenceModel
from opx.errors import EmbeddingError
from opx.ports import Vector
from opx.text.analyzer import split_identifiers

_GRAPHS = ("onnx/model.onnx", "model.onnx")
_WEIGHTS_BESIDE = ("_data", ".data")
"""What exporters append to the name of a graph for the file with its weights, if it is too large to hold them."""


class OnnxEmbedder:
    """`Embedder` over the graph and the tokenizer in a folder, read as `model` says.

    Loads at first use; safe to share between threads. Raises `EmbeddingError` for what is missing or doesn't fit.
    """

    def __init__(self, folder: Path, model: SentenceModel, *, threads: int = 2) -> None:
        self._folder = folder
        self._model = model
        self._threads = threads

    @property
    def dimension(self) -> int:
        return self._model.dimension

    @cached_property
    def model_id(self) -> str:
        """Name and a hash of the graph file: vectors of other builds differ slightly and must not be mixed."""
        return f"{self._model.name}/{self._digest()[:12]}/{self._model.mark}"

    def _digest(self) -> str:
        graph = self._graph
        digest = hashlib.sha256()
        for path in (graph, *(graph.with_name(graph.name + end) for end in _WEIGHTS_BESIDE)):
            if path.is_file():
                with path.open("rb") as file:
                    while part := file.read(1 << 20):
                        digest.update(part)
        return digest.hexdigest()

    @cached_property
    def _graph(self) -> Path:
        for name in _GRAPHS:
            if (self._folder / name).is_file():
                return self._folder / name
        raise EmbeddingError(f"no embedding model in {self._folder}: {_GRAPHS[0]}: No such file or directory")

    @cached_property
    def _session(self) -> Any:
        import onnxruntime
        from onnxruntime.capi import onnxruntime_pybind11_state as states

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = self._threads
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        options.log_severity_level = 3
        try:
            return onnxruntime.InferenceSession(str(self._graph), options, providers=["CPUExecutionProvider"])
        except (states.Fail, states.InvalidGraph, states.InvalidProtobuf, states.NoSuchFile) as exc:
            raise EmbeddingError(f"{self._graph} can't be loaded: {exc}") from exc

    @cached_property
    def _tokenizer(self) -> Any:
        from tokenizers import Tokenizer

        try:
            text = (self._folder / "tokenizer.json").read_text(encoding="utf-8")
        except OSError as exc:
            raise EmbeddingError(f"no embedding model in {self._folder}: tokenizer.json: {exc.strerror}") from exc
        tokenizer = Tokenizer.from_str(text)
        tokenizer.enable_truncation(self._model.max_tokens)
        tokenizer.no_padding()
        return tokenizer

    def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        """One text at a time. A quantised model scales its activations over a whole batch, so that a text's vector would
        depend on its neighbours (cosines down to .98); and without padding it is faster, too."""
        return [self._embed(self._model.document_prefix, text) for text in texts]

    def embed_query(self, text: str) -> Vector:
        return self._embed(self._model.query_prefix, text)

    def _embed(self, prefix: str, text: str) -> Vector:
        readable = prefix + split_identifiers(text).encode("utf-8", "replace").decode()
        return self._run(self._tokenizer.encode(readable).ids)

    def _run(self, ids: list[int]) -> Vector:
        """The unit vector of one text, an array of shape (dimension,)."""
        tokens = np.array([ids], dtype=np.int64)
        known = {
            "input_ids": tokens,
            "attention_mask": np.ones_like(tokens),
            "token_type_ids": np.zeros_like(tokens),
        }
        session = self._session
        vectors = session.run(None, {each.name: known[each.name] for each in session.get_inputs()})[0][0]
        chosen = vectors[0] if self._model.first_token else vectors.mean(axis=0)
        if chosen.shape != (self.dimension,):
            raise EmbeddingError(f"{self._graph} gives vectors of shape {chosen.shape}, not ({self.dimension},)")
        unit: Vector = (chosen / np.linalg.norm(chosen)).astype(np.float32)
        return unit
