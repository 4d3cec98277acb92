"""Measures ingestion of files without a model's time, and the model alone: `python -m tests.benchmarks.ingesting CACHE`.

Prints one JSON object.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
import zlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np

from opx.domain.scopes import Identity
from opx.facade.knowledge import Knowledge
from opx.facade.opening import of_system
from opx.ports import SearchFilter, Vector, Vectors
from opx.ports.search import embed_each
from opx.settings import Settings
from opx.system import bootstrap
from tests.benchmarks.corpora import Corpus, unit
from tests.benchmarks.homes import passages_of

DIMENSION = 384
_OUTSIDE = 8_000_000


class ReadyVectors:
    """An `Embedder` whose vectors cost nothing: two for each text."""

    model_id = "ready-vectors"
    dimension = DIMENSION

    def __init__(self) -> None:
        self._rows = unit(np.random.default_rng(3).standard_normal((4096, DIMENSION), dtype=np.float32))

    def embed_documents(self, texts: Sequence[str]) -> list[Vectors]:
        return [[self.embed_query(text), self.embed_query(f"rest of {text}")] for text in texts]

    def embed_query(self, text: str) -> Vector:
        row: Any = self._rows[zlib.crc32(text.encode()) % len(self._rows)]
        return cast("Vector", row)


def ingestion(corpus: Corpus, documents: int) -> dict[str, float]:
    """Files with front matter of nothing, through the whole pipeline: parsing, masking, chunks, relations, index, catalog.
    A document costs something, and each of its chunks: documents that are cut to their first part separate the two."""
    whole, first = _ingested(corpus, documents), _ingested(corpus, documents, parts=1)
    more = (whole["chunks"] - first["chunks"]) / documents
    chunk = 1000 * (whole["cpu_s"] - first["cpu_s"]) / documents / more
    document = 1000 * first["cpu_s"] / documents - chunk * first["chunks"] / documents
    rates = {"chunks_per_s": whole["chunks"] / whole["wall_s"], "chunks_per_cpu_s": whole["chunks"] / whole["cpu_s"]}
    return {"chunks": whole["chunks"], **rates, "document_cpu_ms": document, "chunk_cpu_ms": chunk}


def _ingested(corpus: Corpus, documents: int, parts: int | None = None) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "runbooks"
        folder.mkdir()
        for number in range(documents):
            document = corpus.document(_OUTSIDE + number)
            document = replace(document, chunks=document.chunks[:parts])
            (folder / f"{document.number}.md").write_text(document.to_markdown(), encoding="utf-8")
        system = bootstrap(Settings(home=f"{temporary}/home"), embedder=ReadyVectors())
        with Knowledge(of_system(system, Identity())) as knowledge:
            started, cpu = time.perf_counter(), time.process_time()
            knowledge.add_files(folder)
            wall, cpu = time.perf_counter() - started, time.process_time() - cpu
            chunks = system.indexing.index.count(SearchFilter(scopes=("global",)))
    return {"chunks": chunks, "wall_s": wall, "cpu_s": cpu}


def embedding(corpus: Corpus, texts: int) -> dict[str, float]:
    """Texts of chunks that were never embedded before, as ingestion embeds them."""
    numbers = range(_OUTSIDE * 2, _OUTSIDE * 2 + texts // 8 + 1)
    found = [
        f"# {one.title}\n## {part.section}\n\n{part.text}"
        for one in map(corpus.document, numbers)
        for part in one.chunks
    ]
    vectors: dict[int, Any] = {}
    with tempfile.TemporaryDirectory() as home, bootstrap(Settings(home=home)) as system:
        embedder = system.indexing.document_embedder
        embed_each(embedder, found[-8:], lambda position, rows: None)  # the model is loaded
        started, cpu = time.perf_counter(), time.process_time()
        embed_each(embedder, found[:texts], vectors.__setitem__)
        wall, cpu = time.perf_counter() - started, time.process_time() - cpu
    assert len(vectors) == texts
    windows = sum(map(len, vectors.values()))
    return {
        "chunks_per_s": texts / wall,
        "chunks_per_cpu_s": texts / cpu,
        "vectors_per_s": windows / wall,
        "vectors_each": windows / texts,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cache", type=Path, help="folder with the passages of the corpus")
    parser.add_argument("--documents", type=int, default=150)
    parser.add_argument("--texts", type=int, default=256)
    parser.add_argument("--set", type=Path, help="a BEIR folder, for its passages")
    args = parser.parse_args()
    corpus = Corpus(passages_of(args.cache, args.set))
    print(json.dumps({"ingest": ingestion(corpus, args.documents), "embed": embedding(corpus, args.texts)}))


if __name__ == "__main__":
    main()
