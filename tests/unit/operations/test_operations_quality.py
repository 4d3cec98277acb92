"""Own questions, evaluation runs and their comparison, for curators of the installation, in a folder and on AWS."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import boto3
import pytest

from opx.domain.scopes import Identity
from opx.edges.calling import perform
from opx.errors import DocumentNotFoundError, EvaluationNotFoundError, ForbiddenError, InvalidInputError
from opx.operations import load
from opx.operations.context import Caller, Context
from opx.operations.system import System
from opx.runtime.deadlines import deadline
from opx_quality import quality
from opx_quality.evaluation.kept import Evaluations, ReplyVerdict, RunState
from opx_quality.quality import (
    AddOwnQuestion,
    CompareEvaluations,
    GetEvaluation,
    ListEvaluations,
    ListOwnQuestions,
    RemoveOwnQuestion,
    RunEvaluation,
)
from tests.aws.cloud import a_cloud
from tests.support.agent_calls import CORPUS, DISK, DISK_TITLE, a_system, id_of

EGG = "1 egg: how do I boil it"


def _folder(stack: ExitStack, request: pytest.FixtureRequest) -> System:
    return stack.enter_context(a_system(request.getfixturevalue("tmp_path") / "home", CORPUS))


def _cloud(stack: ExitStack, request: pytest.FixtureRequest) -> System:
    aws: boto3.Session = request.getfixturevalue("aws")
    cloud = stack.enter_context(a_cloud(aws))
    for key, text in CORPUS.items():
        cloud.put(key, text)
    cloud.deliver()
    return cloud.services


@pytest.fixture(params=[_folder, _cloud], ids=["folder", "aws"])
def system(request: pytest.FixtureRequest) -> Iterator[System]:
    with ExitStack() as stack:
        yield request.param(stack, request)


@pytest.fixture
def call(system: System) -> Callable[[Any, Any], Any]:
    return caller_of(system)


def caller_of(system: System, *scopes: str, client: str = "") -> Callable[[Any, Any], Any]:
    """Performs operations for a token with these scopes, a curator's without any."""
    own = Identity(client or system.settings.client_id, "" if client else system.settings.project_id, "ann")
    context = Context(system, Caller(own, token_scopes=frozenset(scopes or {"opx/curate"})))
    return lambda run, request: perform(load().of(run), context, request)


def ask(call: Callable[[Any, Any], Any], system: System) -> None:
    """Adds a question with an answer and one without."""
    call(quality.add_own_question, AddOwnQuestion(text=DISK_TITLE, document_ids=(id_of(system, DISK),)))
    call(quality.add_own_question, AddOwnQuestion(text=EGG))


def test_a_run_queries_every_question_and_has_its_figures(call: Callable[[Any, Any], Any], system: System) -> None:
    ask(call, system)
    run = call(quality.run_evaluation, RunEvaluation())
    assert (run.state, run.asked, run.questions, run.by, run.dataset) == (RunState.DONE, 2, 2, "ann", "")
    (figures,) = run.figures
    assert (figures.mode, figures.ndcg, figures.sources[0].questions) == ("balanced", 1.0, 1)
    details = call(quality.get_evaluation, GetEvaluation(run_id=run.run_id))
    by_text = {one.text: one.reply for one in details.questions}
    assert (by_text[DISK_TITLE].rank, by_text[DISK_TITLE].ndcg) == (1, 1.0)
    assert by_text[EGG].verdict in (ReplyVerdict.REFUSED, ReplyVerdict.FALSE)
    assert call(quality.list_evaluations, ListEvaluations()).runs == (run,)


def test_questions_of_a_run_leave_no_trace(call: Callable[[Any, Any], Any], system: System) -> None:
    ask(call, system)
    call(quality.run_evaluation, RunEvaluation())
    assert list(system.records.audit.records()) == []
    assert list(system.records.gaps.gaps("global")) == []


def test_a_run_that_is_cut_off_goes_on_where_it_was(
    call: Callable[[Any, Any], Any], system: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask(call, system)
    left = iter([100.0, 0.0])
    monkeypatch.setattr(quality, "remaining", lambda: next(left))
    run = call(quality.run_evaluation, RunEvaluation())
    assert (run.state, run.asked, run.figures) == (RunState.RUNNING, 1, ())
    monkeypatch.setattr(quality, "remaining", lambda: None)
    whole = call(quality.run_evaluation, RunEvaluation(run_id=run.run_id))
    assert (whole.state, whole.asked, whole.run_id) == (RunState.DONE, 2, run.run_id)
    assert call(quality.run_evaluation, RunEvaluation(run_id=run.run_id)) == whole
    assert len(call(quality.list_evaluations, ListEvaluations()).runs) == 1


def test_a_request_without_time_queries_nothing(call: Callable[[Any, Any], Any], system: System) -> None:
    ask(call, system)
    with deadline(1.0):
        assert call(quality.run_evaluation, RunEvaluation()).asked == 0


def test_two_runs_are_compared_over_the_questions_of_both(call: Callable[[Any, Any], Any], system: System) -> None:
    ask(call, system)
    first = call(quality.run_evaluation, RunEvaluation())
    evaluations = Evaluations.of(system)
    whole = evaluations.whole(first)
    worse = evaluations.keep(_without_pages(whole))
    call(quality.add_own_question, AddOwnQuestion(text="another one"))
    call(quality.remove_own_question, RemoveOwnQuestion(question_id=_id_of(call, EGG)))
    third = call(quality.run_evaluation, RunEvaluation())
    found = call(quality.compare_evaluations, CompareEvaluations(run_id=first.run_id, other_id=worse.run_id))
    assert (found.common, found.only_one, found.ndcg, found.better, found.worse) == (2, 0, (1.0, 0.0), 0, 1)
    assert [one.text for one in found.questions] == [DISK_TITLE, EGG]
    assert (found.questions[0].first.rank, found.questions[0].second.rank, found.questions[0].difference) == (
        1,
        None,
        -1,
    )
    other = call(quality.compare_evaluations, CompareEvaluations(run_id=first.run_id, other_id=third.run_id))
    assert (other.common, other.only_one) == (1, 2)


def _without_pages(run: Any) -> Any:
    from opx.domain.record import replace
    from opx_quality.evaluation.runs import JudgedReply

    return replace(run, replies={"balanced": tuple(JudgedReply(()) for _ in run.questions)})


def _id_of(call: Callable[[Any, Any], Any], text: str) -> str:
    found = call(quality.list_own_questions, ListOwnQuestions()).questions
    return str(next(one.question_id for one in found if one.text == text))


def test_questions_and_runs_are_paged(call: Callable[[Any, Any], Any], system: System) -> None:
    for number in range(3):
        call(quality.add_own_question, AddOwnQuestion(text=f"question {number}"))
    page = call(quality.list_own_questions, ListOwnQuestions(limit=2))
    rest = call(quality.list_own_questions, ListOwnQuestions(limit=2, after=page.next))
    assert len({one.text for one in (*page.questions, *rest.questions)}) == 3
    assert rest.next == ""
    run = call(quality.run_evaluation, RunEvaluation())
    first = call(quality.get_evaluation, GetEvaluation(run_id=run.run_id, limit=2))
    second = call(quality.get_evaluation, GetEvaluation(run_id=run.run_id, limit=2, after=first.next))
    assert len({one.text for one in (*first.questions, *second.questions)}) == 3


def test_the_same_question_is_kept_once(call: Callable[[Any, Any], Any], system: System) -> None:
    call(quality.add_own_question, AddOwnQuestion(text="Disk  FULL"))
    added = call(quality.add_own_question, AddOwnQuestion(text="disk full", document_ids=(id_of(system, DISK),)))
    (kept,) = call(quality.list_own_questions, ListOwnQuestions()).questions
    assert kept == added
    assert kept.titles == (DISK_TITLE,)


def test_what_is_not_there_is_an_error(call: Callable[[Any, Any], Any], system: System) -> None:
    with pytest.raises(InvalidInputError, match="there are no questions yet"):
        call(quality.run_evaluation, RunEvaluation())
    with pytest.raises(EvaluationNotFoundError):
        call(quality.get_evaluation, GetEvaluation(run_id="20260101T000000-abcdef"))
    with pytest.raises(EvaluationNotFoundError):
        call(quality.remove_own_question, RemoveOwnQuestion(question_id="nothing"))
    with pytest.raises(DocumentNotFoundError):
        call(quality.add_own_question, AddOwnQuestion(text="x", document_ids=("0" * 32,)))
    ask(call, system)
    run = call(quality.run_evaluation, RunEvaluation())
    with pytest.raises(InvalidInputError, match="has no mode 'fast'"):
        call(quality.get_evaluation, GetEvaluation(run_id=run.run_id, mode="fast"))


def test_there_are_not_more_questions_than_a_run_can_ask(
    call: Callable[[Any, Any], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quality, "MAX_QUESTIONS", 1)
    call(quality.add_own_question, AddOwnQuestion(text="one"))
    call(quality.add_own_question, AddOwnQuestion(text="One"))
    with pytest.raises(InvalidInputError, match="there are 1 questions already"):
        call(quality.add_own_question, AddOwnQuestion(text="two"))


@pytest.mark.parametrize("scopes", [("opx/read",), ("opx/write",), ("opx/orchestrate",)])
def test_only_curators_measure(system: System, scopes: tuple[str, ...]) -> None:
    call = caller_of(system, *scopes)
    with pytest.raises(ForbiddenError):
        call(quality.list_evaluations, ListEvaluations())
    with pytest.raises(ForbiddenError):
        call(quality.add_own_question, AddOwnQuestion(text="x"))


def test_a_curator_of_another_client_sees_nothing(system: System) -> None:
    with pytest.raises(ForbiddenError):
        caller_of(system, client="rival")(quality.list_own_questions, ListOwnQuestions())
