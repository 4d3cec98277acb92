"""Reads Excel workbooks: a section with tables for each sheet, comments, and the count of formulas without a value."""

from __future__ import annotations

import warnings
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import date, datetime, time
from itertools import groupby, islice
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET
from zipfile import BadZipFile, ZipFile

from openpyxl import load_workbook
from openpyxl.packaging.relationship import get_dependents, get_rels_path
from openpyxl.utils.exceptions import InvalidFileException
from openpyxl.xml.constants import COMMENTS_NS, REL_NS, SHEET_MAIN_NS

from opx.errors import UnparsableDocumentError
from opx.formats.markdown import heading, one_line, plain, table
from opx.formats.sandbox.output import Output, ReadingJob
from opx_documents.office.packages import checked_package, core_metadata

MAX_ROWS = 10_000
"""Rows of a sheet. More are data for a database, not knowledge for text search."""
MAX_COLUMNS = 100
_TABLE_CHARACTERS = 1200
"""A longer table is split into several with the same header: about the size of a chunk, so that cells keep their column
names wherever the text is cut."""
_SHEET_LEVEL = 2
_EMPTY_ROWS_AT_END = 1000

MAX_COMMENTS = 500
_MAX_LENGTH = 2000
_BROKEN = (KeyError, ET.ParseError, TypeError, ValueError)
_WORKBOOK = "xl/workbook.xml"
_MAIN = f"{{{SHEET_MAIN_NS}}}"
_THREADED, _TEXT_OF_THREADED = "[Threaded comment]", "Comment:"
"""Excel's marker in old-style comments beside threaded ones, and the label where their own text begins."""


def read_xlsx(path: Path, job: ReadingJob, output: Output) -> None:
    """Reads values as last calculated; dates and numbers formatted for people; hidden sheets are left out."""
    with checked_package(path, job.unpacked_bytes) as package:
        if "xl/workbook.xml" not in package.namelist():
            raise UnparsableDocumentError("it is no Excel workbook; save it again as .xlsx")
        title, metadata = core_metadata(package)
        _write_sheets(path, package, output)
    output.finish(title, metadata)


def _write_sheets(path: Path, package: ZipFile, output: Output) -> None:
    try:
        with warnings.catch_warnings(action="ignore"), path.open("rb") as file:
            workbook = load_workbook(file, read_only=True, data_only=True, keep_links=False)
            parts = sheet_paths(package)
            for sheet in workbook.worksheets:
                _write_sheet(sheet, output)
                if sheet.sheet_state == "visible" and sheet.title in parts:
                    _write_besides(sheet.title, package, parts[sheet.title], output)
            workbook.close()
    except (InvalidFileException, BadZipFile, KeyError) as exc:
        raise UnparsableDocumentError("it is no Excel workbook; save it again as .xlsx") from exc


def _write_besides(title: str, package: ZipFile, part: str, output: Output) -> None:
    """Writes comments as a list below the sheet's tables, and the number of formulas without a value."""
    notes: list[str] = []
    try:
        notes += islice(comments(package, part), MAX_COMMENTS + 1)
    except UnparsableDocumentError as exc:
        output.unread(f"comments on cells of sheet {title!r}: {exc}")
    if notes:
        lines = [f"- {note}" for note in notes[:MAX_COMMENTS]]
        output.text("\n".join([f"Comments on cells of {one_line(title)}:", "", *lines]))
    if len(notes) > MAX_COMMENTS:
        output.unread(f"only the first {MAX_COMMENTS} comments on cells of sheet {title!r} are read")
    missing = formulas_without_value(package, part, MAX_ROWS)
    if missing:
        number = "1 formula" if missing == 1 else f"{missing:,} formulas"
        has = "has" if missing == 1 else "have"
        remedy = "open and save the workbook in Excel"
        output.unread(f"{number} of sheet {title!r} {has} no calculated value; {remedy}")


def _write_sheet(sheet: Any, output: Output) -> None:
    if sheet.sheet_state != "visible":
        output.unread(f"sheet {sheet.title!r} is hidden")
        return
    sheet.reset_dimensions()  # what the file states may be far from what it has
    rows = _Rows(sheet)
    named = False
    for region in _regions(rows):
        if not named:
            output.text(heading(_SHEET_LEVEL, sheet.title))
            named = True
        for block in _tables(region):
            output.text(block)
    if rows.cut:
        output.unread(f"sheet {sheet.title!r} is read to row {MAX_ROWS:,} and column {MAX_COLUMNS:,} only")


class _Rows:
    """Rows of a sheet as strings, within limits. `cut` once something was left out."""

    def __init__(self, sheet: Any) -> None:
        self._sheet = sheet
        self.cut = False

    def __iter__(self) -> Iterator[list[str]]:
        empty = 0
        for number, row in enumerate(self._sheet.iter_rows(values_only=True), start=1):
            cells = [_shown(value) for value in row[:MAX_COLUMNS]]
            self.cut = self.cut or any(value is not None for value in row[MAX_COLUMNS:])
            empty = 0 if any(cells) else empty + 1
            if number > MAX_ROWS or empty > _EMPTY_ROWS_AT_END:
                self.cut = self.cut or number > MAX_ROWS
                return
            yield cells


def _regions(rows: Iterable[list[str]]) -> Iterator[list[list[str]]]:
    """Runs of rows between empty ones, without empty columns at the left."""
    for filled, run in groupby(rows, key=any):
        if filled:
            region = list(run)
            left = min(next(at for at, cell in enumerate(row) if cell) for row in region)
            yield [row[left:] for row in region]


def _tables(region: list[list[str]]) -> Iterator[str]:
    """Writes a title above a table and single columns as text; the rest as tables with their header."""
    while region and (len(region) == 1 or _width(region[0]) == 1 < _width(region[1])) and _width(region[0]) == 1:
        yield plain(" ".join(filter(None, region[0])))
        region = region[1:]
    if not region:
        return
    if max(map(_width, region)) == 1:
        yield "\n".join(plain(" ".join(filter(None, row))) for row in region)
        return
    has_header = len(region) > 1 and _is_header(region[0])
    header, body = (region[:1], region[1:]) if has_header else ([], region)
    for rows in _pieces(body):
        yield table([*header, *rows], header=has_header)


def _pieces(rows: list[list[str]]) -> Iterator[list[list[str]]]:
    piece: list[list[str]] = []
    size = 0
    for row in rows:
        length = sum(map(len, row)) + 3 * len(row)
        if piece and size + length > _TABLE_CHARACTERS:
            yield piece
            piece, size = [], 0
        piece.append(row)
        size += length
    if piece:
        yield piece


def _width(row: Sequence[str]) -> int:
    """The number of cells that are not empty."""
    return sum(map(bool, row))


def _is_header(row: Sequence[str]) -> bool:
    """True for distinct words without figures."""
    cells = [cell for cell in row if cell]
    return len(set(cells)) == len(cells) and not any(cell[:1].isdigit() or cell[:1] == "-" for cell in cells)


def _shown(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.15g}"
    if isinstance(value, datetime):
        midnight = value.time() == time(0)
        return value.date().isoformat() if midnight else value.isoformat(" ", "seconds")
    if isinstance(value, date | time):
        return value.isoformat()
    return str(value)


def sheet_paths(package: zipfile.ZipFile) -> dict[str, str]:
    """The part of each sheet by the sheet's name. Raises `UnparsableDocumentError` if the workbook doesn't list them."""
    try:
        targets = {each.Id: each.target for each in get_dependents(package, get_rels_path(_WORKBOOK))}
        root = ET.fromstring(package.read(_WORKBOOK))  # noqa: S314 - it declares no entities, as checked
    except _BROKEN as exc:
        raise UnparsableDocumentError("it is no Excel workbook; save it again as .xlsx") from exc
    sheets = root.iter(f"{_MAIN}sheet")
    paths = {each.get("name", ""): targets.get(each.get(f"{{{REL_NS}}}id"), "") for each in sheets}
    return {name: path for name, path in paths.items() if path in package.namelist()}


def formulas_without_value(package: zipfile.ZipFile, path: str, rows: int) -> int:
    """Counts formulas in the first rows without a calculated value, as written by programs other than Excel."""
    count = 0
    with suppress(ET.ParseError), package.open(path) as stream:  # broken below what was read of its values
        for _, element in ET.iterparse(stream):  # noqa: S314 - it declares no entities, as checked
            if element.tag == f"{_MAIN}c":
                count += element.find(f"{_MAIN}f") is not None and not _has_value(element)
            elif element.tag == f"{_MAIN}row":
                element.clear()
                rows -= 1
                if not rows:
                    break
    return count


def _has_value(cell: ET.Element) -> bool:
    """True if the cell has a calculated value; an empty string is one, too."""
    return bool(cell.findtext(f"{_MAIN}v")) or cell.get("t") == "str"


def comments(package: zipfile.ZipFile, path: str) -> Iterator[str]:
    """Yields `cell: text` of each comment on the sheet. Raises `UnparsableDocumentError` if they can't be read."""
    relations = get_rels_path(path)
    if relations not in package.namelist():
        return
    try:
        for related in get_dependents(package, relations):
            if related.Type == COMMENTS_NS:
                root = ET.fromstring(package.read(related.target))  # noqa: S314 - it declares no entities, as checked
                yield from filter(None, map(_comment, root.iter(f"{_MAIN}comment")))
    except _BROKEN as exc:
        raise UnparsableDocumentError("the comments are broken; save the workbook again in Excel") from exc


def _comment(element: ET.Element) -> str:
    text = "".join(part.text or "" for part in element.iter(f"{_MAIN}t"))
    if text.startswith(_THREADED):
        text = text.partition(_TEXT_OF_THREADED)[2] or text
    text = one_line(text)[:_MAX_LENGTH]
    return f"{one_line(element.get('ref', ''))}: {text}" if text else ""
