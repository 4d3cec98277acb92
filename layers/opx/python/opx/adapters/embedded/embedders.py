"""Embeds text on this machine with ONNX or NumPy models."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct

from opx.adapters.embedded.minilm.building import COMPACT, model_folder, read_recipe, tokenizer
from opx.errors import EmbeddingError, InvalidInputError
from opx.ports import Embedder, Vector, Vectors, mean_vector
from opx.runtime.threads import Each, cores
from opx.settings import MULTILINGUAL, Settings
from opx.text.analyzer import split_identifiers

# -- model configuration, from the files of its folder
#
# `1_Pooling/config.json` defines pooling and dimension, `sentence_bert_config.json` the maximum of
# tokens, `config_sentence_transformers.json` the prefixes of queries and passages (Sentence Transformers
# documentation, "Creating Custom Models" and "Prompts").

POOLING_FILE = "1_Pooling/config.json"
_LENGTH_FILE = "sentence_bert_config.json"
_PROMPTS_FILE = "config_sentence_transformers.json"

_MEAN, _FIRST = "pooling_mode_mean_tokens", "pooling_mode_cls_token"
_QUERY_PROMPTS = ("query", "search_query", "retrieval.query")
_DOCUMENT_PROMPTS = ("document", "passage", "search_document", "retrieval.passage")
_E5_PROMPTS = ("query: ", "passage: ")
_DEFAULT_TOKENS = 512


class SentenceModel(Struct, frozen=True):
    """`max_tokens` are read at a time, including the prefix and the special tokens: the first of a query; of a document
    windows of `window`. A vector is the mean of its tokens', or the first token's. `mark` names other parameters that
    affect the vectors; it is part of the model's identity."""

    name: str
    dimension: int
    max_tokens: int
    window: int
    mark: str
    first_token: bool = False
    query_prefix: str = ""
    document_prefix: str = ""


WINDOW = 128
"""Tokens per window of a document for a model with a short context. nDCG@10 of the vector leg on the labelled set is
.844 with windows of 128, and .822 with the first 256 tokens only (docs/decisions/0051-embedding-windows.md)."""

_LITTLE_ROOM = 256
"""Context, in tokens, up to which a chunk doesn't fit and windows of `WINDOW` are used. Larger ones use their full
context."""

TITLE_TOKENS = 32
"""Tokens of the first line that are repeated before each later window, at most a third of it: a passage is rarely clear
without its title."""

MAX_VECTORS = 16
"""Vectors per text. Sixteen windows hold 1,536 word pieces, three times as many as most chunks have. For denser text
(rows of symbols) consecutive windows share a vector, their mean."""

MINI_LM = SentenceModel("all-MiniLM-L6-v2", 384, 256, WINDOW, f"{WINDOW}-windows-camel-apart-alone")
"""The mean over 128 word pieces, the length of its training. The tokenizer lowercases before it splits, so
`KubePodCrashLooping` would be one unknown word; split at capitals, nDCG@10 of the vector leg rose from .72 to .81 on
the labelled set. Each window is embedded alone: the quantised model scales its activations over a whole batch."""


def sentence_model(folder: Path) -> SentenceModel:
    """Reads the configuration of the model in `folder`; without `1_Pooling/config.json` all-MiniLM-L6-v2 is assumed.

    Raises `EmbeddingError` for a file that can't be read and for an unknown pooling mode.
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
    """The prefixes in the model's prompts; E5 models predate prompts (their model cards name the prefixes)."""
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


# -- ONNX Runtime: on the CPU, without network

_GRAPHS = ("onnx/model.onnx", "model.onnx")
_WEIGHTS_BESIDE = ("_data", ".data")
"""Suffixes that exporters add to a graph's name for the file with its weights, if the graph is too large to hold them."""


class _Pieces(Struct, frozen=True):
    """Tokens of one text, of which the first `title` are its first line, and the tokens before and after them in each
    window: special ones, and the prefix."""

    before: list[int]
    text: list[int]
    after: list[int]
    title: int

    def windows(self, size: int) -> Iterator[list[int]]:
        """Windows of up to `size` tokens that cover all of the text, each later one headed by the title. The last is
        moved back so that it is full."""
        room = max(size - len(self.before) - len(self.after), 1)
        yield [*self.before, *self.text[:room], *self.after]
        head = self.text[: min(self.title, TITLE_TOKENS, room // 3)]
        step = room - len(head)
        for at in range(room, len(self.text), step):
            start = min(at, len(self.text) - step)
            yield [*self.before, *head, *self.text[start : start + step], *self.after]


class OnnxEmbedder:
    """`Embedder` over the graph and the tokenizer in a folder, as configured by `model`.

    Loads on first use; safe to share between threads. Documents are embedded on `threads` threads, 0 for one on each core:
    a third faster than one text on all cores, with the same vectors. `fused`: the graph is as it should run; what
    onnxruntime would still fuse makes it slower. Raises `EmbeddingError` for missing or mismatched files.
    """

    def __init__(self, folder: Path, model: SentenceModel, *, threads: int = 0, fused: bool = False) -> None:
        self._folder = folder
        self._model = model
        self._each = Each(threads or cores())
        self._fused = fused

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
        return self._loaded(self._graph)

    def _loaded(self, graph: Path, *entries: str) -> Any:
        """A session of a graph, with these entries of the configuration set."""
        import onnxruntime
        from onnxruntime.capi import onnxruntime_pybind11_state as states

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        if self._fused:
            options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        options.add_session_config_entry("session.x64quantprecision", "1")  # exact without VNNI, too, if slower
        for entry in entries:
            options.add_session_config_entry(entry, "1")
        options.log_severity_level = 3
        try:
            return onnxruntime.InferenceSession(str(graph), options, providers=["CPUExecutionProvider"])
        except (
            states.Fail,
            states.InvalidArgument,
            states.InvalidGraph,
            states.InvalidProtobuf,
            states.NoSuchFile,
        ) as exc:
            raise EmbeddingError(f"{graph} can't be loaded: {exc}") from exc

    @cached_property
    def _tokenizer(self) -> Any:
        from tokenizers import Tokenizer

        try:
            text = (self._folder / "tokenizer.json").read_text(encoding="utf-8")
        except OSError as exc:
            raise EmbeddingError(f"no embedding model in {self._folder}: tokenizer.json: {exc.strerror}") from exc
        try:
            tokenizer = Tokenizer.from_str(text)
        except Exception as exc:  # the library has no type of its own
            raise EmbeddingError(f"{self._folder / 'tokenizer.json'} can't be loaded: {exc}") from exc
        tokenizer.no_truncation()
        tokenizer.no_padding()
        return tokenizer

    def embed_documents(self, texts: Sequence[str]) -> list[Vectors]:
        """Embeds one window at a time. A quantised model scales its activations over a whole batch, so that a vector
        would depend on the other texts (cosines down to .98); and without padding it is faster, too."""
        _ = self._session, self._tokenizer  # loaded by one thread
        return self._each(self._embed, texts)

    def embed_query(self, text: str) -> Vector:
        return self._run(next(self._pieces(self._model.query_prefix, text).windows(self._model.max_tokens)))

    def _embed(self, text: str) -> Vectors:
        read = self._pieces(self._model.document_prefix, text)
        vectors = [self._run(window) for window in read.windows(self._model.window)]
        share = -(-len(vectors) // MAX_VECTORS)
        return tuple(mean_vector(vectors[at : at + share]) for at in range(0, len(vectors), share))

    def _pieces(self, prefix: str, text: str) -> _Pieces:
        """Tokenizes text, without the special tokens around it and those that end within the prefix."""
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
        """The unit vector of one window, an array of shape (dimension,)."""
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


# -- the default model

DIMENSION = MINI_LM.dimension


_MAPPED = ("session.use_memory_mapped_ort_model", "session.use_ort_model_bytes_for_initializers")
"""Entries by which weights stay in the mapped file, which processes share."""


class MiniLmEmbedder(OnnxEmbedder):
    """`Embedder` over the all-MiniLM-L6-v2 that `minilm` builds; loads it on first use. Safe to share between threads."""

    def __init__(self, settings: Settings, *, threads: int = 0) -> None:
        super().__init__(model_folder(settings), MINI_LM, threads=threads, fused=True)

    def _digest(self) -> str:
        """The known hash of the weights, which were compared with it when they were built."""
        return read_recipe()["weights"]

    @cached_property
    def _session(self) -> Any:
        """The compact file, mapped into memory; the graph if this release of ONNX Runtime can't read it."""
        try:
            return self._loaded(self._folder / COMPACT, *_MAPPED)
        except EmbeddingError:
            return self._loaded(self._graph)

    @cached_property
    def _tokenizer(self) -> Any:
        return tokenizer()


# -- selection by settings

DEFAULT = "all-MiniLM-L6-v2"


def chosen_embedder(settings: Settings) -> Embedder:
    """The model in the folder `OPX_MODEL_PATH`, else the one that `OPX_EMBEDDING_MODEL` names, else all-MiniLM-L6-v2.

    Raises `InvalidInputError` for an unknown name, and `EmbeddingError` for a missing model.
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
    return MiniLmEmbedder(settings, threads=settings.embedding_threads)
