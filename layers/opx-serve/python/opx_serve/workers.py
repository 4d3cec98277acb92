"""Answers questions in several processes: in one, Python's lock lets only one question be computed at a time.

Processes are started when questions first come at the same time, up to a limit; a question alone is answered by the server
itself until then. They open the same home, and compute nothing but questions: everything else stays in the server.
"""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import signal
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import Any, TypeVar

from opx.domain.queries import DEFAULT_BUDGET
from opx.domain.record import replace
from opx.operations import load
from opx.operations.system import StartSystem, System
from opx.ports import SearchFilter
from opx.runtime.machine import collect_seldom, keep_what_is_there
from opx.runtime.metrics import Metric, Report, unreported
from opx.runtime.threads import cores
from opx.settings import Settings

log = logging.getLogger(__name__)

R = TypeVar("R")
Work = Callable[[System, Report], R]
"""Computes something with a system. It can be pickled, as its result, and never raises."""

QUESTIONS = frozenset({"search", "query", "find_procedure", "search_runbooks", "search_postmortems", "search_docs"})
"""Operations whose time is spent computing. Research waits for models instead, and the others are short."""

MOST = 8
"""Processes by default, at most; fewer on a machine with fewer cores."""

PATIENCE = 2.0
"""Seconds to wait for a process. When all of them wait for a model or for the web, the server answers by itself."""

WORK_SECONDS = 65.0
"""Time for one question, above the deadline of requests. A process that exceeds it hangs, and is ended."""

_END_SECONDS = 5.0


def usual_workers() -> int:
    """One process for each core, at most `MOST`."""
    return min(cores(), MOST)


@dataclass(frozen=True, slots=True)
class _Done:
    result: Any
    reported: list[tuple[Metric, float, dict[str, str]]]


class _LostError(Exception):
    """A process ended, or hangs."""


class _Worker:
    """A process that computes one thing at a time."""

    def __init__(self, start: StartSystem, settings: Settings) -> None:
        spawn = multiprocessing.get_context("spawn")
        self._connection, other = spawn.Pipe()
        self._process: SpawnProcess = spawn.Process(
            target=_work, args=(other, start, settings), name="opx-answers", daemon=True
        )
        self._process.start()
        other.close()

    def wait_until_ready(self) -> None:
        """Raises `_LostError` if the system can't be opened there."""
        self._received(WORK_SECONDS)

    def run(self, work: Work[R]) -> _Done:
        """Raises `_LostError`."""
        try:
            self._connection.send(work)
        except OSError as exc:
            raise _LostError from exc
        done: _Done = self._received(WORK_SECONDS)
        return done

    def _received(self, seconds: float) -> Any:
        try:
            if self._connection.poll(seconds):
                return self._connection.recv()
        except (EOFError, OSError) as exc:
            raise _LostError from exc
        raise _LostError

    def close(self) -> None:
        """Ends the process: at once if it has nothing to do."""
        self._connection.close()
        self._process.join(_END_SECONDS)
        if self._process.is_alive():
            self._process.kill()
            self._process.join(_END_SECONDS)


class AnswerProcesses:
    """Up to `most` processes; with 1, everything is computed in this one. `start` makes the system of each from `settings`,
    and can be pickled. Safe to share between threads."""

    def __init__(self, system: System, start: StartSystem | None = None, most: int = 1) -> None:
        self._system = system
        self._start = start
        self._most = most if start is not None and most > 1 else 0
        self._lock = threading.Lock()
        self._idle: list[_Worker] = []
        self._running: set[_Worker] = set()
        self._waiting: deque[Future[_Worker | None]] = deque()
        self._starting = 0
        self._here = 0
        self._closed = False

    @property
    def ready(self) -> int:
        """Number of processes that answer, beside this one."""
        with self._lock:
            return len(self._running)

    def run(self, work: Work[R], report: Report) -> R:
        """The result of `work`, computed in a process or here; its metrics are reported here."""
        worker = self._taken()
        if worker is None:
            return self._run_here(work, report)
        try:
            done = worker.run(work)
        except _LostError:
            log.exception("a process that answers questions was lost: the question is answered by the server")
            self._forget(worker)
            return self._run_here(work, report)
        with self._lock:
            self._hand_over(worker)
        for metric, value, labels in done.reported:
            report(metric, value, **labels)
        result: R = done.result
        return result

    def _run_here(self, work: Work[R], report: Report) -> R:
        with self._lock:
            self._here += 1
        try:
            return work(self._system, report)
        finally:
            with self._lock:
                self._here -= 1

    def _taken(self) -> _Worker | None:
        """An idle process, the one that answered last; None if there is none, or none becomes idle soon. Who waits longest
        gets the next one."""
        with self._lock:
            if self._idle:
                return self._idle.pop()
            if self._here or self._running:
                self._another()
            if not self._running:
                return None
            turn: Future[_Worker | None] = Future()
            self._waiting.append(turn)
        with contextlib.suppress(TimeoutError):
            return turn.result(PATIENCE)
        with self._lock:
            if turn.done():  # just now
                return turn.result()
            self._waiting.remove(turn)
            return None

    def _hand_over(self, worker: _Worker) -> None:
        if self._waiting:
            self._waiting.popleft().set_result(worker)
        else:
            self._idle.append(worker)

    def _release_all(self) -> None:
        """Has those who wait answer by themselves, as no process is left."""
        while self._waiting:
            self._waiting.popleft().set_result(None)

    def start_another(self) -> None:
        """Starts one more process in the background, if there may be one."""
        with self._lock:
            self._another()

    def _another(self) -> None:
        if self._closed or self._start is None or len(self._running) + self._starting >= self._most:
            return
        self._starting += 1
        threading.Thread(target=self._add, args=(self._start,), name="start of answers", daemon=True).start()

    def _add(self, start: StartSystem) -> None:
        worker = self._started(start)
        with self._lock:
            self._starting -= 1
            is_late = self._closed
            if worker is not None and not is_late:
                self._running.add(worker)
                self._hand_over(worker)
        if worker is not None and is_late:
            worker.close()

    def _started(self, start: StartSystem) -> _Worker | None:
        """A process that is ready; None, a little later, if it doesn't start."""
        try:
            with contextlib.ExitStack() as stack:
                worker = _Worker(start, replace(self._system.settings, embedding_threads=1))
                stack.callback(worker.close)
                worker.wait_until_ready()
                stack.pop_all()
                return worker
        except Exception:  # the thread's edge
            log.exception("a process that answers questions did not start: the server answers by itself")
            time.sleep(PATIENCE)  # the next attempt is likely to fail, too
            return None

    def _forget(self, worker: _Worker) -> None:
        with self._lock:
            self._running.discard(worker)
            if not self._running:
                self._release_all()
        worker.close()

    def close(self) -> None:
        """Ends the processes. Everything is computed here from now on."""
        with self._lock:
            self._closed = True
            ended, self._idle, self._running = list(self._running), [], set()
            self._release_all()
        for worker in ended:
            worker.close()


# -- before the first question

_WARM_UP = "How do we fix HighErrorRate on web-01: connection refused, 503 errors, which zqxjk caused?"
"""A question of every kind of words: in prose, with names, values, and a word that no corpus has."""


def warm_up(system: System) -> None:
    """Answers a question without any record of it, so that the first one of a client finds model, index, tables and code
    loaded. A failure is logged: the answers to clients will state it."""
    try:
        search = system.questions.for_reader(recorded=False, words=True)
        answer = search.search(_WARM_UP)
        found = (*answer.results, *answer.unconfirmed)
        system.questions.handover(search.reader).documents(_WARM_UP, found, DEFAULT_BUDGET)
        system.records.observers(search.reader, None, unreported)
    except Exception:  # the edge of a thread or process, which is to answer all the same
        log.exception("what answers need could not be loaded: the first answer will be slow, or fail")


# -- in a process


def _work(connection: Connection, start: StartSystem, settings: Settings) -> None:
    """Computes what arrives, until the server ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to all processes of a terminal; the server ends this one
    collect_seldom()
    logging.basicConfig(level=logging.ERROR, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    with start(settings) as system, contextlib.suppress(EOFError, BrokenPipeError, ConnectionResetError):
        load()
        warm_up(system)
        system.indexing.index.count(SearchFilter(scopes=("global",)))
        keep_what_is_there()
        record_gaps = system.records.deferred()
        reported: list[tuple[Metric, float, dict[str, str]]] = []

        def report(metric: Metric, value: float = 1.0, /, **labels: str) -> None:
            reported.append((metric, value, labels))

        connection.send(None)
        while True:
            work: Work[Any] = connection.recv()
            connection.send(_Done(work(system, report), reported))
            reported.clear()
            record_gaps()  # what it reports is sent with the next result
