"""Pages of Confluence's HTML export: the page without its furniture, with its author and dates."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any

from bs4 import BeautifulSoup

_FURNITURE = (
    "#main-header",
    "#breadcrumb-section",
    ".page-metadata",
    "#footer",
    ".pageSection.group:has(#attachments)",
    ".pageSection.group:has(#comments)",
    ".toc-macro",
    "#likes-and-labels-container",
)
_CHANGED = re.compile(r"\bon\s+([A-Z][a-z]{2,8}\.? \d{1,2}, \d{4})")
_FORMATS = ("%b %d, %Y", "%B %d, %Y", "%b. %d, %Y")


def is_export(soup: BeautifulSoup) -> bool:
    """True for a page of an export: its title and its text have their ids."""
    return bool(soup.select_one("#main-content.wiki-content") and soup.select_one("#title-text"))


def taken_apart(soup: BeautifulSoup) -> dict[str, Any]:
    """Removes breadcrumbs, the line of metadata, attachments, comments and the footer; returns title, author and dates."""
    heading = soup.select_one("#title-text")
    found: dict[str, Any] = {"title": _title(heading.get_text() if heading else "")}
    about = soup.select_one(".page-metadata")
    if about:
        author = about.select_one(".author") or about.select_one(".editor")
        text = " ".join(about.get_text().split())
        found["author"] = " ".join(author.get_text().split()) if author else ""
        days = [day for match in _CHANGED.finditer(text) if (day := _day(match[1]))]
        found["created"], found["last_updated"] = (days[0] if len(days) > 1 else "", days[-1] if days else "")
    for selector in _FURNITURE:
        for part in soup.select(selector):
            part.decompose()
    return {name: value for name, value in found.items() if value}


def _title(text: str) -> str:
    """The page's title, without the space's name before it."""
    title = " ".join(text.split())
    return title.partition(" : ")[2] or title


def _day(text: str) -> str:
    for form in _FORMATS:
        try:
            return datetime.strptime(text, form).date().isoformat()  # noqa: DTZ007 - a day has no zone
        except ValueError:
            continue
    return ""
