"""Words of resolved incidents stand for the page that resolved them: which words, for whom, and with which confidence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import cast

import pytest

from opx.adapters.embedded.database import Database
from opx.adapters.embedded.table import SqliteTable
from opx.domain.documents import DocumentKey, DocumentState, KnowledgeDocument
from opx.domain.outcomes import LearntPage, OutcomeResult, RecordedOutcome
from opx.domain.queries import QueryConfig
from opx.domain.record import replace
from opx.domain.scopes import Scope
from opx.ingestion.corpus.catalog import Catalog
from opx.learning import learned_words as learning
from opx.learning.learned_words import MAX_REPORT, LearntStore, ScopedWords, report_of
from opx.learning.outcome_store import KEPT_DAYS, KnownScopes, resolved_partition, rows_of
from opx.ports.tables import OUTCOMES
from opx.retrieval.judging import Judged, in_order
from opx.retrieval.learned_words import StandIn
from opx.retrieval.query_language import ParsedQuery, parse_query
from opx.retrieval.rewording import QuestionWord
from opx.retrieval.stages import Found, add_pages
from opx_testing.entries import an_entry
from opx_testing.fake_time import FakeTime
from tests.support.builders import a_document
from tests.support.judging_support import a_fused_hit
from tests.unit.retrieval.test_query import KNOWLEDGE

ACME, SHOP = "client:acme", "client:acme/project:shop"
GATEWAY, GATEWAY_TITLE = "documents/runbooks/gateway.md", "Payment gateway 5xx"
EVERYBODY = Scope()
ANYTHING = QueryConfig(min_confidence=0)


class TestWordsOfAScope:
    """Words that stand for pages, from rows alone."""

    @pytest.fixture
    def table(self, database: Database, time: FakeTime) -> SqliteTable:
        return SqliteTable(OUTCOMES, database, clock=time.clock)

    @pytest.fixture
    def store(self, table: SqliteTable, time: FakeTime) -> LearntStore:
        return LearntStore(table, KnownScopes(table), time.clock)

    def test_one_incident_is_not_enough_and_two_are(self, store: LearntStore) -> None:
        enter(store, "o1", "kasse")
        assert pages(store, "kasse") == []
        enter(store, "o2", "Kassen")
        [page] = pages(store, "kasse")
        assert (page.scope_key, page.source, page.resolved, page.uses) == ("global", GATEWAY, 2, 2)

    def test_an_incident_counts_once_however_many_outcomes_it_has(self, store: LearntStore) -> None:
        enter(store, "o1", "kasse", incident="INC-1")
        enter(store, "o2", "kasse", incident="inc-1")
        assert pages(store, "kasse") == []

    def test_without_an_incident_outcomes_of_a_receipt_count_once(self, store: LearntStore) -> None:
        enter(store, "o1", "kasse", incident="", receipt_id="r1")
        enter(store, "o2", "kasse", incident="", receipt_id="r1")
        assert pages(store, "kasse") == []
        enter(store, "o3", "kasse", incident="", receipt_id="r2")
        assert [(page.incidents, page.resolved) for page in pages(store, "kasse")] == [((), 2)]

    @pytest.mark.parametrize(("others", "found"), [(2, True), (3, False)])
    def test_most_of_the_incidents_were_resolved_with_the_page(
        self, store: LearntStore, others: int, found: bool
    ) -> None:
        for number in range(3):
            enter(store, f"o{number}", "kasse")
        for number in range(others):
            enter(store, f"p{number}", "kasse", source=f"other{number}.md")
        assert bool(pages(store, "kasse")) is found

    def test_incidents_that_it_did_not_resolve_count_against_it(self, store: LearntStore) -> None:
        for number in range(3):
            enter(store, f"o{number}", "kasse")
        for number in range(3):
            assert [(page.resolved, page.uses) for page in pages(store, "kasse")] == ([(3, 3 + number)])
            store.enter(
                ACME, an_outcome(f"p{number}", OutcomeResult.NO_EFFECT), DocumentKey(EVERYBODY, GATEWAY), "kasse"
            )
        assert pages(store, "kasse") == []

    def test_its_confidence_grows_with_incidents_and_falls_with_others(self) -> None:
        found = [LearntPage("global", GATEWAY, (), *counts).confidence for counts in ((2, 3), (2, 2), (3, 3), (20, 20))]
        assert found == sorted(found)
        assert found[1] == pytest.approx(4 / 6)
        assert found[-1] < 0.95

    def test_the_latest_incidents_are_named_first(self, store: LearntStore) -> None:
        for number in range(3):
            enter(store, f"o{number}", "kasse", at=f"2026-11-2{number}T10:00:00Z")
        assert pages(store, "kasse")[0].incidents == ("INC-o2", "INC-o1", "INC-o0")

    def test_words_of_a_corrected_outcome_are_forgotten(self, store: LearntStore, table: SqliteTable) -> None:
        enter(store, "o1", "kasse")
        enter(store, "o2", "kasse")
        store.forget(ACME, an_outcome("o2", result=OutcomeResult.NO_EFFECT))
        assert pages(store, "kasse") == []
        assert len(list(table.query(resolved_partition(ACME)))) == 1

    def test_forgetting_what_was_never_learnt_writes_nothing(self, store: LearntStore, table: SqliteTable) -> None:
        store.forget(ACME, an_outcome("o1"))
        assert list(rows_of(table, ACME)) == []

    def test_each_change_has_readers_look_again(self, store: LearntStore, table: SqliteTable, time: FakeTime) -> None:
        marks = []
        for outcome in ("o1", "o2"):
            enter(store, outcome, "kasse")
            marks.append(mark_of(table))
        store.forget(ACME, an_outcome("o2", OutcomeResult.NO_EFFECT))
        assert len({*marks, mark_of(table)}) == 3

    def test_it_is_kept_as_long_as_outcomes(self, store: LearntStore, time: FakeTime) -> None:
        enter(store, "o1", "kasse")
        enter(store, "o2", "kasse")
        time.sleep(KEPT_DAYS * 86_400 - 1)
        assert pages(store, "kasse")
        time.sleep(2)
        assert pages(store, "kasse") == []

    def test_pages_of_others_neither_count_nor_show(self, store: LearntStore) -> None:
        for number in range(2):
            enter(store, f"o{number}", "kasse")
        for number in range(5):
            enter(store, f"p{number}", "kasse sanduhr", source="secret.md", scope=Scope("acme", project_id="shop"))
        assert [page.source for page in pages(store, "kasse")] == [GATEWAY]
        assert pages(store, "sanduhr") == []
        assert [page.source for page in pages(store, "sanduhr", visible=("global", ACME, SHOP))] == ["secret.md"]

    @pytest.mark.parametrize(("states", "found"), [("cs", True), ("dc", False), ("sc", False), ("", False)])
    def test_a_page_is_what_its_newest_version_is(self, states: str, found: bool) -> None:
        kinds = {"c": DocumentState.CURRENT, "s": DocumentState.SUPERSEDED, "d": DocumentState.DELETED}
        versions = [a_document(GATEWAY, GATEWAY_TITLE, state=kinds[state]) for state in states]

        class Versions:
            def versions(self, key: DocumentKey) -> Iterator[KnowledgeDocument]:
                return iter(versions if key == DocumentKey(Scope("acme"), GATEWAY) else ())

        words = ScopedWords([], (), lambda: cast("Catalog", Versions()))
        assert (words.current(LearntPage(ACME, GATEWAY, (), 2, 2)) is not None) is found
        assert words.current(LearntPage("global", GATEWAY, (), 2, 2)) is None

    def test_only_so_many_outcomes_of_a_scope_are_read(
        self, store: LearntStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        monkeypatch.setattr(learning, "MAX_RESOLVED", 3)
        for number in range(3):
            enter(store, f"o{number}", "kasse")
        assert pages(store, "kasse")[0].resolved == 3
        assert not caplog.records
        enter(store, "o3", "kasse")
        assert pages(store, "kasse")[0].resolved == 3
        assert "more than 3 resolved incidents" in caplog.text

    def test_every_row_is_found_by_its_scope(self, store: LearntStore, table: SqliteTable) -> None:
        enter(store, "o1", "kasse")
        assert {row["place"] for row in rows_of(table, ACME)} == {"resolved#client:acme", "known#client:acme"}
        assert list(rows_of(table, "client:acm")) == []

    @pytest.mark.parametrize(
        ("report", "word"),
        [
            ("Kassen hängen", "kasse"),
            ("tills are frozen", "TILL"),
            ("la caja está colgada", "cajas"),
            ("レジが動かない", "レジ"),
        ],
    )
    def test_words_are_known_in_other_forms(self, store: LearntStore, report: str, word: str) -> None:
        enter(store, "o1", report)
        enter(store, "o2", report)
        assert pages(store, word)

    @pytest.mark.parametrize("report", ["", "   ", "the of and", "\u200b\u200d", "!?…", "💥"])
    @pytest.mark.parametrize("word", ["the", "", "\u200b", "💥", "kasse"])
    def test_a_report_without_terms_stands_for_nothing(self, store: LearntStore, report: str, word: str) -> None:
        enter(store, "o1", report)
        enter(store, "o2", report)
        assert pages(store, word) == []


class TestReport:
    def test_it_is_one_line(self) -> None:
        assert report_of("Kasse\n hängt", "", "seit  9") == "Kasse hängt seit 9"
        assert report_of("", " ") == ""

    @pytest.mark.parametrize("text", ["kasse " * 400, "k" * 2_000])
    def test_it_is_cut_between_words_where_there_are_any(self, text: str) -> None:
        report = report_of(text)
        assert MAX_REPORT - 10 < len(report) <= MAX_REPORT
        assert set(report.split()) <= {"kasse", "k" * MAX_REPORT}


def an_outcome(outcome_id: str, result: OutcomeResult = OutcomeResult.RESOLVED, **more: str) -> RecordedOutcome:
    given = {"receipt_id": f"r-{outcome_id}", "at": "2026-11-22T10:00:00Z", "incident": f"INC-{outcome_id}"} | more
    return RecordedOutcome(outcome_id=outcome_id, result=result, document_id="d1", version=1, **given)


def enter(
    store: LearntStore, outcome_id: str, report: str, *, source: str = GATEWAY, scope: Scope = EVERYBODY, **more: str
) -> None:
    store.enter(ACME, an_outcome(outcome_id, OutcomeResult.RESOLVED, **more), DocumentKey(scope, source), report)


def pages(store: LearntStore, word: str, visible: Sequence[str] = ("global", ACME)) -> list[LearntPage]:
    return ScopedWords([store.words(ACME)], visible, lambda: cast("Catalog", None)).pages(word)


def mark_of(table: SqliteTable) -> str:
    [item] = table.query("known#client:acme")
    return str(item["mark"])


class TestAdding:
    """Of a page with a confidence of .8 by its incidents, to a question that found something else."""

    @pytest.mark.parametrize(
        ("found", "after"),
        [
            ({}, {"page": 0.8}),
            ({"other": 0.3}, {"other": 0.3, "page": 0.8}),
            ({"other": 0.6}, {"other": 0.6, "page": 0.6}),
            ({"other": 0.9}, {"other": 0.9, "page": 0.8}),
            ({"page": 0.3, "other": 0.1}, {"other": 0.1, "page": 0.8}),
            ({"page": 0.85, "other": 0.1}, {"page": 0.85, "other": 0.1}),
            ({"other": 0.7, "page": 0.7}, {"other": 0.7, "page": 0.7}),
        ],
    )
    def test_it_changes_no_other_hit(self, found: dict[str, float], after: dict[str, float]) -> None:
        question = parse_query("kasse kaputt", ANYTHING, KNOWLEDGE)
        before = Found([a_hit(name, confidence) for name, confidence in found.items()])
        search = Searched("page")
        add_pages(question, [a_stand_in()], before, search)
        ranked = [(hit.hit.indexed.chunk.document_id, hit.confidence) for hit in in_order(before.judged)]
        assert ranked == sorted(after.items(), key=lambda one: -one[1])
        changed = after != found
        assert search.searched == ([(("page",), f"kasse kaputt {GATEWAY_TITLE}")] if changed else [])
        assert (len(question.changes), len(question.notes), before.added) == (changed, changed, changed)

    def test_a_page_that_passes_no_filter_is_not_mentioned(self) -> None:
        question = parse_query("kasse kaputt", ANYTHING, KNOWLEDGE)
        found = Found()
        add_pages(question, [a_stand_in()], found, Searched())
        assert (found.judged, question.changes, question.notes) == ([], (), [])


class Searched:
    """A search that finds these documents, and remembers within which documents it searched for what."""

    name = "search"

    def __init__(self, *names: str) -> None:
        self._names = names
        self.searched: list[tuple[tuple[str, ...], str]] = []

    def apply(self, query: ParsedQuery, found: Found) -> Found:
        self.searched.append((query.where.document_ids, query.text))
        return Found([a_hit(name, 0.99) for name in self._names])


def a_hit(document_id: str, confidence: float) -> Judged:
    indexed = an_entry(document_id).indexed
    indexed = replace(indexed, chunk=replace(indexed.chunk, document_id=document_id))
    return Judged(a_fused_hit(indexed), confidence)


def a_stand_in() -> StandIn:
    document = a_document(GATEWAY, GATEWAY_TITLE, document_id="page")
    word = QuestionWord(0, 5, "kasse", ("kass",), unknown=True, joined=False)
    return StandIn(LearntPage("global", GATEWAY, ("INC-1",), 6, 6), document, (word,))
