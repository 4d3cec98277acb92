"""Operations that measure quality: the knowledge base's own labelled questions, evaluation runs, and comparisons of two.

Runs and questions are the installation's, queried as a reader of its scope, so only its curators may see and change them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from statistics import fmean
from typing import TYPE_CHECKING, Annotated

from msgspec import field

from opx.domain.ids import iso_time
from opx.domain.policy import Action, Target
from opx.domain.queries import QueryConfig, SearchMode
from opx.domain.record import Record, about, replace, rounded
from opx.domain.requests import Filled, FilledText, Request, Text
from opx.errors import InvalidInputError
from opx.operations.context import Context
from opx.operations.documents import IdBeginning, find_document
from opx.operations.paging import MAX_PAGE, After, Limit, Next, fitting
from opx.operations.registry import operation
from opx.runtime.deadlines import remaining
from opx_quality.evaluation.figures import ndcg
from opx_quality.evaluation.kept import (
    Evaluations,
    KeptReply,
    KeptRun,
    OwnQuestion,
    ReplyVerdict,
    RunState,
    question_id_of,
    verdict,
)
from opx_quality.evaluation.runs import JudgedReply

if TYPE_CHECKING:
    from opx.retrieval.query import KnowledgeQuery
    from opx_quality.evaluation.datasets import LabelledQuestion

MAX_QUESTIONS = 1000
MAX_QUESTION = 2000
UNANSWERABLE = "unanswerable"
SPARE_SECONDS = 8.0
"""Time left for the current question and the reply when a run stops before the end of a request."""

_PAGES, _RESULTS = 20, 40
WARM_UP = "which runbook is for a disk that is full"
"""Loads the models, so that the first reply doesn't take longer than others."""

_MODE = SearchMode.BALANCED.value

RunId = Annotated[FilledText, about("The id of a run.")]
Mode = Annotated[Text, about("The mode whose replies are shown; left out, `balanced`, or else the first of the run.")]
Offset = Annotated[int, about("`next` of the previous page; left out for the first.", ge=0, le=1_000_000)]
NextOffset = Annotated[int, about("Value of `after` for the next page; absent on the last.")]


def of_installation(context: Context, _: Request) -> Target:
    return context.system.installation.scope


def _evaluations(context: Context) -> Evaluations:
    return Evaluations.of(context.system)


# -- own questions


class ListOwnQuestions(Request, frozen=True):
    limit: Limit = MAX_PAGE
    after: After = ""


class OwnQuestions(Record, frozen=True, omit_defaults=True):
    questions: tuple[OwnQuestion, ...]
    next: Next = ""


@operation(http="GET /evaluations/questions", action=Action.CURATE, target=of_installation)
def list_own_questions(context: Context, request: ListOwnQuestions) -> OwnQuestions:
    """List the knowledge base's own labelled questions, which evaluations ask."""
    found, more = fitting(_evaluations(context).questions(request.after), request.limit)
    return OwnQuestions(found, found[-1].question_id if more else "")


class AddOwnQuestion(Request, frozen=True):
    text: Annotated[Filled, about("The question, as people ask it.", max_length=MAX_QUESTION)]
    document_ids: Annotated[
        tuple[IdBeginning, ...],
        about("The right documents, the best first; none for a question without an answer.", max_length=20),
    ] = ()
    canary: Annotated[bool, about("Ask it every hour.")] = False


@operation(http="POST /evaluations/questions", action=Action.CURATE, target=of_installation)
def add_own_question(context: Context, request: AddOwnQuestion) -> OwnQuestion:
    """Add a question with its right documents to the knowledge base's own ones, in place of one with the same text.

    Raises `DocumentNotFoundError`, and `InvalidInputError` if there are too many questions.
    """
    documents = [find_document(context, one) for one in request.document_ids]
    question = OwnQuestion(
        question_id_of(request.text),
        request.text.strip(),
        {one.source_uri: 1 for one in documents},
        tuple(one.title for one in documents),
        documents[0].category if documents else UNANSWERABLE,
        iso_time(context.system.clock()),
        context.identity.principal,
        request.canary,
    )
    evaluations = _evaluations(context)
    known = {one.question_id for one in evaluations.questions()}
    if len(known | {question.question_id}) > MAX_QUESTIONS:
        raise InvalidInputError(f"there are {MAX_QUESTIONS:,} questions already: remove some first")
    evaluations.put_question(question)
    return question


class RemoveOwnQuestion(Request, frozen=True):
    question_id: Annotated[FilledText, about("The id of an own question.")]


@operation(http="DELETE /evaluations/questions/{questionId}", action=Action.CURATE, target=of_installation)
def remove_own_question(context: Context, request: RemoveOwnQuestion) -> OwnQuestion:
    """Remove one of the knowledge base's own questions; earlier runs keep theirs.

    Raises `EvaluationNotFoundError`.
    """
    return _evaluations(context).remove_question(request.question_id)


# -- runs


class ListEvaluations(Request, frozen=True):
    limit: Limit = 50
    after: After = ""


class EvaluationRuns(Record, frozen=True, omit_defaults=True):
    runs: tuple[KeptRun, ...]
    next: Next = ""


@operation(http="GET /evaluations", action=Action.CURATE, target=of_installation)
def list_evaluations(context: Context, request: ListEvaluations) -> EvaluationRuns:
    """List evaluation runs with their figures, the newest first."""
    found, more = fitting(_evaluations(context).runs(request.after), request.limit)
    return EvaluationRuns(found, found[-1].run_id if more else "")


class RunEvaluation(Request, frozen=True):
    run_id: Annotated[Text, about("An unfinished run to go on with; left out, a new one.")] = ""


@operation(http="POST /evaluations", action=Action.CURATE, target=of_installation)
def run_evaluation(context: Context, request: RunEvaluation) -> KeptRun:
    """Ask all of the knowledge base's own questions, unrecorded, and keep the run with its figures.

    A run that takes longer than a request may stays in the state `running`: call again with its id to go on. Raises
    `InvalidInputError` without questions, `EvaluationNotFoundError`, and `StoreUnavailableError`.
    """
    evaluations = _evaluations(context)
    run = evaluations.run(request.run_id) if request.run_id else _begun(context, evaluations)
    if run.state is RunState.DONE:
        return run
    knowledge = context.system.questions.for_reader(recorded=False)
    reply_to(knowledge, WARM_UP)
    for one in list(evaluations.replies(run, run.asked)):
        left = remaining()
        if left is not None and left < SPARE_SECONDS:
            return run
        reply = reply_to(knowledge, one.question.text)
        run = evaluations.answer(run, replace(one, replies={_MODE: reply}))
        context.progress(f"{run.asked} of {run.questions} questions asked", run.asked)
    return evaluations.finish(run)


def _begun(context: Context, evaluations: Evaluations) -> KeptRun:
    questions = [one.labelled() for one in evaluations.questions()]
    if not questions:
        raise InvalidInputError(
            "there are no questions yet: add some from answers, or with `opx eval add QUESTION DOCUMENT`"
        )
    import opx

    version = context.system.indexing.corpus_version
    facts = {
        "by": context.identity.principal,
        "opx": opx.__version__,
        "corpus": version.current().version if version else "",
        "modes": (_MODE,),
    }
    return evaluations.begin("", questions, facts)


def reply_to(knowledge: KnowledgeQuery, text: str) -> JudgedReply:
    """The reply to a question at a floor of 0, so that it can be judged at every floor; a document is as good as its best
    passage."""
    started = time.perf_counter()
    answer = knowledge.search(text, QueryConfig(min_confidence=0.0, max_results=_RESULTS))
    taken = 1000 * (time.perf_counter() - started)
    pages: dict[str, float] = {}
    for result in answer.results:
        pages[result.source] = max(pages.get(result.source, 0.0), result.confidence)
    kept = dict(list(pages.items())[:_PAGES])
    return JudgedReply(
        tuple(kept),
        tuple(kept.values()),
        taken,
        answer.timings_ms,
        answer.ranked_by,
        answer.partial,
        tuple(one.name for one in answer.absent),
    )


# -- questions of runs


class RunReply(Record, frozen=True):
    """The reply of a run to one question. `rank` is that of the first right document, null if it was not found; `confidence`
    is the best one."""

    verdict: ReplyVerdict
    rank: int | None
    confidence: float
    ndcg: Annotated[float | None, about("nDCG@10; null for a question without an answer.")]
    milliseconds: float
    found: Annotated[tuple[str, ...], about("The first documents that were found, by their source.")]


class RunQuestion(Record, frozen=True):
    question_id: str
    text: str
    source: str
    expected: Annotated[tuple[str, ...], about("Sources of the right documents.")]
    reply: Annotated[RunReply | None, about("Null while it wasn't asked.")]


class GetEvaluation(Request, frozen=True):
    run_id: RunId
    mode: Mode = ""
    limit: Limit = 100
    after: Offset = 0


class EvaluationDetails(Record, frozen=True, omit_defaults=True):
    """A run with a page of its questions, in their order."""

    run: KeptRun
    mode: str
    questions: tuple[RunQuestion, ...]
    next: NextOffset = 0


@operation(http="GET /evaluations/{runId}", action=Action.CURATE, target=of_installation)
def get_evaluation(context: Context, request: GetEvaluation) -> EvaluationDetails:
    """Show an evaluation run with its questions and the replies to them.

    Raises `EvaluationNotFoundError`, and `InvalidInputError` for a mode that the run doesn't have.
    """
    evaluations = _evaluations(context)
    run = evaluations.run(request.run_id)
    mode = _mode_of(run, request.mode)
    rows = (_row(one, mode) for one in evaluations.replies(run, request.after))
    found, more = fitting(rows, request.limit)
    return EvaluationDetails(run, mode, found, request.after + len(found) if more else 0)


def _mode_of(run: KeptRun, wanted: str) -> str:
    mode = wanted or (_MODE if _MODE in run.modes else run.modes[0])
    if mode not in run.modes:
        raise InvalidInputError(f"the run {run.run_id} has no mode {mode!r}; it has {', '.join(run.modes)}")
    return mode


def _row(one: KeptReply, mode: str) -> RunQuestion:
    question = one.question
    reply = judged(question, one.replies[mode]) if one.replies else None
    return RunQuestion(question.id, question.text, question.kind, tuple(question.relevant), reply)


def judged(question: LabelledQuestion, reply: JudgedReply) -> RunReply:
    ranks = (at for at, page in enumerate(reply.pages, start=1) if page in question.relevant)
    return RunReply(
        verdict(question, reply),
        next(ranks, None),
        round(reply.best, 4),
        rounded(ndcg(reply.pages, question.relevant)) if question.answerable else None,
        round(reply.milliseconds, 1),
        reply.pages[:5],
    )


# -- comparison


class CompareEvaluations(Request, frozen=True, rename={"run_id": "runId", "other_id": "with"}):
    run_id: RunId
    other_id: Annotated[FilledText, about("The id of the later run.")]
    mode: Mode = ""
    limit: Limit = 100
    after: Offset = 0


class ComparedQuestion(Record, frozen=True):
    """A question with the replies of two runs. `difference` is the second nDCG@10 minus the first, null for a question
    without an answer."""

    question_id: str
    text: str
    source: str
    expected: tuple[str, ...]
    first: RunReply
    second: RunReply
    difference: float | None


class EvaluationComparison(Record, frozen=True, omit_defaults=True):
    """Two runs over the questions that both have with the same right documents; others are counted in `only_one`. The
    questions that lost most come first."""

    first: KeptRun
    second: KeptRun
    mode: str
    common: int = field(default=0)
    only_one: int = 0
    ndcg: Annotated[tuple[float, ...], about("Means over the common questions: of the first, of the second.")] = ()
    better: int = 0
    worse: int = 0
    questions: tuple[ComparedQuestion, ...] = ()
    next: NextOffset = 0


@operation(http="GET /evaluations/{runId}/comparison", action=Action.CURATE, target=of_installation)
def compare_evaluations(context: Context, request: CompareEvaluations) -> EvaluationComparison:
    """Compare two evaluation runs question by question.

    Raises `EvaluationNotFoundError`, and `InvalidInputError` for a mode that one of them doesn't have.
    """
    evaluations = _evaluations(context)
    first, second = evaluations.run(request.run_id), evaluations.run(request.other_id)
    mode = _mode_of(first, request.mode)
    _mode_of(second, mode)
    before, after = (_queried(evaluations.replies(run)) for run in (first, second))
    common = [key for key in before if key in after]
    rows = sorted(_differences(before, after, common, mode), key=_loss)
    found, more = fitting(islice(rows, request.after, None), request.limit)
    return EvaluationComparison(
        first,
        second,
        mode,
        common=len(common),
        only_one=len(before) + len(after) - 2 * len(common),
        ndcg=tuple(_means(rows)),
        better=sum((row.difference or 0) > 0 for row in rows),
        worse=sum((row.difference or 0) < 0 for row in rows),
        questions=found,
        next=request.after + len(found) if more else 0,
    )


_Key = tuple[str, tuple[tuple[str, int], ...]]


def _queried(replies: Iterator[KeptReply]) -> dict[_Key, KeptReply]:
    """The queried questions, by text and right documents."""
    return {(one.question.text, tuple(sorted(one.question.relevant.items()))): one for one in replies if one.replies}


def _differences(
    before: dict[_Key, KeptReply], after: dict[_Key, KeptReply], common: Sequence[_Key], mode: str
) -> Iterator[ComparedQuestion]:
    for key in common:
        question = before[key].question
        first, second = (judged(question, run[key].replies[mode]) for run in (before, after))
        difference = None if first.ndcg is None or second.ndcg is None else round(second.ndcg - first.ndcg, 4)
        expected = tuple(question.relevant)
        yield ComparedQuestion(question.id, question.text, question.kind, expected, first, second, difference)


def _loss(row: ComparedQuestion) -> tuple[float, bool, str]:
    """Sorts by loss of nDCG, then questions whose verdict changed."""
    return row.difference or 0.0, row.first.verdict is row.second.verdict, row.text


def _means(rows: Sequence[ComparedQuestion]) -> Iterator[float]:
    sides: tuple[Callable[[ComparedQuestion], float | None], ...] = (
        lambda row: row.first.ndcg,
        lambda row: row.second.ndcg,
    )
    for side in sides:
        values = [value for row in rows if (value := side(row)) is not None]
        if values:
            yield round(fmean(values), 4)
