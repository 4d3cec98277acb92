"""Sizes of attacks and their results: `make attack` asks for many cases and prints one table of all results, `make test`
tries a few of each kind."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from hypothesis import HealthCheck, settings

CASES, KILLS, REPORT = "OPX_ATTACK_CASES", "OPX_ATTACK_KILLS", "OPX_ATTACK_REPORT"
"""Environment variables: the number of cases of an attack, the number of kills, and the file of the results."""

HANG_SECONDS = 5.0


def cases(few: int) -> int:
    """The number of cases: `few`, or as many as the environment asks for."""
    return int(os.environ.get(CASES) or few)


def kills(few: int) -> int:
    """The number of kills of all commands together: `few`, or as many as the environment asks for."""
    return int(os.environ.get(KILLS) or few)


def examples(usual: int, *, share: float = 1.0) -> settings:
    """Settings of Hypothesis for this many examples, or for a share of what the environment asks for where that is more."""
    slow = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
    wanted = max(usual, int(cases(0) * share))
    return settings(max_examples=wanted, deadline=None, database=None, suppress_health_check=slow)


@dataclass
class Attack:
    """Results of one kind of attack: the number of cases, and those that ended badly."""

    kind: str
    tried: int = 0
    leaks: int = 0
    crashes: int = 0
    hangs: int = 0
    losses: int = 0
    seconds: float = 0.0
    examples: list[str] = field(default_factory=list)
    """Some of those that ended badly."""

    @property
    def held(self) -> bool:
        return not (self.leaks or self.crashes or self.hangs or self.losses)

    @contextmanager
    def case(self, name: str) -> Iterator[None]:
        """Counts a case, as a loss if the block fails."""
        self.tried += 1
        try:
            yield
        except BaseException:
            self.losses += 1
            self.examples.append(name)
            raise

    def add(self, other: Attack) -> None:
        for name in ("tried", "leaks", "crashes", "hangs", "losses", "seconds"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.examples += other.examples


class AttackReport:
    """Collects results, and appends them to the file that the environment names."""

    @contextmanager
    def attack(self, kind: str) -> Iterator[Attack]:
        """A result that the block fills; kept also if the block fails."""
        found, began = Attack(kind), time.perf_counter()
        try:
            yield found
        finally:
            found.seconds = time.perf_counter() - began
            self.keep(found)

    def keep(self, found: Attack) -> None:
        path = os.environ.get(REPORT)
        if path:
            with Path(path).open("a", encoding="utf-8") as file:
                file.write(json.dumps(asdict(found)) + "\n")
