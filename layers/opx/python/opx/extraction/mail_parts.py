"""The parts of a message: what was written, appointments, reports on delivery, and what is attached."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from email.errors import MessageError
from email.message import Message
from typing import Any, TypeVar

from opx.extraction.output import Output

MAX_PARTS = 200
BROKEN_HEADER = (ValueError, LookupError, MessageError, AttributeError, TypeError)
"""What the standard library raises for some of them."""
_WHOLE_MESSAGES = ("message/rfc822", "message/global", "message/news")
_CALENDAR = "text/calendar"
_SIGNATURES = ("application/pgp-signature", "application/pkcs7-signature", "application/x-pkcs7-signature")
_LONGEST_REFERENCE = 300
_HTML = re.compile(r"\bhtml\b", re.IGNORECASE)
T = TypeVar("T")


@dataclass(slots=True)
class Parts:
    """`bodies` are what to read as the message, in order: of alternatives only the chosen one. The others are all."""

    bodies: list[Message] = field(default_factory=list)
    appointments: list[Message] = field(default_factory=list)
    attachments: list[Message] = field(default_factory=list)


@dataclass(slots=True)
class _Node:
    """A part and those within it; `bodies` once it is known which of them are read."""

    part: Message
    within: list[_Node] = field(default_factory=list)
    bodies: list[Message] = field(default_factory=list)


def parts_of(message: Message, output: Output) -> Parts:
    """Sorts the parts; within `multipart/alternative` one is chosen, and everywhere else all are read."""
    found = Parts()
    nodes = _nodes(message, output)
    for node in nodes:
        if not node.within:
            _sort(node, found)
    for node in reversed(nodes):  # the inner ones first
        if node.within:
            choices = [each.bodies for each in node.within]
            chosen = [_preferred(choices)] if kind_of(node.part) == "multipart/alternative" else choices
            node.bodies = [body for bodies in chosen for body in bodies]
    found.bodies = nodes[0].bodies
    return found


def _nodes(message: Message, output: Output) -> list[_Node]:
    """All parts, each before those within it; not by recursion, as messages may nest thousands deep."""
    nodes: list[_Node] = []
    root = _Node(message)
    waiting = [root]
    leaves = 0
    while waiting:
        node = waiting.pop()
        nodes.append(node)
        content = node.part.get_payload()
        whole = is_report(node.part) or (node is not root and is_message(node.part))
        if whole or not isinstance(content, list):
            leaves += 1
        else:
            node.within = [_Node(each) for each in content if isinstance(each, Message)]
            waiting += reversed(node.within)
        if leaves == MAX_PARTS and waiting:
            output.unread(f"only the first {MAX_PARTS} parts of the message are read")
            break
    return nodes


def _sort(node: _Node, found: Parts) -> None:
    part, kind = node.part, kind_of(node.part)
    named = asked(part.get_content_disposition, None) == "attachment" or bool(file_name(part))
    if kind.startswith("multipart/"):  # it has none of the parts that it speaks of
        node.bodies = [part] if str(part.get_payload()).strip() else []
    elif kind == _CALENDAR:
        found.appointments.append(part)
    elif is_report(part) or (kind in ("text/plain", "text/html") and not named):
        node.bodies = [part]
    elif kind not in _SIGNATURES:
        found.attachments.append(part)


def _preferred(choices: Sequence[list[Message]]) -> list[Message]:
    """The first alternative that is all plain text, or else the last that says anything: later ones are richer.

    A short text that speaks of HTML mostly says only that it is to be found there.
    """
    said = [bodies for bodies in choices if any(decoded(body).strip() for body in bodies)]
    for bodies in said[:-1]:
        text = "".join(map(decoded, bodies)) if all(kind_of(body) != "text/html" for body in bodies) else ""
        if text and (len(text) > _LONGEST_REFERENCE or not _HTML.search(text)):
            return bodies
    return said[-1] if said else []


def is_report(part: Message) -> bool:
    """Whether it is about a message, such as `message/delivery-status` (RFC 3464), and no message itself."""
    kind = kind_of(part)
    return kind.startswith("message/") and kind not in _WHOLE_MESSAGES


def is_message(part: Message) -> bool:
    return kind_of(part) in _WHOLE_MESSAGES


def decoded(part: Message) -> str:
    """The part's text; that of a report are its fields, in the groups that it has."""
    content = part.get_payload()
    if isinstance(content, list):
        return "\n\n".join(filter(None, (_fields(each) for each in content if isinstance(each, Message))))
    data = payload(part)
    if not isinstance(data, bytes):
        return str(content)
    charset = str(asked(part.get_content_charset, None) or "utf-8")
    for encoding in (charset, "utf-8", "cp1252"):
        try:
            return data.decode(encoding)
        except (LookupError, UnicodeDecodeError, ValueError):
            continue
    return data.decode("utf-8", "replace")


def _fields(group: Message) -> str:
    none: list[tuple[str, Any]] = []
    lines = [f"{name}: {' '.join(str(value).split())}" for name, value in asked(group.items, none)]
    rest = group.get_payload()
    return "\n".join([*lines, *([rest.strip()] if isinstance(rest, str) and rest.strip() else [])])


def asked(question: Callable[[], T], otherwise: T) -> T:
    """What the library says of a part, or something else where it trips over a broken header."""
    try:
        return question()
    except BROKEN_HEADER:
        return otherwise


def payload(part: Message) -> Any:
    """Bytes, decoded; anything else if it can't be."""
    found: Callable[[], Any] = lambda: part.get_payload(decode=True)  # noqa: E731
    return asked(found, b"")


def kind_of(part: Message) -> str:
    return asked(part.get_content_type, "text/plain")


def file_name(part: Message) -> str:
    name = asked(part.get_filename, None) or ""
    return str(name).replace("\\", "/").rpartition("/")[2].strip()
