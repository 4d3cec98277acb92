"""Records of questions: gaps, from the question that had no answer, and the audit log."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from opx.domain.queries import QueryConfig
from opx.domain.record import replace
from opx.domain.results import Answer
from opx.domain.scopes import Identity
from opx.errors import EmbeddingError, StoreUnavailableError
from opx.operations.system import System
from opx.ports.tables import AUDIT, GAPS
from opx.records.audit import AuditLog, AuditRecord, InstallationKey, matching
from opx.records.capability import check_gaps, is_gap
from opx.records.gaps.log import GapLog
from opx.records.gaps.model import GapStatus
from opx.records.gaps.recording import MAX_ABSENT, MAX_TEXT, shown
from opx.retrieval.query import NO_TIER
from opx.retrieval.searching import RememberedVectors
from opx.retrieval.stages import INDEX_DOWN, UNSEARCHED
from opx.runtime.metrics import Metric
from opx.settings import Settings
from opx.system import bootstrap
from tests.support.agent_calls import DISK, DISK_TITLE, a_system, id_of
from tests.support.builders import ports_of
from tests.support.fakes import Measured, WordsEmbedder
from tests.support.records_support import ESPRESSO, MISSING, SCOPE, BrokenTable, without_records
from tests.unit.retrieval.test_receipts import a_result

ACME = Identity("acme", principal="bob")


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    with a_system(tmp_path_factory.mktemp("home")) as system:
        yield system


@pytest.fixture
def services(system: System) -> System:
    return without_records(system)


BINARY = random.Random(1).randbytes(30_000).decode("utf-8", "replace").replace("\0", " ")


class TestNoticing:
    NEAR = a_result(score=0.4)

    def test_nothing_good_enough_is_a_gap(self) -> None:
        assert is_gap("disk", QueryConfig(), Answer("disk", (), unconfirmed=(self.NEAR,)))
        assert is_gap("disk", QueryConfig(), Answer("disk", ()))

    @pytest.mark.parametrize(
        "query", ["Диск заполнен", "ディスク容量不足", "disk \ufffd\ufffd full", "🔥 disk", "a\tb\nc"]
    )
    def test_text_of_any_language_is_a_gap(self, query: str) -> None:
        assert is_gap(query, QueryConfig(), Answer(query, ()))

    def test_weak_results_are_shown_and_are_a_gap_all_the_same(self) -> None:
        weak, likely = a_result(score=0.49), a_result(score=0.5)
        for least in (0.0, 0.2):
            config = QueryConfig(min_confidence=least)
            assert is_gap("disk", config, Answer("disk", (weak, weak)))
            assert not is_gap("disk", config, Answer("disk", (weak, likely)))

    @pytest.mark.parametrize(
        ("query", "config", "answer"),
        [
            ("disk", {}, {"results": (a_result(),)}),
            ("disk", {}, {"partial": True}),
            ("disk", {}, {"notes": (INDEX_DOWN,)}),
            ("disk", {}, {"notes": (NO_TIER,)}),
            ("disk", {}, {"notes": (f"2 documents are {UNSEARCHED}",)}),
            ("disk", {"document_id": "d"}, {}),
            ("disk", {"as_of": "2026-01-01"}, {}),
            ("?!", {}, {}),
            ("", {}, {}),
            (BINARY, {}, {}),
            ("disk", {"min_confidence": 0.99}, {"unconfirmed": (a_result(score=0.8),)}),
        ],
    )
    def test_anything_else_is_none(self, query: str, config: dict[str, Any], answer: dict[str, Any]) -> None:
        assert not is_gap(query, QueryConfig(**config), Answer(query, **{"results": (), **answer}))

    def test_absent_name_is_a_gap_despite_sure_results(self) -> None:
        sure = Answer("disk", (a_result(score=0.98),), absent=(MISSING,))
        assert is_gap("disk", QueryConfig(), sure)
        assert not is_gap("disk", QueryConfig(document_id="d"), sure)
        assert not is_gap("disk", QueryConfig(), replace(sure, partial=True))


class TestRememberedVectors:
    class Counting(WordsEmbedder):
        requests = 0

        def embed_query(self, text: str) -> Any:
            self.requests += 1
            if text == "fails":
                raise EmbeddingError("throttled")
            return np.array(super().embed_query(text))

    def test_question_is_embedded_once(self) -> None:
        counting = self.Counting()
        remembered = RememberedVectors(counting)
        first = remembered.embed_query("disk")
        assert remembered.of("disk") is first
        assert counting.requests == 1

    def test_a_question_without_a_cached_vector_is_embedded(self) -> None:
        remembered = RememberedVectors(self.Counting())
        assert remembered.of("disk") is not None
        assert remembered.of("fails") is None

    def test_few_are_remembered(self) -> None:
        remembered = RememberedVectors(self.Counting())
        for number in range(100):
            remembered.embed_query(str(number))
        assert len(remembered._vectors) < 10


class TestRecording:
    def ask(self, system: System, query: str, identity: Identity = ACME, **config: Any) -> Answer:
        return system.questions.for_reader(identity).search(query, QueryConfig(**config))

    def test_an_unanswered_question_becomes_a_gap_in_the_callers_scope(self, services: System) -> None:
        self.ask(services, ESPRESSO)
        (gap,) = services.records.gaps.gaps(SCOPE)
        assert (gap.question, gap.count, gap.status) == (ESPRESSO, 1, GapStatus.OPEN)
        assert list(services.records.gaps.gaps("client:other")) == []
        assert list(services.records.gaps.gaps("global")) == []

    def test_answered_question_is_none(self, services: System) -> None:
        assert self.ask(services, "Disk full on Linux hosts").results
        assert list(services.records.gaps.gaps(SCOPE)) == []

    def test_callers_are_counted_not_named(self, services: System) -> None:
        for principal in ("bob", "ann", "bob"):
            self.ask(services, ESPRESSO, Identity("acme", principal=principal))
        (gap,) = services.records.gaps.gaps(SCOPE)
        assert (gap.count, len(gap.callers)) == (3, 2)
        assert not {"bob", "ann"} & set(gap.callers)

    def test_nearest_document_and_filters_are_kept(self, services: System) -> None:
        self.ask(services, "restart kafka espresso", categories=("runbooks",), services=("coffee",), min_confidence=0.7)
        (gap,) = services.records.gaps.gaps(SCOPE)
        assert (gap.categories, gap.services) == (("runbooks",), ("coffee",))
        assert gap.config["minConfidence"] == 0.7

    def test_nearest_document_of_an_agents_gap_is_its_first_result(self, services: System) -> None:
        answer = self.ask(services, "restart espresso machine category:postmortems", min_confidence=0)
        assert answer.results
        assert answer.results[0].confidence < 0.5
        (gap,) = services.records.gaps.gaps(SCOPE)
        assert gap.nearest.document_id == answer.results[0].document_id

    def test_secrets_are_masked_and_long_questions_cut(self) -> None:
        assert "AKIA" not in shown("key AKIAIOSFODNN7REALKEY is refused")
        assert len(shown("word " * 10_000)) == MAX_TEXT
        assert shown("a\0b\ud800\n c") == "a b? c"

    def test_absent_names_of_a_question_are_gaps_of_their_own(self, services: System) -> None:
        self.ask(services, "QueueHighCritical and CVE-2024-12345 and alert QueueHighCritical")
        self.ask(services, f"alert QueueHighCritical on {DISK_TITLE}")
        found = {gap.absent and gap.absent.name: gap.count for gap in services.records.gaps.gaps(SCOPE)}
        assert found == {"QueueHighCritical": 2, "CVE-2024-12345": 1}

    def test_gaps_of_one_question_are_bounded(self, services: System) -> None:
        self.ask(services, " ".join(f"CVE-2024-{number}" for number in range(10_000, 10_010)))
        names = {gap.absent and gap.absent.name for gap in services.records.gaps.gaps(SCOPE)}
        assert names == {f"CVE-2024-{10_000 + number}" for number in range(MAX_ABSENT)}

    def test_name_that_is_a_secret_is_no_gap_of_its_own(self, services: System) -> None:
        answer = self.ask(services, "alert firing with password=XkAbQzPqRstUvWx9Kq2m")
        assert [one.name for one in answer.absent] == ["XkAbQzPqRstUvWx9Kq2m"]
        (gap,) = services.records.gaps.gaps(SCOPE)
        assert gap.absent is None
        assert "XkAbQzPq" not in str(gap)

    def test_a_check_of_gaps_records_nothing(self, services: System) -> None:
        self.ask(services, ESPRESSO)
        assert check_gaps(services.records, services.questions, [SCOPE], 50).asked == 1
        (gap,) = services.records.gaps.gaps(SCOPE)
        assert gap.count == 1
        assert len(list(services.records.audit.records())) == 1

    def test_mistake_of_our_own_keeps_no_answer(self, services: System, monkeypatch: pytest.MonkeyPatch) -> None:
        def mistaken(*_: object) -> None:
            raise ValueError("nobody foresaw it")

        monkeypatch.setattr(services.records.gaps, "add", mistaken)
        monkeypatch.setattr(services.records.audit, "record", mistaken)
        answer = self.ask(services, ESPRESSO)
        assert (answer.query, answer.receipt) == (ESPRESSO, None)

    def test_answer_goes_out_where_gaps_can_not_be_written(self, services: System) -> None:
        services.records.key.hash("read it")
        services.records.gaps = GapLog(BrokenTable(), days=1, clock=services.clock)
        measured = Measured()
        answer = services.questions.for_reader(ACME, measured).search(ESPRESSO)
        assert answer.receipt_id
        assert answer.notes == ("not recorded: this question is not among the gaps",)
        assert measured.values[Metric.RECORDING_FAILURES] == [1.0]


class TestWaitingDocuments:
    NOTE = "1 document is " + UNSEARCHED

    @pytest.fixture
    def interrupted(self, tmp_path: Path) -> Iterator[System]:
        with a_system(tmp_path, {}) as services:
            services.store.put("documents/runbooks/pay.md", b"# Restart the payments gateway\n\nDrain it.")
            yield services

    def test_answer_without_a_good_result_notes_them(self, interrupted: System) -> None:
        question = "Restart the payments gateway"
        assert interrupted.questions.for_reader().search(question).notes == (self.NOTE,)
        list(interrupted.manager.work())
        found = interrupted.questions.for_reader().search(question)
        assert (len(found.results), found.notes) == (1, ())

    def test_question_is_no_gap_meanwhile(self, interrupted: System) -> None:
        interrupted.questions.for_reader(ACME).search(ESPRESSO)
        assert list(interrupted.records.gaps.gaps(SCOPE)) == []

    def test_reader_of_a_client_gets_no_number(self, interrupted: System) -> None:
        assert interrupted.questions.for_reader(ACME).search(ESPRESSO).notes == (f"some documents are {UNSEARCHED}",)

    def test_good_answer_costs_no_count(self, services: System, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(type(services.corpus), "waiting_here", lambda _: pytest.fail("counted"))
        assert services.questions.for_reader(ACME).search(DISK_TITLE).results


def test_ingested_document_closes_the_gap_that_it_answers(tmp_path: Path) -> None:
    with a_system(tmp_path, {}) as services:
        question = "Restart the payments gateway"
        assert not services.questions.for_reader(ACME).search(question).results
        services.store.put("documents/runbooks/pay.md", f"# {question}\n\nDrain it and restart it.".encode())
        list(services.manager.work())
        (closed,) = check_gaps(services.records, services.questions, [SCOPE], 50).closed
    assert (closed.status, closed.closed_by_title) == (GapStatus.CLOSED, question)


OTHER, SHOP = Identity("other"), Identity("acme", "shop")
UNANSWERED = "brew espresso on mondays"


def ask(services: System, identity: Identity, query: str = DISK_TITLE, **config: Any) -> Answer:
    return services.questions.for_reader(identity).search(query, QueryConfig(**config))


def records(services: System, who: str = "", **where: Any) -> list[AuditRecord]:
    return list(services.records.audit.records(who, **where))


def stored(services: System) -> str:
    """Everything that is kept of questions, as text."""
    services.tables.table(AUDIT)
    connection = ports_of(services)._home.questions.connection()
    found = connection.execute(f'SELECT * FROM "{AUDIT.name}"').fetchall()
    return repr([tuple(row) for row in found])


class TestRecords:
    def test_a_record_has_the_caller_and_the_returned_documents(self, services: System) -> None:
        answer = ask(services, ACME)
        (record,) = records(services)
        assert (record.receipt_id, record.who, record.principal) == (answer.receipt_id, "client:acme", "bob")
        assert [each.document_id for each in record.documents] == [id_of(services, DISK)]
        assert record.documents_in_all == 1
        assert record.corpus_version
        assert not record.partial

    def test_question_itself_is_not_kept(self, services: System) -> None:
        ask(services, ACME, "the Zanzibar outage")
        assert "anzibar" not in stored(services)

    def test_same_question_has_the_same_hash_whatever_its_case_and_blanks(self, services: System) -> None:
        ask(services, ACME, "Disk  FULL on linux hosts")
        ask(services, OTHER, "disk full on Linux hosts ")
        ask(services, ACME, "disk full")
        hashes = [record.query_hash for record in sorted(records(services), key=lambda record: record.asked_at)]
        assert hashes[0] == hashes[1] != hashes[2]

    def test_hash_can_not_be_tried_by_another_installation(self, services: System, tmp_path: Path) -> None:
        with bootstrap(Settings(home=str(tmp_path)), embedder=WordsEmbedder()) as other:
            assert other.records.audit.query_hash("disk") != services.records.audit.query_hash("disk")

    def test_document_that_was_shown_as_nearest_is_kept_too(self, services: System) -> None:
        answer = ask(services, ACME, "restart a worker", min_confidence=1.0)
        assert answer.best_rejected
        assert records(services)[0].nearest == answer.best_rejected.document_id

    def test_newest_comes_first_and_old_ones_can_be_left_out(self, services: System) -> None:
        for _ in range(3):
            ask(services, ACME)
        times = [record.asked_at for record in records(services)]
        assert times == sorted(times, reverse=True)
        assert len(records(services, since=times[0])) < 3
        assert records(services, since="2999") == []

    def test_records_are_found_by_who_and_by_document(self, services: System) -> None:
        ask(services, ACME)
        ask(services, OTHER, "Kafka consumer lag in March")
        assert [record.who for record in matching(iter(records(services)), principal="BOB")] == ["client:acme"]
        disk = id_of(services, DISK)
        assert [record.who for record in matching(iter(records(services)), document=disk[:8])] == ["client:acme"]

    def test_record_can_be_read_back(self, services: System) -> None:
        ask(services, ACME)
        (record,) = records(services)
        assert AuditRecord.from_json(json.loads(json.dumps(record.to_json()))) == record

    def test_record_expires(self, tmp_path: Path) -> None:
        now = [1_700_000_000.0]
        with bootstrap(Settings(home=str(tmp_path)), clock=lambda: now[0], embedder=WordsEmbedder()) as services:
            ask(services, ACME)
            now[0] += 364 * 86_400
            assert len(records(services)) == 1
            now[0] += 2 * 86_400
            assert records(services) == []


class TestScopes:
    def test_nobody_sees_the_records_of_another(self, services: System) -> None:
        answer = ask(services, ACME)
        ask(services, SHOP)
        assert {record.who for record in records(services, "client:acme")} == {"client:acme"}
        assert records(services, "client:other") == []
        assert services.records.audit.get(answer.receipt_id, "client:other") is None
        assert services.records.audit.get(answer.receipt_id, "client:acme") is not None

    def test_operator_sees_all_in_order(self, services: System) -> None:
        for identity in (ACME, OTHER, SHOP, ACME):
            ask(services, identity)
        found = [record.who for record in records(services)]
        assert found == ["client:acme", "client:acme/project:shop", "client:other", "client:acme"]


class TestFailures:
    def test_answer_goes_out_without_its_record(self, services: System) -> None:
        measured = Measured()
        services.records.audit = AuditLog(BrokenTable(), services.records.key, days=1, clock=services.clock)
        answer = services.questions.for_reader(ACME, measured).search(DISK_TITLE)
        assert (len(answer.results), answer.receipt_id, answer.receipt) == (1, "", None)
        assert answer.notes == ("not recorded: this answer has no receipt",)
        assert measured.values[Metric.RECORDING_FAILURES] == [1.0]

    def test_answer_goes_out_where_no_key_can_be_read(self, services: System) -> None:
        services.records.key = InstallationKey(BrokenTable())
        measured = Measured()
        answer = services.questions.for_reader(ACME, measured).search(UNANSWERED)
        assert (answer.results, answer.receipt_id) == ((), "")
        assert measured.values[Metric.RECORDING_FAILURES] == [1.0]

    def test_an_unreadable_corpus_version_is_unsettled(self, services: System, monkeypatch: pytest.MonkeyPatch) -> None:
        def away() -> None:
            raise StoreUnavailableError("no index")

        version = services.indexing.corpus_version
        assert version
        monkeypatch.setattr(type(version), "current", lambda _: away())
        answer = ask(services, ACME)
        assert records(services)[0].corpus_version == ""
        assert answer.receipt
        assert answer.receipt["settled"] is False

    def test_a_successful_recording_reports_zero_failures(self, services: System) -> None:
        measured = Measured()
        services.questions.for_reader(ACME, measured).search(DISK_TITLE)
        assert measured.values[Metric.RECORDING_FAILURES] == [0.0]

    @pytest.mark.parametrize("principal", ["\ud800", "x" * 10_000, "Ünï ☃"])
    def test_strange_callers_are_recorded(self, services: System, principal: str) -> None:
        assert ask(services, Identity("acme", principal=principal)).receipt_id


def test_nothing_is_kept_where_that_is_switched_off(tmp_path: Path) -> None:
    settings = Settings(home=str(tmp_path), audit_days=0, gap_days=0)
    with bootstrap(settings, embedder=WordsEmbedder()) as services:
        answer = ask(services, ACME, UNANSWERED)
        assert (answer.receipt_id, answer.receipt) == ("", None)
        assert records(services) == []
        assert list(services.records.gaps.gaps("client:acme")) == []


def test_key_of_two_processes_is_one(services: System) -> None:
    first, second = InstallationKey(services.tables.table(GAPS)), InstallationKey(services.tables.table(GAPS))
    assert first.hash("a", "b") == second.hash("a", "b") != first.hash("ab", "")
