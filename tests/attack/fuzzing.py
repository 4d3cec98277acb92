"""Runs a function on many inputs: finds errors that nobody foresaw, and inputs that take too long."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any

from tests.support.attacks import HANG_SECONDS, Attack

MOST_EXAMPLES = 10


class HangError(BaseException):
    """An input took too long. Not an `Exception`: the code under test must not catch it."""


@contextmanager
def watchdog(seconds: float = HANG_SECONDS) -> Iterator[None]:
    """Raises `HangError` in the block after so many seconds."""

    def bark(_number: int, _frame: FrameType | None) -> None:
        raise HangError

    before = signal.signal(signal.SIGALRM, bark)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@dataclass(frozen=True)
class Target:
    """A function that takes inputs of any caller, and the inputs that it is tried with: made of a number and a generator of
    random numbers, so that each can be made again. `attack` returns a complaint about the result, or "".

    `share` is the part of all inputs that this target gets.
    """

    name: str
    make: Callable[[random.Random], Any]
    attack: Callable[[Any], str]
    share: float


def fuzz(target: Target, count: int, found: Attack, *, first: int = 0) -> None:
    """Tries so many inputs. The seed of one that ended badly is its number."""
    for number in range(first, first + count):
        given = target.make(random.Random(f"{target.name} {number}"))
        began = time.perf_counter()
        complaint = ""
        try:
            with watchdog():
                complaint = target.attack(given)
        except HangError:
            found.hangs += 1
            complaint = f"took more than {HANG_SECONDS:.0f} s"
        except Exception as exc:  # noqa: BLE001 - any error is one that nobody foresaw
            found.crashes += 1
            complaint = f"{type(exc).__name__}: {exc}"
        else:
            found.leaks += bool(complaint)
        found.tried += 1
        if complaint and len(found.examples) < MOST_EXAMPLES:
            shown = f"{given!r:.300}"
            found.examples.append(
                f"{target.name} {number} ({time.perf_counter() - began:.1f} s): {complaint[:300]}: {shown}"
            )
