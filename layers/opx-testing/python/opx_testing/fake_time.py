"""Time that passes only by calls of `sleep`."""

from __future__ import annotations

import threading


class FakeTime:
    """A fake `clock` and `sleep`; `slept` lists the pauses. Safe to share between threads."""

    def __init__(self, now: float = 1_700_000_000.0) -> None:
        self.started = self.now = now
        self.slept: list[float] = []
        self._lock = threading.Lock()

    @property
    def elapsed(self) -> float:
        return self.now - self.started

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        with self._lock:
            self.slept.append(seconds)
            self.now += seconds
