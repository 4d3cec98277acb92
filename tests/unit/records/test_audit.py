"""Audit log: one record per answer, visible only to its scope; failures never prevent an answer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from opx.domain.queries import QueryConfig
from opx.domain.results import Answer
from opx.domain.scopes import Identity
from opx.errors import StoreUnavailableError
from opx.operations.system import System
from opx.ports.tables import AUDIT, GAPS
from opx.records.audit import AuditLog, AuditRecord, InstallationKey, matching
from opx.runtime.metrics import Metric
from opx.settings import Settings
from opx.system import bootstrap
from tests.support.agent_calls import DISK, DISK_TITLE, a_system, id_of
from tests.support.builders import ports_of
from tests.support.fakes import Measured, WordsEmbedder
from tests.support.records_support import BrokenTable, without_records

ACME, OTHER, SHOP = Identity("acme", principal="bob"), Identity("other"), Identity("acme", "shop")
UNANSWERED = "brew espresso on mondays"


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    with a_system(tmp_path_factory.mktemp("home")) as system:
        yield system


@pytest.fixture
def services(system: System) -> System:
    return without_records(system)


def ask(services: System, identity: Identity, query: str = DISK_TITLE, **config: Any) -> Answer:
    return services.questions.search(identity).answer(query, QueryConfig(**config))


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
        answer = services.questions.search(ACME, measured).answer(DISK_TITLE)
        assert (len(answer.results), answer.receipt_id, answer.receipt) == (1, "", None)
        assert answer.notes == ("not recorded: this answer has no receipt",)
        assert measured.values[Metric.RECORDING_FAILURES] == [1.0]

    def test_answer_goes_out_where_no_key_can_be_read(self, services: System) -> None:
        services.records.key = InstallationKey(BrokenTable())
        measured = Measured()
        answer = services.questions.search(ACME, measured).answer(UNANSWERED)
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
        services.questions.search(ACME, measured).answer(DISK_TITLE)
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
