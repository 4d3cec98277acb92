"""The Atlassian Document Format (JSON), in which Jira Cloud keeps descriptions and comments, as Markdown.

Nodes and marks as in Atlassian's page "Atlassian Document Format". What isn't known is read for the text in it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from opx.sources.markdown import fenced, one_line, table
from opx.sources.shapes import OddRecordError, maybe_text, member

MAX_DEPTH = 60
"""Levels of nodes; documents have up to about 20."""

_LIST_BELOW = re.compile(r"\n\n(?=- |\d+\. )")
_MARKS = {"strong": "**", "em": "*", "strike": "~~"}


def adf_markdown(document: Any) -> str:
    """A document's Markdown. Raises `OddRecordError` for what is none, and for one that is nested too deeply."""
    if not isinstance(document, Mapping) or document.get("type") != "doc":
        raise OddRecordError("expected an Atlassian document (type 'doc')")
    if not isinstance(document.get("content", []), list):
        raise OddRecordError("expected a list of nodes as the 'content' of the Atlassian document (type 'doc')")
    return _blocks(document, 0).strip("\n")


def mentioned(document: Any) -> Iterator[str]:
    """The names of the people that a document mentions."""
    waiting = [document]
    while waiting:
        node = waiting.pop()
        if member(node, "type") == "mention":
            yield maybe_text(node, "attrs.text").lstrip("@")
        waiting += reversed(_content(node))


def _content(node: Any) -> list[Any]:
    found = member(node, "content")
    return found if isinstance(found, list) else []


def _blocks(node: Any, depth: int) -> str:
    """The blocks of a node, a blank line between them; loose inline nodes make a paragraph."""
    if depth > MAX_DEPTH:
        raise OddRecordError(f"the text is nested deeper than {MAX_DEPTH} levels")
    parts: list[str] = []
    loose = ""
    for child in _content(node):
        if member(child, "type") in _INLINE:
            loose += _inline(child, depth + 1)
            continue
        parts += [loose, _block(child, depth + 1)]
        loose = ""
    return "\n\n".join(part for part in [*parts, loose] if part.strip())


def _block(node: Any, depth: int) -> str:
    kind = maybe_text(node, "type")
    return _BLOCKS.get(kind, _blocks)(node, depth)


def _text_of(node: Any, depth: int) -> str:
    """Inline content, or the text of whatever else is there."""
    return "".join(_inline(child, depth + 1) for child in _content(node))


def _heading(node: Any, depth: int) -> str:
    level = member(node, "attrs.level")
    return "#" * (level if isinstance(level, int) and 1 <= level <= 6 else 1) + " " + one_line(_text_of(node, depth))


def _code(node: Any, depth: int) -> str:  # noqa: ARG001
    code = "".join(maybe_text(child, "text") for child in _content(node))
    return fenced(code, maybe_text(node, "attrs.language"))


def _bullets(node: Any, depth: int) -> str:
    return "\n".join(_item("- ", child, depth) for child in _content(node))


def _numbers(node: Any, depth: int) -> str:
    first = member(node, "attrs.order")
    start = first if isinstance(first, int) else 1
    return "\n".join(_item(f"{start + place}. ", child, depth) for place, child in enumerate(_content(node)))


def _tasks(node: Any, depth: int) -> str:
    return "\n".join(_task(child, depth) for child in _content(node))


def _task(node: Any, depth: int) -> str:
    if member(node, "type") == "taskList":
        return "  " + _tasks(node, depth + 1).replace("\n", "\n  ")
    done = member(node, "attrs.state") in ("DONE", "DECIDED")
    return _item("- [x] " if done else "- [ ] ", node, depth)


def _item(bullet: str, node: Any, depth: int) -> str:
    indent = " " * (2 if bullet.startswith("- ") else len(bullet))
    return bullet + _LIST_BELOW.sub("\n", _blocks(node, depth + 1)).replace("\n", "\n" + indent)


def _quote(node: Any, depth: int) -> str:
    return "> " + _blocks(node, depth).replace("\n", "\n> ")


def _panel(node: Any, depth: int) -> str:
    """A panel is a quotation that says what it is: `**Warning**`."""
    kind = maybe_text(node, "attrs.panelType").capitalize() or "Note"
    return f"> **{kind}**\n> \n> " + _blocks(node, depth).replace("\n", "\n> ")


def _expand(node: Any, depth: int) -> str:
    title = one_line(maybe_text(node, "attrs.title"))
    return "\n\n".join(part for part in (f"**{title}**" if title else "", _blocks(node, depth)) if part)


def _table(node: Any, depth: int) -> str:
    rows = [[_blocks(cell, depth + 2) for cell in _content(row)] for row in _content(node)]
    return table([row for row in rows if row])


def _paragraph(node: Any, depth: int) -> str:
    return _text_of(node, depth)


def _inline(node: Any, depth: int) -> str:
    if depth > MAX_DEPTH:
        raise OddRecordError(f"the text is nested deeper than {MAX_DEPTH} levels")
    kind = maybe_text(node, "type")
    return _INLINE[kind](node) if kind in _INLINE else _block(node, depth)


def _text(node: Any) -> str:
    found = maybe_text(node, "text")
    marks = {maybe_text(mark, "type"): mark for mark in member(node, "marks") or () if isinstance(mark, Mapping)}
    core = found.strip()
    if not core:
        return found
    before, _, after = found.partition(core)
    if "code" in marks:
        core = f"`{core}`" if "`" not in core else f"`` {core} ``"
    for name, sign in _MARKS.items():
        core = f"{sign}{core}{sign}" if name in marks else core
    address = maybe_text(marks.get("link"), "attrs.href")
    if address.startswith(("http://", "https://")) and address != core:
        core = f"{core} ({address})"
    return before + core + after


def _date(node: Any) -> str:
    """Its timestamp is in milliseconds since the epoch, as text."""
    try:
        return datetime.fromtimestamp(int(maybe_text(node, "attrs.timestamp")) / 1000, UTC).date().isoformat()
    except (ValueError, OverflowError, OSError):
        return ""


def _mention(node: Any) -> str:
    return "@" + maybe_text(node, "attrs.text").lstrip("@")


def _image(node: Any) -> str:
    alt = one_line(maybe_text(node, "attrs.alt"))
    return f"[image: {alt}]" if alt else ""


_BLOCKS: dict[str, Callable[[Any, int], str]] = {
    "paragraph": _paragraph,
    "caption": _paragraph,
    "heading": _heading,
    "codeBlock": _code,
    "bulletList": _bullets,
    "decisionList": _bullets,
    "orderedList": _numbers,
    "taskList": _tasks,
    "blockquote": _quote,
    "panel": _panel,
    "expand": _expand,
    "nestedExpand": _expand,
    "table": _table,
    "rule": lambda node, depth: "---",  # noqa: ARG005
    "blockCard": lambda node, depth: maybe_text(node, "attrs.url"),  # noqa: ARG005
    "embedCard": lambda node, depth: maybe_text(node, "attrs.url"),  # noqa: ARG005
    "media": lambda node, depth: _image(node),  # noqa: ARG005
}
_INLINE: dict[str, Callable[[Any], str]] = {
    "text": _text,
    "hardBreak": lambda node: "\n",  # noqa: ARG005
    "mention": _mention,
    "emoji": lambda node: maybe_text(node, "attrs.text") or maybe_text(node, "attrs.shortName"),
    "date": _date,
    "status": lambda node: maybe_text(node, "attrs.text"),
    "inlineCard": lambda node: maybe_text(node, "attrs.url"),
    "mediaInline": _image,
}
