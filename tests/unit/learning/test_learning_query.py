"""Pattern queries: authorisation, selection and ranking."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from opx.adapters.embedded.database import Database
from opx.adapters.embedded.table import SqliteTable
from opx.domain.learning import EntryType, Pattern
from opx.domain.queries import QueryConfig
from opx.domain.record import replace
from opx.domain.results import Answer, RetrievalResult, ScoreParts
from opx.domain.scopes import Identity, reader_of
from opx.errors import IndexUnavailableError, InvalidInputError, NotOrchestratorError
from opx.learning.pattern_rows import head_row
from opx.learning.patterns import PatternStore
from opx.learning.query import (
    PatternMatch,
    PatternSearch,
    RAGQueryService,
    best_of,
    visible_heads,
    wilson_lower_bound,
)
from opx.learning.rules import LearningRules, check_orchestrator
from opx.learning.similarity import PatternQuestion, errors_agree, same_technology, similarity
from opx.ports import Table
from opx.ports.tables import PATTERNS
from opx.retrieval.query import Answered, Finish

PROBLEM = "Kafka consumers leave the group while a batch is worked on"
ERROR = "CommitFailedException: the group has already rebalanced"


def a_pattern(name: str = "1", **facts: Any) -> Pattern:
    given: dict[str, Any] = {
        "scope_key": "client:acme",
        "entry_type": EntryType.FAILURE_SOLUTION,
        "problem": PROBLEM,
        "solution": "Lower max.poll.records",
        "when_to_try": "With Kafka",
        "error_message": ERROR,
        "agent_types": ("backend",),
        "task_types": ("incident_response",),
        "technology": "Kafka",
        "success_count": 1,
    }
    return Pattern(pattern_id=name.rjust(32, "0"), **{**given, **facts})


def a_hit(pattern: Pattern, cosine: float | None = 0.9, **metadata: Any) -> RetrievalResult:
    parts = ScoreParts(None, None, 1, cosine, 0.5, 0.2, 1.0, 0.2)
    source = f"s3://corpus/clients/acme/{pattern.source}"
    facts = {"documentId": f"document of {pattern.pattern_id}", **metadata}
    return RetrievalResult("", 0.2, "internal", "learning/patterns", source, "", 1.0, facts, parts)


@dataclass
class RecordedAnswers:
    """An observer that records the answers."""

    answers: list[Answered] = field(default_factory=list)

    def begin(self) -> Finish:
        def finish(answered: Answered) -> Answer:
            self.answers.append(answered)
            return answered.answer

        return finish


@dataclass
class Knowing:
    """Patterns and the hits that a search finds of them."""

    patterns: Sequence[Pattern]
    hits: Sequence[RetrievalResult] | None = None
    partial: bool = False
    observer: RecordedAnswers = field(default_factory=RecordedAnswers)
    searched: list[str] = field(default_factory=list)

    def service(self) -> RAGQueryService:
        return RAGQueryService(PatternSearch(self._ask, self._heads, lambda: None, (self.observer,)))

    def _ask(self, text: str, config: QueryConfig) -> Answer:
        assert config.categories == ("learning/patterns",)
        self.searched.append(text)
        hits = [a_hit(pattern) for pattern in self.patterns] if self.hits is None else self.hits
        return Answer(
            text, tuple(hits), partial=self.partial, notes=("the search index is unavailable",) * self.partial
        )

    def _heads(self, ids: Sequence[str]) -> list[Pattern]:
        return [pattern for pattern in self.patterns if pattern.pattern_id in ids]


def solutions(knowing: Knowing, **query: Any) -> list[str]:
    """Solutions of the patterns that a query for the failure returns."""
    return [found.solution for found in knowing.service().query_for_failure(PROBLEM, ERROR, **query)]


def task_solutions(knowing: Knowing, **query: Any) -> list[str]:
    return [found.solution for found in knowing.service().query_for_task(PROBLEM, **query)]


class TestAuthorisation:
    RULES = LearningRules(orchestrators=frozenset({"planner", "opx-planner-role"}))

    @pytest.mark.parametrize(
        "principal",
        [
            "planner",
            "arn:aws:sts::123456789012:assumed-role/opx-planner-role/session-7",
            "arn:aws:iam::123456789012:role/teams/opx-planner-role",
        ],
    )
    def test_orchestrators_may(self, principal: str) -> None:
        check_orchestrator(self.RULES, Identity("acme", "shop", principal))

    @pytest.mark.parametrize(
        "principal",
        [
            "",
            "coder",
            "Planner",
            "planner2",
            "arn:aws:sts::123456789012:assumed-role/coder/opx-planner-role",
            "arn:aws:iam::123456789012:user/opx-planner-role",
            "arn:aws:iam::123456789012:role/opx-planner-role/coder",
        ],
    )
    def test_others_may_not(self, principal: str) -> None:
        with pytest.raises(NotOrchestratorError, match=r"knowledge\.yaml"):
            check_orchestrator(self.RULES, Identity("acme", "shop", principal))

    def test_nobody_may_where_none_is_named(self) -> None:
        with pytest.raises(NotOrchestratorError):
            check_orchestrator(LearningRules(), Identity("acme", "shop", "planner"))

    def test_caller_without_a_name_is_refused_even_if_the_rules_list_an_empty_name(self) -> None:
        with pytest.raises(NotOrchestratorError, match="without a name"):
            check_orchestrator(LearningRules(orchestrators=frozenset({""})), Identity("acme", "shop", ""))

    def test_refused_caller_starts_no_search(self) -> None:
        knowing = Knowing([a_pattern()])

        def refuse() -> None:
            raise NotOrchestratorError("no")

        service = RAGQueryService(replace(knowing.service()._search, check=refuse))
        for ask in (service.query_for_task, service.query_for_failure):
            with pytest.raises(NotOrchestratorError):
                ask("")
        assert (knowing.searched, knowing.observer.answers) == ([], [])


class TestOrder:
    def test_of_the_same_problem_follows_the_bound_of_the_success_rate_and_not_the_rate(self) -> None:
        once = a_pattern("1", solution="once", success_count=1)
        often = a_pattern("2", solution="often", success_count=20, failure_count=2)
        assert solutions(Knowing([once, often])) == ["often", "once"]

    def test_knows_no_time(self) -> None:
        old = a_pattern("1", solution="old", embedded_at="2019-01-01T00:00:00Z", success_count=6)
        new = a_pattern("2", solution="new", embedded_at="2030-01-01T00:00:00Z", success_count=5)
        assert solutions(Knowing([new, old])) == ["old", "new"]

    def test_has_a_much_nearer_pattern_before_one_that_worked_more_often(self) -> None:
        near = PatternMatch(a_pattern("1"), similarity=0.99)
        far = PatternMatch(a_pattern("2", success_count=1000), similarity=0.71)
        assert best_of([far, near], 2)[0] is near

    def test_of_equal_ones_is_always_the_same(self) -> None:
        some = [PatternMatch(a_pattern(str(at)), 0.8) for at in range(3)]
        assert best_of(some, 3) == best_of(reversed(some), 3)

    @pytest.mark.parametrize(
        ("successes", "failures", "bound"),
        [(0, 0, 0.0), (0, 5, 0.0), (1, 0, 0.2065), (20, 2, 0.7218), (5, 5, 0.2366), (10**7, 0, 1.0)],
    )
    def test_bound_is_wilsons(self, successes: int, failures: int, bound: float) -> None:
        assert wilson_lower_bound(successes, failures) == pytest.approx(bound, abs=1e-4)


class TestSelection:
    def test_returns_the_best_three_of_conflicting_ways(self) -> None:
        ways = [a_pattern(str(at), solution=f"way {at}", success_count=at) for at in range(1, 6)]
        assert task_solutions(Knowing(ways)) == ["way 5", "way 4", "way 3"]

    def test_leaves_room_for_other_problems_beside_conflicting_ways(self) -> None:
        ways = [a_pattern(str(at), solution=f"way {at}", success_count=9) for at in range(1, 6)]
        other = a_pattern("9", problem="Offsets of a batch are lost on restart", error_message="", solution="other")
        assert "other" in task_solutions(Knowing([*ways, other]))

    def test_returns_at_most_three_for_a_failure(self) -> None:
        problems = ("Disks fill up", "Clocks drift apart", "Keys expire", "Queues grow", "Leaders change")
        several = [a_pattern(str(at), problem=problem, error_message="") for at, problem in enumerate(problems)]
        assert len(task_solutions(Knowing(several, [a_hit(one, 0.99) for one in several]))) == 5
        assert len(solutions(Knowing(several, [a_hit(one, 0.99) for one in several]))) == 3

    def test_returns_at_most_max_results(self) -> None:
        several = [a_pattern(str(at)) for at in range(3)]
        assert len(task_solutions(Knowing(several), max_results=2)) == 2

    def test_leaves_out_patterns_below_the_threshold(self) -> None:
        pattern = a_pattern(problem="Printers have no paper", solution="Fill it in", error_message="PC LOAD LETTER")
        knowing = Knowing([pattern], [a_hit(pattern, 0.2)])
        assert (solutions(knowing), task_solutions(knowing)) == ([], [])

    def test_leaves_out_patterns_that_never_worked(self) -> None:
        assert solutions(Knowing([a_pattern(success_count=0, failure_count=3)])) == []

    def test_leaves_out_patterns_whose_head_is_gone_or_not_visible(self) -> None:
        assert solutions(Knowing([], [a_hit(a_pattern())])) == []

    def test_includes_patterns_found_as_near_duplicates(self) -> None:
        first, second = a_pattern("1", solution="one"), a_pattern("2", solution="two")
        copy = {"documentId": "d2", "source": f"file:///corpus/{second.source}"}
        assert set(solutions(Knowing([first, second], [a_hit(first, copies=[copy])]))) == {"one", "two"}

    def test_has_the_warnings_of_its_document(self) -> None:
        pattern = a_pattern()
        hit = a_hit(pattern, warnings=[{"text": "tried in INC-7, made things worse: Lower max.poll.records"}])
        (found,) = Knowing([pattern], [hit]).service().query_for_failure(PROBLEM, ERROR)
        assert found.warnings == ("tried in INC-7, made things worse: Lower max.poll.records",)

    def test_has_a_warning_where_its_text_seems_to_be_aimed_at_a_model(self) -> None:
        hit = a_hit(a_pattern(), flags=["suspected_instruction"])
        (found,) = Knowing([a_pattern()], [hit]).service().query_for_failure(PROBLEM, ERROR)
        assert "instructions to a model" in found.warnings[0]

    def test_observers_record_the_returned_patterns(self) -> None:
        knowing = Knowing([a_pattern("1"), a_pattern("2", success_count=0)])
        solutions(knowing)
        (answered,) = knowing.observer.answers
        assert [result.document_id for result in answered.answer.results] == [f"document of {'1'.rjust(32, '0')}"]

    def test_searches_the_error_too(self) -> None:
        knowing = Knowing([a_pattern()])
        knowing.service().query_for_failure("It stopped", "E42")
        assert knowing.searched == ["It stopped\nE42"]


class TestFilters:
    @pytest.mark.parametrize(
        ("query", "found"),
        [
            ({"agent_type": "backend"}, True),
            ({"agent_type": "Backend"}, True),
            ({"agent_type": "database"}, False),
            ({"task_type": "incident response"}, True),
            ({"task_type": "deployment"}, False),
            ({}, True),
        ],
    )
    def test_leave_out_patterns_of_other_agents_and_tasks(self, query: dict[str, str], found: bool) -> None:
        assert bool(solutions(Knowing([a_pattern()]), **query)) is found

    @pytest.mark.parametrize(("technology", "found"), [("Kafka", True), ("apache kafka 3", True), ("Redis", False)])
    def test_leave_out_other_technologies(self, technology: str, found: bool) -> None:
        assert bool(task_solutions(Knowing([a_pattern()]), technology=technology)) is found

    def test_let_pass_patterns_without_the_filtered_fields(self) -> None:
        pattern = a_pattern(agent_types=(), task_types=(), technology="")
        assert task_solutions(Knowing([pattern]), agent_type="x", task_type="y", technology="z")

    def test_take_a_name_that_has_all_words_of_another_for_the_same(self) -> None:
        assert same_technology("PostgreSQL 16", "postgresql")
        assert not same_technology("AWS Lambda", "AWS IAM")


class TestErrors:
    def test_agree_whatever_values_they_have(self) -> None:
        first, second = 'index "a_idx" is invalid (42)', 'the index "b_idx" is really invalid (7), drop it'
        assert errors_agree(first, second) == errors_agree(second, first) == 1.0

    def test_that_are_missing_are_not_compared(self) -> None:
        assert errors_agree("", "timeout") is None

    def test_that_differ_make_a_pattern_less_similar_than_none_and_none_less_than_the_same(self) -> None:
        def found(error: str) -> float:
            return similarity(PatternQuestion(PROBLEM, error, of_failure=True), a_pattern(), 0.4)

        assert found("Disk quota exceeded") < found("") < found(ERROR)


class TestBadQuestions:
    @pytest.mark.parametrize("most", [0, -1, 21, True, "5", 2.0])
    def test_with_a_number_of_results_that_can_not_be_are_refused(self, most: Any) -> None:
        with pytest.raises(InvalidInputError, match="max_results"):
            Knowing([]).service().query_for_task("a task", max_results=most)

    def test_without_words_are_refused(self) -> None:
        with pytest.raises(InvalidInputError, match="task_description"):
            Knowing([]).service().query_for_task(" \n")

    @pytest.mark.parametrize("name", ["task_description", "agent_type", "task_type", "technology"])
    def test_with_what_is_no_text_are_refused_by_its_name(self, name: str) -> None:
        parameters: dict[str, Any] = {"task_description": "a task", name: 5}
        with pytest.raises(InvalidInputError, match=f"{name} must be a string, not int"):
            Knowing([]).service().query_for_task(**parameters)

    def test_take_none_for_an_empty_text(self) -> None:
        service = Knowing([a_pattern()]).service()
        assert service.query_for_task(PROBLEM, None, None, None)
        assert service.query_for_failure(PROBLEM, None, None, None)

    def test_with_an_error_alone_are_answered(self) -> None:
        assert Knowing([a_pattern()]).service().query_for_failure("", ERROR)

    def test_of_any_length_are_answered_by_their_beginning(self) -> None:
        knowing = Knowing([a_pattern()])
        assert knowing.service().query_for_failure(PROBLEM, ERROR + " at line 1" * 100_000)
        assert len(knowing.searched[0]) < 30_000

    def test_raise_where_patterns_were_not_all_searched(self) -> None:
        with pytest.raises(IndexUnavailableError, match="unavailable"):
            Knowing([a_pattern()], partial=True).service().query_for_task("a task")


@pytest.fixture
def table(database: Database) -> Table:
    return SqliteTable(PATTERNS, database, clock=lambda: 0.0)


class CountedReads:
    """A table that counts the keys that are read."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self.reads = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._table, name)

    def get_many(self, keys: Sequence[dict[str, Any]]) -> Any:
        self.reads += len(keys)
        return self._table.get_many(keys)


class TestVisibleHeads:
    READER = reader_of(Identity("acme", "shop"), "", ())

    def test_are_those_of_the_reader(self, table: Table) -> None:
        mine, theirs = a_pattern("1"), a_pattern("2", scope_key="client:globex")
        table.put_many([head_row(mine), head_row(theirs)])
        both = [mine.pattern_id, theirs.pattern_id]
        assert visible_heads(PatternStore(table, lambda: 0.0), self.READER, both) == [mine]

    def test_are_looked_for_in_few_places_where_patterns_are_shared_as_they_are_by_default(self, table: Table) -> None:
        table.put_many([head_row(a_pattern("1"))])
        counted: Any = CountedReads(table)
        visible_heads(PatternStore(counted, lambda: 0.0), self.READER, [a_pattern("1").pattern_id])
        assert counted.reads == 2  # of everybody, and of the client

    def test_are_also_those_that_a_project_kept_to_itself(self, table: Table) -> None:
        own = a_pattern("1", scope_key="client:acme/project:shop")
        table.put_many([head_row(own)])
        assert visible_heads(PatternStore(table, lambda: 0.0), self.READER, [own.pattern_id]) == [own]
