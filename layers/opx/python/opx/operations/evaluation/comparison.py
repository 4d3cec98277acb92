"""Two runs over the same questions, compared question by question."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from opx.errors import InvalidInputError
from opx.operations.evaluation.abstention import FLOOR, refused
from opx.operations.evaluation.answers import Judgement, helped
from opx.operations.evaluation.bands import ABSENT, ROWS, SURE_AND_WRONG, is_sure_and_wrong
from opx.operations.evaluation.datasets import ALL, Question
from opx.operations.evaluation.measures import MEASURES
from opx.operations.evaluation.runs import Reply, Run
from opx.operations.evaluation.significance import Difference, compared

REFUSED = "refused"
HELPED, GRADE = "answer helps", "answer's grade"
Pair = tuple[Question, Reply, Reply]


@dataclass(frozen=True, slots=True)
class Compared:
    """One measure of two systems over the questions of a kind."""

    first: str
    second: str
    kind: str
    measure: str
    difference: Difference

    def to_json(self) -> dict[str, Any]:
        names = {"firstSystem": self.first, "secondSystem": self.second}
        return {**names, "kind": self.kind, "measure": self.measure, **self.difference.to_json()}


def check_comparable(first: Run, second: Run) -> None:
    """Raise `InvalidInputError` for runs over different questions or labels."""
    if first.fingerprint != second.fingerprint:
        ids = [{question.id for question in run.questions} for run in (first, second)]
        only = len(ids[0] ^ ids[1])
        reason = f"{only} questions are in one of them only" if only else "texts, kinds or labels of questions differ"
        raise InvalidInputError(f"runs over different questions can't be compared: {reason}")


def compare_runs(
    first: Run, second: Run, systems: Sequence[tuple[str, str]] = (), floor: float = FLOOR
) -> Iterator[Compared]:
    """Differences of the measures by kind, of refusals at the floor for kinds without an answer, of the shares of questions
    in each band, and of judged answers.

    `systems` are pairs of names, one of each run; without any, every mode that both have, and every form of answers. Raises
    `InvalidInputError` for runs over different questions, and for a system that a run hasn't.
    """
    check_comparable(first, second)
    both = [mode for mode in first.modes if mode in second.modes]
    pairs = list(systems) or [(mode, mode) for mode in both]
    if not pairs:
        raise InvalidInputError("the runs have no mode in common: name the systems to compare, such as fast:balanced")
    for one, other in pairs:
        yield from _compared(first, one, second, other, floor)
    for form in () if systems else [form for form in first.answers if form in second.answers]:
        yield from _compared_answers(first, second, form)


def _compared_answers(first: Run, second: Run, form: str) -> Iterator[Compared]:
    """Whether answers help is 0 or 1, so that the randomisation test is the exact McNemar test."""
    after = {question.id: one for question, one in zip(second.questions, second.answers[form], strict=True)}
    asked = zip(first.questions, first.answers[form], strict=True)
    pairs = [(question, one, other) for question, one in asked if one and (other := after[question.id])]
    for kind in (ALL, *first.kinds):
        chosen = [(one, other) for question, one, other in pairs if kind in (ALL, question.kind)]
        for name, measure in ANSWER_MEASURES.items() if chosen else ():
            values = [[measure(pair[side]) for pair in chosen] for side in (0, 1)]
            yield Compared(form, form, kind, name, compared(*values))


def _grade(one: Judgement) -> float:
    return float(one.grade)


ANSWER_MEASURES = {HELPED: helped, GRADE: _grade}


def _compared(first: Run, one: str, second: Run, other: str, floor: float) -> Iterator[Compared]:
    asked = list(_pairs(first, one, second, other))
    answerable = [pair for pair in asked if pair[0].answerable]
    for kind in (ALL, *first.kinds):
        chosen = [pair for pair in answerable if kind in (ALL, pair[0].kind)]
        for name, measure in MEASURES.items() if chosen else ():
            before = [measure(reply.pages, question.relevant) for question, reply, _ in chosen]
            after = [measure(reply.pages, question.relevant) for question, _, reply in chosen]
            yield Compared(one, other, kind, name, compared(before, after))
    unanswerable = [pair for pair in asked if not pair[0].answerable]
    if one not in first.modes or other not in second.modes:  # legs and fusions alone have no confidence
        return
    for kind in dict.fromkeys(question.kind for question, _, _ in unanswerable):
        chosen = [pair for pair in unanswerable if pair[0].kind == kind]
        shares = [[float(refused(reply, floor)) for reply in replies] for replies in _columns(chosen)]
        yield Compared(one, other, kind, f"{REFUSED}@{floor:g}", compared(*shares))
    yield from _compared_bands(one, other, answerable, ALL)
    if answerable:
        before = [float(is_sure_and_wrong(question, reply)) for question, reply, _ in answerable]
        after = [float(is_sure_and_wrong(question, reply)) for question, _, reply in answerable]
        yield Compared(one, other, ALL, SURE_AND_WRONG, compared(before, after))
    for kind in dict.fromkeys(question.kind for question, _, _ in unanswerable):
        yield from _compared_bands(one, other, [pair for pair in unanswerable if pair[0].kind == kind], kind)


def _compared_bands(one: str, other: str, pairs: Sequence[Pair], kind: str) -> Iterator[Compared]:
    """Shares of the questions whose reply has each band, or says that something is absent if both runs have that."""
    known = all(reply.absent is not None for replies in _columns(pairs) for reply in replies)
    for name, counts in ROWS.items() if pairs else ():
        if known or name != ABSENT:
            shares = [[float(counts(reply)) for reply in replies] for replies in _columns(pairs)]
            yield Compared(one, other, kind, name, compared(*shares))


def _columns(pairs: Sequence[Pair]) -> tuple[list[Reply], list[Reply]]:
    return [before for _, before, _ in pairs], [after for _, _, after in pairs]


def _pairs(first: Run, one: str, second: Run, other: str) -> Iterator[Pair]:
    """Each question with both replies: runs may have asked in different orders."""
    for run, system in ((first, one), (second, other)):
        if system not in run.replies:
            raise InvalidInputError(f"no system {system!r} in this run; it has {', '.join(run.replies)}")
    replies = {q.id: reply for q, reply in zip(second.questions, second.replies[other], strict=True)}
    for question, reply in zip(first.questions, first.replies[one], strict=True):
        yield question, reply, replies[question.id]
