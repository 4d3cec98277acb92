"""Coverage in the console: rules are imported, alerts bound to runbooks and assigned."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.console.curation.steps import eventually, go
from tests.console.served import Console
from tests.console.test_pages import violations

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = [pytest.mark.browser, pytest.mark.enable_socket]

RULES = """groups:
  - name: routers
    rules:
      - alert: AaZorblaxDown
        expr: up == 0
        labels: {severity: critical}
"""
"""An alert that stands first on the page."""


def alert(console: Console) -> dict[str, Any]:
    found = {one["name"]: one for one in console.api("GET", "/alerts")["alerts"]}
    known: dict[str, Any] = found.get("AaZorblaxDown", {})
    return known


def imported(console: Console) -> None:
    console.api("POST", "/alerts/rules", {"name": "routers.yaml", "rules": RULES})
    eventually(lambda: alert(console))


def act(page: Page, console: Console, action: str) -> None:
    go(page, console, "coverage")
    page.get_by_role("button", name="Actions of AaZorblaxDown").click()
    page.get_by_role("menuitem", name=action, exact=True).click()


def test_rules_are_imported(page: Page, console: Console, tmp_path: Path) -> None:
    (tmp_path / "routers.yaml").write_text(RULES)
    (tmp_path / "broken.yaml").write_text("groups: []")
    go(page, console, "coverage")
    page.get_by_role("button", name="Import alert rules").click()
    with page.expect_file_chooser() as chooser:
        page.get_by_role("button", name="Choose files").first.click()
    chooser.value.set_files([str(tmp_path / "routers.yaml"), str(tmp_path / "broken.yaml")])
    page.get_by_text("broken.yaml: broken.yaml: it defines no alerts").wait_for(timeout=90_000)
    page.get_by_text("routers.yaml: 1 alerts").wait_for()
    page.get_by_role("row").filter(has_text="AaZorblaxDown").first.wait_for()
    assert (alert(console)["binding"], alert(console)["severity"]) == ("names none", "critical")
    assert violations(page) == []


def test_an_alert_is_bound_and_unbound(page: Page, console: Console) -> None:
    imported(console)
    act(page, console, "Bind to a runbook")
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Runbook", exact=True).click()
    page.get_by_role("option").filter(has_text="Disk full on a Linux host").first.click()
    dialog.get_by_role("button", name="Bind", exact=True).click()
    row = page.get_by_role("row").filter(has_text="AaZorblaxDown").first
    row.get_by_role("link", name="Disk full on a Linux host").wait_for(timeout=90_000)
    assert (alert(console)["binding"], alert(console)["title"]) == ("bound", "Disk full on a Linux host")
    act(page, console, "End its binding")
    page.get_by_role("dialog").get_by_role("button", name="End it").click()
    eventually(lambda: alert(console)["binding"] == "names none")


@pytest.mark.core
def test_an_alert_is_assigned(page: Page, console: Console) -> None:
    imported(console)
    act(page, console, "Assign")
    page.get_by_role("dialog").get_by_label("Owner").fill("network team")
    page.get_by_role("dialog").get_by_role("button", name="Assign", exact=True).click()
    row = page.get_by_role("row").filter(has_text="AaZorblaxDown").first
    row.get_by_text("network team").wait_for(timeout=90_000)
    assert alert(console)["owner"] == "network team"
