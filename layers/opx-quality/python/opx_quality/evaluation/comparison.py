"""Compares two runs over the same questions: significance of differences, and the questions that lost most."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from opx.domain.record import replace
from opx.errors import InvalidInputError
from opx_quality.evaluation.abstention import FLOOR, refused
from opx_quality.evaluation.answers import ReplyJudgement, helped
from opx_quality.evaluation.bands import ABSENT, ROWS, SURE_AND_WRONG, is_sure_and_wrong
from opx_quality.evaluation.datasets import ALL, LabelledQuestion
from opx_quality.evaluation.figures import MEASURES, ndcg
from opx_quality.evaluation.runs import EvaluationRun, JudgedReply

# -- significance


Array = npt.NDArray[np.float64]
DRAWS = 100_000
"""Random relabellings: for p = .05 the standard error is .0007."""

RESAMPLES = 10_000
ALL_UP_TO = 16
"""Up to so many non-zero differences, all relabellings are tried: 65,536."""

SEED = 20070611
_CHUNK_VALUES = 4_000_000
_EQUAL = 1e-9
"""Sums of the same values in another order differ by less."""


@dataclass(frozen=True, slots=True)
class MeasureDifference:
    """Second minus first, over `count` questions: means, the difference, its 95 % interval, and p."""

    count: int
    first: float
    second: float
    difference: float
    low: float
    high: float
    p: float

    def to_json(self) -> dict[str, Any]:
        names = ("first", "second", "difference", "low", "high")
        return {"questions": self.count, **{n: round(getattr(self, n), 4) for n in names}, "p": round(self.p, 6)}


def compared(first: Sequence[float], second: Sequence[float], *, seed: int = SEED) -> MeasureDifference:
    """Compare the values of two systems, in the order of the same questions. Equal seeds give equal results.

    Raises `ValueError` for lists of different lengths, or empty ones.
    """
    one, other = np.asarray(first, dtype=float), np.asarray(second, dtype=float)
    if len(one) != len(other) or not len(one):
        raise ValueError("both systems need a value for each question, and there must be a question")
    differences = other - one
    low, high = bootstrap_interval(differences, seed=seed)
    return MeasureDifference(
        count=len(one),
        first=float(one.mean()),
        second=float(other.mean()),
        difference=float(differences.mean()),
        low=low,
        high=high,
        p=randomisation_p(differences, seed=seed),
    )


def randomisation_p(differences: Array, *, draws: int = DRAWS, seed: int = SEED) -> float:
    """p of the two-sided paired randomisation test; 1 if nothing differs."""
    changing = differences[differences != 0]
    if not len(changing):
        return 1.0
    observed = abs(changing.sum()) - _EQUAL
    if len(changing) <= ALL_UP_TO:
        every = (np.arange(2 ** len(changing))[:, None] >> np.arange(len(changing))) & 1
        return float((np.abs((1 - 2 * every) @ changing) >= observed).mean())
    generator = np.random.default_rng(seed)
    extreme, left = 0, draws
    while left:
        rows = min(left, max(1, _CHUNK_VALUES // len(changing)))
        signs = 1.0 - 2.0 * generator.integers(0, 2, size=(rows, len(changing)), dtype=np.int8)
        extreme += int((np.abs(signs @ changing) >= observed).sum())
        left -= rows
    return (extreme + 1) / (draws + 1)


def bootstrap_interval(
    differences: Array, *, level: float = 0.95, resamples: int = RESAMPLES, seed: int = SEED
) -> tuple[float, float]:
    """The percentile interval of the mean, questions drawn with replacement."""
    generator = np.random.default_rng(seed)
    means: list[Array] = []
    left = resamples
    while left:
        rows = min(left, max(1, _CHUNK_VALUES // len(differences)))
        drawn = generator.integers(0, len(differences), size=(rows, len(differences)))
        means.append(differences[drawn].mean(axis=1))
        left -= rows
    tail = 100 * (1 - level) / 2
    low, high = np.percentile(np.concatenate(means), [tail, 100 - tail])
    return float(low), float(high)


# -- comparison


REFUSED = "refused"
HELPED, GRADE = "answer helps", "answer's grade"
Pair = tuple[LabelledQuestion, JudgedReply, JudgedReply]


@dataclass(frozen=True, slots=True)
class Compared:
    """One measure of two systems over the questions of a kind."""

    first: str
    second: str
    kind: str
    measure: str
    difference: MeasureDifference

    def to_json(self) -> dict[str, Any]:
        names = {"firstSystem": self.first, "secondSystem": self.second}
        return {**names, "kind": self.kind, "measure": self.measure, **self.difference.to_json()}


def check_comparable(first: EvaluationRun, second: EvaluationRun) -> None:
    """Raises `InvalidInputError` for runs over different questions or labels."""
    if first.fingerprint != second.fingerprint:
        ids = [{question.id for question in run.questions} for run in (first, second)]
        only = len(ids[0] ^ ids[1])
        reason = f"{only} questions are in one of them only" if only else "texts, kinds or labels of questions differ"
        raise InvalidInputError(f"runs over different questions can't be compared: {reason}")


def compare_runs(
    first: EvaluationRun, second: EvaluationRun, systems: Sequence[tuple[str, str]] = (), floor: float = FLOOR
) -> Iterator[Compared]:
    """Differences of the measures by kind, of refusals at the floor for kinds without an answer, of the shares of
    questions in each band, and of judged answers.

    `systems` are pairs of names, one of each run; without any, every mode that both have, and every form of answers.
    Raises `InvalidInputError` for runs over different questions, and for a system that a run doesn't have.
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


def _compared_answers(first: EvaluationRun, second: EvaluationRun, form: str) -> Iterator[Compared]:
    """Compares judged answers. `helped` is 0 or 1, so its randomisation test is the exact McNemar test."""
    after = {question.id: one for question, one in zip(second.questions, second.answers[form], strict=True)}
    judged = zip(first.questions, first.answers[form], strict=True)
    pairs = [(question, one, other) for question, one in judged if one and (other := after[question.id])]
    for kind in (ALL, *first.kinds):
        chosen = [(one, other) for question, one, other in pairs if kind in (ALL, question.kind)]
        for name, measure in ANSWER_MEASURES.items() if chosen else ():
            values = [[measure(pair[side]) for pair in chosen] for side in (0, 1)]
            yield Compared(form, form, kind, name, compared(*values))


ANSWER_MEASURES: dict[str, Callable[[ReplyJudgement], float]] = {HELPED: helped, GRADE: lambda one: float(one.grade)}


def _compared(first: EvaluationRun, one: str, second: EvaluationRun, other: str, floor: float) -> Iterator[Compared]:
    pairs = list(_pairs(first, one, second, other))
    answerable = [pair for pair in pairs if pair[0].answerable]
    for kind in (ALL, *first.kinds):
        chosen = [pair for pair in answerable if kind in (ALL, pair[0].kind)]
        for name, measure in MEASURES.items() if chosen else ():
            before = [measure(reply.pages, question.relevant) for question, reply, _ in chosen]
            after = [measure(reply.pages, question.relevant) for question, _, reply in chosen]
            yield Compared(one, other, kind, name, compared(before, after))
    unanswerable = [pair for pair in pairs if not pair[0].answerable]
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
    """Shares of the questions whose reply has each band, or reports absence, if both runs record that."""
    known = all(reply.absent is not None for replies in _columns(pairs) for reply in replies)
    for name, counts in ROWS.items() if pairs else ():
        if known or name != ABSENT:
            shares = [[float(counts(reply)) for reply in replies] for replies in _columns(pairs)]
            yield Compared(one, other, kind, name, compared(*shares))


def _columns(pairs: Sequence[Pair]) -> tuple[list[JudgedReply], list[JudgedReply]]:
    return [before for _, before, _ in pairs], [after for _, _, after in pairs]


def _pairs(first: EvaluationRun, one: str, second: EvaluationRun, other: str) -> Iterator[Pair]:
    """Each question with both replies: the order of questions may differ between runs."""
    for run, system in ((first, one), (second, other)):
        if system not in run.replies:
            raise InvalidInputError(f"no system {system!r} in this run; it has {', '.join(run.replies)}")
    replies = {q.id: reply for q, reply in zip(second.questions, second.replies[other], strict=True)}
    for question, reply in zip(first.questions, first.replies[one], strict=True):
        yield question, reply, replies[question.id]


# -- losers


@dataclass(frozen=True, slots=True)
class Loser:
    """A question, its reply and nDCG@10, and the loss of nDCG@10 to the compared run (if there is one)."""

    question: LabelledQuestion
    reply: JudgedReply
    ndcg: float
    lost: float | None = None

    @property
    def ranks(self) -> dict[str, int | None]:
        """Rank of each relevant page, from 1; None if it wasn't found."""
        pages = self.reply.pages
        return {page: pages.index(page) + 1 if page in pages else None for page in self.question.relevant}


def losers(run: EvaluationRun, system: str, count: int, against: EvaluationRun | None = None) -> list[Loser]:
    """The worst questions first, ties by id; with `against`, those that lost most, and only those that lost."""
    found = list(_measured(run, system))
    if against is None:
        return sorted((each for each in found if each.ndcg < 1), key=lambda each: (each.ndcg, each.question.id))[:count]
    check_comparable(against, run)
    before = {each.question.id: each.ndcg for each in _measured(against, system)}
    lost = [replace(each, lost=before[each.question.id] - each.ndcg) for each in found]
    return sorted((each for each in lost if (each.lost or 0) > 0), key=lambda e: (-(e.lost or 0), e.question.id))[
        :count
    ]


def false_answers(run: EvaluationRun, system: str, count: int) -> list[Loser]:
    """Unanswerable questions with the most confident answers."""
    replies = zip(run.questions, run.replies[system], strict=True)
    found = [
        Loser(question, reply, 0.0) for question, reply in replies if not question.answerable and reply.confidences
    ]
    return sorted(found, key=lambda each: (-each.reply.best, each.question.id))[:count]


def unhelped(
    run: EvaluationRun, form: str, count: int, against: EvaluationRun | None = None
) -> list[tuple[LabelledQuestion, ReplyJudgement]]:
    """Questions whose reply lacks a line that is enough, those whose page was found first, by its rank; with `against`, only
    those whose reply had one then."""
    judged = [(question, one) for question, one in zip(run.questions, run.answers[form], strict=True) if one]
    found = [(question, one) for question, one in judged if not helped(one)]
    if against is not None:
        check_comparable(against, run)
        before = zip(against.questions, against.answers.get(form, ()), strict=False)
        had = {question.id for question, one in before if one and helped(one)}
        found = [(question, one) for question, one in found if question.id in had]
    return sorted(found, key=lambda pair: (pair[1].rank or math.inf, pair[0].id))[:count]


def _measured(run: EvaluationRun, system: str) -> Iterator[Loser]:
    for question, reply in zip(run.questions, run.replies[system], strict=True):
        if question.answerable:
            yield Loser(question, reply, ndcg(reply.pages, question.relevant))
