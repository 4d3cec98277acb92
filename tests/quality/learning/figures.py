"""Hit rates and false answers of pattern queries over the cases."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from opx.operations.system import System
from tests.quality.learning.cases import FAILURE, HELD_OUT, TASK, TUNED, Case
from tests.quality.learning.world import ask

NO_TECHNOLOGY = "task without technology"
KINDS = (FAILURE, TASK, NO_TECHNOLOGY)


@dataclass(frozen=True, slots=True)
class CaseAnswer:
    """A case queried in one way, and the names of the returned patterns, in order."""

    kind: str
    case: Case
    patterns: tuple[str, ...]

    def hit(self, most: int) -> bool:
        return self.case.expects in self.patterns[:most]


@dataclass(frozen=True, slots=True)
class Figures:
    """Of cases with a pattern that helps: the share of those that have it first, and among the first three, and the mean
    number of other patterns returned. Of the others: the share with any pattern returned."""

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


def answered(services: System, names: Mapping[str, str], cases: Sequence[Case]) -> Iterator[CaseAnswer]:
    """Queries every case, those about tasks in both ways."""
    for case in cases:
        yield CaseAnswer(case.query_kind, case, _names(services, names, case, technology=True))
        if case.query_kind == TASK:
            yield CaseAnswer(NO_TECHNOLOGY, case, _names(services, names, case, technology=False))


def figures(answers: Iterable[CaseAnswer]) -> Figures:
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


def table(answers: Sequence[CaseAnswer]) -> Iterator[str]:
    """A line for each half and way to query."""
    for half in (TUNED, HELD_OUT):
        for kind in KINDS:
            some = [one for one in answers if one.kind == kind and one.case.half == half]
            yield f"{half:8} {kind:23} {figures(some)}"
        unchanged = [one for one in answers if one.kind != NO_TECHNOLOGY and one.case.half == half]
        yield f"{half:8} {'unchanged, all':23} {figures(unchanged)}"


def _names(services: System, names: Mapping[str, str], case: Case, *, technology: bool) -> tuple[str, ...]:
    return tuple(names[pattern.pattern_id] for pattern in ask(services, case, technology=technology))


def share(values: Iterable[float]) -> float:
    """The mean; 0 of nothing."""
    each = list(values)
    return sum(each) / len(each) if each else 0.0
