"""How well the cases are answered."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from opx.operations.system import System
from tests.quality.learning.cases import FAILURE, HELD_OUT, TASK, TUNED, Case
from tests.quality.learning.world import ask

NO_TECHNOLOGY = "task without technology"
KINDS = (FAILURE, TASK, NO_TECHNOLOGY)


@dataclass(frozen=True, slots=True)
class Told:
    """A case in one way to ask, and the names of the patterns that were told, in order."""

    kind: str
    case: Case
    patterns: tuple[str, ...]

    def hit(self, most: int) -> bool:
        return self.case.expects in self.patterns[:most]


@dataclass(frozen=True, slots=True)
class Figures:
    """Of cases with a pattern that helps: the share of those that have it first, and among the first three, and how many
    others are told with it on average. Of the others: the share that is told one all the same."""

    helped: int
    hit1: float
    hit3: float
    others: float
    near: int
    false: float

    def __str__(self) -> str:
        return (
            f"{self.helped:4} hit@1 {self.hit1:.3f} hit@3 {self.hit3:.3f} others {self.others:.2f} | "
            f"{self.near:3} near misses, false {self.false:.3f}"
        )


def told(services: System, names: Mapping[str, str], cases: Sequence[Case]) -> Iterator[Told]:
    """Ask every case, those about tasks in both ways."""
    for case in cases:
        yield Told(case.asks, case, _names(services, names, case, technology=True))
        if case.asks == TASK:
            yield Told(NO_TECHNOLOGY, case, _names(services, names, case, technology=False))


def figures(answers: Iterable[Told]) -> Figures:
    each = list(answers)
    helped = [one for one in each if one.case.expects]
    near = [one for one in each if not one.case.expects]
    return Figures(
        helped=len(helped),
        hit1=share(one.hit(1) for one in helped),
        hit3=share(one.hit(3) for one in helped),
        others=share(len(one.patterns) - one.hit(len(one.patterns)) for one in helped),
        near=len(near),
        false=share(bool(one.patterns) for one in near),
    )


def table(answers: Sequence[Told]) -> Iterator[str]:
    """A line for each half and way to ask."""
    for half in (TUNED, HELD_OUT):
        for kind in KINDS:
            some = [one for one in answers if one.kind == kind and one.case.half == half]
            yield f"{half:8} {kind:23} {figures(some)}"
        asked = [one for one in answers if one.kind != NO_TECHNOLOGY and one.case.half == half]
        yield f"{half:8} {'as asked, all':23} {figures(asked)}"


def _names(services: System, names: Mapping[str, str], case: Case, *, technology: bool) -> tuple[str, ...]:
    return tuple(names[pattern.pattern_id] for pattern in ask(services, case, technology=technology))


def share(values: Iterable[float]) -> float:
    """The mean; 0 of nothing."""
    each = list(values)
    return sum(each) / len(each) if each else 0.0
