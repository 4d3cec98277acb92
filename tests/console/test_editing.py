"""Editing a document in the browser: a new version, two people on one page, a draft for a gap."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from tests.console.curation import SOURCE, document_of, eventually, gaps, go, text_of, written
from tests.console.served import Console
from tests.console.test_pages import violations

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = [pytest.mark.browser, pytest.mark.enable_socket]

EGG = "how long do I boil an egg"


def edit(page: Page, console: Console, document_id: str) -> None:
    go(page, console, f"documents/{document_id}")
    page.get_by_role("button", name="Edit", exact=True).click()
    page.get_by_label("Text", exact=True).wait_for()


def replace(page: Page, label: str, old: str, new: str) -> None:
    field = page.get_by_label(label, exact=True)
    before = field.input_value()
    assert old in before
    field.fill(before.replace(old, new))


def save(page: Page, name: str = "Save") -> None:
    page.get_by_role("button", name=name, exact=True).click()


def test_a_text_is_edited_as_a_new_version(page: Page, console: Console) -> None:
    first = written(console)
    edit(page, console, first)
    assert page.get_by_role("button", name="Save", exact=True).is_disabled()
    replace(page, "Text", "Look at", "Watch")
    page.get_by_role("radio", name="Preview").or_(page.get_by_role("button", name="Preview")).first.click()
    page.get_by_text("Watch the counters").wait_for()
    save(page)
    page.wait_for_url(lambda url: "tab=text" in url and first not in url)
    page.get_by_text("Watch the counters").wait_for()
    assert "Watch the counters" in text_of(console)
    found = console.api("GET", f"/documents/{first}")["versions"]
    assert [(one["version"], one["state"]) for one in found] == [(2, "current"), (1, "superseded")]


def test_two_people_who_edit_the_same_page_lose_nothing(console: Console, opened: Callable[..., Page]) -> None:
    first = written(console)
    ada, bob = opened(), opened()
    for page in (ada, bob):
        edit(page, console, first)
    replace(ada, "Text", "Look at the counters", "Watch the counters for a minute")
    save(ada)
    ada.wait_for_url(lambda url: "tab=text" in url)
    replace(bob, "Text", "Restart it", "Ask the network team, then restart it")
    save(bob)
    bob.get_by_text("was changed by").wait_for()
    mine, newer = (bob.get_by_label(label, exact=True) for label in ("Your text", "The newer text"))
    assert "Ask the network team" in mine.input_value()
    assert "Watch the counters for a minute" in newer.input_value()
    assert newer.get_attribute("readonly") is not None
    assert violations(bob) == []
    assert "Ask the network team" not in text_of(console)
    replace(bob, "Your text", "Look at the counters", "Watch the counters for a minute")
    save(bob, "Save the merged text")
    bob.wait_for_url(lambda url: "tab=text" in url and first not in url)
    merged = text_of(console)
    assert all(words in merged for words in ("Watch the counters for a minute", "Ask the network team"))
    assert [one["version"] for one in console.api("GET", f"/documents/{first}")["versions"]] == [3, 2, 1]


def test_a_text_of_others_is_taken_after_a_confirmation(page: Page, console: Console) -> None:
    edit(page, console, written(console))
    read = console.api("GET", f"/texts?source={SOURCE}")
    newer = read["text"].replace("Look at", "Watch")
    console.api("PUT", "/texts", {"source": SOURCE, "text": newer, "expected": read["revision"]})
    replace(page, "Text", "Restart it", "Leave it")
    save(page)
    page.get_by_role("button", name="Discard mine").click()
    page.get_by_role("dialog").get_by_role("button", name="Discard").click()
    assert page.get_by_label("Text", exact=True).input_value() == newer == text_of(console)


def test_what_is_written_stays_while_the_document_is_replaced(page: Page, console: Console) -> None:
    first = written(console)
    edit(page, console, first)
    replace(page, "Text", "Restart it", "Leave it")
    read = console.api("GET", f"/texts?source={SOURCE}")
    console.api("PUT", "/texts", {"source": SOURCE, "text": "# Other\n\nText.\n", "expected": read["revision"]})
    page.get_by_text("Version 1 was replaced").wait_for(timeout=40_000)
    assert "Leave it" in page.get_by_label("Text", exact=True).input_value()
    page.get_by_role("tab", name="Versions").click()
    page.get_by_role("tab", name="Edit").click()
    assert "Leave it" in page.get_by_label("Text", exact=True).input_value()


def test_a_document_of_a_repository_has_a_link_to_its_editor(page: Page, console: Console) -> None:
    facts = {"source": "acme.md", "source_uri": "https://github.com/acme/ops/blob/main/acme.md"}
    body = {"document": "# Acme router\n\nRestart it.\n", "metadata": facts}
    console.api("POST", "/ingest/internal/runbooks/procedures", body)

    def found() -> str:
        listed = console.api("GET", "/documents?limit=500")["documents"]
        return next((one["documentId"] for one in listed if one["title"] == "Acme router"), "")

    go(page, console, f"documents/{eventually(found)}")
    link = page.get_by_role("link", name="Edit it in its repository")
    assert link.get_attribute("href") == "https://github.com/acme/ops/edit/main/acme.md"


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_everybody_can_use_the_editor(console: Console, opened: Callable[..., Page], width: int, scheme: str) -> None:
    page = opened(width, scheme)
    edit(page, console, written(console))
    assert violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    go(page, console, f"inbox?draft={gaps(console)[EGG]['gapId']}")
    page.get_by_label("Name in the corpus").wait_for()
    assert violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_draft_is_written_for_a_gap_and_closes_it(page: Page, console: Console) -> None:
    go(page, console, "inbox")
    page.get_by_role("link", name=f"Write a draft: {EGG}").click()
    name = page.get_by_label("Name in the corpus")
    assert name.input_value() == "runbooks/how-long-do-i-boil-an-egg.md"
    assert f"# {EGG}" in page.get_by_label("Text", exact=True).input_value()
    name.fill("runbooks/kitchen/eggs.md")
    replace(page, "Text", "## Fix\n\n1. ", "## Fix\n\n1. Boil it for six minutes.")
    save(page)
    page.get_by_role("link", name="Open the document").wait_for(timeout=60_000)
    assert "Boil it for six minutes" in text_of(console, "runbooks/kitchen/eggs.md")
    page.get_by_role("button", name="Close the gap").click()
    page.get_by_role("tab", name="Gaps").wait_for()
    gap = eventually(lambda: gaps(console)[EGG]["status"] == "closed" and gaps(console)[EGG])
    assert gap["because"] == f"documented: {EGG}"


def test_a_draft_replaces_no_document(page: Page, console: Console) -> None:
    first = written(console)
    go(page, console, f"inbox?draft={gaps(console)[EGG]['gapId']}")
    page.get_by_label("Name in the corpus").fill(SOURCE)
    save(page)
    page.get_by_text(f"there is a document {SOURCE} already").wait_for()
    assert "zorblax" in page.get_by_label("The newer text").input_value()
    page.get_by_label("Name in the corpus").fill("runbooks/eggs.md")
    save(page)
    page.get_by_role("link", name="Open the document").wait_for(timeout=60_000)
    assert document_of(console, first)["version"] == 1
    assert EGG in text_of(console, "runbooks/eggs.md")
