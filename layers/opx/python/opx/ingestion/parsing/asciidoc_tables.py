"""Tables of AsciiDoc to Markdown."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator

from opx.ingestion.parsing.asciidoc_text import inline
from opx.ingestion.parsing.writing import cell, table_head, table_row

MAX_COLUMNS = 200
_REPEATED = 100
"""Characters of a cell, at most, that a number before it repeats."""

_ROWS = 40
"""Rows under which the header comes again, as chunks don't hold much more."""

_SPECIFIER = r"(?:(\d{1,3})(?:\.\d{1,3})?([+*]))?(?:\.\d{1,3}\+)?[<^>]?(?:\.[<^>])?[adehlmsv]?"
_COLUMN = re.compile(r"\s*(?:(\d{1,3})\*)?")
_FORMATS = {"csv": ",", "tsv": "\t", "dsv": ":"}


def markdown_table(lines: list[str], options: list[str], separator: str) -> Iterator[str]:
    """The rows between the delimiters. The columns are what `cols` says, or else the cells of the first line."""
    text = ",".join(options)
    separator = _FORMATS.get(_value(text, "format"), separator)
    columns = _columns(_value(text, "cols"))
    first = next((line for line in lines if line.strip()), "")
    if separator in ",\t:":
        cells = [one for row in _separated(lines, separator) for one in row]
        columns = columns or max(len(next(iter(_separated([first], separator)), [])), 1)
    else:
        columns = columns or max(len(_cells(first, separator)), 1)
        cells = _cells("\n".join(lines), separator)
    columns = min(columns, MAX_COLUMNS)
    rows = [[cell(inline(one)) for one in cells[at : at + columns]] for at in range(0, len(cells), columns)]
    if not rows:
        return
    rows[-1] += [""] * (columns - len(rows[-1]))
    header = rows.pop(0) if _has_header(lines, text) else [""] * columns
    for at in range(0, max(len(rows), 1), _ROWS):
        yield table_head(header) + "".join(map(table_row, rows[at : at + _ROWS])) + "\n"


def _cells(text: str, separator: str) -> list[str]:
    """Cells begin at a separator, with what says how often or how wide before it."""
    mark = re.escape(separator)
    parts = re.split(rf"(?:(?<=\s)|^)({_SPECIFIER})(?<!\\){mark}", f"\n{text}" if text else "", flags=re.MULTILINE)
    found: list[str] = []
    for at in range(1, len(parts), 4):
        times, kind = int(parts[at + 1] or 1), parts[at + 2]
        shown = parts[at + 3].strip().replace(f"\\{separator}", separator)
        again = [shown if kind == "*" and len(shown) < _REPEATED else ""] * (min(times, MAX_COLUMNS) - 1)
        found.extend([shown, *again])
    return found


def _separated(lines: list[str], separator: str) -> list[list[str]]:
    try:
        return [row for row in csv.reader((line + "\n" for line in lines), delimiter=separator) if row]
    except csv.Error:
        return [line.split(separator) for line in lines if line.strip()]


def _columns(text: str) -> int:
    """`3*`, `1,2,1` or `2*,4`."""
    if not text:
        return 0
    found = [_COLUMN.match(part) for part in re.split("[,;]", text)]
    return sum(int(match[1] or 1) for match in found if match)


def _value(text: str, name: str) -> str:
    match = re.search(rf"{name}=(?:\"([^\"]*)\"?|([^,\"]*))", text)
    return (match[1] or match[2] or "") if match else ""


def _has_header(lines: list[str], text: str) -> bool:
    """Said so, or the first line is followed by a blank one."""
    if "header" in text:
        return True
    return "noheader" not in text and len(lines) > 2 and bool(lines[0].strip()) and not lines[1].strip()
