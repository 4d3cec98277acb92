"""Converts the Atlassian Document Format (JSON), in which Jira Cloud keeps descriptions and comments, to Markdown.

Nodes and marks as in Atlassian's page "Atlassian Document Format". Of unknown nodes, the text is kept.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

from opx.formats.data.replies import Loose, OddRecordError, Shape, odd
from opx.formats.markdown import fenced, one_line, table

MAX_DEPTH = 60
"""Levels of nested nodes; documents have up to about 20."""

_LIST_BELOW = re.compile(r"\n\n(?=- |\d+\. )")
_MARKS = {"strong": "**", "em": "*", "strike": "~~"}


class _Attributes(Shape, frozen=True, rename="camel"):
    """Attributes of nodes and marks of all kinds."""

    text: Loose[str] = ""
    short_name: Loose[str] = ""
    title: Loose[str] = ""
    alt: Loose[str] = ""
    url: Loose[str] = ""
    href: Loose[str] = ""
    language: Loose[str] = ""
    panel_type: Loose[str] = ""
    state: Loose[str] = ""
    timestamp: Loose[str] = ""
    level: Loose[int] = 1
    order: Loose[int] = 1


class _Mark(Shape, frozen=True):
    type: Loose[str] = ""
    attrs: Loose[_Attributes] = _Attributes()


class AdfNode(Shape, frozen=True):
    """A node of a document. Malformed parts count as missing."""

    type: Loose[str] = ""
    text: Loose[str] = ""
    content: Loose[tuple[Loose[AdfNode], ...]] = ()
    attrs: Loose[_Attributes] = _Attributes()
    marks: Loose[tuple[Loose[_Mark], ...]] = ()


def adf_markdown(document: Any) -> str:
    """Converts a document to Markdown. Raises `OddRecordError` if it is not a document or nested too deeply."""
    if not isinstance(document, dict) or document.get("type") != "doc":
        raise OddRecordError("expected an Atlassian document (type 'doc')")
    if not isinstance(document.get("content", []), list):
        raise OddRecordError("expected a list of nodes as the 'content' of the Atlassian document (type 'doc')")
    return _blocks(odd(AdfNode, document), 0).strip("\n")


def mentioned(document: Any) -> Iterator[str]:
    """Yields the names of people that a document mentions; nothing if it is not a document."""
    waiting = [odd(AdfNode, document)] if isinstance(document, dict) else []
    while waiting:
        node = waiting.pop()
        if node.type == "mention":
            yield node.attrs.text.lstrip("@")
        waiting += reversed(node.content)


def _blocks(node: AdfNode, depth: int) -> str:
    """Markdown of a node's blocks, separated by blank lines; loose inline nodes form a paragraph."""
    if depth > MAX_DEPTH:
        raise OddRecordError(f"the text is nested deeper than {MAX_DEPTH} levels")
    parts: list[str] = []
    loose = ""
    for child in node.content:
        if child.type in _INLINE:
            loose += _inline(child, depth + 1)
            continue
        parts += [loose, _block(child, depth + 1)]
        loose = ""
    return "\n\n".join(part for part in [*parts, loose] if part.strip())


def _block(node: AdfNode, depth: int) -> str:
    return _BLOCKS.get(node.type, _blocks)(node, depth)


def _text_of(node: AdfNode, depth: int) -> str:
    """Inline content, or the text of other nodes."""
    return "".join(_inline(child, depth + 1) for child in node.content)


def _heading(node: AdfNode, depth: int) -> str:
    level = node.attrs.level
    return "#" * (level if 1 <= level <= 6 else 1) + " " + one_line(_text_of(node, depth))


def _code(node: AdfNode, depth: int) -> str:  # noqa: ARG001
    code = "".join(child.text for child in node.content)
    return fenced(code, node.attrs.language)


def _bullets(node: AdfNode, depth: int) -> str:
    return "\n".join(_item("- ", child, depth) for child in node.content)


def _numbers(node: AdfNode, depth: int) -> str:
    start = node.attrs.order
    return "\n".join(_item(f"{start + number}. ", child, depth) for number, child in enumerate(node.content))


def _tasks(node: AdfNode, depth: int) -> str:
    return "\n".join(_task(child, depth) for child in node.content)


def _task(node: AdfNode, depth: int) -> str:
    if node.type == "taskList":
        return "  " + _tasks(node, depth + 1).replace("\n", "\n  ")
    done = node.attrs.state in ("DONE", "DECIDED")
    return _item("- [x] " if done else "- [ ] ", node, depth)


def _item(bullet: str, node: AdfNode, depth: int) -> str:
    indent = " " * (2 if bullet.startswith("- ") else len(bullet))
    return bullet + _LIST_BELOW.sub("\n", _blocks(node, depth + 1)).replace("\n", "\n" + indent)


def _panel(node: AdfNode, depth: int) -> str:
    """Markdown of a panel: a quotation that begins with its kind, such as `**Warning**`."""
    kind = node.attrs.panel_type.capitalize() or "Note"
    return f"> **{kind}**\n> \n> " + _blocks(node, depth).replace("\n", "\n> ")


def _expand(node: AdfNode, depth: int) -> str:
    title = one_line(node.attrs.title)
    return "\n\n".join(part for part in (f"**{title}**" if title else "", _blocks(node, depth)) if part)


def _table(node: AdfNode, depth: int) -> str:
    rows = [[_blocks(cell, depth + 2) for cell in row.content] for row in node.content]
    return table([row for row in rows if row], trimmed=False)


def _inline(node: AdfNode, depth: int) -> str:
    if depth > MAX_DEPTH:
        raise OddRecordError(f"the text is nested deeper than {MAX_DEPTH} levels")
    kind = node.type
    return _INLINE[kind](node) if kind in _INLINE else _block(node, depth)


def _text(node: AdfNode) -> str:
    found = node.text
    marks = {mark.type: mark for mark in node.marks}
    core = found.strip()
    if not core:
        return found
    before, _, after = found.partition(core)
    if "code" in marks:
        core = f"`{core}`" if "`" not in core else f"`` {core} ``"
    for name, sign in _MARKS.items():
        core = f"{sign}{core}{sign}" if name in marks else core
    address = marks.get("link", _Mark()).attrs.href
    if address.startswith(("http://", "https://")) and address != core:
        core = f"{core} ({address})"
    return before + core + after


def _date(node: AdfNode) -> str:
    """ISO date of a node whose timestamp is a string with milliseconds since the epoch."""
    try:
        return datetime.fromtimestamp(int(node.attrs.timestamp) / 1000, UTC).date().isoformat()
    except (ValueError, OverflowError, OSError):
        return ""


def _image(node: AdfNode) -> str:
    alt = one_line(node.attrs.alt)
    return f"[image: {alt}]" if alt else ""


_BLOCKS: dict[str, Callable[[AdfNode, int], str]] = {
    "paragraph": _text_of,
    "caption": _text_of,
    "heading": _heading,
    "codeBlock": _code,
    "bulletList": _bullets,
    "decisionList": _bullets,
    "orderedList": _numbers,
    "taskList": _tasks,
    "blockquote": lambda node, depth: "> " + _blocks(node, depth).replace("\n", "\n> "),
    "panel": _panel,
    "expand": _expand,
    "nestedExpand": _expand,
    "table": _table,
    "rule": lambda node, depth: "---",  # noqa: ARG005
    "blockCard": lambda node, depth: node.attrs.url,  # noqa: ARG005
    "embedCard": lambda node, depth: node.attrs.url,  # noqa: ARG005
    "media": lambda node, depth: _image(node),  # noqa: ARG005
}
_INLINE: dict[str, Callable[[AdfNode], str]] = {
    "text": _text,
    "hardBreak": lambda node: "\n",  # noqa: ARG005
    "mention": lambda node: "@" + node.attrs.text.lstrip("@"),
    "emoji": lambda node: node.attrs.text or node.attrs.short_name,
    "date": _date,
    "status": lambda node: node.attrs.text,
    "inlineCard": lambda node: node.attrs.url,
    "mediaInline": _image,
}
