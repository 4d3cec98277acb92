"""User metadata of objects in the headers that S3 has for them, which are lower-case ASCII."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Mapping
from email.errors import HeaderParseError
from email.header import decode_header, make_header

ENCODED = "opx-metadata"
"""The header that holds, as base64 of JSON, what can't be a header of its own."""

# Runs of spaces are left out: signatures collapse them. So is `=?`: S3 takes it for an encoded word (RFC 2047).
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]*")
_VALUE = re.compile(r"(?!=\?)[!-~]+( [!-~]+)*")


def to_headers(metadata: Mapping[str, str]) -> dict[str, str]:
    """Plain names and values stay readable for other programs; the rest goes into one encoded header."""
    plain = {name: value for name, value in metadata.items() if _is_plain(name, value)}
    rest = {name: value for name, value in metadata.items() if name not in plain}
    if rest:
        text = json.dumps(rest, ensure_ascii=False, separators=(",", ":"))
        plain[ENCODED] = base64.b64encode(text.encode()).decode("ascii")
    return plain


def from_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """The metadata as they were put; also those that another program put, with encoded words (RFC 2047)."""
    metadata = {name: _decoded_words(value) for name, value in headers.items() if name != ENCODED}
    if ENCODED in headers:
        metadata.update(json.loads(base64.b64decode(headers[ENCODED])))
    return metadata


def _is_plain(name: str, value: str) -> bool:
    return name != ENCODED and bool(_NAME.fullmatch(name)) and bool(_VALUE.fullmatch(value))


def _decoded_words(value: str) -> str:
    if not value.startswith("=?"):
        return value
    try:
        return str(make_header(decode_header(value)))
    except (HeaderParseError, LookupError, UnicodeDecodeError, binascii.Error):
        return value
