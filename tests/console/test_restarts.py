"""A server that is restarted or upgraded while its console is open: questions and uploads go on once the browser has a new
session, and pages whose code isn't loaded appear by themselves."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.console.curation.steps import eventually
from tests.console.served import Console, running
from tests.console.test_ask import ask
from tests.console.test_uploads import DATA, PARTS, SIGNED, choose, stored

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Request, Route

pytestmark = [pytest.mark.browser, pytest.mark.enable_socket]

SLOWLY = 4 * 1024 * 1024
"""Bytes a second that the browser sends, so that there is a time between parts."""

ENDED = "the session of this page has ended: run `opx console` for a new address"


@dataclass
class Restartable:
    """A console at one port. `stop` kills it, as a crash does."""

    home: Path
    listen: str
    stack: ExitStack = field(default_factory=ExitStack)

    def start(self) -> Console:
        return self.stack.enter_context(running(self.home, serving=("--listen", self.listen)))

    def stop(self, console: Console) -> None:
        console.process.kill()
        console.process.wait(30)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Restartable]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        listen = f"127.0.0.1:{free.getsockname()[1]}"
    with ExitStack() as stack:
        yield Restartable(tmp_path / "home", listen, stack)


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page that has opened nothing yet, in a browser of its own."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    yield context.new_page()
    context.close()


def signed_in_again(page: Page, console: Console) -> None:
    """Opens the new address in another tab, as a person would."""
    tab = page.context.new_page()
    tab.goto(console.address())
    tab.get_by_label("Alert, log or question").wait_for()
    tab.close()


def test_a_question_waits_for_a_server_and_for_a_new_session(server: Restartable, page: Page) -> None:
    first = server.start()
    page.goto(first.address())
    page.get_by_label("Alert, log or question").wait_for()
    server.stop(first)
    ask(page, "the router is slow")
    page.get_by_text("the server can't be reached").wait_for()
    second = server.start()
    page.get_by_text(ENDED).first.wait_for(timeout=120_000)
    signed_in_again(page, second)
    page.get_by_role("button", name="Try again").click()
    page.get_by_text("Nothing here is near this question").wait_for()


def test_a_page_without_its_code_waits_for_the_server(server: Restartable, page: Page) -> None:
    first = server.start()
    page.goto(first.address())
    page.get_by_label("Alert, log or question").wait_for()
    server.stop(first)
    page.get_by_role("link", name="Graph", exact=True).click()
    page.get_by_text("the server can't be reached; the page tries again by itself").wait_for()
    assert page.get_by_role("navigation", name="Pages").is_visible()
    page.evaluate("window.isTheSame = true")
    server.start()
    page.get_by_role("heading", name="Graph").wait_for(timeout=120_000)
    page.get_by_label("Find a thing").wait_for()
    assert page.evaluate("[...document.styleSheets].some(sheet => sheet.href?.includes('/assets/Graph-'))")
    assert page.evaluate("window.isTheSame")


def test_a_page_whose_code_is_replaced_by_an_upgrade_is_loaded_anew(server: Restartable, page: Page) -> None:
    loads = without_code_of_graph(page, until=2)
    page.goto(server.start().address())
    page.get_by_role("link", name="Graph", exact=True).click()
    page.get_by_role("heading", name="Graph").wait_for()
    assert len(loads) == 2


def test_a_page_without_code_is_loaded_anew_once_with_a_message(server: Restartable, page: Page) -> None:
    loads = without_code_of_graph(page, until=9)
    page.goto(server.start().address())
    page.get_by_role("link", name="Graph", exact=True).click()
    page.get_by_text("This failed").wait_for()
    assert len(loads) == 2
    page.get_by_role("link", name="Documents", exact=True).click()
    page.get_by_role("heading", name="Documents", exact=True).wait_for()


def without_code_of_graph(page: Page, until: int) -> list[str]:
    """The server lacks the code of a page until the console is loaded so often; returns the addresses of these loads."""
    loads: list[str] = []

    def note(request: Request) -> None:
        if request.is_navigation_request() and "key=" not in request.url:
            loads.append(request.url)

    def answer(route: Route) -> None:
        if len(loads) < until:
            route.fulfill(status=404, body="")
        else:
            route.continue_()

    page.on("request", note)
    page.route(re.compile(r"assets/Graph-[^/]*\.js"), answer)
    return loads


def test_an_upload_in_parts_goes_on_after_a_restart(server: Restartable, page: Page, tmp_path: Path) -> None:
    file = tmp_path / "large.pdf"
    file.write_bytes(DATA)
    sent: list[str] = []
    # a part that the server refuses while it stops was not stored
    page.on("response", lambda one: sent.append(one.url) if one.ok and SIGNED.search(one.url) else None)
    first = server.start()
    page.goto(first.address())
    page.get_by_label("Alert, log or question").wait_for()
    slow = page.context.new_cdp_session(page)
    slow.send("Network.enable")
    conditions = {"offline": False, "latency": 0, "downloadThroughput": -1, "uploadThroughput": SLOWLY}
    slow.send("Network.emulateNetworkConditions", conditions)
    choose(page, first, file)
    eventually(lambda: page.wait_for_timeout(50) or sent)
    server.stop(first)
    kept = len(sent)
    assert kept < PARTS
    second = server.start()
    row = page.get_by_role("row").filter(has_text="large.pdf")
    row.get_by_text(ENDED).wait_for(timeout=120_000)
    signed_in_again(page, second)
    row.get_by_role("button", name="Try again: large.pdf").click()
    (found,) = eventually(lambda: page.wait_for_timeout(100) or stored(second))
    assert found.read_bytes() == DATA
    assert len(sent) == PARTS
    row.get_by_text("it is broken, or no PDF").wait_for(timeout=120_000)
    assert not list((server.home / "uploads").iterdir())
