"""Tables of a PDF page: by the lines that are drawn around cells, or by cells that stand below each other."""

from __future__ import annotations

import ctypes
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise

import pypdfium2 as pdfium
from pypdfium2 import raw

from opx.formats.pdf.rows import Row, Segment, Word

_THIN = 2.5
"""Points: a stroke that rises no more than this is level."""
_NEAR = 3.0
_MIN_LENGTH = 8.0
_MAX_STROKES = 5000
"""A page with more has a drawing, not a table."""
_FILLED = 0.6
"""Of a table's cells, at least."""
_TORN = 0.3
"""Of its rows, at most, have a wide space within a cell."""
_FILLED_BOXES = 0.4
_LONG_CELL = 30
"""Characters of a line, on average, from which two columns are of text and no table's."""


@dataclass(frozen=True, slots=True)
class Grid:
    """Where cells end: `xs` ascending, `ys` from the top down."""

    xs: tuple[float, ...]
    ys: tuple[float, ...]

    def holds(self, segment: Segment) -> bool:
        middle = (segment.y0 + segment.y1) / 2
        return (
            self.xs[0] - _NEAR <= segment.x0
            and segment.x1 <= self.xs[-1] + _NEAR
            and (self.ys[-1] - _NEAR <= middle <= self.ys[0] + _NEAR)
        )

    def fits(self, segments: Sequence[Segment]) -> bool:
        """Whether these are cells, and not boxes around words or a drawing: filled mostly, and no word across a line."""
        cells = self.cells(segments)
        filled = sum(bool(cell) for row in cells for cell in row)
        if filled < 3 or filled < _FILLED_BOXES * len(cells) * (len(self.xs) - 1):
            return False
        words = [word for segment in segments for word in segment.words]
        crossing = sum(any(word.x0 + _NEAR < x < word.x1 - _NEAR for x in self.xs) for word in words)
        return crossing <= 0.05 * len(words)

    def cells(self, segments: Iterable[Segment]) -> list[list[str]]:
        """The text in each cell, row by row."""
        found: list[list[list[Word]]] = [[[] for _ in self.xs[1:]] for _ in self.ys[1:]]
        falling = [-y for y in self.ys]
        for word in (word for segment in segments for word in segment.words):
            column = bisect_right(self.xs, (word.x0 + word.x1) / 2) - 1
            row = bisect_right(falling, -(word.y0 + word.y1) / 2) - 1
            column, row = min(max(column, 0), len(self.xs) - 2), min(max(row, 0), len(self.ys) - 2)
            found[row][column].append(word)
        rows = [[" ".join(word.text for word in cell) for cell in row] for row in found]
        return [row for row in rows if any(row)]


@dataclass(frozen=True, slots=True)
class _Line:
    """From `start` to `end` along its direction, at `at` across it."""

    at: float
    start: float
    end: float


def grids(page: pdfium.PdfPage) -> list[Grid]:
    """Tables with lines around their cells: two columns and two rows at least."""
    level, upright = _lines(page)
    if len(level) < 3 or len(upright) < 3:
        return []
    found = []
    for group_level, group_upright in _connected(level, upright):
        xs = _distinct(line.at for line in group_upright)
        ys = _distinct(line.at for line in group_level)[::-1]
        if len(xs) >= 3 and len(ys) >= 3:
            found.append(Grid(tuple(xs), tuple(ys)))
    return found


def _lines(page: pdfium.PdfPage) -> tuple[list[_Line], list[_Line]]:
    """Level and upright lines; none at all of a drawing."""
    level: list[_Line] = []
    upright: list[_Line] = []
    drawn = 0
    for shape in page.get_objects(filter=[raw.FPDF_PAGEOBJ_PATH], max_depth=3):
        drawn += max(1, raw.FPDFPath_CountSegments(shape))
        if drawn > _MAX_STROKES:
            return [], []
        for (x0, y0), (x1, y1) in chain.from_iterable(map(pairwise, _corners(shape))):
            if abs(y1 - y0) <= _THIN and abs(x1 - x0) >= _MIN_LENGTH:
                level.append(_Line((y0 + y1) / 2, min(x0, x1), max(x0, x1)))
            elif abs(x1 - x0) <= _THIN and abs(y1 - y0) >= _MIN_LENGTH:
                upright.append(_Line((x0 + x1) / 2, min(y0, y1), max(y0, y1)))
    return level, upright


_Point = tuple[float, float]


def _corners(shape: pdfium.PdfObject) -> Iterator[list[_Point]]:
    """The points of each line of a shape, as they are on the page; curves as their ends."""
    matrix = shape.get_matrix()
    x, y = ctypes.c_float(), ctypes.c_float()
    points: list[_Point] = []
    for index in range(raw.FPDFPath_CountSegments(shape)):
        segment = raw.FPDFPath_GetPathSegment(shape, index)
        raw.FPDFPathSegment_GetPoint(segment, x, y)
        if raw.FPDFPathSegment_GetType(segment) == raw.FPDF_SEGMENT_MOVETO and points:
            yield points
            points = []
        points.append(matrix.on_point(x.value, y.value))
        if raw.FPDFPathSegment_GetClose(segment):
            points.append(points[0])
    if points:
        yield points


def _connected(level: Sequence[_Line], upright: Sequence[_Line]) -> list[tuple[list[_Line], list[_Line]]]:
    """Groups of lines that cross or touch."""
    groups: list[tuple[list[_Line], list[_Line]]] = []
    for one in level:
        touched = [line for line in upright if _cross(one, line)]
        joined = [group for group in groups if any(line in group[1] for line in touched)]
        rest = [group for group in groups if group not in joined]
        levels = [one, *(line for group in joined for line in group[0])]
        uprights = list(dict.fromkeys([*touched, *(line for group in joined for line in group[1])]))
        groups = [*rest, (levels, uprights)]
    return groups


def _cross(level: _Line, upright: _Line) -> bool:
    return (
        level.start - _NEAR <= upright.at <= level.end + _NEAR
        and upright.start - _NEAR <= level.at <= upright.end + _NEAR
    )


def _distinct(values: Iterable[float]) -> list[float]:
    """Ascending, those nearer than a few points as one."""
    kept: list[float] = []
    for value in sorted(values):
        if not kept or value - kept[-1] > _NEAR:
            kept.append(value)
    return kept


def columns_of(rows: Sequence[Row]) -> list[tuple[float, float]]:
    """The columns that rows of several segments share, from left to right; fewer than two if they share none."""
    spans = sorted((segment.x0, segment.x1) for row in rows for segment in row.segments)
    columns: list[tuple[float, float]] = []
    for x0, x1 in spans:
        if columns and x0 < columns[-1][1] + _NEAR:
            columns[-1] = (columns[-1][0], max(columns[-1][1], x1))
        else:
            columns.append((x0, x1))
    return columns


def shared_columns(rows: Sequence[Row]) -> list[tuple[float, float]]:
    """The columns that rows have in common; none if these are lines of text with wide spaces, as of justified text."""
    several = [row for row in rows if len(row.segments) > 1]
    columns = columns_of(rows)
    if len(columns) < 2 or len(several) < (2 if len(columns) > 2 else 3):
        return []
    cells = [cell for row in rows for cell in in_columns(row, columns)]
    filled = sum(map(bool, cells))
    torn = sum(len(cell) > 1 for cell in cells)
    return columns if filled >= _FILLED * len(cells) and torn <= _TORN * len(rows) else []


def in_columns(row: Row, columns: Sequence[tuple[float, float]]) -> list[list[Segment]]:
    """The row's segments by column."""
    cells: list[list[Segment]] = [[] for _ in columns]
    for segment in row.segments:
        middle = (segment.x0 + segment.x1) / 2
        at = next((index for index, (_, end) in enumerate(columns) if middle <= end), len(columns) - 1)
        cells[at].append(segment)
    return cells


def is_running_text(rows: Sequence[Row], columns: Sequence[tuple[float, float]]) -> bool:
    """Whether rows side by side are columns of text: a few wide ones, filled from edge to edge."""
    if len(columns) > 3 or len(rows) < 5:
        return False
    for index in range(len(columns)):
        texts = [
            " ".join(s.text for s in cells) for cells in (in_columns(row, columns)[index] for row in rows) if cells
        ]
        if not texts or sum(map(len, texts)) / len(texts) < _LONG_CELL:
            return False
    return True


def aligned_cells(rows: Sequence[Row], columns: Sequence[tuple[float, float]]) -> list[list[str]]:
    """The table's rows; a row whose first cell is empty goes on with the one above if it stands right below."""
    found: list[list[str]] = []
    above: Row | None = None
    for row in rows:
        cells = [" ".join(s.text for s in cell) for cell in in_columns(row, columns)]
        close = above is not None and above.y0 - row.y1 < 0.35 * (row.y1 - row.y0)
        if found and not cells[0] and close:
            found[-1] = [f"{one} {more}".strip() for one, more in zip(found[-1], cells, strict=True)]
        else:
            found.append(cells)
        above = row
    return found
