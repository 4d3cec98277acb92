"""Unit vectors in one file of float32 rows, read through a memory map: it opens at once at any size."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from opx.adapters.embedded.durable_files import sync_file, sync_folder
from opx.ports import Vector

VECTORS = "vectors.f32"
"""Name of an index's first file; compaction writes others."""

Matrix = npt.NDArray[np.float32]


class VectorWriter:
    """Writes rows from a slot on. What is beyond the last committed slot is garbage and may be overwritten."""

    def __init__(self, path: Path, dimension: int) -> None:
        self._row_bytes = 4 * dimension
        self._dimension = dimension
        new = not path.exists()
        self._file = path.open("w+b" if new else "r+b")
        if new:
            sync_folder(path.parent)

    def write(self, slot: int, vectors: Sequence[Vector] | Matrix) -> None:
        """Put `vectors` at `slot` and the following ones. Raises `ValueError` for another dimension."""
        rows = np.asarray(vectors, dtype="<f4")
        if rows.shape[1:] != (self._dimension,):
            raise ValueError(f"vectors have dimension {rows.shape[1:]}, the index has {self._dimension}")
        self._file.seek(slot * self._row_bytes)
        self._file.write(rows.tobytes())

    def sync(self) -> None:
        """Return when all rows written are on disk."""
        sync_file(self._file)

    def close(self) -> None:
        self._file.close()


def read_rows(path: Path, dimension: int, count: int) -> Matrix:
    """The first `count` rows, shape (count, dimension), mapped and read-only."""
    if count == 0:
        return np.empty((0, dimension), dtype=np.float32)
    rows: Matrix = np.memmap(path, dtype="<f4", mode="r", shape=(count, dimension)).view(np.ndarray)
    return rows
