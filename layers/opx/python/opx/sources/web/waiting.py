"""How long to wait: between requests as a source allows them, and until it takes the next one."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime

from opx.domain.sources import RateLimit
from opx.ports.time import Clock

Sleep = Callable[[float], None]


class RateWindow:
    """Lets requests pass as often as a limit allows: so many in any stretch of so many seconds."""

    def __init__(self, limit: RateLimit | None, *, clock: Clock, sleep: Sleep) -> None:
        self._limit = limit
        self._clock = clock
        self._sleep = sleep
        self._passed: deque[float] = deque(maxlen=limit.calls if limit else 1)

    def wait(self) -> None:
        """Return when the next request may go."""
        if self._limit and len(self._passed) == self._limit.calls:
            left = self._passed[0] + self._limit.seconds - self._clock()
            if left > 0:
                self._sleep(min(left, self._limit.seconds))  # a clock that was set back must not stop everything
        self._passed.append(self._clock())


def retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """For how many seconds a reply asks not to be asked again: `Retry-After` (seconds or a date), or
    `X-RateLimit-Reset` once none remain, as GitHub has it ("Rate limits for the REST API"). None if it doesn't say."""
    text = headers.get("retry-after", "").strip()
    if text.isascii() and text.isdigit():
        return float(text[:9])
    if text:
        return _until(text, now)
    reset = headers.get("x-ratelimit-reset", "")
    if headers.get("x-ratelimit-remaining") == "0" and reset.isascii() and reset.isdigit():
        return max(0.0, float(reset[:12]) - now)
    return None


def _until(date: str, now: float) -> float | None:
    try:
        moment = parsedate_to_datetime(date)
    except ValueError:
        return None
    return max(0.0, (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() - now)
