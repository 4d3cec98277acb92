"""Pictures of PDF pages, for those that have to be looked at."""

from __future__ import annotations

from pathlib import Path

import pypdfium2 as pdfium

from opx.extraction.image import MAX_SIDE, encoded
from opx.extraction.output import Job, Output
from opx.extraction.pdf_document import opened

_DPI = 200
"""Dots an inch; characters of ten points are then 28 dots high, of which readers want 20 or more."""


def draw_pages(path: Path, job: Job, output: Output) -> None:
    """A picture of each page that the job names."""
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
