"""Measures answers under concurrent load: `python -m tests.benchmarks.load`.

Clients are threads on one system over 10,000 chunks, each sending one question after the other without a pause. First every
question is answered alone; an answer under load that has other results counts as an error, as does one that is partial.
Prints one JSON line per mode: answers per second, p50, p95 and p99 in milliseconds, errors, and `warnings`: the number of
logged problems beside an answer, such as a record of it that could not be written.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import random
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Barrier

from opx.adapters.embedded.embedders import MiniLmEmbedder
from opx.adapters.embedded.search_index import EmbeddedIndex
from opx.domain.queries import QueryConfig, SearchMode
from opx.domain.results import Answer
from opx.operations.system import System
from opx.retrieval.query import KnowledgeQuery
from opx.settings import Settings
from opx.system import bootstrap
from opx_quality.evaluation.querying import MODES
from tests.benchmarks.search_speed import CHUNKS_A_DOCUMENT, DIMENSION, Corpus, percentile

DOCUMENTS_A_BATCH = 250
QUESTIONS = 200
Found = tuple[str, ...]


@contextmanager
def filled_system(chunks: int) -> Iterator[System]:
    """A system with the shipped model over made-up chunks."""
    folder = Path(tempfile.mkdtemp(prefix="opx-load-"))
    embedder = MiniLmEmbedder(Settings(), threads=Settings().embedding_threads)
    try:
        index = EmbeddedIndex(folder / "index", model_id=embedder.model_id, dimension=DIMENSION)
        changes = Corpus().changes(chunks)
        for _ in range(0, chunks // CHUNKS_A_DOCUMENT, DOCUMENTS_A_BATCH):
            index.apply(change for change, _ in zip(changes, range(DOCUMENTS_A_BATCH), strict=False))
        with bootstrap(Settings(home=str(folder)), index=index, embedder=embedder) as services:
            yield services
    finally:
        shutil.rmtree(folder)


class Warnings(logging.Handler):
    """Counts log records from the level warning on, and prints none."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.count = 0

    def emit(self, record: logging.LogRecord) -> None:
        self.count += 1


def measure(knowledge: KnowledgeQuery, mode: SearchMode, clients: int, answers: int) -> dict[str, float]:
    """Figures of one mode: `answers` questions of each client, all clients at once."""
    config = QueryConfig(mode=mode, min_confidence=0.0)
    corpus = Corpus()
    queries = [corpus.text(random.Random(n).randrange(4, 9)) for n in range(QUESTIONS)]
    alone = [_found(knowledge.search(text, config)) for text in queries]
    together = Barrier(clients + 1)

    def client(number: int) -> list[tuple[float, bool]]:
        order = [(number * answers + n) % QUESTIONS for n in range(answers)]
        together.wait()
        return [_timed(knowledge, queries[at], config, alone[at]) for at in order]

    with ThreadPoolExecutor(clients) as pool:
        running = [pool.submit(client, number) for number in range(clients)]
        together.wait()
        started = time.perf_counter()
        replies = [reply for one in running for reply in one.result()]
        seconds = time.perf_counter() - started
    return _figures(replies, seconds)


def _timed(knowledge: KnowledgeQuery, text: str, config: QueryConfig, expected: Found) -> tuple[float, bool]:
    started = time.perf_counter()
    answer = knowledge.search(text, config)
    return 1000 * (time.perf_counter() - started), not answer.partial and _found(answer) == expected


def _found(answer: Answer) -> Found:
    return tuple(str(result.metadata["chunkId"]) for result in answer.results)


def _figures(replies: Sequence[tuple[float, bool]], seconds: float) -> dict[str, float]:
    times = [taken for taken, _ in replies]
    return {
        "answers": len(replies),
        "answers_per_s": len(replies) / seconds,
        **{f"p{at}_ms": percentile(times, at) for at in (50, 95, 99)},
        "errors": sum(not right for _, right in replies),
    }


def main() -> None:
    """Prints one JSON line per mode."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chunks", type=int, default=10_000)
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--answers", type=int, default=20, help="of each client")
    args = parser.parse_args()
    logged = Warnings()
    logging.basicConfig(handlers=[logged])
    with filled_system(args.chunks) as services:
        knowledge = services.questions.for_reader()
        for mode in MODES:
            before = logged.count
            figures = measure(knowledge, mode, args.clients, args.answers)
            figures["warnings"] = logged.count - before
            about = {"mode": mode.value, "clients": args.clients, "chunks": args.chunks, "processors": os.cpu_count()}
            print(json.dumps({**about, **{name: round(value, 2) for name, value in figures.items()}}), flush=True)


if __name__ == "__main__":
    main()
