"""PDF files, by PDFium: text page by page, and which pages have none."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pypdfium2 as pdfium
from pypdfium2 import raw

from opx.extraction.output import Job, Output
from opx.extraction.pdf_comments import Comments
from opx.extraction.pdf_document import metadata_of, opened, page_of, title_of
from opx.extraction.pdf_layout import Style, blocks
from opx.extraction.pdf_margins import without_margins
from opx.extraction.pdf_outline import Outline
from opx.extraction.pdf_rows import Row, rows_of
from opx.extraction.pdf_tables import Grid, grids
from opx.extraction.pdf_words import PageText

_SAMPLED = 24
"""Pages that tell the sizes of text and headings."""
_MAX_HEADING_SIZES = 4
_MAX_ATTACHMENTS = 50
_PICTURE_SHARE = 0.04
"""Pictures that cover less of a page are logos and icons."""
_LEFTWARD = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]")
"""Hebrew, Arabic and the scripts beside them."""
_MAY_BE_REVERSED = (
    "it has text that is written from right to left, the first on page {page}, whose letters or words may be in reversed "
    "order; put the document it was made from into the corpus instead"
)


@dataclass(slots=True)
class _Page:
    """What was found on a page (from 0). `drawn`: there is something on it."""

    index: int
    height: float
    rows: list[Row]
    tables: list[Grid]
    drawn: bool


def read_pdf(path: Path, job: Job, output: Output) -> None:
    """Text as Markdown, in the order of reading; pages without any are named; attachments are handed on."""
    document = opened(path)
    count = len(document)
    read = min(count, job.pages)
    comments = Comments(output)
    if document.formenv is not None:  # filled forms are made part of the page, and the comments on it with them
        comments.add_all(document, read)
    outline = Outline(document)
    sampled = _sampled(document, read)
    style = _style(sampled.values(), by_outline=bool(outline))
    paragraphs = _Paragraphs(output)
    leftward = 0
    for page in without_margins(_pages(document, read, sampled, comments)):
        leftward = leftward or (page.index + 1) * any(_LEFTWARD.search(row.text) for row in page.rows)
        _write_page(page, outline, style, paragraphs)
        _write_pictures(document, page, job, paragraphs)
    paragraphs.flush()
    comments.write()
    if leftward:
        output.irregular(_MAY_BE_REVERSED.format(page=leftward))
    if count > read:
        output.unread(f"only the first {read:,} of {count:,} pages are read (OPX_PARSE_PAGES)")
    _write_attachments(document, output)
    output.finish(title_of(document), metadata_of(document))


def _pages(
    document: pdfium.PdfDocument, count: int, known: dict[int, list[Row]], comments: Comments
) -> Iterator[_Page]:
    for index in range(count):
        try:
            page = page_of(document, index)
        except pdfium.PdfiumError:
            yield _Page(index, 0.0, [], [], drawn=True)  # broken, and listed like a page that is only a picture
            continue
        comments.add(page, index)
        rows = known.pop(index, None) or _rows(page)
        drawn = bool(rows) or raw.FPDFPage_CountObjects(page) > 0
        yield _Page(index, page.get_height(), rows, _tables(page, rows), drawn)
        page.close()


def _rows(page: pdfium.PdfPage) -> list[Row]:
    text = PageText(page)
    try:
        return [row for row in rows_of(text.segments()) if row.text.strip()]
    finally:
        text.close()


def _tables(page: pdfium.PdfPage, rows: list[Row]) -> list[Grid]:
    if not rows:
        return []
    segments = [segment for row in rows for segment in row.segments]
    return [grid for grid in grids(page) if grid.fits([each for each in segments if grid.holds(each)])]


def _sampled(document: pdfium.PdfDocument, count: int) -> dict[int, list[Row]]:
    """The rows of some pages from all over the document."""
    rows = {}
    for index in range(0, count, -(-count // _SAMPLED)):
        try:
            rows[index] = _rows(page_of(document, index))
        except pdfium.PdfiumError:
            continue
    return rows


def _style(pages: Iterable[list[Row]], *, by_outline: bool) -> Style:
    """The size most characters have, and the larger sizes."""
    sizes: Counter[float] = Counter()
    for row in (row for rows in pages for row in rows):
        sizes[round(row.size * 2) / 2] += len(row.text)
    if not sizes:
        return Style(10.0)
    body = max(sizes, key=lambda size: (sizes[size], -size))
    larger = sorted((size for size in sizes if size >= body * 1.12), reverse=True)
    return Style(body, tuple(larger[:_MAX_HEADING_SIZES]), by_outline)


class _Paragraphs:
    """Writes blocks; the last of a page waits for the next page, on which its sentence may go on."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._held = ""

    def add(self, block: str) -> None:
        if self._held and _goes_on(self._held, block):
            self._held += f" {block}"
            return
        self.flush()
        self._held = block

    def picture(self, data: bytes, name: str) -> None:
        self.flush()
        self._output.picture(data, name)

    def scan(self, page: int) -> None:
        self.flush()
        self._output.scan(page)

    def flush(self) -> None:
        self._output.text(self._held)
        self._held = ""


def _goes_on(before: str, after: str) -> bool:
    """Whether the second paragraph begins within a sentence of the first."""
    return (
        "\n" not in before + after
        and before[0] not in "#|`\\"
        and (before[-1].isalnum() or before[-1] == ",")
        and (after[:1].islower())
    )


def _write_page(page: _Page, outline: Outline, style: Style, paragraphs: _Paragraphs) -> None:
    if not page.rows:
        if page.drawn:
            paragraphs.scan(page.index + 1)
        return
    for found in outline.mark(page.index, page.rows):
        paragraphs.add(found)
    for block in blocks(page.rows, page.tables, style):
        paragraphs.add(block)


def _write_pictures(document: pdfium.PdfDocument, found: _Page, job: Job, paragraphs: _Paragraphs) -> None:
    """Large pictures on pages that have text, too: of others the whole page is a picture."""
    if not found.rows:
        return
    page = document[found.index]
    area = page.get_width() * page.get_height()
    for shape in page.get_objects(filter=[raw.FPDF_PAGEOBJ_IMAGE], max_depth=3):
        x0, y0, x1, y1 = shape.get_bounds()
        if (x1 - x0) * (y1 - y0) < area * _PICTURE_SHARE:
            continue
        paragraphs.picture(_picture(shape, job), f"picture on page {found.index + 1}")
    page.close()


def _picture(shape: Any, job: Job) -> bytes:
    """The picture as PNG, or only its bytes as they are if nobody will look at it."""
    if not job.images:
        return bytes(shape.get_data())
    import io

    target = io.BytesIO()
    try:
        shape.get_bitmap().to_pil().convert("RGB").save(target, "PNG")
    except (pdfium.PdfiumError, ValueError):
        return b""
    return target.getvalue()


def _write_attachments(document: pdfium.PdfDocument, output: Output) -> None:
    count = document.count_attachments()
    for index in range(min(count, _MAX_ATTACHMENTS)):
        name = f"attachment {index + 1}"
        try:
            attachment = document.get_attachment(index)
            name = attachment.get_name() or name
            data = bytes(attachment.get_data())
        except pdfium.PdfiumError:
            output.unread(f"{name} can't be read")
            continue
        output.attachment(data, name)
    if count > _MAX_ATTACHMENTS:
        output.unread(f"{count - _MAX_ATTACHMENTS} more attachments are not read")
