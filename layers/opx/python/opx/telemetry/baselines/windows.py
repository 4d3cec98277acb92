"""How far back a baseline looks."""

from __future__ import annotations

import re
from dataclasses import dataclass

from opx.domain.times import iso_time
from opx.errors import InvalidInputError

HOUR, DAY = 3600, 86_400
KEPT_DAYS = 90
"""As `operations/baselines` has it in knowledge.yaml."""

_FORM = re.compile(r"([1-9][0-9]{0,3})([hdw])\Z")
_SECONDS = {"h": HOUR, "d": DAY, "w": 7 * DAY}


@dataclass(frozen=True, slots=True)
class Window:
    """Whole hours from `first` to `last` (both included), which are the seconds at which they begin."""

    text: str
    first: int
    last: int

    @classmethod
    def ending(cls, now: float, text: str) -> Window:
        """The window `text` (`24h`, `7d`, `4w`) up to now: the hours that it touches. Raises `InvalidInputError`."""
        seconds = window_seconds(text)
        return cls(text, int((now - seconds) // HOUR) * HOUR, int(now // HOUR) * HOUR)

    @property
    def first_day(self) -> str:
        return day_of(self.first)

    @property
    def last_day(self) -> str:
        return day_of(self.last)

    def has(self, hour_start: int) -> bool:
        return self.first <= hour_start <= self.last


def window_seconds(text: str) -> int:
    """Seconds of a window. Raises `InvalidInputError` for what is none, and for more than is kept."""
    found = _FORM.match(text) if isinstance(text, str) else None
    seconds = int(found[1]) * _SECONDS[found[2]] if found else 0
    if not HOUR <= seconds <= KEPT_DAYS * DAY:
        raise InvalidInputError(f"time window {str(text)[:50]!r} must be 1h to {KEPT_DAYS}d, such as 24h, 7d or 4w")
    return seconds


def day_of(moment: float) -> str:
    """`2025-03-14`, in UTC."""
    return iso_time(moment)[:10]
