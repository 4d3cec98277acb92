"""Decisions of people come back: gates, bands, expiry, and the searches that find patterns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from opx.domain.learning import EntryType, RAGPattern
from opx.domain.queries import Band, QueryConfig
from opx.domain.scopes import Identity
from opx.errors import InvalidInputError
from opx.learning.query import PatternMatch, PatternSearch, RAGQueryService, is_expired, one_sure_problem
from opx.learning.review_topics import topic_of, topics
from opx.learning.rules import Audience, LearningRules
from opx.operations.context import Caller, Context
from opx.operations.learning import CaptureEntry, capture_entry
from opx.operations.search import run_search
from opx.operations.search_tools import SearchDocs, search_docs
from opx.operations.system import System
from opx.settings import Settings
from opx.system import bootstrap
from opx_testing.fake_time import FakeTime
from tests.support.captures import capture_failure_solution, capture_gate_approval, capture_gate_rejection
from tests.support.cli_support import WordEmbedder
from tests.support.fakes import WordsEmbedder
from tests.unit.learning.test_learning_query import Knowing, a_hit, a_pattern

YEAR = 365 * 86_400
ACME = Identity("acme", "shop", "orchestrator")
FEEDBACK = "There is no pagination and no upper limit: the endpoint returns every row"


@pytest.fixture
def services(tmp_path: Any, time: FakeTime) -> Iterator[System]:
    with bootstrap(Settings(home=str(tmp_path)), embedder=WordEmbedder(), clock=time.clock) as found:
        yield found


def decided(services: System) -> None:
    """A project whose reviewers rejected an endpoint and approved an outbox."""
    capture = services.learning.capture(Identity("acme", "orders"))
    capture_gate_rejection(capture, "orders", "api_review", FEEDBACK, "Cursor pagination with a page size of 50")
    capture_gate_approval(capture, "orders", "architecture_review", "An outbox table in the same transaction")
    services.learning.checkpoints(Identity("acme", "orders")).process_checkpoint("orders")
    list(services.manager.work())


class TestTopics:
    def test_of_a_rejection_is_known_by_the_reviewer_s_words(self) -> None:
        found = topic_of(FEEDBACK)
        assert found
        assert (found.topic, "endpoint" in found.work) == ("pagination", True)

    def test_of_other_text_is_none(self) -> None:
        assert topic_of("The logo is too small for the poster") is None

    def test_have_different_names(self) -> None:
        assert len({one.topic for one in topics()}) == len(topics()) > 50

    def test_are_what_a_decision_is_to_be_tried_for(self, services: System) -> None:
        decided(services)
        (found,) = services.pattern_queries.of(ACME).query_for_gate("api_review")
        assert found.when_to_try == (
            "Before api_review is requested for such work: an endpoint that lists records; expose a collection over REST; "
            "return all orders, customers or invoices, and when it was rejected for such a reason"
        )


class TestGates:
    def test_have_the_decisions_of_people_and_no_others(self, services: System) -> None:
        decided(services)
        query = services.pattern_queries.of(ACME)
        (found,) = query.query_for_gate("API Review")
        assert (found.entry_type, found.gate_type) == (EntryType.GATE_REJECTION, "api_review")
        assert query.query_for_gate("release_approval") == []

    def test_have_decisions_about_a_proposal_however_unlike_it_they_are(self, services: System) -> None:
        decided(services)
        (found,) = services.pattern_queries.of(ACME).query_for_gate("api_review", "Paint the bikeshed green")
        assert (found.gate_type, found.band) == ("api_review", Band.WEAK)
        query = services.pattern_queries.of(ACME)
        assert query.query_for_gate("api_review", "Paint the bikeshed green", score_threshold=0.7) == []

    @pytest.mark.parametrize("gate", ["", "  ", "__", None])
    def test_without_a_name_are_refused(self, services: System, gate: Any) -> None:
        with pytest.raises(InvalidInputError, match="gate_type is empty"):
            services.pattern_queries.of(ACME).query_for_gate(gate)

    def test_captured_without_text_are_never_returned(self, services: System) -> None:
        capture_gate_approval(services.learning.capture(Identity("acme", "orders")), "orders", "api_review", "")
        services.learning.checkpoints(Identity("acme", "orders")).process_checkpoint("orders")
        assert services.pattern_queries.of(ACME).query_for_gate("api_review") == []

    def test_of_another_client_are_not_returned(self, services: System) -> None:
        decided(services)
        assert (
            services.pattern_queries.of(Identity("globex", "shop", "orchestrator")).query_for_gate("api_review") == []
        )

    def test_compare_the_work_of_their_topic_with_the_task(self) -> None:
        gate = a_pattern(
            entry_type=EntryType.GATE_REJECTION, gate_type="api_review", problem=f"Rejected at x: {FEEDBACK}"
        )
        topic = topic_of(FEEDBACK)
        assert topic

        def found(embed: Any) -> float:
            knowing = Knowing([gate], [a_hit(gate, 0.2)])
            search = PatternSearch(knowing._ask, knowing._heads, lambda: None, embed=embed)
            (pattern,) = RAGQueryService(search).query_for_task("Add an endpoint", score_threshold=0.0)
            return pattern.similarity

        words = WordsEmbedder()
        near = found(lambda text: words.embed_query(topic.work if text == "Add an endpoint" else text))
        far = found(lambda text: words.embed_query("bikeshed" if text == "Add an endpoint" else text))
        assert far < 0.1 < 0.5 < near


class TestBands:
    def test_are_those_of_documents(self) -> None:
        found = [_found(similarity).band for similarity in (0.95, 0.949, 0.5, 0.499, 0.0)]
        assert found == [Band.SURE, Band.LIKELY, Band.LIKELY, Band.WEAK, Band.WEAK]

    def test_of_other_problems_than_the_best_one_s_are_never_sure(self) -> None:
        best, same = a_pattern("1"), a_pattern("2", solution="Another way")
        other = a_pattern("3", problem="Certificates of the proxy expired", error_message="x509", technology="TLS")
        matches = [PatternMatch(best, 0.99), PatternMatch(same, 0.97), PatternMatch(other, 0.98)]
        found = {match.pattern.pattern_id: match.similarity for match in one_sure_problem(matches)}
        assert found == {best.pattern_id: 0.99, same.pattern_id: 0.97, other.pattern_id: pytest.approx(0.94)}

    @pytest.mark.parametrize("threshold", [-0.1, 1.1, True, "0.7"])
    def test_are_not_bounded_by_what_is_no_probability(self, threshold: Any) -> None:
        with pytest.raises(InvalidInputError, match="score_threshold"):
            Knowing([]).service().query_for_task("a task", score_threshold=threshold)

    def test_weak_patterns_are_returned_unless_there_is_a_threshold(self) -> None:
        pattern = a_pattern()
        weak = Knowing([pattern], [a_hit(pattern, 0.2)]).service()
        (found,) = weak.query_for_task("consumers of Kafka, whatever they read")
        assert found.band is Band.WEAK
        assert weak.query_for_task("consumers of Kafka, whatever they read", score_threshold=0.7) == []


class TestExpiredPatterns:
    def test_are_hidden_on_their_day_before_anything_is_pruned(self, services: System, time: FakeTime) -> None:
        decided(services)
        query = services.pattern_queries.of(ACME)
        time.now += YEAR - 86_400
        assert query.query_for_gate("api_review")
        assert query.query_for_task(FEEDBACK)
        time.now += 86_400
        assert query.query_for_gate("api_review") == []
        assert query.query_for_task(FEEDBACK) == []
        context = services.pattern_queries.context_builder(ACME).build(FEEDBACK)
        assert (context.patterns, context.text) == (0, f"Task: {FEEDBACK}")

    def test_are_those_whose_last_count_is_older_than_the_category_s_retention(self, services: System) -> None:
        knowledge = services.installation.knowledge
        pattern = a_pattern(embedded_at="2026-01-31T12:00:00Z")
        days = ("2027-01-30", "2027-01-31", "2027-02-01")
        assert [is_expired(pattern, knowledge, day) for day in days] == [False, True, True]


class TestSearches:
    def test_of_agents_find_no_patterns_and_those_of_people_do(self, services: System) -> None:
        decided(services)
        context = Context(services, Caller(ACME, agent="coder"))
        assert _categories(search_docs(context, SearchDocs(query=FEEDBACK)).answer.results) == set()
        found = run_search(context, FEEDBACK, QueryConfig(min_confidence=0))
        assert _categories(found.results) == {"learning/patterns"}

    def test_of_agents_find_patterns_where_the_installation_allows_it(
        self, services: System, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        decided(services)
        rules = LearningRules(search=Audience.EVERYONE)
        monkeypatch.setattr(type(services.learning), "rules", property(lambda _: rules))
        context = Context(services, Caller(ACME, agent="coder"))
        found = search_docs(context, SearchDocs(query=FEEDBACK)).answer
        assert _categories(found.results) == {"learning/patterns"}


class TestCaptures:
    def test_with_the_seven_arguments_are_returned_once_they_are_verified(self, services: System) -> None:
        capture = services.learning.capture(Identity("acme", "orders"))
        steps = ["Run the export on the replica"]
        entry = capture_failure_solution(capture, "orders", "dev", "export", "It waits", "lock timeout", steps, "pg")
        query = services.pattern_queries.of(ACME)

        def checkpoint() -> list[RAGPattern]:
            services.learning.checkpoints(Identity("acme", "orders")).process_checkpoint("orders")
            list(services.manager.work())
            return query.query_for_failure("It waits", "lock timeout")

        assert checkpoint() == []
        capture.verify(entry, True)
        assert [one.solution for one in checkpoint()] == steps

    def test_report_what_follows(self, services: System) -> None:
        context = Context(services, Caller(ACME))
        waiting = capture_entry(
            context,
            CaptureEntry(EntryType.FAILURE_SOLUTION, failure_description="It waits", solution_steps=("Restart",)),
        )
        assert waiting.note == f"Kept; told to nobody until verified: opx learn verify {waiting.id} --worked"
        gate = capture_entry(context, CaptureEntry(EntryType.GATE_APPROVAL, gate_type="g", approved_approach="a"))
        assert (gate.state.value, gate.note) == ("ready", "The next checkpoint of the project processes it.")
        empty = capture_entry(context, CaptureEntry(EntryType.GATE_REJECTION, gate_type="g"))
        assert "nothing can be learned from it" in empty.note


def _found(similarity: float) -> RAGPattern:
    return RAGPattern("p", "a", "b", "c", 1, 0, similarity, 0.8, 0.7, EntryType.FAILURE_SOLUTION)


def _categories(results: Sequence[Any]) -> set[str]:
    return {one.category for one in results}
