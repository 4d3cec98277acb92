"""The console with large lists and replies, things that change meanwhile, and browsers that lack something."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from opx.domain.ids import iso_time
from opx.ingestion.corpus.catalog import document_item
from opx.ports.tables import DOCUMENTS
from opx.settings import Settings
from opx.system import bootstrap
from tests.console.curation.steps import eventually, go
from tests.console.served import OPX, Console, running
from tests.console.test_uploads import choose
from tests.support.builders import a_document

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Response

pytestmark = [pytest.mark.browser, pytest.mark.enable_socket]

MANY = 100_000
PAGE_BYTES = 100_000
"""More than a reply with a page of them has."""

LARGE = 2_000_000
"""Bytes of a reply."""

LARGE_ITEM = 22_000

NOTES = 20
"""Documents of four megabytes, so that a source of them is pulled in several pages."""

AHEAD = """
  const Real = Date;
  const ahead = 3 * 366 * 86_400_000;
  window.Date = class extends Real {
    constructor(...given) { given.length ? super(...given) : super(Real.now() + ahead); }
    static now() { return Real.now() + ahead; }
  };
"""
"""A clock that is three years ahead."""

NO_CRYPTO = "delete Crypto.prototype.subtle"


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Console]:
    """One server over a home with two documents, and 100,100 more that are in its catalog alone."""
    folder = tmp_path_factory.mktemp("robust")
    home = folder / "home"
    (folder / "runbooks").mkdir()
    for name in ("disk", "router"):
        (folder / "runbooks" / f"{name}.md").write_text(f"# The {name} is slow\n\n1. Restart the {name}.\n")
    catalogued(home)
    command = [str(OPX), "--home", str(home), "ingest", str(folder / "runbooks")]
    subprocess.run(command, check=True, capture_output=True, timeout=600)
    with running(home) as found:
        yield found


def catalogued(home: Path) -> None:
    """Catalogs 100,000 small documents in one category, and 100 with many services in another."""
    system = bootstrap(Settings(home=str(home)))
    now = time.time()
    system.tables.table(DOCUMENTS).put_many(
        document_item(
            a_document(
                f"documents/many/page-{number:05d}.md",
                f"Page {number:05d}",
                document_id=f"{number:032x}",
                category="runbooks/architecture" if number < MANY else "postmortems",
                last_updated=iso_time(now - number),
                services=("x" * LARGE_ITEM,) if number >= MANY else (),
            )
        )
        for number in range(MANY + 100)
    )
    system.close()


def rows(page: Page) -> int:
    return int(page.locator("main table[aria-label='Documents'] tbody tr:has(a)").count())


def test_a_hundred_thousand_hits_of_a_filter_come_in_pages_from_the_server(page: Page, console: Console) -> None:
    replies: list[Response] = []
    page.on("response", lambda one: replies.append(one) if "/documents?" in one.url else None)
    go(page, console, "documents?category=runbooks/architecture")
    page.get_by_text("(100+)").wait_for()
    eventually(lambda: rows(page) == 100)
    page.get_by_role("button", name="Load more").click()
    page.get_by_text("(200+)").wait_for()
    eventually(lambda: rows(page) == 200)
    assert page.get_by_role("link", name="Page 00199").count() == 1
    assert len(replies) == 2
    assert all("limit=100" in one.url for one in replies)
    assert all(len(one.body()) < PAGE_BYTES for one in replies)


def test_a_reply_of_two_megabytes_is_shown(page: Page, console: Console) -> None:
    with page.expect_response(lambda reply: "/documents?" in reply.url and "postmortems" in reply.url) as reply:
        go(page, console, "documents?category=postmortems")
    assert len(reply.value.body()) > LARGE
    page.get_by_role("link", name="Page 100000").wait_for()
    eventually(lambda: rows(page) >= 90)
    page.get_by_role("link", name="Ask", exact=True).click()
    page.get_by_label("Alert, log or question").wait_for()


def test_a_document_deleted_while_it_is_open_is_marked(page: Page, console: Console) -> None:
    (document,) = titled_in(console, "The router is slow")
    go(page, console, f"documents/{document['documentId']}")
    page.get_by_text("Restart the router").first.wait_for()
    console.api("DELETE", f"/documents/{document['documentId']}")
    page.get_by_text("This document was deleted").wait_for(timeout=90_000)
    assert page.get_by_role("button", name="Delete", exact=True).count() == 0
    page.get_by_text("Restart the router").first.wait_for()  # it stays readable
    page.get_by_role("button", name="See its versions").click()
    page.get_by_role("button", name=re.compile("Restore")).first.wait_for()


def titled_in(console: Console, title: str) -> list[dict[str, Any]]:
    category = console.api("GET", "/documents?category=runbooks/procedures&limit=500")["documents"]
    return [one for one in category if one["title"] == title]


@pytest.mark.parametrize(("name", "script"), [("clock", AHEAD), ("digest", NO_CRYPTO)])
def test_a_file_is_uploaded_by_a_browser_with_a_wrong_clock_or_without_webcrypto(
    browser: Browser, console: Console, tmp_path: Path, name: str, script: str
) -> None:
    file = tmp_path / f"{name}.md"
    file.write_text(f"# Router {name} drops packets\n\n1. Restart the router {name}.\n")
    context = browser.new_context()
    page = context.new_page()
    page.add_init_script(script)
    page.goto(console.address())
    choose(page, console, file)
    page.get_by_role("row").filter(has_text=file.name).get_by_text("ingested").wait_for(timeout=90_000)
    assert titled_in(console, f"Router {name} drops packets")
    go(page, console, f"?q=router+{name}+drops+packets")
    page.get_by_role("heading", name=f"Router {name} drops packets", level=2).wait_for()
    context.close()


def test_a_pull_shows_its_progress_while_it_runs(browser: Browser, tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    for number in range(NOTES):
        (notes / f"note-{number}.md").write_text(
            f"# Note {number}\n\n" + "Restart the part, and look at it.\n" * 120_000
        )
    with running(tmp_path / "home", serving=("--answers-only",)) as console:
        definition = {"kind": "directory", "category": "runbooks/procedures", "options": {"path": str(notes)}}
        console.api("PUT", "/sources/notes", {"definition": definition})
        context = browser.new_context()
        page = context.new_page()
        page.goto(console.address())
        go(page, console, "sources")
        page.get_by_role("button", name="Actions of notes").click()
        page.get_by_role("menuitem", name="Pull now", exact=True).click()
        page.get_by_text(re.compile(r"pulling: [1-9]\d* put, 0 unchanged so far")).wait_for(timeout=90_000)
        page.get_by_text(f"notes: {NOTES} put, 0 unchanged, 0 withdrawn").wait_for(timeout=300_000)
        (source,) = [one for one in console.api("GET", "/sources")["sources"] if one["sourceId"] == "notes"]
        assert (source["state"]["put"], source["state"].get("pulling", False)) == (NOTES, False)
        context.close()
