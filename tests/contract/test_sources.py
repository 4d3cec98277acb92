"""Sources and covered alerts in this process and over HTTP: the same contract for both callers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from opx.connectors.states import Freshness, SourceView, Standing
from opx.domain.knowledge import Tier
from opx.domain.record import replace
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
from opx.operations.sources import (
    ChangeSource,
    CheckSource,
    ListSourceKinds,
    ListSources,
    PullSource,
    RegisterSource,
    RemoveSource,
    TrySource,
    change_source,
    check_source,
    list_source_kinds,
    list_sources,
    pull_source,
    register_source,
    remove_source,
    try_source,
)
from opx.operations.system import System
from opx.settings import Settings
from tests.contract.caller_access import CallerAccess, local_access, remote_access
from tests.support.cli_support import word_services


class SourcesContract:
    """Subclasses provide the fixture `access`: the installation's administrator as a caller of the system `services`."""

    @pytest.fixture
    def services(self, tmp_path: Path) -> System:
        return word_services(Settings(home=str(tmp_path / "home")))

    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        (tmp_path / "docs").mkdir()
        return tmp_path / "docs"

    def registered(self, access: CallerAccess, folder: Path) -> None:
        given = {"kind": "directory", "category": "runbooks/procedures", "options": {"path": str(folder)}}
        definition = {**given, "schedule": "0 4 * * *", "time_zone": "Europe/Vienna"}
        access.call(register_source, RegisterSource(source_id="notes", definition=definition))

    def test_a_registered_source_is_listed_as_it_was_registered(self, access: CallerAccess, folder: Path) -> None:
        self.registered(access, folder)
        (view,) = [view for view in sources(access) if view.source_id == "notes"]
        assert (view.kind, view.category, view.schedule, view.time_zone) == (
            "directory",
            "runbooks/procedures",
            "0 4 * * *",
            "Europe/Vienna",
        )
        assert (view.enabled, view.declared, view.state.last_success) == (True, False, "")

    def test_declared_sources_are_listed_too(self, access: CallerAccess) -> None:
        assert [view.source_id for view in sources(access) if view.declared]

    def test_a_pull_shows_in_the_sources_state(self, access: CallerAccess, folder: Path) -> None:
        self.registered(access, folder)
        (folder / "a.md").write_text("# A\n\ntext\n")
        (folder / "b.md").write_bytes(b"x" * 10)
        (folder / "b.md").chmod(0o644)
        access.call(pull_source, PullSource(source_id="notes"))
        access.work([])
        (view,) = [view for view in sources(access) if view.source_id == "notes"]
        assert (view.state.put, view.state.unchanged, view.state.withdrawn, view.state.error) == (2, 0, 0, "")
        assert view.state.last_success

    def test_a_failed_pull_has_its_error_in_the_state(self, access: CallerAccess, folder: Path) -> None:
        self.registered(access, folder)
        folder.rmdir()
        access.call(pull_source, PullSource(source_id="notes"))
        (view,) = [view for view in sources(access) if view.source_id == "notes"]
        assert "not a directory" in view.state.error

    def test_health_is_checked(self, access: CallerAccess, folder: Path) -> None:
        self.registered(access, folder)
        health = access.call(check_source, CheckSource(source_id="notes")).health
        assert health
        assert (health.ok, health.reason) == (True, "")

    def test_missing_documents_are_accepted_on_request(self, access: CallerAccess, folder: Path) -> None:
        self.registered(access, folder)
        for name in "abc":
            (folder / f"{name}.md").write_text(f"# {name}\n\ntext\n")
        access.call(pull_source, PullSource(source_id="notes"))
        for name in "ab":
            (folder / f"{name}.md").unlink()
        access.call(pull_source, PullSource(source_id="notes"))
        assert "misses 2 of 3" in self.state(access).flag
        access.call(pull_source, PullSource(source_id="notes", accept_missing=True))
        assert (self.state(access).withdrawn, self.state(access).flag) == (2, "")

    def state(self, access: CallerAccess) -> Standing:
        (view,) = [view for view in sources(access) if view.source_id == "notes"]
        return view.state

    def test_new_documents_are_counted_apart_from_changed_ones(self, access: CallerAccess, folder: Path) -> None:
        self.registered(access, folder)
        (folder / "a.md").write_text("# A\n\ntext\n")
        access.call(pull_source, PullSource(source_id="notes"))
        (folder / "a.md").write_text("# A\n\nother text\n")
        (folder / "b.md").write_text("# B\n\ntext\n")
        access.call(pull_source, PullSource(source_id="notes"))
        assert (self.state(access).put, self.state(access).added) == (2, 1)

    def test_a_paused_source_has_no_next_pull(self, access: CallerAccess, folder: Path) -> None:
        self.registered(access, folder)
        before = view_of(access, "notes")
        assert (before.freshness, bool(before.next_pull)) == (Freshness.NEVER, True)
        paused = access.call(change_source, ChangeSource(source_id="notes", enabled=False))
        assert (paused.enabled, paused.next_pull, paused.freshness) == (False, "", Freshness.BY_HAND)
        resumed = access.call(change_source, ChangeSource(source_id="notes", enabled=True))
        assert (resumed.enabled, bool(resumed.next_pull)) == (True, True)

    def test_changes_leave_the_other_fields(self, access: CallerAccess, folder: Path) -> None:
        self.registered(access, folder)
        change = ChangeSource(source_id="notes", schedule="0 5 * * *", tags=("wiki",), options={"pattern": "*.txt"})
        access.call(change_source, change)
        view = view_of(access, "notes")
        assert (view.schedule, view.tags, view.time_zone) == ("0 5 * * *", ("wiki",), "Europe/Vienna")
        assert view.options == {"path": str(folder), "pattern": "*.txt"}
        access.call(change_source, ChangeSource(source_id="notes", options={"pattern": None}))
        assert view_of(access, "notes").options == {"path": str(folder)}

    @pytest.mark.parametrize(
        ("change", "problem"),
        [
            (ChangeSource(source_id="notes", schedule="hourly"), "schedule 'hourly'"),
            (ChangeSource(source_id="notes", options={"depth": 3}), "unknown option 'depth'"),
            (ChangeSource(source_id="notes"), "give a field"),
            (ChangeSource(source_id="unknown", enabled=False), "no source 'unknown'"),
            (ChangeSource(source_id="nvd", schedule=""), "declared in knowledge.yaml"),
        ],
    )
    def test_a_wrong_change_is_refused_and_changes_nothing(
        self, access: CallerAccess, folder: Path, change: ChangeSource, problem: str
    ) -> None:
        self.registered(access, folder)
        before = without_time(sources(access))
        with pytest.raises(InvalidInputError, match=problem):
            access.call(change_source, change)
        assert without_time(sources(access)) == before

    def test_a_declared_source_is_enabled_and_paused(self, access: CallerAccess) -> None:
        assert not view_of(access, "nvd").enabled
        enabled = access.call(change_source, ChangeSource(source_id="nvd", enabled=True))
        assert (enabled.enabled, enabled.declared, bool(enabled.next_pull)) == (True, True, True)
        assert view_of(access, "nvd").enabled
        access.call(change_source, ChangeSource(source_id="nvd", enabled=False))
        assert not view_of(access, "nvd").enabled

    def test_a_trial_reads_documents_and_stores_nothing(self, access: CallerAccess, folder: Path) -> None:
        (folder / "a.md").write_text("# A\n\ntext\n")
        (folder / "b.md").write_text("# B\n\ntext\n")
        given = {"kind": "directory", "category": "runbooks/procedures", "options": {"path": str(folder)}}
        before = sources(access)
        trial = access.call(try_source, TrySource(definition=given, limit=1))
        assert (trial.ok, [one.key for one in trial.documents], trial.reason) == (True, ["a.md"], "")
        assert (sources(access), access.call(list_documents, ListDocuments()).documents) == (before, ())

    def test_a_trial_that_fails_states_the_reason(self, access: CallerAccess, folder: Path) -> None:
        given = {"kind": "directory", "category": "runbooks/procedures", "options": {"path": f"{folder}/none"}}
        trial = access.call(try_source, TrySource(definition=given))
        assert not trial.ok
        assert "mount it, or correct the path" in trial.reason

    def test_a_trial_of_a_wrong_definition_is_refused(self, access: CallerAccess) -> None:
        with pytest.raises(InvalidInputError, match="the option 'path' is needed"):
            access.call(try_source, TrySource(definition={"kind": "directory", "category": "runbooks/procedures"}))

    def test_kinds_have_their_options(self, access: CallerAccess) -> None:
        kinds = {one.kind: one for one in access.call(list_source_kinds, ListSourceKinds()).kinds}
        options = {one.name: one for one in kinds["discourse"].options}
        assert (options["base_url"].type, options["base_url"].required) == ("text", True)
        assert (options["categories"].type, options["max_posts"].default) == ("texts", 40)
        assert (options["key_secret"].is_secret, options["key_user"].is_secret) == (True, False)
        assert (kinds["jira"].category, kinds["directory"].is_local) == ("workplace/tickets", True)
        topics = kinds["gcp_docs"].options[0]
        assert (topics.name, "iam/docs" in topics.default) == ("topics", True)

    def test_a_removed_source_is_gone(self, access: CallerAccess, folder: Path) -> None:
        self.registered(access, folder)
        access.call(remove_source, RemoveSource(source_id="notes"))
        assert "notes" not in [view.source_id for view in sources(access)]

    @pytest.mark.parametrize("source_id", ["unknown", "nvd"])
    def test_a_failed_removal_is_reported(self, access: CallerAccess, source_id: str) -> None:
        with pytest.raises(InvalidInputError, match=source_id):
            access.call(remove_source, RemoveSource(source_id=source_id))

    def test_a_wrong_definition_is_refused(self, access: CallerAccess) -> None:
        definition = {"kind": "carrier-pigeon", "category": "runbooks"}
        with pytest.raises(InvalidInputError, match="unknown kind"):
            access.call(register_source, RegisterSource(source_id="x", definition=definition))


def view_of(access: CallerAccess, source_id: str) -> SourceView:
    return next(view for view in sources(access) if view.source_id == source_id)


def sources(access: CallerAccess) -> tuple[SourceView, ...]:
    return access.call(list_sources, ListSources()).sources


def without_time(views: Iterable[SourceView]) -> list[SourceView]:
    """Of a source that was never pulled, the next pull is now."""
    return [replace(view, next_pull="") for view in views]


class TestLocalSources(SourcesContract):
    @pytest.fixture
    def access(self, services: System) -> Iterator[CallerAccess]:
        with services:
            yield local_access(services, Identity())


class TestRemoteSources(SourcesContract):
    @pytest.fixture
    def access(self, services: System) -> Iterator[CallerAccess]:
        with services, remote_access(services, {"scope": "opx/admin"}) as access:
            yield access


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
