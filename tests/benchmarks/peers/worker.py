"""Runs one engine in a process of its own, and measures it there."""

from __future__ import annotations

import multiprocessing
import statistics
import time
from collections.abc import Iterator, Sequence
from itertools import islice
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import psutil

from opx.ports import DocumentChange
from tests.benchmarks.corpora import Corpus, Question, Questions
from tests.benchmarks.homes import change_of, megabytes, passages_of
from tests.benchmarks.peers.engines import PEERS, RESULTS, Embedding, Engine, Opx, Piece, Reader, fresh_folder

_OUTSIDE = 7_000_000
"""Number of the first document that no corpus has."""


class Worker:
    """The process of an engine; `call` has it carry out one of the methods of `Work`."""

    def __init__(self, name: str, cache: Path, home: Path) -> None:
        spawn = multiprocessing.get_context("spawn")
        self._connection, other = spawn.Pipe()
        self._process = spawn.Process(target=_serve, args=(name, cache, home, other))
        self._process.start()
        other.close()

    def call(self, method: str, *arguments: Any) -> Any:
        """Raises `RuntimeError` with the error of the process."""
        self._connection.send((method, arguments))
        result, error = self._connection.recv()
        if error:
            raise RuntimeError(error)
        return result

    def close(self) -> None:
        self._connection.close()
        self._process.join()


def _serve(name: str, cache: Path, home: Path, connection: Connection) -> None:
    work = Work(name, cache, home)
    while True:
        try:
            method, arguments = connection.recv()
        except EOFError:
            return
        try:
            connection.send((getattr(work, method)(*arguments), ""))
        except Exception as exc:  # noqa: BLE001 - raised again by the caller
            connection.send((None, f"{name}, {method}: {exc!r}"))


class Work:
    """The calls that a process carries out with its engine."""

    def __init__(self, name: str, cache: Path, home: Path) -> None:
        self._name, self._cache, self._home = name, cache, home
        self._owners: dict[str, str] = {}

    def open(self) -> str:
        """Opens the engine, with an empty folder; returns the reason if it can't be used."""
        try:
            self._engine = self._opened()
        except ImportError as exc:
            return f"it isn't installed ({exc})"
        return ""

    def _opened(self) -> Engine | Opx:
        if self._name == "opx":
            return Opx(self._home)
        self._folder = fresh_folder(self._cache, self._name)
        self._embed = Embedding(self._cache / "model-home")
        return PEERS[self._name](self._folder, self._embed)

    def build(self, chunks: int) -> dict[str, float]:
        """Fills it with the corpus of so many chunks."""
        return self.fill(self._pieces(chunks))

    def know(self, chunks: int) -> None:
        """Reads the owners of a corpus that its home has already."""
        self._owners = {one.id: one.owner for one in self._pieces(chunks)}

    def _pieces(self, chunks: int) -> list[Piece]:
        documents = Corpus(passages_of(self._cache)).documents(chunks)
        return [piece for one in documents for piece in pieces_of(change_of(one))]

    def fill(self, pieces: Sequence[Piece]) -> dict[str, float]:
        self._owners = {one.id: one.owner for one in pieces}
        assert not isinstance(self._engine, Opx)  # its home is filled already
        wall, cpu = time.perf_counter(), time.process_time()
        self._engine.build(pieces)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        return {"build_s": wall, "build_cpu_s": cpu, "disk_mb": megabytes(self._folder)}

    def ask(self, questions: Sequence[Question], reader: Reader) -> tuple[list[tuple[float, float]], int]:
        """Milliseconds of wall-clock and processor time for each, and the number of results that the reader may not see."""
        times, wrong = [], 0
        for question in questions:
            wall, cpu = time.perf_counter(), time.process_time()
            found = self._engine.search(question.text, reader, RESULTS)
            times.append((1000 * (time.perf_counter() - wall), 1000 * (time.process_time() - cpu)))
            wrong += sum(self._owners[one] not in reader for one in found) if reader else 0
        return times, wrong

    def rank(self, questions: Sequence[str], count: int) -> list[list[str]]:
        return [self._engine.search(question, None, count) for question in questions]

    def change(self, count: int) -> dict[str, float]:
        """One more document, so many times, and the next search, which has to find it."""
        corpus = Corpus(passages_of(self._cache))
        questions = islice(Questions(1_000, seed=41).all(), count)
        changes, nexts, missed = [], [], 0
        for number, question in enumerate(questions):
            change = change_of(corpus.document(_OUTSIDE + number))
            pieces = list(pieces_of(change))
            started = time.perf_counter()
            self._change(change, pieces)
            changes.append(1000 * (time.perf_counter() - started))
            question_text = f"{pieces[0].title} {question.text} {number}"
            started = time.perf_counter()
            found = self._find(question_text, pieces[0])
            nexts.append(1000 * (time.perf_counter() - started))
            missed += pieces[0].id not in found
        return {"change_ms": statistics.median(changes), "next_ms": statistics.median(nexts), "missed": float(missed)}

    def _change(self, change: DocumentChange, pieces: Sequence[Piece]) -> None:
        if isinstance(self._engine, Opx):
            self._engine.apply(change)
        else:
            self._engine.change(pieces)

    def _find(self, question_text: str, piece: Piece) -> Sequence[str]:
        """Searches with the vector of a chunk, so that engines without words find it, too; nothing is embedded."""
        if isinstance(self._engine, Opx):
            return self._engine.find(question_text, piece)
        self._embed.known = {question_text: piece.mean}
        return self._engine.search(question_text, None, 100)

    def measure(self) -> dict[str, float]:
        return {"rss_mb": psutil.Process().memory_info().rss / 1e6}


def pieces_of(change: DocumentChange) -> Iterator[Piece]:
    """The chunks of a change, for engines of others."""
    for entry in change.entries:
        one = entry.indexed
        owner = one.scope_key.rpartition(":")[2] if one.scope_key != "global" else "everybody"
        yield Piece.of(one.chunk.chunk_id, one.chunk.title, one.chunk.text, owner, entry.vectors)
