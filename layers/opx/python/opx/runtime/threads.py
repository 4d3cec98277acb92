"""Runs blocking network calls in threads: with a deadline, in parallel, or serialized."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotInTime
from queue import SimpleQueue
from typing import Any, TypeVar

from opx.errors import ModelError, OpxError
from opx.runtime.deadlines import carried
from opx.runtime.metrics import Metric, Report

T = TypeVar("T")
R = TypeVar("R")


# -- deadlines


class _Runner:
    """A thread that waits for work. Threads are kept: starting one takes a millisecond or two on a busy machine."""

    def __init__(self) -> None:
        self._given: SimpleQueue[tuple[Callable[[], Any], Future[Any]]] = SimpleQueue()
        threading.Thread(target=self._run, name="within", daemon=True).start()

    def start(self, work: Callable[[], T]) -> Future[T]:
        answer: Future[T] = Future()
        self._given.put((work, answer))
        return answer

    def _run(self) -> None:
        while True:
            self._run_once()

    def _run_once(self) -> None:
        """Its references end with it, not with the next work."""
        work, answer = self._given.get()
        try:
            result = work()
        except BaseException as exc:  # noqa: BLE001 - raised again in the thread that waits
            _waiting.append(self)
            answer.set_exception(exc)
        else:
            _waiting.append(self)
            answer.set_result(result)


_waiting: list[_Runner] = []
"""Threads without work, the last one first. As many as there ever was work at the same time."""


if hasattr(os, "register_at_fork"):  # a forked process has none of the threads
    os.register_at_fork(after_in_child=_waiting.clear)


def _runner() -> _Runner:
    try:
        return _waiting.pop()
    except IndexError:
        return _Runner()


def within(seconds: float, work: Callable[[], T], name: str, late: type[OpxError] = ModelError) -> T:
    """Returns the work's result or raises its error; raises `late` after `seconds`, while the work continues in its thread.

    Timeouts of connections are not enough: DNS look-ups have none, and a read timeout restarts with every byte.
    """
    answer: Future[T] = _runner().start(carried(work))
    try:
        return answer.result(timeout=max(0.0, seconds))
    except NotInTime as exc:
        if answer.done():  # just now, or the error is the work's own
            return answer.result()
        raise late(f"{name} did not answer within {seconds:.3g} s") from exc


# -- parallel


def cores() -> int:
    """Number of cores that this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


class Each:
    """Applies a function to each item on up to `threads` threads; results are in the items' order."""

    def __init__(self, threads: int = 1) -> None:
        self._threads = threads

    def __call__(self, work: Callable[[T], R], items: Sequence[T]) -> list[R]:
        return list(self.in_order(work, items))

    def in_order(self, work: Callable[[T], R], items: Sequence[T]) -> Iterator[R]:
        """The results, each as soon as it and those before it are there."""
        threads = min(self._threads, len(items))
        if threads < 2:
            yield from map(work, items)
            return
        with ThreadPoolExecutor(threads) as pool:
            for call in [pool.submit(carried(work), item) for item in items]:
                yield call.result()


# -- serialized


def serialized(report: Report) -> Report:
    """A thread-safe report that passes on one measurement at a time."""
    lock = threading.Lock()

    def locked(metric: Metric, value: float = 1.0, /, **labels: str) -> None:
        with lock:
            report(metric, value, **labels)

    return locked
