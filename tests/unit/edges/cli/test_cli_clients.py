"""`opx client` and `opx project`."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from opx.domain.scopes import Identity, Scope
from opx.ingestion.corpus.clients import Client, ClientState
from tests.support.cli_support import Opx
from tests.support.tenants_support import PROCEDURES


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two clients with a document each, one in a project."""
    opx = Opx(tmp_path_factory.mktemp("filled"))
    with opx.services() as services:
        for scope in (Scope("acme", project_id="shop"), Scope("other")):
            services.ingestion.manager_of(scope).ingest_document(
                "internal", PROCEDURES, f"# Disk\n\nThe {scope.key} walrus.", {}
            )
    return opx.home


@pytest.fixture
def opx(filled: Path, tmp_path: Path) -> Opx:
    opx = Opx(tmp_path)
    shutil.copytree(filled, opx.home)
    return opx


def test_clients_are_listed_with_what_they_have(opx: Opx) -> None:
    found = json.loads(opx("client", "list", "--json").stdout)
    assert [(one["clientId"], one["state"], one["documents"], one["projects"]) for one in found] == [
        ("acme", "active", 1, 1),
        ("other", "active", 1, 0),
    ]
    assert opx("client", "list").stdout.splitlines()[1].split() == ["acme", "active", found[0]["since"], "1", "1"]


def test_client_of_which_questions_alone_are_kept_is_listed(opx: Opx) -> None:
    with opx.services() as services:
        services.questions.for_reader(Identity("asker")).query("quantum gearbox")
    assert "asker" in opx("client", "list").stdout


def test_dry_run_shows_each_store_and_removes_nothing(opx: Opx) -> None:
    shown = opx("client", "remove", "acme", "--dry-run")
    assert shown.exit_code == 0
    assert ["document", "keys", "1"] in [line.split() for line in shown.stdout.splitlines()]
    assert opx("client", "show", "acme").stdout == shown.stdout


def test_removal_prints_its_report_and_the_client_is_then_refused(opx: Opx) -> None:
    removed = opx("client", "remove", "acme", "--yes")
    assert removed.exit_code == 0
    assert "all of it is gone; the report is kept as offboarding/acme-" in removed.stdout
    assert json.loads(opx("client", "show", "acme", "--json").stdout)["state"] == "removed"
    refused = opx("--client", "acme", "search", "walrus")
    assert (refused.exit_code, "opx client add acme" in refused.stderr) == (2, True)
    file = opx.write("late.md", "# Late\n\nText.")
    assert opx("--client", "acme", "ingest", file).exit_code != 0
    assert opx("client", "add", "acme").exit_code == 0
    assert opx("--client", "acme", "ingest", file).exit_code == 0


def test_removal_as_json_is_the_report(opx: Opx) -> None:
    report = json.loads(opx("client", "remove", "acme", "--yes", "--json").stdout)
    assert report["stores"]["document keys"] == {"before": 1, "removed": 1, "after": 0}
    assert report["left"] == {}


def test_remains_of_a_removed_client_are_listed_with_exit_code_1(opx: Opx, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("opx.lifecycle.clients.document_holdings.IndexEntries.remove", lambda *_: None)
    removed = opx("client", "remove", "acme", "--yes")
    assert removed.exit_code == 1
    assert "left: 1 index entries" in removed.stderr
    monkeypatch.undo()
    assert opx("client", "remove", "acme", "--yes").exit_code == 0


def test_removal_without_a_terminal_requires_yes(opx: Opx) -> None:
    refused = opx("client", "remove", "acme")
    assert refused.exit_code == 2
    assert "add --yes" in refused.stderr
    assert json.loads(opx("client", "show", "acme", "--json").stdout)["stores"]["document keys"] == 1


@pytest.mark.parametrize("command", [("show",), ("add",), ("remove", "--yes")])
def test_malformed_client_is_refused(opx: Opx, command: tuple[str, ...]) -> None:
    refused = opx("client", *command, "a%")
    assert (refused.exit_code, "'a%' is not" in refused.stderr) == (2, True)


def test_deployed_system_is_administered_where_its_stores_are(opx: Opx) -> None:
    refused = opx("client", "list", OPX_API_URL="https://example.org")
    assert refused.exit_code == 0  # --home says which system is meant
    with opx.services() as services:
        services.corpus.clients.put(Client("acme", ClientState.REMOVING, removal="acme-1"))
    assert "being removed" in opx("client", "add", "acme").stderr


def test_move_is_described_before_and_after(opx: Opx) -> None:
    opx("project", "assign", "acme", "ledger", "bank")
    planned = opx("project", "assign", "acme", "shop", "bank", "--dry-run").stdout.splitlines()
    assert planned == [
        "project ledger will see client:acme/project:shop",
        "project shop will see client:acme/group:bank, client:acme/project:ledger",
    ]
    moved = opx("project", "assign", "acme", "shop", "bank").stdout.splitlines()
    assert moved[0] == "project shop of client acme is in group bank"
    assert [line.replace("now sees", "will see") for line in moved[1:]] == planned
    assert opx("project", "list", "acme").stdout.split() == ["PROJECT", "GROUP", "ledger", "bank", "shop", "bank"]
    assert opx("project", "list", "acme", "--group", "none").stdout == "no projects\n"
    left = opx("project", "remove", "acme", "ledger").stdout
    assert "project shop no longer sees client:acme/project:ledger" in left
    assert opx("project", "list", "acme").stdout.split() == ["PROJECT", "GROUP", "shop", "bank"]
