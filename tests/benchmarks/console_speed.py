"""Measures the console in Chromium: `python -m tests.benchmarks.console_speed`, after `make console`.

Milliseconds from the end of the API's reply to the frame that shows it: the first hit of an answer, and a table of 100
documents; the median and the largest of ten runs each, as JSON. Needs Debian's Chromium
and the packages of `layers/dependencies/browser.txt`.
"""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from tests.console.conftest import PROGRAM
from tests.console.served import OPX, Console, running

if TYPE_CHECKING:
    from playwright.sync_api import Page

RUNS = 10
DOCUMENTS = 120
QUESTION = "KubePodCrashLooping checkout"

_RECORD = """
  const send = window.fetch;
  window.opxReplies = {};
  window.fetch = async (...given) => {
    const reply = await send(...given);
    void reply.clone().arrayBuffer().then(() => {
      window.opxReplies[new URL(reply.url).pathname] = performance.now();
    });
    return reply;
  };
"""
_WATCH = """([path, selector, count]) => {
  window.opxReplies = {};
  const look = () => {
    const replied = Object.entries(window.opxReplies).find(([one]) => one.endsWith(path));
    if (replied && document.querySelectorAll(selector).length >= count) {
      requestAnimationFrame(() => { window.opxTaken = performance.now() - replied[1]; });
    } else {
      requestAnimationFrame(look);
    }
  };
  look();
}"""
_TAKEN = "() => window.opxTaken"


def filled(home: Path) -> None:
    """The example corpus with further small documents."""
    subprocess.run([str(OPX), "--home", str(home), "demo"], check=True, capture_output=True)
    pages = home.parent / "pages"
    pages.mkdir()
    for number in range(DOCUMENTS):
        (pages / f"page-{number}.md").write_text(
            f"# Procedure {number}\n\nRestart the part {number}, and look at it.\n"
        )
    subprocess.run([str(OPX), "--home", str(home), "ingest", str(pages)], check=True, capture_output=True)


def taken(page: Page, act: Callable[[], object], path: str, selector: str, count: int) -> float:
    page.evaluate(_WATCH, [path, selector, count])
    act()
    return float(page.wait_for_function(_TAKEN).json_value())


def answer(page: Page) -> float:
    """Milliseconds from the reply to the first hit."""
    page.get_by_label("Alert, log or question").fill(QUESTION)
    button = page.get_by_role("button", name="Ask", exact=True)
    return taken(page, button.click, "/query", "main h2, main h3", 1)


def table(page: Page) -> float:
    """Milliseconds from the reply to a table of 100 documents."""
    link = page.get_by_role("link", name="Documents", exact=True).first
    return taken(page, link.click, "/documents", "main table tbody tr", 100)


def measured(console: Console, act: Callable[[Page], float]) -> list[float]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=PROGRAM, args=["--no-sandbox", "--disable-dev-shm-usage"])
        found = []
        for _ in range(RUNS):
            page = browser.new_page(viewport={"width": 1280, "height": 900})
            page.add_init_script(_RECORD)
            page.goto(console.address())
            page.get_by_label("Alert, log or question").wait_for()
            found.append(act(page))
            page.close()
        browser.close()
        return found


def main() -> None:
    """Prints a JSON line for each figure."""
    folder = Path(tempfile.mkdtemp(prefix="opx-console-"))
    try:
        filled(folder / "home")
        with running(folder / "home") as console:
            for name, act in (("answer", answer), ("table", table)):
                times = measured(console, act)
                print(
                    json.dumps(
                        {"what": name, "median_ms": round(statistics.median(times)), "most_ms": round(max(times))}
                    )
                )
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
