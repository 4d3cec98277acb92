"""Converts CSV and TSV to Markdown tables in portions, each with the column names, so that each chunk has them."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain, count, islice

from opx.domain.documents import Remark, RemarkKind
from opx.errors import UnparsableDocumentError
from opx.formats.source import NOTHING, ParsedSource, Source, cut_lines, text_lines
from opx.formats.writing import cell, table_head, table_row

PORTION = 900
"""Approximate characters per table: tokens of figures and bars have two or three, so that a portion fits a chunk."""

MAX_HEADER = 400
"""Characters of a header that is repeated; under a longer one each row is a list of `column: value`."""

MAX_ROW = 256 * 1024
_MAX_NAME = 60
_SAMPLE = 20
_DELIMITERS = (",", ";", "\t", "|")


def parse_csv(source: Source) -> ParsedSource:
    """Converts the rows lazily and in bounded memory. The first is the header, unless it has only numbers.

    The separator is the one of comma, semicolon, tab and bar that divides the first rows most evenly. A row with more or
    fewer cells than the header is kept and remarked on, as is a row with invalid quoting.
    """
    remarks: list[Remark] = []
    lines = _whole_lines(text_lines(source), source.name)
    sample = list(islice(lines, _SAMPLE))
    rows = _Rows(chain(sample, lines), _delimiter(sample))
    read = iter(rows)
    first = next((row for row in read if any(row)), None)
    if first is None:
        raise UnparsableDocumentError(f"{source.name}: {NOTHING}")
    return ParsedSource(
        None, {}, cut_lines(_blocks(chain([first], read), rows, source.name, remarks), source.name), remarks
    )


def _whole_lines(pieces: Iterable[str], name: str) -> Iterator[str]:
    """Joins the pieces in which lines of more than 64 Ki characters arrive."""
    held = ""
    for piece in pieces:
        held += piece
        if held.endswith("\n"):
            yield held
            held = ""
        elif len(held) > MAX_ROW:
            raise UnparsableDocumentError(
                f"{name}: a line of more than {MAX_ROW // 1024} Ki characters, so it is no table; upload it as .txt"
            )
    if held:
        yield held


def _delimiter(sample: list[str]) -> str:
    """Detects the separator. Not by `csv.Sniffer`: its patterns take minutes for some input, and it raises for a single
    column."""
    best, rank = ",", (0, 0)
    for candidate in _DELIMITERS:
        widths = Counter(len(row) for row in _leniently(sample, candidate) if row)
        width, rows = max(widths.items(), key=lambda item: (item[1], item[0]), default=(1, 0))
        if width > 1 and (rows, width) > rank:
            best, rank = candidate, (rows, width)
    return best


def _leniently(lines: Iterable[str], delimiter: str) -> Iterator[list[str]]:
    try:
        yield from csv.reader(lines, delimiter=delimiter)
    except csv.Error:  # a cell over the module's limit: no cell at all
        return


@dataclass(slots=True)
class _Rows:
    """Rows of a file; one with invalid quoting is read line by line, and recorded in `odd`."""

    lines: Iterator[str]
    delimiter: str
    number: int = 0
    """Number of the last line read, from 1."""
    odd: list[int] = field(default_factory=list)
    _taken: list[str] = field(default_factory=list)

    def __iter__(self) -> Iterator[list[str]]:
        reader = csv.reader(self._recorded(), delimiter=self.delimiter, strict=True)
        while True:
            self._taken.clear()
            begin = self.number + 1
            try:
                row = next(reader)
            except StopIteration:
                return
            except csv.Error:
                self.odd.append(begin)
                for line in self._taken[:]:
                    lenient = list(_leniently([line], self.delimiter)) or [line.split(self.delimiter)]
                    yield from ([text.strip() for text in row] for row in lenient)
                reader = csv.reader(self._recorded(), delimiter=self.delimiter, strict=True)
                continue
            yield [text.strip() for text in row]

    def _recorded(self) -> Iterator[str]:
        for line in self.lines:
            self.number += 1
            self._taken.append(line)
            yield line


def _blocks(read: Iterator[list[str]], rows: _Rows, name: str, remarks: list[Remark]) -> Iterator[str]:
    first = next(read)
    named = not all(_is_number(text) for text in first if text)
    header = [text or f"Column {at}" for at, text in enumerate(first, 1)] if named else []
    names = [cell(text)[:_MAX_NAME] for text in header] or [f"Column {at}" for at in range(1, len(first) + 1)]
    uneven = first_uneven = 0
    table = _Table(names)
    for row in read if named else chain([first], read):
        if not any(row):
            continue
        if len(row) != len(names):
            uneven, first_uneven = uneven + 1, first_uneven or rows.number
        yield from table.add(row)
    yield from table.rest(always=True)
    if uneven:
        text = f"{uneven} rows don't have {len(names)} cells as the header has, the first in line {first_uneven}"
        remarks.append(Remark(RemarkKind.IRREGULAR, f"{name}: {text}"))
    if rows.odd:
        text = f"{len(rows.odd)} rows aren't quoted by the rules, the first in line {rows.odd[0]}; check its quotes"
        remarks.append(Remark(RemarkKind.IRREGULAR, f"{name}: {text}"))


@dataclass(slots=True)
class _Table:
    """Rows under their header, collected up to a portion."""

    names: list[str]
    shown: int = 0
    _width: int = 0
    _held: list[str] = field(default_factory=list)
    _size: int = 0

    def __post_init__(self) -> None:
        self._width = sum(map(len, self.names))

    def add(self, row: list[str]) -> Iterator[str]:
        """Adds a row; yields the portion once it is full."""
        cells = [cell(text) for text in row]
        line = "" if self._width > MAX_HEADER else table_row(cells + [""] * (len(self.names) - len(cells)))
        if not 0 < len(line) <= PORTION:
            yield from self.rest()
            yield self._record(cells)
            return
        self._held.append(line)
        self._size += len(line)
        if self._size >= PORTION - self._width:
            yield from self.rest()

    def rest(self, *, always: bool = False) -> Iterator[str]:
        """Yields the pending rows as a table; `always`: the header alone, too, if there were no rows at all."""
        if self._held or (always and not self.shown):
            yield table_head(self.names) + "".join(self._held) + "\n"
            self.shown += 1
        self._held, self._size = [], 0

    def _record(self, cells: list[str]) -> str:
        self.shown += 1
        names = chain(self.names, (f"Column {at}" for at in count(len(self.names) + 1)))
        first, *others = [f"{name}: {text}\n" for name, text in zip(names, cells, strict=False) if text]
        return f"- {first}{''.join(f'  {line}' for line in others)}\n"


def _is_number(text: str) -> bool:
    try:
        float(text.replace(",", "."))
    except ValueError:
        return False
    return True
