"""Outcomes: their effect on scores, their texts, and none lost or counted twice, whichever writer dies or is first."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opx.adapters.embedded.database import Database
from opx.adapters.embedded.table import SqliteTable
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
from opx.errors import StoreUnavailableError
from opx.learning.outcome_store import (
    LEARNT,
    LOOKED_AGAIN_SECONDS,
    MAX_SECTIONS,
    WARNINGS,
    KnownScopes,
    OutcomeStore,
    counted,
    rows_of,
)
from opx.learning.outcome_store import OUTCOMES as OUTCOMES_KIND
from opx.operations.search_tools import DocsAnswer, FoundAnswer
from opx.ports.tables import OUTCOMES
from opx.retrieval.citations import citation, with_warnings
from opx_testing.fake_time import FakeTime
from tests.doubles.hooked_table import CountedReads, HookedTable
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


SCOPE, KEY = "client:acme", "k1"


class DiedError(Exception):
    """A process ends here."""


@pytest.fixture
def table(database: Database) -> HookedTable:
    return HookedTable(SqliteTable(OUTCOMES, database, clock=lambda: 1_000.0))


def a_store(table: HookedTable) -> OutcomeStore:
    """The store of another process."""
    return OutcomeStore(table, KnownScopes(table), lambda: 1_000.0)


def a_numbered_outcome(number: int, result: OutcomeResult = RESOLVED) -> RecordedOutcome:
    return RecordedOutcome(f"o{number}", result, "d1", 1, f"r{number}", "2026-11-22T10:00:00Z")


def count(table: HookedTable, outcome: RecordedOutcome) -> Counted:
    return a_store(table).count(SCOPE, KEY, outcome, "Disk full").counted


def known_head(table: HookedTable) -> DocumentOutcomes:
    [(_, _, head)] = a_store(table).heads([SCOPE], [KEY])
    return head


def own_items(table: HookedTable) -> dict[str, OutcomeResult]:
    return {one.outcome_id: one.result for one in a_store(table).outcomes(SCOPE, KEY)}


class TestCounting:
    def test_each_outcome_counts_once(self, table: HookedTable) -> None:
        for number in (1, 2, 3, 2, 1):
            count(table, a_numbered_outcome(number))
        assert known_head(table).tally.now == Counts(resolved=3)
        assert own_items(table).keys() == {"o1", "o2", "o3"}

    def test_an_outcome_recorded_again_is_known(self, table: HookedTable) -> None:
        assert [count(table, a_numbered_outcome(1)) for _ in range(3)] == [Counted.NEW, Counted.KNOWN, Counted.KNOWN]

    def test_another_result_corrects_it(self, table: HookedTable) -> None:
        count(table, a_numbered_outcome(1))
        count(table, a_numbered_outcome(2))
        assert count(table, a_numbered_outcome(1, MADE_WORSE)) is Counted.CORRECTED
        assert known_head(table).tally.now == Counts(resolved=1, made_worse=1)
        assert own_items(table) == {"o1": MADE_WORSE, "o2": RESOLVED}

    def test_counts_go_past_a_million(self, table: HookedTable) -> None:
        count(table, a_numbered_outcome(0))
        [head] = [row for row in rows_of(table, SCOPE) if row["entry"] == KEY]
        table.put({**head, "now": Counts(10**6 + 5, 3, 2).to_json()})
        count(table, a_numbered_outcome(1))
        assert known_head(table).tally.now == Counts(10**6 + 6, 3, 2)

    def test_scopes_know_nothing_of_each_other(self, table: HookedTable) -> None:
        count(table, a_numbered_outcome(1))
        assert a_store(table).heads(["client:other", "client:acme2"], [KEY]) == []
        assert list(rows_of(table, "client:acm")) == []


class TestDeaths:
    @pytest.mark.parametrize(
        "outcome", [a_numbered_outcome(3), a_numbered_outcome(2, NO_EFFECT)], ids=["new", "correction"]
    )
    @pytest.mark.parametrize("write", range(5))
    def test_a_retry_after_a_crash_at_any_write_counts_once(
        self, table: HookedTable, write: int, outcome: RecordedOutcome
    ) -> None:
        count(table, a_numbered_outcome(1))
        count(table, a_numbered_outcome(2))
        table.arm(write, _die)
        try:
            count(table, outcome)
        except DiedError:
            count(table, a_numbered_outcome(4))  # another process writes first
        table.disarm()
        count(table, a_numbered_outcome(4))
        count(table, outcome)
        expected = {"o1": RESOLVED, "o2": RESOLVED, "o4": RESOLVED} | {outcome.outcome_id: outcome.result}
        assert own_items(table) == expected
        assert known_head(table).tally.now == _counts(expected)

    @pytest.mark.parametrize("write", range(4))
    def test_two_concurrent_outcomes_both_count(self, table: HookedTable, write: int) -> None:
        count(table, a_numbered_outcome(1))
        table.arm(write, lambda: _quietly(lambda: count(table, a_numbered_outcome(2))))
        count(table, a_numbered_outcome(3))
        assert known_head(table).tally.now == Counts(resolved=3)
        assert own_items(table).keys() == {"o1", "o2", "o3"}

    def test_the_own_item_of_a_slow_writer_does_not_undo_a_correction(self, table: HookedTable) -> None:
        def others() -> None:
            count(table, a_numbered_outcome(1, MADE_WORSE))
            count(table, a_numbered_outcome(2))

        table.arm(2, others)  # after the note and the counts, before the own item
        count(table, a_numbered_outcome(1))
        assert own_items(table)["o1"] is MADE_WORSE

    def test_endless_conflicts_are_reported(self, table: HookedTable) -> None:
        count(table, a_numbered_outcome(1))
        with pytest.raises(StoreUnavailableError, match="too many"):
            count(cast("HookedTable", Overtaken(table)), a_numbered_outcome(2))


class TestKnown:
    def test_missing_kinds_are_looked_up_once_a_minute(self, table: HookedTable) -> None:
        reads = CountedReads(table)
        time = FakeTime()
        known = KnownScopes(cast("HookedTable", reads), monotonic=time.clock)
        for _ in range(5):
            assert known.of([SCOPE, "global"]) == {OUTCOMES_KIND: [], WARNINGS: [], LEARNT: []}
        assert reads.reads == 1
        time.sleep(LOOKED_AGAIN_SECONDS)
        known.of([SCOPE])
        assert reads.reads == 2

    def test_writes_of_another_process_are_seen_after_a_minute(self, table: HookedTable) -> None:
        time = FakeTime()
        known = KnownScopes(table, monotonic=time.clock)
        known.of([SCOPE])
        count(table, a_numbered_outcome(1))
        assert known.of([SCOPE])[OUTCOMES_KIND] == []
        time.sleep(LOOKED_AGAIN_SECONDS)
        assert known.of([SCOPE])[OUTCOMES_KIND] == [SCOPE]

    def test_writes_of_this_process_are_seen_at_once(self, table: HookedTable) -> None:
        known = KnownScopes(table)
        known.of([SCOPE])
        OutcomeStore(table, known, lambda: 1_000.0).count(SCOPE, KEY, a_numbered_outcome(1), "")
        assert known.of([SCOPE])[OUTCOMES_KIND] == [SCOPE]


def test_every_row_of_a_scope_is_found_by_it(table: HookedTable) -> None:
    for number in range(3):
        count(table, a_numbered_outcome(number))
        a_store(table).count("client:other", KEY, a_numbered_outcome(number), "")
    rows = list(rows_of(table, SCOPE))
    assert len(rows) == 3 + 1 + 1
    for row in rows:
        table.delete({"place": row["place"], "entry": row["entry"]})
    assert not own_items(table)
    assert len(list(rows_of(table, "client:other"))) == 5


class Overtaken:
    """A table whose counts another process changes before every write."""

    def __init__(self, table: HookedTable) -> None:
        self._table = table
        self._others = 100

    def __getattr__(self, name: str) -> Any:
        return getattr(self._table, name)

    def put(self, item: Mapping[str, Any], **options: Any) -> None:
        if item["entry"] == KEY:
            self._others += 1
            stored = self._table.get({"place": item["place"], "entry": KEY})
            self._table.put({**(stored or item), "revision": self._others})
        self._table.put(item, **options)


def _counts(results: dict[str, OutcomeResult]) -> Counts:
    found = Counts()
    for result in results.values():
        found = found.moved(result, 1)
    return found


def _die() -> None:
    raise DiedError


def _quietly(work: Callable[[], object]) -> None:
    work()
