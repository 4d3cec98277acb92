"""How long to wait before asking a busy service again."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

_jitter = random.SystemRandom()


@dataclass(frozen=True, slots=True)
class Backoff:
    """Exponential waiting with jitter: `attempts` tries, pauses of `base`, 2 x `base`, ... up to `longest` seconds.

    Each pause is shortened by up to a half at random, so that many callers that failed together don't return together.
    """

    attempts: int = 6
    base: float = 0.5
    longest: float = 8.0
    random: Callable[[], float] = _jitter.random

    def pauses(self) -> Iterator[float]:
        """Seconds to wait after each failed try but the last."""
        for retry in range(self.attempts - 1):
            yield min(self.longest, self.base * 2**retry) * (1 - self.random() / 2)
