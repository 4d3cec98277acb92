"""A server that is restarted while its console is open: questions and uploads go on once the browser has a new session."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.console.served import Console, running
from tests.console.test_actions import eventually
from tests.console.test_ask import ask
from tests.console.test_uploads import DATA, PARTS, SIGNED, choose, stored

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

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
