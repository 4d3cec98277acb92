"""The index and the stores in a browser: reindexing with progress, the way back, checks and repairs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.console.curation.steps import eventually, go
from tests.console.served import Console

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = [pytest.mark.browser, pytest.mark.enable_socket]


def editions(console: Console) -> dict[str, Any]:
    """The names of the index's editions, by state."""
    return {one["state"]: one["name"] for one in console.api("GET", "/index")["indexes"]}


def test_a_new_index_is_built_and_the_previous_one_comes_back(page: Page, console: Console) -> None:
    before = editions(console)
    go(page, console, "health?tab=index")
    page.get_by_role("button", name="Reindex", exact=True).click()
    page.get_by_role("dialog").get_by_role("button", name="Reindex").click()
    done = page.get_by_text("the last reindexing is done")
    page.get_by_role("status").get_by_text("documents").or_(done).first.wait_for(timeout=120_000)  # it may be quick
    done.wait_for(timeout=300_000)
    built = editions(console)
    assert built["previous"] == before.get("active", "")
    page.get_by_role("button", name="Roll back").click()
    page.get_by_role("dialog").get_by_role("button", name="Roll back").click()
    eventually(lambda: editions(console)["active"] == before.get("active", ""))


def test_the_stores_are_checked_and_repaired(page: Page, console: Console) -> None:
    document = console.api("GET", "/documents?limit=1")["documents"][0]
    chunks = console.home / "corpus" / "chunks" / f"{document['documentId']}.jsonl"
    chunks.unlink()
    go(page, console, "health?tab=index")
    page.get_by_role("button", name="Check the stores").click()
    page.get_by_role("list", name="Differences").get_by_text(document["documentId"]).first.wait_for(timeout=120_000)
    page.get_by_role("button", name="Repair", exact=True).click()
    page.get_by_role("dialog").get_by_role("button", name="Repair").click()
    eventually(chunks.exists)
    eventually(lambda: not console.api("POST", "/reconciliation", {})["counts"])
