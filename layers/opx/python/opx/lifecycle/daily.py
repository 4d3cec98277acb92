"""Work once a day within the background loop of a single-process installation."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from opx.errors import OpxError
from opx.ports import Clock

_DAY_SECONDS = 86_400


class DailyFeed:
    """A `Feed` without documents: runs `task` at the first poll of a day (UTC), which returns lines for the operator. Its
    errors are lines, too, that begin with `name`."""

    def __init__(self, name: str, task: Callable[[], Iterable[str]], clock: Clock) -> None:
        self._name = name
        self._task = task
        self._clock = clock
        self._next = 0.0

    def poll(self) -> tuple[str, ...]:
        """Runs the task if it is due."""
        now = self._clock()
        if now < self._next:
            return ()
        self._next = (now // _DAY_SECONDS + 1) * _DAY_SECONDS
        try:
            return tuple(self._task())
        except OpxError as exc:
            return (f"{self._name}: {exc}",)
