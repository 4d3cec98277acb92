"""JSON Lines: a record a line."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from opx.domain.ids import normalise
from opx.domain.remarks import Remark, RemarkKind
from opx.errors import UnparsableDocumentError
from opx.ingestion.parsing.decoding import cut_lines, not_blank, text_lines, well_formed
from opx.ingestion.parsing.json_mapping import is_deep, parse_record, rendered
from opx.ingestion.parsing.source import ParsedSource, Source
from opx.ingestion.parsing.writing import fenced, heading, plain_text

MAX_RECORD = 1024 * 1024
"""Characters of one record."""

_NAMES = ("title", "name", "id", "key")
_MAX_NAME = 120


def parse_json_lines(source: Source) -> ParsedSource:
    """Each record as a section under its name, lazily: by the category's mapping where it fits, else key by key.

    A line that is no record is kept as it is and remarked on.
    """
    remarks: list[Remark] = []
    lines = not_blank(text_lines(source), source.name, "there is nothing but white space in it; upload it again")
    return ParsedSource(None, {}, cut_lines(_sections(lines, source, remarks), source.name), remarks)


def _sections(lines: Iterable[str], source: Source, remarks: list[Remark]) -> Iterator[str]:
    odd = first_odd = 0
    for number, line in enumerate(_records(lines, source.name), 1):
        record = _loaded(line)
        if record is not None:
            yield _section(record, source)
        elif line.strip():
            odd, first_odd = odd + 1, first_odd or number
            yield from fenced([line])
    if odd:
        text = f"{source.name}: {odd} lines are no JSON objects, the first is line {first_odd}; they are kept as text"
        remarks.append(Remark(RemarkKind.IRREGULAR, text))


def _records(pieces: Iterable[str], name: str) -> Iterator[str]:
    held: list[str] = []
    size = 0
    for piece in pieces:
        held.append(piece)
        size += len(piece)
        if size > MAX_RECORD:
            raise UnparsableDocumentError(f"{name}: a record of more than {MAX_RECORD:,} characters; split it")
        if piece.endswith("\n"):
            yield "".join(held)
            held, size = [], 0
    yield "".join(held)


def _loaded(line: str) -> dict[str, Any] | None:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) and record and not is_deep(record) else None


def _section(record: dict[str, Any], source: Source) -> str:
    if source.category.json_mapping:
        try:
            found = parse_record(record, source)
        except UnparsableDocumentError:
            pass  # a record of another kind
        else:
            return f"{heading(2, found.title or '')}{''.join(found.lines).strip()}\n\n"
    text = plain_text(normalise(well_formed(rendered(record)))).strip("\n")
    return f"{heading(2, normalise(well_formed(_name(record))))}{text}\n\n"


def _name(record: dict[str, Any]) -> str:
    """What the record calls itself, if that is short; else "", and it joins the section before."""
    names = (record.get(key) for key in _NAMES)
    return next((name for name in names if isinstance(name, str) and 0 < len(name.strip()) <= _MAX_NAME), "")
