"""Editing a document in the browser: a new version, two people on one page, a draft for a gap."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from tests.console.curation.steps import document_of, eventually, gaps, go, text_of
from tests.console.served import Console
from tests.console.test_pages import violations

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = [pytest.mark.browser, pytest.mark.enable_socket]


def edit(page: Page, console: Console, document: str) -> None:
    go(page, console, f"documents/{document}")
    page.get_by_role("button", name="Edit", exact=True).click()
    page.get_by_label("Your text", exact=True).wait_for()


def replace(page: Page, label: str, old: str, new: str) -> None:
    field = page.get_by_label(label, exact=True)
    before = field.input_value()
    assert old in before
    field.fill(before.replace(old, new))


def save(page: Page, name: str = "Save") -> None:
    page.get_by_role("button", name=name, exact=True).click()


def versions(console: Console, document: str) -> list[tuple[int, str]]:
    found = console.api("GET", f"/documents/{document}")["versions"]
    return [(one["version"], one["state"]) for one in found]


@pytest.mark.core
def test_a_text_is_edited_as_a_new_version(page: Page, console: Console, document: str, source: str) -> None:
    edit(page, console, document)
    assert page.get_by_role("button", name="Save", exact=True).is_disabled()
    replace(page, "Your text", "Look at", "Watch")
    page.get_by_role("button", name="Preview").click()
    page.get_by_text("Watch the counters").wait_for()
    save(page)
    page.wait_for_url(lambda url: "tab=text" in url and document not in url, timeout=90_000)
    page.get_by_text("Watch the counters").wait_for()
    assert "Watch the counters" in text_of(console, source)
    assert versions(console, document) == [(2, "current"), (1, "superseded")]


def test_two_people_who_edit_the_same_page_lose_nothing(
    console: Console, opened: Callable[..., Page], document: str, source: str
) -> None:
    ada, bob = opened(), opened()
    for page in (ada, bob):
        edit(page, console, document)
    replace(ada, "Your text", "Look at the counters", "Watch the counters for a minute")
    save(ada)
    ada.wait_for_url(lambda url: "tab=text" in url, timeout=90_000)
    replace(bob, "Your text", "Restart it", "Ask the network team, then restart it")
    save(bob)
    bob.get_by_text("was changed by").wait_for()
    mine, newer = (bob.get_by_label(label, exact=True) for label in ("Your text", "The newer text"))
    assert "Ask the network team" in mine.input_value()
    assert "Watch the counters for a minute" in newer.input_value()
    assert newer.get_attribute("readonly") is not None
    assert violations(bob) == []
    assert "Ask the network team" not in text_of(console, source)
    replace(bob, "Your text", "Look at the counters", "Watch the counters for a minute")
    save(bob, "Save the merged text")
    bob.wait_for_url(lambda url: "tab=text" in url and document not in url, timeout=90_000)
    merged = text_of(console, source)
    assert all(words in merged for words in ("Watch the counters for a minute", "Ask the network team"))
    assert [number for number, _ in versions(console, document)] == [3, 2, 1]


def test_the_text_of_others_is_taken_after_a_confirmation(
    page: Page, console: Console, document: str, source: str
) -> None:
    edit(page, console, document)
    newer = changed(console, source, "Look at", "Watch")
    replace(page, "Your text", "Restart it", "Leave it")
    save(page)
    page.get_by_role("button", name="Discard mine").click()
    page.get_by_role("dialog").get_by_role("button", name="Discard").click()
    assert page.get_by_label("Your text", exact=True).input_value() == newer == text_of(console, source)


def test_what_is_being_written_stays_while_the_document_is_replaced(
    page: Page, console: Console, document: str, source: str
) -> None:
    edit(page, console, document)
    replace(page, "Your text", "Restart it", "Leave it")
    changed(console, source, "Look at", "Watch")
    page.get_by_text("Version 1 was replaced").wait_for(timeout=90_000)
    assert "Leave it" in page.get_by_label("Your text", exact=True).input_value()
    page.get_by_role("tab", name="Versions").click()
    page.get_by_role("tab", name="Edit").click()
    assert "Leave it" in page.get_by_label("Your text", exact=True).input_value()


def changed(console: Console, source: str, old: str, new: str) -> str:
    """Another person's edit; returns the newer text."""
    read = console.api("GET", f"/texts?source={source}")
    newer = str(read["text"]).replace(old, new)
    console.api("PUT", "/texts", {"source": source, "text": newer, "expected": read["revision"]})
    return newer


def test_a_document_of_a_repository_has_a_link_to_its_editor(page: Page, console: Console, name: str) -> None:
    facts = {"source": f"{name}.md", "source_uri": f"https://github.com/acme/ops/blob/main/{name}.md"}
    body = {"document": f"# Acme {name}\n\nRestart it.\n", "metadata": facts}
    console.api("POST", "/ingest/internal/runbooks/procedures", body)

    def found() -> str:
        listed = console.api("GET", "/documents?limit=500")["documents"]
        return next((one["documentId"] for one in listed if one["title"] == f"Acme {name}"), "")

    go(page, console, f"documents/{eventually(found)}")
    link = page.get_by_role("link", name="Edit it in its repository")
    assert link.get_attribute("href") == f"https://github.com/acme/ops/edit/main/{name}.md"


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_everybody_can_use_the_editor(
    console: Console, opened: Callable[..., Page], document: str, gap: str, width: int, scheme: str
) -> None:
    page = opened(width, scheme)
    edit(page, console, document)
    assert violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    go(page, console, f"inbox?draft={gaps(console)[gap]['gapId']}")
    page.get_by_label("Name in the corpus").wait_for()
    assert violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_draft_is_written_for_a_gap_and_closes_it(page: Page, console: Console, gap: str, name: str) -> None:
    go(page, console, "inbox")
    page.get_by_role("link", name=f"Write a draft: {gap}").click()
    field = page.get_by_label("Name in the corpus")
    assert field.input_value() == f"runbooks/{gap.lower().replace(' ', '-')}.md"
    assert f"# {gap}" in page.get_by_label("Your text", exact=True).input_value()
    field.fill(f"runbooks/kitchen/{name}.md")
    replace(page, "Your text", "## Fix\n\n1. ", "## Fix\n\n1. Put in a dozen.")
    save(page)
    page.get_by_role("link", name="Open the document").wait_for(timeout=90_000)
    assert "Put in a dozen" in text_of(console, f"runbooks/kitchen/{name}.md")
    page.get_by_role("button", name="Close the gap").click()
    page.get_by_role("tab", name="Gaps").wait_for()
    closed = eventually(lambda: gaps(console)[gap]["status"] == "closed" and gaps(console)[gap])
    assert closed["because"] == f"documented: {gap}"


def test_a_draft_replaces_no_document(
    page: Page, console: Console, document: str, source: str, gap: str, name: str
) -> None:
    go(page, console, f"inbox?draft={gaps(console)[gap]['gapId']}")
    page.get_by_label("Name in the corpus").fill(source)
    save(page)
    page.get_by_text(f"there is a document {source} already").wait_for()
    assert f"Router {name}" in page.get_by_label("The newer text").input_value()
    page.get_by_label("Name in the corpus").fill(f"runbooks/{name}-eggs.md")
    save(page)
    page.get_by_role("link", name="Open the document").wait_for(timeout=90_000)
    assert document_of(console, document)["version"] == 1
    assert gap in text_of(console, f"runbooks/{name}-eggs.md")
