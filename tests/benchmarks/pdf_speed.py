"""Compares reading of PDFs in pages per second with pypdf and pdfplumber, on the same file in one run.

The file is made here (headings, paragraphs, a table with lines every third page), or any that is named. The peers only
extract text; ours also finds headings, columns, tables and code, and leaves out headers. `opx_isolated` is the total cost
of a document, with the process of its own and its output read back.
"""

from __future__ import annotations

import argparse
import io
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pdfplumber
import pypdf
from reportlab.lib.pagesizes import A4
from reportlab.pdfgen.canvas import Canvas

from opx.domain.knowledge import Category, Tier
from opx.formats.pdf.pages import read_pdf
from opx.formats.registry import parse
from opx.formats.sandbox.output import Output, ReadingJob
from opx.ports.models import ParsingLimits, ParsingTools

ROUNDS = 3
SENTENCE = "If the replica lags more than a minute, stop the batch jobs and look at the queue of the primary first."


def a_document(pages: int) -> bytes:
    target = io.BytesIO()
    canvas = Canvas(target, pagesize=A4, invariant=True)
    for page in range(pages):
        canvas.setFont("Helvetica-Bold", 16)
        canvas.drawString(60, 780, f"Section {page + 1}")
        canvas.setFont("Helvetica", 10)
        for line in range(40):
            canvas.drawString(60, 750 - 13 * line, SENTENCE)
        if page % 3 == 0:
            canvas.grid([60, 200, 340], [120, 140, 160, 180])
            for cell in range(6):
                canvas.drawString(64 + 140 * (cell % 2), 126 + 20 * (cell // 2), f"cell {cell}")
        canvas.showPage()
    canvas.save()
    return target.getvalue()


def with_pypdf(data: bytes) -> int:
    return sum(len(page.extract_text()) for page in pypdf.PdfReader(io.BytesIO(data)).pages)


def with_pdfplumber(data: bytes) -> int:
    with pdfplumber.open(io.BytesIO(data)) as document:
        return sum(len(page.extract_text()) for page in document.pages)


def with_opx(data: bytes) -> int:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "input").write_bytes(data)
        with Output(folder, 1 << 30, 0) as output:
            read_pdf(folder / "input", ReadingJob("pdf", "a.pdf", 100_000, 1 << 30, 0), output)
        return (folder / "parts.jsonl").stat().st_size


def isolated(data: bytes) -> int:
    category = Category("notes", Tier.INTERNAL, 1.0, "permanent")
    tools = ParsingTools(limits=ParsingLimits(seconds=600, pages=100_000))
    return sum(map(len, parse(io.BytesIO(data), name="a.pdf", category=category, tools=tools).lines))


def best(read: Callable[[bytes], int], data: bytes, rounds: int = ROUNDS) -> float:
    """Seconds of the fastest round."""
    times = []
    for _ in range(rounds):
        started = time.perf_counter()
        read(data)
        times.append(time.perf_counter() - started)
    return min(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--file", type=Path, help="read this file instead of one that is made")
    parser.add_argument("--pages", type=int, default=90, help="pages of the file that is made")
    options = parser.parse_args()
    data = options.file.read_bytes() if options.file else a_document(options.pages)
    pages = len(pypdf.PdfReader(io.BytesIO(data)).pages)
    readers = {"opx": with_opx, "opx_isolated": isolated, "pypdf": with_pypdf, "pdfplumber": with_pdfplumber}
    speeds = {name: round(pages / best(read, data), 1) for name, read in readers.items()}
    overhead = round(1000 * best(isolated, a_document(1), 5))
    print(json.dumps({"pages": pages, "pages_per_s": speeds, "one_page_isolated_ms": overhead}))


if __name__ == "__main__":
    main()
