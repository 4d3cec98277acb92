"""Not asking more often than a quota allows."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


class RateLimit:
    """A token bucket: `per_minute` requests a minute, of which a second's worth may come at once.

    Waiting callers are served in the order in which they came. Safe to share between threads.
    """

    def __init__(
        self,
        per_minute: float,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._per_second = per_minute / 60
        self._burst = max(1.0, self._per_second)
        self._clock = clock
        self._sleep = sleep
        self._lock = threading.Lock()
        self._tokens = self._burst
        self._counted_at = clock()

    def wait(self) -> None:
        """Return when one more request may be sent."""
        with self._lock:
            now = self._clock()
            self._tokens = min(self._burst, self._tokens + (now - self._counted_at) * self._per_second)
            self._counted_at = now
            self._tokens -= 1  # below zero: reserved by those who wait
            pause = max(0.0, -self._tokens / self._per_second)
        if pause:
            self._sleep(pause)
