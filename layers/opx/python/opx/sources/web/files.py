"""What a reply is, and the extension by which its document is read."""

from __future__ import annotations

from pathlib import PurePosixPath
from urllib.parse import urlsplit

from opx.ingestion.parsing.registry import is_known
from opx.ports.sources import WebReply
from opx.sources.web.urls import may_be_document

HTML = ".html"
_HTML_TYPES = ("text/html", "application/xhtml+xml")
_EXTENSIONS = {
    "application/pdf": ".pdf",
    "text/plain": ".txt",
    "text/markdown": ".md",
    "text/x-rst": ".rst",
    "application/rtf": ".rtf",
    "application/epub+zip": ".epub",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": ".docx",
    "application/vnd.openxmlformats-officedocument.presentationml.presentation": ".pptx",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": ".xlsx",
    "application/vnd.oasis.opendocument.text": ".odt",
}
_RECORDS = (".json", ".jsonl", ".ndjson")
"""Read through a category's mapping; what sites serve as such is data of their scripts."""


def extension_of(reply: WebReply) -> str:
    """`.html` for a page, the extension of a file of a format that is read, or "" for anything else."""
    kind = reply.headers.get("content-type", "").partition(";")[0].strip().lower()
    suffix = PurePosixPath(urlsplit(reply.url).path).suffix.lower()
    if kind in _HTML_TYPES or (not kind and reply.body.lstrip()[:1] == b"<"):
        return HTML
    if suffix in _RECORDS or kind == "application/json":
        return ""
    if not may_be_document(reply.url) or kind.startswith(("image/", "audio/", "video/", "font/")):
        return ""
    if is_known(suffix) and suffix not in (HTML, ".htm", ".xhtml"):
        return suffix
    found = _EXTENSIONS.get(kind, "")
    return found if is_known(found) else ""
