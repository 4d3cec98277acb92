"""Routing: the tiers that are searched, their order, and the steps in the answer."""

from __future__ import annotations

from typing import Any

import pytest

from opx.adapters.embedded.search_index import EmbeddedIndex
from opx.domain.queries import QueryConfig
from opx.domain.record import replace
from opx.domain.results import Answer, RetrievalResult, ScoreParts, TierStep
from opx.errors import IndexUnavailableError
from opx.hygiene.near_duplicates import fingerprint
from opx.ports import IndexEntry
from opx.retrieval.citations import WARNINGS
from opx.retrieval.judging import HELD_BACK, in_order
from opx.retrieval.query import KnowledgeQuery
from opx_testing.entries import a_change
from tests.support.query_support import RecordingIndex
from tests.unit.retrieval.test_query import ANYTHING, a_query, a_text, contents

FILLING = [a_text(f"something else altogether number {n}", title=f"topic {n}") for n in range(40)]
"""So that the words of a question are rare, as they are in a real corpus."""

OURS = [a_text(f"disk full on host {name}", title=f"disk full {name}") for name in ("alpha", "beta", "gamma")]
VENDOR = a_text("disk full advisory", "security/cve", title="disk full")
POST = a_text("disk full post", "web/forums", title="disk full")
SURE = QueryConfig(min_confidence=0.01)
WITH_INTERNET = QueryConfig(min_confidence=0.01, include_internet=True)


@pytest.fixture
def index(index: EmbeddedIndex) -> RecordingIndex:
    index.apply([a_change(entry) for entry in FILLING])
    return RecordingIndex(index)


def marked(entry: IndexEntry) -> IndexEntry:
    """With the fingerprint that ingestion gives it."""
    return replace(entry, indexed=replace(entry.indexed, fingerprint=fingerprint(entry.indexed.chunk.text)))


def searched_tiers(index: RecordingIndex) -> list[tuple[str, ...]]:
    return [request.filter.tiers for request in index.requests]


def steps(answer: Answer) -> dict[str, tuple[bool, str]]:
    return {step.tier: (step.searched, step.reason) for step in answer.routing}


def a_live_result(confidence: float = 0.6) -> RetrievalResult:
    parts = ScoreParts(None, None, None, None, 0.5, confidence, 0.6, confidence * 0.6)
    score = confidence * 0.6
    return RetrievalResult("found on the web", score, "internet", "web/search", "https://a.test", "", 0.6, {}, parts)


def live(*results: RetrievalResult, **more: Any) -> Any:
    return lambda query, most: Answer(query, results, **more)


def test_internal_knowledge_is_searched_first_and_alone_if_it_covers_the_question(index: RecordingIndex) -> None:
    answer = a_query(index, *OURS, VENDOR).search("disk full", QueryConfig(min_confidence=0, max_results=2))
    assert searched_tiers(index) == [("internal",)]
    assert steps(answer)["specialized"] == (False, "3 of our own documents have a good result")


def test_specialized_knowledge_is_searched_if_internal_knowledge_does_not_cover_the_question(
    index: RecordingIndex,
) -> None:
    answer = a_query(index, OURS[0], VENDOR).search("disk full", SURE)
    assert searched_tiers(index) == [("internal",), ("specialized",)]
    searched, reason = steps(answer)["specialized"]
    assert searched
    assert reason.endswith("of our own documents have a good result, fewer than 3")


def test_categories_of_a_tier_have_it_searched(index: RecordingIndex) -> None:
    config = QueryConfig(categories=("security/cve", "runbooks"), min_confidence=0)
    answer = a_query(index, *OURS, VENDOR).search("disk full", config)
    assert steps(answer)["specialized"] == (True, "its categories were requested")
    assert any(result.tier == "specialized" for result in answer.results)


def test_a_tier_without_a_wanted_category_is_left_out(index: RecordingIndex) -> None:
    answer = a_query(index, *OURS, VENDOR).search(
        "disk full", QueryConfig(categories=("security/cve",), min_confidence=0)
    )
    assert steps(answer)["internal"] == (False, "nothing of it passes the question's filters")
    assert {result.tier for result in answer.results} == {"specialized"}


def test_an_identifier_of_an_external_catalogue_has_specialized_knowledge_searched(index: RecordingIndex) -> None:
    answer = a_query(index, *OURS, VENDOR).search("disk full CVE-2024-3094", QueryConfig(min_confidence=0))
    assert steps(answer)["specialized"] == (True, "the question names CVE-2024-3094")


def test_a_question_can_name_its_tier(index: RecordingIndex) -> None:
    answer = a_query(index, *OURS, VENDOR).search("disk full tier:specialized", ANYTHING)
    assert searched_tiers(index) == [("specialized",)]
    assert contents(list(answer.results)) == ["disk full advisory"]


def test_the_internet_is_searched_only_if_it_was_enabled(index: RecordingIndex) -> None:
    service = a_query(index, POST)
    assert steps(service.search("disk full", SURE))["internet"] == (False, "it was not enabled")
    assert steps(service.search("disk full", WITH_INTERNET))["internet"] == (True, "it was enabled")


def test_a_question_cannot_enable_the_internet(index: RecordingIndex) -> None:
    answer = a_query(index, POST).search("disk full tier:internet", SURE)
    assert answer.results == ()
    assert ("internet",) not in searched_tiers(index)


def test_internet_results_come_last_and_are_marked_for_a_question_that_calls_for_action(index: RecordingIndex) -> None:
    ours = a_text("fix what is full", title="topic disk")
    service = a_query(index, ours, a_text("disk full fix", "web/forums", title="disk full fix"))
    config = QueryConfig(min_confidence=0, include_internet=True, max_results=100)
    results = service.query("how to fix disk full", config)
    assert [result.tier for result in results].index("internet") == len(results) - 1 > 1
    assert results[-1].confidence > results[-2].confidence
    marked = [HELD_BACK in result.flags for result in results]
    assert marked == [False] * (len(results) - 1) + [results[-1].score > results[-2].score]
    assert HELD_BACK in WARNINGS


def test_weak_results_of_ours_do_not_precede_a_strong_one_from_outside_for_an_alert(index: RecordingIndex) -> None:
    issue = a_text("pod evicted zorblax77", "web/forums", title="pod evicted zorblax77")
    service = a_query(index, a_text("volume", title="volumes"), issue)
    config = QueryConfig(min_confidence=0, include_internet=True, max_results=1)
    (result,) = service.query("Pod evicted zorblax77", config)
    assert (result.tier, result.flags) == ("internet", ())


def test_results_are_in_order_of_score_for_a_question_that_calls_for_no_action(index: RecordingIndex) -> None:
    service = a_query(index, a_text("disk", title="disk"), a_text("disk full fix", "web/forums", title="disk full fix"))
    results = service.query("what is disk full fix", QueryConfig(min_confidence=0, include_internet=True))
    assert results == in_order(results)


def test_steps_report_the_number_of_good_results_and_the_best_confidence(index: RecordingIndex) -> None:
    answer = a_query(index, *OURS).search("disk full", SURE)
    step = answer.routing[0]
    assert step == TierStep("internal", True, "always first", len(answer.results), answer.results[0].confidence)


def test_the_decision_is_in_the_answers_json(index: RecordingIndex) -> None:
    found = a_query(index, *OURS).search("disk full", SURE).to_json()["routing"]
    assert [step["tier"] for step in found] == ["internal", "specialized", "internet"]
    assert set(found[0]) == {"tier", "searched", "reason", "good", "best"}


def test_a_tier_that_fails_after_the_first_is_a_partial_answer(index: RecordingIndex) -> None:
    index.fails = lambda request: "specialized" in request.filter.tiers
    answer = a_query(index, OURS[0]).search("disk full", SURE)
    assert answer.partial
    assert contents(list(answer.results)) == ["disk full on host alpha"]
    assert any("specialized" in note for note in answer.notes)


def test_a_first_tier_that_fails_is_an_index_that_is_down(index: RecordingIndex) -> None:
    index.fails = lambda request: "internal" in request.filter.tiers
    with pytest.raises(IndexUnavailableError):
        a_query(index, OURS[0]).search("disk full", SURE)


def test_the_same_text_of_two_tiers_is_shown_once_with_the_more_trusted_ones_name(index: RecordingIndex) -> None:
    long = "the disk of the database is full because the archiver stopped and nobody cleaned the folder up " * 3
    ours, theirs = (a_text(long, category) for category in ("runbooks/procedures", "security/cve"))
    service = a_query(index, marked(ours), marked(theirs))
    answer = service.search(
        "disk archiver folder", QueryConfig(categories=("runbooks", "security/cve"), min_confidence=0)
    )
    assert "specialized" not in {result.tier for result in answer.results}
    assert [copy["tier"] for copy in answer.results[0].copies] == ["specialized"]


class TestLive:
    def ask(self, index: RecordingIndex, *entries: Any, internet: Any, config: QueryConfig = WITH_INTERNET) -> Answer:
        service: KnowledgeQuery = a_query(index, *entries, internet=internet)
        return service.search("disk full", config)

    def test_the_web_is_searched_where_nothing_else_covers(self, index: RecordingIndex) -> None:
        config = replace(WITH_INTERNET, min_confidence=0.3)
        answer = self.ask(index, internet=live(a_live_result()), config=config)
        assert contents(list(answer.results)) == ["found on the web"]
        assert steps(answer)["live"][0]

    def test_the_web_is_not_searched_where_it_is_not_enabled(self, index: RecordingIndex) -> None:
        assert "live" not in steps(self.ask(index, internet=lambda *_: pytest.fail("asked"), config=SURE))

    def test_the_web_is_not_searched_where_ours_covers(self, index: RecordingIndex) -> None:
        config = QueryConfig(min_confidence=0, include_internet=True, max_results=2)
        answer = self.ask(index, *OURS, internet=lambda *_: pytest.fail("asked"), config=config)
        assert steps(answer)["live"] == (False, "3 documents have a good result")

    def test_the_web_is_not_searched_for_what_could_never_be_sure_enough(self, index: RecordingIndex) -> None:
        config = QueryConfig(min_confidence=0.7, include_internet=True)
        answer = self.ask(index, internet=lambda *_: pytest.fail("asked"), config=config)
        assert steps(answer)["live"] == (False, "a live result is never surer than 0.6, and 0.7 is required")

    def test_live_results_are_ranked_by_score(self, index: RecordingIndex) -> None:
        answer = self.ask(index, OURS[0], internet=live(a_live_result(0.6)))
        scores = [result.score for result in answer.results]
        assert {result.tier for result in answer.results} == {"internal", "internet"}
        assert scores == sorted(scores, reverse=True)

    def test_live_results_follow_ours_and_are_marked_for_a_question_that_calls_for_action(
        self, index: RecordingIndex
    ) -> None:
        service: KnowledgeQuery = a_query(index, a_text("volume", title="volumes"), internet=live(a_live_result(0.6)))
        answer = service.search("how to restart zorblax77", WITH_INTERNET)
        *ours, outside = answer.results
        assert {result.tier for result in ours} == {"internal"}
        assert outside.score > ours[-1].score
        assert HELD_BACK in outside.flags

    def test_failures_of_the_web_search_are_noted(self, index: RecordingIndex) -> None:
        answer = self.ask(index, OURS[0], internet=live(partial=True, notes=("the web was not searched: 503",)))
        assert answer.partial
        assert "the web was not searched: 503" in answer.notes
