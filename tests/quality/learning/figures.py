"""Figures of the learning set: queries, and entries that repeat a pattern in other words."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from opx.domain.learning import GATES, EntryType
from opx.domain.queries import Band
from opx.domain.scopes import Identity
from opx.operations.system import System
from tests.quality.learning.cases import ASKING, CLIENT, FAILURE, HELD_OUT, TASK, TUNED, Case, Repeat, ask, capture


@dataclass(frozen=True, slots=True)
class CaseAnswer:
    """A case, and the names of the returned patterns with their bands, in order. `named`: with the task's technology."""

    case: Case
    patterns: tuple[tuple[str, Band], ...]
    named: bool = True

    def hit(self, most: int, least: Band = Band.WEAK) -> bool:
        """True if a pattern that helps is among the first `most`, in this band or a better one."""
        return any(name in self.case.helps and band.least >= least.least for name, band in self.patterns[:most])

    def any(self, least: Band) -> bool:
        return any(band.least >= least.least for _, band in self.patterns)


@dataclass(frozen=True, slots=True)
class Figures:
    """Of cases with a pattern that helps: the share for which it is first, among the first three, and so at least as
    `likely`. Of the others: the share with any pattern returned, with a `likely` one, and with a `sure` one. Of patterns
    returned as `sure`: the number, and the share that doesn't help."""

    helped: int
    hit1: float
    hit3: float
    likely3: float
    near: int
    false: float
    false_likely: float
    false_sure: float
    sure: int
    sure_wrong: float

    def __str__(self) -> str:
        return (
            f"{self.helped:4} first {self.hit1:.3f}, among three {self.hit3:.3f}, as likely {self.likely3:.3f} | "
            f"{self.near:3} unhelped: any {self.false:.3f}, likely {self.false_likely:.3f}, sure {self.false_sure:.3f} | "
            f"{self.sure} sure, wrong {self.sure_wrong:.3f}"
        )


def answered(services: System, names: Mapping[str, str], cases: Sequence[Case]) -> Iterator[CaseAnswer]:
    """Queries every case, tasks with a technology also without it."""
    for case in cases:
        for named in (True, False) if case.query_kind == TASK and case.technology else (True,):
            found = ask(services, case, technology=named)
            yield CaseAnswer(case, tuple((names[one.pattern_id], one.band) for one in found), named)


def figures(answers: Iterable[CaseAnswer]) -> Figures:
    each = list(answers)
    helped = [one for one in each if one.case.expects]
    near = [one for one in each if not one.case.expects]
    sure = [name in one.case.helps for one in each for name, band in one.patterns if band is Band.SURE]
    return Figures(
        helped=len(helped),
        hit1=share(one.hit(1) for one in helped),
        hit3=share(one.hit(3) for one in helped),
        likely3=share(one.hit(3, Band.LIKELY) for one in helped),
        near=len(near),
        false=share(bool(one.patterns) for one in near),
        false_likely=share(one.any(Band.LIKELY) for one in near),
        false_sure=share(one.any(Band.SURE) for one in near),
        sure=len(sure),
        sure_wrong=share(not right for right in sure),
    )


def of_gates(one: CaseAnswer) -> bool:
    """Tasks that a person's decision should be remembered for, or seems to."""
    return one.case.query_kind == TASK and one.case.entry_type in GATES


def of_tasks(one: CaseAnswer) -> bool:
    """Tasks that a failure's solution should be remembered for, or seems to."""
    return one.case.query_kind == TASK and one.case.entry_type not in GATES


def of_failures(one: CaseAnswer) -> bool:
    return one.case.query_kind == FAILURE


GROUPS: Mapping[str, Callable[[CaseAnswer], bool]] = {
    "gates": of_gates,
    "rejections": lambda one: of_gates(one) and one.case.entry_type == EntryType.GATE_REJECTION,
    "approvals": lambda one: of_gates(one) and one.case.entry_type == EntryType.GATE_APPROVAL,
    "tasks": lambda one: of_tasks(one) and one.named,
    "tasks, no technology": lambda one: of_tasks(one) and not (one.named and one.case.technology),
    "failures": of_failures,
    "all": lambda one: one.named,
    "same words only": lambda one: one.case.id.startswith("far"),
}


def table(answers: Sequence[CaseAnswer], half: str) -> Iterator[str]:
    """A line for each group of a half's cases."""
    for name, belongs in GROUPS.items():
        yield f"{half:8} {name:20} {figures(one for one in answers if one.case.half == half and belongs(one))}"


def share(values: Iterable[float]) -> float:
    """The mean; 0 of nothing."""
    each = list(values)
    return sum(each) / len(each) if each else 0.0


THIRD = Identity(CLIENT, "third-shop")


def teach_again(services: System, repeats: Sequence[Repeat]) -> dict[str, str]:
    """Captures the repeats for a third project; returns the pattern id of each."""
    entries = {repeat.taught.id: capture(services, THIRD, repeat.taught) for repeat in repeats}
    services.learning.checkpoints(THIRD).process_checkpoint(THIRD.project_id, "project_completion")
    list(services.manager.work())
    return {name: services.learning.capture(THIRD).entry(entry).pattern_id for name, entry in entries.items()}


def lines(
    services: System,
    names: Mapping[str, str],
    cases: Sequence[Case],
    repeats: Sequence[Repeat],
    found: Mapping[str, str],
) -> Iterator[str]:
    """Lines with the repetitions that were counted for their pattern, the other solutions that were mistaken for a known
    one, and the share of problems with two solutions for which both are returned."""
    for half in (TUNED, HELD_OUT):
        some = [repeat for repeat in repeats if repeat.half == half]
        same = [names.get(found[one.taught.id]) == one.about for one in some if one.same]
        wrong = [found[one.taught.id] in names for one in some if not one.same]
        yield (
            f"{half:8} recognised {sum(same)} of {len(same)} repetitions, took {sum(wrong)} of {len(wrong)} other ways for a "
            f"known one; both ways returned for {share(_both(services, names, cases, some, found)):.2f} of those with any"
        )


def _both(
    services: System,
    names: Mapping[str, str],
    cases: Sequence[Case],
    repeats: Sequence[Repeat],
    found: Mapping[str, str],
) -> Iterator[float]:
    query = services.pattern_queries.of(ASKING)
    for repeat in repeats:
        case = next(case for case in cases if case.expects == repeat.about and case.query_kind == "failure")
        if repeat.same:
            continue
        returned = query.query_for_failure(case.text, case.error_message, case.agent_type, case.task_type)
        ids = [pattern.pattern_id for pattern in returned]
        ways = [found[repeat.taught.id] in ids, repeat.about in [names.get(one) for one in ids]]
        if any(ways):
            yield float(all(ways))
