"""A dialog before a page with unsaved text is left, in any way."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.console.curation.steps import eventually, go
from tests.console.served import Console, running
from tests.console.test_actions import titled
from tests.console.test_pages import violations

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

pytestmark = [pytest.mark.browser, pytest.mark.enable_socket]


@pytest.fixture(scope="module")
def console(demo_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Console]:
    """One server for the tests of this file, which save nothing but one text."""
    home = tmp_path_factory.mktemp("typed") / "home"
    shutil.copytree(demo_home, home)
    with running(home) as found:
        yield found


def typed(page: Page, console: Console) -> Locator:
    """Types into the text of a document that was opened from the list; returns the field."""
    go(page, console, "documents?category=runbooks")
    page.get_by_role("link", name="Kafka consumer lag").first.click()
    page.get_by_role("button", name="Edit", exact=True).click()
    field = page.get_by_label("Your text", exact=True)
    field.press("Control+Home")
    field.press_sequentially("mine ")
    return field


def link(page: Page) -> None:
    page.get_by_role("link", name="Inbox", exact=True).click()


def own_link(page: Page) -> None:
    """A link that no script of the page follows, as most in it."""
    page.evaluate("location.hash = '#/inbox'")


def back(page: Page) -> None:
    page.go_back()


WAYS: dict[str, tuple[Callable[[Page], None], str]] = {
    "navigation": (link, "#/inbox"),
    "link": (own_link, "#/inbox"),
    "back": (back, "#/documents?category=runbooks"),
}


@pytest.mark.parametrize("way", WAYS)
def test_an_edit_is_kept_by_who_stays_and_lost_by_who_leaves(page: Page, console: Console, way: str) -> None:
    leave, address = WAYS[way]
    field = typed(page, console)
    edited = page.url
    leave(page)
    dialog = page.get_by_role("dialog", name="Leave without saving?")
    dialog.get_by_role("button", name="Stay").click()
    dialog.wait_for(state="hidden")
    assert field.input_value().startswith("mine ")
    assert page.url == edited
    leave(page)
    dialog.get_by_role("button", name="Leave", exact=True).click()
    page.wait_for_url(lambda url: url.endswith(address))
    field.wait_for(state="detached")


def test_a_reload_opens_a_dialog_while_text_is_not_saved(page: Page, console: Console) -> None:
    typed(page, console)
    opened_dialogs: list[str] = []

    def stay(dialog: object) -> None:
        opened_dialogs.append(dialog.type)  # type: ignore[attr-defined]
        dialog.dismiss()  # type: ignore[attr-defined]

    page.on("dialog", stay)
    page.evaluate("setTimeout(() => location.reload())")
    eventually(lambda: page.wait_for_timeout(50) or opened_dialogs)
    assert opened_dialogs == ["beforeunload"]
    assert page.get_by_label("Your text", exact=True).input_value().startswith("mine ")


def test_no_dialog_opens_without_a_change_nor_between_tabs_nor_after_the_text_is_given_up(
    page: Page, console: Console
) -> None:
    field = typed(page, console)
    page.get_by_role("tab", name="Versions").click()
    page.get_by_role("tab", name="Edit").click()
    assert field.input_value().startswith("mine ")
    for _ in "mine ":
        field.press("Delete") if field.evaluate("one => one.selectionStart") == 0 else field.press("Backspace")
    link(page)
    page.wait_for_url(lambda url: url.endswith("#/inbox"))
    field = typed(page, console)
    page.get_by_role("button", name="Cancel").click()
    link(page)
    page.wait_for_url(lambda url: url.endswith("#/inbox"))
    assert page.get_by_role("dialog").count() == 0


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_the_question_stands_above_an_open_dialog(
    opened: Callable[..., Page], console: Console, width: int, scheme: str
) -> None:
    page = opened(width, scheme)
    go(page, console, "sources")
    page.get_by_role("button", name="Add a source").click()
    field = page.get_by_label("Id", exact=True)
    field.fill("notes")
    own_link(page)
    dialogs = page.get_by_role("dialog", name="Leave without saving?")
    dialogs.get_by_role("button", name="Stay").click(trial=True)
    assert violations(page) == []
    dialogs.get_by_role("button", name="Stay").click()
    assert field.input_value() == "notes"
    assert titled(console, "Kafka consumer lag")
