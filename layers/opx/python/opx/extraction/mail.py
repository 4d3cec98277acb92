"""E-mail messages: what was written, and what is attached."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from email import message_from_binary_file
from email.errors import MessageError
from email.message import Message
from email.policy import compat32, default
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any, TypeVar

from opx.errors import UnparsableDocumentError
from opx.extraction.mail_text import body_markdown
from opx.extraction.markdown import plain
from opx.extraction.output import Job, Output

MAX_PARTS = 200
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
T = TypeVar("T")

_BROKEN_HEADER = (ValueError, LookupError, MessageError, AttributeError, TypeError)
"""What the standard library raises for some of them."""
_NO_DOCUMENTS = (
    "application/pgp-signature",
    "application/pkcs7-signature",
    "application/x-pkcs7-signature",
    "text/calendar",
)


def read_email(path: Path, job: Job, output: Output) -> None:  # noqa: ARG001 - every reader is called so
    """The plain text, or else the HTML, then the attachments; headers as title and metadata."""
    message = _opened(path)
    if not any(name in message for name in _HEADERS):
        raise UnparsableDocumentError("it is no e-mail message: it has none of its headers; save it again as .eml")
    bodies, attachments = _parts(message, output)
    subject = _header(message, "subject")
    body = _body(bodies)
    output.text(body)
    written = 0
    for number, part in enumerate(attachments, start=1):
        if number > MAX_ATTACHMENTS:
            output.unread(f"{len(attachments) - MAX_ATTACHMENTS} more attachments are not read")
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
        except _BROKEN_HEADER:
            file.seek(0)
            return message_from_binary_file(file, policy=compat32)


def _asked(question: Callable[[], T], otherwise: T) -> T:
    """What the library says of a part, or something else where it trips over a broken header."""
    try:
        return question()
    except _BROKEN_HEADER:
        return otherwise


def _parts(message: Message, output: Output) -> tuple[list[Message], list[Message]]:
    """Parts to read as what was written, and those that are attached."""
    bodies: list[Message] = []
    attachments: list[Message] = []
    for count, part in enumerate(_leaves(message)):
        if count >= MAX_PARTS:
            output.unread(f"only the first {MAX_PARTS} parts of the message are read")
            break
        kind = _kind(part)
        named = _asked(part.get_content_disposition, None) == "attachment" or bool(_file_name(part))
        if kind.startswith("multipart/"):  # it has none of the parts that it speaks of
            bodies += [part] if str(part.get_payload()).strip() else []
        elif kind in ("text/plain", "text/html") and not named:
            bodies.append(part)
        elif kind not in _NO_DOCUMENTS:
            attachments.append(part)
    return bodies, attachments


def _leaves(message: Message) -> Iterator[Message]:
    """Parts without parts, and whole messages; not by recursion, as messages may nest thousands deep."""
    waiting = [message]
    while waiting:
        part = waiting.pop()
        whole = part is not message and _kind(part) == "message/rfc822"
        content = part.get_payload()
        if isinstance(content, list) and not whole:
            waiting += [each for each in reversed(content) if isinstance(each, Message)]
        else:
            yield part


def _body(bodies: list[Message]) -> str:
    """Plain text where there is some, as every alternative says the same."""
    texts = [_decoded(part) for part in bodies if _kind(part) != "text/html"]
    html = [_decoded(part) for part in bodies if _kind(part) == "text/html"]
    return body_markdown("\n\n".join(text for text in texts if text.strip()), "\n".join(html))


def _decoded(part: Message) -> str:
    data = _payload(part)
    if not isinstance(data, bytes):
        return str(part.get_payload())
    charset = str(_asked(part.get_content_charset, None) or "utf-8")
    for encoding in (charset, "utf-8", "cp1252"):
        try:
            return data.decode(encoding)
        except (LookupError, UnicodeDecodeError, ValueError):
            continue
    return data.decode("utf-8", "replace")


def _write_attachment(part: Message, number: int, output: Output) -> bool:
    """Whether there was anything in it."""
    name = _file_name(part)
    if _kind(part) == "message/rfc822":
        inner = part.get_payload()
        message = inner[0] if isinstance(inner, list) and inner else None
        subject = _header(message, "subject") if isinstance(message, Message) else ""
        data: Any = _bytes(message) if isinstance(message, Message) else b""
        name = (name or subject or f"message {number}").removesuffix(".eml") + ".eml"
    else:
        data = _payload(part)
        name = name or f"attachment {number}{_EXTENSIONS.get(_kind(part), '')}"
    if not isinstance(data, bytes) or not data:
        output.unread(f"{name} is empty, or can't be decoded")
        return False
    output.attachment(data, name)
    return True


def _bytes(message: Message) -> bytes:
    try:
        return message.as_bytes(policy=compat32)
    except _BROKEN_HEADER:
        return _asked(lambda: message.as_string(policy=compat32), "").encode("utf-8", "replace")


def _payload(part: Message) -> Any:
    """Bytes, decoded; anything else if it can't be."""
    decoded: Callable[[], Any] = lambda: part.get_payload(decode=True)  # noqa: E731
    return _asked(decoded, b"")


def _kind(part: Message) -> str:
    return _asked(part.get_content_type, "text/plain")


def _file_name(part: Message) -> str:
    name = _asked(part.get_filename, None) or ""
    return str(name).replace("\\", "/").rpartition("/")[2].strip()


def _header(message: Message | None, name: str) -> str:
    """The header's text, "" if it isn't there or can't be read."""
    if message is None:
        return ""
    return _asked(lambda: str(message.get(name) or ""), "").strip()


def _metadata(message: Message) -> dict[str, Any]:
    found = {"author": _header(message, "from"), "to": _header(message, "to")}
    try:
        sent = parsedate_to_datetime(_header(message, "date"))
        found["created_at"] = found["last_updated"] = sent.isoformat()
    except (ValueError, TypeError, IndexError, OverflowError):
        pass
    return {name: value for name, value in found.items() if value}
