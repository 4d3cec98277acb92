"""Every page, wide and narrow, light and dark: it opens, shows what is in the corpus, and can be used by everybody."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.console.curation.steps import go
from tests.console.served import Console, running

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = [pytest.mark.browser, pytest.mark.enable_socket]

AXE = Path(__file__).parents[2] / "console" / "node_modules" / "axe-core" / "axe.min.js"
TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]

PICTURES = os.environ.get("OPX_PICTURES", "")
PICTURED = {"?q=KubePodCrashLooping": "ask", "inbox": "inbox"}
"""Pages of which docs/console.md has a picture, and its name."""

SPARED = [["nav[aria-orientation]"]]
"""Cloudscape gives its navigation on narrow screens an attribute that a `nav` may not have."""

PAGES = {
    "": "Alert, log or question",
    "?q=KubePodCrashLooping": "Did it help?",
    "documents": "Disk full on a Linux host",
    "inbox": "how long do I boil an egg",
    "coverage": "AcmDaysToExpiryLow",
    "sources": "aws-docs",
    "graph": "Find",
    "learning": "Order e-mails stop after a rebalance",
    "quality": "Nothing was evaluated yet",
    "quality?tab=compare": "Choose two runs",
    "quality?tab=questions": "There are none yet",
    "tenants": "Clients",
    "health": "all-MiniLM-L6-v2",
    "health?tab=index": "A new index is built beside the one that answers",
    "health?tab=costs": "AWS bills nothing",
    "nowhere": "There is no such page",
}
"""Pages, each with words that stand there when it has loaded."""


@pytest.fixture(scope="module")
def console(demo_home: Path) -> Iterator[Console]:
    """One server for all pages, which are only read."""
    with running(demo_home) as found:
        yield found


def violations(page: Page) -> list[str]:
    """Rules of axe-core that the page breaks, each with the elements."""
    page.evaluate(AXE.read_text(encoding="utf-8"))
    found = page.evaluate(
        "([tags, spared]) => axe.run({exclude: spared}, {runOnly: tags}).then(result => result.violations)",
        [TAGS, SPARED],
    )
    return [f"{one['id']}: {[node['html'][:150] for node in one['nodes'][:3]]}" for one in found]


@pytest.mark.parametrize(("width", "scheme"), [pytest.param(1280, "light", marks=pytest.mark.core), (390, "dark")])
@pytest.mark.parametrize(("path", "text"), PAGES.items(), ids=[path or "ask" for path in PAGES])
def test_it_opens_and_everybody_can_use_it(
    console: Console, opened: Callable[..., Page], path: str, text: str, width: int, scheme: str
) -> None:
    page = opened(width, scheme)
    go(page, console, path)
    page.get_by_role("main").get_by_text(text).first.wait_for()
    page.wait_for_load_state("networkidle")
    if PICTURES and width == 1280 and path in PICTURED:
        page.screenshot(path=Path(PICTURES) / f"{PICTURED[path]}.png")
    assert violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.core
def test_a_document_opens_from_the_list(console: Console, page: Page) -> None:
    go(page, console, "documents")
    link = page.get_by_role("main").get_by_role("link").filter(has_text="Kafka consumer lag").first
    link.click()
    page.get_by_role("heading", name="Kafka consumer lag").first.wait_for()
    page.wait_for_load_state("networkidle")
    assert violations(page) == []
