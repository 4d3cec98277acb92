"""Time."""

from __future__ import annotations

from typing import Protocol


class Clock(Protocol):
    """Now, in seconds since the epoch."""

    def __call__(self) -> float: ...
