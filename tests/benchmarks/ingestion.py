"""Measures ingestion without embedding, from files to chunks that are found: `python -m tests.benchmarks.ingestion FOLDER`.

Vectors come from the hash of a passage. Prints a JSON line: seconds and processor seconds of putting the files and of
ingesting them, chunks per second, and the number of `fsync` calls of this program a file; those of SQLite and tantivy aren't
seen. With `--profile`, the functions that take the most time follow.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import os
import pstats
import sys
import tempfile
import time
import zlib
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from opx.domain.scopes import Scope
from opx.edges.loading import FILES_TOGETHER
from opx.ingestion.files import FileToIngest, plan_files
from opx.ports import SearchFilter, Vector, Vectors
from opx.settings import Settings
from opx.system import bootstrap

DIMENSION = 384


class HashEmbedder:
    """Unit vectors that cost nothing."""

    model_id = "hash/1"
    dimension = DIMENSION

    def __init__(self) -> None:
        rows = np.random.default_rng(1).standard_normal((4096, DIMENSION), dtype=np.float32)
        self._rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)

    def embed_documents(self, texts: Sequence[str]) -> list[Vectors]:
        return [(self.embed_query(text),) for text in texts]

    def embed_query(self, text: str) -> Vector:
        vector: Vector = self._rows[zlib.crc32(text.encode("utf-8", "surrogatepass")) % len(self._rows)]
        return vector


def measure(files: Sequence[FileToIngest], home: Path) -> dict[str, float]:
    syncs = 0
    sync = os.fsync

    def counted(fd: Any) -> None:
        nonlocal syncs
        syncs += 1
        sync(fd)

    os.fsync = counted
    try:
        with bootstrap(Settings(home=str(home)), embedder=HashEmbedder()) as system:
            began, processor = time.perf_counter(), time.process_time()
            for at in range(0, len(files), FILES_TOGETHER):
                with system.manager.grouped():
                    for file in files[at : at + FILES_TOGETHER]:
                        system.manager.put_file(file, {})
            put = time.perf_counter() - began
            for _ in system.manager.work():
                pass
            wall, processor = time.perf_counter() - began, time.process_time() - processor
            chunks = system.index.count(SearchFilter(scopes=(Scope().key,)))
    finally:
        os.fsync = sync
    rates = {
        "chunks_per_s": chunks / wall,
        "chunks_per_cpu_s": chunks / processor,
        "syncs_per_file": syncs / len(files),
    }
    return {"files": len(files), "chunks": chunks, "put_s": put, "seconds": wall, "cpu_s": processor} | rates


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--files", type=int, default=10_000, help="at most")
    parser.add_argument("--profile", action="store_true")
    arguments = parser.parse_args()
    planned = plan_files([arguments.folder], arguments.folder)
    files = [file for file in islice(planned, arguments.files) if isinstance(file, FileToIngest)]
    with tempfile.TemporaryDirectory(prefix="opx-ingestion-") as home, cProfile.Profile(time.process_time) as profile:
        if not arguments.profile:
            profile.disable()
        figures = measure(files, Path(home))
    print(json.dumps({name: round(value, 2) for name, value in figures.items()}), flush=True)
    if arguments.profile:
        pstats.Stats(profile, stream=sys.stdout).sort_stats("cumulative").print_stats(110)


if __name__ == "__main__":
    main()
