"""Converts the vectors of an index of an earlier release, which stored them as float32, once.

The index has the old vectors until one SQLite commit, and the new ones from then on: new files are on the disk before it, and
the old ones are removed after it. A crash leaves files that the next writer removes.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import BinaryIO

import numpy as np

from opx.adapters.embedded.segments import IndexDatabase
from opx.adapters.embedded.vector_files import (
    ROWS,
    Floats,
    StoredRows,
    VectorWriter,
    check_rows,
    paths_of,
    quantised,
)
from opx.domain.record import replace

log = logging.getLogger(__name__)

PATTERN = "vectors*"
"""Files with vectors of earlier releases, and what they derived from them."""

_NAME, _FIRST = "vectors", "vectors.f32"
"""The property of an index that names its file, and the name of the first one."""

_CONVERTED = "vectors-converted.f32"
"""The name that a program of an earlier release reads if it had the index open: there is no such file, so it stops."""

_BLOCK = 8_192


def check_earlier_vectors(folder: Path, database: IndexDatabase, dimension: int) -> None:
    """Raises `IndexUnavailableError` if rows are missing in the file of an earlier release."""
    path = _path(folder, database)
    check_rows(path, path.stat().st_size // (4 * dimension) if path.is_file() else 0, _slots(database))


def convert(folder: Path, database: IndexDatabase, dimension: int, identity: str) -> None:
    """Makes an index of an earlier release one of `identity`, while nobody else writes to it. A segment whose vectors are not
    as they were written keeps its checksum, and so remains a damaged one."""
    check_earlier_vectors(folder, database, dimension)
    old, base, slots = _path(folder, database), folder / ROWS, _slots(database)
    log.warning("converting %s vectors of %s, which an earlier release has stored", f"{slots:,}", folder)
    for path in paths_of(base):
        path.unlink(missing_ok=True)  # of a conversion that was cut off
    with old.open("rb") as file:
        with closing(VectorWriter(base, dimension)) as writer:
            for at, vectors in _blocks(file, dimension, slots):
                writer.put(at, quantised(vectors))
            writer.sync()
        with database.transaction():
            _renew_checksums(database, file, StoredRows(base, dimension, slots))
            database.set_meta(ROWS, base.name)
            database.set_meta(_NAME, _CONVERTED)
            database.set_meta("identity", identity)
    for path in folder.glob(PATTERN):
        path.unlink()


def _slots(database: IndexDatabase) -> int:
    return int(database.meta("next_slot", "0"))


def _path(folder: Path, database: IndexDatabase) -> Path:
    return folder / database.meta(_NAME, _FIRST)


def _blocks(file: BinaryIO, dimension: int, slots: int) -> Iterator[tuple[int, Floats]]:
    for at in range(0, slots, _BLOCK):
        read = file.read(min(_BLOCK, slots - at) * 4 * dimension)
        vectors = np.frombuffer(read, "<f4").reshape(-1, dimension)
        yield at, np.where(np.isfinite(vectors), vectors, np.float32(0))  # what isn't finite is damaged


def _renew_checksums(database: IndexDatabase, file: BinaryIO, rows: StoredRows) -> None:
    known, size = database.checksums(), 4 * rows.dimension
    for segment in database.each_segment():
        file.seek(segment.first_slot * size)
        as_written = hashlib.sha256(file.read(segment.slots * size)).hexdigest()
        if segment.id in known and known[segment.id].vectors == as_written:
            stored = rows.rows(segment.first_slot, segment.first_slot + segment.slots).tobytes()
            database.put_checksums(segment.id, replace(known[segment.id], vectors=hashlib.sha256(stored).hexdigest()))
