"""Values from files: CSV with a head, or JSON objects, a line each."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping
from typing import Any, TextIO

from opx.errors import InvalidInputError

CSV, JSON_LINES = "csv", "jsonl"
FORMATS = (CSV, JSON_LINES)
MAX_LINE = 100_000
"""Characters. A value has a few hundred; a file without line ends must not fill the memory."""


def values_of(stream: TextIO, kind: str) -> Iterator[tuple[int, Mapping[str, Any] | InvalidInputError]]:
    """The line and the fields of each value, or what is wrong with the line. Raises `InvalidInputError` for CSV without
    the columns that are needed."""
    return _of_csv(stream) if kind == CSV else _of_json(stream)


def _of_json(stream: TextIO) -> Iterator[tuple[int, Mapping[str, Any] | InvalidInputError]]:
    for number, line in _lines(stream):
        if not line.strip():
            continue
        try:
            found = json.loads(line)
        except (ValueError, RecursionError) as exc:
            yield number, InvalidInputError(f"this is no JSON: {exc}")
            continue
        yield number, found if isinstance(found, dict) else InvalidInputError("a value is an object: {...}")


def _of_csv(stream: TextIO) -> Iterator[tuple[int, Mapping[str, Any] | InvalidInputError]]:
    rows = csv.reader(line for _, line in _lines(stream))
    head = [name.strip().lower().removeprefix("\ufeff") for name in next(rows, [])]
    missing = [name for name in ("node", "metric", "value") if name not in head]
    if missing:
        raise InvalidInputError(f"the first line must name the columns; missing: {', '.join(missing)}")
    try:
        for row in rows:
            if not any(cell.strip() for cell in row):
                continue
            if len(row) > len(head):
                yield (
                    rows.line_num,
                    InvalidInputError(f"there are {len(row)} columns, but {len(head)} in the first line"),
                )
                continue
            given = {name: cell.strip() for name, cell in zip(head, row, strict=False)}
            yield rows.line_num, {name: cell for name, cell in given.items() if cell}
    except csv.Error as exc:
        raise InvalidInputError(f"line {rows.line_num}: this is no CSV: {exc}") from exc


def _lines(stream: TextIO) -> Iterator[tuple[int, str]]:
    number = 0
    while line := stream.readline(MAX_LINE + 1):
        number += 1
        if len(line) > MAX_LINE:
            raise InvalidInputError(f"line {number} has more than {MAX_LINE:,} characters: is it a file of values?")
        yield number, line
