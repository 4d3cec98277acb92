"""Prints JSON, tables, sizes and errors, and defines exit codes and the screen's styles."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any
from urllib.parse import quote

import click
from msgspec import Struct

from opx.domain.procedures import Effect
from opx.domain.record import Json, Record, to_json
from opx.errors import OpxError

NO_PAGER = "opx.no-pager"
"""Key in a context that is set if output is never shown by a pager."""

SHORT_ID = 12
"""Digits of an id shown in tables: enough to be unique among 10^6 documents, and accepted wherever an id is."""


def print_json(data: Any) -> None:
    """Prints indented JSON on stdout; pure ASCII if the console isn't UTF-8, since `?` would be another value."""
    _print_json(data, indent=2)


def print_either(reply: Any, lines: Iterable[str], *, as_json: bool) -> None:
    """Prints a reply as JSON, or else its lines."""
    if as_json:
        print_json(to_json(reply))
    else:
        print_lines(lines)


def print_json_lines(items: Iterable[Any]) -> None:
    """Prints JSON Lines on stdout: each item on a line of its own."""
    for item in items:
        _print_json(item)


def _print_json(data: Any, indent: int | None = None) -> None:
    encoding = (getattr(sys.stdout, "encoding", "") or "").lower().replace("-", "")
    text = json.dumps(data, ensure_ascii=encoding != "utf8", indent=indent)
    click.echo(_UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text))  # the same value


def some_fields(record: Record, names: Sequence[str]) -> Json:
    """Some fields of a record's JSON, in this order."""
    found = record.to_json()
    return {name: found[name] for name in names}


def warn(*messages: str) -> None:
    """Prints each message as a line on stderr."""
    for message in messages:
        click.echo(f"opx: {safe(message)}", err=True)


def aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Rows as lines with columns of equal width, two blanks apart. Line ends within a cell become blanks, and what a
    terminal would act on is left out."""
    cells = [[safe(" ".join(cell.splitlines())) for cell in row] for row in rows]
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
    print_page([*table(heads, rows, empty)])


def print_lines(lines: Iterable[str]) -> None:
    for line in lines:
        click.echo(tame(line))


def print_page(lines: Sequence[str], screen: Screen | None = None) -> None:
    """Prints lines, by $PAGER if they don't fit on the screen, unless `--no-pager` is given. Links are left out:
    old versions of `less` print them as escape sequences."""
    screen = screen or Screen.current()
    context = click.get_current_context(silent=True)
    is_paged = context is None or not context.meta.get(NO_PAGER)
    if is_paged and screen.is_terminal and sys.stdin.isatty() and len(lines) >= screen.height:
        click.echo_via_pager(_LINK.sub("", "\n".join(map(tame, lines))), color=screen.colours)
    else:
        print_lines(lines)


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
    """One line of the text without characters that a terminal would act on."""
    return " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())


_UNSAFE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def safe(text: str) -> str:
    """The text without control characters other than line ends and tabs, and without those that reorder letters."""
    return _UNSAFE.sub("", text.replace("\r\n", "\n"))


_LINK = re.compile(r"\x1b\]8;;(?:(?:https?|file)://[^\x00-\x20\x7f-\x9f]*)?\x1b\\")
_OURS = re.compile(rf"(\x1b\[[0-9;]*m|{_LINK.pattern})")


def tame(line: str) -> str:
    """The line with the colours and links of `Screen`, and nothing else that a terminal would act on."""
    return "".join(part if at % 2 else safe(part) for at, part in enumerate(_OURS.split(line)))


# -- the screen

_STYLES: dict[str, dict[str, Any]] = {
    "bold": {"bold": True},
    "dim": {"dim": True},
    "mark": {"bold": True},
    "code": {"fg": "cyan"},
    "string": {"fg": "green"},
    "keyword": {"fg": "cyan", "bold": True},
    "caution": {"fg": "yellow"},
    "warning": {"fg": "red", "bold": True},
    Effect.READ: {"fg": "green"},
    Effect.UNKNOWN: {"fg": "yellow"},
    Effect.REVERSIBLE: {"fg": "yellow"},
    Effect.PAGES: {"fg": "magenta"},
    Effect.COSTS: {"fg": "magenta"},
    Effect.DESTRUCTIVE: {"fg": "red", "bold": True},
}
_LEAST_WIDTH, _PIPE_WIDTH, _PROSE_WIDTH = 20, 100, 120


class Screen(Struct, frozen=True):
    """The console that output goes to: its size in cells (height 0 if it is no terminal), and its support of colours
    and links."""

    width: int = _PIPE_WIDTH
    colours: bool = False
    links: bool = False
    height: int = 0

    @classmethod
    def current(cls) -> Screen:
        """The screen of stdout. Without a terminal there are no colours and no links."""
        if not sys.stdout.isatty():
            return cls()
        context, size = click.get_current_context(silent=True), _terminal_size()
        colours = context is None or context.color is not False
        return cls(max(size.columns, _LEAST_WIDTH), colours, colours, size.lines)

    @property
    def is_terminal(self) -> bool:
        return self.height > 0

    @property
    def prose(self) -> int:
        """The width of prose: longer lines are hard to read."""
        return min(self.width, _PROSE_WIDTH)

    def styled(self, text: str, style: str) -> str:
        """The text in a named style, or in that of an effect, if the screen has colours."""
        return click.style(text, **_STYLES[style]) if self.colours and style and text else text

    def link(self, text: str, url: str) -> str:
        """The text, linked by OSC 8 to an http, https or file URL."""
        if not self.links or not url.startswith(("http://", "https://", "file://")):
            return text
        return f"\x1b]8;;{quote(url, safe=_URL)}\x1b\\{text}\x1b]8;;\x1b\\"


def _terminal_size() -> os.terminal_size:
    """The size of the terminal; that of a forwarded command is known by its stream (`command_socket`)."""
    return getattr(sys.stdout, "size", None) or shutil.get_terminal_size()


def current_folder() -> Path:
    """The folder that the command was called in."""
    return getattr(sys.stdout, "folder", None) or Path.cwd()


_URL = "%/:?#[]@!$&'()*+,;=~-._"


# -- failures and exit codes

NO_ANSWER = 1
"""A search without a good result, as for grep; also failures of single documents."""

FAILED = 2
"""Usage errors, and all other errors that stop a command."""

UNEXPLAINED = 3
"""A replayed receipt has another answer, although nothing is known to have changed."""

TAMPERED = 4
"""A receipt was changed after it was given out."""

INTERRUPTED = 130
BROKEN_PIPE = 141
"""Exit codes that a shell reports for a process ended by SIGINT or SIGPIPE."""


class CommandFailed(click.ClickException):
    """Ends the command with one line on stderr."""

    def __init__(self, message: str, exit_code: int = FAILED) -> None:
        super().__init__(message)
        self.exit_code = exit_code  # type: ignore[misc]  # click means it to be set

    def show(self, file: IO[Any] | None = None) -> None:
        click.echo(f"opx: {safe(self.message)}", file=file, err=True)


def exit_unless(found: object) -> None:
    """Exits with `NO_ANSWER` for an empty answer or a failed task."""
    if not found:
        click.get_current_context().exit(NO_ANSWER)


# -- files named on the command line


def read_bytes(file: Path) -> bytes:
    """The bytes of a file, or of standard input (`-`). Raises `OpxError`."""
    try:
        return sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
    except OSError as exc:
        raise OpxError(f"can't read {file}: {exc.strerror}") from exc


def write_text(text: str, path: Path, what: str) -> None:
    """Writes a file. Raises an `OpxError` that names the file and `what` it is."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as exc:
        raise OpxError(f"can't write the {what} to {path}: {exc.strerror or exc}") from exc
