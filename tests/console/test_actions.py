"""Actions of the pages, each seen in the browser and then through the API."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.console.curation.steps import eventually, go
from tests.console.served import Console

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = [pytest.mark.browser, pytest.mark.enable_socket]

RUNBOOK = """# Router zorblax drops packets

1. Look at the counters: `ip -s link`.
2. Restart it: `systemctl restart zorblax`.
"""


def titled(console: Console, title: str) -> list[dict[str, Any]]:
    documents: list[dict[str, Any]] = console.api("GET", "/documents?limit=500")["documents"]
    return [one for one in documents if one["title"] == title]


@pytest.mark.core
def test_a_file_is_uploaded_and_answers(page: Page, console: Console, tmp_path: Path) -> None:
    file = tmp_path / "zorblax.md"
    file.write_text(RUNBOOK)
    go(page, console, "documents")
    page.get_by_role("button", name="Upload documents").click()
    with page.expect_file_chooser() as chooser:
        page.get_by_role("button", name="Choose files").first.click()
    chooser.value.set_files(str(file))
    page.get_by_text("ingested").first.wait_for(timeout=60_000)
    assert titled(console, "Router zorblax drops packets")
    go(page, console, "?q=zorblax+router+drops+packets")
    page.get_by_role("heading", name="Router zorblax drops packets", level=2).wait_for()


@pytest.mark.core
def test_a_document_is_deleted_after_a_confirmation(page: Page, console: Console) -> None:
    (document,) = titled(console, "Redis memory pressure and OOM errors")
    go(page, console, f"documents/{document['documentId']}")
    page.get_by_role("button", name="Delete").first.click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    eventually(lambda: not titled(console, "Redis memory pressure and OOM errors"))


def test_a_held_document_is_not_deleted(page: Page, console: Console) -> None:
    (document,) = titled(console, "Linux OOM killer terminated a process")
    console.api("POST", "/holds", {"document": document["documentId"], "reason": "the inquiry of May"})
    go(page, console, f"documents/{document['documentId']}")
    page.get_by_role("button", name="Delete").first.click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_text("hold").first.wait_for()
    assert titled(console, "Linux OOM killer terminated a process")


def test_an_alias_is_added(page: Page, console: Console) -> None:
    go(page, console, "graph")
    page.get_by_role("tab", name="Aliases").click()
    page.get_by_label("Other name").fill("service:till")
    page.get_by_label("Stands for").fill("service:checkout")
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Add the alias").click()
    page.get_by_text("service:till stands for service:checkout").wait_for()
    aliases = console.api("GET", "/graph/aliases")["aliases"]
    assert ("service:till", "service:checkout") in [(one["alias"], one["canonical"]) for one in aliases]
