"""Unit vectors in one file of float32 rows, read through a memory map: it opens at once at any size."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

VECTORS = "vectors.f32"
"""Name of an index's first file; compaction writes others."""

Matrix = npt.NDArray[np.float32]


class VectorWriter:
    """Writes rows from a slot on. What is beyond the last committed slot is garbage and may be overwritten."""

    def __init__(self, path: Path, dimension: int) -> None:
        self._row_bytes = 4 * dimension
        self._dimension = dimension
        self._file = path.open("r+b" if path.exists() else "w+b")

    def write(self, slot: int, vectors: Sequence[Sequence[float]]) -> None:
        """Put `vectors` at `slot` and the following ones. Raises `ValueError` for another dimension."""
        rows = np.asarray(vectors, dtype="<f4")
        if rows.shape[1:] != (self._dimension,):
            raise ValueError(f"vectors have dimension {rows.shape[1:]}, the index has {self._dimension}")
        self._file.seek(slot * self._row_bytes)
        self._file.write(rows.tobytes())

    def sync(self) -> None:
        """Return when all rows written are on disk."""
        self._file.flush()
        os.fsync(self._file.fileno())

    def close(self) -> None:
        self._file.close()


def read_rows(path: Path, dimension: int, count: int) -> Matrix:
    """The first `count` rows, shape (count, dimension), mapped and read-only."""
    if count == 0:
        return np.empty((0, dimension), dtype=np.float32)
    return np.memmap(path, dtype="<f4", mode="r", shape=(count, dimension))
