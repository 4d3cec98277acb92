"""Judges replies: does the text that the reader gets contain a line that helps?

The right page may be found, and the line that helps still be missing in the reply. So the reply's own text is judged,
whichever page a line comes from: its grade is the best one of the question's spans (see `spans`) that it contains.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any, NamedTuple

from opx.domain.record import rounded
from opx.formats.markdown import one_line
from opx.text.tokenizer import count_tokens
from opx_quality.evaluation.datasets import ALL, ENOUGH, LabelledQuestion, labels_of

FIRST_DOCUMENTS = 5

_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Shown:
    """A reply as its reader gets it. `found` are id and source of its documents, the best first. `rendered` text has lost
    Markdown markup: there only the words of spans are compared."""

    text: str
    found: tuple[tuple[str, str], ...]
    rendered: bool = False


Form = Callable[[str], Shown]
"""A form of replies: a function that answers a question."""


@dataclass(frozen=True, slots=True)
class ReplyJudgement:
    """A reply's grade, 0 for one without any span, the rank of the right page among the documents found, None if it isn't
    there, the reply's tokens, and a flag that nothing was good enough to be shown."""

    grade: int
    rank: int | None
    tokens: int
    refused: bool

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def judged(question: LabelledQuestion, shown: Shown, pages: Sequence[str]) -> ReplyJudgement:
    """The judgement of a reply; `pages` are those of the documents found, the best first."""
    plain = _words if shown.rendered else one_line
    text = plain(shown.text)
    grade = max((span.grade for span in question.spans if plain(span.text) in text), default=0)
    right = {page for page, best in labels_of(question.spans).items() if best == ENOUGH}
    rank = next((at for at, page in enumerate(dict.fromkeys(pages), start=1) if page in right), None)
    return ReplyJudgement(grade, rank, count_tokens(shown.text), refused=not shown.found)


def _words(text: str) -> str:
    return " ".join(_WORD.findall(_LINK.sub(r"\1", text)))


# -- figures


@dataclass(frozen=True, slots=True)
class AnswerFigures:
    """Replies of one form to some questions. Shares: with a line that is enough (`helped`), the same where the right page is
    among the first five documents (`helped_if_found`, None if it never is), with the right page first and among the first
    five, and refused. `grade` is a mean; `tokens` are mean and 95th percentile."""

    questions: int
    helped: float
    helped_if_found: float | None
    first: float
    in_five: float
    grade: float
    tokens: float
    tokens_p95: float
    refused: float

    def to_json(self) -> dict[str, Any]:
        names = {"helped_if_found": "helpedIfFound", "in_five": "inFive", "tokens_p95": "tokensP95"}
        return {names.get(name, name): rounded(value, 4) for name, value in asdict(self).items()}


Figures = dict[str, dict[str, dict[str, AnswerFigures]]]
"""By split of questions (`all` first), form of the reply, and kind of question (`all` first)."""


def answer_figures(
    questions: Sequence[LabelledQuestion], answers: Mapping[str, Sequence[ReplyJudgement | None]]
) -> Figures:
    """Figures of every form of reply; {} if none was judged. A split that contains all questions is not repeated."""
    splits = dict.fromkeys(question.split for question in questions if question.spans)
    named = sorted(filter(None, splits)) if len(splits) > 1 else []
    return {
        split: {form: dict(_by_kind(questions, found, split)) for form, found in answers.items()}
        for split in (ALL, *named)
        if answers
    }


def _by_kind(
    questions: Sequence[LabelledQuestion], found: Sequence[ReplyJudgement | None], split: str
) -> Iterator[tuple[str, AnswerFigures]]:
    by_kind: dict[str, list[ReplyJudgement]] = {}
    for question, one in zip(questions, found, strict=True):
        if one is not None and split in (ALL, question.split):
            for kind in (ALL, question.kind):
                by_kind.setdefault(kind, []).append(one)
    return ((kind, _figures(each)) for kind, each in by_kind.items())


def _figures(found: Sequence[ReplyJudgement]) -> AnswerFigures:
    tokens = [one.tokens for one in found]
    reached = [helped(one) for one in found if _in_five(one)]
    return AnswerFigures(
        questions=len(found),
        helped=fmean(map(helped, found)),
        helped_if_found=fmean(reached) if reached else None,
        first=fmean(float(one.rank == 1) for one in found),
        in_five=fmean(float(_in_five(one)) for one in found),
        grade=fmean(one.grade for one in found),
        tokens=fmean(tokens),
        tokens_p95=percentile(tokens, 95),
        refused=fmean(float(one.refused) for one in found),
    )


def percentile(values: Sequence[float], at: float) -> float:
    """The percentile of values, interpolated between neighbours (type 7 of Hyndman and Fan, 1996)."""
    ordered = sorted(values)
    place = (len(ordered) - 1) * at / 100
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def helped(one: ReplyJudgement) -> float:
    """1 if the reply has a line that is enough to act, else 0."""
    return float(one.grade >= ENOUGH)


def _in_five(one: ReplyJudgement) -> bool:
    return one.rank is not None and one.rank <= FIRST_DOCUMENTS


# -- tables

HEADS = ("helped", "if found", "page first", "in five", "grade", "tokens", "p95", "refused")


class TextTable(NamedTuple):
    """Rows of figures, each after its name."""

    heads: Sequence[str]
    rows: Sequence[Sequence[str]]


def answer_tables(
    questions: Sequence[LabelledQuestion], answers: Mapping[str, Sequence[ReplyJudgement | None]]
) -> Iterator[TextTable]:
    """For each split all figures, then the share that is helped by kind of question."""
    for split, forms in answer_figures(questions, answers).items():
        kinds = next(iter(forms.values()))
        title = f"answers, {split} ({kinds[ALL].questions})"
        yield TextTable((title, *HEADS), [(form, *_cells(by[ALL])) for form, by in forms.items()])
        heads = [f"{kind} ({one.questions})" for kind, one in kinds.items()]
        shares = [(form, *(f"{one.helped:.3f}" for one in by.values())) for form, by in forms.items()]
        yield TextTable((f"{HEADS[0]}, {split}", *heads), shares)


def _cells(figures: AnswerFigures) -> list[str]:
    shares = (figures.helped, figures.helped_if_found, figures.first, figures.in_five, figures.grade)
    sizes = (f"{figures.tokens:.0f}", f"{figures.tokens_p95:.0f}")
    return [*("-" if one is None else f"{one:.3f}" for one in shares), *sizes, f"{figures.refused:.3f}"]
