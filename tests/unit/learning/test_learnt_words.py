"""Words of resolved incidents stand for the page that resolved them: which words, for whom, and in which questions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from opx.adapters.embedded.database import Database
from opx.adapters.embedded.table import SqliteTable
from opx.domain.documents import DocumentKey, DocumentState, KnowledgeDocument
from opx.domain.ids import iso_time
from opx.domain.outcomes import LearntPage, OutcomeResult, RecordedOutcome
from opx.domain.queries import QueryConfig
from opx.domain.record import replace
from opx.domain.results import Answer
from opx.domain.scopes import Identity, Scope
from opx.errors import StoreUnavailableError
from opx.ingestion.corpus.catalog import Catalog
from opx.learning import learned_words as learning
from opx.learning.learned_words import MAX_REPORT, LearntStore, ScopedWords, report_of
from opx.learning.outcome_store import KEPT_DAYS, LEARNT, KnownScopes, resolved_partition, rows_of
from opx.operations.system import System
from opx.ports import Leg, SearchRequest, SearchResponse
from opx.ports.tables import OUTCOMES
from opx.retrieval.hybrid import FusedHit
from opx.retrieval.judging import Judged
from opx.retrieval.learned_words import FEW_ENTRIES, StandIn, add_pages
from opx.retrieval.query import KnowledgeQuery
from opx.retrieval.query_language import parse_query
from opx.retrieval.rewording import QuestionWord
from opx.retrieval.routing import Routed, in_order
from tests.doubles.fake_time import FakeTime
from tests.support.agent_calls import a_system, id_of
from tests.support.builders import a_document, an_entry
from tests.unit.retrieval.test_query import KNOWLEDGE

ACME, SHOP = "client:acme", "client:acme/project:shop"
GATEWAY, DISK = "documents/runbooks/gateway.md", "documents/runbooks/disk.md"
GATEWAY_TITLE, DISK_TITLE = "Payment gateway 5xx", "Disk full on Linux hosts"
REPORT = "Kasse zeigt Sanduhr"
EVERYBODY = Scope()
ANYTHING = QueryConfig(min_confidence=0)


class TestWordsOfAScope:
    """Words that stand for pages, from rows alone."""

    @pytest.fixture
    def time(self) -> FakeTime:
        return FakeTime()

    @pytest.fixture
    def table(self, tmp_path: Path, time: FakeTime) -> Iterator[SqliteTable]:
        database = Database(tmp_path / "tables.sqlite")
        yield SqliteTable(OUTCOMES, database, clock=time.clock)
        database.close()

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

    def test_what_was_corrected_is_forgotten(self, store: LearntStore, table: SqliteTable) -> None:
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
        routed = Routed([a_hit(name, confidence) for name, confidence in found.items()])
        searched = []

        def search(document_id: str) -> Routed:
            searched.append((document_id, question.text))
            return Routed([a_hit("page", 0.99)])

        add_pages(question, [a_stand_in()], routed, search)
        ranked = [(hit.hit.indexed.chunk.document_id, hit.confidence) for hit in in_order(routed.judged)]
        assert ranked == sorted(after.items(), key=lambda one: -one[1])
        changed = after != found
        assert searched == ([("page", f"kasse kaputt {GATEWAY_TITLE}")] if changed else [])
        assert (len(question.changes), len(question.notes), routed.added) == (changed, changed, changed)
        assert question.text == "kasse kaputt"

    def test_a_page_that_passes_no_filter_is_not_mentioned(self) -> None:
        question = parse_query("kasse kaputt", ANYTHING, KNOWLEDGE)
        routed = Routed()
        add_pages(question, [a_stand_in()], routed, lambda _: Routed())
        assert (routed.judged, question.changes, question.notes) == ([], (), [])


def a_hit(document_id: str, confidence: float) -> Judged:
    indexed = an_entry(document_id).indexed
    indexed = replace(indexed, chunk=replace(indexed.chunk, document_id=document_id))
    return Judged(FusedHit(indexed, 1.0, None, None), confidence)


def a_stand_in() -> StandIn:
    document = a_document(GATEWAY, GATEWAY_TITLE, document_id="page")
    word = QuestionWord(0, 5, "kasse", ("kass",), unknown=True, joined=False)
    return StandIn(LearntPage("global", GATEWAY, ("INC-1",), 6, 6), document, (word,))


# -- in questions of a whole system

ANN, BOB = Identity("acme", "shop", "ann"), Identity("acme", "depot", "bob")
CORPUS = {
    GATEWAY: f"# {GATEWAY_TITLE}\n\nFail over to the second acquirer. Restart the payment proxy.",
    DISK: f"# {DISK_TITLE}\n\nFind the biggest directories with du. Grow the volume.",
    "documents/runbooks/dns.md": "# DNS lookups time out\n\nCheck the resolver and its forwarders.",
    "clients/acme/projects/shop/documents/runbooks/cart.md": "# Empty the shop cart cache\n\nFlush the cart cache.",
}
CART = "clients/acme/projects/shop/documents/runbooks/cart.md"


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    with a_system(tmp_path_factory.mktemp("home"), CORPUS) as services:
        yield services


@pytest.fixture
def services(system: System) -> Iterator[System]:
    """The system without the outcomes of earlier tests."""
    yield system
    table = system.tables.table(OUTCOMES)
    for scope in ("global", ACME, SHOP, "client:other"):
        for row in rows_of(table, scope):
            table.delete({"place": row["place"], "entry": row["entry"]})
    for name in ("known_outcomes", "outcome_store", "warnings", "learnt", "experience"):
        system.learning.__dict__.pop(name, None)


def ask(services: System, query: str, config: QueryConfig = ANYTHING, identity: Identity = ANN) -> Answer:
    return services.questions.search(identity).answer(query, config)


def record(
    services: System,
    *notes: str,
    result: str = "resolved",
    key: str = GATEWAY,
    about: str = "payment gateway",
    **more: Any,
) -> None:
    """Outcomes of a page, each of an incident of its own."""
    for number, note in enumerate(notes):
        given = {"incident": f"INC-{number}", "note": note} | more
        receipt = ask(services, about).receipt_id
        services.learning.outcomes(ANN).record(receipt, id_of(services, key), result, **given)


def learnt(answer: Answer) -> dict[str, str]:
    changes = answer.understood.get("reworded", ())
    return {change["from"]: change["to"] for change in changes if change["why"] == "learnt"}


def titles(answer: Answer) -> list[str]:
    return list(dict.fromkeys(result.title for result in answer.results))


def rows(services: System) -> list[Mapping[str, Any]]:
    return list(services.tables.table(OUTCOMES).query(resolved_partition(ACME)))


class TestQueries:
    def test_the_page_comes_first_where_nothing_is_likely(self, services: System) -> None:
        record(services, REPORT, REPORT)
        answer = ask(services, "kasse kaputt")
        assert titles(answer)[0] == GATEWAY_TITLE
        assert learnt(answer) == {"kasse": GATEWAY_TITLE}
        assert f"searched also for: {GATEWAY_TITLE} (kasse; learnt from INC-1, INC-0)" in answer.notes

    def test_incidents_without_names_are_counted(self, services: System) -> None:
        record(services, REPORT, REPORT, incident="")
        record(services, REPORT, incident="INC-9")
        note = f"searched also for: {GATEWAY_TITLE} (kasse; learnt from INC-9 and 2 other incidents)"
        assert note in ask(services, "kasse kaputt").notes

    def test_a_sure_result_is_all_that_is_needed(self, services: System) -> None:
        question = f"{DISK_TITLE} kasse"
        before = ask(services, question)
        assert before.results[0].confidence >= 0.95
        record(services, REPORT, REPORT)
        answer = ask(services, question)
        assert not learnt(answer)
        assert titles(answer) == titles(before)

    def test_words_that_the_page_has_were_judged_already(self, services: System) -> None:
        record(services, "the volume kaputt", "the volume kaputt", key=DISK, about="disk full")
        assert not learnt(ask(services, "volume radio loud"))
        assert learnt(ask(services, "kaputt radio")) == {"kaputt": DISK_TITLE}

    def test_words_that_many_entries_have_stand_for_nothing(self, services: System) -> None:
        record(
            services, "Bondrucker tot", "Bondrucker tot"
        )  # removed entries count for a while: no other test has the word
        keys = [f"clients/acme/documents/runbooks/ticket{number}.md" for number in range(FEW_ENTRIES + 1)]
        found = []
        for number, key in enumerate(keys):
            services.store.put(key, f"# Ticket {number}\n\nOne of {number}: bondrucker of branch {number}.".encode())
            list(services.manager.work())
            found.append(bool(learnt(ask(services, "bondrucker kaputt heute frueh"))))
        assert found[-2:] == [True, False]
        for key in keys:
            services.manager.delete_object(key)
        list(services.manager.work())

    @pytest.mark.parametrize(
        "question",
        [
            '"kasse kaputt"',
            "kaputt -kasse",
            "kaputt tag:kasse",
            "kaputt service:kasse",
            '2026-11-22T02:14:00 ERROR: could not open kasse "users" -check',
            '{"labels": {"alertname": "KasseDown"}, "annotations": {"summary": "kasse kaputt"}}',
            "KASSE-01 kaputt",
            "kasse01 kaputt",
            "alles hängt und die Leute warten",
        ],
    )
    def test_what_was_typed_on_purpose_stays(self, services: System, question: str) -> None:
        record(services, *["Kasse hängt, und die KASSE-01, kasse01"] * 2)
        assert not learnt(ask(services, question))

    @pytest.mark.parametrize("name", ["plain", "document_id", "as_of"])
    def test_plain_questions_and_those_within_a_page_or_a_time_stay(self, services: System, name: str) -> None:
        record(services, REPORT, REPORT)
        now, page = iso_time(services.clock()), id_of(services, GATEWAY)
        config: dict[str, Any] = {name: {"plain": True, "document_id": page, "as_of": now}[name]}
        assert not learnt(ask(services, "kasse kaputt", replace(ANYTHING, **config)))

    def test_filters_hold_for_the_page_too(self, services: System) -> None:
        record(services, REPORT, REPORT)
        assert learnt(ask(services, "kasse kaputt", replace(ANYTHING, categories=("runbooks",))))
        elsewhere = ask(services, "kasse kaputt", replace(ANYTHING, categories=("postmortems",)))
        assert (titles(elsewhere), learnt(elsewhere)) == ([], {})
        assert not learnt(ask(services, "kasse kaputt title:disk"))

    def test_a_page_of_a_project_is_its_own(self, services: System) -> None:
        record(services, REPORT, REPORT, key=CART, about="shop cart cache")
        assert learnt(ask(services, "kasse kaputt")) == {"kasse": "Empty the shop cart cache"}
        assert not learnt(ask(services, "kasse kaputt", identity=BOB))
        kept = {
            scope: len(list(services.tables.table(OUTCOMES).query(resolved_partition(scope)))) for scope in (ACME, SHOP)
        }
        assert kept == {ACME: 0, SHOP: 2}, "where those don't read it who may not see the page"

    def test_a_correction_is_found_with_the_page(self, services: System) -> None:
        receipt, document = ask(services, "shop cart cache").receipt_id, id_of(services, CART)
        for result in ("resolved", "no_effect"):
            services.learning.outcomes(ANN).record(receipt, document, result, note=REPORT)
            kept = services.tables.table(OUTCOMES).query(resolved_partition(SHOP))
            assert [row["result"] for row in kept] == [result]

    def test_other_clients_see_nothing(self, services: System) -> None:
        record(services, REPORT, REPORT)
        for identity in (Identity("other", "shop"), Identity("acm"), Identity()):
            assert not learnt(ask(services, "kasse kaputt", identity=identity))

    def test_the_receipt_differs_from_that_of_the_answer_before(self, services: System) -> None:
        before = ask(services, "kasse kaputt").receipt or {}
        record(services, REPORT, REPORT)
        after = ask(services, "kasse kaputt").receipt or {}
        assert "outcomes" not in before
        assert after["outcomes"]
        assert ask(services, "kasse kaputt").receipt_id != ""
        assert (ask(services, "kasse kaputt").receipt or {})["outcomes"] == after["outcomes"]

    def test_a_store_that_fails_leaves_the_answer_as_it_is(self, services: System) -> None:
        before = ask(services, "kasse kaputt")
        record(services, REPORT, REPORT)

        def failing() -> Any:
            raise StoreUnavailableError("throttled")

        answer = a_query(services, learnt=failing).answer("kasse kaputt", ANYTHING)
        assert titles(answer) == titles(before)
        assert answer.understood["text"] == before.understood["text"]

    def test_an_engine_that_does_not_count_adds_nothing(self, services: System) -> None:
        record(services, REPORT, REPORT)
        words = services.learning.experience.words

        class Managed:
            def search(self, request: SearchRequest) -> SearchResponse:
                found = services.indexing.search_engine.search(request)
                fused = Leg(hits=tuple((entry, 0.3) for entry, _ in found.lexical.hits))
                return SearchResponse(chunks=found.chunks, fused=fused)

        visible = services.corpus.projects.reader(ANN).visible
        question = "kasse cart gateway radio kitchen speaker"
        assert learnt(a_query(services, learnt=lambda: words(visible)).answer(question, ANYTHING))
        found = a_query(services, index=Managed(), learnt=lambda: words(visible)).answer(question, ANYTHING)
        assert GATEWAY_TITLE in titles(found)
        assert not learnt(found)

    def test_where_nothing_was_learnt_nothing_more_is_read(self, services: System) -> None:
        reads = Reads(services.tables.table(OUTCOMES))
        experience = type(services.learning.experience)(
            cast("Any", reads),
            KnownScopes(cast("Any", reads)),
            lambda: services.learning.warnings,
            lambda: services.corpus.catalog,
            lambda: services.learning.learnt,
        )
        assert [experience.words(("global", ACME)) for _ in range(3)] == [None] * 3
        assert reads.count == 1

    def test_rows_are_read_once_until_something_is_learnt(self, services: System) -> None:
        record(services, REPORT, REPORT)
        experience = services.learning.experience
        first = experience.words(("global", ACME))
        again = experience.words(("global", ACME))
        assert first
        assert again
        assert first._of_scopes[0] is again._of_scopes[0]
        record(services, REPORT, incident="INC-9")
        later = experience.words(("global", ACME))
        assert later
        assert later._of_scopes[0] is not first._of_scopes[0]


class TestRecording:
    def test_a_report_is_stored_without_secrets(self, services: System) -> None:
        record(services, "Kasse tot: postgres://app:Xk29fLq8Zp31@db/x\n seit\u200b 9")
        [row] = rows(services)
        assert (row["pageScope"], row["incident"]) == ("global", "INC-0")
        assert row["said"].startswith("Kasse tot")
        assert "Xk29fLq8Zp31" not in row["said"]

    @pytest.mark.parametrize("note", ["", "  ", "\U000e0041\U000e0042"])
    def test_an_empty_report_teaches_nothing(self, services: System, note: str) -> None:
        record(services, note)
        assert rows(services) == []
        assert services.learning.known_outcomes.of([ACME])[LEARNT] == []

    @pytest.mark.parametrize("result", ["no_effect", "made_worse"])
    def test_only_what_resolved_it_is_learnt(self, services: System, result: str) -> None:
        record(services, REPORT, REPORT, result=result)
        assert [row["result"] for row in rows(services)] == [result, result]
        assert not learnt(ask(services, "kasse kaputt"))

    @pytest.mark.parametrize("result", ["no_effect", "made_worse"])
    def test_what_did_not_help_counts_against_it(self, services: System, result: str) -> None:
        record(services, REPORT, REPORT)
        assert learnt(ask(services, "kasse kaputt"))
        for incident in ("INC-8", "INC-9"):
            record(services, REPORT, result=result, incident=incident)
        assert not learnt(ask(services, "kasse kaputt")), "2 of 4 are fewer than three fifths"

    def test_long_notes_are_cut(self, services: System) -> None:
        record(services, "kasse " * 333)
        assert len(rows(services)[0]["said"]) <= MAX_REPORT

    def test_a_correction_takes_it_back_and_another_one_brings_it_back(self, services: System) -> None:
        receipt, document = ask(services, "payment gateway").receipt_id, id_of(services, GATEWAY)
        outcomes = services.learning.outcomes(ANN)
        for result in ("resolved", "made_worse", "made_worse", "resolved", "resolved"):
            outcomes.record(receipt, document, result, note=REPORT)
            assert [row["result"] for row in rows(services)] == [result]

    def test_a_retry_after_a_crash_stores_the_first_report(self, services: System) -> None:
        receipt, document = ask(services, "payment gateway").receipt_id, id_of(services, GATEWAY)
        outcomes = services.learning.outcomes(ANN)
        outcomes.record(receipt, document, "resolved", note=REPORT)
        [row] = rows(services)
        services.tables.table(OUTCOMES).delete({"place": row["place"], "entry": row["entry"]})
        outcomes.record(receipt, document, "resolved", note="in other words")
        assert [one["said"] for one in rows(services)] == [REPORT]

    def test_of_copies_the_page_is_what_most_may_see(self, services: System) -> None:
        copy = "clients/acme/projects/shop/documents/runbooks/copy.md"
        services.store.put(copy, CORPUS[GATEWAY].encode())
        list(services.manager.work())
        record(services, REPORT)
        assert rows(services)[0]["pageScope"] == "global"
        services.manager.delete_object(copy)
        list(services.manager.work())

    def test_a_graph_that_fails_leaves_the_note(self, services: System, monkeypatch: pytest.MonkeyPatch) -> None:
        def failing(*_: object) -> str:
            raise StoreUnavailableError("throttled")

        monkeypatch.setattr(services.learning, "_incident_text", failing)
        record(services, REPORT)
        assert rows(services)[0]["said"] == REPORT

    def test_an_incident_is_known_by_its_node_to_those_who_may_see_it(self, services: System) -> None:
        page = b"# INC-17: Kassenserver reagieren nicht\n\nSeen in two shops."
        own, shared = (
            f"clients/acme/{where}documents/operations/incidents/INC-17.md" for where in ("projects/shop/", "")
        )
        for key in (own, shared):
            services.store.put(key, page)
            list(services.manager.work())
            record(services, "", incident="INC-17", occurrence=key)
            reports = [row["said"] for row in rows(services)]
            assert reports == (["INC-17: Kassenserver reagieren nicht"] if key == shared else [])
        for key in (own, shared):
            services.manager.delete_object(key)
        list(services.manager.work())

    @pytest.mark.parametrize(
        "incident", ["kein: Name", "x" * 100, "a|b<c>", "service:checkout", "日本", "::", "INC 17"]
    )
    def test_incidents_may_have_any_name(self, services: System, incident: str) -> None:
        record(services, REPORT, incident=incident)
        assert rows(services)[0]["incident"] == incident


class Reads:
    """A table, and how often it is read."""

    def __init__(self, table: Any) -> None:
        self._table = table
        self.count = 0

    def __getattr__(self, name: str) -> Any:
        self.count += name in ("get", "get_many", "query")
        return getattr(self._table, name)


def a_query(services: System, **parts: Any) -> KnowledgeQuery:
    reader = services.corpus.projects.reader(ANN)
    used: dict[str, Any] = {
        "index": services.indexing.search_engine,
        "embedder": services.indexing.query_embedder,
        "knowledge": services.installation.knowledge,
        "reader": reader,
        "rules": services.questions.search_rules,
    }
    return KnowledgeQuery(**used | parts)
