"""Words of resolved incidents in questions to a whole system: the answers they change, and the reports they come from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

import pytest

from opx.domain.ids import iso_time
from opx.domain.queries import QueryConfig
from opx.domain.record import replace
from opx.domain.results import Answer
from opx.domain.scopes import Identity
from opx.errors import StoreUnavailableError
from opx.learning.outcome_store import LEARNT, KnownScopes, resolved_partition
from opx.operations.system import System
from opx.ports import Leg, SearchRequest, SearchResponse
from opx.ports.tables import OUTCOMES
from opx.retrieval.learned_words import FEW_ENTRIES
from opx.retrieval.query import KnowledgeQuery
from tests.doubles.hooked_table import CountedReads
from tests.support.agent_calls import a_system, id_of
from tests.support.outcome_support import forget_outcomes
from tests.support.query_support import a_knowledge_query

ACME, SHOP = "client:acme", "client:acme/project:shop"
GATEWAY, DISK = "documents/runbooks/gateway.md", "documents/runbooks/disk.md"
GATEWAY_TITLE, DISK_TITLE = "Payment gateway 5xx", "Disk full on Linux hosts"
REPORT = "Kasse zeigt Sanduhr"
ANYTHING = QueryConfig(min_confidence=0)
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
    forget_outcomes(system, "global", ACME, SHOP, "client:other")


def ask(services: System, query: str, config: QueryConfig = ANYTHING, identity: Identity = ANN) -> Answer:
    return services.questions.for_reader(identity).search(query, config)


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
    def test_deliberately_typed_question_uses_no_learnt_words(self, services: System, question: str) -> None:
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

        answer = a_query(services, learnt=failing).search("kasse kaputt", ANYTHING)
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
        assert learnt(a_query(services, learnt=lambda: words(visible)).search(question, ANYTHING))
        found = a_query(services, index=Managed(), learnt=lambda: words(visible)).search(question, ANYTHING)
        assert GATEWAY_TITLE in titles(found)
        assert not learnt(found)

    def test_absence_of_learnt_words_is_read_once(self, services: System) -> None:
        reads = CountedReads(services.tables.table(OUTCOMES))
        experience = type(services.learning.experience)(
            cast("Any", reads),
            KnownScopes(cast("Any", reads)),
            lambda: services.learning.warnings,
            lambda: services.corpus.catalog,
            lambda: services.learning.learnt,
        )
        assert [experience.words(("global", ACME)) for _ in range(3)] == [None] * 3
        assert reads.reads == 1

    def test_rows_are_read_once_until_something_is_learnt(self, services: System) -> None:
        record(services, REPORT, REPORT)
        experience = services.learning.experience
        first = experience.words(("global", ACME))
        again = experience.words(("global", ACME))
        assert first
        assert again
        assert first.of_scopes[0] is again.of_scopes[0]
        record(services, REPORT, incident="INC-9")
        later = experience.words(("global", ACME))
        assert later
        assert later.of_scopes[0] is not first.of_scopes[0]


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
    def test_outcome_that_did_not_help_counts_against_learnt_words(self, services: System, result: str) -> None:
        record(services, REPORT, REPORT)
        assert learnt(ask(services, "kasse kaputt"))
        for incident in ("INC-8", "INC-9"):
            record(services, REPORT, result=result, incident=incident)
        assert not learnt(ask(services, "kasse kaputt")), "2 of 4 are fewer than three fifths"

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

        monkeypatch.setattr(services.learning, "incident_text", failing)
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


def a_query(services: System, **parts: Any) -> KnowledgeQuery:
    reader = services.corpus.projects.reader(ANN)
    used: dict[str, Any] = {
        "index": services.indexing.search_engine,
        "embedder": services.indexing.query_embedder,
        "knowledge": services.installation.knowledge,
        "reader": reader,
        "rules": services.questions.search_rules,
    }
    return a_knowledge_query(**used | parts)
