"""Stores the vectors of the embedded index as rows of 16-bit integers, in two files.

A component is a multiple of its row's unit, a 32,512th of the row's largest. The high bytes are in a file of records (`.i8`),
with the step that they count and two lengths, from which bounds of a row's product with a query follow. The low bytes are in
a file of their own (`.lo`): a search reads them for the few rows that it scores exactly. Both files only grow; compaction
writes others. The stored row is the vector: scores are those of what it stands for.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Sequence
from os import SEEK_END
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from opx.adapters.embedded.durable_files import private, sync_file, sync_folder
from opx.errors import EmbeddingError, IndexUnavailableError
from opx.ports import Vector

ROWS = "rows"
"""The property of an index that names its files, without their endings, and the name of its first ones."""

_CODES, _UNITS = 127, 256
"""The largest high byte, and the units in a step."""

_SPARE, _MOST_SPARE = 8, 16_384
"""A file grows by an eighth more than it needs, and by so many rows at most, of which the disk stores nothing: readers have
it mapped for some commits to come. The pages of a new mapping are looked up one by one."""

_MOST_MAPPED = 32 * 2**20
"""Bytes up to which the file of low bytes is mapped. Beyond them rows are read one by one, so that a process doesn't come to
map all of the file."""

Rows = npt.NDArray[np.void]
Records = npt.NDArray[np.void]
Floats = npt.NDArray[np.float32]
Numbers = npt.NDArray[np.intp]


def record_of(dimension: int) -> np.dtype[np.void]:
    """The first part of a row: `codes * step`, of length `length`, differs from the row by `error`."""
    codes, rest = (np.int8, (dimension,)), (np.int8, (-dimension % 4,))
    return np.dtype([("codes", *codes), ("rest", *rest), ("step", "<f4"), ("length", "<f4"), ("error", "<f4")])


def row_of(dimension: int) -> np.dtype[np.void]:
    """The parts of a row, each in a file of its own. `low` counts 256ths of the record's step."""
    return np.dtype([("record", record_of(dimension)), ("low", np.int8, (dimension,))])


def quantised(vectors: Floats) -> Rows:
    """The rows nearest to finite vectors. Those of the vectors that rows stand for are the same rows, to the bit."""
    rows = np.zeros(len(vectors), row_of(vectors.shape[1]))
    step = _rounded(np.abs(vectors).max(axis=1) / np.float32(_CODES))
    unit = step / np.float32(_UNITS)
    numbers = np.rint(vectors / np.where(unit > 0, unit, np.float32(1))[:, None])
    most = _CODES * _UNITS  # exceeded where a unit is denormal
    numbers = np.clip(numbers, -most, most).astype(np.int16)
    codes = (numbers + _UNITS // 2) // _UNITS
    low = numbers - codes * _UNITS
    rows["low"] = low
    records = rows["record"]
    records["codes"], records["step"] = codes, step
    records["length"], records["error"] = step * _lengths(codes), unit * _lengths(low)
    return rows


def _rounded(steps: Floats) -> Floats:
    """Steps with 16 significant bits: a row's largest component is exactly 127 of them, and gives the same step again."""
    rounded: Floats = ((steps.view(np.uint32) + np.uint32(0x80)) & np.uint32(0xFFFFFF00)).view(np.float32)
    return rounded


def _lengths(numbers: npt.NDArray[np.int16]) -> Floats:
    lengths: Floats = np.linalg.norm(numbers.astype(np.float32), axis=1)
    return lengths


def vectors_of(rows: Rows) -> Floats:
    """The vectors that rows stand for."""
    return _summed(rows["record"]["codes"], rows["low"], rows["record"]["step"])


def _summed(codes: npt.NDArray[np.int8], low: npt.NDArray[np.int8], step: Floats) -> Floats:
    vectors: Floats = (codes.astype(np.int16) * np.int16(_UNITS) + low) * (step / np.float32(_UNITS))[:, None]
    return vectors


def paths_of(base: Path) -> tuple[Path, Path]:
    """The files of records and of low bytes with this name."""
    return base.with_name(f"{base.name}.i8"), base.with_name(f"{base.name}.lo")


def check_rows(path: Path, there: int, needed: int) -> None:
    """Raises `IndexUnavailableError` if vectors are missing at the end of the file."""
    if there < needed:
        raise IndexUnavailableError(
            f"the index in {path.parent} is damaged: {path.name} has {there:,} of {needed:,} vectors. `opx repair` makes a "
            "new one from the documents"
        )


# -- writing


class VectorWriter:
    """Writes rows from a slot on. Slots beyond the last committed one are garbage and may be overwritten."""

    def __init__(self, base: Path, dimension: int) -> None:
        """`base` is the path of the files without their endings; they are made if they are missing."""
        self._dimension = dimension
        records, low = paths_of(base)
        self._records = _PartWriter(records, record_of(dimension).itemsize)
        self._low = _PartWriter(low, dimension)

    def write(self, slot: int, vectors: Sequence[Vector] | Floats) -> bytes:
        """Writes the rows of `vectors` at `slot` and the following ones; returns their bytes. Raises `ValueError` for
        another dimension, and `IndexUnavailableError` if rows before the slot are missing."""
        floats = np.asarray(vectors, dtype=np.float32)
        if floats.shape[1:] != (self._dimension,):
            raise ValueError(f"vectors have dimension {floats.shape[1:]}, the index has {self._dimension}")
        if not (np.isfinite(floats).all() and floats.any(axis=1).all()):
            raise EmbeddingError("the embedding model gives vectors that are all zeros, or have no finite numbers")
        rows = quantised(floats)
        self.put(slot, rows)
        return rows.tobytes()

    def put(self, slot: int, rows: Rows) -> None:
        """Writes rows as they are."""
        self._records.write(slot, rows["record"])
        self._low.write(slot, rows["low"])

    def sync(self) -> None:
        """Returns when all rows written are on disk."""
        self._records.sync()
        self._low.sync()

    def close(self) -> None:
        self._records.close()
        self._low.close()


class _PartWriter:
    """Writes a part of each row to one file."""

    def __init__(self, path: Path, row_bytes: int) -> None:
        self._path = path
        self._row_bytes = row_bytes
        new = not path.exists()
        self._file = os.fdopen(private(str(path), os.O_RDWR | (os.O_CREAT if new else 0)), "r+b")
        if new:
            sync_folder(path.parent)

    def write(self, slot: int, parts: npt.NDArray[Any]) -> None:
        there, end = self._file.seek(0, SEEK_END) // self._row_bytes, slot + len(parts)
        check_rows(self._path, there, slot)  # no gap: it would be read as zeros
        if end > there:
            self._file.truncate((end + min(end // _SPARE, _MOST_SPARE)) * self._row_bytes)
        self._file.seek(slot * self._row_bytes)
        self._file.write(parts.tobytes())

    def sync(self) -> None:
        sync_file(self._file)

    def close(self) -> None:
        self._file.close()


# -- reading


class StoredRows:
    """The rows of an index, also those behind the last committed one. `records` are mapped, so that processes share them."""

    def __init__(self, base: Path, dimension: int, needed: int) -> None:
        """Raises `IndexUnavailableError` if there are fewer rows than needed."""
        self.dimension = dimension
        self.identity: tuple[int, ...] = ()
        self.records: Records = np.empty(0, record_of(dimension))
        self._mapped_low: npt.NDArray[np.int8] | None = None
        if not needed:
            return
        records, self._path = paths_of(base)
        for path, size in ((records, self.records.dtype.itemsize), (self._path, dimension)):
            check_rows(path, path.stat().st_size // size if path.is_file() else 0, needed)
        self._low = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        with records.open("rb") as file:
            self.records = _mapped(file.fileno(), self.records.dtype)
            self.identity = _identity(os.fstat(file.fileno()), os.fstat(self._low))
        if os.fstat(self._low).st_size <= _MOST_MAPPED:
            self._mapped_low = _mapped(self._low, np.dtype((np.int8, (dimension,))))
            self.records = self.records[: len(self._mapped_low)]  # a writer lengthens one file after the other

    def __del__(self) -> None:
        if hasattr(self, "_low"):
            os.close(self._low)

    def vectors(self, slots: Numbers) -> Floats:
        """The vectors at these slots. Raises `OSError` if a file has been cut short."""
        if not len(slots):
            return np.empty((0, self.dimension), np.float32)
        low = self._read_low(slots, 1) if self._mapped_low is None else self._mapped_low[slots]
        return _summed(self.records["codes"][slots], low, self.records["step"][slots])

    def rows(self, first: int, end: int) -> Rows:
        """The rows from a slot to another. Raises as `vectors`."""
        rows = np.empty(end - first, row_of(self.dimension))
        rows["record"] = self.records[first:end]
        rows["low"] = self._read_low(np.array([first]), len(rows))
        return rows

    def _read_low(self, firsts: Numbers, count: int) -> npt.NDArray[np.int8]:
        """The low bytes of so many rows from each of these slots on."""
        size = count * self.dimension
        read = b"".join([os.pread(self._low, size, at) for at in (firsts * self.dimension).tolist()])
        if len(read) != size * len(firsts):
            raise OSError(f"{self._path} has been cut short")
        return np.frombuffer(read, np.int8).reshape(-1, self.dimension)


def stored_rows(base: Path, dimension: int, needed: int, known: StoredRows | None = None) -> StoredRows:
    """The rows in the files of this name; `known`, those of an earlier state, if they are in the same files and enough."""
    paths = paths_of(base)
    there = all(path.is_file() for path in paths) and _identity(*(path.stat() for path in paths))
    if known is not None and len(known.records) >= needed and known.identity == there:
        return known
    return StoredRows(base, dimension, needed)


def _identity(*files: os.stat_result) -> tuple[int, ...]:
    """Identifies files: others may replace them under the same names."""
    return tuple(number for one in files for number in (one.st_dev, one.st_ino))


def _mapped(file: int, part: np.dtype[Any]) -> npt.NDArray[Any]:
    count = os.fstat(file).st_size // part.itemsize
    return np.frombuffer(mmap.mmap(file, count * part.itemsize, access=mmap.ACCESS_READ), part, count)
