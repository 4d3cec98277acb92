"""Vectors of chunks that are checked in, so that a test need not embed them."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from opx.ports import Embedder, Vector, Vectors

VECTORS = Path(__file__).with_name("own") / "vectors.npz"


class KnownVectors:
    """An `Embedder` that takes vectors of known texts from a file, and records the used ones in `used`."""

    def __init__(self, embedder: Embedder, path: Path = VECTORS) -> None:
        self._embedder = embedder
        self._known = _read(path, embedder.model_id)
        self.used: dict[str, npt.NDArray[np.float16]] = {}

    @property
    def model_id(self) -> str:
        return self._embedder.model_id

    @property
    def dimension(self) -> int:
        return self._embedder.dimension

    def embed_query(self, text: str) -> Vector:
        return self._embedder.embed_query(text)

    def embed_documents(self, texts: Sequence[str]) -> list[Vectors]:
        missing = [text for text in texts if _key(text) not in self._known]
        for text, vectors in zip(missing, self._embedder.embed_documents(missing), strict=True):
            self._known[_key(text)] = np.asarray(vectors, dtype=np.float16)
        self.used |= {_key(text): self._known[_key(text)] for text in texts}
        return [_at_full_length(self._known[_key(text)]) for text in texts]


def _key(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _at_full_length(vectors: npt.NDArray[np.float16]) -> Vectors:
    wide = vectors.astype(np.float32)
    return [array("f", row) for row in wide / np.linalg.norm(wide, axis=1, keepdims=True)]


def _read(path: Path, model: str) -> dict[str, npt.NDArray[np.float16]]:
    """The vectors of this model; none if the file is of another one."""
    if not path.is_file():
        return {}
    with np.load(path, allow_pickle=False) as file:
        if str(file["model"]) != model:
            return {}
        of_each = np.split(file["vectors"], np.cumsum(file["counts"])[:-1])
        return dict(zip(file["keys"].tolist(), of_each, strict=True))


def write_vectors(path: Path, embedder: KnownVectors) -> None:
    """Writes the vectors that were used, and no others."""
    keys = sorted(embedder.used)
    vectors = [embedder.used[key] for key in keys]
    counts = np.array([len(each) for each in vectors], dtype=np.uint16)
    np.savez(
        path, model=np.array(embedder.model_id), keys=np.array(keys), counts=counts, vectors=np.concatenate(vectors)
    )
