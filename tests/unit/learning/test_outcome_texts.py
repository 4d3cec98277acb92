"""Outcomes and warnings as text for people and agents, and as JSON."""

from __future__ import annotations

import json
from typing import Any

from opx.domain.outcomes import Counts, OutcomeScore, Tally
from opx.domain.record import from_json, replace
from opx.domain.results import Answer, RetrievalResult, ScoreParts
from opx.edges.calling import json_bytes, plain
from opx.edges.cli.hits import HitPage, explanation, score_line
from opx.edges.cli.output import Screen
from opx.operations.search_tools import DocsAnswer, FoundAnswer
from opx.retrieval.citations import citation, with_warnings
from tests.support.builders import a_document_answer, an_answer_of

PARTS = ScoreParts(1, 4.2, 2, 0.8, 0.97, 0.81, 1.0, 0.8422, outcome=1.04)
OUTCOME = OutcomeScore(Tally(Counts(resolved=4, made_worse=1)), "Repair").summary.to_json()
WARNING = {"text": "tried in INC-7, made things worse: Grow the volume", "line": 0}
RESULT = RetrievalResult(
    content="Grow the volume.\nWrite it down.",
    score=0.8422,
    tier="internal",
    category="runbooks/procedures",
    source="https://wiki/disk",
    timestamp="2026-01-01T00:00:00Z",
    trust_score=1.0,
    metadata={"title": "Disk full", "documentId": "d1", "outcome": OUTCOME, "warnings": [WARNING]},
    parts=PARTS,
)
PLAIN = replace(RESULT, metadata={"title": "Disk full", "documentId": "d1"}, parts=replace(PARTS, outcome=None))
ANSWER = Answer("disk", (RESULT,))


def test_people_see_outcomes_and_warnings_before_the_text() -> None:
    lines = [line.strip() for line in HitPage(Screen()).passage(1, RESULT)]
    assert "outcomes: 4 of 5 resolved, 1 made it worse" in lines
    assert lines.index("[Warning: tried in INC-7, made things worse: Grow the volume]") < lines.index(
        "Grow the volume."
    )


def test_a_score_is_explained_with_its_outcomes() -> None:
    assert "= confidence 0.81 x trust 1.00 x outcomes 1.04 (" in score_line(RESULT)
    [row] = [line for line in explanation(PARTS) if line.startswith("outcomes")]
    assert row.split()[1] == "1.040"


def test_without_outcomes_and_warnings_none_are_shown() -> None:
    text = "\n".join([*HitPage(Screen(), explain=True).passage(1, PLAIN), citation(PLAIN)])
    assert "utcomes" not in text
    assert "Warning" not in text


def test_agents_see_both() -> None:
    content = with_warnings(RESULT.content, RESULT.warnings)
    text = FoundAnswer(replace(ANSWER, documents=(a_document_answer(RESULT, content=content),))).text()
    assert "Outcomes: 4 of 5 resolved, 1 made it worse" in text
    assert "[Warning: tried in INC-7, made things worse: Grow the volume]\nGrow the volume." in text


def test_items_of_json_have_warnings_where_there_are_any() -> None:
    [with_it], [without] = (plain(DocsAnswer(an_answer_of(one)))["results"] for one in (RESULT, PLAIN))
    assert with_it["warnings"] == [WARNING["text"]]
    assert with_it["content"] == RESULT.content
    assert "warnings" not in without


def sent(answer: Answer) -> Any:
    """The JSON that an answer is sent as."""
    return json.loads(json_bytes(answer))


def test_both_go_over_the_wire() -> None:
    [found] = from_json(Answer, sent(ANSWER)).results
    assert found == RESULT
    assert (found.outcome, found.warnings) == (OUTCOME, (WARNING,))


def test_an_answer_of_an_older_system_can_be_read() -> None:
    data = sent(Answer("q", (PLAIN,)))
    del data["results"][0]["scores"]["outcome"]
    assert from_json(Answer, data).results == (PLAIN,)
