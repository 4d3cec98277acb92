"""Keeps evaluation runs, and the knowledge base's own labelled questions, in the table of gaps.

No scope has such a partition key, so that they are of the installation and no client.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from statistics import fmean
from typing import TYPE_CHECKING, Annotated, Any

from opx.domain.ids import iso_time, stable_hash
from opx.domain.queries import Band
from opx.domain.record import Record, about, replace, rounded
from opx.errors import EvaluationNotFoundError
from opx.ports import Clock, Item, KeyRange, Table
from opx.ports.tables import GAPS, readable
from opx_quality.evaluation.abstention import abstention, refused
from opx_quality.evaluation.bands import calibrations, is_right
from opx_quality.evaluation.datasets import LabelledQuestion
from opx_quality.evaluation.figures import WHOLE, latencies, ndcg
from opx_quality.evaluation.runs import EvaluationRun, JudgedReply, question_json, question_of
from opx_quality.evaluation_keys import QUESTIONS, RUNS, replies_partition, reply_entry

if TYPE_CHECKING:
    from opx.operations.system import System

KEPT_DAYS = 400
"""A year and a month: a run can be compared with that of a year ago."""

_DAY_SECONDS = 86_400


class RunState(StrEnum):
    """State of a run: `RUNNING` until all of its questions were queried."""

    RUNNING = "running"
    DONE = "done"


Mean = Annotated[float | None, about("Null without such questions.")]


class SourceFigures(Record, frozen=True):
    """Figures of the questions of one source: the category of the right document, or the kind that a dataset states."""

    source: str
    questions: int
    ndcg: Mean
    answered: Mean


class ModeFigures(Record, frozen=True):
    """Figures of one mode of searching.

    `ndcg`: mean nDCG@10 of questions with an answer. `answered`: the share of them with a result that reaches the usual
    floor of confidence, and `right` the share of these whose first document is a right one. `refused`: the share of
    questions without an answer that were refused. `brier` and `calibration_error` are those of the first result's
    confidence. Latencies are those of whole answers.
    """

    mode: str
    ndcg: Mean
    answered: Mean
    right: Mean
    refused: Mean
    brier: float
    calibration_error: float
    p50_ms: float
    p95_ms: float
    sources: tuple[SourceFigures, ...]


class KeptRun(Record, frozen=True, kw_only=True):
    """An evaluation run without its questions. Figures follow at its end."""

    run_id: str
    dataset: Annotated[str, about("The folder of its questions; empty for the knowledge base's own ones.")]
    state: RunState
    started: str
    finished: str = ""
    by: str = ""
    opx: Annotated[str, about("The version of the program.")] = ""
    corpus: Annotated[str, about("The version of the corpus; runs of the same one saw the same documents.")]
    questions: int
    asked: Annotated[int, about("How many of the questions were queried so far.")] = 0
    modes: tuple[str, ...]
    figures: tuple[ModeFigures, ...] = ()


class OwnQuestion(Record, frozen=True):
    """A question of the knowledge base's own set. `expected` maps sources of right documents to their grade; it is empty
    for one that no document answers."""

    question_id: str
    text: str
    expected: dict[str, int]
    titles: tuple[str, ...]
    source: Annotated[str, about("The category of the right document.")]
    added_at: str
    by: str
    canary: Annotated[bool, about("True if it is asked every hour.")] = False

    def labelled(self) -> LabelledQuestion:
        return LabelledQuestion(self.question_id, self.text, self.source, dict(self.expected))


@dataclass(frozen=True, slots=True)
class KeptReply:
    """A question of a run with the replies of each mode, {} before it was queried. `number` counts from 1."""

    number: int
    question: LabelledQuestion
    replies: Mapping[str, JudgedReply]


class Evaluations:
    """Stores runs for `KEPT_DAYS`, and questions until they are removed. Raises `StoreUnavailableError`."""

    def __init__(self, table: Table, clock: Clock) -> None:
        self._table = table
        self._clock = clock

    @classmethod
    def of(cls, system: System) -> Evaluations:
        """Those of an installation."""
        return cls(system.tables.table(GAPS), system.clock)

    # -- runs

    def begin(self, dataset: str, questions: Sequence[LabelledQuestion], run: Mapping[str, Any]) -> KeptRun:
        """Keeps a new run with questions that are to be queried; `run` has the facts about it."""
        now = self._clock()
        moment = datetime.fromtimestamp(now, UTC).strftime("%Y%m%dT%H%M%S")
        begun = KeptRun(
            run_id=f"{moment}-{secrets.token_hex(3)}",
            dataset=dataset,
            state=RunState.RUNNING,
            started=iso_time(now),
            questions=len(questions),
            **run,
        )
        self._put_replies(begun, [KeptReply(at, one, {}) for at, one in enumerate(questions, start=1)])
        self._put(begun)
        return begun

    def answer(self, run: KeptRun, reply: KeptReply) -> KeptRun:
        """Adds the replies to one question."""
        self._put_replies(run, [reply])
        answered = replace(run, asked=reply.number)
        self._put(answered)
        return answered

    def finish(self, run: KeptRun) -> KeptRun:
        """Adds the figures of a run whose questions were all queried."""
        whole = self.whole(run)
        figures = tuple(figures_of(whole, mode) for mode in run.modes)
        finished = replace(run, state=RunState.DONE, finished=iso_time(self._clock()), figures=figures)
        self._put(finished)
        return finished

    def keep(self, run: EvaluationRun, by: str = "") -> KeptRun:
        """Keeps a run that was done as a whole: its questions with the replies of its modes."""
        facts = {"by": by, "opx": run.about.get("opx", ""), "corpus": run.corpus, "modes": run.modes}
        begun = self.begin(run.dataset, run.questions, facts)
        columns = zip(*(run.replies[mode] for mode in run.modes), strict=True)
        replies = (dict(zip(run.modes, each, strict=True)) for each in columns)
        numbered = enumerate(zip(run.questions, replies, strict=True), start=1)
        self._put_replies(begun, [KeptReply(at, question, found) for at, (question, found) in numbered])
        return self.finish(replace(begun, asked=len(run.questions)))

    def runs(self, after: str = "") -> Iterator[KeptRun]:
        """Runs, the newest first, behind the id `after`."""
        where = KeyRange(high=after) if after else None
        items = self._table.query(RUNS, where=where, reverse=True)
        return (run for run in readable(_run_in, items) if run.run_id != after)

    def run(self, run_id: str) -> KeptRun:
        """One run. Raises `EvaluationNotFoundError`."""
        item = self._table.get({"scopeKey": RUNS, "gapId": run_id}) if run_id else None
        if item is None:
            raise EvaluationNotFoundError(f"no evaluation run {run_id[:60]!r}; `opx eval runs` lists them")
        return _run_in(item)

    def replies(self, run: KeptRun, after: int = 0) -> Iterator[KeptReply]:
        """The questions of a run in order, behind that number."""
        found = self._table.query(replies_partition(run.run_id), where=KeyRange(low=reply_entry(after + 1)))
        return map(_reply_in, found)

    def whole(self, run: KeptRun) -> EvaluationRun:
        """A run with the questions that were queried."""
        found = [one for one in self.replies(run) if one.replies]
        return EvaluationRun(
            dataset=run.dataset,
            corpus=run.corpus,
            questions=tuple(one.question for one in found),
            replies={mode: tuple(one.replies[mode] for one in found) for mode in run.modes},
            modes=run.modes,
            about={"opx": run.opx, "asked": run.started},
        )

    def _put(self, run: KeptRun) -> None:
        self._table.put({"scopeKey": RUNS, "gapId": run.run_id, "run": run.to_json(), "expiresAt": self._expires})

    def _put_replies(self, run: KeptRun, replies: Sequence[KeptReply]) -> None:
        self._table.put_many(
            {
                "scopeKey": replies_partition(run.run_id),
                "gapId": reply_entry(one.number),
                "question": question_json(one.question),
                "replies": {mode: reply.to_json() for mode, reply in one.replies.items()},
                "expiresAt": self._expires,
            }
            for one in replies
        )

    @property
    def _expires(self) -> int:
        return int(self._clock()) + KEPT_DAYS * _DAY_SECONDS

    # -- own questions

    def questions(self, after: str = "") -> Iterator[OwnQuestion]:
        """The own questions by id, behind `after`."""
        where = KeyRange(low=after) if after else None
        found = readable(_question_in, self._table.query(QUESTIONS, where=where))
        return (one for one in found if one.question_id != after)

    def put_question(self, question: OwnQuestion) -> None:
        """Adds a question, or replaces the one with the same text."""
        self._table.put({"scopeKey": QUESTIONS, "gapId": question.question_id, "question": question.to_json()})

    def question(self, question_id: str) -> OwnQuestion:
        """An own question. Raises `EvaluationNotFoundError`."""
        item = self._table.get({"scopeKey": QUESTIONS, "gapId": question_id}) if question_id else None
        if item is None:
            raise EvaluationNotFoundError(f"no own question {question_id[:60]!r}; `opx eval set` lists them")
        return _question_in(item)

    def remove_question(self, question_id: str) -> OwnQuestion:
        """Removes a question. Raises `EvaluationNotFoundError`."""
        removed = self.question(question_id)
        self._table.delete({"scopeKey": QUESTIONS, "gapId": question_id})
        return removed


def question_id_of(text: str) -> str:
    """The id of a question, the same for texts that differ in case and white space alone."""
    return stable_hash("own question", " ".join(text.casefold().split()))[:12]


SHOWN_FROM = Band.LIKELY.least
"""Lowest confidence of what commands, tools and the console show as an answer; a weak result is shown as none."""


def figures_of(run: EvaluationRun, mode: str) -> ModeFigures:
    """The figures of a mode."""
    at, first = abstention(run, mode, SHOWN_FROM), calibrations(run, mode)["first page"]
    taken = latencies(run, mode)[WHOLE]
    pairs = list(zip(run.questions, run.replies[mode], strict=True))
    sources = dict.fromkeys(question.kind for question, _ in pairs if question.answerable)
    return ModeFigures(
        mode,
        ndcg=_mean_ndcg(pairs),
        answered=None if at.answerable is None else rounded(1 - at.answerable),
        right=rounded(at.right),
        refused=rounded(at.unanswerable),
        brier=round(first.brier, 4),
        calibration_error=round(first.error, 4),
        p50_ms=taken.get("p50", 0.0),
        p95_ms=taken.get("p95", 0.0),
        sources=tuple(_figures_of_source(name, pairs) for name in sources),
    )


Pairs = Sequence[tuple[LabelledQuestion, JudgedReply]]


def _figures_of_source(name: str, pairs: Pairs) -> SourceFigures:
    own = [pair for pair in pairs if pair[0].answerable and pair[0].kind == name]
    answered = fmean(float(not refused(reply, SHOWN_FROM)) for _, reply in own)
    return SourceFigures(name, len(own), _mean_ndcg(own), rounded(answered))


def _mean_ndcg(pairs: Pairs) -> float | None:
    found = [ndcg(reply.pages, question.relevant) for question, reply in pairs if question.answerable]
    return rounded(fmean(found)) if found else None


class ReplyVerdict(StrEnum):
    """Outcome of one question: a right document came first, another one did, or nothing reached the floor. `REFUSED` is
    right for a question without an answer, which `FALSE` answers got one."""

    RIGHT = "right"
    WRONG = "wrong"
    UNSURE = "unsure"
    REFUSED = "refused"
    FALSE = "false"


RIGHT_VERDICTS = frozenset((ReplyVerdict.RIGHT, ReplyVerdict.REFUSED))


def verdict(question: LabelledQuestion, reply: JudgedReply) -> ReplyVerdict:
    if refused(reply, SHOWN_FROM):
        return ReplyVerdict.UNSURE if question.answerable else ReplyVerdict.REFUSED
    if not question.answerable:
        return ReplyVerdict.FALSE
    return ReplyVerdict.RIGHT if is_right(question, reply) else ReplyVerdict.WRONG


# -- items


def _run_in(item: Item) -> KeptRun:
    return KeptRun.from_json(item["run"])


def _reply_in(item: Item) -> KeptReply:
    replies = {mode: JudgedReply.from_json(one) for mode, one in item["replies"].items()}
    return KeptReply(int(item["gapId"]), question_of(item["question"]), replies)


def _question_in(item: Item) -> OwnQuestion:
    return OwnQuestion.from_json(item["question"])
