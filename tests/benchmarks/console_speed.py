"""Measures the console in Chromium: `python -m tests.benchmarks.console_speed`, after `make console`.

Milliseconds from the end of the API's reply to the frame that shows it: the first hit of an answer, its text and all else,
and the first rows and all of a table of 100 documents; the median and the least of ten runs each, as JSON, beside the
processor time of the page's main thread, which a busy machine changes less. Needs Debian's Chromium and the packages of
`layers/dependencies/browser.txt`. `--home` measures an existing home with at least 100 documents.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from tests.console.conftest import PROGRAM
from tests.console.served import OPX, Console, running

if TYPE_CHECKING:
    from playwright.sync_api import Browser, CDPSession, Locator, Page

RUNS = 10
DOCUMENTS = 120
QUESTION = "KubePodCrashLooping checkout"
MARK = "opx-"


@dataclass(frozen=True, slots=True)
class View:
    """A click, the paths of the replies that it needs, and selectors with the number of elements that are awaited."""

    name: str
    click: str
    replies: tuple[str, ...]
    parts: Mapping[str, tuple[str, int]]


VIEWS = (
    View(
        "answer",
        "Ask",
        ("/query",),
        {
            "first hit": ("main a[href^='#/documents/']", 1),
            "its text": ("main .opx-markdown > *", 1),
            "all": ("main ul[aria-label='Also found'] li", 1),
        },
    ),
    View(
        "table",
        "Documents",
        ("/documents", "/categories"),
        {"first rows": ("main table tbody tr a", 20), "100 rows": ("main table tbody tr a", 100)},
    ),
)

_WATCH = """(parts) => {
  const left = Object.entries(parts);
  const shown = (name) => requestAnimationFrame(() => {
    const channel = new MessageChannel();  // its message comes after the frame
    channel.port1.onmessage = () => {
      performance.mark("opx-" + name);
      if (!left.length) window.opxShown = true;
    };
    channel.port2.postMessage(0);
  });
  const look = () => {
    for (const one of [...left]) {
      const [name, [selector, count]] = one;
      if (document.querySelectorAll(selector).length < count) continue;
      left.splice(left.indexOf(one), 1);
      shown(name);
    }
    if (!left.length) watch.disconnect();
  };
  const watch = new MutationObserver(look);
  watch.observe(document.body, {childList: true, subtree: true});
}"""


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


class Trace:
    """Events of the browser's trace inside `with`."""

    def __init__(self, session: CDPSession, page: Page) -> None:
        self.events: list[dict[str, Any]] = []
        self._session, self._page, self._complete = session, page, False
        session.on("Tracing.dataCollected", lambda found: self.events.extend(found["value"]))
        session.on("Tracing.tracingComplete", self._completed)

    def _completed(self, _found: object) -> None:
        self._complete = True

    def __enter__(self) -> Trace:
        config = {"includedCategories": ["devtools.timeline", "blink.user_timing"]}
        self._session.send("Tracing.start", {"transferMode": "ReportEvents", "traceConfig": config})
        return self

    def __exit__(self, *_: object) -> None:
        self._session.send("Tracing.end")
        while not self._complete:
            self._page.wait_for_timeout(20)


def since_reply(events: Sequence[Mapping[str, Any]], replies: tuple[str, ...]) -> dict[str, tuple[float, float]]:
    """Milliseconds from the last of the replies to each mark: of the clock, and of the main thread's processor."""
    facts = [(one, one.get("args", {}).get("data", {})) for one in events]
    ids = {
        data["requestId"]
        for one, data in facts
        if one["name"] == "ResourceSendRequest" and urlsplit(data["url"]).path.endswith(replies)
    }
    ends = [one for one, data in facts if one["name"] == "ResourceFinish" and data["requestId"] in ids]
    end = max(ends, key=lambda one: float(one["ts"]))
    return {
        one["name"].removeprefix(MARK): ((one["ts"] - end["ts"]) / 1000, (one["tts"] - end["tts"]) / 1000)
        for one in events
        if one["name"].startswith(MARK)
    }


def clicked(page: Page, view: View) -> Locator:
    if view.name != "answer":
        return page.get_by_role("link", name=view.click, exact=True).first
    page.get_by_label("Alert, log or question").fill(QUESTION)
    return page.get_by_role("button", name=view.click, exact=True)


def measured(browser: Browser, console: Console, view: View) -> dict[str, tuple[float, float]]:
    """One run of a view in a browser without a cache."""
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.goto(console.address())
    page.get_by_label("Alert, log or question").wait_for()
    page.wait_for_load_state("networkidle")
    target = clicked(page, view)
    page.evaluate(_WATCH, {name: list(part) for name, part in view.parts.items()})
    with Trace(page.context.new_cdp_session(page), page) as trace:
        target.click()
        page.wait_for_function("() => window.opxShown", timeout=120_000)
    page.close()
    return since_reply(trace.events, view.replies)


def report(view: View, runs: Sequence[Mapping[str, tuple[float, float]]]) -> None:
    for part in view.parts:
        wall, cpu = zip(*(run[part] for run in runs), strict=True)
        figures = {"median_ms": statistics.median(wall), "least_ms": min(wall), "median_cpu_ms": statistics.median(cpu)}
        print(json.dumps({"what": f"{view.name}: {part}", **{name: round(ms) for name, ms in figures.items()}}))


def measure(home: Path, runs: int) -> None:
    from playwright.sync_api import sync_playwright

    with running(home) as console, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=PROGRAM, args=["--no-sandbox", "--disable-dev-shm-usage"])
        for view in VIEWS:
            report(view, [measured(browser, console, view) for _ in range(runs)])
        browser.close()


def main() -> None:
    """Prints a JSON line for each figure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--home", type=Path)
    parser.add_argument("--runs", type=int, default=RUNS)
    given = parser.parse_args()
    if given.home:
        measure(given.home, given.runs)
        return
    folder = Path(tempfile.mkdtemp(prefix="opx-console-"))
    try:
        filled(folder / "home")
        measure(folder / "home", given.runs)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
