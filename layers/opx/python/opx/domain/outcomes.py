"""What came of acting upon knowledge, counted, and how far that moves a score."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any

ENOUGH = 5.0
"""Outcomes before which nothing moves; one of an earlier version counts `EARLIER`."""

EARLIER = 0.5
"""What an outcome of a version counts that has been replaced: its text was another one, if often nearly the same."""

HARM = 2.0
"""What `made_worse` counts as a failure, beside 1 for `no_effect`."""

LOWEST, HIGHEST = 0.85, 1.1
"""Bounds of the factor: it moves neighbours past each other and makes no poor answer a good one."""

_PRIOR = 2.0
"""Of each kind before the first outcome: Beta(2, 2), whose mean of a half stands for a factor of 1."""


class OutcomeResult(StrEnum):
    """What came of acting upon a document."""

    RESOLVED = "resolved"
    NO_EFFECT = "no_effect"
    MADE_WORSE = "made_worse"


@dataclass(frozen=True, slots=True)
class Counts:
    """How often each result was told."""

    resolved: int = 0
    no_effect: int = 0
    made_worse: int = 0

    @property
    def total(self) -> int:
        return self.resolved + self.no_effect + self.made_worse

    def __add__(self, other: Counts) -> Counts:
        return Counts(*(getattr(self, one.name) + getattr(other, one.name) for one in fields(self)))

    def moved(self, result: OutcomeResult, by: int) -> Counts:
        """One more of a result, or one less; never below 0."""
        found = {one.name: getattr(self, one.name) for one in fields(self)}
        return Counts(**{**found, result.value: max(found[result.value] + by, 0)})

    def to_json(self) -> dict[str, int]:
        return {"resolved": self.resolved, "noEffect": self.no_effect, "madeWorse": self.made_worse}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Counts:
        return cls(int(data["resolved"]), int(data["noEffect"]), int(data["madeWorse"]))


@dataclass(frozen=True, slots=True)
class Tally:
    """Outcomes of the version that is there `now`, and of `earlier` ones."""

    now: Counts = Counts()
    earlier: Counts = Counts()

    def __add__(self, other: Tally) -> Tally:
        return Tally(self.now + other.now, self.earlier + other.earlier)

    @property
    def all(self) -> Counts:
        return self.now + self.earlier

    @property
    def enough(self) -> bool:
        """Whether there is enough evidence to move anything."""
        return self.now.total + EARLIER * self.earlier.total >= ENOUGH

    @property
    def factor(self) -> float:
        """What a score is multiplied with, between `LOWEST` and `HIGHEST`; exactly 1 without enough evidence.

        The mean of the Beta distribution of the rate of success, given what was told, put on a line from `LOWEST` at 0
        over 1 at a half to `HIGHEST` at 1.
        """
        if not self.enough:
            return 1.0
        good = self.now.resolved + EARLIER * self.earlier.resolved
        bad = _failures(self.now) + EARLIER * _failures(self.earlier)
        above = 2 * (_PRIOR + good) / (2 * _PRIOR + good + bad) - 1
        return 1 + above * (HIGHEST - 1 if above > 0 else 1 - LOWEST)

    def superseded(self) -> Tally:
        """The same of a version that is no longer there."""
        return Tally(Counts(), self.all)

    def moved(self, result: OutcomeResult, by: int, *, now: bool) -> Tally:
        if now:
            return Tally(self.now.moved(result, by), self.earlier)
        return Tally(self.now, self.earlier.moved(result, by))

    def explained(self) -> str:
        """`4 of 5 resolved, 1 made it worse`, with what else is to be known of it."""
        told = self.all
        parts = [f"{told.resolved:,} of {told.total:,} resolved"]
        if told.made_worse:
            parts.append(f"{told.made_worse:,} made it worse")
        if self.earlier.total:
            parts.append(f"{self.earlier.total:,} of earlier versions, which count half")
        if not self.enough:
            parts.append("too few to count")
        return ", ".join(parts)

    def to_json(self) -> dict[str, Any]:
        return {"now": self.now.to_json(), "earlier": self.earlier.to_json()}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Tally:
        return cls(Counts.from_json(data["now"]), Counts.from_json(data["earlier"]))


NOTHING = Tally()
"""Nothing was told."""


def _failures(counts: Counts) -> float:
    return counts.no_effect + HARM * counts.made_worse


@dataclass(frozen=True, slots=True)
class OutcomeScore:
    """What is known of a passage: the outcomes of its `section`, "" for the whole document."""

    tally: Tally
    section: str = ""

    @property
    def factor(self) -> float:
        return self.tally.factor

    def to_json(self) -> dict[str, Any]:
        """The camelCase form in the metadata of results."""
        return {
            **self.tally.all.to_json(),
            "factor": round(self.factor, 4),
            "section": self.section,
            "text": self.tally.explained(),
        }
