"""Measures a small update of the embedded index and the searches after it: `python -m tests.benchmarks.updates`.

One document of eight chunks is replaced, then its tenant searches, in the process that wrote and in another one. Prints a
JSON line per size: medians and 95th percentiles in milliseconds of the wall and medians of the processor, the time of the
same search while nothing changes, and the memory of the process that only reads. The corpus is that of `search_speed` with
fingerprints, in twenty tenants and two tiers. `--keep` builds indexes in a folder that is used again.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median

import psutil

from opx.adapters.embedded.search_index import EmbeddedIndex
from opx.domain.ids import chunk_id, entry_id, stable_hash
from opx.domain.knowledge import Tier
from opx.domain.record import replace
from opx.domain.results import IndexedChunk
from opx.ports import DocumentChange, IndexEntry, SearchFilter, SearchRequest
from opx_testing.entries import a_piece
from tests.benchmarks.search_speed import (
    CATEGORIES,
    CHUNKS_A_DOCUMENT,
    DIMENSION,
    WORDS_A_CHUNK,
    Corpus,
    percentile,
)

DOCUMENTS_A_BATCH = 1000
PASSAGES = 4000
TENANTS = 20
TIERS = (Tier.INTERNAL, Tier.INTERNAL, Tier.INTERNAL, Tier.SPECIALIZED)
WARM_UP = 5
Times = list[tuple[float, float]]
"""Milliseconds of the wall and of the processor."""


class Passages(Corpus):
    """Draws texts from so many passages that building an index of a million chunks takes minutes."""

    def __init__(self, seed: int = 7) -> None:
        super().__init__(seed)
        self._passages = [super(Passages, self).text(WORDS_A_CHUNK) for _ in range(PASSAGES)]

    def passage(self, number: int) -> str:
        return self._passages[number % PASSAGES]


def document(corpus: Passages, number: int, edition: int = 0) -> DocumentChange:
    """A version of a document."""
    key = stable_hash("bench", number)
    entries = (_entry(corpus, key, number, at, edition) for at in range(CHUNKS_A_DOCUMENT))
    return DocumentChange(key, f"{key}-{edition}", entries)


def _entry(corpus: Passages, key: str, number: int, at: int, edition: int) -> IndexEntry:
    drawn = zlib.crc32(f"{number} {at} {edition}".encode())
    content, title = corpus.passage(drawn), f"Page {drawn % 1000}"
    category, tags = CATEGORIES[number % len(CATEGORIES)], (f"tag-{number % 7}",)
    chunk = a_piece(
        chunk_id(key, at, f"{content} {drawn}"), key, at, content, 300, title, ("Steps",), 0, 0, category, tags
    )
    indexed = IndexedChunk(
        entry_id(key, chunk.chunk_id), chunk, key, scope_of(number), TIERS[number % len(TIERS)], 1.0,
        f"documents/{key}.md", f"2025-{1 + number % 12:02}-01T00:00:00Z", "en",
        fingerprint=f"{drawn:08x}{zlib.crc32(content.encode()):08x}", resources=(f"service-{number % 50}",),
    )  # fmt: skip
    return IndexEntry(indexed, corpus.vectors(1))


def scope_of(number: int) -> str:
    return f"tenant-{number % TENANTS}"


def opened(folder: Path) -> EmbeddedIndex:
    return EmbeddedIndex(folder, model_id="bench", dimension=DIMENSION)


def build(folder: Path, chunks: int) -> None:
    """Fills the index, unless an earlier run did."""
    index, corpus = opened(folder), Passages()
    where = SearchFilter(scopes=tuple(map(scope_of, range(TENANTS))))
    first = index.count(where) // CHUNKS_A_DOCUMENT
    for begin in range(first, chunks // CHUNKS_A_DOCUMENT, DOCUMENTS_A_BATCH):
        end = min(begin + DOCUMENTS_A_BATCH, chunks // CHUNKS_A_DOCUMENT)
        index.apply(document(corpus, number) for number in range(begin, end))
    index.close()


class Searches:
    """The next of a row of searches of a tenant, timed."""

    def __init__(self, index: EmbeddedIndex) -> None:
        self._index = index
        self._corpus = Corpus(seed=11)

    def __call__(self, number: int) -> tuple[float, float]:
        where = SearchFilter(scopes=("global", scope_of(number)))
        request = SearchRequest(where, self._corpus.text(6), self._corpus.vectors(1)[0], 50)
        return timed(lambda: self._index.search(request))


def timed(work: Callable[[], object]) -> tuple[float, float]:
    wall, processor = time.perf_counter(), time.process_time()
    work()
    return 1000 * (time.perf_counter() - wall), 1000 * (time.process_time() - processor)


def reader(folder: Path, questions: Connection) -> None:
    """Answers numbers of tenants with the times of a search, and -1 with the memory in megabytes, until None."""
    index = opened(folder)
    search = Searches(index)
    while (number := questions.recv()) is not None:
        questions.send(search(number) if number >= 0 else psutil.Process().memory_info().rss / 1e6)
    index.close()


def measure(folder: Path, chunks: int, updates: int) -> dict[str, float]:
    build(folder, chunks)
    index, corpus = opened(folder), Passages()
    here = Searches(index)
    ours, theirs = multiprocessing.get_context("spawn").Pipe()
    other = multiprocessing.get_context("spawn").Process(target=reader, args=(folder, theirs))
    other.start()

    def there(number: int) -> tuple[float, float]:
        ours.send(number)
        found: tuple[float, float] = ours.recv()
        return found

    names = ("update", "search_here", "search_there", "again_here", "again_there")
    times: dict[str, Times] = {name: [] for name in names}
    for number in range(WARM_UP + updates):
        made = document(corpus, number, edition=1)
        change = replace(made, superseded=index.references(made.key_id))
        times["update"].append(timed(lambda change=change: index.apply([change])))  # type: ignore[misc]
        times["search_here"].append(here(number))
        times["search_there"].append(there(number))
        times["again_here"].append(here(number))
        times["again_there"].append(there(number))
    ours.send(-1)
    figures = {"chunks": chunks, "reader_rss_mb": ours.recv(), "disk_mb": _megabytes(folder)} | _summary(times)
    ours.send(None)
    other.join()
    index.close()
    return figures


def _summary(times: dict[str, Times]) -> dict[str, float]:
    figures: dict[str, float] = {}
    for name, rows in times.items():
        walls = [wall for wall, _ in rows[WARM_UP:]]
        figures |= {f"{name}_ms": median(walls), f"{name}_p95_ms": percentile(walls, 95)}
        figures[f"{name}_cpu_ms"] = median(processor for _, processor in rows[WARM_UP:])
    return figures


def _megabytes(folder: Path) -> float:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6


def _sizes(arguments: argparse.Namespace) -> Iterator[tuple[Path, int]]:
    with tempfile.TemporaryDirectory(prefix="opx-updates-") as scratch:
        for chunks in arguments.sizes:
            folder = Path(arguments.keep or scratch) / str(chunks)
            folder.mkdir(parents=True, exist_ok=True)
            yield folder, chunks


def main() -> None:
    """Prints one JSON line per size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--updates", type=int, default=30)
    parser.add_argument("--keep", default="", help="a folder for the indexes")
    arguments = parser.parse_args()
    for folder, chunks in _sizes(arguments):
        figures = measure(folder, chunks, arguments.updates)
        print(json.dumps({name: round(value, 2) for name, value in figures.items()}), flush=True)


if __name__ == "__main__":
    main()
