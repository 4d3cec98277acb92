"""Converts Word documents to HTML by mammoth and on to Markdown like HTML pages."""

from __future__ import annotations

import re
import secrets
import zipfile
from pathlib import Path
from xml.etree import ElementTree as ET

import mammoth
from bs4 import BeautifulSoup, Tag
from mammoth.documents import Image

from opx.errors import UnparsableDocumentError
from opx.formats.markdown import one_line, plain
from opx.formats.markup.html import markdown_of
from opx.formats.sandbox.output import Output, ReadingJob
from opx_documents.office.packages import checked_package, core_metadata

_STYLES = """
p[style-name='Title'] => h1:fresh
p[style-name='Subtitle'] => p:fresh
p[style-name^='Code'] => pre:separator('\\n')
p[style-name='HTML Preformatted'] => pre:separator('\\n')
p[style-name='Plain Text'] => pre:separator('\\n')
r[style-name='HTML Code'] => code
comment-reference => span
"""
_MARGINS = re.compile(r"word/(?:header|footer)\d*\.xml")


def read_docx(path: Path, job: ReadingJob, output: Output) -> None:
    """Reads headings by style, lists, tables, links, notes; headers and footers once, at the end; pictures in their
    positions."""
    with checked_package(path, job.unpacked_bytes) as package:
        if "word/document.xml" not in package.namelist():
            raise UnparsableDocumentError("it is no Word document; save it again as .docx")
        title, metadata = core_metadata(package)
        margins = _margins(package)
    pictures = _Pictures()
    with path.open("rb") as file:
        found = mammoth.convert_to_html(
            file,
            convert_image=mammoth.images.img_element(pictures),
            style_map=_STYLES,
            include_embedded_style_map=False,
        )
    text = markdown_of(_with_headers(found.value))
    _write(text, pictures, output)
    output.text(plain("\n".join(margins)))
    output.finish(title, metadata)


class _Pictures:
    """Collects pictures in document order and leaves markers in the text, with the author's alternative text. The
    markers can't occur in any text by chance."""

    def __init__(self) -> None:
        self.found: list[bytes] = []
        self._mark = f"\ue000{secrets.token_hex(8)}-"
        self.pattern = re.compile(rf"[ ]?{self._mark}(\d+)\ue001")

    def __call__(self, image: Image) -> dict[str, str]:
        with image.open() as stream:
            self.found.append(stream.read())
        return {"alt": f"{image.alt_text or ''} {self._mark}{len(self.found) - 1}\ue001"}


def _write(text: str, pictures: _Pictures, output: Output) -> None:
    """Writes the text in pieces, with the pictures after the paragraph, list or table that contains them."""
    waiting: list[int] = []
    piece: list[str] = []
    for line in text.splitlines():
        waiting += map(int, pictures.pattern.findall(line))
        piece.append(pictures.pattern.sub("", line))
        if waiting and not line.strip():
            output.text("\n".join(piece))
            for number in waiting:
                output.picture(pictures.found[number], f"picture {number + 1}")
            waiting, piece = [], []
    output.text("\n".join(piece))
    for number in waiting:
        output.picture(pictures.found[number], f"picture {number + 1}")


def _with_headers(html: str) -> str:
    """Makes the first row of each table its header, which tables in Markdown need; tables within cells become text,
    empty ones are dropped."""
    soup = BeautifulSoup(html, "html.parser")
    for table in soup.find_all("table"):
        if table.find_parent("table"):
            table.replace_with(_cells_as_text(table))
        elif not table.get_text().strip() and not table.find("img"):
            table.decompose()
    for table in soup.find_all("table"):
        first = table.find("tr")
        if isinstance(first, Tag) and not table.find("th"):
            for cell in first.find_all("td", recursive=False):
                cell.name = "th"
    return str(soup)


def _cells_as_text(table: Tag) -> str:
    rows = ([cell.get_text(" ").strip() for cell in row.find_all(["td", "th"])] for row in table.find_all("tr"))
    return " / ".join(", ".join(filter(None, row)) for row in rows if any(row))


def _margins(package: zipfile.ZipFile) -> list[str]:
    """Texts of headers and footers, each once."""
    found: dict[str, None] = {}
    for name in sorted(filter(_MARGINS.fullmatch, package.namelist())):
        try:
            root = ET.fromstring(package.read(name))  # noqa: S314 - it declares no entities, which was checked
        except ET.ParseError:
            continue
        paragraphs = (p for p in root.iter() if p.tag.endswith("}p"))
        lines = (one_line("".join(t.text or "" for t in p.iter() if t.tag.endswith("}t"))) for p in paragraphs)
        found.update(dict.fromkeys(line for line in lines if line and not line.isdigit()))
    return list(found)
