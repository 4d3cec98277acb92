"""Patterns in the console: retired, and used again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.console.curation.steps import eventually, go
from tests.console.served import Console

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = [pytest.mark.browser, pytest.mark.enable_socket]


def test_a_pattern_is_retired_and_used_again(page: Page, console: Console) -> None:
    pattern = console.api("GET", "/learning/patterns")["patterns"][0]
    path = f"/learning/patterns/{pattern['patternId']}"
    go(page, console, f"learning?pattern={pattern['patternId']}")
    page.get_by_role("button", name="Retire", exact=True).click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Reason").fill("the system is gone")
    dialog.get_by_role("button", name="Retire", exact=True).click()
    page.get_by_text("retired: the system is gone").wait_for()
    assert console.api("GET", path)["pattern"]["retired"] == "the system is gone"
    question = {"failureDescription": pattern["problem"]}
    found = console.api("POST", "/learning/patterns/failure", question)["patterns"]
    assert pattern["problem"] not in [one["problem"] for one in found]
    page.get_by_role("button", name="Use again").click()
    page.get_by_role("dialog").get_by_role("button", name="Use it again").click()
    eventually(lambda: not console.api("GET", path)["pattern"]["retired"])
