"""Turns an embedded index into one of an earlier release: vectors of float32 in one file, with checksums of their own."""

from __future__ import annotations

import hashlib
import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np

from opx.adapters.embedded.segments import IndexDatabase, unpacked
from opx.adapters.embedded.vector_files import ROWS, StoredRows


def as_of_format_5(folder: Path) -> None:
    """With the same entries, rows and slots."""
    with closing(IndexDatabase(folder / "index.db")) as database, database.transaction():
        slots, dimension = int(database.meta("next_slot")), int(database.meta("identity").split("/")[-3])
        rows = StoredRows(folder / database.meta(ROWS), dimension, slots)
        floats = rows.vectors(np.arange(slots))
        for segment, known in database.checksums().items():
            row, _ = database.segment(segment)
            written = floats[row.first_slot : row.first_slot + row.slots].astype("<f4").tobytes()
            database.put_checksums(segment, type(known)(known.entries, hashlib.sha256(written).hexdigest()))
        database.set_meta("identity", database.meta("identity").rpartition("-")[0] + "-5")
    with closing(sqlite3.connect(folder / "index.db")) as changed, changed:
        changed.execute("DELETE FROM meta WHERE name = ?", (ROWS,))
    spare = np.zeros((slots // 8, dimension), np.float32)
    (folder / "vectors.f32").write_bytes(np.concatenate((floats, spare)).astype("<f4").tobytes())
    for path in folder.glob(f"{ROWS}*"):
        path.unlink()


def as_of_format_4(folder: Path) -> None:
    """With text as its entries, and without notes of commits."""
    as_of_format_5(folder)
    with closing(sqlite3.connect(folder / "index.db")) as database, database:
        rows = database.execute("SELECT segment, position, chunk FROM entries").fetchall()
        lines = [(unpacked(chunk), segment, position) for segment, position, chunk in rows]
        database.executemany("UPDATE entries SET chunk = ? WHERE segment = ? AND position = ?", lines)
        database.execute("UPDATE meta SET value = replace(value, 'format-5', 'format-4') WHERE name = 'identity'")
        database.execute("DROP TABLE commits")
