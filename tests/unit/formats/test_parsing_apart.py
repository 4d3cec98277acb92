"""Large HTML, feeds and Confluence pages are parsed in the sandbox process, small ones in this one, with the same result."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from opx.domain.record import replace
from opx.errors import SourceShapeError, UnparsableDocumentError
from opx.formats.data.replies import OddRecordError
from opx.formats.markup.html import MAX_DEPTH, ShallowSoup, page_of
from opx.formats.registry import parse
from opx.formats.sandbox import workspace
from opx.formats.sandbox.apart import IN_PROCESS_BYTES
from opx.ports.models import ParsingLimits, ParsingTools
from opx.ports.sources import WebReply
from opx_connectors.atlassian.storage_format import storage_markdown
from opx_connectors.web.feed import feed_entries
from opx_connectors.web.pages import read_page
from tests.support.parsing_support import a_category

ROW = "<p>Restart the <b>service</b> &amp; read its <a href='/log'>log</a>.</p>\n"
MANY = IN_PROCESS_BYTES // len(ROW) + 2
HEAD = "<html lang='en'><head><title>Large</title><meta name='author' content='Ann'></head><body>"
LARGE = f"{HEAD}{ROW * MANY}</body></html>"
ADDRESS = "https://site.example/page"


def parsed(text: str, limits: ParsingLimits = ParsingLimits()) -> str:  # noqa: B008 (frozen)
    tools = replace(ParsingTools(), limits=limits)
    found = parse(io.BytesIO(text.encode()), name="a.html", category=a_category(), tools=tools)
    return f"{found.title} {found.metadata} {''.join(found.lines)}"


def reply(text: str, kind: str = "text/html; charset=utf-8") -> WebReply:
    return WebReply(ADDRESS, 200, {"content-type": kind}, text.encode())


@pytest.fixture
def no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workspace, "COMMAND", (sys.executable, "-c", "raise SystemExit(9)"))


def test_a_large_page_is_converted_as_a_small_one_is() -> None:
    found = page_of(LARGE.encode(), {"name": "a.html"})
    assert parsed(LARGE) == f"{found['title']} {found['metadata']} {found['text']}"
    assert found["metadata"] == {"author": "Ann", "language": "en"}
    assert found["text"].count("Restart the **service** & read its log.") == MANY


@pytest.mark.usefixtures("no_process")
def test_only_large_texts_start_a_process() -> None:
    assert "Restart" in parsed(HEAD + ROW)
    assert "Restart" in read_page(reply(HEAD + ROW)).text
    assert "Restart" in storage_markdown(ROW).markdown
    for read in (lambda: parsed(LARGE), lambda: read_page(reply(LARGE))):
        with pytest.raises(UnparsableDocumentError, match=r"crashed \(code 9\)"):
            read()
    with pytest.raises(OddRecordError, match="crashed"):
        storage_markdown(LARGE)
    with pytest.raises(SourceShapeError, match="crashed"):
        feed_entries(reply(LARGE), limit=9)


def test_a_page_that_takes_too_long_or_too_much_memory_is_refused_by_the_limit() -> None:
    items = "<ul>" + "<li>x" * (4 * IN_PROCESS_BYTES)
    with pytest.raises(UnparsableDocumentError, match=r"a\.html: reading it took more than 1 seconds"):
        parsed(items, ParsingLimits(seconds=1.0))
    if sys.platform == "linux":
        with pytest.raises(UnparsableDocumentError, match="more than 100 MB of memory"):
            parsed(items, ParsingLimits(memory_bytes=100 * 1024 * 1024))


@pytest.mark.parametrize("size", [IN_PROCESS_BYTES // 2, 3_000_000])
def test_deep_nesting_is_refused_with_its_reason(size: int) -> None:
    with pytest.raises(UnparsableDocumentError, match=r"^a\.html: HTML nested deeper than 150 levels; simplify it$"):
        parsed("<body>" + "<div>" * (size // 5))


def test_deep_nesting_is_refused_before_the_tree_is_built(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[str] = []
    add = ShallowSoup.handle_starttag

    def counted(self: ShallowSoup, name: str, *args: object, **named: object) -> object:
        begun.append(name)
        return add(self, name, *args, **named)

    monkeypatch.setattr(ShallowSoup, "handle_starttag", counted)
    with pytest.raises(UnparsableDocumentError):
        parsed("<div>" * 20_000)
    assert len(begun) == MAX_DEPTH + 1


def test_a_page_of_the_allowed_depth_is_read() -> None:
    deep = MAX_DEPTH - 1
    assert "heron" in parsed("<div>" * deep + "heron" + "</div>" * deep)
    with pytest.raises(UnparsableDocumentError):
        parsed("<div>" * (deep + 1) + "heron" + "</div>" * (deep + 1))


def test_a_large_page_of_a_site_has_its_links_and_dates() -> None:
    head = HEAD.replace("</head>", "<meta property='article:published_time' content='2026-01-02'></head>")
    small, large = (read_page(reply(head + ROW * count)) for count in (2, MANY))
    assert large.links == small.links == ("https://site.example/log",)
    assert large.metadata == small.metadata
    assert large.metadata["created_at"] == "2026-01-02"
    assert replace(large, text="") == replace(small, text="")


def test_a_large_feed_has_its_entries_and_a_broken_one_its_error() -> None:
    item = "<item><title>One</title><link>https://site.example/{0}</link><description>&lt;b&gt;words&lt;/b&gt;</description></item>"
    feed = "<rss version='2.0'><channel><title>x</title>" + "".join(map(item.format, range(2000)))
    entries = list(feed_entries(reply(feed + "</channel></rss>", "application/rss+xml"), limit=1500))
    first = entries[0]
    assert len(entries) == 1500
    assert (first.link, first.text, first.metadata["title"]) == ("https://site.example/0", "**words**", "One")
    with pytest.raises(SourceShapeError, match="breaks off"):
        feed_entries(reply(feed, "application/rss+xml"), limit=10)


def test_a_large_confluence_page_is_converted_and_a_deep_one_refused() -> None:
    text = ROW * MANY
    assert storage_markdown(text).markdown.count("Restart the **service**") == MANY
    with pytest.raises(OddRecordError, match="nested deeper than 150 levels"):
        storage_markdown("<div>" * IN_PROCESS_BYTES)


def test_nothing_is_left_of_a_page_that_was_read_apart(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    parsed(LARGE)
    with pytest.raises(UnparsableDocumentError):
        parsed("<div>" * IN_PROCESS_BYTES)
    assert list(tmp_path.iterdir()) == []
