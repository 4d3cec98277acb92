"""Own questions that are queried every hour."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from opx.domain.scopes import Identity
from opx.errors import EvaluationNotFoundError, InvalidInputError
from opx.operations import feeds
from opx.operations.context import Caller, Context
from opx.operations.system import System
from opx.runtime.deadlines import limited
from opx_quality import canaries
from opx_quality.canaries import (
    EVERY_SECONDS,
    MAX_CANARIES,
    CanaryFeed,
    ListCanaries,
    MarkCanary,
    RunCanaries,
    ask_canaries,
    list_canaries,
    mark_canary,
    run_canaries,
)
from opx_quality.evaluation.kept import OwnQuestion
from opx_quality.quality import AddOwnQuestion, add_own_question
from tests.support.agent_calls import CORPUS, DISK, DISK_TITLE, a_system, id_of


@pytest.fixture
def context(tmp_path: Path) -> Iterator[Context]:
    ticking = count(1_800_000_000.0, 60.0)
    with a_system(tmp_path / "home", CORPUS, clock=lambda: next(ticking)) as system:
        yield Context(system, Caller(Identity(), owns_system=True))


def added(context: Context, text: str = DISK_TITLE, **more: object) -> OwnQuestion:
    documents = (id_of(context.system, DISK),)
    return add_own_question(context, AddOwnQuestion(text, documents, **more))  # type: ignore[arg-type]


def test_no_question_is_a_canary_unless_it_is_marked(context: Context) -> None:
    question = added(context)
    assert list_canaries(context, ListCanaries()).canaries == ()
    assert mark_canary(context, MarkCanary(question.question_id)).canary
    (found,) = list_canaries(context, ListCanaries()).canaries
    assert (found.question.question_id, found.results) == (question.question_id, ())


def test_a_canary_is_queried_and_its_results_are_kept_the_newest_first(context: Context) -> None:
    added(context, canary=True)
    run_canaries(context, RunCanaries())
    (found,) = run_canaries(context, RunCanaries()).canaries
    verdicts = [one.reply.verdict for one in found.results if one.reply]
    assert verdicts == ["right", "right"]
    assert found.results[0].at > found.results[1].at
    (limited_to_one,) = list_canaries(context, ListCanaries(results=1)).canaries
    assert limited_to_one.results == found.results[:1]


def test_a_canary_that_has_ended_is_not_queried(context: Context) -> None:
    question = added(context, canary=True)
    mark_canary(context, MarkCanary(question.question_id, canary=False))
    with pytest.raises(InvalidInputError, match="no question is a canary"):
        run_canaries(context, RunCanaries())


def test_a_question_that_does_not_exist_is_no_canary(context: Context) -> None:
    with pytest.raises(EvaluationNotFoundError):
        mark_canary(context, MarkCanary("f" * 12))


def test_there_are_not_too_many(context: Context) -> None:
    for number in range(MAX_CANARIES):
        added(context, f"question {number}", canary=True)
    with pytest.raises(InvalidInputError, match="already"):
        mark_canary(context, MarkCanary(added(context, "one more").question_id))


def test_none_is_queried_without_time(context: Context) -> None:
    added(context, canary=True)
    with limited(lambda: 1.0):
        ask_canaries(context.system)
    assert list_canaries(context, ListCanaries()).canaries[0].results == ()


def test_a_machine_without_a_scheduler_queries_them_every_hour(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    queried: list[System] = []
    monkeypatch.setattr(canaries, "ask_canaries", queried.append)
    (feed,) = (one for one in feeds(context.system) if isinstance(one, CanaryFeed))
    for _ in range(int(2 * EVERY_SECONDS / 60.0)):
        feed.poll()
    assert len(queried) in (1, 2)
