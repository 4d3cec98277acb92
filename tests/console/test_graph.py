"""The graph in the console: names are merged and unmerged, and paths found."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.console.curation.steps import eventually, go
from tests.console.served import Console

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = [pytest.mark.browser, pytest.mark.enable_socket]


def states(console: Console) -> list[tuple[str, str, str]]:
    return [(one["source"], one["into"], one["state"]) for one in console.api("GET", "/graph/merges")["merges"]]


def test_two_things_are_merged_and_the_merge_is_undone(page: Page, console: Console) -> None:
    found = console.api("GET", "/graph/find?q=service:&type=service&limit=2")["nodes"]
    one, other = (node["key"] for node in found)
    go(page, console, "graph")
    page.get_by_role("tab", name="Merges").click()
    page.get_by_label("Merge this thing").fill(one)
    page.get_by_label("Into this thing").fill(other)
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Merge", exact=True).click()
    page.get_by_role("dialog").get_by_role("button", name="Merge", exact=True).click()
    page.get_by_text(f"{one} is merged into {other}").wait_for()
    assert (one, other) in [(source, into) for source, into, _ in states(console)]
    page.get_by_role("button", name=f"Undo the merge of {one} into {other}").click()
    page.get_by_role("dialog").get_by_role("button", name="Undo", exact=True).click()
    eventually(lambda: (one, other, "undone") in states(console))


@pytest.mark.core
def test_a_path_is_found_with_its_steps(page: Page, console: Console) -> None:
    path = console.api("GET", "/graph/path?from=runbook:pod-crashlooping&to=alert:kubepodcrashlooping")
    assert [step["edgeType"] for step in path["steps"]] == ["handles"]
    go(page, console, "graph")
    page.get_by_role("tab", name="Path").click()
    page.get_by_label("From").fill("runbook:pod-crashlooping")
    page.get_by_label("To", exact=True).fill("alert:kubepodcrashlooping")
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Find the path").click()
    page.get_by_role("table", name="Steps of the path").get_by_text("handles").first.wait_for()
