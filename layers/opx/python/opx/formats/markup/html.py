"""Converts the main content of HTML pages to Markdown. Imported only where HTML is parsed: Beautiful Soup is slow to load."""

from __future__ import annotations

import codecs
import io
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

from bs4 import BeautifulSoup, Tag
from bs4.element import Declaration, Doctype
from bs4.exceptions import ParserRejectedMarkup
from markdownify import ATX, MarkdownConverter

from opx.domain.ids import normalise
from opx.domain.knowledge import Category, Tier
from opx.errors import UnparsableDocumentError
from opx.formats.markup.confluence_export import is_export, taken_apart
from opx.formats.source import Source, cut_lines, read_html_text, well_formed

MAX_DEPTH = 150
"""Levels of elements; pages have up to about 60. The converter recurses three calls a level."""

_DROPPED = ["script", "style", "nav", "footer", "aside", "form", "noscript", "template", "svg", "iframe", "object"]
_MAIN_IDS = ("content", "main", "main-content", "main_content", "mw-content-text", "bodyContent", "documentation")
_HEADINGS = re.compile(r"h[1-6]\Z")
_PROCESSING_INSTRUCTION = re.compile(r"<\?[^<>]*>")
_LANGUAGE_CLASS = re.compile(r"(?:language|lang|highlight-source)-([\w+#.-]+)\Z")
_LANGUAGE = re.compile(r"[A-Za-z]{2,3}(?:-[A-Za-z0-9]+)*\Z")
_FENCES = re.compile(r"`{3,}")
_SMALL_NUMBER = re.compile(r"[0-9]{1,2}\Z", re.ASCII)
_BLOCKS = ("address", "article", "blockquote", "details", "div", "dl", "figure", "h1", "h2", "h3", "h4", "h5", "h6")
_MORE_BLOCKS = ("hr", "main", "ol", "p", "pre", "section", "table", "ul")
_ENDED_BY: dict[str, frozenset[str]] = {
    **{block: frozenset({"p"}) for block in (*_BLOCKS, *_MORE_BLOCKS)},
    "li": frozenset({"li", "p"}),
    "dt": frozenset({"dt", "dd", "p"}),
    "dd": frozenset({"dt", "dd", "p"}),
    "td": frozenset({"td", "th", "p"}),
    "th": frozenset({"td", "th", "p"}),
    "tr": frozenset({"td", "th", "tr", "p"}),
}
"""Elements whose end tag may be omitted before the named ones (HTML standard, "Optional tags")."""

MAX_COPIES = 50_000
"""Cells that are added to a page."""
_MAX_COLUMNS = 200
"""Cells that begin further right are not repeated."""
_MAX_TEXT = 300
"""Characters of a cell that are repeated; the cell itself keeps all."""
_ROWS = re.compile(r"[0-9]{1,5}\Z", re.ASCII)
_CELLS = ["td", "th"]


@dataclass(frozen=True, slots=True)
class HtmlPage:
    """`text` is Markdown; `title` is "" if there is none."""

    title: str
    metadata: dict[str, Any]
    text: str


def page_of(data: bytes, facts: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of an `HtmlPage` of a file, whose name is among the facts. Raises `UnparsableDocumentError`."""
    name = facts["name"]
    no_category = Category("documents", Tier.INTERNAL, 1.0, "permanent")
    page = read_html(read_html_text(Source(name, data, io.BytesIO(), no_category)), name)
    if not page.text.strip():
        raise UnparsableDocumentError(f"{name}: the page has no text of its own; save it after its scripts have run")
    return asdict(page)


def read_html(text: str, name: str, prepare: Callable[[BeautifulSoup], None] | None = None) -> HtmlPage:
    """Reads a page's main part and the metadata of its head. `prepare` gets the whole page first and may remove parts.

    Raises `UnparsableDocumentError` for invalid HTML; a page without text gives an empty one.
    """
    with _readable(name):
        soup = _parsed(text)
        _refuse_deep(soup, name)
        if prepare:
            prepare(soup)
        metadata = _metadata(soup)
        if not is_export(soup):
            return HtmlPage(_title(soup), metadata, _markdown(soup))
        facts = taken_apart(soup)
        return HtmlPage(facts.pop("title", ""), {**metadata, **facts}, _markdown(soup))


def read_fragment(text: str, name: str) -> str:
    """Converts a whole HTML fragment to Markdown. Raises like `read_html`."""
    with _readable(name):
        soup = _parsed(text)
        _refuse_deep(soup, name)
        return _markdown(soup, soup)


@contextmanager
def _readable(name: str) -> Iterator[None]:
    try:
        yield
    except RecursionError as exc:
        raise UnparsableDocumentError(f"{name}: HTML nested deeper than {MAX_DEPTH} levels; simplify it") from exc
    except (ParserRejectedMarkup, ValueError) as exc:  # ValueError: a number of thousands of digits in the markup
        raise UnparsableDocumentError(f"{name}: not readable as HTML: {exc}; correct the markup") from exc


class ShallowSoup(BeautifulSoup):
    """Refuses deep nesting as soon as it is reached: half a KB of memory per level adds up before the tree is complete."""

    def handle_starttag(self, *args: Any, **kwargs: Any) -> Tag | None:
        if len(self.tagStack) > MAX_DEPTH:
            raise RecursionError
        return super().handle_starttag(*args, **kwargs)


class _Soup(ShallowSoup):
    """Ends elements where their end tag is omitted; the standard library's parser would nest them."""

    def handle_starttag(self, name: str, *args: Any, **kwargs: Any) -> Tag | None:
        ended = _ENDED_BY.get(name, ())
        while self.currentTag is not None and self.currentTag.name in ended:
            self.handle_endtag(self.currentTag.name)
        return super().handle_starttag(name, *args, **kwargs)


class _Converter(MarkdownConverter):
    """Conversions that differ from the package's; it determines the arguments."""

    def convert_a(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        """`text (address)`: an agent reads the address, and search isn't disturbed by brackets in the text."""
        address = attribute(el, "href")
        shown = text.strip()
        if "_noformat" in parent_tags or not shown or shown == address:
            return text
        return f"{text} ({address})" if address.startswith(("http://", "https://")) else text

    def convert_img(self, el: Tag, text: str, parent_tags: set[str]) -> str:  # noqa: ARG002
        return attribute(el, "alt")

    def convert_li(self, el: Tag, text: str, parent_tags: set[str]) -> str:  # noqa: ARG002
        """Uses the numbers of `_number_items`: counting siblings for each item takes quadratic time."""
        bullet = f"{attribute(el, 'value')}. " if attribute(el, "value") else "- "
        return bullet + text.strip().replace("\n", "\n" + " " * len(bullet)) + "\n" if text.strip() else "\n"

    def convert_pre(self, el: Tag, text: str, parent_tags: set[str]) -> str:  # noqa: ARG002
        """A code block, in a fence that is longer than any in the code."""
        code = text.strip("\n")
        fence = max(["``", *_FENCES.findall(code)], key=len) + "`"
        return f"\n\n{fence}{_code_language(el)}\n{code}\n{fence}\n\n" if code.strip() else ""


def _parsed(text: str) -> BeautifulSoup:
    text = _escape_unfinished(_escape_unfinished(_PROCESSING_INSTRUCTION.sub("", text), "<!--", "-->"), "<", ">")
    # Without any tag Beautiful Soup takes the text for an address or a file name and warns.
    return _Soup(text if "<" in text else f"<p>{text}</p>", "html.parser")


def _escape_unfinished(text: str, opening: str, closing: str) -> str:
    """Escapes openings without a closing: for each the parser would read on to the end of the page."""
    end = text.rfind(closing) + 1
    return text[:end] + text[end:].replace(opening, "&lt;" + opening[1:])


def is_deep(soup: BeautifulSoup) -> bool:
    """True if tags are nested deeper than `MAX_DEPTH`."""
    level: list[Tag] = [soup]
    for _ in range(MAX_DEPTH):
        level = [child for tag in level for child in tag.children if isinstance(child, Tag)]
    return bool(level)


def _refuse_deep(soup: BeautifulSoup, name: str) -> None:
    if is_deep(soup):
        raise UnparsableDocumentError(f"{name}: HTML nested deeper than {MAX_DEPTH} levels; simplify it")


def _title(soup: BeautifulSoup) -> str:
    for tag in ("title", "h1"):
        found = next((el for el in soup.find_all(tag) if not el.find_parent("svg")), None)
        if found and found.get_text().strip():
            return well_formed(" ".join(found.get_text().split()))
    return ""


def _metadata(soup: BeautifulSoup) -> dict[str, Any]:
    metadata = {}
    for field in ("description", "author"):
        tag = soup.find("meta", attrs={"name": re.compile(rf"{field}\Z", re.IGNORECASE)})
        content = attribute(tag, "content").strip() if isinstance(tag, Tag) else ""
        if content:
            metadata[field] = well_formed(content)
    html = soup.find("html")
    language = attribute(html, "lang").strip() if isinstance(html, Tag) else ""
    if _LANGUAGE.match(language):
        metadata["language"] = language
    return metadata


def _markdown(soup: BeautifulSoup, main: Tag | None = None) -> str:
    for tag in soup.find_all(_DROPPED):
        tag.decompose()
    for text in soup.find_all(string=True):
        if isinstance(text, Declaration | Doctype):
            text.extract()  # such as <![if !IE]>, which the converter takes for text
    for header in soup.find_all("header"):
        for heading in header.find_all(_HEADINGS):
            header.insert_before(heading.extract())  # an article's own heading often stands in its header
        header.decompose()
    main = main or _main_part(soup)
    _number_items(main)
    spread_cells(main)
    converter = _Converter(heading_style=ATX, escape_asterisks=False, escape_underscores=False)
    return normalise(well_formed(converter.convert_soup(main))).strip("\n") + "\n"


def _main_part(soup: BeautifulSoup) -> Tag:
    """The first of the usual containers that has text: main, its role, an only article, an id; or else the whole page."""
    for candidate in _candidates(soup):
        if isinstance(candidate, Tag) and candidate.get_text().strip():
            return candidate
    for tag in soup.find_all(["head", "title"]):
        tag.decompose()
    return soup


def _candidates(soup: BeautifulSoup) -> Iterator[Any]:
    """Candidates one after the other, lazily: each search traverses the whole page."""
    yield soup.find("main")
    yield soup.find(True, attrs={"role": "main"})
    articles = soup.find_all("article")
    yield articles[0] if len(articles) == 1 else None
    for known in _MAIN_IDS:
        yield soup.find(id=known)
    yield soup.find("body")


def _number_items(main: Tag) -> None:
    for items in main.find_all(["ol", "ul"]):
        start = attribute(items, "start")
        number = int(start) if _SMALL_NUMBER.match(start) else 1
        for item in items.find_all("li", recursive=False):
            item["value"] = str(number) if items.name == "ol" else ""
            number += 1


def _code_language(pre: Tag) -> str:
    for tag in (pre, pre.find("code"), pre.parent):
        classes = tag.get("class") if isinstance(tag, Tag) else None
        for name in classes if isinstance(classes, list) else []:
            match = _LANGUAGE_CLASS.match(name)
            if match:
                return match[1]
    return ""


def attribute(tag: Tag, name: str) -> str:
    """The value of an attribute; "" if it is missing or has several."""
    value = tag.get(name)
    return value if isinstance(value, str) else ""


@dataclass(slots=True)
class _Span:
    """A cell that spans rows below; `text` is the repeated part."""

    name: str
    text: str
    columns: int
    rows: int


def spread_cells(root: Tag) -> None:
    """Repeats the text of cells with `rowspan` in the rows below, so that all cells stand under their headings.

    As in the HTML standard ("Forming a table"), a cell ends with its row group. First, `colspan` of more than two
    digits is removed everywhere: a few bytes would become a thousand columns.
    """
    for cell in root.find_all(_CELLS, colspan=True):
        if not _SMALL_NUMBER.match(attribute(cell, "colspan")):
            del cell["colspan"]
    groups: dict[int, list[Tag]] = {}
    for cell in root.find_all(_CELLS, rowspan=True):
        row = cell.parent
        if row is not None and row.name == "tr" and row.parent is not None and id(row.parent) not in groups:
            groups[id(row.parent)] = row.parent.find_all("tr", recursive=False)
    left = MAX_COPIES
    for rows in groups.values():
        left = _spread(rows, left)


def _spread(rows: list[Tag], left: int) -> int:
    """Spreads cells within a row group; returns the number of cells that may still be added."""
    spans: dict[int, _Span] = {}
    for row in rows:
        if left <= len(spans):
            return 0
        left -= len(spans)
        spans = _fill(row, spans)
    return left


def _fill(row: Tag, spans: dict[int, _Span]) -> dict[int, _Span]:
    """Adds to a row the cells that span it from above. Returns by column the cells that span the row below."""
    below = {at: _Span(span.name, span.text, span.columns, span.rows - 1) for at, span in spans.items()}
    column = 0
    for cell in row.find_all(_CELLS, recursive=False):
        while column in spans:
            cell.insert_before(_added(spans[column]))
            column += spans.pop(column).columns
        columns = _columns(cell)
        rows = _rows(cell)
        if rows > 1 and column < _MAX_COLUMNS:
            below[column] = _Span(cell.name, _text(cell), columns, rows - 1)
        column += columns
    for at in sorted(at for at in spans if at >= column):
        if at > column:
            row.append(_added(_Span("td", "", min(at - column, 99), 1)))
        row.append(_added(spans[at]))
        column = at + spans[at].columns
    return {at: span for at, span in below.items() if span.rows > 0}


def _added(span: _Span) -> Tag:
    made = Tag(name=span.name)
    made.string = span.text
    if span.columns > 1:
        made["colspan"] = str(span.columns)
    return made


def _columns(cell: Tag) -> int:
    return max(1, int(attribute(cell, "colspan") or 1))


def _rows(cell: Tag) -> int:
    """The `rowspan`, 1 by default; 0 means all rows of the group."""
    value = attribute(cell, "rowspan").strip()
    return (int(value) or 99_999) if _ROWS.match(value) else 1


def _text(cell: Tag) -> str:
    text = " ".join(cell.get_text(" ").split())
    return text if len(text) <= _MAX_TEXT else text[:_MAX_TEXT] + "…"


# -- embedded HTML


def markdown_of(html: str) -> str:
    """The Markdown of a page, "" if it has no text. Raises `UnparsableDocumentError` if it is nested too deeply."""
    if not html.strip():
        return ""
    data = codecs.BOM_UTF8 + html.encode(
        "utf-8", "replace"
    )  # whatever charset the page declares, it is decoded already
    try:
        return "".join(cut_lines([page_of(data, {"name": "it"})["text"]], "it"))
    except UnparsableDocumentError as exc:
        if "no text" in str(exc):
            return ""
        raise UnparsableDocumentError(str(exc).removeprefix("it: ")) from exc
