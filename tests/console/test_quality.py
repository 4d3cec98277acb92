"""Questions added from answers, evaluations with their progress, and two runs compared, in a browser."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from tests.console.curation.steps import eventually, go
from tests.console.served import Console
from tests.console.test_actions import titled
from tests.console.test_pages import violations

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = [pytest.mark.browser, pytest.mark.enable_socket]

QUESTION = "KubePodCrashLooping checkout"
DISK = "Disk full on a Linux host"


def own_questions(console: Console) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = console.api("GET", "/evaluations/questions")["questions"]
    return found


def runs(console: Console) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = console.api("GET", "/evaluations")["runs"]
    return found


def add(console: Console, text: str, *titles: str) -> None:
    ids = [titled(console, title)[0]["documentId"] for title in titles]
    console.api("POST", "/evaluations/questions", {"text": text, "documentIds": ids})


def evaluated(console: Console) -> str:
    run: dict[str, Any] = console.api("POST", "/evaluations", {})
    assert run["state"] == "done"
    return str(run["runId"])


def test_a_question_is_added_from_its_answer(page: Page, console: Console) -> None:
    go(page, console, "?q=KubePodCrashLooping+checkout")
    page.get_by_role("button", name=re.compile("Mark as the right document")).first.click()
    page.get_by_text("evaluations ask it from now on").wait_for()
    (question,) = own_questions(console)
    opened = page.get_by_role("link", name="Open the document").get_attribute("href") or ""
    document = console.api("GET", f"/documents/{opened.rpartition('/')[2]}")["document"]
    assert (question["text"], question["titles"]) == (QUESTION, [document["title"]])


def test_a_question_that_has_no_answer_is_added(page: Page, console: Console) -> None:
    go(page, console, "?q=xyzzy+plugh+frobnicate")
    page.get_by_role("button", name="Rightly no answer").click()
    page.get_by_text("evaluations ask it from now on").wait_for()
    assert [one["expected"] for one in own_questions(console)] == [{}]


@pytest.mark.core
def test_a_question_is_removed_after_a_confirmation(page: Page, console: Console) -> None:
    add(console, "a full disk", DISK)
    go(page, console, "quality?tab=questions")
    page.get_by_role("button", name="Remove “a full disk”").click()
    assert own_questions(console)
    page.get_by_role("dialog").get_by_role("button", name="Remove", exact=True).click()
    eventually(lambda: not own_questions(console))


def test_an_evaluation_runs_with_progress_and_is_kept(page: Page, console: Console) -> None:
    for number in range(12):
        add(console, f"the disk of host {number} is full", DISK)
    go(page, console, "quality")
    page.get_by_role("button", name="Run an evaluation").click()
    page.get_by_role("status").get_by_text(re.compile(r"\d+ of 12 questions asked")).wait_for()
    page.get_by_role("application", name="Shares and errors").or_(page.get_by_text("Over time")).first.wait_for()
    (run,) = runs(console)
    assert (run["state"], run["asked"], run["questions"]) == ("done", 12, 12)
    table = page.get_by_role("table", name="Evaluation runs")
    table.get_by_text(f"{run['figures'][0]['ndcg']:.3f}").first.wait_for()


def test_an_evaluation_without_questions_names_the_remedy(page: Page, console: Console) -> None:
    go(page, console, "quality")
    page.get_by_role("button", name="Run an evaluation").click()
    page.get_by_text("there are no questions yet").wait_for()
    assert runs(console) == []


def test_two_runs_are_compared_question_by_question(page: Page, console: Console) -> None:
    add(console, "a full disk", DISK)
    first = evaluated(console)
    (document,) = titled(console, DISK)
    console.api("DELETE", f"/documents/{document['documentId']}")
    eventually(lambda: not titled(console, DISK))
    second = evaluated(console)
    go(page, console, "quality")
    boxes = page.get_by_role("checkbox", name=re.compile("Choose the run of"))
    for at in range(2):
        boxes.nth(at).check()
    page.get_by_role("button", name="Compare the two chosen").click()
    row = page.get_by_role("table", name="Compared questions").get_by_role("row").filter(has_text="a full disk")
    row.get_by_text("#1 → not found").wait_for()
    row.get_by_text("-1.000").wait_for()
    assert re.search(rf"run={first}&with={second}", page.url)


def test_a_run_shows_the_verdict_on_each_question(page: Page, console: Console) -> None:
    add(console, "a full disk", DISK)
    add(console, "how do I boil an egg")
    run = evaluated(console)
    go(page, console, f"quality?run={run}")
    table = page.get_by_role("table", name="Questions of the run")
    table.get_by_role("row").filter(has_text="boil an egg").get_by_text("rightly refused").wait_for()
    disk = table.get_by_role("row").filter(has_text="a full disk").inner_text()
    (expected,) = [
        one["reply"] for one in console.api("GET", f"/evaluations/{run}")["questions"] if one["text"] == "a full disk"
    ]
    assert f"#{expected['rank']}" in disk


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_figures_and_verdicts_can_be_read_by_everybody(
    opened: Callable[..., Page], console: Console, width: int, scheme: str
) -> None:
    add(console, "a full disk", DISK)
    add(console, "how do I boil an egg")
    first, second = evaluated(console), evaluated(console)
    page = opened(width, scheme)
    comparison = f"quality?tab=compare&run={first}&with={second}"
    for path, text in (
        ("quality", "Over time"),
        (f"quality?run={first}", "rightly refused"),
        (comparison, "a full disk"),
    ):
        go(page, console, path)
        page.get_by_role("main").get_by_text(text).first.wait_for()
        page.wait_for_load_state("networkidle")
        assert violations(page) == []
        assert page.evaluate("document.documentElement.scrollWidth") <= width
