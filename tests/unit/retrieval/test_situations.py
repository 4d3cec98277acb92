"""Questions out of a situation: what moves a result, by how much, and what comes back."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from opx.domain.queries import QueryConfig
from opx.domain.results import Answer, RetrievalResult
from opx.errors import InvalidInputError
from opx.retrieval.citations import NOTHING_FOUND
from opx.retrieval.situations import Situation, best_in

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
LIKELY = QueryConfig(min_confidence=0.5)
CONTEXT = {
    "node": "web-server-01",
    "symptom": "high CPU",
    "timeframe": "last 2 hours",
    "already_tried": ["restart", "clear cache"],
}


def a_result(
    title: str = "Slow web server", content: str = "Look at the load.", score: float = 0.8, **more: Any
) -> RetrievalResult:
    metadata = {"title": title, "section": [], "documentId": title, **more.pop("metadata", {})}
    given = {
        "tier": "internal",
        "category": "runbooks/procedures",
        "source": "a.md",
        "timestamp": "2026-01-01T00:00:00Z",
    }
    return RetrievalResult(content=content, score=score, trust_score=1.0, metadata=metadata, **{**given, **more})


def an_answer(*results: RetrievalResult, **more: Any) -> Answer:
    return Answer("why is it slow", results, **more)


def best(context: dict[str, Any], *results: RetrievalResult) -> RetrievalResult:
    return best_in(Situation.read(context), "why is it slow", LIKELY, lambda *_: an_answer(*results), NOW)


def test_a_context_as_agents_give_it_is_read() -> None:
    assert Situation.read(CONTEXT) == Situation(
        node="web-server-01", symptom="high CPU", seconds=7200, already_tried=("restart", "clear cache")
    )


def test_the_question_gets_the_symptom_that_it_does_not_name() -> None:
    situation = Situation.read({**CONTEXT, "service": "checkout"})
    assert situation.question("why is it slow?") == "why is it slow? high CPU checkout"
    assert situation.question("high cpu at checkout") == "high cpu at checkout"


@pytest.mark.parametrize(
    ("timeframe", "seconds"),
    [
        ("last 2 hours", 7200),
        ("past day", 86400),
        ("30m", 1800),
        ("the last 15 minutes", 900),
        ("1w", 604800),
        ("since the deployment", 0),
        ("", 0),
    ],
)
def test_timeframes_people_write_are_understood_or_change_nothing(timeframe: str, seconds: int) -> None:
    assert Situation.read({"timeframe": timeframe}).seconds == seconds


@pytest.mark.parametrize("context", [{"node": 5}, {"already_tried": [1]}, {"already_tried": 3}, {"symptom": ["x"]}])
def test_a_field_of_another_type_is_refused(context: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError):
        Situation.read(context)


def test_unknown_fields_are_ignored() -> None:
    assert Situation.read({"weather": "rain", "node": None}) == Situation()


def test_result_that_names_the_node_moves_up() -> None:
    found = best(
        {"node": "web-server-01"}, a_result("General"), a_result("Ours", "On web-server-01 the load is high.", 0.75)
    )
    assert found.title == "Ours"
    assert found.metadata["because"] == [{"why": "names web-server-01", "factor": 1.0}]


def test_a_node_whose_name_begins_the_same_is_another() -> None:
    found = best({"node": "web-1"}, a_result("Other", "On web-12 the load is high."))
    assert found.metadata["because"] == []


def test_result_about_another_service_moves_down() -> None:
    other = a_result("Billing", metadata={"services": ["billing"]})
    ours = a_result("Checkout", score=0.7, metadata={"services": ["checkout"]})
    assert best({"service": "checkout"}, other, ours).title == "Checkout"


def test_result_that_was_tried_already_moves_down() -> None:
    tried = a_result("Restart the web server", score=0.8)
    other = a_result("Add a node", score=0.6)
    assert best({"already_tried": ["restart"]}, tried, other).title == "Add a node"


def test_a_runbook_with_the_tried_step_among_others_stays() -> None:
    content = "1. Look at the load\n2. Restart the server\n3. Move traffic away\n4. Add a node"
    assert best({"already_tried": ["restart"]}, a_result(content=content)).metadata["because"] == []


def a_change(timestamp: str) -> RetrievalResult:
    return a_result("Deployment", score=0.75, category="operations/changes", timestamp=timestamp, untrusted=True)


@pytest.mark.parametrize(
    ("query", "timestamp", "title"),
    [
        ("what changed?", "2026-03-01T11:00:00Z", "Deployment"),
        ("why is it slow", "2026-03-01T11:00:00Z", "Slow web server"),
        ("what changed?", "2026-03-01T09:00:00Z", "Slow web server"),
        ("what changed?", "2026-03-01T13:00:00Z", "Slow web server"),
        ("what changed?", "", "Slow web server"),
        ("what changed?", "yesterday", "Slow web server"),
    ],
)
def test_a_record_of_the_timeframe_comes_first_for_a_query_about_records(
    query: str, timestamp: str, title: str
) -> None:
    answer = an_answer(a_result(), a_change(timestamp))
    situation = Situation.read({"timeframe": "last 2 hours"})
    assert best_in(situation, query, LIKELY, lambda *_: answer, NOW).title == title


def test_the_others_are_its_alternatives_in_order() -> None:
    found = best({}, a_result("A", score=0.9), a_result("B", score=0.8), a_result("C", score=0.7))
    assert found.title == "A"
    assert [other["metadata"]["title"] for other in found.metadata["alternatives"]] == ["B", "C"]


def test_no_score_leaves_its_range() -> None:
    content = "On web-1, checkout is slow."
    found = best({"node": "web-1", "service": "checkout"}, a_result(content=content, score=0.99))
    assert found.score == 1.0


def test_nothing_good_enough_is_stated() -> None:
    nearest = a_result("Nearly")
    answer = an_answer(unconfirmed=(nearest,), partial=True, notes=("half of it",))
    found = best_in(Situation(), "why", LIKELY, lambda *_: answer, NOW)
    assert (found.content, found.score) == (NOTHING_FOUND, 0.0)
    assert found.metadata["nearest"]["metadata"]["title"] == "Nearly"
    assert found.metadata["notes"] == ["half of it"]
    assert found.metadata["alternatives"] == []


def test_more_results_are_searched_than_requested_as_their_order_may_change() -> None:
    limits: list[int] = []

    def ask(_question: str, config: QueryConfig, _gaps: bool) -> Answer:
        limits.append(config.max_results)
        return an_answer()

    best_in(Situation(), "why", QueryConfig(max_results=1), ask, NOW)
    assert limits == [10]
