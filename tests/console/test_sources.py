"""Sources in the console: added by a form, tried before, pulled, paused, changed and removed; webhooks and streams beside."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.console.curation.steps import eventually, go
from tests.console.served import OPX, Console
from tests.console.test_pages import violations

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

pytestmark = [pytest.mark.browser, pytest.mark.enable_socket]


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    folder = tmp_path / "notes"
    folder.mkdir()
    for name in ("zorblax", "quuxle"):
        (folder / f"{name}.md").write_text(f"# Notes about {name}\n\nRestart {name}.\n")
    return folder


def source(console: Console, source_id: str) -> dict[str, Any] | None:
    found = {one["sourceId"]: one for one in console.api("GET", "/sources")["sources"]}
    return found.get(source_id)


def known(console: Console, source_id: str) -> dict[str, Any]:
    found = source(console, source_id)
    assert found is not None
    return found


def registered(console: Console, notes: Path, **more: object) -> None:
    definition = {"kind": "directory", "category": "runbooks/procedures", "options": {"path": str(notes)}, **more}
    console.api("PUT", "/sources/notes", {"definition": definition})


def add_form(page: Page, console: Console, notes: Path | str) -> Locator:
    go(page, console, "sources")
    page.get_by_role("button", name="Add a source").click()
    dialog = page.get_by_role("dialog", name="Add a source")
    dialog.get_by_label("Id", exact=True).fill("notes")
    choose(page, dialog, "Kind", "directory")
    choose(page, dialog, "Category", "runbooks/procedures")
    choose(page, dialog, "Pulled", "on request only")
    dialog.get_by_label("path (required)").fill(str(notes))
    return dialog


def choose(page: Page, dialog: Locator, label: str, option: str) -> None:
    dialog.get_by_label(label, exact=True).click()
    page.get_by_role("option", name=option).first.click()


def act(page: Page, source_id: str, action: str) -> None:
    page.get_by_role("button", name=f"Actions of {source_id}").click()
    page.get_by_role("menuitem", name=action, exact=True).click()


@pytest.mark.core
def test_a_source_is_tried_added_and_pulled(page: Page, console: Console, notes: Path) -> None:
    dialog = add_form(page, console, notes)
    dialog.get_by_role("button", name="Try it").click()
    dialog.get_by_role("table", name="First documents").get_by_text("zorblax.md").first.wait_for()
    assert source(console, "notes") is None
    dialog.get_by_role("button", name="Add", exact=True).click()
    row = page.get_by_role("row").filter(has=page.get_by_text("notes", exact=True))
    row.wait_for()
    assert known(console, "notes")["options"] == {"path": str(notes)}
    act(page, "notes", "Pull now")
    page.get_by_text(re.compile(r"notes: \d put, \d unchanged, 0 withdrawn")).wait_for()
    row.get_by_text(re.compile(r"\d added, 0 changed, 0 withdrawn, \d unchanged")).wait_for()
    state = known(console, "notes")["state"]  # the server watches the folder, and may have pulled it first
    assert (state["added"] + state["unchanged"], state["error"]) == (2, "")


def test_a_source_that_can_not_be_pulled_is_seen_by_its_trial(page: Page, console: Console, notes: Path) -> None:
    dialog = add_form(page, console, notes / "nowhere")
    dialog.get_by_role("button", name="Try it").click()
    dialog.get_by_text("is not a directory of this machine: mount it, or correct the path").wait_for()
    assert source(console, "notes") is None


def test_a_refused_source_has_its_reason(page: Page, console: Console) -> None:
    dialog = add_form(page, console, "")
    dialog.get_by_role("button", name="Add", exact=True).click()
    dialog.get_by_text("the option 'path' is needed").wait_for()
    assert source(console, "notes") is None


def test_a_source_is_paused_and_resumed(page: Page, console: Console, notes: Path) -> None:
    registered(console, notes, schedule="0 4 * * *", time_zone="Europe/Vienna")
    go(page, console, "sources")
    act(page, "notes", "Pause")
    page.get_by_text("notes is paused: it is pulled on request only").wait_for()
    paused = known(console, "notes")
    assert (paused["enabled"], paused.get("nextPull", "")) == (False, "")
    act(page, "notes", "Resume")
    page.get_by_text("notes is pulled on schedule again").wait_for()
    assert known(console, "notes")["enabled"]


def test_a_declared_source_is_enabled(page: Page, console: Console) -> None:
    go(page, console, "sources")
    act(page, "owasp", "Resume")
    page.get_by_text("owasp is pulled on schedule again").wait_for()
    assert (known(console, "owasp")["enabled"], known(console, "owasp")["declared"]) == (True, True)


def test_a_source_is_changed(page: Page, console: Console, notes: Path) -> None:
    registered(console, notes, tags=["old"], schedule="")
    go(page, console, "sources")
    act(page, "notes", "Change")
    dialog = page.get_by_role("dialog", name="Change notes")
    dialog.get_by_label("Tags of all its documents").fill("wiki, shop")
    dialog.get_by_role("button", name="More options").click()
    dialog.get_by_label("pattern", exact=True).fill("*.txt")
    dialog.get_by_role("button", name="Save").click()
    page.get_by_text("notes is saved").wait_for()
    changed = known(console, "notes")
    assert changed["tags"] == ["wiki", "shop"]
    assert changed["options"] == {"path": str(notes), "pattern": "*.txt"}
    assert changed["schedule"] == ""


def test_a_source_is_removed_after_a_confirmation(page: Page, console: Console, notes: Path) -> None:
    registered(console, notes)
    go(page, console, "sources")
    act(page, "notes", "Remove")
    page.get_by_role("dialog", name="Remove notes?").get_by_role("button", name="Remove").click()
    eventually(lambda: source(console, "notes") is None)


def test_what_a_listing_misses_is_withdrawn_after_a_confirmation(page: Page, console: Console, notes: Path) -> None:
    registered(console, notes)
    console.api("POST", "/sources/notes/pull", {})
    for file in notes.iterdir():
        file.unlink()
    console.api("POST", "/sources/notes/pull", {})
    go(page, console, "sources")
    page.get_by_text("the listing misses 2 of 2 documents").first.wait_for()
    act(page, "notes", "Withdraw what is missing")
    page.get_by_role("dialog").get_by_role("button", name="Withdraw").click()
    eventually(lambda: known(console, "notes")["state"]["withdrawn"] == 2)


def test_webhooks_and_streams_are_listed(page: Page, console: Console) -> None:
    stream = [
        "stream",
        "add",
        "redis://127.0.0.1:9/0",
        "--topic",
        "pages",
        "--category",
        "operations/alerts",
        "--name",
        "pages",
    ]
    subprocess.run([str(OPX), "--home", str(console.home), *stream], check=True, capture_output=True)
    assert [one["name"] for one in console.api("GET", "/streams")["streams"]] == ["pages"]
    go(page, console, "sources")
    page.get_by_role("table", name="Streams").get_by_text("redis://127.0.0.1:9/0 pages").wait_for()
    assert console.api("GET", "/webhooks")["webhooks"] == []
    page.get_by_role("table", name="Webhooks").get_by_text("No webhooks").wait_for()


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_everybody_can_use_the_form(
    console: Console, opened: Callable[..., Page], notes: Path, width: int, scheme: str
) -> None:
    page = opened(width, scheme)
    dialog = add_form(page, console, notes)
    dialog.get_by_role("button", name="More options").click()
    dialog.get_by_role("button", name="Try it").click()
    dialog.get_by_role("table", name="First documents").wait_for()
    page.wait_for_load_state("networkidle")
    assert violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
