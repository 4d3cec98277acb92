"""Checks Office files, which are ZIP archives of XML, before a library opens them, and reads their metadata."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

from opx.errors import UnparsableDocumentError
from opx.formats.sandbox.output import OutputTooLargeError

MAX_ENTRIES = 10_000
MAX_RATIO = 250
"""Compression ratio that a large entry may have: deflate reaches 1,032 and XML up to about 100."""
_LARGE = 10 * 1024 * 1024
_BLOCK = 256 * 1024
_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_DECLARATION = re.compile(rb"<!\s*(?:DOCTYPE|ENTITY)", re.IGNORECASE)
_CORE = "docProps/core.xml"
_NAMES = {"title": "title", "creator": "author", "created": "created_at", "modified": "last_updated"}


def checked_package(path: Path, limit: int) -> zipfile.ZipFile:
    """Opens the archive after unpacking all of it once within the limits and finding no entity declarations in its XML.

    Raises `UnparsableDocumentError`. Sizes stated by the archive are checked first, and then the actual ones.
    """
    with path.open("rb") as file:
        if file.read(len(_OLE)) == _OLE:
            raise UnparsableDocumentError("it is encrypted, or of the format from before 2007; save it anew, without")
    try:
        package = zipfile.ZipFile(path)
        _check_stated(package, limit)
        _check_content(package, limit)
    except (zipfile.BadZipFile, zipfile.LargeZipFile, NotImplementedError, EOFError, RuntimeError) as exc:
        raise UnparsableDocumentError("it is broken, or no Office document; save it again") from exc
    return package


def core_metadata(package: zipfile.ZipFile) -> tuple[str, dict[str, Any]]:
    """The title, and the author and times, as far as present."""
    try:
        root = ET.fromstring(package.read(_CORE))  # noqa: S314 - it declares no entities, which was checked
    except (KeyError, ET.ParseError):
        return "", {}
    found = {}
    for element in root:
        name = _NAMES.get(element.tag.rpartition("}")[2])
        if name and (element.text or "").strip():
            found[name] = (element.text or "").strip()
    dates = {name: value for name, value in found.items() if name in ("created_at", "last_updated") and _is_date(value)}
    author = {"author": found["author"]} if "author" in found else {}
    return found.get("title", ""), {**author, **dates}


def _is_date(text: str) -> bool:
    from datetime import datetime

    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def _check_stated(package: zipfile.ZipFile, limit: int) -> None:
    entries = package.infolist()
    if len(entries) > MAX_ENTRIES:
        raise UnparsableDocumentError(f"it has {len(entries):,} parts, more than {MAX_ENTRIES:,}; split it")
    _check_size(sum(entry.file_size for entry in entries), limit)
    for entry in entries:
        if entry.file_size > _LARGE and entry.file_size > MAX_RATIO * max(1, entry.compress_size):
            raise UnparsableDocumentError(f"a part of it unpacks to {entry.file_size:,} bytes, as in a ZIP bomb")


def _check_content(package: zipfile.ZipFile, limit: int) -> None:
    total = 0
    for entry in package.infolist():
        is_xml = entry.filename.lower().endswith((".xml", ".rels", ".vml"))
        last = b""
        for block in _blocks(package, entry):
            total += len(block)
            _check_size(total, limit)
            if is_xml and _DECLARATION.search((last + block).replace(b"\0", b"")):
                raise UnparsableDocumentError(
                    "its XML declares entities, which Office documents never do; save it again"
                )
            last = block[-32:]


def _blocks(package: zipfile.ZipFile, entry: zipfile.ZipInfo) -> Iterator[bytes]:
    import zlib

    try:
        with package.open(entry) as stream:
            while block := stream.read(_BLOCK):
                yield block
    except zlib.error as exc:
        raise zipfile.BadZipFile(str(exc)) from exc


def _check_size(size: int, limit: int) -> None:
    if size > limit:
        raise OutputTooLargeError(
            f"it unpacks to more than {limit:,} bytes; split it, or raise OPX_PARSE_UNPACKED_BYTES"
        )
