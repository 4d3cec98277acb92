"""Reads PDF files by PDFium: text page by page, without margins, under the outline's headings; comments, attachments."""

from __future__ import annotations

import ctypes
import re
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pypdfium2 as pdfium
from pypdfium2 import raw

from opx.errors import UnparsableDocumentError
from opx.formats.markdown import heading, one_line
from opx.formats.sandbox.output import Output, ReadingJob
from opx_documents.pdf.layout import Grid, Style, blocks, grids
from opx_documents.pdf.rows import PageText, TextRow, rows_of

_SAMPLED = 24
"""Pages sampled for the sizes of text and headings."""
_MAX_HEADING_SIZES = 4
_MAX_ATTACHMENTS = 50
_PICTURE_SHARE = 0.04
"""Pictures that cover a smaller share of a page are logos and icons."""
_LEFTWARD = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]")
"""Hebrew, Arabic and related right-to-left scripts."""
_MAY_BE_REVERSED = (
    "it has text that is written from right to left, the first on page {page}, whose letters or words may be in reversed "
    "order; put the document it was made from into the corpus instead"
)

_MAX_ENTRIES = 20_000
_MAX_DEPTH = 6
_TOP_LEVEL = 2
"""Level one is the title's."""
_NUMBERING = re.compile(r"[\d.\s]*(?:[A-Z]\.)?\s*")
_NOT_LETTERS = re.compile(r"[\W_]+")

_EDGE_ROWS = 3
_NEIGHBOURS = 2
"""Pages: headers of left and right pages differ."""
_SAME_PLACE = 3.0
_MARGIN = 0.16
_NUMBER = re.compile(
    r"[-–|\s]*(?:(?:page|seite|p\.|pg\.?)\s*)?(?:\d{1,5}|[ivxlc]{1,7})(?:\s*(?:of|von|/|\|)\s*\d{1,5})?[-–|\s]*\Z",
    re.IGNORECASE,
)
_DIGITS = re.compile(r"\d+")

MAX_COMMENTS = 500
_MAX_ANNOTATIONS = 2000
"""Annotations of a page; most are links."""
_MAX_LENGTH = 2000
_NO_COMMENTS = (raw.FPDF_ANNOT_LINK, raw.FPDF_ANNOT_POPUP, raw.FPDF_ANNOT_WIDGET, raw.FPDF_ANNOT_FILEATTACHMENT)


@dataclass(slots=True)
class _Page:
    """Content of a page (from 0). `drawn`: it has graphics."""

    index: int
    height: float
    rows: list[TextRow]
    tables: list[Grid]
    drawn: bool


def read_pdf(path: Path, job: ReadingJob, output: Output) -> None:
    """Writes text as Markdown in reading order; pages without text are reported; attachments are passed on."""
    document = opened(path)
    count = len(document)
    read = min(count, job.pages)
    comments = Comments(output)
    if document.formenv is not None:  # filled forms become part of the page, and with them the comments on it
        comments.add_all(document, read)
    outline = PdfOutline(document)
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
    document: pdfium.PdfDocument, count: int, known: dict[int, list[TextRow]], comments: Comments
) -> Iterator[_Page]:
    for index in range(count):
        try:
            page = page_of(document, index)
        except pdfium.PdfiumError:
            yield _Page(index, 0.0, [], [], drawn=True)  # broken, and treated like a page that is only a picture
            continue
        comments.add(page, index)
        rows = known.pop(index, None) or _rows(page)
        drawn = bool(rows) or raw.FPDFPage_CountObjects(page) > 0
        yield _Page(index, page.get_height(), rows, _tables(page, rows), drawn)
        page.close()


def _rows(page: pdfium.PdfPage) -> list[TextRow]:
    text = PageText(page)
    try:
        return [row for row in rows_of(text.segments()) if row.text.strip()]
    finally:
        text.close()


def _tables(page: pdfium.PdfPage, rows: list[TextRow]) -> list[Grid]:
    if not rows:
        return []
    segments = [segment for row in rows for segment in row.segments]
    return [grid for grid in grids(page) if grid.fits([each for each in segments if grid.holds(each)])]


def _sampled(document: pdfium.PdfDocument, count: int) -> dict[int, list[TextRow]]:
    """Rows of a sample of pages spread over the document."""
    rows = {}
    for index in range(0, count, -(-count // _SAMPLED)):
        try:
            rows[index] = _rows(page_of(document, index))
        except pdfium.PdfiumError:
            continue
    return rows


def _style(pages: Iterable[list[TextRow]], *, by_outline: bool) -> Style:
    """The size that most characters have, and the larger sizes."""
    sizes: Counter[float] = Counter()
    for row in (row for rows in pages for row in rows):
        sizes[round(row.size * 2) / 2] += len(row.text)
    if not sizes:
        return Style(10.0)
    body = max(sizes, key=lambda size: (sizes[size], -size))
    larger = sorted((size for size in sizes if size >= body * 1.12), reverse=True)
    return Style(body, tuple(larger[:_MAX_HEADING_SIZES]), by_outline)


class _Paragraphs:
    """Writes blocks; the last one of a page waits for the next page, on which its sentence may continue."""

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
    """True if the second paragraph continues a sentence of the first."""
    return (
        "\n" not in before + after
        and before[0] not in "#|`\\"
        and (before[-1].isalnum() or before[-1] == ",")
        and (after[:1].islower())
    )


def _write_page(page: _Page, outline: PdfOutline, style: Style, paragraphs: _Paragraphs) -> None:
    if not page.rows:
        if page.drawn:
            paragraphs.scan(page.index + 1)
        return
    for found in outline.mark(page.index, page.rows):
        paragraphs.add(found)
    for block in blocks(page.rows, page.tables, style):
        paragraphs.add(block)


def _write_pictures(document: pdfium.PdfDocument, found: _Page, job: ReadingJob, paragraphs: _Paragraphs) -> None:
    """Writes large pictures of pages that also have text: of others the whole page is rendered."""
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


def _picture(shape: Any, job: ReadingJob) -> bytes:
    """The picture as PNG, or only its raw bytes if no model will describe it."""
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


class PdfOutline:
    """Headings by page."""

    def __init__(self, document: pdfium.PdfDocument) -> None:
        self._entries: dict[int, list[tuple[int, str]]] = defaultdict(list)
        for count, entry in enumerate(document.get_toc(max_depth=_MAX_DEPTH)):
            if count >= _MAX_ENTRIES:
                break
            destination = entry.get_dest()
            page = destination.get_index() if destination else None
            title = one_line(entry.get_title())
            if page is not None and title:
                self._entries[page].append((entry.level + _TOP_LEVEL, title))

    def __bool__(self) -> bool:
        return bool(self._entries)

    def mark(self, page: int, rows: Sequence[TextRow]) -> list[str]:
        """Sets the levels of the page's rows that are headings; returns headings that aren't among the rows."""
        missing = []
        at = 0
        for level, title in self._entries.get(page, []):
            found = next((index for index in range(at, len(rows)) if _is_heading(rows[index], title)), None)
            if found is None:
                missing.append(heading(level, title))
                continue
            rows[found].level = level
            at = found + 1
        return missing


def _is_heading(row: TextRow, title: str) -> bool:
    """True if a row matches an outline entry: numbering, spaces and punctuation aside; the title may continue below."""
    text, wanted = _letters(row.text), _letters(title)
    return bool(text) and (text == wanted or (len(text) > 12 and wanted.startswith(text)))


def _letters(text: str) -> str:
    return _NOT_LETTERS.sub("", _NUMBERING.sub("", text, count=1)).casefold()


def without_margins(pages: Iterable[_Page]) -> Iterator[_Page]:
    """Removes rows near the upper or lower edge that are page numbers, or that are repeated in the same position on a
    page nearby. Holds a few pages at a time."""
    before: deque[tuple[list[TextRow], float]] = deque(maxlen=_NEIGHBOURS)
    waiting: deque[tuple[_Page, list[TextRow], float]] = deque()
    for page in pages:
        waiting.append((page, _edge_rows(page), page.height))
        if len(waiting) > _NEIGHBOURS:
            yield _cleaned(before, waiting)
    while waiting:
        yield _cleaned(before, waiting)


def _cleaned(before: deque[tuple[list[TextRow], float]], waiting: deque[tuple[_Page, list[TextRow], float]]) -> _Page:
    page, edge, height = waiting.popleft()
    near = [row for rows, _ in before for row in rows] + [row for _, rows, _ in waiting for row in rows]
    before.append((edge, height))
    outermost = (max(edge, key=lambda row: row.y1), min(edge, key=lambda row: row.y0)) if edge else ()
    dropped = [row for row in edge if _is_margin(row, page, near, numbered=any(row is other for other in outermost))]
    kept = [row for row in page.rows if not any(row is other for other in dropped)]
    page.rows = kept or [row for row in dropped if not _NUMBER.match(row.text)]  # not a page's only text
    return page


def _edge_rows(page: _Page) -> list[TextRow]:
    by_height = sorted(page.rows, key=lambda row: -row.y1)
    outer = by_height[:_EDGE_ROWS] + by_height[_EDGE_ROWS:][-_EDGE_ROWS:]
    margin = page.height * _MARGIN
    near = [row for row in outer if row.y0 < margin or row.y1 > page.height - margin]
    outermost = [row for row in (outer[0], outer[-1]) if _NUMBER.match(row.text)] if outer else []
    return near + [row for row in outermost if row not in near]


def _is_margin(row: TextRow, page: _Page, near: Sequence[TextRow], *, numbered: bool) -> bool:
    """True if the row is a page number, or repeated on a page nearby; if `numbered`, numbers in it may differ."""
    text = row.text.strip()
    if _NUMBER.match(text) and (str(page.index + 1) in text or any(_same_place(row, other) for other in near)):
        return True
    pattern = _DIGITS.sub("0", text)
    for other in near:
        if not _same_place(row, other):
            continue
        if other.text.strip() == text:
            return True
        if numbered and _DIGITS.sub("0", other.text.strip()) == pattern and _is_small(row, page):
            return True
    return False


def _same_place(row: TextRow, other: TextRow) -> bool:
    return abs(row.y0 - other.y0) < _SAME_PLACE and abs(row.size - other.size) < 1


def _is_small(row: TextRow, page: _Page) -> bool:
    """True unless larger than the page's text: numbered titles in the same position stay."""
    sizes = sorted(each.size for each in page.rows)
    return row.size <= sizes[len(sizes) // 2] * 1.05


class Comments:
    """Collects the comments on pages (ISO 32000-1, 12.5.6: markup annotations) and writes them at the end: in between
    they would interrupt sentences."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._found: dict[str, None] = {}
        self._left_out = 0

    def add(self, page: pdfium.PdfPage, index: int) -> None:
        """Adds the comments of a page (from 0); duplicates, which flattening may leave, are skipped."""
        for text in _comments_of(page):
            line = f"- Page {index + 1}: {text}"
            if len(self._found) < MAX_COMMENTS:
                self._found.setdefault(line)
            elif line not in self._found:
                self._left_out += 1

    def add_all(self, document: pdfium.PdfDocument, count: int) -> None:
        for index in range(count):
            try:
                page = document[index]
            except pdfium.PdfiumError:
                continue
            self.add(page, index)
            page.close()

    def write(self) -> None:
        if self._found:
            self._output.text("\n".join(["Comments on pages:", "", *self._found]))
        if self._left_out:
            self._output.unread(f"{self._left_out:,} more comments on its pages are not read")


def _comments_of(page: pdfium.PdfPage) -> Iterator[str]:
    """Comments on the page, with their authors where known. They are gone once the page is flattened."""
    for index in range(min(raw.FPDFPage_GetAnnotCount(page), _MAX_ANNOTATIONS)):
        annotation = raw.FPDFPage_GetAnnot(page, index)
        if not annotation:
            continue
        try:
            if raw.FPDFAnnot_GetSubtype(annotation) not in _NO_COMMENTS:
                text, author = _value(annotation, b"Contents"), _value(annotation, b"T")
                if text:
                    yield f"{author}: {text}" if author else text
        finally:
            raw.FPDFPage_CloseAnnot(annotation)


def _value(annotation: object, key: bytes) -> str:
    size = raw.FPDFAnnot_GetStringValue(annotation, key, None, 0)
    if size <= 2:  # nothing but the terminating character
        return ""
    buffer = (ctypes.c_ushort * (size // 2 + 1))()
    raw.FPDFAnnot_GetStringValue(annotation, key, buffer, size)
    return one_line(bytes(buffer)[: size - 2].decode("utf-16-le", "replace"))[:_MAX_LENGTH]


# -- opening and rendering


_DPI = 200
"""Dots per inch; characters of ten points are then 28 dots high, and OCR needs 20 or more."""
_WRONG_PASSWORD = "password"  # noqa: S105 - a word of PDFium's message
_DATE = re.compile(r"D:(\d{4})(\d\d)?(\d\d)?(\d\d)?(\d\d)?(\d\d)?(?:([+-])(\d\d)'?(\d\d)?)?")
_NO_TITLE = re.compile(r"untitled|\(?anonymous\)?|.*\.(?:docx?|pptx?|xlsx?|tex|dvi|indd|qxd|rtf|odt)", re.IGNORECASE)
_NOBODY = ("anonymous", "unknown", "(anonymous)", "(unspecified)")
_TITLE_OF_PROGRAM = re.compile(r"microsoft (?:word|powerpoint|excel) - ", re.IGNORECASE)


def opened(path: Path) -> pdfium.PdfDocument:
    """Opens the document, which may be encrypted with an empty password. Raises `UnparsableDocumentError`."""
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
    """Loads a page (from 0), with filled form fields as part of its text. Raises `PdfiumError`."""
    page = document[index]
    if document.formenv is None:
        return page
    page.flatten()
    page.close()
    return document[index]


def title_of(document: pdfium.PdfDocument) -> str:
    """The title; "" for none, and for a generated one."""
    title = _TITLE_OF_PROGRAM.sub("", document.get_metadata_value("Title")).strip()
    return "" if _NO_TITLE.fullmatch(title) else title


def metadata_of(document: pdfium.PdfDocument) -> dict[str, Any]:
    """Author and times, as far as present."""
    author = document.get_metadata_value("Author").strip()
    found = {"author": "" if author.casefold() in _NOBODY else author}
    found["created_at"] = _date(document.get_metadata_value("CreationDate"))
    found["last_updated"] = _date(document.get_metadata_value("ModDate"))
    return {name: value for name, value in found.items() if value}


def _date(text: str) -> str:
    """Converts a PDF date (ISO 32000-1, 7.9.4) to ISO 8601; "" if it is invalid."""
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


def draw_pages(path: Path, job: ReadingJob, output: Output) -> None:
    """Renders each page that the job names."""
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
