"""What the first bytes of an object tell: whether they are text at all, and of which format."""

from __future__ import annotations

import codecs
import re

from opx.domain.knowledge import Category
from opx.ingestion.parsing.front_matter import is_opening

_MAGIC = (
    (b"%PDF-", "a PDF"),
    (b"PK\x03\x04", "a ZIP archive or an Office document"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an old Office document or an Outlook message"),
    (b"\x89PNG\r\n\x1a\n", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"GIF87a", "a GIF image"),
    (b"GIF89a", "a GIF image"),
    (b"\x1f\x8b\x08", "a gzip archive"),
    (b"BZh91AY&SY", "a bzip2 archive"),
    (b"\xfd7zXZ\x00", "an xz archive"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
    (b"\x28\xb5\x2f\xfd", "a Zstandard archive"),
    (b"Rar!\x1a\x07", "a RAR archive"),
    (b"\x7fELF", "a Linux program"),
    (b"SQLite format 3\x00", "an SQLite database"),
    (b"PAR1", "a Parquet file"),
)
_BINARY_FORMATS = ((b"%PDF-", "pdf"), (b"\x89PNG\r\n\x1a\n", "image"), (b"\xff\xd8\xff", "image"), (b"GIF8", "image"))
_UTF16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_UTF32_MARKS = (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)
_CONTROLS = bytes(set(range(0x20)) - set(b"\t\n\r\f\x08\x1b")) + b"\x7f"
"""Control characters that text has no use for; back space and escape are left out, as logs colour and overstrike."""

_MAX_CONTROL_SHARE = 0.1
_HTML_START = re.compile(
    r"\s*+(?:<\?xml[^>]*>\s*)?(?>(?:<!--.*?-->\s*)*)<(?:!doctype\s+html|html|head|body)\b", re.IGNORECASE | re.DOTALL
)
_JSON_START = re.compile(r"\s*\{\s*[\"}]")


def binary_problem(head: bytes) -> str:
    """Why the bytes are not text, or `""`."""
    for magic, kind in _MAGIC:
        if head.startswith(magic):
            return f"it looks like {kind}, not text"
    if head.startswith(_UTF32_MARKS):
        return "it is UTF-32 text, which is not read; save it as UTF-8"
    if head.startswith(_UTF16_MARKS):
        return ""
    if b"\0" in head:
        return f"it has a NUL byte at byte {head.index(0)}, so it is binary data, not text"
    controls = len(head) - len(head.translate(None, _CONTROLS))
    if controls > len(head) * _MAX_CONTROL_SHARE:
        return f"{controls} of its first {len(head)} bytes are control characters, so it is binary data, not text"
    return ""


def binary_format(head: bytes) -> str:
    """The format of a file that begins so, if it is a binary one that is read; "" otherwise."""
    return next((kind for magic, kind in _BINARY_FORMATS if head.startswith(magic)), "")


def text_format(head: bytes, category: Category) -> str:
    """`html`, `json` (only where the category maps it), `markdown` (by its front matter), or else `plain`."""
    utf16 = head.startswith(_UTF16_MARKS)
    text = head.decode("utf-16" if utf16 else "utf-8-sig", errors="replace")
    if _HTML_START.match(text):
        return "html"
    if category.json_mapping and _JSON_START.match(text):
        return "json"
    first, _, rest = text.replace("\r\n", "\n").partition("\n")
    return "markdown" if is_opening(first, rest.partition("\n")[0]) else "plain"
