"""E-mail messages: what was written, and what is attached."""

from __future__ import annotations

from email import message_from_binary_file
from email.message import Message
from email.policy import compat32, default
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

from opx.errors import UnparsableDocumentError
from opx.extraction.mail_calendar import appointments
from opx.extraction.mail_parts import (
    BROKEN_HEADER,
    asked,
    decoded,
    file_name,
    is_message,
    is_report,
    kind_of,
    parts_of,
    payload,
)
from opx.extraction.mail_text import body_markdown
from opx.extraction.markdown import plain
from opx.extraction.output import Job, Output

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


def read_email(path: Path, job: Job, output: Output) -> None:  # noqa: ARG001 - every reader is called so
    """What was written, appointments, then the attachments; headers as title and metadata."""
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
        output.text(plain(subject))  # an alert may say all in its subject
    output.finish(subject, _metadata(message))


def _opened(path: Path) -> Message:
    """The message; read by the library's older rules if the newer ones trip over its headers."""
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
    """How many parts had some; an invitation may come in the text and as a file, which say the same."""
    found = {text: None for part in parts if (text := appointments(decoded(part), described=described))}
    if parts and not found:
        output.unread("the calendar in the message has no appointment that can be read")
    for text in found:
        output.text(text)
    return len(found)


def _write_attachment(part: Message, number: int, output: Output) -> bool:
    """Whether there was anything in it."""
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
        return asked(lambda: message.as_string(policy=compat32), "").encode("utf-8", "replace")


def _header(message: Message | None, name: str) -> str:
    """The header's text, "" if it isn't there or can't be read."""
    if message is None:
        return ""
    return asked(lambda: str(message.get(name) or ""), "").strip()


def _metadata(message: Message) -> dict[str, Any]:
    found = {"author": _header(message, "from"), "to": _header(message, "to")}
    try:
        sent = parsedate_to_datetime(_header(message, "date"))
        found["created_at"] = found["last_updated"] = sent.isoformat()
    except (ValueError, TypeError, IndexError, OverflowError):
        pass
    return {name: value for name, value in found.items() if value}
