"""Converts rows of a PDF page to blocks of Markdown: headings, paragraphs, lists, code and tables."""

from __future__ import annotations

import ctypes
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, groupby, pairwise

import pypdfium2 as pdfium
from pypdfium2 import raw

from opx.formats.markdown import code, heading, one_line, plain, table
from opx_documents.pdf.rows import BULLET, Segment, TextRow, Word

MAX_HEADING = 160
_ITEM = re.compile(r"(?:\d{1,3}|[a-z])[.)]\s")
_GAPS = {"heading": 0.6, "text": 0.9, "code": 1.5}
"""In line heights: from this gap on, the next line is of another block."""
_SENTENCE_END = (".", "!", "?", ":", ";", "。")
_PITCH = 0.6
"""Character width of most fixed-pitch fonts, in font sizes."""
_MAX_SPACES = 60
_HYPHENATED = re.compile(r"[^\W\d_]\Z")


@dataclass(frozen=True, slots=True)
class Style:
    """Font sizes of a document: its running text, and its headings from the largest down."""

    body: float
    headings: tuple[float, ...] = ()
    by_outline: bool = False

    def level(self, row: TextRow) -> int:
        """The level of a heading by its size, 0 for other rows."""
        if self.by_outline or len(row.text) > MAX_HEADING or row.size < self.body * 1.12:
            return 0
        if BULLET.match(row.text) or not any(char.isalpha() for char in row.text):
            return 0
        nearest = min(self.headings, key=lambda size: abs(size - row.size), default=0.0)
        return self.headings.index(nearest) + 1 if abs(nearest - row.size) <= 0.6 else 0


def blocks(rows: Sequence[TextRow], tables: Sequence[Grid], style: Style) -> Iterator[str]:
    """The page's blocks in reading order."""
    for part in _joined_flows(_parts(rows, tables)):
        if isinstance(part, Grid):
            inside = [segment for row in rows for segment in row.segments if part.holds(segment)]
            yield table(part.cells(inside))
            continue
        columns = shared_columns(part)
        if not columns:
            yield from _flow(part, style)
        elif is_running_text(part, columns):
            for index in range(len(columns)):
                cells = (in_columns(row, columns)[index] for row in part)
                yield from _flow([TextRow(cell) for cell in cells if cell], style)
        else:
            yield table(aligned_cells(part, columns))


def _joined_flows(parts: Iterator[Grid | list[TextRow]]) -> Iterator[Grid | list[TextRow]]:
    """Joins runs of consecutive rows; rows of several segments that share no columns count as text with wide spaces."""
    for is_flow, run in groupby(parts, key=lambda part: not isinstance(part, Grid) and not shared_columns(part)):
        if is_flow:
            yield [row for part in run if not isinstance(part, Grid) for row in part]
        else:
            yield from run


def _parts(rows: Sequence[TextRow], tables: Sequence[Grid]) -> Iterator[Grid | list[TextRow]]:
    """Rows between tables: runs of rows with one segment, and runs of rows with several, which may be columns."""
    run: list[TextRow] = []
    done: list[Grid] = []
    for row in rows:
        grid = next((each for each in tables if any(map(each.holds, row.segments))), None)
        if run and (grid is not None or _parted(run, row)):
            yield run
            run = []
        if grid is None:
            run.append(row)
            continue
        if grid not in done:
            done.append(grid)
            yield grid
        outside = [segment for segment in row.segments if not grid.holds(segment)]
        run = [TextRow(outside)] if outside else []
    if run:
        yield run


def _parted(run: list[TextRow], row: TextRow) -> bool:
    """True if the row begins a run: one of several segments after one of a single segment, or the other way round.

    A row of one segment within a table (only its first cell, say, or the rest of a cell) stays if it fits the columns.
    """
    if not any(len(each.segments) > 1 for each in run):
        return len(row.segments) > 1
    if len(row.segments) > 1:
        return False
    columns = columns_of([each for each in run if len(each.segments) > 1])
    fits = any(x0 - 2 <= row.x0 and row.x1 <= x1 + 2 for x0, x1 in columns)
    near = abs(run[-1].y0 - row.y1) < 1.2 * (row.y1 - row.y0)
    return not (fits and near and row.y1 <= run[-1].y1)


@dataclass(slots=True)
class _Block:
    """Rows that belong together."""

    kind: str
    rows: list[TextRow] = field(default_factory=list)
    level: int = 0


def _flow(rows: Sequence[TextRow], style: Style) -> Iterator[str]:
    """Blocks of consecutive rows."""
    right = _right_edge(rows)
    block = _Block("")
    for row in rows:
        kind, level = _kind(row, style)
        if block.rows and (kind != block.kind or level != block.level or _begins(block, row, right)):
            yield _text(block)
            block = _Block("")
        block.kind, block.level = kind, level
        block.rows.append(row)
    if block.rows:
        yield _text(block)


def _right_edge(rows: Sequence[TextRow]) -> float:
    """Right edge of full lines: the 90th percentile, so that one long line doesn't make all others short."""
    ends = sorted(row.x1 for row in rows)
    return ends[int(len(ends) * 0.9)] if ends else 0.0


def _kind(row: TextRow, style: Style) -> tuple[str, int]:
    level = row.level or style.level(row)
    if level:
        return "heading", level
    if all(segment.mono for segment in row.segments):
        return "code", 0
    if _is_bold_heading(row, style):
        return "heading", min(len(style.headings) + 1, 4)
    return "text", 0


def _is_bold_heading(row: TextRow, style: Style) -> bool:
    text = row.text
    if style.by_outline or not all(segment.bold for segment in row.segments) or row.size < style.body * 0.95:
        return False
    return len(text) <= 80 and not text.endswith((".", ",", ";", ":")) and any(char.isalpha() for char in text)


def _begins(block: _Block, row: TextRow, right: float) -> bool:
    """True if a row of the same kind begins a new block."""
    above = block.rows[-1]
    height = max(above.y1 - above.y0, row.y1 - row.y0, row.size)
    gap = above.y0 - row.y1
    if row.y0 > above.y1:  # further up: the next column
        return block.kind != "text" or above.text.endswith(_SENTENCE_END)
    if gap > _GAPS[block.kind] * height:
        return True
    if block.kind != "text":
        return False
    if abs(above.size - row.size) > 0.15 * above.size or BULLET.match(row.text) or _ITEM.match(row.text):
        return True
    return _new_paragraph(block, row, right)


def _new_paragraph(block: _Block, row: TextRow, right: float) -> bool:
    """True for an indented first line, or one after a line that ended early."""
    above, first = block.rows[-1], block.rows[0]
    if above.segments[-1].hyphen:
        return False
    is_item = bool(BULLET.match(first.text) or _ITEM.match(first.text))
    indented = row.x0 > above.x0 + 0.8 * row.size and len(block.rows) > 1
    early = above.x1 < right - 0.15 * (right - above.x0) and above.text.endswith(_SENTENCE_END)
    return (indented and not is_item) or early


def _text(block: _Block) -> str:
    if block.kind == "heading":
        return heading(block.level, _joined(block.rows))
    if block.kind == "code":
        return code(_code_lines(block.rows))
    text = _joined(block.rows)
    bullet = BULLET.match(text)
    return f"- {text[bullet.end() :]}" if bullet else plain(text)


def _joined(rows: Sequence[TextRow]) -> str:
    """Joins the rows' text into one line, and words parted by a hyphen, unless they go on in capitals."""
    text = ""
    hyphen = False
    for row in rows:
        line = one_line(row.text)
        parted = hyphen and line[:1].islower() and _HYPHENATED.search(text)
        text += ("" if not text or parted else "-" if hyphen else " ") + line
        hyphen = row.segments[-1].hyphen
    return text


def _code_lines(rows: Sequence[TextRow]) -> list[str]:
    """Lines with their indentation, by their position on the page, and gaps as blank lines."""
    left = min(row.x0 for row in rows)
    lines: list[str] = []
    above: TextRow | None = None
    for row in rows:
        if above is not None and above.y0 - row.y1 > 0.8 * row.size:
            lines.append("")
        lines.append(" " * min(round((row.x0 - left) / (_PITCH * row.size)), _MAX_SPACES) + _spaced(row))
        above = row
    return lines


def _spaced(row: TextRow) -> str:
    """Spaces words by their distance on the page; their boxes exclude the space around letters."""
    text = ""
    end = row.x0
    for word in (word for segment in row.segments for word in segment.words):
        spaces = round((word.x0 - end) / (_PITCH * row.size) - 0.4)
        text += " " * max(1, min(spaces, _MAX_SPACES)) * bool(text) + word.text
        end = word.x1
    return text + ("-" if row.segments[-1].hyphen else "")


# -- tables


_THIN = 2.5
"""Points: a stroke that rises no more than this is horizontal."""
_NEAR = 3.0
_MIN_LENGTH = 8.0
_MAX_STROKES = 5000
"""A page with more has a drawing, not a table."""
_FILLED = 0.6
"""Minimum share of a table's cells with text."""
_TORN = 0.3
"""Maximum share of its rows with a wide space within a cell."""
_FILLED_BOXES = 0.4
_LONG_CELL = 30
"""Average characters of a line from which two columns are running text and no table."""


@dataclass(frozen=True, slots=True)
class Grid:
    """Cell borders: `xs` ascending, `ys` from the top down."""

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
        """True if these are cells, not boxes around words or a drawing: mostly filled, and no word across a line."""
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
    """A line from `start` to `end` along its direction, at `at` across it."""

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
    """Horizontal and vertical lines; none for a drawing."""
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
    """End points of each line of a shape, in page coordinates; curves by their ends."""
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
    """Sorts values, merging those closer than a few points."""
    kept: list[float] = []
    for value in sorted(values):
        if not kept or value - kept[-1] > _NEAR:
            kept.append(value)
    return kept


def columns_of(rows: Sequence[TextRow]) -> list[tuple[float, float]]:
    """The columns that rows of several segments share, from left to right; fewer than two if they share none."""
    spans = sorted((segment.x0, segment.x1) for row in rows for segment in row.segments)
    columns: list[tuple[float, float]] = []
    for x0, x1 in spans:
        if columns and x0 < columns[-1][1] + _NEAR:
            columns[-1] = (columns[-1][0], max(columns[-1][1], x1))
        else:
            columns.append((x0, x1))
    return columns


def shared_columns(rows: Sequence[TextRow]) -> list[tuple[float, float]]:
    """The columns that rows have in common; none for lines of text with wide spaces, such as justified text."""
    several = [row for row in rows if len(row.segments) > 1]
    columns = columns_of(rows)
    if len(columns) < 2 or len(several) < (2 if len(columns) > 2 else 3):
        return []
    cells = [cell for row in rows for cell in in_columns(row, columns)]
    filled = sum(map(bool, cells))
    torn = sum(len(cell) > 1 for cell in cells)
    return columns if filled >= _FILLED * len(cells) and torn <= _TORN * len(rows) else []


def in_columns(row: TextRow, columns: Sequence[tuple[float, float]]) -> list[list[Segment]]:
    """The row's segments by column."""
    cells: list[list[Segment]] = [[] for _ in columns]
    for segment in row.segments:
        middle = (segment.x0 + segment.x1) / 2
        at = next((index for index, (_, end) in enumerate(columns) if middle <= end), len(columns) - 1)
        cells[at].append(segment)
    return cells


def is_running_text(rows: Sequence[TextRow], columns: Sequence[tuple[float, float]]) -> bool:
    """True if rows side by side are columns of text: a few wide ones, filled from edge to edge."""
    if len(columns) > 3 or len(rows) < 5:
        return False
    for index in range(len(columns)):
        texts = [
            " ".join(s.text for s in cells) for cells in (in_columns(row, columns)[index] for row in rows) if cells
        ]
        if not texts or sum(map(len, texts)) / len(texts) < _LONG_CELL:
            return False
    return True


def aligned_cells(rows: Sequence[TextRow], columns: Sequence[tuple[float, float]]) -> list[list[str]]:
    """The table's rows; a row with an empty first cell continues the one above if it is right below it."""
    found: list[list[str]] = []
    above: TextRow | None = None
    for row in rows:
        cells = [" ".join(s.text for s in cell) for cell in in_columns(row, columns)]
        close = above is not None and above.y0 - row.y1 < 0.35 * (row.y1 - row.y0)
        if found and not cells[0] and close:
            found[-1] = [f"{one} {more}".strip() for one, more in zip(found[-1], cells, strict=True)]
        else:
            found.append(cells)
        above = row
    return found
