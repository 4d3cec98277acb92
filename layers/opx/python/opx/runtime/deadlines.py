"""Deadlines of calls: an edge sets how long its caller waits, and waits for services ask how much of that is left."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from functools import partial
from typing import TypeVar

R = TypeVar("R")
TimeLeft = Callable[[], float]
"""Seconds until the end of a call; negative when it is over."""

_LEFT: ContextVar[TimeLeft | None] = ContextVar("opx.time_left", default=None)


def remaining() -> float | None:
    """Seconds left for the current call, at least 0; None where no deadline was set."""
    left = _LEFT.get()
    return None if left is None else max(0.0, left())


@contextmanager
def limited(left: TimeLeft) -> Iterator[None]:
    """Limits the block to the time that `left` returns, and to that of the deadlines around it."""
    outer = _LEFT.get()
    token = _LEFT.set(left if outer is None else lambda: min(left(), outer()))
    try:
        yield
    finally:
        _LEFT.reset(token)


@contextmanager
def deadline(seconds: float, clock: Callable[[], float] = time.monotonic) -> Iterator[None]:
    """Limits the block to `seconds` from now, and to the deadlines around it."""
    end = clock() + seconds
    with limited(lambda: end - clock()):
        yield


@contextmanager
def unlimited() -> Iterator[None]:
    """Leaves the block without a deadline: for work that its caller doesn't wait for, or waits for however long it takes."""
    token = _LEFT.set(None)
    try:
        yield
    finally:
        _LEFT.reset(token)


def carried(work: Callable[..., R]) -> Callable[..., R]:
    """`work` with the deadline of this thread, to be run in another one. Each run needs a result of its own."""
    return partial(copy_context().run, work)
