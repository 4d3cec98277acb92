"""Renders a question with its answers and comments as one Markdown document.

Posts stay below the headings that name their authors, so that no post can pass for another one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from opx.domain.ids import shortened, utc_time
from opx.errors import SourceShapeError
from opx.formats.markdown import nested, storable

MAX_TITLE = 300
MAX_TAGS = 20
MAX_TAG = 100
MAX_NAME = 100
_POST_LEVEL = 2
"""Level of the headings of posts."""


@dataclass(frozen=True, slots=True)
class Post:
    """An answer, comment or reply. `heading` states its kind and author."""

    heading: str
    text: str


def thread(title: str, facts: str, body: str, posts: Iterable[Post]) -> str:
    """Renders a document: title, a line of facts, the question, and a section per post. Posts without text are left out."""
    parts = [f"# {one_line(title, MAX_TITLE)}", facts, nested(body, _POST_LEVEL), *map(section, posts)]
    return "\n\n".join(part for part in parts if part) + "\n"


def section(post: Post) -> str:
    """Renders a post; "" for one without text."""
    text = nested(post.text, _POST_LEVEL)
    return f"## {one_line(post.heading, MAX_TITLE)}\n\n{text}" if text else ""


def one_line(text: str, limit: int) -> str:
    """Joins text to one line, cut with an ellipsis if it is longer than `limit` characters."""
    return shortened(" ".join(storable(text).split()), limit)


def described(
    *, title: str, address: str, tags: Sequence[str] = (), updated: str = "", created: str = "", author: str = ""
) -> dict[str, Any]:
    """Returns metadata of a document, within the limits of the library; unknown fields are left out."""
    short = [one_line(tag, MAX_TAG) for tag in tags]
    known = {
        "title": one_line(title, MAX_TITLE),
        "source_uri": storable(address) if len(address) <= 2000 else "",
        "tags": list(dict.fromkeys(tag for tag in short if tag))[:MAX_TAGS],
        "last_updated": updated,
        "created_at": created,
        "author": one_line(author, MAX_NAME),
    }
    return {name: value for name, value in known.items() if value}


def checked_time(text: str, what: str) -> str:
    """Normalises an ISO 8601 time to UTC, to the second, as `2025-03-14T09:26:53Z`; "" for none. Raises
    `SourceShapeError`."""
    moment = utc_time(text) if text else ""
    if moment is None:
        raise SourceShapeError(f"{what}: {text[:40]!r} is not a time such as 2025-03-14T09:26:53Z")
    return moment
