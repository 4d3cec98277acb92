"""Alerts are covered alike in this process and over HTTP: rules, bindings, owners, and the use of their runbooks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from opx.domain.knowledge import Tier
from opx.domain.scopes import Identity
from opx.errors import DocumentNotFoundError, InvalidInputError
from opx.operations.alert_bindings import (
    AssignAlert,
    BindAlert,
    GetAlertUse,
    ImportAlertRules,
    assign_alert,
    bind_alert,
    get_alert_use,
    import_alert_rules,
)
from opx.operations.alerts import KnownAlert, ListAlerts, list_alerts
from opx.operations.corpus import Ingest, ingest
from opx.operations.documents import ListDocuments, list_documents
from opx.operations.outcomes import RecordOutcome, record_outcome
from opx.operations.search import Query, query
from opx.operations.system import System
from opx.settings import Settings
from tests.contract.caller_access import CallerAccess, local_access, remote_access
from tests.support.cli_support import word_services

RULES = """
groups:
  - name: brokers
    rules:
      - alert: BrokerDown
        expr: up == 0
        labels: {severity: critical}
"""
PAGE = "# Restart a broker\n\n1. Restart the broker: `systemctl restart broker`.\n"


class AlertBindingsContract:
    """Subclasses provide the fixture `access`: a caller who may write to the system `services`."""

    @pytest.fixture
    def services(self, tmp_path: Path) -> System:
        return word_services(Settings(home=str(tmp_path / "home")))

    @pytest.fixture
    def page(self, access: CallerAccess, services: System) -> str:
        """The id of a runbook, beside the rule of an alert that names none."""
        access.call(import_alert_rules, ImportAlertRules(name="brokers.yaml", rules=RULES))
        request = Ingest(
            tier=Tier.INTERNAL, category="runbooks/procedures", document=PAGE, metadata={"source": "broker.md"}
        )
        access.call(ingest, request)
        list(services.manager.work())
        listed = access.call(list_documents, ListDocuments()).documents
        return next(one.document_id for one in listed if one.title == "Restart a broker")

    def test_an_alert_is_bound_and_unbound(self, access: CallerAccess, services: System, page: str) -> None:
        assert self.alert(access).binding == "names none"
        access.call(bind_alert, BindAlert(alert="BrokerDown", document_id=page))
        list(services.manager.work())
        bound = self.alert(access)
        assert (bound.binding, bound.document_id, bound.severity) == ("bound", page, "critical")
        assert access.call(bind_alert, BindAlert(alert="BrokerDown")).removed
        list(services.manager.work())
        assert self.alert(access).binding == "names none"

    def test_an_alert_is_assigned_and_stays_bound(self, access: CallerAccess, services: System, page: str) -> None:
        access.call(bind_alert, BindAlert(alert="BrokerDown", document_id=page))
        access.call(assign_alert, AssignAlert(alert="BrokerDown", owner="messaging team"))
        list(services.manager.work())
        assert (self.alert(access).owner, self.alert(access).document_id) == ("messaging team", page)
        access.call(assign_alert, AssignAlert(alert="BrokerDown"))
        list(services.manager.work())
        assert self.alert(access).owner == ""

    def test_answers_and_outcomes_of_its_runbook_are_counted(
        self, access: CallerAccess, services: System, page: str
    ) -> None:
        access.call(bind_alert, BindAlert(alert="BrokerDown", document_id=page))
        list(services.manager.work())
        for _ in range(2):
            answer = access.call(query, Query(query="restart a broker", receipt=True))
        assert answer.receipt_id
        outcome = RecordOutcome(receipt_id=answer.receipt_id, document_id=page, result="resolved")  # type: ignore[arg-type]
        access.call(record_outcome, outcome)
        assert (self.alert(access).resolved, self.alert(access).made_worse) == (1, 0)
        found = access.call(get_alert_use, GetAlertUse())
        assert {one.document_id: one.answered for one in found.documents}[page] == 2
        assert (found.looked_at, found.more) == (2, False)

    def test_rules_without_alerts_are_refused(self, access: CallerAccess, services: System) -> None:
        with pytest.raises(InvalidInputError, match="it defines no alerts"):
            access.call(import_alert_rules, ImportAlertRules(name="a.yaml", rules="groups: []"))

    @pytest.mark.parametrize(
        ("name", "rules", "problem"),
        [
            ("a.yaml", "groups:\n  - {", r"a\.yaml:\d+:"),
            ("a.txt", RULES, "end with .yaml"),
            ("../a.yaml", RULES, "plain name"),
            ("a.yaml", "alerts: [" + "{name: A}," * 2001 + "]", "opx alerts import"),
        ],
    )
    def test_a_file_that_can_not_be_imported_is_refused(
        self, access: CallerAccess, services: System, name: str, rules: str, problem: str
    ) -> None:
        with pytest.raises(InvalidInputError, match=problem):
            access.call(import_alert_rules, ImportAlertRules(name=name, rules=rules))
        list(services.manager.work())
        assert access.call(list_documents, ListDocuments()).documents == ()

    def test_only_runbooks_can_be_bound(self, access: CallerAccess, services: System, page: str) -> None:
        access.call(
            ingest,
            Ingest(
                tier=Tier.INTERNAL,
                category="operations/changes",
                document="# Outage\n\ntext\n",
                metadata={"source": "o.md"},
            ),
        )
        list(services.manager.work())
        listed = access.call(list_documents, ListDocuments()).documents
        other = next(one for one in listed if one.category == "operations/changes")
        with pytest.raises(InvalidInputError, match="not in a category of runbooks"):
            access.call(bind_alert, BindAlert(alert="BrokerDown", document_id=other.document_id))
        with pytest.raises(DocumentNotFoundError):
            access.call(bind_alert, BindAlert(alert="BrokerDown", document_id="0" * 32))
        assert self.alert(access).binding == "names none"

    def alert(self, access: CallerAccess) -> KnownAlert:
        found = access.call(list_alerts, ListAlerts()).alerts
        return next(one for one in found if one.name == "BrokerDown")


class TestLocalAlertBindings(AlertBindingsContract):
    @pytest.fixture
    def access(self, services: System) -> Iterator[CallerAccess]:
        with services:
            yield local_access(services, Identity())


class TestRemoteAlertBindings(AlertBindingsContract):
    @pytest.fixture
    def access(self, services: System) -> Iterator[CallerAccess]:
        claims = {"scope": "opx/admin opx/write", "client_id": "acme"}
        with services, remote_access(services, claims) as access:
            yield access
