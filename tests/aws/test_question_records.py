"""Records of queries on AWS: audit log, receipts and gaps in DynamoDB, and the version of the corpus."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lambdas.report_coverage.handler import make_handler as make_coverage_handler
from opx.domain.queries import QueryConfig
from opx.domain.scopes import Identity
from opx.operations.system import System
from opx.ports.tables import AUDIT, GAPS
from opx.records.daily import CHECK
from opx.records.gaps.log import GapLog
from opx.records.gaps.model import GapStatus
from tests.aws.cloud import Cloud
from tests.support.api_requests import a_token, call, refusal
from tests.support.fakes import FakeContext
from tests.support.records_support import a_gap
from tests.support.telemetry_support import measured

DISK = "documents/runbooks/disk.md"
TITLE = "Disk full on Linux hosts"
TEXT = f"# {TITLE}\n\nFind the biggest directories with du. Delete rotated logs. Grow the volume."
ACME = Identity("acme", principal="bob")


def ask(services: System, query: str = TITLE) -> Any:
    return services.questions.for_reader(ACME).search(query, QueryConfig(min_confidence=0.7))


def test_every_batch_of_documents_gives_another_version(cloud: Cloud) -> None:
    before = ask(cloud.services).receipt["corpusVersion"]
    cloud.put(DISK, TEXT)
    cloud.deliver()
    receipt = ask(cloud.services).receipt
    assert (receipt["corpusVersion"] == before, receipt["settled"]) == (False, False)
    cloud.send(cloud.event(DISK))
    cloud.deliver()  # unchanged
    assert ask(cloud.services).receipt["corpusVersion"] == receipt["corpusVersion"]


def test_the_number_of_corpus_changes_is_hidden_from_clients(cloud: Cloud) -> None:
    of_everybody = cloud.services.questions.for_reader(Identity()).search(TITLE)
    assert of_everybody.receipt
    assert of_everybody.receipt["corpusVersion"] == "0"
    assert len(ask(cloud.services).receipt["corpusVersion"]) == 16


def test_question_is_in_the_audit_log_of_its_scope(cloud: Cloud) -> None:
    cloud.put(DISK, TEXT)
    cloud.deliver()
    receipt_id = ask(cloud.services).receipt_id
    audit = cloud.services.records.audit
    assert [record.receipt_id for record in audit.records("client:acme")] == [receipt_id]
    assert [record.principal for record in audit.records()] == ["bob"]
    assert list(audit.records("client:other")) == []


def test_question_costs_one_write_once_its_scope_is_known(cloud: Cloud) -> None:
    cloud.put(DISK, TEXT)
    cloud.deliver()
    ask(cloud.services)
    before = len(cloud.items(AUDIT.name))
    ask(cloud.services)
    assert len(cloud.items(AUDIT.name)) == before + 1


def test_unanswered_question_is_closed_by_the_daily_check(cloud: Cloud) -> None:
    assert not ask(cloud.services).results
    assert cloud.retrieve(CHECK, FakeContext()) == {"asked": 1, "closed": 0, "left": 0, "failed": 0}
    cloud.put(DISK, TEXT)
    cloud.deliver()
    assert cloud.retrieve(CHECK, FakeContext())["closed"] == 1
    (gap,) = cloud.services.records.gaps.gaps("client:acme")
    assert (gap.status, gap.closed_by_title, gap.count) == (GapStatus.CLOSED, TITLE, 1)


def test_model_can_not_have_gaps_checked_through_the_gateway(cloud: Cloud) -> None:
    ask(cloud.services)
    assert "closed" not in cloud.retrieve(dict(CHECK), FakeContext.of_gateway("search_runbooks"))


def test_without_gaps_the_index_is_left_asleep(cloud: Cloud) -> None:
    cloud.search.reset()
    assert cloud.retrieve(CHECK, FakeContext())["asked"] == 0
    assert cloud.search.requests == []


def test_open_gaps_are_counted_once_a_day(cloud: Cloud, capsys: pytest.CaptureFixture[str]) -> None:
    ask(cloud.services)
    capsys.readouterr()
    assert make_coverage_handler(lambda: cloud.services)({"holdings": True}, FakeContext())["gaps"] == 1
    found = {named: values for named, values in measured(capsys.readouterr().out).items() if named.name == "OpenGaps"}
    by_owner = {dict(named.dimensions).get("owner"): values for named, values in found.items()}
    assert by_owner["nobody"] == [1.0]
    assert by_owner["authors"] == [0.0]


def test_gap_is_stored_as_it_was(cloud: Cloud) -> None:
    log = GapLog(cloud.services.tables.table(GAPS), days=1, clock=cloud.services.clock)
    gap = log.add(a_gap("alpha", vector=[1.0, -1.0] * 100, named=("a",)))
    assert list(log.gaps(gap.scope_key)) == [gap]


class TestApi:
    def ask(self, cloud: Cloud, name: str, token: Any, **query: str) -> tuple[int, Any]:
        return call(cloud.retrieve, name, caller=token, query=query)

    def test_gaps_are_those_of_the_own_scope(self, cloud: Cloud) -> None:
        ask(cloud.services, "brew espresso")
        status, found = self.ask(cloud, "list_gaps", a_token("acme"))
        assert (status, [gap["question"] for gap in found["gaps"]]) == (200, ["brew espresso"])
        for other in (a_token("other"), a_token(scopes="opx/admin"), a_token("acme", "shop")):
            assert self.ask(cloud, "list_gaps", other)[1]["gaps"] == []
        assert refusal(self.ask(cloud, "list_gaps", a_token())) == (403, "forbidden")

    def test_audit_log_is_for_administrators_and_of_the_own_scope(self, cloud: Cloud) -> None:
        ask(cloud.services, "brew espresso")
        admin = {"scopes": "opx/admin"}
        assert self.ask(cloud, "list_audit_records", a_token("acme"))[0] == 403
        status, found = self.ask(cloud, "list_audit_records", a_token("acme", **admin))
        assert (status, [record["principal"] for record in found["records"]]) == (200, ["bob"])
        assert self.ask(cloud, "list_audit_records", a_token("other", **admin))[1]["records"] == []
        assert len(self.ask(cloud, "list_audit_records", a_token(**admin))[1]["records"]) == 1
        assert "espresso" not in json.dumps(found)
