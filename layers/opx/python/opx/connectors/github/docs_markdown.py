"""Markdown of documentation sites as plain Markdown: what their builders add is read or left out.

Known are the extensions of Microsoft Learn ("Markdown reference for Microsoft Learn"), of which GitHub has some too
(alerts), and the shortcodes of Hugo. Code blocks stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from opx.connectors.forums.threads import outside_comments
from opx.errors import UnparsableDocumentError
from opx.formats.markup.plain import read_front_matter

_FENCE = re.compile(r"[ \t]*(?:>[ \t]?)*(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)?(`{3,}|~{3,})([^\n]*)\Z")
_ALERT = re.compile(r"\A([ \t]{0,20}>[ \t]{0,20})\[!(NOTE|TIP|IMPORTANT|CAUTION|WARNING)\]\s*", re.IGNORECASE)
_DIV = re.compile(r"\s*>?\s*\[!div\b[^\]]*\]\s*\Z", re.IGNORECASE)
_VIDEO = re.compile(r"\[!VIDEO\s+(\S+)\s*\]", re.IGNORECASE)
_INCLUDE = re.compile(r"\[!INCLUDE[ \t]{0,9}\[([^\]\[]{0,300})\]\([^)(\s]{0,500}\)\]", re.IGNORECASE)
_IMAGE = re.compile(r":::\s*image\b([^\n]*?):::")
_CODE = re.compile(r":::\s*code\b([^\n]*?):::")
_OTHER_EXTENSION = re.compile(r"\s*:::\s*[a-z][^\n]*\Z")
_ATTRIBUTE = re.compile(r"([a-z-]+)=\"([^\"]*)\"")
_TAB = re.compile(r"\A {0,3}#{1,6}[ \t]{1,9}\[([^\]\[]+)\]\(#tab/[^)]*\)\s*\Z")
_XREF = re.compile(r"<xref:([^>?]+)[^>]*>")
_ANCHOR = re.compile(r"<a\s+(?:name|id)=\"[^\"]*\"\s*/?>(?:</a>)?", re.IGNORECASE)
_SHORTCODE = re.compile(r"\{\{[<%][^{}]*[%>]\}\}")
_LINK = re.compile(r"(!?)\[([^\[\]]*)\]\(\s*<?([^()\s<>]*)>?(?:\s+\"[^\"]*\")?\s*\)")
_ABSOLUTE = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)
_AMERICAN_DATE = re.compile(r"(\d{1,2})/(\d{1,2})/(\d{4})\Z")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_LONGEST = 20_000
"""Characters of a line that is looked at; longer ones are no prose."""
_LENIENT = re.compile(r"(title|description|ms\.date|ms\.topic|date|author):[ \t]*(.*?)[ \t]*\Z")


@dataclass(frozen=True, slots=True)
class DocsPage:
    """A page of documentation: its text without front matter, and what the front matter said."""

    text: str
    title: str = ""
    description: str = ""
    updated: str = ""
    author: str = ""
    topic: str = ""
    tags: tuple[str, ...] = field(default_factory=tuple)


def read_page(text: str, name: str) -> DocsPage:
    """A Markdown file of a documentation repository. Front matter that can't be read is left out, but for its title.

    `updated` is a date (ISO 8601), from `ms.date` (month first) or `date`; "" if it says none.
    """
    lines = text.replace("\r\n", "\n").removeprefix("\ufeff").split("\n")
    facts, rest = _front_matter(lines, name)
    return DocsPage(
        text="\n".join(_cleaned(rest)).strip("\n") + "\n",
        title=_text(facts.get("title")),
        description=_text(facts.get("description")),
        updated=_date(_text(facts.get("ms.date")) or _text(facts.get("date"))),
        author=_text(facts.get("author")),
        topic=_text(facts.get("ms.topic")),
        tags=tuple(_text(tag) for tag in _listed(facts.get("tags"))),
    )


def _front_matter(lines: list[str], name: str) -> tuple[dict[str, Any], list[str]]:
    source = iter([line + "\n" for line in lines])
    try:
        found, read = read_front_matter(source, name)
    except UnparsableDocumentError:
        return _lenient_front_matter(lines)
    if found is None:
        return {}, lines
    return found, [line.rstrip("\n") for line in (*read, *source)]


def _lenient_front_matter(lines: list[str]) -> tuple[dict[str, Any], list[str]]:
    """Of front matter that isn't YAML the lines `key: value`; a site's builder may take what we don't."""
    end = next((at for at, line in enumerate(lines) if at and line.rstrip() in ("---", "...")), 0)
    facts = {}
    for line in lines[1:end]:
        match = _LENIENT.match(line)
        if match:
            facts[match[1]] = match[2].strip("\"'")
    return facts, lines[end + 1 :] if end else lines


def _text(value: Any) -> str:
    return " ".join(value.split()) if isinstance(value, str) else ""


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else ([value] if isinstance(value, str) else [])


def _date(text: str) -> str:
    american = _AMERICAN_DATE.match(text)
    if american:
        month, day, year = int(american[1]), int(american[2]), american[3]
        return f"{year}-{month:02}-{day:02}" if 1 <= month <= 12 and 1 <= day <= 28 + 3 * (month != 2) else ""
    found = _DATE.match(text)
    return found[0] if found else ""


def _cleaned(lines: list[str]) -> Iterator[str]:
    fence = ""
    hidden = False
    for line in lines:
        found = _FENCE.match(line)
        if fence:
            if found and found[1].startswith(fence) and not found[2].strip():
                fence = ""
            yield line
        elif found and not hidden and not (found[1][0] == "`" and "`" in found[2]):
            fence = found[1]
            yield line
        else:
            plain = not hidden and "<!--" not in line
            shown, hidden = outside_comments(line, hidden)
            cleaned = _cleaned_line(shown) if plain or shown.strip() else None
            if cleaned is not None:
                yield cleaned


def _cleaned_line(line: str) -> str | None:
    """A line outside of code, None if nothing is left of it."""
    if len(line) > _LONGEST or not line.strip():
        return line
    cleaned: str = line
    for pattern, replacement in _REPLACED:
        cleaned = pattern.sub(replacement, cleaned)
    if _DIV.match(cleaned) or _OTHER_EXTENSION.match(cleaned):
        return None
    cleaned = cleaned.replace("&nbsp;", " ")
    return cleaned if cleaned.strip() else None


def _attributes(match: re.Match[str]) -> dict[str, str]:
    return dict(_ATTRIBUTE.findall(match[1]))


def _image(match: re.Match[str]) -> str:
    shown = _attributes(match).get("alt-text", "").strip()
    return f"(Image: {shown})" if shown else ""


def _code(match: re.Match[str]) -> str:
    source = _attributes(match).get("source", "").strip()
    return f"(Code: {source})" if source else ""


def _included(match: re.Match[str]) -> str:
    return f"(Included text: {match[1].strip()})" if match[1].strip() else ""


def _link(match: re.Match[str]) -> str:
    """Links within the site lead nowhere from here: their text stays. An image is what it shows."""
    image, text, address = match[1], match[2], match[3]
    if image:
        return f"(Image: {text.strip()})" if text.strip() else ""
    return match[0] if _ABSOLUTE.match(address) else text


_REPLACED: tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...] = (
    (_ALERT, lambda match: f"{match[1]}**{match[2].capitalize()}:** "),
    (_TAB, r"**\1**"),
    (_INCLUDE, _included),
    (_VIDEO, r"Video: \1"),
    (_IMAGE, _image),
    (_CODE, _code),
    (_SHORTCODE, ""),
    (_XREF, r"`\1`"),
    (_ANCHOR, ""),
    (_LINK, _link),
)
