"""A few threads for a while, whose work is not waited for longer than agreed."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from queue import SimpleQueue
from typing import Generic, TypeVar

from opx.errors import OpxError

log = logging.getLogger(__name__)

R = TypeVar("R")
Clock = Callable[[], float]
"""Seconds that only ever grow."""


class Job(Generic[R]):
    """A task, what became of it within `seconds`, and how long that took."""

    def __init__(self, task: Callable[[], R], seconds: float, clock: Clock) -> None:
        self._task = task
        self._seconds = seconds
        self._clock = clock
        self._started: float | None = None
        self._ended: float | None = None
        self.future: Future[R] = Future()

    def do(self) -> None:
        """In a thread of the workers; not at all if it was cancelled before."""
        if not self.future.set_running_or_notify_cancel():
            return
        self._started = self._clock()
        try:
            result = self._task()
        except BaseException as exc:  # noqa: BLE001 - told by `failure` and `problem` where the work was asked for
            self._ended = self._clock()
            self.future.set_exception(exc)
        else:
            self._ended = self._clock()
            self.future.set_result(result)

    @property
    def in_time(self) -> bool:
        """Whether it has come to an end, be it a failure."""
        return self.future.done() and not self.future.cancelled()

    @property
    def failure(self) -> BaseException | None:
        """What the task raised."""
        return self.future.exception() if self.in_time else None

    @property
    def milliseconds(self) -> float:
        """How long it took, or has been taking; 0 for what never began."""
        if self._started is None:
            return 0.0
        return 1000 * ((self._clock() if self._ended is None else self._ended) - self._started)

    def problem(self) -> str:
        """Why there is no result, "" if there is one. What nobody foresaw is logged."""
        failure = self.failure
        if not self.in_time:
            return f"not finished within {self._seconds:.3g} s"
        if failure is None or isinstance(failure, OpxError):
            return str(failure) if failure else ""
        log.error("a part of a research failed", exc_info=failure)
        return f"{type(failure).__name__}: the error was logged"


class Workers(Generic[R]):
    """Does tasks in up to `most` threads. A context manager: leaving it ends those that are idle.

    Not a `ThreadPoolExecutor`, for whose threads the process waits at its end: one that hangs in a search is left to end
    by itself, and takes no other task meanwhile.
    """

    def __init__(self, most: int, clock: Clock = time.monotonic) -> None:
        self._most = most
        self._clock = clock
        self._jobs: SimpleQueue[Job[R] | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []

    def run(self, tasks: Sequence[Callable[[], R]], seconds: float) -> list[Job[R]]:
        """The jobs for the tasks, in order, as soon as all are done. After `seconds` those that go on are left alone, and
        those that have not begun never do."""
        jobs = [Job(task, seconds, self._clock) for task in tasks]
        for job in jobs:
            self._jobs.put(job)
        while len(self._threads) < min(self._most, len(jobs)):
            self._threads.append(threading.Thread(target=self._work, name="research", daemon=True))
            self._threads[-1].start()
        for future in wait([job.future for job in jobs], timeout=max(0.0, seconds)).not_done:
            future.cancel()
        return jobs

    def __enter__(self) -> Workers[R]:
        return self

    def __exit__(self, *_: object) -> None:
        for _thread in self._threads:
            self._jobs.put(None)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            job.do()
