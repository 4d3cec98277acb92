"""A message of e-mail as a document: its bytes, which the pipeline reads, and what its headers say."""

from __future__ import annotations

import re
from contextlib import suppress
from email import policy
from email.errors import MessageError
from email.header import decode_header, make_header
from email.message import Message
from email.parser import BytesHeaderParser
from email.utils import parseaddr, parsedate_to_datetime
from typing import Any

from opx.domain.sources import SourceDocument
from opx.domain.times import iso_time
from opx.formats.data.replies import OddRecordError
from opx.formats.decoding import well_formed
from opx.formats.outside_text import one_line

HEADER_BYTES = 256 * 1024
"""Of a message's beginning that headers are looked for in; those of real ones end within a few kilobytes."""

_PREFIX = re.compile(r"^(?:\s*(?:re|fwd?|aw|wg|sv|antw)\s*(?:\[\d+\])?:)+\s*", re.IGNORECASE)


def message_document(key: str, data: bytes, *, address: str = "", received: str = "") -> SourceDocument:
    """The message under a key that ends with `.eml`. `address` is where it is, `received` when it came, if the headers
    don't say. Raises `OddRecordError` for what is no message."""
    headers = BytesHeaderParser(policy=policy.compat32).parsebytes(data[:HEADER_BYTES])
    if not data.strip() or not headers.keys():
        raise OddRecordError("not a message: it has no headers")
    subject = _decoded(headers, "Subject")
    sent = _date(headers) or received
    sender, sender_address = parseaddr(_decoded(headers, "From"))
    metadata: dict[str, Any] = {
        "title": subject or "(no subject)",
        "author": sender or sender_address,
        "source_uri": address,
        "created_at": sent,
        "last_updated": sent,
        "tags": ["e-mail", *_thread(subject)],
    }
    return SourceDocument(key, data, {name: value for name, value in metadata.items() if value})


def _thread(subject: str) -> list[str]:
    """What a conversation has in common, whatever mail programs put before it."""
    topic = _PREFIX.sub("", subject).strip()
    return [f"thread: {topic[:120]}"] if topic else []


def _date(headers: Message) -> str:
    """When it was sent, "" if the header is missing or wrong."""
    try:
        return iso_time(parsedate_to_datetime(str(headers.get("Date", ""))).timestamp())
    except (ValueError, OverflowError, OSError):
        return ""


def _decoded(headers: Message, name: str) -> str:
    """A header in one line: encoded words decoded (RFC 2047), bytes taken for UTF-8; as it is if they are wrong."""
    raw = next((str(value) for key, value in headers.raw_items() if key.lower() == name.lower()), "")
    text = raw.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    with suppress(MessageError, LookupError, ValueError):
        text = str(make_header(decode_header(text)))
    return one_line(well_formed(text))[:500]
