"""A second project finds the patterns of a first one: a part of the cases, so that it is quick.

`python -m tests.quality.learning --judge` runs all of them; docs/learning.md has its results.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from opx.domain.learning import GATES as DECISIONS
from opx.domain.record import replace
from opx.errors import NotOrchestratorError
from opx.operations.system import System
from opx.settings import Settings
from opx.system import bootstrap
from tests.quality.learning.cases import (
    ALIKE,
    ASKING,
    HELD_OUT,
    OTHER_CLIENT,
    TASK,
    TUNED,
    Case,
    ask,
    cases,
    half_of,
    patterns,
    repeats,
    teach,
)
from tests.quality.learning.figures import CaseAnswer, answered, figures, of_failures, of_gates, teach_again

TAUGHT = 8
"""Number of held-out patterns, the first ones."""

TOLERANCE = 0.05
GATES, FAILURES = 0.911, 0.960
"""Measured on the half that is only judged, among all patterns (docs/learning.md): the share of questions that have a pattern
that helps among the first three."""

FALSE_AND_SURE = 0.02
"""The highest share of questions that nothing helps with and that have a sure pattern."""

REPETITIONS = 33
"""The least number of repetitions in other words that are counted, of 37."""


class TestCases:
    def test_are_enough(self) -> None:
        assert len([case for case in cases() if case.expects]) >= 60
        assert len([case for case in cases() if not case.expects]) >= 60
        tasks = [case for case in cases() if case.query_kind == TASK]
        assert len(tasks) >= 150
        assert len([case for case in tasks if case.expects and case.entry_type in DECISIONS]) >= 60
        assert len([case for case in tasks if case.id.startswith("near")]) >= 60

    def test_of_patterns_with_the_same_advice_are_about_existing_ones(self) -> None:
        assert {name for pair in ALIKE for name in pair} <= {pattern.id for pattern in patterns()}

    def test_name_existing_patterns(self) -> None:
        there = {pattern.id for pattern in patterns()}
        assert {case.about for case in cases()} <= there
        assert {case.expects for case in cases()} - {""} <= there
        assert {repeat.about for repeat in repeats()} <= there

    def test_have_a_question_for_every_pattern(self) -> None:
        assert {case.expects for case in cases()} - {""} == {pattern.id for pattern in patterns()}

    def test_are_in_both_halves(self) -> None:
        for half in (TUNED, HELD_OUT):
            kinds = {(case.query_kind, bool(case.expects)) for case in cases() if case.half == half}
            assert len(kinds) == 4

    def test_have_no_question_twice(self) -> None:
        texts = [case.text.casefold() for case in cases()]
        assert len(set(texts)) == len(texts)

    def test_have_no_question_in_the_words_of_its_pattern(self) -> None:
        problems = {pattern.text("failure_description").casefold() for pattern in patterns()}
        assert not [case.id for case in cases() if case.text.casefold() in problems]


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> list[CaseAnswer]:
    """Answers among all patterns to questions of the half that nothing was fitted on."""
    judged = [case for case in cases() if case.half == HELD_OUT and not case.id.startswith("far")]
    chosen = [case for case in judged if (case.query_kind == TASK) == (case.entry_type in DECISIONS)]
    with bootstrap(Settings(home=str(tmp_path_factory.mktemp("judged")))) as services:
        return list(answered(services, teach(services, patterns()), chosen))


@pytest.mark.timeout(900)
class TestJudgedHalf:
    def test_has_its_figures(self, judged: list[CaseAnswer]) -> None:
        gates, failures = figures(filter(of_gates, judged)), figures(filter(of_failures, judged))
        assert (gates.helped, failures.helped) == (56, 50)
        assert gates.hit3 >= GATES - TOLERANCE
        assert failures.hit3 >= FAILURES - TOLERANCE

    def test_has_hardly_a_sure_pattern_that_does_not_help(self, judged: list[CaseAnswer]) -> None:
        found = figures(judged)
        assert found.sure > 20
        assert max(found.false_sure, found.sure_wrong) <= FALSE_AND_SURE


@pytest.mark.timeout(300)
class TestRepetitions:
    def test_are_counted_in_other_words_and_other_solutions_are_not(self, tmp_path: Path) -> None:
        """36 of 37 and 0 of 18 beside all patterns (`python -m tests.quality.learning --again`); here beside those alone."""
        about = {repeat.about for repeat in repeats()}
        with bootstrap(Settings(home=str(tmp_path))) as services:
            names = teach(services, [pattern for pattern in patterns() if pattern.id in about])
            found = teach_again(services, repeats())
        same = [names.get(found[one.taught.id]) == one.about for one in repeats() if one.same]
        assert (len(same), len(found) - len(same)) == (37, 18)
        assert sum(same) >= REPETITIONS
        assert not [one.taught.id for one in repeats() if not one.same and found[one.taught.id] in names]


@dataclass(frozen=True)
class World:
    services: System
    names: dict[str, str]
    cases: list[Case]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    taught = [pattern for pattern in patterns() if half_of(pattern.id) == HELD_OUT][:TAUGHT]
    some = [case for case in cases() if case.about in {pattern.id for pattern in taught}]
    with bootstrap(Settings(home=str(tmp_path_factory.mktemp("learning")))) as services:
        yield World(services, teach(services, taught), some)


@pytest.mark.timeout(120)
class TestSecondProject:
    def test_finds_the_patterns_of_the_first_one(self, world: World) -> None:
        found = figures(answered(world.services, world.names, world.cases))
        assert found.hit3 >= 0.9
        assert found.false_sure <= FALSE_AND_SURE

    def test_of_another_client_finds_nothing(self, world: World) -> None:
        answered = [case for case in world.cases if ask(world.services, case, ASKING)]
        assert answered
        assert not [case.id for case in answered if ask(world.services, case, OTHER_CLIENT)]

    def test_gets_a_framed_context_for_its_orchestrator(self, world: World) -> None:
        case = next(case for case in world.cases if case.query_kind == TASK and ask(world.services, case))
        task = {"description": case.text, "technology": case.technology}
        context = world.services.pattern_queries.context_builder(ASKING).build_context_for_task(task, case.agent_type)
        assert context.startswith(f"Task: {case.text}\n")
        assert "\n\n[ORCHESTRATOR CONTEXT: Historical Knowledge]\n" in context

    def test_is_refused_for_another_of_its_agents(self, world: World) -> None:
        coder = replace(ASKING, principal="coder")
        with pytest.raises(NotOrchestratorError, match="coder"):
            world.services.pattern_queries.of(coder).query_for_task("Replace a broker")

    def test_the_operator_may_query_without_a_name(self, world: World) -> None:
        assert world.services.pattern_queries.of().query_for_task("Replace a broker") == []
