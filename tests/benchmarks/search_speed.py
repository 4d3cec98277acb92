"""Measures latency of searches and of whole answers, memory and opening time of the embedded index at several sizes.

The corpus is made up: words drawn from a Zipf distribution over a vocabulary that contains identifiers, 300 tokens a
chunk, random unit vectors. A search is timed with its vector ready; an answer from the question to the results, with what
the mode does: embedding with the shipped model, searching, judging, ranking anew.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from opx.adapters.embedded.search_index import EmbeddedIndex
from opx.domain.ids import chunk_id, entry_id, stable_hash
from opx.domain.knowledge import Tier
from opx.domain.queries import Fusion, QueryConfig, SearchMode
from opx.domain.record import replace
from opx.domain.results import IndexedChunk
from opx.ports import DocumentChange, IndexEntry, SearchFilter, SearchRequest, Vector, Vectors
from opx.retrieval.hybrid import DEPTH, Candidates, fused_hits
from opx.settings import Settings
from opx.system import bootstrap
from opx_quality.evaluation.querying import MODES
from opx_testing.entries import a_piece

WORDS_A_CHUNK = 215
CHUNKS_A_DOCUMENT = 8
DIMENSION = 384
VOCABULARY = 60_000
WARM_UP = 20
TENANTS, TENANT = 20, "client/one"
"""One document in twenty belongs to a tenant: a narrow filter."""

CATEGORIES = ("runbooks/procedures", "postmortems", "operations/incidents", "vendor/cloud")


def percentile(values: list[float], share: float) -> float:
    return float(np.percentile(np.array(values), share))


class Corpus:
    """Seeded documents and questions. Each chunk has `vectors_each` vectors."""

    def __init__(self, seed: int = 7, vectors_each: int = 1) -> None:
        self._each = vectors_each
        self._random = random.Random(seed)
        self._numpy = np.random.default_rng(seed)
        self._words = [self._word(n) for n in range(VOCABULARY)]
        self._cumulative = np.cumsum(1 / np.arange(1, VOCABULARY + 1))

    def _word(self, number: int) -> str:
        letters = "etaoinshrdlucmfwypvbgkjqxz"
        length = 2 + min(9, int(number**0.2)) + self._random.randrange(3)
        word = "".join(self._random.choice(letters) for _ in range(length))
        return word.capitalize() + "Error" if number % 50 == 49 else word

    def text(self, count: int) -> str:
        drawn = self._numpy.random(count) * self._cumulative[-1]
        return " ".join(self._words[i] for i in np.searchsorted(self._cumulative, drawn).tolist())

    def vectors(self, count: int) -> list[Vector]:
        rows = self._numpy.standard_normal((count, DIMENSION), dtype=np.float32)
        return list(rows / np.linalg.norm(rows, axis=1, keepdims=True))

    def changes(self, chunks: int) -> Iterator[DocumentChange]:
        for number in range(chunks // CHUNKS_A_DOCUMENT):
            key = stable_hash("bench", number)
            entries = [self._entry(key, number, n, self.vectors(self._each)) for n in range(CHUNKS_A_DOCUMENT)]
            yield DocumentChange(key, key, entries)

    def _entry(self, key: str, number: int, position: int, vectors: Vectors) -> IndexEntry:
        content = self.text(WORDS_A_CHUNK)
        chunk = a_piece(
            chunk_id(key, position, content), key, position, content, 300, self.text(5), (self.text(3),), 0, 0,
            CATEGORIES[number % len(CATEGORIES)],
        )  # fmt: skip
        source = f"documents/{key}.md"  # answers leave out what has no source
        scope = "global" if number % TENANTS else TENANT
        return IndexEntry(
            IndexedChunk(entry_id(key, chunk.chunk_id), chunk, key, scope, Tier.INTERNAL, 1.0, source, "", "en"),
            vectors,
        )


def measure(size: int, questions: int, folder: Path, vectors_each: int) -> dict[str, float]:
    corpus = Corpus(vectors_each=vectors_each)
    index = EmbeddedIndex(folder, model_id="bench", dimension=DIMENSION)
    started = time.perf_counter()
    changes = corpus.changes(size)
    for _ in range(0, size // CHUNKS_A_DOCUMENT, 250):
        index.apply(change for change, _ in zip(changes, range(250), strict=False))
    built = time.perf_counter() - started
    index.close()
    started = time.perf_counter()
    index = EmbeddedIndex(folder, model_id="bench", dimension=DIMENSION)
    where = SearchFilter(scopes=("global", TENANT), categories=CATEGORIES[:2])
    index.count(where)
    figures = {"chunks": size, "vectors_each": vectors_each, "build_s": built, "open_s": time.perf_counter() - started}
    figures |= _latencies(index, corpus, where, questions)
    figures |= _answers(index, corpus, questions, folder / "home")
    figures["vectors_mb"] = sum(path.stat().st_size for path in folder.glob("rows*")) / 1e6
    memory = psutil.Process().memory_full_info()
    figures |= {"rss_mb": memory.rss / 1e6, "uss_mb": memory.uss / 1e6}
    index.close()
    return figures


def _latencies(index: EmbeddedIndex, corpus: Corpus, where: SearchFilter, questions: int) -> dict[str, float]:
    queries = [
        (corpus.text(random.Random(n).randrange(4, 9)), vector) for n, vector in enumerate(corpus.vectors(questions))
    ]
    figures: dict[str, float] = {}
    for text, vector in queries[:WARM_UP]:
        index.search(SearchRequest(where, text, vector, 50))
    legs = {
        "all_vectors": replace(where, categories=()),
        "vector_leg": where,
        "tenant_vectors": SearchFilter(scopes=(TENANT,)),
    }
    for name, passing in legs.items():
        times, processor = _vector_times(index, passing, [vector for _, vector in queries])
        figures |= {f"{name}_p50_ms": percentile(times, 50), f"{name}_p95_ms": percentile(times, 95)}
        figures[f"{name}_cpu_ms"] = percentile(processor, 50)
    for mode in (SearchMode.FAST, SearchMode.BALANCED):
        times = []
        for text, vector in queries:
            started = time.perf_counter()
            response = index.search(SearchRequest(where, text, vector, DEPTH[mode]))
            fused_hits(Candidates.of(response), Fusion.MIN_MAX, 2)
            times.append(1000 * (time.perf_counter() - started))
        figures[f"{mode}_p50_ms"] = percentile(times, 50)
        figures[f"{mode}_p95_ms"] = percentile(times, 95)
    return figures


def _vector_times(index: EmbeddedIndex, where: SearchFilter, vectors: list[Vector]) -> tuple[list[float], list[float]]:
    """Milliseconds of each search by vector alone, and of processor time in it."""
    times, processor = [], []
    for vector in vectors:
        started, used = time.perf_counter(), time.process_time()
        index.search(SearchRequest(where, None, vector, 100))
        times.append(1000 * (time.perf_counter() - started))
        processor.append(1000 * (time.process_time() - used))
    return times, processor


def _answers(index: EmbeddedIndex, corpus: Corpus, questions: int, home: Path) -> dict[str, float]:
    """Whole answers of a system over this index, in every mode."""
    queries = [corpus.text(random.Random(n).randrange(4, 9)) for n in range(WARM_UP + questions)]
    figures: dict[str, float] = {}
    with bootstrap(Settings(home=str(home)), index=KeptOpen(index)) as services:
        knowledge = services.questions.for_reader()
        for mode in MODES:
            config = QueryConfig(mode=mode, min_confidence=0.0)
            times: list[float] = []
            parts: dict[str, list[float]] = {}
            for text in queries:
                started = time.perf_counter()
                answer = knowledge.search(text, config)
                times.append(1000 * (time.perf_counter() - started))
                for part, taken in answer.timings_ms.items():
                    parts.setdefault(part, []).append(taken)
            for name, each in {"answer": times, **parts}.items():
                figures |= {f"{mode}_{name}_p{at}_ms": percentile(each[WARM_UP:] or each, at) for at in (50, 95)}
    return figures


class KeptOpen:
    """An index that its services don't close."""

    def __init__(self, index: EmbeddedIndex) -> None:
        self._index = index

    def __getattr__(self, name: str) -> Any:
        return getattr(self._index, name)

    def close(self) -> None:
        """Does nothing: the caller that opened the index closes it."""


def main() -> None:
    """Prints one JSON line per size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    parser.add_argument("--questions", type=int, default=200)
    parser.add_argument("--vectors", type=int, default=2, help="of each chunk, as the built-in model gives most")
    args = parser.parse_args()
    for size in args.sizes:
        folder = Path(tempfile.mkdtemp(prefix="opx-bench-"))
        try:
            figures = measure(size, args.questions, folder, args.vectors)
            print(json.dumps({name: round(value, 4) for name, value in figures.items()}), flush=True)
        finally:
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
