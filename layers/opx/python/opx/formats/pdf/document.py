"""Opens PDF files, reads what they say about themselves, and draws their pages."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pypdfium2 as pdfium
from pypdfium2 import raw

from opx.errors import UnparsableDocumentError
from opx.formats.sandbox.output import Job, Output

_DPI = 200
"""Dots an inch; characters of ten points are then 28 dots high, of which readers want 20 or more."""
_WRONG_PASSWORD = "password"  # noqa: S105 - a word of PDFium's message
_DATE = re.compile(r"D:(\d{4})(\d\d)?(\d\d)?(\d\d)?(\d\d)?(\d\d)?(?:([+-])(\d\d)'?(\d\d)?)?")
_NO_TITLE = re.compile(r"untitled|\(?anonymous\)?|.*\.(?:docx?|pptx?|xlsx?|tex|dvi|indd|qxd|rtf|odt)", re.IGNORECASE)
_NOBODY = ("anonymous", "unknown", "(anonymous)", "(unspecified)")
_TITLE_OF_PROGRAM = re.compile(r"microsoft (?:word|powerpoint|excel) - ", re.IGNORECASE)


def opened(path: Path) -> pdfium.PdfDocument:
    """The document, which may be encrypted with an empty password. Raises `UnparsableDocumentError`."""
    try:
        document = pdfium.PdfDocument(path, password="")
        pages = len(document)
    except pdfium.PdfiumError as exc:
        if _WRONG_PASSWORD in str(exc).lower():
            raise UnparsableDocumentError("it is encrypted; save it without a password") from exc
        raise UnparsableDocumentError("it is broken, or no PDF; print or export it to PDF again") from exc
    if not pages:
        raise UnparsableDocumentError("it has no pages; export it again")
    if document.get_formtype() != raw.FORMTYPE_NONE:
        document.init_forms()
    return document


def page_of(document: pdfium.PdfDocument, index: int) -> pdfium.PdfPage:
    """A page (from 0), with what was filled into its forms as part of its text. Raises `PdfiumError`."""
    page = document[index]
    if document.formenv is None:
        return page
    page.flatten()
    page.close()
    return document[index]


def title_of(document: pdfium.PdfDocument) -> str:
    """The title; "" for none, and for what programs put there by themselves."""
    title = _TITLE_OF_PROGRAM.sub("", document.get_metadata_value("Title")).strip()
    return "" if _NO_TITLE.fullmatch(title) else title


def metadata_of(document: pdfium.PdfDocument) -> dict[str, Any]:
    """Author and times, as far as they are there."""
    author = document.get_metadata_value("Author").strip()
    found = {"author": "" if author.casefold() in _NOBODY else author}
    found["created_at"] = _date(document.get_metadata_value("CreationDate"))
    found["last_updated"] = _date(document.get_metadata_value("ModDate"))
    return {name: value for name, value in found.items() if value}


def _date(text: str) -> str:
    """ISO 8601 of a PDF's date (ISO 32000-1, 7.9.4), "" for what is none."""
    match = _DATE.match(text.strip())
    if not match:
        return ""
    numbers = [int(match[at]) if match[at] else (1 if at in (2, 3) else 0) for at in range(1, 7)]
    sign = -1 if match[7] == "-" else 1
    offset = sign * timedelta(hours=int(match[8] or 0), minutes=int(match[9] or 0))
    try:
        return datetime(*numbers, tzinfo=timezone(offset)).isoformat()  # type: ignore[arg-type,misc]
    except (ValueError, OverflowError):
        return ""


def draw_pages(path: Path, job: Job, output: Output) -> None:
    """A picture of each page that the job names."""
    from opx.formats.pictures import MAX_SIDE, encoded  # only here: reading the text needs no Pillow

    document = opened(path)
    for number in job.draw:
        try:
            page = document[number - 1]
            scale = min(_DPI / 72, MAX_SIDE / max(1.0, *page.get_size()))
            image = encoded(page.render(scale=scale, grayscale=True).to_pil())
        except pdfium.PdfiumError:
            output.unread(f"page {number} is broken")
            continue
        output.drawn(number, image.data, image.media_type)
        page.close()
    output.finish()
