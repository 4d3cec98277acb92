"""Permanent links to answers, research in steps, ticks and reports of the page that asks, in a browser."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.console.curation.steps import eventually, go
from tests.console.served import Console
from tests.console.test_actions import titled
from tests.console.test_pages import violations

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = [pytest.mark.browser, pytest.mark.enable_socket]

QUESTION = "KubePodCrashLooping checkout"


def copied_link(page: Page) -> str:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy link").first.click()
    return str(eventually(lambda: page.evaluate("navigator.clipboard.readText()")))


def test_the_link_of_an_answer_shows_it_as_it_was_given(page: Page, console: Console) -> None:
    go(page, console, "?q=KubePodCrashLooping+checkout")
    heading = page.get_by_role("link", name="Open the document")
    heading.wait_for()
    document_id = (heading.get_attribute("href") or "").rpartition("/")[2]
    title = console.api("GET", f"/documents/{document_id}")["document"]["title"]
    link = copied_link(page)
    console.api("DELETE", f"/documents/{document_id}")
    eventually(lambda: not titled(console, title))
    page.goto("about:blank")
    page.goto(link)
    page.get_by_role("heading", name=QUESTION, level=1).wait_for()
    receipt = re.search(r"/answers/([0-9a-f]{32})", link)
    assert receipt
    given = console.api("GET", f"/answers/{receipt[1]}")
    assert given["passages"][0]["state"] == "replaced"
    title = f"#1 {given['passages'][0]['title']}"
    page.get_by_role("heading", name=title, level=2).wait_for()
    page.get_by_role("button", name="Why this answer").click()
    page.get_by_text(given["record"]["answerHash"]).wait_for()
    assert violations(page) == []


def test_a_link_with_another_question_does_not_show_it(page: Page, console: Console) -> None:
    receipt = console.api("POST", "/knowledge/default/query", {"query": QUESTION})["receiptId"]
    go(page, console, f"answers/{receipt}?q=who+was+fired")
    page.get_by_text("not the one that was asked").wait_for()
    assert page.get_by_role("heading", name="who was fired").count() == 0


def test_an_unknown_receipt_is_an_error(page: Page, console: Console) -> None:
    go(page, console, f"answers/{'0' * 32}")
    page.get_by_text("has no receipt").wait_for()


@pytest.mark.core
def test_research_is_shown_step_by_step(page: Page, console: Console) -> None:
    go(page, console, "?q=KubePodCrashLooping+checkout")
    page.get_by_role("button", name="Ask deeper").click()
    steps = page.get_by_role("list", name="Steps of the research")
    steps.get_by_role("listitem").nth(1).wait_for()
    page.get_by_role("list", name="Findings").get_by_role("listitem").first.wait_for()
    (job,) = console.api("GET", "/jobs")["jobs"]
    assert (job["request"], job["state"]) == ("POST /research", "done")
    assert steps.get_by_role("listitem").count() == len(job["result"]["trace"])


def test_a_gap_is_reported(page: Page, console: Console) -> None:
    go(page, console, "?q=KubePodCrashLooping+checkout")
    page.get_by_role("button", name="Report a gap").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("What do the documents lack?").fill("who owns the checkout")
    dialog.get_by_role("button", name="Report", exact=True).click()
    page.get_by_text("reported as a gap").wait_for()
    assert QUESTION in [one["question"] for one in console.api("GET", "/gaps")["gaps"]]


def test_that_it_made_it_worse_is_recorded(page: Page, console: Console) -> None:
    go(page, console, "?q=KubePodCrashLooping+checkout")
    page.get_by_role("button", name="Made it worse").click()
    page.get_by_text("recorded: made worse").wait_for()
    found = page.get_by_role("link", name="Open the document").get_attribute("href") or ""
    assert console.api("GET", f"/documents/{found.rpartition('/')[2]}/outcomes")["now"]["madeWorse"] == 1


def test_ticked_steps_stay_ticked_in_the_session(page: Page, console: Console) -> None:
    go(page, console, "?q=KubePodCrashLooping+checkout")
    page.get_by_role("button", name=re.compile(r"All \d+ steps")).click()
    page.get_by_role("list", name="Steps").get_by_role("checkbox").first.check()
    page.reload()
    page.get_by_role("button", name=re.compile(r"All \d+ steps")).click()
    boxes = page.get_by_role("list", name="Steps").get_by_role("checkbox")
    boxes.first.wait_for()
    assert [boxes.nth(at).is_checked() for at in range(2)] == [True, False]


def test_a_question_as_of_a_day_before_everything_finds_nothing(page: Page, console: Console) -> None:
    go(page, console, "?q=KubePodCrashLooping+checkout&asOf=2001-01-01")
    page.get_by_text("Nothing here is near this question").wait_for()
    assert page.get_by_label("As known on").input_value() == "2001-01-01"
