"""Clients and projects in a browser: counts, moves, off-boarding with its proof, the audit log."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.console.curation.steps import eventually, go
from tests.console.served import OPX, Console, running

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = [pytest.mark.browser, pytest.mark.enable_socket]


@pytest.fixture
def console(tmp_path: Path) -> Iterator[Console]:
    """A server over a home with two projects of a client."""
    import subprocess

    home = tmp_path / "home"
    for project in ("shop", "depot"):
        file = tmp_path / f"{project}.md"
        file.write_text(f"# Printer of the {project}\n\n1. Restart it: `systemctl restart cups`.\n")
        command = [str(OPX), "--home", str(home), "--client", "acme", "--project", project, "ingest", str(file)]
        subprocess.run(command, check=True, capture_output=True, timeout=300)
    with running(home) as found:
        yield found


def clients(console: Console) -> dict[str, Any]:
    return {one["clientId"]: one for one in console.api("GET", "/clients")["clients"]}


def test_clients_are_listed_with_their_numbers(page: Page, console: Console) -> None:
    go(page, console, "tenants")
    row = page.get_by_role("table", name="Clients").get_by_role("row").filter(has_text="acme")
    row.wait_for()
    found = clients(console)["acme"]
    assert (found["documents"], found["projects"]) == (2, 2)
    assert row.get_by_role("cell").all_inner_texts()[-4:-2] == ["2", "2"]


def test_a_project_is_moved_after_its_effects_were_shown(page: Page, console: Console) -> None:
    console.api("PUT", "/projects/acme/depot", {"groupId": "retail"})
    go(page, console, "tenants?client=acme")
    page.get_by_role("button", name="Move shop").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Group").fill("retail")
    dialog.get_by_role("button", name="Show what changes").click()
    dialog.get_by_text("shop sees also").wait_for()
    assert console.api("GET", "/projects/acme/shop")["groupId"] == ""
    dialog.get_by_role("button", name="Move", exact=True).click()
    eventually(lambda: console.api("GET", "/projects/acme/shop")["groupId"] == "retail")


def test_a_client_is_removed_with_a_proof_once_its_id_is_typed(page: Page, console: Console) -> None:
    go(page, console, "tenants?client=acme")
    page.get_by_role("button", name="Off-board").click()
    dialog = page.get_by_role("dialog")
    remove = dialog.get_by_role("button", name="Remove everything")
    assert remove.is_disabled()
    dialog.get_by_label("Type the client’s id").fill("acme")
    remove.click()
    page.get_by_text("Nothing is left in any store").wait_for(timeout=120_000)
    report = console.api("GET", "/clients/acme/removal")
    page.get_by_text(report["sha256"]).wait_for()
    assert (clients(console)["acme"]["state"], report["left"]) == ("removed", {})
    assert any(counts["before"] for counts in report["stores"].values())


def test_a_removed_client_is_served_again(page: Page, console: Console) -> None:
    console.api("DELETE", "/clients/acme")
    go(page, console, "tenants?client=acme")
    page.get_by_role("button", name="Serve it again").click()
    page.get_by_role("dialog").get_by_role("button", name="Serve it again").click()
    eventually(lambda: clients(console)["acme"]["state"] == "active")


def test_the_audit_log_leads_to_the_answer(page: Page, console: Console) -> None:
    receipt = console.api("POST", "/knowledge/default/query", {"query": "the printer is stuck"})["receiptId"]
    go(page, console, "tenants?tab=audit")
    page.get_by_role("link", name=receipt).click()
    page.get_by_role("heading", name="An earlier answer").wait_for()
