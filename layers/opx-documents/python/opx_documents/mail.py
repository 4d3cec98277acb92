"""Reads e-mail messages (EML and Outlook's MSG): body, appointments, and attachments."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from email import message_from_binary_file
from email.errors import MessageError
from email.message import Message
from email.policy import compat32, default
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any, TypeVar

from oxmsg import Message as OutlookMessage

from opx.errors import UnparsableDocumentError
from opx.formats.markdown import heading, one_line, plain
from opx.formats.sandbox.output import Output, ReadingJob

MAX_ATTACHMENTS = 50
_HEADERS = ("from", "to", "date", "subject", "received", "message-id", "mime-version", "content-type", "return-path")
_EXTENSIONS = {
    "application/pdf": ".pdf",
    "image/png": ".png",
    "image/jpeg": ".jpg",
    "image/gif": ".gif",
    "text/html": ".html",
    "text/csv": ".csv",
    "application/json": ".json",
    "text/plain": ".txt",
}

MAX_PARTS = 200
BROKEN_HEADER = (ValueError, LookupError, MessageError, AttributeError, TypeError)
"""Exceptions that the standard library raises for broken headers."""
_WHOLE_MESSAGES = ("message/rfc822", "message/global", "message/news")
_CALENDAR = "text/calendar"
_SIGNATURES = ("application/pgp-signature", "application/pkcs7-signature", "application/x-pkcs7-signature")
_LONGEST_REFERENCE = 300
_HTML = re.compile(r"\bhtml\b", re.IGNORECASE)
T = TypeVar("T")

MAX_EVENTS = 20
_EVENT, _END_OF_FIELDS = "BEGIN:VEVENT", re.compile("END:VEVENT|BEGIN:VALARM")
_FIELD = re.compile(r"(?im)^(SUMMARY|DTSTART|DTEND|LOCATION|DESCRIPTION)((?:;[^:;\n\"]*(?:\"[^\"\n]*\")?)*):(.*)$")
_FOLDED = re.compile(r"\n[ \t]")
_ESCAPED = re.compile(r"\\([nN,;\\])")
_MOMENT = re.compile(r"(\d{4})(\d\d)(\d\d)(?:T(\d\d)(\d\d)\d\d(Z?))?\Z")
_ZONE = re.compile(r";TZID=\"?([^;\":]+)", re.IGNORECASE)
_LABELS = {"SUMMARY": "Appointment", "DTSTART": "Start", "DTEND": "End", "LOCATION": "Place"}

EARLIER = "Earlier messages"
_LEVEL = 2
_MARK_OF_SIGNATURE = "-- "
_LONGEST_SIGNATURE_LINE = 80
_SHORT_LINE = 30
_SENTENCE_ENDS = ".!?:。！？"
"""With the blank (RFC 3676, 4.3): two dashes alone may be a line of the body."""
_LONGEST_SIGNATURE = 12
_QUOTED = re.compile(r"[ \t]*>")
_INTRODUCTION = re.compile(
    r"[^\n]{0,200}(?:wrote|schrieb|a écrit|escribió|ha scritto)\s*:?\s*\Z"
    r"|-{2,}\s*(?:original message|forwarded message|ursprüngliche nachricht)\s*-{2,}\s*\Z",
    re.IGNORECASE,
)
_SEPARATOR = re.compile(r"(?mi)^-{2,}\s*(?:original message|ursprüngliche nachricht)\s*-{2,}\s*$|^_{20,}\s*$")


def read_email(path: Path, job: ReadingJob, output: Output) -> None:  # noqa: ARG001 - every reader is called so
    """Reads the body, appointments, then the attachments; headers become title and metadata."""
    message = _opened(path)
    if not any(name in message for name in _HEADERS):
        raise UnparsableDocumentError("it is no e-mail message: it has none of its headers; save it again as .eml")
    parts = parts_of(message, output)
    subject = _header(message, "subject")
    body = "\n\n".join(filter(None, (_body(part).strip("\n") for part in parts.bodies)))
    output.text(body)
    written = _write_appointments(parts.appointments, output, described=not body)
    for number, part in enumerate(parts.attachments, start=1):
        if number > MAX_ATTACHMENTS:
            output.unread(f"{len(parts.attachments) - MAX_ATTACHMENTS} more attachments are not read")
            break
        written += _write_attachment(part, number, output)
    if not body and not written:
        output.text(plain(subject))  # an alert's subject may be its whole message
    output.finish(subject, _metadata(message))


def _opened(path: Path) -> Message:
    """Parses the message; by the library's older policy if the newer one fails at its headers."""
    with path.open("rb") as file:
        try:
            return message_from_binary_file(file, policy=default)
        except BROKEN_HEADER:
            file.seek(0)
            return message_from_binary_file(file, policy=compat32)


def _body(part: Message) -> str:
    if is_report(part):
        return plain(decoded(part))
    html = kind_of(part) == "text/html"
    return body_markdown("" if html else decoded(part), decoded(part) if html else "")


def _write_appointments(parts: list[Message], output: Output, *, described: bool) -> int:
    """Returns the number of parts with appointments; an invitation may come in the body and as a file with the same
    content."""
    found = {text: None for part in parts if (text := appointments(decoded(part), described=described))}
    if parts and not found:
        output.unread("the calendar in the message has no appointment that can be read")
    for text in found:
        output.text(text)
    return len(found)


def _write_attachment(part: Message, number: int, output: Output) -> bool:
    """True if the attachment had any content."""
    name = file_name(part)
    if is_message(part):
        inner = part.get_payload()
        message = inner[0] if isinstance(inner, list) and inner else None
        subject = _header(message, "subject") if isinstance(message, Message) else ""
        data: Any = _bytes(message) if isinstance(message, Message) else b""
        name = (name or subject or f"message {number}").removesuffix(".eml") + ".eml"
    else:
        data = payload(part)
        name = name or f"attachment {number}{_EXTENSIONS.get(kind_of(part), '')}"
    if not isinstance(data, bytes) or not data:
        output.unread(f"{name} is empty, or can't be decoded")
        return False
    output.attachment(data, name)
    return True


def _bytes(message: Message) -> bytes:
    try:
        return message.as_bytes(policy=compat32)
    except BROKEN_HEADER:
        return parsed_or(lambda: message.as_string(policy=compat32), "").encode("utf-8", "replace")


def _header(message: Message | None, name: str) -> str:
    """The header's text, "" if it is missing or can't be parsed."""
    if message is None:
        return ""
    return parsed_or(lambda: str(message.get(name) or ""), "").strip()


def _metadata(message: Message) -> dict[str, Any]:
    found = {"author": _header(message, "from"), "to": _header(message, "to")}
    try:
        sent = parsedate_to_datetime(_header(message, "date"))
        found["created_at"] = found["last_updated"] = sent.isoformat()
    except (ValueError, TypeError, IndexError, OverflowError):
        pass
    return {name: value for name, value in found.items() if value}


@dataclass(slots=True)
class Parts:
    """`bodies` are the parts read as the message, in order: of alternatives only the chosen one. `others` are all
    remaining ones."""

    bodies: list[Message] = field(default_factory=list)
    appointments: list[Message] = field(default_factory=list)
    attachments: list[Message] = field(default_factory=list)


@dataclass(slots=True)
class _Node:
    """A part and its subparts; `bodies` once it is known which of them are read."""

    part: Message
    within: list[_Node] = field(default_factory=list)
    bodies: list[Message] = field(default_factory=list)


def parts_of(message: Message, output: Output) -> Parts:
    """Sorts the parts; of `multipart/alternative` one is chosen, of any other kind all are read."""
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
    """All parts, each before its subparts; not by recursion, as messages may nest thousands deep."""
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
    named = parsed_or(part.get_content_disposition, None) == "attachment" or bool(file_name(part))
    if kind.startswith("multipart/"):  # it has none of the parts that it speaks of
        node.bodies = [part] if str(part.get_payload()).strip() else []
    elif kind == _CALENDAR:
        found.appointments.append(part)
    elif is_report(part) or (kind in ("text/plain", "text/html") and not named):
        node.bodies = [part]
    elif kind not in _SIGNATURES:
        found.attachments.append(part)


def _preferred(choices: Sequence[list[Message]]) -> list[Message]:
    """The first alternative that is all plain text, or else the last that has any text: later ones are richer.

    A short text that mentions HTML is mostly only a pointer to the HTML part.
    """
    filled = [bodies for bodies in choices if any(decoded(body).strip() for body in bodies)]
    for bodies in filled[:-1]:
        text = "".join(map(decoded, bodies)) if all(kind_of(body) != "text/html" for body in bodies) else ""
        if text and (len(text) > _LONGEST_REFERENCE or not _HTML.search(text)):
            return bodies
    return filled[-1] if filled else []


def is_report(part: Message) -> bool:
    """True if the part is a report about a message, such as `message/delivery-status` (RFC 3464), and no message itself."""
    kind = kind_of(part)
    return kind.startswith("message/") and kind not in _WHOLE_MESSAGES


def is_message(part: Message) -> bool:
    return kind_of(part) in _WHOLE_MESSAGES


def decoded(part: Message) -> str:
    """The part's text; for a report its fields, grouped."""
    content = part.get_payload()
    if isinstance(content, list):
        return "\n\n".join(filter(None, (_fields(each) for each in content if isinstance(each, Message))))
    data = payload(part)
    if not isinstance(data, bytes):
        return str(content)
    charset = str(parsed_or(part.get_content_charset, None) or "utf-8")
    for encoding in (charset, "utf-8", "cp1252"):
        try:
            return data.decode(encoding)
        except (LookupError, UnicodeDecodeError, ValueError):
            continue
    return data.decode("utf-8", "replace")


def _fields(group: Message) -> str:
    none: list[tuple[str, Any]] = []
    lines = [f"{name}: {' '.join(str(value).split())}" for name, value in parsed_or(group.items, none)]
    rest = group.get_payload()
    return "\n".join([*lines, *([rest.strip()] if isinstance(rest, str) and rest.strip() else [])])


def parsed_or(parse: Callable[[], T], default: T) -> T:
    """Calls the standard library's parser; `default` where it fails at a broken header."""
    try:
        return parse()
    except BROKEN_HEADER:
        return default


def payload(part: Message) -> Any:
    """The decoded bytes; another type if they can't be decoded."""
    none: Any = b""
    return parsed_or(lambda: part.get_payload(decode=True), none)


def kind_of(part: Message) -> str:
    return parsed_or(part.get_content_type, "text/plain")


def file_name(part: Message) -> str:
    name = parsed_or(part.get_filename, None) or ""
    return str(name).replace("\\", "/").rpartition("/")[2].strip()


def appointments(text: str, *, described: bool) -> str:
    """The events as Markdown, "" if there are none. `described`: with their descriptions."""
    unfolded = _FOLDED.sub("", text.replace("\r\n", "\n"))
    events = [_END_OF_FIELDS.split(event, maxsplit=1)[0] for event in unfolded.split(_EVENT)[1 : MAX_EVENTS + 1]]
    return "\n\n".join(filter(None, (_event(event, described=described) for event in events)))


def _event(text: str, *, described: bool) -> str:
    fields: dict[str, str] = {}
    for name, parameters, value in _FIELD.findall(text):
        fields.setdefault(
            name.upper(), _moment(value, parameters) if name.upper().startswith("DT") else _unescaped(value)
        )
    lines = [f"- {label}: {one_line(fields[name])}" for name, label in _LABELS.items() if fields.get(name, "").strip()]
    description = plain(fields.get("DESCRIPTION", "").strip()) if described else ""
    return "\n\n".join(filter(None, ["\n".join(lines), description]))


def _unescaped(value: str) -> str:
    return _ESCAPED.sub(lambda match: "\n" if match[1] in "nN" else match[1], value)


def _moment(value: str, parameters: str) -> str:
    match = _MOMENT.match(value.strip())
    if not match:
        return value
    year, month, day, hour, minute, utc = match.groups()
    zone = _ZONE.search(parameters)
    where = " UTC" if utc else f" {zone[1]}" if zone else ""
    return f"{year}-{month}-{day}" + (f" {hour}:{minute}{where}" if hour else "")


def body_markdown(text: str, html: str) -> str:
    """The message as Markdown; the quoted message goes under a heading of its own, a signature at the end is dropped."""
    if not text.strip():
        from opx.formats.markup.html import markdown_of

        return markdown_of(html)
    text = text.replace("\r\n", "\n").replace("\r", "\n").rstrip() + "\n"
    written, earlier = _split(text)
    written = _unsigned(written).strip()
    parts = [plain(written)]
    if earlier:
        parts += [heading(_LEVEL, EARLIER) if written else "", plain(_unquoted(earlier))]
    return "\n\n".join(part for part in parts if part)


def _unsigned(text: str) -> str:
    """Text without a signature: a few short lines at the end, after one of two dashes and a blank. Lines that read like
    sentences are text of the message, and stay."""
    lines = text.rstrip().split("\n")
    for at in range(len(lines) - 1, max(-1, len(lines) - 2 - _LONGEST_SIGNATURE), -1):
        if lines[at] == _MARK_OF_SIGNATURE:
            return text if any(map(_is_sentence, lines[at + 1 :])) else "\n".join(lines[:at])
    return text


def _is_sentence(line: str) -> bool:
    """True for a line that is longer than those of signatures, or ends like a sentence."""
    line = line.strip()
    width = sum(2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in line)
    return width > _LONGEST_SIGNATURE_LINE or (width > _SHORT_LINE and line[-1:] in _SENTENCE_ENDS)


def _split(text: str) -> tuple[str, str]:
    """Splits the reply from the quotation that follows it to the end. Quotations in between stay: answers refer to them."""
    separator = _SEPARATOR.search(text)
    if separator and text[: separator.start()].strip():
        return text[: separator.start()], text[separator.end() :].strip()
    lines = text.splitlines()
    end = len(lines)
    while end and (_QUOTED.match(lines[end - 1]) or not lines[end - 1].strip()):
        end -= 1
    quoted = "\n".join(lines[end:]).strip()
    if not quoted:
        return text, ""
    for size in (1, 2):  # `On ..., John wrote:` may take two lines
        if end >= size and _INTRODUCTION.match(" ".join(lines[end - size : end])):
            return "\n".join(lines[: end - size]), "\n".join([*lines[end - size : end], "", quoted])
    return "\n".join(lines[:end]), quoted


def _unquoted(text: str) -> str:
    return "\n".join(re.sub(r"^[ \t]*(?:>[ \t]?)+", "", line) for line in text.splitlines()).strip()


# -- Outlook


def read_msg(path: Path, job: ReadingJob, output: Output) -> None:  # noqa: ARG001 - every reader is called so
    """Reads the text, or else the HTML, then the attachments."""
    message = OutlookMessage.load(str(path))
    output.text(body_markdown(message.body or "", message.html_body or ""))
    attachments = list(message.attachments)
    for number, attachment in enumerate(attachments[:MAX_ATTACHMENTS], start=1):
        name = attachment.file_name or f"attachment {number}"
        if attachment.attached_by_value and attachment.file_bytes:
            output.attachment(attachment.file_bytes, name)
        else:
            output.unread(f"attachment {name} is another message or a link, which is not read; save it by itself")
    if len(attachments) > MAX_ATTACHMENTS:
        output.unread(f"{len(attachments) - MAX_ATTACHMENTS} more attachments are not read")
    output.finish(message.subject or "", _outlook_metadata(message))


def _outlook_metadata(message: OutlookMessage) -> dict[str, Any]:
    found: dict[str, Any] = {"author": message.sender or ""}
    if message.sent_date:
        found["created_at"] = found["last_updated"] = message.sent_date.isoformat()
    return {name: value for name, value in found.items() if value}
