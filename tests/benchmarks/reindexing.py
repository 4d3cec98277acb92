"""Measures the speed of a reindex on this machine, with concurrent questions and changes of documents.

The corpus is made up (the words of `search_speed`), the model is the one that comes with the library, or with `--light` a
bag of words, so that what is not the model shows. Run: `python -m tests.benchmarks.reindexing [--documents N] [--light]`.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from opx.domain.queries import QueryConfig
from opx.operations.system import System
from opx.settings import Settings
from opx.system import bootstrap
from tests.support.cli_support import WordEmbedder
from tests.support.reindex_support import a_model

CHUNK_WORDS = 200
CHUNKS_A_DOCUMENT = 4
VOCABULARY = 5_000


@dataclass
class Answers:
    """Answers to the questions of one kind of process."""

    milliseconds: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    partial: int = 0


def a_text(number: int, rng: random.Random) -> bytes:
    lines = [f"# Procedure {number}\n"]
    for part in range(CHUNKS_A_DOCUMENT):
        words = " ".join(f"w{int(rng.paretovariate(0.6)) % VOCABULARY}x" for _ in range(CHUNK_WORDS))
        lines.append(f"\n## Step {part} of {number}\n\n{words}.\n")
    return "".join(lines).encode()


def fill(services: System, documents: int) -> None:
    rng = random.Random(7)
    for number in range(documents):
        services.store.put(f"documents/runbooks/procedures/p{number}.md", a_text(number, rng))
    assert services.ingestion.drain is not None
    for _ in services.ingestion.drain.run():
        pass


def ask_questions(services: System, documents: int, stop: threading.Event, answers: Answers) -> None:
    rng = random.Random(11)
    while not stop.is_set():
        started = time.perf_counter()
        try:
            question = f"procedure {rng.randrange(documents)} step w{rng.randrange(50)}x"
            answer = services.questions.for_reader().search(question, QueryConfig(min_confidence=0.0))
            answers.partial += answer.partial
            if not answer.results:
                answers.errors.append("no results")
        except Exception as exc:  # noqa: BLE001 - any error is counted
            answers.errors.append(repr(exc))
        answers.milliseconds.append(1000 * (time.perf_counter() - started))
        stop.wait(0.02)


def changing(services: System, documents: int, stop: threading.Event, changed: list[int]) -> None:
    rng = random.Random(13)
    while not stop.is_set():
        number = rng.randrange(documents)
        services.store.put(f"documents/runbooks/procedures/p{number}.md", a_text(number, rng))
        assert services.ingestion.drain is not None
        changed.extend(number for _ in services.ingestion.drain.run())
        stop.wait(0.3)


def measure(home: Path, documents: int, *, light: bool) -> dict[str, Any]:
    settings = Settings(home=str(home), audit_days=0, gap_days=0)
    parts: dict[str, Any] = {"embedder": WordEmbedder(), "new_embedder": a_model} if light else {}
    with ExitStack() as stack:
        worker, asker, changer = (stack.enter_context(bootstrap(settings, **parts)) for _ in range(3))
        fill(worker, documents)
        if not light:  # with its vectors in the cache nothing would be embedded
            worker.indexing.document_embedder.forget(texts_of(worker))
        stop, answers, changed = threading.Event(), Answers(), list[int]()
        others = [
            threading.Thread(target=ask_questions, args=(asker, documents, stop, answers)),
            threading.Thread(target=changing, args=(changer, documents, stop, changed)),
        ]
        for thread in others:
            thread.start()
        try:
            made = reindex(worker, "32" if light else "")
        finally:
            stop.wait(1.0)
            stop.set()
            for thread in others:
                thread.join()
    return {"documents": documents, **made, "changedMeanwhile": len(changed), **figures(answers)}


def reindex(services: System, model: str) -> dict[str, Any]:
    """Step by step, each phase timed."""
    started = time.perf_counter()
    reindexer = services.lifecycle.reindexer
    reindexer.start(model=model)
    phases: dict[str, float] = {}
    while True:
        begun, before = time.perf_counter(), reindexer.status()[1]
        progress = reindexer.advance(lambda: True)
        phase = before.phase.value if before else "waiting"
        phases[phase] = phases.get(phase, 0.0) + time.perf_counter() - begun
        if progress.finished:
            break
    job = progress.job
    return {
        "phase": job.phase.value,
        "problems": job.report.get("problems"),
        "chunks": job.chunks,
        "chunksPerSecond": round(job.chunks / phases["building"]),
        "madeUpFor": job.renewed,
        "seconds": round(time.perf_counter() - started, 1),
        "secondsByPhase": {name: round(value, 2) for name, value in phases.items()},
    }


def figures(answers: Answers) -> dict[str, Any]:
    return {
        "questions": len(answers.milliseconds),
        "errorCount": len(answers.errors),
        "errors": answers.errors[:5],
        "partial": answers.partial,
        "p50Ms": round(float(np.percentile(answers.milliseconds, 50)), 1),
        "p95Ms": round(float(np.percentile(answers.milliseconds, 95)), 1),
    }


def texts_of(services: System) -> list[str]:
    found: list[str] = []
    for document in services.corpus.catalog.in_category("runbooks/procedures"):
        found += [chunk.text for chunk in services.ingestion.pipeline.read_chunks(document.key, document.document_id)]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=500)
    parser.add_argument("--light", action="store_true", help="a bag of words for a model")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        print(json.dumps(measure(Path(home), arguments.documents, light=arguments.light), indent=1))


if __name__ == "__main__":
    main()
