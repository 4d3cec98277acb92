"""Comments that readers left on the pages of a PDF file (ISO 32000-1, 12.5.6: markup annotations)."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator

import pypdfium2 as pdfium
from pypdfium2 import raw

from opx.extraction.markdown import one_line
from opx.extraction.output import Output

MAX_COMMENTS = 500
_MAX_ANNOTATIONS = 2000
"""Of a page; most are links."""
_MAX_LENGTH = 2000
_NO_COMMENTS = (raw.FPDF_ANNOT_LINK, raw.FPDF_ANNOT_POPUP, raw.FPDF_ANNOT_WIDGET, raw.FPDF_ANNOT_FILEATTACHMENT)


class Comments:
    """Gathers the comments on pages, which come at the end: in between they would part sentences."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._found: dict[str, None] = {}
        self._left_out = 0

    def add(self, page: pdfium.PdfPage, index: int) -> None:
        """Those of a page (from 0); one that is there already, as flattening may leave some, is not taken again."""
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
    """What comments on the page say, and who says it where that is known. They are gone once the page is flattened."""
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
    if size <= 2:  # nothing but the character at its end
        return ""
    buffer = (ctypes.c_ushort * (size // 2 + 1))()
    raw.FPDFAnnot_GetStringValue(annotation, key, buffer, size)
    return one_line(bytes(buffer)[: size - 2].decode("utf-16-le", "replace"))[:_MAX_LENGTH]
