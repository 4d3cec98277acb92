"""Vectors that were computed before their documents are applied: their files, and an embedder that takes them from there."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from opx.domain.record import prepared
from opx.errors import EmbeddingError
from opx.ingestion.indexing.embedding_cache import CachedEmbedder, packed, unpacked
from opx.ports import Vectors
from opx.ports.bulk import BatchEmbedder
from opx.ports.search import WrappedEmbedder, embedded_in_order

log = logging.getLogger(__name__)


class VectorFile(Struct, frozen=True):
    """Vectors of a model by the SHA-256 of their texts, as concatenated little-endian 32-bit floats."""

    model_id: str
    dimension: int
    vectors: dict[str, bytes]


def text_id(text: str) -> str:
    """The id of a passage in files of vectors and in batch jobs: its SHA-256, as in the embedding cache."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def write_vectors(model_id: str, dimension: int, vectors: Mapping[str, Vectors]) -> bytes:
    return msgspec.msgpack.encode(VectorFile(model_id, dimension, {one: packed(each) for one, each in vectors.items()}))


def read_vectors(data: bytes) -> VectorFile:
    return msgspec.msgpack.decode(data, type=prepared(VectorFile))


def batch_vectors(embedder: BatchEmbedder, dimension: int, rows: Iterable[Any]) -> VectorFile:
    """The vectors of a batch job's output. A record that comes twice counts once; one with an error, or without vectors of
    this dimension, is left out."""
    found: dict[str, bytes] = {}
    refused = 0
    for row in rows:
        try:
            vectors = embedder.vectors(row["modelOutput"])
        except (KeyError, TypeError, EmbeddingError):
            refused += 1
            continue
        if all(len(vector) == dimension for vector in vectors):
            found.setdefault(str(row.get("recordId", "")), packed(vectors))
    if refused:
        log.warning("a batch job returned %d records without vectors: these texts are embedded again", refused)
    return VectorFile(embedder.model_id, dimension, found)


class PreparedEmbedder(WrappedEmbedder):
    """`Embedder` that takes vectors from files, and has another one embed the other texts. Files of another model are
    ignored. `embedded` counts the texts that had none. With `keeps`, vectors of files are also written to the cache."""

    def __init__(self, embedder: CachedEmbedder, *, keeps: bool = False) -> None:
        super().__init__(embedder)
        self._cached = embedder
        self._keeps = keeps
        self._files: list[VectorFile] = []
        self.embedded = 0

    def load(self, files: Iterable[VectorFile]) -> None:
        """Replaces the files."""
        self._files = list(files)
        self.embedded = 0

    def embed_documents(self, texts: Sequence[str]) -> list[Vectors]:
        return embedded_in_order(self, texts)

    def embed_each(self, texts: Sequence[str], found: Callable[[int, Vectors], None]) -> None:
        """As `ProgressiveEmbedder.embed_each`."""
        known = self._known()
        missing: list[int] = []
        ready: dict[str, Vectors] = {}
        for position, text in enumerate(texts):
            name = text_id(text)
            data = next((one.vectors[name] for one in known if name in one.vectors), None)
            if data is None:
                missing.append(position)
            else:
                ready[text] = unpacked(data, 4 * self.dimension)
                found(position, ready[text])
        if ready and self._keeps:
            self._cached.keep(ready)
        if missing:
            self.embedded += len(missing)
            self._cached.embed_each([texts[one] for one in missing], lambda at, each: found(missing[at], each))

    def _known(self) -> list[VectorFile]:
        wanted = self.model_id, self.dimension
        return [one for one in self._files if (one.model_id, one.dimension) == wanted]


def json_lines(data: Iterable[bytes]) -> Iterator[Any]:
    """Rows of JSON Lines; lines that are no JSON objects are left out."""
    for line in data:
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(row, dict):
            yield row
