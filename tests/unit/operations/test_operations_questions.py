"""Operations on the audit log and on gaps, for callers of one scope and for the owner of the machine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from opx.adapters.connections import Connections
from opx.domain.queries import QueryConfig
from opx.domain.results import Absent
from opx.domain.scopes import Identity
from opx.edges.calling import LocalClient, OperationClient
from opx.edges.client import RemoteClient, bearer
from opx.errors import InvalidInputError, ReceiptNotFoundError
from opx.operations import paging
from opx.operations.context import Caller, Context
from opx.operations.questions import (
    CheckGaps,
    GetAuditRecord,
    ListAuditRecords,
    ListGaps,
    ReportGap,
    SettleGap,
    check_gaps,
    get_audit_record,
    list_audit_records,
    list_gaps,
    report_gap,
    settle_gap,
)
from opx.operations.search import Query, query
from opx.operations.system import System
from opx.ports.tables import AUDIT
from opx.records.audit import AuditLog
from opx.records.gaps.model import Gap, GapStatus, Nearest, Wording, from_item
from tests.doubles.api_gateway import DeployedSystem
from tests.support.agent_calls import DISK as DISK_FILE
from tests.support.agent_calls import DISK_TITLE, a_system, id_of
from tests.support.records_support import without_records
from tests.support.remote_support import KINDS

ACME, SHOP, OTHER, NOBODY = Identity("acme"), Identity("acme", "shop"), Identity("other"), Identity()
PAGED = "paged for the alert QueueHighCritical, what now"
ESPRESSO, TEA = "brew espresso on mondays", "pour darjeeling for auditors"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    with a_system(tmp_path_factory.mktemp("home")) as system:
        yield system


@pytest.fixture
def system(shared: System) -> System:
    return without_records(shared)


def caller(system: System, identity: Identity) -> Context:
    """Over HTTP."""
    return Context(system, Caller(identity, token_scopes=frozenset({"opx/admin"})))


def owner(system: System, identity: Identity = NOBODY) -> Context:
    return Context(system, Caller(identity, owns_system=True))


def ask(system: System, identity: Identity, question: str = DISK_TITLE, **config: Any) -> str:
    return system.questions.for_reader(identity).search(question, QueryConfig(**config)).receipt_id


@pytest.fixture(params=KINDS)
def client(request: pytest.FixtureRequest, system: System) -> Iterator[OperationClient]:
    """Of this process, or of a deployed system, for the same caller."""
    if request.param == "folder":
        yield LocalClient(caller(system, SHOP))
        return
    claims = {"opx_client_id": SHOP.client_id, "opx_project_id": SHOP.project_id, "scope": "opx/write opx/admin"}
    with DeployedSystem(system, tokens={"token": claims}) as deployed:
        client = RemoteClient(deployed.endpoint, bearer("token"), Connections(), pause=lambda seconds: None)
        yield client
        client.close()


class TestEveryClient:
    def test_unanswered_questions_are_among_the_gaps(self, client: OperationClient) -> None:
        client.call(query, Query(query=ESPRESSO, config=QueryConfig()))
        (gap,) = client.call(list_gaps, ListGaps(owner="nobody")).gaps
        assert (gap.question, gap.count, gap.scope) == (ESPRESSO, 1, "client:acme/project:shop")
        found = client.call(list_gaps, ListGaps(service="billing"))
        assert (found.gaps, found.more, found.dropped) == ((), False, 0)

    def test_questions_with_the_same_absent_name_are_one_gap(self, client: OperationClient) -> None:
        for question in (PAGED, f"is {DISK_TITLE} why the alert QueueHighCritical fires?"):
            client.call(query, Query(query=question, config=QueryConfig()))
        (gap,) = client.call(list_gaps, ListGaps()).gaps
        assert (gap.absent, gap.count) == (Absent("QueueHighCritical", "alert"), 2)
        assert gap.examples[0] == PAGED

    def test_questions_are_in_the_audit_log(self, client: OperationClient) -> None:
        request = Query(query=DISK_TITLE, config=QueryConfig(min_confidence=0), receipt=True)
        answer = client.call(query, request)
        document = answer.results[0].document_id
        (record,) = client.call(list_audit_records, ListAuditRecords(document_id=document[:8])).records
        assert record.receipt_id == answer.receipt_id
        assert client.call(list_audit_records, ListAuditRecords(since="2999")).records == ()
        assert client.call(list_audit_records, ListAuditRecords(who="nobody else")).records == ()

    def test_answer_of_the_operation_is_that_of_every_client(self, client: OperationClient, system: System) -> None:
        ask(system, SHOP, ESPRESSO)
        assert client.call(list_gaps, ListGaps()) == list_gaps(caller(system, SHOP), ListGaps())
        expected = list_audit_records(caller(system, SHOP), ListAuditRecords())
        assert client.call(list_audit_records, ListAuditRecords()) == expected


class TestAudit:
    def test_caller_of_a_client_sees_its_own_scope(self, system: System) -> None:
        for identity in (ACME, SHOP, OTHER, NOBODY):
            ask(system, identity)
        for context in (caller(system, ACME), owner(system, ACME)):
            found = list_audit_records(context, ListAuditRecords()).records
            assert [record.who for record in found] == ["client:acme"]

    def test_caller_of_no_client_sees_all(self, system: System) -> None:
        for identity in (ACME, SHOP, OTHER, NOBODY):
            ask(system, identity)
        for context in (caller(system, NOBODY), owner(system)):
            found = list_audit_records(context, ListAuditRecords()).records
            assert {record.who for record in found} == {
                "client:acme",
                "client:acme/project:shop",
                "client:other",
                "global",
            }

    def test_records_are_found_by_who_since_and_document(self, system: System) -> None:
        ask(system, ACME)
        ask(system, OTHER, ESPRESSO)
        everybody = owner(system)
        assert [one.who for one in list_audit_records(everybody, ListAuditRecords(who="ACME")).records] == [
            "client:acme"
        ]
        disk = id_of(system, DISK_FILE)
        found = list_audit_records(everybody, ListAuditRecords(document_id=disk[:8].upper())).records
        assert [one.documents[0].document_id for one in found] == [disk]
        assert list_audit_records(everybody, ListAuditRecords(since="2999")).records == ()
        assert len(list_audit_records(everybody, ListAuditRecords(limit=1)).records) == 1

    def test_record_of_a_receipt_is_had_by_its_own_scope_alone(self, system: System) -> None:
        receipt = ask(system, ACME)
        for wanted in (receipt, receipt[:8], "last"):
            assert get_audit_record(owner(system, ACME), GetAuditRecord(receipt_id=wanted)).receipt_id == receipt
        for context in (owner(system), owner(system, OTHER), caller(system, SHOP)):
            with pytest.raises(ReceiptNotFoundError, match=receipt):
                get_audit_record(context, GetAuditRecord(receipt_id=receipt))

    def test_row_of_a_version_before_is_read(self, system: System) -> None:
        system.tables.table(AUDIT).put(
            {
                "receiptId": "r1",
                "who": "client:acme",
                "principal": "bob",
                "askedAt": "2026-03-31T12:00:00.000Z",
                "queryHash": "q",
                "configHash": "c",
                "mode": "balanced",
                "corpusVersion": "1",
                "documentsInAll": 3,
                "nearest": "",
                "answerHash": "a",
                "partial": False,
                "tookMs": 12,
                "documents": ["d1", "d2"],
                "chunks": ["c1", "c2"],
                "confidences": [0.9, 1],
                "expiresAt": 4_000_000_000,
            }
        )
        (record,) = list_audit_records(owner(system, ACME), ListAuditRecords()).records
        assert record.to_json()["documents"] == [
            {"documentId": "d1", "chunkId": "c1", "confidence": 0.9},
            {"documentId": "d2", "chunkId": "c2", "confidence": 1.0},
        ]

    def test_row_has_the_attributes_that_it_always_had(self, system: System) -> None:
        receipt = ask(system, ACME)
        item = system.tables.table(AUDIT).get({"receiptId": receipt})
        assert item is not None
        assert item["documents"] == [id_of(system, DISK_FILE)]
        assert {"who", "askedAt", "chunks", "confidences", "documentsInAll", "tookMs", "expiresAt"} <= item.keys()
        assert isinstance(system.records.audit, AuditLog)


class TestGaps:
    def test_caller_sees_its_own_scope_and_the_owner_every_one(self, system: System) -> None:
        ask(system, ACME, ESPRESSO)
        ask(system, OTHER, TEA)
        questions = {
            "caller": [gap.question for gap in list_gaps(caller(system, ACME), ListGaps()).gaps],
            "caller of no client": [gap.question for gap in list_gaps(caller(system, NOBODY), ListGaps()).gaps],
            "owner": sorted(gap.question for gap in list_gaps(owner(system), ListGaps()).gaps),
            "owner, as a client": [gap.question for gap in list_gaps(owner(system, OTHER), ListGaps()).gaps],
        }
        assert questions == {
            "caller": [ESPRESSO],
            "caller of no client": [],
            "owner": [ESPRESSO, TEA],
            "owner, as a client": [TEA],
        }

    def test_absent_name_is_counted_in_each_scope_apart(self, system: System) -> None:
        for identity in (ACME, ACME, OTHER):
            ask(system, identity, PAGED)
        found = {
            identity.client_id: [(gap.scope, gap.count) for gap in list_gaps(caller(system, identity), ListGaps()).gaps]
            for identity in (ACME, OTHER, NOBODY)
        }
        assert found == {"acme": [("client:acme", 2)], "other": [("client:other", 1)], "": []}

    def test_nearest_name_is_of_a_page_that_the_scope_sees(self, tmp_path: Path) -> None:
        page = "# QueueHighWarning\n\nDrain the queue of QueueHighWarning."
        with a_system(tmp_path, {"clients/acme/documents/runbooks/queue.md": page}) as system:
            for identity in (ACME, OTHER):
                ask(system, identity, PAGED)
            found = [list_gaps(caller(system, identity), ListGaps()).gaps[0] for identity in (ACME, OTHER)]
        assert [gap.absent and gap.absent.nearest for gap in found] == ["QueueHighWarning", ""]

    def test_answer_to_a_caller_has_as_many_as_fit(self, system: System, monkeypatch: pytest.MonkeyPatch) -> None:
        for question in (ESPRESSO, TEA):
            ask(system, ACME, question, services=(question.split()[1],))
        monkeypatch.setattr(paging, "PAGE_BYTES", 1)
        found = list_gaps(caller(system, ACME), ListGaps())
        assert (len(found.gaps), found.more, found.dropped) == (1, True, 0)
        found = list_gaps(owner(system), ListGaps())
        assert (len(found.gaps), found.more) == (2, False)

    def test_they_are_filtered_and_settled_ones_are_shown_on_request(self, system: System) -> None:
        ask(system, ACME, ESPRESSO, services=("coffee",))
        context = owner(system, ACME)
        (gap,) = list_gaps(context, ListGaps(service="Coffee", owner="nobody")).gaps
        assert list_gaps(context, ListGaps(service="tea")).gaps == ()
        settle_gap(context, SettleGap(gap_id=gap.gap_id[:10], because="off topic"))
        assert list_gaps(context, ListGaps()).gaps == ()
        (settled,) = list_gaps(context, ListGaps(settled=True)).gaps
        assert (settled.status, settled.because, settled.to_json()["status"]) == (
            GapStatus.CLOSED,
            "off topic",
            "closed",
        )

    def test_closing_needs_a_reason_and_ignoring_none(self, system: System) -> None:
        ask(system, ACME, ESPRESSO)
        context = owner(system)
        (gap,) = list_gaps(context, ListGaps()).gaps
        with pytest.raises(InvalidInputError, match="because is missing"):
            settle_gap(context, SettleGap(gap_id=gap.gap_id, because=" "))
        assert settle_gap(context, SettleGap(gap_id=gap.gap_id, ignore=True)).status is GapStatus.IGNORED

    def test_gap_of_another_scope_is_not_settled(self, system: System) -> None:
        ask(system, ACME, ESPRESSO)
        (gap,) = list_gaps(owner(system), ListGaps()).gaps
        for context in (owner(system, OTHER), caller(system, NOBODY)):
            with pytest.raises(InvalidInputError, match="no gap has an id that begins with"):
                settle_gap(context, SettleGap(gap_id=gap.gap_id, ignore=True))

    def test_only_gaps_that_the_caller_sees_are_checked(self, system: System) -> None:
        ask(system, ACME, ESPRESSO)
        ask(system, OTHER, TEA)
        every = CheckGaps(every_scope=True)
        assert check_gaps(owner(system), CheckGaps()).asked == 2
        assert check_gaps(owner(system), CheckGaps(limit=1)).left == 1
        assert check_gaps(owner(system, ACME), CheckGaps()).asked == 1
        assert check_gaps(owner(system, ACME), every).asked == 2
        assert check_gaps(caller(system, ACME), every).asked == 1


def test_gap_is_closed_by_the_document_that_answers_it(tmp_path: Path) -> None:
    with a_system(tmp_path, {}) as system:
        question = "Restart the payments gateway"
        ask(system, ACME, question)
        system.store.put("documents/runbooks/pay.md", f"# {question}\n\nDrain it and restart it.".encode())
        list(system.manager.work())
        found = check_gaps(owner(system), CheckGaps())
        (closed,) = found.closed
    assert (closed.question, closed.closed_by_title) == (question, question)
    assert (found.asked, found.left, found.failed) == (1, 0, 0)


def test_absent_name_is_closed_by_the_page_about_it(tmp_path: Path) -> None:
    sibling = "# QueueHighWarning\n\nThe alert QueueHighWarning: drain the queue."
    with a_system(tmp_path, {"documents/runbooks/sibling.md": sibling}) as system:
        ask(system, ACME, PAGED, categories=("runbooks",))
        (gap,) = list_gaps(owner(system), ListGaps()).gaps
        assert gap.absent is not None
        assert gap.absent.nearest == "QueueHighWarning"
        assert check_gaps(owner(system), CheckGaps()).closed == ()
        system.store.put("documents/runbooks/queue.md", b"# QueueHighCritical\n\nStop the producers.")
        list(system.manager.work())
        (closed,) = check_gaps(owner(system), CheckGaps()).closed
    assert (closed.question, closed.closed_by_title) == (PAGED, "QueueHighCritical")


def test_row_of_a_gap_of_a_version_before_is_read() -> None:
    item = {
        "scopeKey": "client:acme",
        "gapId": "g1",
        "statusKey": "client:acme#open",
        "status": "open",
        "texts": [ESPRESSO],
        "termsKeys": ["t"],
        "signs": [b"\x00\xff"],
        "models": ["words"],
        "firstAskedAt": "2026-01-01T00:00:00Z",
        "lastAskedAt": "2026-02-01T00:00:00Z",
        "count": 2,
        "callers": ["c"],
        "named": [],
        "categories": ["runbooks"],
        "nearest": {
            "document_id": "d1",
            "title": "T",
            "category": "runbooks",
            "author": "ann",
            "confidence": 0,
            "services": ["kafka"],
        },
        "config": {"tiers": ["internal"], "minConfidence": 0.7},
        "because": "",
        "closedBy": "",
        "closedByTitle": "",
        "closedAt": "",
        "revision": 2,
        "expiresAt": 4_000_000_000,
    }
    assert from_item(item) == Gap(
        "client:acme",
        "g1",
        (Wording(ESPRESSO, "t", b"\x00\xff", "words"),),
        "2026-01-01T00:00:00Z",
        "2026-02-01T00:00:00Z",
        count=2,
        callers=("c",),
        categories=("runbooks",),
        nearest=Nearest("d1", "T", "runbooks", "ann", 0.0, ("kafka",)),
        config={"tiers": ["internal"], "minConfidence": 0.7},
        revision=2,
    )


class TestReporting:
    REPORT = ReportGap(ESPRESSO, "no page names the grinder's setting")

    def test_a_report_is_a_gap_of_the_callers_scope_with_what_was_missing(self, system: System) -> None:
        report_gap(caller(system, ACME), self.REPORT)
        (gap,) = list_gaps(caller(system, ACME), ListGaps()).gaps
        assert (gap.question, gap.missing, gap.count) == (ESPRESSO, (self.REPORT.missing,), 1)
        assert list_gaps(caller(system, OTHER), ListGaps()).gaps == ()

    def test_a_repeated_report_counts_once(self, system: System) -> None:
        for missing in ("one thing", "one thing", "another"):
            report_gap(caller(system, ACME), ReportGap(ESPRESSO, missing))
        (gap,) = list_gaps(caller(system, ACME), ListGaps()).gaps
        assert (gap.count, gap.missing) == (1, ("one thing", "another"))

    def test_a_report_right_after_the_unanswered_query_counts_once(self, system: System) -> None:
        ask(system, ACME, ESPRESSO, min_confidence=0.7)
        assert report_gap(caller(system, ACME), self.REPORT).record().count == 1

    def test_a_report_right_after_a_reported_absence_counts_once(self, system: System) -> None:
        ask(system, ACME, PAGED)
        assert report_gap(caller(system, ACME), ReportGap(PAGED, "no page")).record().count == 1
        (gap,) = list_gaps(caller(system, ACME), ListGaps()).gaps
        assert (gap.absent and gap.absent.name, gap.missing) == ("QueueHighCritical", ("no page",))

    def test_reports_of_several_callers_count_each(self, system: System) -> None:
        for principal in ("a", "b"):
            report_gap(caller(system, Identity("acme", principal=principal)), self.REPORT)
        assert list_gaps(caller(system, ACME), ListGaps()).gaps[0].count == 2

    def test_reported_gap_that_has_an_answer_stays_open_while_no_document_changes(self, system: System) -> None:
        report_gap(caller(system, ACME), ReportGap(DISK_TITLE, "which volume"))
        assert check_gaps(owner(system), CheckGaps()).closed == ()

    def test_secrets_are_masked(self, system: System) -> None:
        report_gap(caller(system, ACME), ReportGap(ESPRESSO, "use AKIAJ5Q2M7X9K3W8R4T6"))
        assert "AKIAJ5Q2M7X9K3W8R4T6" not in str(list_gaps(caller(system, ACME), ListGaps()).gaps)

    @pytest.mark.parametrize("question", ["?!", "the of"])
    def test_a_question_without_words_is_refused(self, system: System, question: str) -> None:
        with pytest.raises(InvalidInputError, match="no words"):
            report_gap(caller(system, ACME), ReportGap(question, "all"))
