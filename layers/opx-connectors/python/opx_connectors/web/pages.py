"""Reads web pages for a crawl: text, canonical address, links, and instructions to crawlers.

Menus, banners and asides are removed: themes name these parts alike, by class, id or role. The part that a page marks as
its main one is found later, where HTML becomes Markdown.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, date, datetime
from typing import Any
from urllib.parse import urljoin

from bs4 import BeautifulSoup, Tag

from opx.formats.markup.html import read_html
from opx.formats.sandbox.apart import call_apart
from opx.formats.source import declared_charset
from opx.ports.sources import WebReply
from opx_connectors.web.urls import identity, page_url

_POSITION = (
    r"(?:(?:site|page|main|global|top|left|right|bottom|docs?|app|md|td|bd|wy|theme|primary|secondary|local)[-_]+)*"
)
_PART = (
    r"(?:nav|navs|navbar|navigation|menu|sidebar|sidenav|breadcrumbs?|header|footer|toc|table-of-contents|toolbar"
    r"|cookies?(?:-(?:banner|consent|notice|bar))?|consent|feedback|pagination|pager|share|sharing|social|newsletter"
    r"|skip-(?:link|to-content)|related(?:-(?:links|articles|content|posts|pages))?|prev-next|edit-(?:this-)?page"
    r"|edit-link|was-this-helpful|helpful|promo|advert(?:isement)?|ads?|copy-button|copybtn|linenos?|line-numbers?"
    r"|hljs-ln-numbers|gutter|mw-editsection|printfooter|catlinks|noprint)"
)
_REST = r"(?:[-_]+(?:container|wrapper|wrap|list|menu|bar|inner|links|nav|widget|section|block|buttons?|primary|secondary))*"
_BESIDE = re.compile(f"{_POSITION}{_PART}{_REST}\\Z", re.IGNORECASE)
_BESIDE_ROLES = ("navigation", "banner", "contentinfo", "complementary", "search", "dialog", "alertdialog")
_CONTENT = re.compile(
    r"(?:main|page|post|article|entry|doc|docs|document|theme-doc)[-_]?(?:content|body|text|markdown)\Z"
    r"|markdown-body\Z|rst-content\Z|md-content\Z|td-content\Z|devsite-article-body\Z|mw-parser-output\Z",
    re.IGNORECASE,
)
_CODE_TABLES = ("highlighttable", "rouge-table", "hljs-ln", "codehilitetable")
_MARKS = ("¶", "#", "§", "🔗", "\uf0c1", "")
MAX_NAME = 100
_MANY_LINKS = 4
_MOSTLY = 0.8


def remove_surroundings(soup: BeautifulSoup) -> None:
    """Removes everything but a page's content and the marks of its main part, in place."""
    for tag in soup.find_all(["button", "dialog", "select", "input"]):
        tag.decompose()
    _unwrap_code_tables(soup)
    for tag in [tag for tag in soup.find_all(True) if _is_beside(tag)]:
        if not tag.decomposed and tag.find(["h1", "main", "article"]) is None:
            tag.decompose()
    for heading in soup.find_all(re.compile(r"h[1-6]\Z")):
        for mark in heading.find_all("a"):
            if mark.get_text().strip() in _MARKS:
                mark.decompose()
    has_main_part = soup.find("main") or soup.find(True, attrs={"role": "main"}) or len(soup.find_all("article")) == 1
    if not has_main_part:
        _mark_main_part(soup)


def _is_beside(tag: Tag) -> bool:
    if tag.name in ("html", "body", "main", "article"):
        return False
    names = [*_classes(tag), str(tag.get("id") or "")]
    return tag.get("role") in _BESIDE_ROLES or any(_BESIDE.match(name) for name in names if 0 < len(name) <= MAX_NAME)


def _classes(tag: Tag) -> list[str]:
    found = tag.get("class")
    return list(found) if isinstance(found, list) else []


def _unwrap_code_tables(soup: BeautifulSoup) -> None:
    """Replaces tables that lay out code beside its line numbers by the code."""
    for table in soup.find_all("table"):
        if table.decomposed or not any(name in _CODE_TABLES for name in _classes(table)):
            continue
        code = max(table.find_all("pre"), key=lambda pre: len(pre.get_text()), default=None)
        if code is not None:
            table.replace_with(code.extract())


def _mark_main_part(soup: BeautifulSoup) -> None:
    """Marks the main part if a class names it; or else removes the lists that are nothing but links."""
    whole = len(soup.get_text())
    for tag in soup.find_all(True):
        if any(_CONTENT.match(name) for name in _classes(tag)) and len(tag.get_text()) * 2 > whole:
            tag["role"] = "main"
            return
    for tag in soup.find_all(["ul", "ol"]):
        if not tag.decomposed and tag.find_parent("li") is None and _is_menu(tag):
            tag.decompose()


def _is_menu(tag: Tag) -> bool:
    links = tag.find_all("a")
    if len(links) < _MANY_LINKS or tag.find(["pre", "table", "code"]):
        return False
    linked = sum(len(link.get_text().strip()) for link in links)
    return linked > _MOSTLY * len("".join(tag.get_text().split()))


MAX_LINKS = 5000
MAX_TITLE = 500
_CHANGED = ("article:modified_time", "og:updated_time", "last-modified", "dcterms.modified", "dateModified")
_CREATED = ("article:published_time", "dcterms.created", "datePublished")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}.*)?\Z")
_ROBOTS = ("robots", "opx-knowledge")


@dataclass(slots=True)
class WebPage:
    """A parsed page. `canonical` is "" unless the page names another address; `links` are in the page's order,
    each once. `metadata` is that of the document."""

    text: str = ""
    metadata: dict[str, Any] = field(default_factory=dict)
    canonical: str = ""
    indexed: bool = True
    followed: bool = True
    links: tuple[str, ...] = ()


def read_page(reply: WebReply) -> WebPage:
    """Converts an HTML page's content to Markdown, with the metadata that it states; a large one in the sandbox process.
    Raises `UnparsableDocumentError`."""
    facts = {"url": reply.url, "robots": reply.headers.get("x-robots-tag", "")}
    data = html_text(reply).encode("utf-8", "surrogatepass")
    found = call_apart("opx_connectors.web.pages:page_of", data, facts, name=reply.url)
    return WebPage(**{**found, "links": tuple(found["links"])})


def page_of(data: bytes, facts: Mapping[str, str]) -> dict[str, Any]:
    """The fields of a page. `facts` are its `url`, and the header for `robots`. Raises `UnparsableDocumentError`."""
    page, url = WebPage(), facts["url"]

    def prepare(soup: BeautifulSoup) -> None:
        _heed_robots(soup, facts["robots"], page)
        base = _base(soup, url)
        link = soup.find("link", attrs={"rel": "canonical"})
        named = _text(link, "href") if isinstance(link, Tag) else ""
        canonical = page_url(base, named) if named else ""
        page.canonical = canonical if identity(canonical) != identity(page_url(url, "")) else ""
        page.links = tuple(dict.fromkeys(_links(soup, base))) if page.followed else ()
        page.metadata = _dates(soup) | _title(soup)
        remove_surroundings(soup)

    html = read_html(data.decode("utf-8", "surrogatepass"), url, prepare)
    page.text = html.text if html.text.strip() else ""
    found = {name: html.metadata[name][:MAX_TITLE] for name in ("author", "language") if html.metadata.get(name)}
    title = {"title": html.title[:MAX_TITLE]} if html.title else {}
    page.metadata = {**title, **found, **page.metadata}
    return asdict(page)


def html_text(reply: WebReply) -> str:
    """Decodes a page, in the charset of the reply's header, or else of the page itself."""
    if "charset=" in reply.headers.get("content-type", "").lower():
        return reply.text()
    return reply.body.decode(declared_charset(reply.body, within=4096) or "utf-8", errors="replace")


def iso_date(value: object) -> str:
    """Returns a date or time as ISO 8601, times in UTC; "" if it is not one."""
    text = str(value).strip()
    if not _DATE.match(text):
        return ""
    try:
        if len(text) == 10:
            return date.fromisoformat(text).isoformat()
        moment = datetime.fromisoformat(text)
    except ValueError:
        return ""
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return aware.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _heed_robots(soup: BeautifulSoup, header: str, page: WebPage) -> None:
    rules = [header]
    rules += [_text(tag, "content") for tag in soup.find_all("meta") if _text(tag, "name").lower() in _ROBOTS]
    words = set(re.split(r"[\s,:]+", " ".join(rules).lower()))
    page.indexed = not words & {"noindex", "none"}
    page.followed = not words & {"nofollow", "none"}


def _base(soup: BeautifulSoup, url: str) -> str:
    tag = soup.find("base", href=True)
    try:
        return urljoin(url, _text(tag, "href")) if isinstance(tag, Tag) else url
    except ValueError:
        return url


def _links(soup: BeautifulSoup, base: str) -> Iterator[str]:
    left = MAX_LINKS
    for tag in soup.find_all("a", href=True):
        relation = tag.get("rel")
        if isinstance(relation, list) and "nofollow" in relation:
            continue
        url = page_url(base, _text(tag, "href"))
        if url and left:
            left -= 1
            yield url


def _title(soup: BeautifulSoup) -> dict[str, str]:
    """Returns the first heading if the page's title is that and the name of the site."""
    heading, title = soup.find("h1"), soup.find("title")
    if not isinstance(heading, Tag) or not isinstance(title, Tag):
        return {}
    text = " ".join(heading.get_text().replace("¶", " ").split())
    return {"title": text[:MAX_TITLE]} if text and " ".join(title.get_text().split()).startswith(text) else {}


def _dates(soup: BeautifulSoup) -> dict[str, str]:
    known = {**_meta(soup), **_structured(soup)}
    found = {}
    for name, keys in (("last_updated", _CHANGED), ("created_at", _CREATED)):
        dates = (iso_date(known.get(key)) for key in keys)
        value = next(filter(None, dates), "")
        if value:
            found[name] = value
    return found


def _meta(soup: BeautifulSoup) -> dict[str, Any]:
    tags = [tag for tag in soup.find_all("meta") if _text(tag, "content")]
    return {_text(tag, name): _text(tag, "content") for name in ("itemprop", "name", "property") for tag in tags}


def _structured(soup: BeautifulSoup) -> dict[str, Any]:
    """Returns the page's JSON-LD, if it is one object."""
    for tag in soup.find_all("script", attrs={"type": "application/ld+json"}):
        try:
            found = json.loads(tag.get_text())
        except (ValueError, RecursionError):
            continue
        if isinstance(found, dict) and {"dateModified", "datePublished"} & found.keys():
            return found
    return {}


def _text(tag: Tag, name: str) -> str:
    value = tag.get(name)
    return value.strip() if isinstance(value, str) else ""
