"""Plain output, the same on a terminal and in a pipe: JSON, aligned columns and sizes; failures and exit codes."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import click

from opx.domain.record import Json, Record
from opx.errors import OpxError

SHORT_ID = 12
"""Digits of an id that tables show: enough to be unique among 10^6 documents, and accepted wherever an id is."""


def print_json(data: Any) -> None:
    """Indented JSON on stdout; pure ASCII where the console knows no more, since `?` would be another value."""
    encoding = (getattr(sys.stdout, "encoding", "") or "").lower().replace("-", "")
    click.echo(json.dumps(data, ensure_ascii=encoding != "utf8", indent=2))


def some_fields(record: Record, names: Sequence[str]) -> Json:
    """Some fields of a record's JSON, in this order."""
    found = record.to_json()
    return {name: found[name] for name in names}


def warn(*messages: str) -> None:
    """A line on stderr each."""
    for message in messages:
        click.echo(f"opx: {message}", err=True)


def aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Rows as lines with columns of equal width, two blanks apart. Line ends within a cell become blanks."""
    cells = [[" ".join(cell.splitlines()) for cell in row] for row in rows]
    widths = [max(len(row[column]) for row in cells) for column in range(len(cells[0]))] if cells else []
    for row in cells:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def table(heads: Sequence[str], rows: Sequence[Sequence[str]], empty: str = "") -> Iterator[str]:
    """The lines of a table, its head in bold on a terminal. Without rows, `empty` if it is given."""
    if empty and not rows:
        yield empty
        return
    head, *lines = aligned([heads, *rows])
    yield click.style(head, bold=True)
    yield from lines


def print_table(heads: Sequence[str], rows: Sequence[Sequence[str]], empty: str = "") -> None:
    print_lines(table(heads, rows, empty))


def print_lines(lines: Iterable[str]) -> None:
    for line in lines:
        click.echo(line)


def plural(count: int, noun: str) -> str:
    """`1 document`, `2 documents`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def readable_size(size: int) -> str:
    """Bytes as `640 B`, `12.3 KB` (1,000 bytes), `1.2 GB`."""
    value = float(size)
    for unit in ("B", "KB", "MB"):
        if value < 1000:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} GB"


def printable(text: str) -> str:
    """One line of the text with nothing in it that a terminal would act on."""
    return " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())


def printable_lines(text: str) -> Iterator[str]:
    """The lines of the text as they are, with `\ufffd` for each character that a terminal would act on."""
    for line in text.replace("\r\n", "\n").split("\n"):
        yield "".join(letter if letter.isprintable() or letter == "\t" else "\ufffd" for letter in line)


# -- failures and exit codes

NO_ANSWER = 1
"""A search that found nothing good enough, as grep does it; also anything that failed for single documents."""

FAILED = 2
"""Usage errors, and everything else that kept a command from doing its work."""

UNEXPLAINED = 3
"""A replayed receipt has another answer, although nothing is known to have changed."""

TAMPERED = 4
"""A receipt was changed after it was given out."""

INTERRUPTED = 130
BROKEN_PIPE = 141
"""What a shell reports for a process that SIGINT or SIGPIPE ended."""


class CommandFailed(click.ClickException):
    """Ends the command with one line for people on stderr."""

    def __init__(self, message: str, exit_code: int = FAILED) -> None:
        super().__init__(message)
        self.exit_code = exit_code  # type: ignore[misc]  # click means it to be set

    def show(self, file: IO[Any] | None = None) -> None:
        click.echo(f"opx: {self.message}", file=file, err=True)


def exit_unless(found: object) -> None:
    """End with `NO_ANSWER` for an answer that has nothing in it, or a work that failed."""
    if not found:
        click.get_current_context().exit(NO_ANSWER)


# -- files that a person names


def read_bytes(file: Path) -> bytes:
    """What a file holds, or what comes through a pipe (`-`). Raises `OpxError`."""
    try:
        return sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
    except OSError as exc:
        raise OpxError(f"can't read {file}: {exc.strerror}") from exc


def write_text(text: str, path: Path, what: str) -> None:
    """Raises `OpxError`, which says what could not be written."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as exc:
        raise OpxError(f"can't write the {what} to {path}: {exc.strerror or exc}") from exc
