"""What of a page is not its content: menus, banners, asides, and the little marks around headings and code.

Themes name these parts alike, by class, id or role. What a page marks as its main part is found later, where HTML
becomes Markdown; here only what lies within or around it is taken out.
"""

from __future__ import annotations

import re

from bs4 import BeautifulSoup, Tag

_PLACE = (
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
_BESIDE = re.compile(f"{_PLACE}{_PART}{_REST}\\Z", re.IGNORECASE)
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


def take_out(soup: BeautifulSoup) -> None:
    """Leave a page's content, and what tells its main part; change the page."""
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
    if not _has_main_part(soup):
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
    """Code beside its line numbers is laid out as a table."""
    for table in soup.find_all("table"):
        if table.decomposed or not any(name in _CODE_TABLES for name in _classes(table)):
            continue
        code = max(table.find_all("pre"), key=lambda pre: len(pre.get_text()), default=None)
        if code is not None:
            table.replace_with(code.extract())


def _has_main_part(soup: BeautifulSoup) -> bool:
    return bool(soup.find("main") or soup.find(True, attrs={"role": "main"}) or len(soup.find_all("article")) == 1)


def _mark_main_part(soup: BeautifulSoup) -> None:
    """Say which part is the main one if a class does; or else take out the lists that are nothing but links."""
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
