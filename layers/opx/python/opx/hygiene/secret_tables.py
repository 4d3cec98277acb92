"""Finds secrets in the columns of tables whose header names them: Markdown, wiki and SQL tables, CSV, TSV."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from opx.hygiene.secret_formats import PASSWORDS, SecretFormat
from opx.hygiene.secret_values import is_named, is_stated

Found = tuple[SecretFormat, int, int]
"""A format, and the span in the line."""

Cell = tuple[int, int]

COLUMN = SecretFormat("table-password", "password in a table", (), "", chosen=True)

_MOST_CELLS = 40
_LONGEST_HEADER = 600
_MOST_WORDS = 4
_BLANKS = " "
"""Stands for columns that any number of blanks separate."""

_NAMED_COLUMN = re.compile(rf"(?i){PASSWORDS}|secret|token|key")
_SECRET_NAME = re.compile(
    rf"(?i)(?:[\w./#()-]{{1,30}}[ _-]){{0,3}}?(?:{PASSWORDS}|(?:client|app|application|shared|webhook)[ _-]secret"
    r"|(?:enable|snmp)[ _-](?:secret|community)|secret(?:[ _-]access)?[ _-]key|access token|api[ _-](?:key|token)"
    r"|(?P<weak>secret|token))(?:[ _-]?\d)?"
)
"""`weak`: a column of that name may hold names of secrets."""
_SHORT_NAME = re.compile(r"(?i)(?:.*[ _-])?(?:pass|pw|pin)(?:[ _-]?\d)?")
"""Names that mean something else, unless another column is of users or machines: tests pass."""
_USER_NAME = re.compile(r"(?i).*(?:user|login|account|host|system|device|benutzer).*")
_CHAP_SECRETS = re.compile(r"(?i)\s*#\s*client\s+server\s+secret\b")
_NAME = re.compile(r"[\w .:#/()&$*`_'\"-]{0,40}")
_DIVIDER = re.compile(r"[\s|+:=-]*[-=][\s|+:=-]*")
_WIKI_DIVIDERS = ("|-", "|}")
_FIELD = re.compile(r"\"[^\"]*\"|\S+")
_IN_CSV = {
    mark: re.compile(rf"(?:^|(?<={mark}))(?:\"[^\"]*\"(?={mark}|$)|[^{mark}]*)") for mark in (",", ";")
}  # fmt: skip
_BELOW = {"||": "|", "!!": "||"}
"""Delimiters of rows, where they aren't those of the header."""


@dataclass(slots=True)
class _Columns:
    """Columns with secrets, and whether each may hold names of secrets instead. `cells` of 0 is any number."""

    delimiter: str
    cells: int
    weak: dict[int, bool]
    confirmed: bool
    """False until a line of dashes followed, where the format has one."""


class SecretTables:
    """Follows the tables of one text, line by line."""

    def __init__(self) -> None:
        self._columns: _Columns | None = None

    @property
    def is_open(self) -> bool:
        """True if the next line may belong to a table with secrets."""
        return self._columns is not None

    def close(self) -> None:
        """Ends the table."""
        self._columns = None

    def feed(self, text: str) -> Iterator[Found]:
        """Yields the secrets of the next line."""
        columns = self._columns
        if columns is None:
            self._columns = _header(text)
        elif _DIVIDER.fullmatch(text):
            columns.confirmed = True
        elif text.strip() not in _WIKI_DIVIDERS:
            cells = _cells(text, columns.delimiter)
            fits = len(cells) == columns.cells if columns.cells else len(cells) > max(columns.weak)
            if fits and columns.confirmed:
                yield from _in_columns(text, cells, columns)
            else:
                self._columns = _header(text)


def _in_columns(text: str, cells: list[Cell], columns: _Columns) -> Iterator[Found]:
    for at, weak in columns.weak.items():
        start, end = cells[at]
        value = text[start:end]
        if is_named(value) if weak else is_stated(value, quoted=True):
            yield COLUMN, start, end


def _header(text: str) -> _Columns | None:
    """The table that a line begins, if a column's name is that of a secret."""
    if len(text) > _LONGEST_HEADER or not _NAMED_COLUMN.search(text):
        return None
    if _CHAP_SECRETS.match(text):
        return _Columns(_BLANKS, 0, {2: False}, confirmed=True)
    delimiter = next((mark for mark in ("||", "!!", "|", "\t", ";", ",") if mark in text), "")
    if not delimiter:
        return None
    cells = _cells(text, delimiter)
    names = [text[start:end].strip("*_` !|#") for start, end in cells]
    weak = _secret_columns(names)
    if not weak or not 2 <= len(cells) <= _MOST_CELLS or not all(map(_NAME.fullmatch, names)):
        return None
    if delimiter in _IN_CSV and not _may_be_csv(text, names):
        return None
    return _Columns(_BELOW.get(delimiter, delimiter), len(cells), weak, confirmed=delimiter != "|")


def _secret_columns(names: list[str]) -> dict[int, bool]:
    has_users = any(map(_USER_NAME.fullmatch, names))
    found = {
        at: _SECRET_NAME.fullmatch(name) for at, name in enumerate(names[: _MOST_CELLS + 1]) if len(name) <= _MOST_CELLS
    }
    return {
        at: bool(match["weak"])
        for at, match in found.items()
        if match and (has_users or not _SHORT_NAME.fullmatch(names[at]))
    }


def _may_be_csv(text: str, names: list[str]) -> bool:
    """False for a sentence or a line of code with commas."""
    sentence = text.rstrip().endswith((".", ":")) or any(len(name.split()) > _MOST_WORDS for name in names)
    return not sentence and not text[0].isspace() and "" not in names


def _cells(text: str, delimiter: str) -> list[Cell]:
    """Spans of the cells of a line, without blanks and quotes. Delimiters at both ends of a line open no cell."""
    most = _MOST_CELLS + 1
    if delimiter == _BLANKS:
        spans = [match.span() for match in islice(_FIELD.finditer(text), most)]
    elif delimiter in _IN_CSV:
        spans = [match.span() for match in islice(_IN_CSV[delimiter].finditer(text), most)]
    else:
        spans = _between(text, delimiter)[:most]
    return [_trimmed(text, start, end) for start, end in spans]


def _between(text: str, delimiter: str) -> list[Cell]:
    spans, at = [], 0
    for part in text.split(delimiter, _MOST_CELLS + 2):
        spans.append((at, at + len(part)))
        at += len(part) + len(delimiter)
    if len(spans) > 1 and not text[: spans[0][1]].strip():
        del spans[0]
    if len(spans) > 1 and delimiter in ("|", "||") and not text[spans[-1][0] :].strip():
        del spans[-1]
    return spans


def _trimmed(text: str, start: int, end: int) -> Cell:
    while start < end and text[start] in " \t\"'`":
        start += 1
    while end > start and text[end - 1] in " \t\"'`":
        end -= 1
    return start, end
