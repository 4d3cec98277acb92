"""Renders a question with its answers and comments as one Markdown document.

Posts stay below the headings that name their authors: their own headings are moved down, and a code block or
comment that they left open is closed, so that no post can pass for another one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from opx.errors import SourceShapeError

MAX_TITLE = 300
MAX_TAGS = 20
MAX_TAG = 100
MAX_NAME = 100
_POST_LEVEL = 2
"""Level of the headings of posts."""

_FENCE = re.compile(r"[ \t]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)?(?:>[ \t]?)*(`{3,}|~{3,})([^\n]*)\Z")
_ATX = re.compile(r" {0,3}(#{1,6})(?=[ \t]|\Z)")
_SETEXT = re.compile(r" {0,3}(=+|-{2,})[ \t]*\Z")
_NO_PARAGRAPH = re.compile(r"\s*(?:[-*+>|#]|`{3}|~{3}|\d{1,9}[.)]|\Z)")


@dataclass(frozen=True, slots=True)
class Post:
    """An answer, comment or reply. `heading` states its kind and author."""

    heading: str
    text: str


def thread(title: str, facts: str, body: str, posts: Iterable[Post]) -> str:
    """Renders a document: title, a line of facts, the question, and a section per post. Posts without text are left out."""
    parts = [f"# {one_line(title, MAX_TITLE)}", facts, nested(body)]
    for post in posts:
        text = nested(post.text)
        if text:
            parts += [f"## {one_line(post.heading, MAX_TITLE)}", text]
    return "\n\n".join(part for part in parts if part) + "\n"


def nested(text: str) -> str:
    """Embeds Markdown by another author in a thread: headings below those of posts, closed code blocks, no HTML
    comments."""
    lines: list[str] = []
    fence = ""
    hidden = False
    for line in _storable(text).replace("\r\n", "\n").replace("\r", "\n").split("\n"):
        found = _FENCE.match(line)
        if fence:
            closes = found and found[1].startswith(fence) and not found[2].strip()
            fence = "" if closes else fence
            lines.append(line)
            continue
        shown, hidden = outside_comments(line, hidden)
        line = shown.rstrip()  # noqa: PLW2901
        if found and not hidden and line and not (found[1][0] == "`" and "`" in found[2]):
            fence = found[1]
            lines.append(line)
        else:
            _add(lines, line)
    if fence:
        lines.append(fence)
    return "\n".join(lines).strip("\n")


def _storable(text: str) -> str:
    """Removes NUL, and replaces halves of surrogate pairs by `?`: JSON may hold them, but no store accepts them."""
    return text.replace("\0", "").encode("utf-8", "replace").decode()


def outside_comments(line: str, hidden: bool) -> tuple[str, bool]:
    """Returns the line without HTML comments, and True if a comment is open at its end."""
    shown = ""
    while line:
        if hidden:
            _, found, line = line.partition("-->")
            hidden = not found
        else:
            before, found, line = line.partition("<!--")
            shown += before
            hidden = bool(found)
    return shown, hidden


def _add(lines: list[str], line: str) -> None:
    """Adds a line; a heading becomes a deeper one."""
    atx = _ATX.match(line)
    setext = _SETEXT.match(line)
    if atx:
        lines.append("#" * min(6, len(atx[1]) + _POST_LEVEL) + line[atx.end() :])
    elif setext and lines and _NO_PARAGRAPH.match(lines[-1]):
        lines += ["", line]  # no heading, however a parser reads the line above
    elif setext and lines:
        level = 1 if setext[1][0] == "=" else 2
        lines[-1] = "#" * (level + _POST_LEVEL) + " " + lines[-1].strip()
    else:
        lines.append(line)


def one_line(text: str, limit: int) -> str:
    """Joins text to one line, cut with an ellipsis if it is longer than `limit` characters."""
    line = " ".join(_storable(text).split())
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"


def described(
    *, title: str, address: str, tags: Sequence[str] = (), updated: str = "", created: str = "", author: str = ""
) -> dict[str, Any]:
    """Returns metadata of a document, within the limits of the library; unknown fields are left out."""
    short = [one_line(tag, MAX_TAG) for tag in tags]
    known = {
        "title": one_line(title, MAX_TITLE),
        "source_uri": _storable(address) if len(address) <= 2000 else "",
        "tags": list(dict.fromkeys(tag for tag in short if tag))[:MAX_TAGS],
        "last_updated": updated,
        "created_at": created,
        "author": one_line(author, MAX_NAME),
    }
    return {name: value for name, value in known.items() if value}


def checked_time(text: str, what: str) -> str:
    """Normalises an ISO 8601 time to UTC, to the second, as `2025-03-14T09:26:53Z`; "" for none. Raises
    `SourceShapeError`."""
    if not text:
        return ""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as exc:
        raise SourceShapeError(f"{what}: {text[:40]!r} is not a time such as 2025-03-14T09:26:53Z") from exc
    aware = moment.replace(tzinfo=moment.tzinfo or UTC).astimezone(UTC)
    return aware.strftime("%Y-%m-%dT%H:%M:%SZ")
