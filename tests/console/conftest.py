"""A server with the console over the example corpus, and a browser that opened it."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, ConsoleMessage, Page

from tests.console.served import Console, running
from tests.support.demo_support import demo_home_at

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
PROGRAM = next(filter(None, map(shutil.which, BROWSERS)), None)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if PROGRAM is None:
        for item in items:
            if Path(__file__).parent in item.path.parents:
                item.add_marker(pytest.mark.skip("no Chromium: Debian's package chromium has it"))


@pytest.fixture(scope="session")
def browser_type_launch_args() -> dict[str, Any]:
    """Debian's Chromium; as root it runs only without its sandbox."""
    return {"executable_path": PROGRAM, "args": ["--no-sandbox", "--disable-dev-shm-usage"]}


@pytest.fixture(scope="session")
def demo_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The home of the example corpus."""
    return demo_home_at(tmp_path_factory.mktemp("console") / "home")


@pytest.fixture
def console(demo_home: Path, tmp_path: Path) -> Iterator[Console]:
    """A server of its own over a copy of the example corpus."""
    home = tmp_path / "home"
    shutil.copytree(demo_home, home)
    with running(home) as found:
        yield found


@pytest.fixture
def opened(browser: Browser, console: Console) -> Iterator[Callable[..., Page]]:
    """Opens the console in a browser of its own, at a width and in a colour scheme. At the end, the page may have reported
    nothing: no error, and no violation of its policy."""
    reports: list[str] = []
    with ExitStack() as stack:

        def note(message: ConsoleMessage) -> None:
            if message.type in ("error", "warning") and not EXPECTED.search(message.text):
                reports.append(f"{message.type}: {message.text}")

        def open_page(width: int = 1280, scheme: str = "light") -> Page:
            context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
            stack.callback(context.close)
            page = context.new_page()
            page.on("console", note)
            page.on("pageerror", lambda error: reports.append(f"exception: {error}"))
            page.goto(console.address())
            return page

        yield open_page
    assert reports == []


EXPECTED = re.compile(
    r"the server responded with a status of (4|5)\d\d|ERR_(CONNECTION_REFUSED|CONNECTION_RESET|FAILED)"
)
"""Messages of the browser about replies that a test provokes."""


@pytest.fixture
def page(opened: Callable[..., Page]) -> Page:
    return opened()
