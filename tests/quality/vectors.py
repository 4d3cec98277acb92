"""Vectors of chunks that are checked in, so that a test need not embed them."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from opx.ports import Embedder, Vector

VECTORS = Path(__file__).with_name("own") / "vectors.npz"


class KnownVectors:
    """An `Embedder` that takes vectors of known texts from a file, and knows in `used` what it was asked for."""

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

    def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        missing = [text for text in texts if _key(text) not in self._known]
        for text, vector in zip(missing, self._embedder.embed_documents(missing), strict=True):
            self._known[_key(text)] = np.asarray(vector, dtype=np.float16)
        self.used |= {_key(text): self._known[_key(text)] for text in texts}
        return [_at_full_length(self._known[_key(text)]) for text in texts]


def _key(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _at_full_length(vector: npt.NDArray[np.float16]) -> Vector:
    wide = vector.astype(np.float32)
    return array("f", wide / np.linalg.norm(wide))


def _read(path: Path, model: str) -> dict[str, npt.NDArray[np.float16]]:
    """The vectors of this model; none if the file is of another one."""
    if not path.is_file():
        return {}
    with np.load(path, allow_pickle=False) as file:
        if str(file["model"]) != model:
            return {}
        return dict(zip(file["keys"].tolist(), file["vectors"], strict=True))


def write_vectors(path: Path, embedder: KnownVectors) -> None:
    """Keep the vectors that were asked for, and no others."""
    keys = sorted(embedder.used)
    vectors = np.stack([embedder.used[key] for key in keys])
    np.savez(path, model=np.array(embedder.model_id), keys=np.array(keys), vectors=vectors)
