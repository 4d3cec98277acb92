"""Builders of small files in binary formats, and helpers that read them."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from email.message import EmailMessage

import pytest
from PIL import Image, ImageDraw
from reportlab.lib.pagesizes import A4
from reportlab.pdfgen.canvas import Canvas

from opx.domain.documents import Remark, RemarkKind
from opx.errors import UnparsableDocumentError
from opx.formats.registry import parse
from opx.formats.sandbox import child
from opx.formats.sandbox import workspace as isolation
from opx.ports.models import ParsingTools
from tests.support.parsing_support import a_category


@pytest.fixture
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reads files without a process of their own, which takes most of the time for small ones."""
    monkeypatch.setattr(isolation, "_run", lambda folder, seconds: child.main(folder))
    monkeypatch.setattr(child, "_limit", lambda *limits: None)


@dataclass(frozen=True)
class Read:
    """The parsed content of a file."""

    text: str
    title: str | None
    metadata: Mapping[str, object]
    remarks: Sequence[Remark]

    def remarks_of(self, kind: RemarkKind) -> list[str]:
        return [remark.text for remark in self.remarks if remark.kind is kind]

    @property
    def unread(self) -> list[str]:
        return self.remarks_of(RemarkKind.UNREAD_PART)

    @property
    def undescribed(self) -> list[str]:
        return self.remarks_of(RemarkKind.UNDESCRIBED_IMAGE)


def read(data: bytes, name: str, tools: ParsingTools | None = None) -> Read:
    found = parse(io.BytesIO(data), name=name, category=a_category(), tools=tools or ParsingTools())
    text = "".join(found.lines)
    return Read(text, found.title, found.metadata, found.remarks)


def refused(data: bytes, name: str, tools: ParsingTools | None = None) -> str:
    """The reason why the file is refused."""
    with pytest.raises(UnparsableDocumentError) as caught:
        read(data, name, tools)
    assert str(caught.value).startswith(f"{name}: ")
    return str(caught.value)


@dataclass
class FakeOcr:
    """Returns the same text for every page, and records its input."""

    text: str = "words of the picture"
    seen: list[bytes] = field(default_factory=list)

    def read(self, image: bytes, *, media_type: str) -> str:
        assert media_type in ("image/png", "image/jpeg")
        self.seen.append(image)
        return self.text


@dataclass
class FakeDescriber:
    """Returns the same description for every picture, and records the hints."""

    text: str = "a diagram of two boxes"
    hints: list[str] = field(default_factory=list)

    def describe(self, image: bytes, *, media_type: str, hint: str = "") -> str:
        assert image
        self.hints.append(hint)
        return self.text


class PdfWriter:
    """Draws a PDF line by line."""

    def __init__(self, **metadata: str) -> None:
        self._target = io.BytesIO()
        self.canvas = Canvas(self._target, pagesize=A4, invariant=True)
        for name, value in metadata.items():
            getattr(self.canvas, f"set{name.capitalize()}")(value)

    def line(self, x: float, y: float, text: str, *, font: str = "Helvetica", size: float = 10) -> PdfWriter:
        self.canvas.setFont(font, size)
        self.canvas.drawString(x, y, text)
        return self

    def paragraph(self, x: float, y: float, *lines: str, step: float = 12) -> PdfWriter:
        for number, text in enumerate(lines):
            self.line(x, y - number * step, text)
        return self

    def grid(self, xs: Sequence[float], ys: Sequence[float]) -> PdfWriter:
        self.canvas.grid(list(xs), list(ys))
        return self

    def picture(self, image: bytes, x: float, y: float, width: float, height: float) -> PdfWriter:
        from reportlab.lib.utils import ImageReader

        self.canvas.drawImage(ImageReader(io.BytesIO(image)), x, y, width, height)
        return self

    def next_page(self) -> PdfWriter:
        self.canvas.showPage()
        return self

    def data(self) -> bytes:
        self.canvas.save()
        return self._target.getvalue()


def a_picture(text: str = "", *, size: tuple[int, int] = (400, 200), kind: str = "PNG", shade: int = 255) -> bytes:
    image = Image.new("RGB", size, (shade, shade, shade))
    if text:
        ImageDraw.Draw(image).text((20, 60), text, fill="black", font_size=48)
    target = io.BytesIO()
    image.save(target, kind)
    return target.getvalue()


def a_scan(text: str = "Restart the broker") -> bytes:
    """A PDF with one page that is only a picture."""
    return PdfWriter().picture(a_picture(text, size=(1000, 400)), 50, 400, 500, 200).data()


_W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
_R = 'xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"'
_TYPES = (
    '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
    '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
    '<Default Extension="xml" ContentType="application/xml"/><Default Extension="png" ContentType="image/png"/>'
    '<Override PartName="/word/document.xml" ContentType='
    '"application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"/></Types>'
)
_RELATIONS = (
    '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship Id="rId1" '
    'Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument" '
    'Target="word/document.xml"/></Relationships>'
)
_STYLES = (
    f'<w:styles {_W}><w:style w:type="paragraph" w:styleId="Heading1"><w:name w:val="heading 1"/></w:style>'
    '<w:style w:type="paragraph" w:styleId="Heading2"><w:name w:val="heading 2"/></w:style></w:styles>'
)
_CORE = (
    '<cp:coreProperties xmlns:cp="http://schemas.openxmlformats.org/package/2006/metadata/core-properties" '
    'xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:dcterms="http://purl.org/dc/terms/">'
    "<dc:title>Failover guide</dc:title><dc:creator>Ada Ops</dc:creator>"
    "<dcterms:created>2024-05-06T07:08:09Z</dcterms:created></cp:coreProperties>"
)
_DOCUMENT_RELATIONS = (
    '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">'
    '<Relationship Id="link" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/hyperlink" '
    'Target="https://status.example.com/" TargetMode="External"/>'
    '<Relationship Id="styles" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/styles" '
    'Target="styles.xml"/>'
    '<Relationship Id="notes" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/footnotes" '
    'Target="footnotes.xml"/>'
    '<Relationship Id="picture" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/image" '
    'Target="media/image1.png"/></Relationships>'
)


def w_paragraph(text: str, style: str = "") -> str:
    properties = f'<w:pPr><w:pStyle w:val="{style}"/></w:pPr>' if style else ""
    return f"<w:p>{properties}<w:r><w:t>{text}</w:t></w:r></w:p>"


def w_table(*rows: Sequence[str]) -> str:
    cells = ("".join(f"<w:tc>{w_paragraph(cell)}</w:tc>" for cell in row) for row in rows)
    return "<w:tbl>" + "".join(f"<w:tr>{row}</w:tr>" for row in cells) + "</w:tbl>"


W_LINK = '<w:p><w:hyperlink r:id="link"><w:r><w:t>status page</w:t></w:r></w:hyperlink></w:p>'
W_FOOTNOTE = '<w:p><w:r><w:t>Fail over</w:t></w:r><w:r><w:footnoteReference w:id="2"/></w:r></w:p>'
W_PICTURE = (
    '<w:p><w:r><w:drawing><wp:inline xmlns:wp="http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing">'
    '<wp:docPr id="1" name="p" descr="the cluster"/>'
    '<a:graphic xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main"><a:graphicData>'
    '<pic:pic xmlns:pic="http://schemas.openxmlformats.org/drawingml/2006/picture"><pic:blipFill>'
    '<a:blip r:embed="picture"/></pic:blipFill></pic:pic></a:graphicData></a:graphic></wp:inline></w:drawing></w:r></w:p>'
)


def a_docx(*blocks: str, extra: Mapping[str, str | bytes] | None = None) -> bytes:
    """A Word document of these blocks of its XML."""
    document = f"<w:document {_W} {_R}><w:body>{''.join(blocks)}</w:body></w:document>"
    footnotes = f'<w:footnotes {_W}><w:footnote w:id="2">{w_paragraph("only at night")}</w:footnote></w:footnotes>'
    parts: dict[str, str | bytes] = {
        "[Content_Types].xml": _TYPES,
        "_rels/.rels": _RELATIONS,
        "word/document.xml": document,
        "word/styles.xml": _STYLES,
        "word/footnotes.xml": footnotes,
        "word/_rels/document.xml.rels": _DOCUMENT_RELATIONS,
        "word/media/image1.png": a_picture("x"),
        "docProps/core.xml": _CORE,
    }
    return a_zip({**parts, **(extra or {})})


def w_margin(kind: str, text: str) -> str:
    return f"<w:{kind} {_W}>{w_paragraph(text)}</w:{kind}>"


def a_zip(parts: Mapping[str, str | bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", method) as package:
        for name, data in parts.items():
            package.writestr(name, data)
    return target.getvalue()


def an_email(text: str = "The broker is down.", *, html: str = "", subject: str = "Broker down") -> EmailMessage:
    message = EmailMessage()
    message["Subject"] = subject
    message["From"] = "Ada Ops <ada@example.com>"
    message["To"] = "team@example.com"
    message["Date"] = "Tue, 04 Feb 2025 10:30:00 +0100"
    if text:
        message.set_content(text)
    if html and text:
        message.add_alternative(html, subtype="html")
    elif html:
        message.set_content(html, subtype="html")
    return message


def a_presentation() -> bytes:
    """Two slides, with a table, notes, a chart and a picture."""
    from pptx import Presentation
    from pptx.chart.data import CategoryChartData
    from pptx.enum.chart import XL_CHART_TYPE
    from pptx.util import Inches

    made = Presentation()
    made.core_properties.title = "Review of the outage"
    slide = made.slides.add_slide(made.slide_layouts[5])
    slide.shapes.title.text = "What happened"
    low = slide.shapes.add_textbox(Inches(1), Inches(5), Inches(4), Inches(1)).text_frame
    low.text = "below the table"
    table = slide.shapes.add_table(2, 2, Inches(1), Inches(2), Inches(4), Inches(1)).table
    for at, text in enumerate(["Host", "Role", "db1", "primary"]):
        table.cell(at // 2, at % 2).text = text
    slide.notes_slide.notes_text_frame.text = "Mention the pager."
    second = made.slides.add_slide(made.slide_layouts[6])
    data = CategoryChartData()  # type: ignore[no-untyped-call]
    data.categories = ["May", "June"]
    data.add_series("Outages", (3, 1))  # type: ignore[no-untyped-call]
    second.shapes.add_chart(XL_CHART_TYPE.COLUMN_CLUSTERED, Inches(1), Inches(1), Inches(4), Inches(3), data)
    second.shapes.add_picture(io.BytesIO(a_picture("x")), Inches(1), Inches(5))
    target = io.BytesIO()
    made.save(target)
    return target.getvalue()


def a_workbook(**sheets: Sequence[Sequence[object]]) -> bytes:
    """A workbook of sheets with these rows; one whose name begins with `Hidden` is hidden."""
    from openpyxl import Workbook

    made = Workbook()
    made.remove(made.active)
    for title, rows in sheets.items():
        sheet = made.create_sheet(title)
        for row in rows:
            sheet.append(list(row))
        if title.startswith("Hidden"):
            sheet.sheet_state = "hidden"
    target = io.BytesIO()
    made.save(target)
    return target.getvalue()
