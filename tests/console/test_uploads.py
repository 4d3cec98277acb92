"""Large files in the console: sent in parts, of which an interruption costs one."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.console.curation.steps import eventually, go
from tests.console.served import Console

if TYPE_CHECKING:
    from playwright.sync_api import Page, Route

pytestmark = [pytest.mark.browser, pytest.mark.enable_socket]

PARTS = 3
DATA = b"%PDF-1.7\n" + random.Random(7).randbytes(20 * 1024 * 1024)
"""Of three parts. It can't be read as a PDF, so that nothing is made of it once it is stored."""

SIGNED = re.compile(r"/uploads/[^/]{60,}$")


def choose(page: Page, console: Console, file: Path) -> None:
    go(page, console, "documents")
    page.get_by_role("button", name="Upload documents").click()
    with page.expect_file_chooser() as chooser:
        page.get_by_role("button", name="Choose files").first.click()
    chooser.value.set_files(str(file))


def test_a_large_file_goes_on_after_the_page_was_opened_anew(page: Page, console: Console, tmp_path: Path) -> None:
    file = tmp_path / "large.pdf"
    file.write_bytes(DATA)
    sent: list[bool] = []

    def cut(route: Route) -> None:
        """The connection breaks after two parts."""
        sent.append(len(sent) < PARTS - 1)
        if sent[-1]:
            route.continue_()
        else:
            route.abort()

    page.route(SIGNED, cut)
    choose(page, console, file)
    eventually(lambda: page.wait_for_timeout(100) or len(sent) >= PARTS)
    page.reload()  # which ends the attempts of the page
    page.unroute(SIGNED)
    again: list[str] = []
    page.on("request", lambda request: again.append(request.url) if SIGNED.search(request.url) else None)
    choose(page, console, file)
    (found,) = eventually(lambda: page.wait_for_timeout(100) or stored(console))
    assert found.read_bytes() == DATA
    assert len(again) == 1
    page.get_by_role("row").filter(has_text="large.pdf").get_by_text("it is broken, or no PDF").wait_for(
        timeout=120_000
    )


def stored(console: Console) -> list[Path]:
    """Files of the corpus that are as large as the one that is sent."""
    return [one for one in (console.home / "corpus").rglob("*") if one.is_file() and one.stat().st_size == len(DATA)]
