"""Searches for alerts: they find the runbook that a rule names, and labels distinguish documents for one alert."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from opx.domain.queries import Band, QueryConfig, SearchMode
from opx.domain.results import Answer
from opx.domain.scopes import Identity
from opx.operations.context import Caller, Context
from opx.operations.procedures import FindProcedure, ProcedureAnswer, find_procedure
from opx.operations.search_tools import SearchRunbooks, search_runbooks
from opx.operations.system import System
from opx.retrieval.identifiers import NOT_ABOUT
from opx.settings import Settings
from opx.system import bootstrap

RULES = """\
groups:
  - name: streams
    rules:
      - alert: GroupIsSlow
        annotations: {runbook_url: "https://wiki.example.com/ops/consumer-falls-behind.html#causes"}
      - alert: GroupIsElsewhere
        annotations: {runbook_url: "https://wiki.example.com/ops/nothing-here"}
      - alert: VolumeGrows
        labels: {severity: warning}
        annotations: {runbook_url: "https://wiki.example.com/ops/tidy-up.html"}
      - alert: VolumeGrows
        labels: {severity: critical}
        annotations: {runbook_url: "https://wiki.example.com/ops/add-space.html"}
"""
BODIES = {
    "documents/runbooks/consumer-falls-behind.md": "# Consumer falls behind\n\nLook at the lag. Restart the consumer.",
    "documents/runbooks/tidy-up.md": "# Tidy up\n\nDelete what nobody reads.",
    "documents/runbooks/add-space.md": "# Add space\n\nAsk for a larger volume and extend it.",
    "documents/runbooks/checkout-errors.md": "---\nservices: [checkout]\n---\n# HighErrorRate of the shop\n\nRoll it back.",
    "documents/runbooks/ledger-errors.md": "---\nservices: [ledger]\n---\n# HighErrorRate of the books\n\nStop imports.",
    "documents/runbooks/any-errors.md": "# HighErrorRate in general\n\nLook at what was deployed last.",
    "documents/runbooks/certificates.md": "# Certificate expired\n\nRenew the certificate and reload the proxy.",
    "documents/runbooks/dns.md": "# Names are not resolved\n\nLook at the resolver and its forwarders.",
    "documents/runbooks/restore-prod.md": "# Restore orders (prod)\n\nAlert: `OrdersDbCorrupt`\n\nRestore it.",
    "documents/runbooks/restore-staging.md": "# Restore orders (staging)\n\nAlert: `OrdersDbCorrupt`\n\nRestore it.",
    "documents/alert-rules/streams.yaml": RULES,
    "clients/acme/documents/runbooks/own.md": "# Slow group at acme\n\nCall acme.",
    "clients/acme/documents/alert-rules/own.yaml": "groups:\n  - name: own\n    rules:\n      - alert: AcmeGroupIsSlow\n"
    "        annotations: {runbook_url: 'https://wiki.example.com/own.html'}\n",
}


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    with bootstrap(Settings(home=str(tmp_path_factory.mktemp("home")))) as system:
        for name, text in BODIES.items():
            system.store.put(name, text.encode())
        list(system.manager.work())
        yield system


def ask(system: System, question: str, client: str = "", mode: SearchMode = SearchMode.BALANCED) -> Answer:
    config = QueryConfig(min_confidence=0, mode=mode)
    return system.questions.for_reader(Identity(client_id=client)).search(question, config)


def titles(answer: Answer) -> list[str]:
    return [result.title for result in answer.results]


class TestRunbooksOfRules:
    @pytest.mark.parametrize("mode", SearchMode)
    @pytest.mark.parametrize(
        "question",
        [
            "GroupIsSlow",
            "what do we do when GroupIsSlow fires?",
            '[FIRING:1] GroupIsSlow (namespace="prod" severity="critical") the certificate is fine',
            json.dumps({"alerts": [{"labels": {"alertname": "GroupIsSlow", "pod": "web-1"}}]}),
        ],
        ids=["name", "question", "line", "JSON"],
    )
    def test_is_first_and_sure_with_a_reason(self, system: System, question: str, mode: SearchMode) -> None:
        answer = ask(system, question, mode=mode)
        assert titles(answer)[0] == "Consumer falls behind"
        assert answer.results[0].band is Band.SURE
        assert answer.results[0].metadata["why"] == "is the runbook that the rule of GroupIsSlow names"
        assert answer.absent == ()

    def test_agents_read_why(self, system: System) -> None:
        found = search_runbooks(Context(system, Caller(Identity())), SearchRunbooks("GroupIsSlow"))
        assert found.answer.documents[0].title == "Consumer falls behind"
        assert "\nWhy: is the runbook that the rule of GroupIsSlow names; " in found.text()

    def test_rule_that_leads_nowhere_changes_nothing(self, system: System) -> None:
        answer = ask(system, "alert GroupIsElsewhere")
        assert all("why" not in result.metadata for result in answer.results)
        assert all(result.band is not Band.SURE for result in answer.results)

    def test_labels_choose_among_the_rules_of_an_alert(self, system: System) -> None:
        first = {
            severity: titles(ask(system, f'[FIRING:1] VolumeGrows (severity="{severity}" pod="db-1")'))[0]
            for severity in ("warning", "critical")
        }
        assert first == {"warning": "Tidy up", "critical": "Add space"}

    def test_without_labels_all_pages_of_its_rules_are_found(self, system: System) -> None:
        answer = ask(system, "VolumeGrows")
        assert set(titles(answer)[:2]) == {"Tidy up", "Add space"}
        assert [one.band for one in answer.results[:2]] == [Band.SURE, Band.SURE]

    def test_alert_names_its_runbook_itself(self, system: System) -> None:
        alert = {
            "labels": {"alertname": "Latency of the shop", "severity": "critical"},
            "annotations": {"runbook_url": "https://wiki.example.com/ops/dns.html"},
        }
        answer = ask(system, json.dumps({"alerts": [alert]}))
        assert titles(answer)[0] == "Names are not resolved"
        assert answer.results[0].metadata["why"] == "is the runbook that the alert names"

    def test_filter_of_the_question_bounds_it(self, system: System) -> None:
        config = QueryConfig(min_confidence=0, categories=("postmortems",))
        assert system.questions.for_reader(Identity()).search("GroupIsSlow", config).results == ()

    def test_of_another_client_has_no_effect(self, system: System) -> None:
        assert titles(ask(system, "AcmeGroupIsSlow", "acme"))[0] == "Slow group at acme"
        for other in ("", "globex"):
            answer = ask(system, "AcmeGroupIsSlow", other)
            assert "Slow group at acme" not in titles(answer)
            assert all("why" not in result.metadata for result in answer.results)


class TestLabels:
    @pytest.mark.parametrize(("service", "title"), [("checkout", "the shop"), ("ledger", "the books")])
    def test_page_for_the_service_of_the_alert_is_first(self, system: System, service: str, title: str) -> None:
        answer = ask(system, f'[FIRING:1] HighErrorRate (service="{service}" pod="x-1") 5 % of requests fail')
        assert titles(answer)[0] == f"HighErrorRate of {title}"
        assert answer.results[0].band is Band.SURE
        other = {"the shop", "the books"} - {title}
        assert not [one for one in answer.results if other & {one.title[17:]} and one.band is Band.SURE]

    def test_general_page_is_first_and_alone_sure_for_a_service_without_its_own(self, system: System) -> None:
        answer = ask(system, '[FIRING:1] HighErrorRate (service="search" pod="x-1") 5 % of requests fail')
        assert titles(answer)[0] == "HighErrorRate in general"
        assert [one.title for one in answer.results if one.band is Band.SURE] == ["HighErrorRate in general"]

    @pytest.mark.parametrize("place", ["prod", "staging"])
    def test_page_for_the_environment_of_the_alert_is_first_and_alone_sure(self, system: System, place: str) -> None:
        answer = ask(system, f'OrdersDbCorrupt{{environment="{place}",severity="page"}}\nchecksums differ')
        assert titles(answer)[0] == f"Restore orders ({place})"
        assert [one.title for one in answer.results if one.band is Band.SURE] == titles(answer)[:1]


class TestProcedures:
    """`find_procedure` and `opx do` choose as searches do."""

    def found(self, system: System, alert: str, **labels: str) -> ProcedureAnswer:
        request = FindProcedure(alert, labels=dict(labels) or "")
        return find_procedure(Context(system, Caller(Identity())), request)

    @pytest.mark.parametrize("place", ["prod", "staging"])
    def test_page_for_the_labels_of_the_alert_is_chosen(self, system: System, place: str) -> None:
        procedure = self.found(system, "OrdersDbCorrupt", environment=place).procedure
        assert procedure.document is not None
        assert (procedure.document.title, procedure.confidence) == (f"Restore orders ({place})", 1.0)

    def test_without_distinguishing_labels_it_is_doubted_and_the_others_are_named(self, system: System) -> None:
        for labels in ({}, {"environment": "lab"}):
            procedure = self.found(system, "OrdersDbCorrupt", **labels).procedure
            assert procedure.confidence == NOT_ABOUT
            (note,) = (
                note for note in procedure.notes if note.startswith("several pages state that they are for this alert")
            )
            assert note.endswith(": Restore orders (prod); Restore orders (staging)")

    def test_runbook_that_is_not_here_is_named_by_its_address(self, system: System) -> None:
        notes = self.found(system, "GroupIsElsewhere").procedure.notes
        assert "its runbook isn't here: https://wiki.example.com/ops/nothing-here" in notes

    def test_absent_alert_is_reported(self, system: System) -> None:
        notes = self.found(system, "CertificateExpiredEverywhere").procedure.notes
        assert any(note.startswith("no page for alert CertificateExpiredEverywhere") for note in notes)
