"""Long work that is stopped, and canaries, in a browser."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.console.curation.steps import eventually, go
from tests.console.served import Console, running
from tests.console.test_quality import DISK, add, own_questions, runs
from tests.doubles.http_double import HttpDouble, Request, Response

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = [pytest.mark.browser, pytest.mark.enable_socket]

QUESTIONS = 400
"""Questions of an evaluation that is long enough to be stopped."""


class SlowModel(HttpDouble):
    """A language model that answers once it is let, and with an error."""

    def __init__(self) -> None:
        super().__init__("slow model")
        self.may_answer = threading.Event()

    def _answer(self, request: Request) -> Response:
        self.may_answer.wait(60)
        return Response(500, {"error": {"message": "busy"}})


@pytest.fixture
def model() -> Iterator[SlowModel]:
    with SlowModel() as double:
        yield double
        double.may_answer.set()


def jobs(console: Console) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = console.api("GET", "/jobs")["jobs"]
    return found


def test_research_is_stopped_at_its_next_step(
    page: Page, demo_home: Path, model: SlowModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {
        "CHAT_URL": f"{model.endpoint}/v1",
        "CHAT_MODEL": "slow",
        "RERANKER": "off",
        "RESEARCH_PLANNER": "chat",
        "RESEARCH_SECONDS": "300",
    }.items():
        monkeypatch.setenv(f"OPX_{name}", value)
    with running(demo_home) as console:
        page.goto(console.address())
        go(page, console, "?q=KubePodCrashLooping+checkout")
        page.get_by_role("button", name="Ask deeper").click()
        eventually(lambda: model.requests)
        page.get_by_role("button", name="Stop").click()
        page.get_by_role("status").get_by_text("(stopping)").wait_for()
        assert [one["state"] for one in jobs(console)] == ["cancelling"]
        model.may_answer.set()
        page.get_by_text("Stopped: these searches were done").wait_for()
        (job,) = jobs(console)
        assert (job["request"], job["state"], job["step"]) == ("POST /research", "cancelled", "")
        assert page.get_by_role("list", name="Findings").count() == 0
        page.get_by_role("button", name="Ask deeper").click()
        page.get_by_role("list", name="Findings").get_by_role("listitem").first.wait_for()
        assert [one["state"] for one in jobs(console)] == ["done", "cancelled"]


def test_an_evaluation_is_stopped(page: Page, console: Console) -> None:
    for number in range(QUESTIONS):
        add(console, f"the disk of host {number} is full", DISK)
    go(page, console, "quality")
    page.get_by_role("button", name="Run an evaluation").click()
    page.get_by_role("status").get_by_text(re.compile(rf"\d+ of {QUESTIONS} questions asked")).wait_for()
    page.get_by_role("button", name="Stop").click()
    eventually(lambda: jobs(console)[0]["state"] == "cancelled")
    page.get_by_text("it was cancelled").wait_for()
    (run,) = runs(console)
    assert run["state"] != "done"
    assert run["asked"] < QUESTIONS


def test_a_question_becomes_a_canary_and_is_answered(page: Page, console: Console) -> None:
    add(console, "a full disk", DISK)
    go(page, console, "quality?tab=questions")
    page.get_by_role("checkbox", name="Ask every hour: a full disk").click()
    eventually(lambda: own_questions(console)[0].get("canary"))
    go(page, console, "quality?tab=canaries")
    row = page.get_by_role("table", name="Canaries").get_by_role("row").filter(has_text="a full disk")
    row.get_by_text("not asked yet").wait_for()
    page.get_by_role("button", name="Ask them now").click()
    row.get_by_text("1 of 1 right").wait_for()
    (canary,) = console.api("GET", "/evaluations/canaries")["canaries"]
    (result,) = canary["results"]
    assert result["reply"]["verdict"] == "right"
    assert f"{result['reply']['confidence']:.2f}" in row.inner_text()
