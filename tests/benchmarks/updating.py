"""Measures small changes of a large index, and the next search in this and in another process: `python -m
tests.benchmarks.updating HOME`. Every search has to find the change. Prints one JSON object."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import statistics
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from pathlib import Path

from opx.domain.record import replace
from opx.domain.scopes import Identity
from opx.facade.knowledge import Knowledge
from opx.operations.system import System
from opx.ports import DocumentChange, IndexEntry, SearchFilter, SearchRequest
from opx.settings import Settings
from opx.system import bootstrap
from tests.benchmarks.corpora import Corpus, Question, Questions, SyntheticDocument
from tests.benchmarks.homes import READERS, change_of, passages_of

STEADY = 5
DEPTH = 100
"""Candidates of each leg, as in mode balanced."""

_OUTSIDE = 9_000_000
"""Number of the first document that no corpus has."""

Search = Callable[[str], tuple[float, bool]]
"""Searches for a word among others; returns milliseconds, and whether it is known, and found if it is looked for alone."""


class Marked:
    """A document with a word of its own for each revision."""

    def __init__(self, document: SyntheticDocument) -> None:
        self._document = document

    def change(self, number: int) -> DocumentChange:
        found = change_of(self._document)
        entries = [self._marked(entry, number) for entry in found.entries]
        before = [entry.indexed.entry_id for entry in entries]
        return DocumentChange(found.key_id, found.document_id, entries, before)

    def _marked(self, entry: IndexEntry, number: int) -> IndexEntry:
        chunk = entry.indexed.chunk
        marked = replace(chunk, content=f"{chunk.content}\n{word(number)}")
        return IndexEntry(replace(entry.indexed, chunk=marked), entry.vectors)

    def removal(self) -> DocumentChange:
        found = change_of(self._document)
        return DocumentChange(found.key_id, found.document_id, (), [one.indexed.entry_id for one in found.entries])


def word(number: int) -> str:
    return f"revisionmark{number:04}"


def search_of(system: System, questions: Sequence[Question]) -> Search:
    """Searches the index alone: both legs, as for an answer that is already embedded. The question is another each time."""
    visible = system.corpus.projects.reader(Identity(**READERS["no filter"])).visible
    where = SearchFilter(scopes=visible)
    index, embedder = system.indexing.index, system.indexing.embedder
    left = iter([(one.text, embedder.embed_query(one.text)) for one in questions])

    def search(marked: str) -> tuple[float, bool]:
        text, vector = next(left)
        started = time.perf_counter()
        found = index.search(SearchRequest(where, f"{marked} {text}", vector, DEPTH))
        taken = 1000 * (time.perf_counter() - started)
        alone = index.search(SearchRequest(where, marked, None, 1))
        return taken, bool(found.term_frequencies.get(marked) and alone.lexical.hits)

    return search


def _questions(chunks: int, seed: int, count: int) -> list[Question]:
    return Questions(chunks, seed=seed).portions(1, count)[0]


def _elsewhere(home: Path, chunks: int, count: int, connection: Connection) -> None:
    """Another process with the same home: searches for each word that it is sent."""
    with bootstrap(Settings(home=str(home))) as system:
        search = search_of(system, _questions(chunks, 12, count))
        connection.send(None)
        while (marked := connection.recv()) is not None:
            connection.send(search(marked))


def measure(home: Path, chunks: int, changes: int, corpus: Corpus, seed: int = 0) -> dict[str, float]:
    spawn = multiprocessing.get_context("spawn")
    connection, other = spawn.Pipe()
    searches = changes * (1 + STEADY) + STEADY + 3
    process = spawn.Process(target=_elsewhere, args=(home, chunks, searches, other), daemon=True)
    process.start()

    def elsewhere(marked: str) -> tuple[float, bool]:
        connection.send(marked)
        found: tuple[float, bool] = connection.recv()
        return found

    with bootstrap(Settings(home=str(home))) as system:
        here = search_of(system, _questions(chunks, 11, searches))
        connection.recv()
        figures = _changes(system, Marked(corpus.document(_OUTSIDE)), changes, here, elsewhere)
    connection.send(None)
    process.join()
    return {**figures, **_whole(home, changes, corpus.document(_OUTSIDE + 1 + seed))}


def _changes(system: System, document: Marked, changes: int, here: Search, elsewhere: Search) -> dict[str, float]:
    taken: dict[str, list[float]] = {name: [] for name in ("apply", "apply_cpu", "next", "next_elsewhere", "steady")}
    index = system.indexing.index
    for search in (here, elsewhere):  # opened and warm
        for _ in range(STEADY):
            search(word(0))
    missed = 0
    for number in range(1, changes + 1):
        change = document.change(number)
        cpu, started = time.process_time(), time.perf_counter()
        index.apply([change])
        taken["apply"].append(1000 * (time.perf_counter() - started))
        taken["apply_cpu"].append(1000 * (time.process_time() - cpu))
        for name, search in (("next", here), ("next_elsewhere", elsewhere)):
            milliseconds, found = search(word(number))
            taken[name].append(milliseconds)
            missed += not found
        taken["steady"].append(statistics.median(here(word(number))[0] for _ in range(STEADY)))
    index.apply([document.removal()])
    for search in (here, elsewhere):
        missed += search(word(changes))[1]
    return {**{f"{name}_ms": statistics.median(times) for name, times in taken.items()}, "missed": float(missed)}


def _whole(home: Path, changes: int, document: SyntheticDocument) -> dict[str, float]:
    """The same through all of ingestion, its embedding included, and a whole answer."""
    put, answered, missed = [], [], 0
    with Knowledge.open(home, **READERS["no filter"]) as knowledge:
        identity = ""
        for number in range(changes):
            text = document.to_markdown(number) + f"\n{word(number)}\n"
            started = time.perf_counter()
            identity = knowledge.ingest_document("internal", "runbooks/procedures", text, {"source": "updated.md"})
            put.append(1000 * (time.perf_counter() - started))
            started = time.perf_counter()
            answer = knowledge.answer(f"{document.title} {word(number)}")
            answered.append(1000 * (time.perf_counter() - started))
            missed += all(one.metadata.get("documentId") != identity for one in (*answer.results, *answer.unconfirmed))
        knowledge.delete(identity)
    medians = {"ingested_ms": statistics.median(put), "answered_ms": statistics.median(answered)}
    return {**medians, "missed_answers": float(missed)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("home", type=Path)
    parser.add_argument("--cache", type=Path, required=True, help="folder with the passages of the corpus")
    parser.add_argument("--chunks", type=int, required=True)
    parser.add_argument("--changes", type=int, default=7)
    parser.add_argument("--set", type=Path, help="a BEIR folder, for its passages")
    parser.add_argument("--seed", type=int, default=0, help="another one for another document")
    args = parser.parse_args()
    print(
        json.dumps(measure(args.home, args.chunks, args.changes, Corpus(passages_of(args.cache, args.set)), args.seed))
    )


if __name__ == "__main__":
    main()
