"""The page that asks, in a browser."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.console.served import Console, running

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = [pytest.mark.browser, pytest.mark.enable_socket]

QUESTION = "KubePodCrashLooping checkout"


@pytest.fixture(scope="module")
def console(demo_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Console]:
    """One server for the tests of this file: one of them changes something, the outcomes of a document."""
    home = tmp_path_factory.mktemp("asked") / "home"
    shutil.copytree(demo_home, home)
    with running(home) as found:
        yield found


def ask(page: Page, question: str) -> None:
    page.get_by_label("Alert, log or question").fill(question)
    page.get_by_role("button", name="Ask", exact=True).click()


@pytest.mark.core
def test_a_question_gives_the_procedure_with_the_effects_of_its_steps(page: Page) -> None:
    ask(page, QUESTION)
    page.get_by_role("heading", name=re.compile("Pod.*CrashLoop", re.IGNORECASE)).first.wait_for()
    page.get_by_role("button", name=re.compile(r"All \d+ steps")).click()
    steps = page.get_by_role("list", name="Steps")
    steps.get_by_role("checkbox").first.check()
    assert steps.get_by_text("destructive", exact=True).count() > 0
    assert steps.get_by_role("button", name="Copy the command").count() > 0


@pytest.mark.core
def test_the_outcome_is_recorded_in_one_click(page: Page, console: Console) -> None:
    ask(page, QUESTION)
    page.get_by_role("button", name="Resolved it").click()
    page.get_by_text("recorded: resolved").wait_for()
    found = page.get_by_role("link", name="Open the document").get_attribute("href") or ""
    outcomes = console.api("GET", f"/documents/{found.rpartition('/')[2]}/outcomes")
    assert outcomes["now"]["resolved"] == 1


def test_the_score_explains_itself(page: Page) -> None:
    ask(page, QUESTION)
    page.get_by_role("button", name="Why this answer").click()
    page.get_by_text("Confidence × trust").wait_for()
    assert re.search(r"[01]\.\d\d × 1\.00 = [01]\.\d\d", page.get_by_role("main").inner_text())


def test_a_question_without_an_answer_is_reported(page: Page) -> None:
    ask(page, "how long do I boil an egg")
    page.get_by_text("Nothing here is near this question").wait_for()


def test_the_address_of_an_answer_can_be_kept(page: Page) -> None:
    ask(page, QUESTION)
    page.get_by_role("button", name="Resolved it").wait_for()
    page.reload()
    page.get_by_role("button", name="Resolved it").wait_for()


@pytest.mark.core
def test_it_works_by_keyboard_alone(page: Page) -> None:
    page.get_by_label("Alert, log or question").wait_for()
    page.keyboard.type(QUESTION)
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Resolved it").wait_for()


@pytest.mark.core
def test_what_the_answer_is_about_is_drawn_and_listed_and_leads_to_the_graph(page: Page) -> None:
    with page.expect_response(lambda reply: reply.url.endswith("/query")) as reply:
        ask(page, QUESTION)
    items = reply.value.json()["evidencePack"]["items"]
    relations = {(step["from"], step["edgeType"], step["to"]) for item in items for step in item.get("path", [])}
    assert ("runbook:pod-crashlooping", "handles", "alert:kubepodcrashlooping") in relations
    listed = page.get_by_role("list", name="Related things").get_by_role("listitem")
    listed.filter(has_text="handles").filter(has_text="kubepodcrashlooping").first.wait_for()
    assert listed.count() == len(relations)
    drawing = page.get_by_role("img", name="relations between things of this answer")
    drawing.locator("canvas").first.wait_for(state="attached")
    assert drawing.evaluate("box => box.getBoundingClientRect().height") < 300
    listed.filter(has_text="handles").get_by_role("link", name="kubepodcrashlooping").first.press("Enter")
    page.wait_for_url(re.compile("graph.ref=alert%3Akubepodcrashlooping"))
    page.get_by_role("heading", name="kubepodcrashlooping").first.wait_for()


def test_things_of_an_answer_have_their_own_names_and_documents_their_titles(page: Page) -> None:
    ask(page, "KubePodCrashLooping")
    related = page.get_by_role("list", name="Related things")
    related.wait_for()
    services = [link.inner_text() for link in related.locator("a[href*='ref=service']").all()]
    assert {"identity", "payments"} <= set(services)
    assert not any(" " in name for name in services)
    related.get_by_role("link", name="Kafka consumer lag").first.wait_for()


def test_a_question_of_the_graph_has_its_answer(page: Page) -> None:
    ask(page, "what changed upstream of checkout in the last 900 days?")
    page.get_by_text("chg-42").first.wait_for()
    related = page.get_by_role("list", name="Related things").get_by_role("listitem")
    related.filter(has_text="affects").get_by_role("link", name="chg-42").or_(
        related.get_by_role("link", name=re.compile("CHG-42"))
    ).first.wait_for()


def test_without_related_things_nothing_is_drawn(page: Page) -> None:
    ask(page, "how long do I boil an egg")
    page.get_by_role("button", name="Ask deeper").wait_for()
    assert page.get_by_role("list", name="Related things").count() == 0
