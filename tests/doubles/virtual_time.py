"""Simulated time for many threads: one runs at a time, and time passes only while all of them sleep."""

from __future__ import annotations

import heapq
import threading
from collections.abc import Callable
from itertools import count


class VirtualTime:
    """A `clock` and a `sleep` for threads that were started by `spawn`; `run` returns when all have ended.

    Deterministic: of threads that wake at the same time, the one that fell asleep first runs first.
    """

    def __init__(self, now: float = 1_700_000_000.0) -> None:
        self.started = self.now = now
        self._sleepers: list[tuple[float, int, threading.Semaphore]] = []
        self._numbers = count()
        self._control = threading.Semaphore(0)
        self._mine = threading.local()
        self._errors: list[BaseException] = []

    @property
    def elapsed(self) -> float:
        return self.now - self.started

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        turn = getattr(self._mine, "turn", None) or threading.Semaphore(0)
        self._mine.turn = turn  # of a thread that works for one of these, which waits for it
        self._enqueue(seconds, turn)
        self._control.release()
        turn.acquire()

    def spawn(self, work: Callable[[], None]) -> None:
        turn = threading.Semaphore(0)

        def run() -> None:
            self._mine.turn = turn
            turn.acquire()
            try:
                work()
            except BaseException as exc:  # noqa: BLE001 - raised again by `run`
                self._errors.append(exc)
            finally:
                self._control.release()

        threading.Thread(target=run, daemon=True).start()
        self._enqueue(0.0, turn)

    def run(self) -> None:
        """Runs all threads to their end. Raises the error of the first one that fails."""
        while self._sleepers and not self._errors:
            self.now, _, turn = heapq.heappop(self._sleepers)
            turn.release()
            self._control.acquire()
        if self._errors:
            raise self._errors[0]

    def _enqueue(self, seconds: float, turn: threading.Semaphore) -> None:
        heapq.heappush(self._sleepers, (self.now + max(0.0, seconds), next(self._numbers), turn))
