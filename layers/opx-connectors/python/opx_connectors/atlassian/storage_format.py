"""Converts Confluence's storage format (XHTML with `ac:` and `ri:` elements) to Markdown.

Elements as in Atlassian's page "Confluence Storage Format". Macros that only fetch or draw something are dropped; the
content of others is kept. Imported only where pages are read, as Beautiful Soup is slow to load.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from bs4 import BeautifulSoup, Tag
from bs4.element import PageElement
from bs4.exceptions import ParserRejectedMarkup
from markdownify import ATX, MarkdownConverter

from opx.formats.data.replies import OddRecordError
from opx.formats.markdown import fenced, one_line
from opx.formats.markup.html import MAX_DEPTH, ShallowSoup, attribute, is_deep, spread_cells
from opx.formats.sandbox.apart import call_apart
from opx.formats.source import well_formed

_CDATA, _CDATA_END = "<![CDATA[", "]]>"
_DECLARATION = re.compile(r"<[!?][^<>]*>")
_ISSUE_KEY = re.compile(r"[A-Z][A-Z0-9_]+-[0-9]+\Z")
_DROPPED = ("script", "style", "ac:parameter", "ac:placeholder", "ac:adf-node", "ac:task-id", "ac:task-uuid")
_ADMONITIONS = ("info", "note", "tip", "warning", "panel")


@dataclass(frozen=True, slots=True)
class ConvertedPage:
    """A page's Markdown, and the keys of issues in its Jira macros."""

    markdown: str
    issues: tuple[str, ...]


def storage_markdown(text: str) -> ConvertedPage:
    """Converts storage format to Markdown; a large page in the sandbox process. Raises `OddRecordError` if it can't be
    read."""
    data = text.encode("utf-8", "surrogatepass")
    found = call_apart(
        "opx_connectors.atlassian.storage_format:page_of", data, {}, name="the page", raises=OddRecordError
    )
    return ConvertedPage(found["markdown"], tuple(found["issues"]))


def page_of(data: bytes, _facts: Mapping[str, object]) -> dict[str, Any]:
    """The fields of a page. Raises `OddRecordError`."""
    text = data.decode("utf-8", "surrogatepass")
    try:
        soup = ShallowSoup(f"<div>{_prepared(text)}</div>", "html.parser")
        if is_deep(soup):
            raise OddRecordError(f"the page is nested deeper than {MAX_DEPTH} levels")
        issues: list[str] = []
        _replace_macros(soup, issues)
        _replace_elements(soup)
        converter = _Converter(heading_style=ATX, escape_asterisks=False, escape_underscores=False, bullets="-")
        markdown = converter.convert_soup(soup)
    except RecursionError as exc:
        raise OddRecordError(f"the page is nested deeper than {MAX_DEPTH} levels") from exc
    except (ParserRejectedMarkup, ValueError) as exc:
        raise OddRecordError(f"the page is not readable as storage format: {exc}") from exc
    markdown = re.sub(r"\n{3,}", "\n\n", well_formed(markdown)).strip()
    return asdict(ConvertedPage(markdown, tuple(dict.fromkeys(issues))))


class _Converter(MarkdownConverter):
    """Conversions that differ from markdownify's; the arguments are those that it passes."""

    def convert_a(self, el: Tag, text: str, parent_tags: set[str]) -> str:  # noqa: ARG002
        address, shown = attribute(el, "href"), text.strip()
        if not shown or shown == address or not address.startswith(("http://", "https://")):
            return text
        return f"{text} ({address})"

    def convert_img(self, el: Tag, text: str, parent_tags: set[str]) -> str:  # noqa: ARG002
        alt = one_line(attribute(el, "alt"))
        return f"[image: {alt}]" if alt else ""

    def convert_pre(self, el: Tag, text: str, parent_tags: set[str]) -> str:  # noqa: ARG002
        if not text.strip("\n"):
            return ""
        return f"\n\n{fenced(el.get_text(), attribute(el, 'data-language'))}\n\n"


def _prepared(text: str) -> str:
    """Source with code escaped instead of in CDATA sections, and without declarations."""
    parts: list[str] = []
    at = 0
    while (start := text.find(_CDATA, at)) >= 0 and (end := text.find(_CDATA_END, start)) >= 0:
        parts += [text[at:start], html.escape(text[start + len(_CDATA) : end], quote=False)]
        at = end + len(_CDATA_END)
    return _DECLARATION.sub("", "".join([*parts, text[at:]]))


# -- macros, innermost first


def _replace_macros(soup: BeautifulSoup, issues: list[str]) -> None:
    for macro in reversed(soup.find_all(["ac:structured-macro", "ac:macro"])):
        name = attribute(macro, "ac:name")
        if name in ("code", "noformat"):
            _replace(macro, _code(soup, macro))
        elif name in _ADMONITIONS:
            _replace(macro, _admonition(soup, macro, name))
        elif name == "jira":
            key = _parameter(macro, "key")
            if _ISSUE_KEY.match(key):
                issues.append(key)
            macro.replace_with(
                key or _labelled("Jira issues", _parameter(macro, "jqlQuery") or _parameter(macro, "jql"))
            )
        elif name in ("include", "excerpt-include"):
            macro.replace_with(_labelled("Included page", _resource(macro) or "unknown"))
        elif name == "status":
            macro.replace_with(_parameter(macro, "title"))
        else:
            _replace(macro, _expanded(soup, macro))


def _code(soup: BeautifulSoup, macro: Tag) -> list[Tag]:
    body = macro.find("ac:plain-text-body")
    pre = soup.new_tag("pre")
    pre.string = body.get_text() if isinstance(body, Tag) else ""
    pre["data-language"] = _parameter(macro, "language")
    return [*_titled(soup, macro), pre]


def _admonition(soup: BeautifulSoup, macro: Tag, name: str) -> list[Tag]:
    quote, heading = soup.new_tag("blockquote"), soup.new_tag("p")
    title = _parameter(macro, "title")
    strong = soup.new_tag("strong")
    strong.string = one_line(": ".join(part for part in (name.capitalize() if name != "panel" else "", title) if part))
    if strong.string:
        heading.append(strong)
        quote.append(heading)
    for child in _body(macro):
        quote.append(child)
    return [quote]


def _expanded(soup: BeautifulSoup, macro: Tag) -> list[Tag]:
    """Content of a macro, under its title."""
    body = _body(macro)
    if not body:
        return []
    part = soup.new_tag("div")
    for child in body:
        part.append(child)
    return [*_titled(soup, macro), part]


def _body(macro: Tag) -> list[PageElement]:
    found = macro.find(["ac:rich-text-body", "ac:plain-text-body"], recursive=False)
    return list(found.contents) if isinstance(found, Tag) else []


def _titled(soup: BeautifulSoup, macro: Tag) -> list[Tag]:
    title = one_line(_parameter(macro, "title"))
    if not title:
        return []
    paragraph, strong = soup.new_tag("p"), soup.new_tag("strong")
    strong.string = title
    paragraph.append(strong)
    return [paragraph]


def _parameter(macro: Tag, name: str) -> str:
    found = macro.find("ac:parameter", attrs={"ac:name": name}, recursive=False)
    return one_line(found.get_text()) if isinstance(found, Tag) else ""


def _labelled(label: str, value: str) -> str:
    return f"{label}: {value}" if value else ""


def _replace(tag: Tag, parts: list[Tag]) -> None:
    if parts:
        tag.replace_with(*parts)
    else:
        tag.decompose()


# -- elements


def _replace_elements(soup: BeautifulSoup) -> None:
    for tag in soup.find_all(_DROPPED):
        tag.decompose()
    for name, shown in _SHOWN.items():
        for tag in reversed(soup.find_all(name)):
            tag.replace_with(shown(tag))
    for tag in soup.find_all("ac:task"):
        status = tag.find("ac:task-status", recursive=False)
        if isinstance(status, Tag):
            status.replace_with("[x] " if status.get_text().strip() == "complete" else "[ ] ")
        tag.name = "li"
    for tag in soup.find_all("ac:task-list"):
        tag.name = "ul"
    for tag in soup.find_all(lambda each: each.name.startswith(("ac:", "ri:"))):
        tag.name = "div" if tag.name.startswith("ac:layout") else "span"
    spread_cells(soup)
    for cell in soup.find_all(["td", "th"]):
        for text in cell.find_all(string=re.compile(r"\|")):
            text.replace_with(text.replace("|", "\\|"))


def _link(link: Tag) -> str:
    body = link.find(["ac:link-body", "ac:plain-text-link-body"])
    shown = one_line(body.get_text()) if isinstance(body, Tag) else ""
    return shown or _resource(link)


def _image(image: Tag) -> str:
    shown = one_line(attribute(image, "ac:alt")) or _resource(image)
    return f"[image: {shown}]" if shown else ""


def _resource(tag: Tag) -> str:
    """Target of an `ri:` element: a page, a file, a person or an address."""
    for found in tag.find_all(lambda each: each.name.startswith("ri:")):
        for name in ("ri:content-title", "ri:filename", "ri:username", "ri:value", "ri:space-key"):
            if attribute(found, name):
                return one_line(attribute(found, name))
        person = attribute(found, "ri:account-id") or attribute(found, "ri:userkey")
        if person:
            return f"@{person}"
    return ""


_SHOWN: dict[str, Callable[[Tag], str]] = {
    "ac:image": _image,
    "ac:link": _link,
    "ac:emoticon": lambda tag: attribute(tag, "ac:emoji-fallback") or attribute(tag, "ac:emoji-shortname"),
    "time": lambda tag: attribute(tag, "datetime") or tag.get_text(),
}
