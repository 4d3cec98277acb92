"""Tables of HTML as Markdown can hold them: a cell that goes over several rows stands in each of them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from bs4 import Tag

MAX_COPIES = 50_000
"""Cells that are added to a page."""
_MAX_COLUMNS = 200
"""Cells that begin further right are not repeated."""
_MAX_TEXT = 300
"""Characters of a cell that are repeated; the cell itself keeps all."""
_SMALL_NUMBER = re.compile(r"[0-9]{1,2}\Z", re.ASCII)
_ROWS = re.compile(r"[0-9]{1,5}\Z", re.ASCII)
_CELLS = ["td", "th"]


@dataclass(slots=True)
class _Span:
    """A cell with the rows below it that it goes on in; `text` is what is repeated."""

    name: str
    text: str
    columns: int
    rows: int


def spread_cells(root: Tag) -> None:
    """Repeat the text of cells with `rowspan` in the rows below, so that all cells stand under their headings.

    As in the HTML standard ("Forming a table"), a cell ends with its row group. Before, `colspan` of more than two
    digits is taken away everywhere: a few bytes would become a thousand columns.
    """
    for cell in root.find_all(_CELLS, colspan=True):
        if not _SMALL_NUMBER.match(_attribute(cell, "colspan")):
            del cell["colspan"]
    groups: dict[int, list[Tag]] = {}
    for cell in root.find_all(_CELLS, rowspan=True):
        row = cell.parent
        if row is not None and row.name == "tr" and row.parent is not None and id(row.parent) not in groups:
            groups[id(row.parent)] = row.parent.find_all("tr", recursive=False)
    left = MAX_COPIES
    for rows in groups.values():
        left = _spread(rows, left)


def _spread(rows: list[Tag], left: int) -> int:
    """How many cells may still be added after those of this row group."""
    spans: dict[int, _Span] = {}
    for row in rows:
        if left <= len(spans):
            return 0
        left -= len(spans)
        spans = _fill(row, spans)
    return left


def _fill(row: Tag, spans: dict[int, _Span]) -> dict[int, _Span]:
    """Add to a row what goes on in it from above. Returns by column what goes on below it."""
    below = {at: _Span(span.name, span.text, span.columns, span.rows - 1) for at, span in spans.items()}
    column = 0
    for cell in row.find_all(_CELLS, recursive=False):
        while column in spans:
            cell.insert_before(_added(spans[column]))
            column += spans.pop(column).columns
        columns = _columns(cell)
        rows = _rows(cell)
        if rows > 1 and column < _MAX_COLUMNS:
            below[column] = _Span(cell.name, _text(cell), columns, rows - 1)
        column += columns
    for at in sorted(at for at in spans if at >= column):
        if at > column:
            row.append(_added(_Span("td", "", min(at - column, 99), 1)))
        row.append(_added(spans[at]))
        column = at + spans[at].columns
    return {at: span for at, span in below.items() if span.rows > 0}


def _added(span: _Span) -> Tag:
    made = Tag(name=span.name)
    made.string = span.text
    if span.columns > 1:
        made["colspan"] = str(span.columns)
    return made


def _columns(cell: Tag) -> int:
    return max(1, int(_attribute(cell, "colspan") or 1))


def _rows(cell: Tag) -> int:
    """1 unless the cell says otherwise; 0 means all rows of its group."""
    value = _attribute(cell, "rowspan").strip()
    return (int(value) or 99_999) if _ROWS.match(value) else 1


def _text(cell: Tag) -> str:
    text = " ".join(cell.get_text(" ").split())
    return text if len(text) <= _MAX_TEXT else text[:_MAX_TEXT] + "…"


def _attribute(tag: Tag, name: str) -> str:
    value = tag.get(name)
    return value if isinstance(value, str) else ""
