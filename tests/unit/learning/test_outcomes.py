"""Effect of outcomes on scores, and outcomes and warnings as text for people and agents, and as JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opx.domain.outcomes import (
    HIGHEST,
    LOWEST,
    Counted,
    Counts,
    DocumentOutcomes,
    OutcomeReport,
    OutcomeResult,
    OutcomeScore,
    RecordedOutcome,
    Tally,
)
from opx.domain.record import from_json, replace
from opx.domain.results import Answer, RetrievalResult, ScoreParts
from opx.edges.calling import json_bytes, plain
from opx.edges.cli.hits import HitPage, explanation, score_line
from opx.edges.cli.output import Screen
from opx.learning.outcome_store import MAX_SECTIONS, counted
from opx.operations.research import DocsAnswer, FoundAnswer
from opx.retrieval.citations import citation, with_warnings
from tests.support.builders import a_document_answer, an_answer_of

RESOLVED, NO_EFFECT, MADE_WORSE = OutcomeResult
NEW = DocumentOutcomes("d1", 1, "Disk full")

numbers = st.integers(0, 10**7)
some_counts = st.builds(Counts, numbers, numbers, numbers)
tallies = st.builds(Tally, some_counts, some_counts)


def an_outcome(
    result: OutcomeResult = RESOLVED, document: str = "d1", version: int = 1, section: str = ""
) -> RecordedOutcome:
    return RecordedOutcome("o1", result, document, version, "r1", "2026-11-22T10:00:00Z", section)


def known(*results: OutcomeResult, section: str = "") -> DocumentOutcomes:
    """Outcome counts of a document with these outcomes."""
    found = NEW
    for result in results:
        found = counted(found, an_outcome(result, section=section), None, "Disk full")
    return found


class TestFactor:
    @pytest.mark.parametrize("count", range(5))
    def test_fewer_than_five_outcomes_move_nothing(self, count: int) -> None:
        assert known(*[RESOLVED] * count).tally.factor == known(*[MADE_WORSE] * count).tally.factor == 1.0

    def test_five_that_resolved_it_raise_a_score(self) -> None:
        assert known(*[RESOLVED] * 5).tally.factor == pytest.approx(1 + 0.1 * (2 * 7 / 9 - 1))

    def test_five_without_effect_lower_it(self) -> None:
        assert known(*[NO_EFFECT] * 5).tally.factor == pytest.approx(1 - 0.15 * (1 - 2 * 2 / 9))

    def test_harm_counts_more_than_no_effect(self) -> None:
        assert known(*[MADE_WORSE] * 5).tally.factor < known(*[NO_EFFECT] * 5).tally.factor

    def test_as_many_of_both_move_nothing(self) -> None:
        assert known(*[RESOLVED, NO_EFFECT] * 3).tally.factor == pytest.approx(1.0)

    def test_more_evidence_of_the_same_moves_more(self) -> None:
        assert known(*[RESOLVED] * 20).tally.factor > known(*[RESOLVED] * 5).tally.factor

    @given(tallies)
    def test_it_stays_within_its_bounds(self, tally: Tally) -> None:
        assert LOWEST <= tally.factor <= HIGHEST

    @given(tallies, st.booleans())
    def test_one_more_success_never_lowers_it_once_there_is_enough(self, tally: Tally, now: bool) -> None:
        if tally.enough:
            assert tally.moved(RESOLVED, 1, now=now).factor >= tally.factor

    @given(tallies, st.sampled_from([NO_EFFECT, MADE_WORSE]))
    def test_one_more_failure_never_raises_it_once_there_is_enough(self, tally: Tally, result: OutcomeResult) -> None:
        if tally.enough:
            assert tally.moved(result, 1, now=True).factor <= tally.factor


class TestVersions:
    def test_outcomes_of_a_replaced_version_count_half(self) -> None:
        before = Tally(Counts(), Counts(resolved=10))
        assert before.factor == Tally(Counts(resolved=5)).factor
        assert not Tally(Counts(), Counts(resolved=9)).enough

    def test_the_first_outcome_of_a_later_version_makes_the_others_earlier_ones(self) -> None:
        found = counted(known(RESOLVED, RESOLVED), an_outcome(MADE_WORSE, "d2", 2), None, "Disk is full")
        assert found.tally == Tally(Counts(made_worse=1), Counts(resolved=2))
        assert (found.document_id, found.version, found.title) == ("d2", 2, "Disk is full")

    def test_a_late_outcome_of_an_earlier_version_is_one_of_that(self) -> None:
        current = counted(NEW, an_outcome(document="d2", version=2), None, "")
        assert counted(current, an_outcome(NO_EFFECT), None, "").tally == Tally(Counts(resolved=1), Counts(no_effect=1))

    def test_readers_of_a_version_without_outcomes_see_those_of_before(self) -> None:
        found = known(RESOLVED, section="Repair").seen_from("d2")
        assert found.tally == found.sections["Repair"] == Tally(Counts(), Counts(resolved=1))


class TestCorrections:
    def test_another_result_takes_the_place_of_the_first(self) -> None:
        before = an_outcome(RESOLVED, section="Repair")
        found = counted(known(RESOLVED, RESOLVED, section="Repair"), an_outcome(MADE_WORSE), before, "")
        assert found.tally.now == Counts(resolved=1, made_worse=1)
        assert found.sections["Repair"].now == Counts(resolved=1)

    def test_one_that_is_of_an_earlier_version_by_now_is_taken_from_there(self) -> None:
        replaced = counted(known(RESOLVED), an_outcome(NO_EFFECT, "d2", 2), None, "")
        found = counted(replaced, an_outcome(MADE_WORSE, "d2", 2), an_outcome(RESOLVED), "")
        assert found.tally == Tally(Counts(no_effect=1, made_worse=1))


class TestSections:
    def test_the_innermost_section_with_enough_evidence_decides(self) -> None:
        found = known(*[MADE_WORSE] * 5, section="Repair")
        inner = replace(found, sections={**found.sections, "Repair > Grow": Tally(Counts(resolved=1))})
        assert inner.score_of(("Repair", "Grow")).section == "Repair"
        assert inner.score_of(("Causes",)).section == ""

    def test_sections_are_bounded_and_the_document_counts_all(self) -> None:
        found = NEW
        for number in range(MAX_SECTIONS + 3):
            found = counted(found, an_outcome(section=f"S{number}"), None, "")
        assert (len(found.sections), found.tally.now.resolved) == (MAX_SECTIONS, MAX_SECTIONS + 3)


class TestWords:
    @pytest.mark.parametrize(
        ("tally", "text"),
        [
            (Tally(), "0 of 0 resolved, too few to count"),
            (Tally(Counts(4, 0, 1)), "4 of 5 resolved, 1 made it worse"),
            (Tally(Counts(2), Counts(6)), "8 of 8 resolved, 6 of earlier versions, which count half"),
            (Tally(Counts(2_000_000)), "2,000,000 of 2,000,000 resolved"),
        ],
    )
    def test_explanation(self, tally: Tally, text: str) -> None:
        assert tally.explained() == text

    def test_a_report_can_be_read_back(self) -> None:
        report = OutcomeReport("o1", "d1", "Disk", "A > B", MADE_WORSE, Counted.NEW, known(RESOLVED, section="A"), "w1")
        assert OutcomeReport.from_json(report.to_json()) == report

    def test_an_outcome_can_be_read_back(self) -> None:
        outcome = replace(an_outcome(MADE_WORSE), step="du", incident="INC-7", note="n", occurrence="2", principal="me")
        assert RecordedOutcome.from_json(outcome.to_json()) == outcome


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
