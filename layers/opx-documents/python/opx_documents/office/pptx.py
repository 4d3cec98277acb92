"""Reads PowerPoint presentations slide by slide."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from pptx import Presentation
from pptx.enum.shapes import MSO_SHAPE_TYPE
from pptx.exc import PackageNotFoundError

from opx.errors import UnparsableDocumentError
from opx.formats.markdown import heading, one_line, plain, table
from opx.formats.sandbox.output import Output, ReadingJob
from opx_documents.office.packages import checked_package, core_metadata

_SLIDE_LEVEL = 2
_MAX_DEPTH = 20
_SAME_LINE = 100_000
"""EMU (914,400 an inch): shapes whose tops differ by less are beside each other."""


def read_pptx(path: Path, job: ReadingJob, output: Output) -> None:
    """Writes a section per slide: its title, texts, tables, charts' figures, pictures and notes, from top to bottom."""
    with checked_package(path, job.unpacked_bytes) as package:
        title, metadata = core_metadata(package)
    try:
        presentation = Presentation(str(path))
    except (PackageNotFoundError, KeyError, ValueError) as exc:
        raise UnparsableDocumentError("it is no PowerPoint presentation; save it again as .pptx") from exc
    slides = presentation.slides
    for number, slide in enumerate(slides, start=1):
        if number > job.pages:
            output.unread(f"only the first {job.pages:,} of {len(slides):,} slides are read (OPX_PARSE_PAGES)")
            break
        _write_slide(slide, number, output)
    output.finish("" if title == "PowerPoint Presentation" else title, metadata)


def _write_slide(slide: Any, number: int, output: Output) -> None:
    shape_of_title = slide.shapes.title
    title = one_line(shape_of_title.text_frame.text) if shape_of_title is not None else ""
    output.text(heading(_SLIDE_LEVEL, title or f"Slide {number}"))
    for shape in _ordered(slide.shapes):
        if shape_of_title is None or shape.shape_id != shape_of_title.shape_id:
            _write_shape(shape, number, output)
    if slide.has_notes_slide and slide.notes_slide.notes_text_frame is not None:
        notes = slide.notes_slide.notes_text_frame.text.strip()
        if notes:
            output.text(f"Notes: {plain(notes)}")


def _ordered(shapes: Iterable[Any], depth: int = 0) -> Iterator[Any]:
    """Shapes, those of groups included, from the top down and from left to right."""
    placed = sorted(shapes, key=lambda shape: ((shape.top or 0) // _SAME_LINE, shape.left or 0))
    for shape in placed:
        if shape.shape_type == MSO_SHAPE_TYPE.GROUP and depth < _MAX_DEPTH:
            yield from _ordered(shape.shapes, depth + 1)
        else:
            yield shape


def _write_shape(shape: Any, number: int, output: Output) -> None:
    if shape.has_text_frame:
        output.text(_text(shape.text_frame))
    elif getattr(shape, "has_table", False):
        output.text(table([[cell.text for cell in row.cells] for row in shape.table.rows]))
    elif getattr(shape, "has_chart", False):
        output.text(_chart(shape.chart))
    elif shape.shape_type == MSO_SHAPE_TYPE.PICTURE:
        _write_picture(shape, number, output)


def _write_picture(shape: Any, number: int, output: Output) -> None:
    try:
        data = shape.image.blob
    except (KeyError, ValueError, AttributeError):  # linked, not embedded
        output.unread(f"a picture on slide {number} is not within the file")
        return
    output.picture(data, f"picture on slide {number}")


def _text(frame: Any) -> str:
    """Paragraphs; levels below the first as a nested list."""
    paragraphs = [(paragraph.level or 0, plain(one_line(paragraph.text))) for paragraph in frame.paragraphs]
    paragraphs = [(level, text) for level, text in paragraphs if text]
    if len(paragraphs) == 1:
        return paragraphs[0][1]
    return "\n".join(f"{'  ' * level}- {text}" for level, text in paragraphs)


def _chart(chart: Any) -> str:
    """A chart's data as a table of categories and series."""
    title = one_line(chart.chart_title.text_frame.text) if chart.has_title and chart.chart_title.has_text_frame else ""
    rows: list[list[str]] = []
    for plot in chart.plots:
        series = list(plot.series)
        rows.append(["", *(str(each.name) for each in series)])
        values = [list(each.values) for each in series]
        for at, category in enumerate(plot.categories):
            rows.append([str(category), *(str(column[at]) if at < len(column) else "" for column in values)])
    return "\n\n".join(part for part in (title, table(rows)) if part)
