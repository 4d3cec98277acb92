"""Reads the commands of Markdown pages: fenced blocks of `sh`, `bash` and `console`, with the comments before them.

A comment directly before a block is invisible to readers, and for the runner:

    <!-- not run: REASON -->    the block needs an account, a network or hours
    <!-- first: COMMANDS -->    commands that prepare what the block needs
    <!-- shows: TEXT | TEXT --> texts that the block's commands have to print
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).resolve().parents[2]
LANGUAGES = frozenset({"sh", "bash", "console"})

_COMMENT = re.compile(r"<!--\s*(not run|first|shows):\s*(.*?)\s*-->", re.DOTALL)
_HEREDOC = re.compile(r"<<-?\s*'?\"?(\w+)")
_STATUS = re.compile(r"#.*\bexit status (\d+)$")


@dataclass(frozen=True, slots=True)
class Command:
    """A command of a block. `expected` is the output that a `console` block prints below it."""

    line: int
    text: str
    expected: tuple[str, ...] | None = None

    @property
    def status(self) -> int:
        """The exit status that its trailing comment states, else 0."""
        stated = _STATUS.search(self.text)
        return int(stated[1]) if stated else 0


@dataclass(frozen=True, slots=True)
class Block:
    page: str
    line: int
    commands: tuple[Command, ...]
    not_run: str | None = None
    first: tuple[str, ...] = ()
    shows: tuple[str, ...] = ()


@dataclass(slots=True)
class _Notes:
    """The comments since the last text."""

    not_run: str | None = None
    first: list[str] = field(default_factory=list)
    shows: list[str] = field(default_factory=list)

    def add(self, html: str) -> None:
        for kind, text in _COMMENT.findall(html):
            if kind == "not run":
                self.not_run = text
            elif kind == "first":
                self.first += text.splitlines()
            else:
                self.shows += [part.strip() for part in text.split("|")]


def pages() -> list[str]:
    """Paths of all pages with commands for readers, relative to the repository: records of decisions are history."""
    docs = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").glob("*.md"))
    return ["README.md", "CONTRIBUTING.md", *docs]


def blocks_of(page: str) -> list[Block]:
    return list(blocks(page, (ROOT / page).read_text(encoding="utf-8")))


def blocks(page: str, text: str) -> Iterator[Block]:
    """The blocks of a page's Markdown, in their order."""
    notes = _Notes()
    for token in MarkdownIt("commonmark").parse(text):
        if token.type == "html_block":
            notes.add(token.content)
        elif token.type == "fence":
            if token.info.strip() in LANGUAGES:
                yield _block(page, token, notes)
            notes = _Notes()
        elif token.type in ("paragraph_open", "heading_open"):
            notes = _Notes()


def _block(page: str, token: Token, notes: _Notes) -> Block:
    line = (token.map or [0])[0] + 2  # the line below the fence, counted from 1
    lines = token.content.splitlines()
    read = _transcript if token.info.strip() == "console" else _script
    return Block(page, line, tuple(read(lines, line)), notes.not_run, tuple(notes.first), tuple(notes.shows))


def _script(lines: Iterable[str], first: int) -> Iterator[Command]:
    """Commands of a script: one a line, unless it goes on in the next."""
    pending: list[str] = []
    for number, line in enumerate(lines, start=first):
        if not pending and (not line.strip() or line.lstrip().startswith("#")):
            continue
        pending.append(line)
        if is_complete("\n".join(pending)):
            yield Command(number - len(pending) + 1, "\n".join(pending))
            pending = []
    if pending:
        raise ValueError(f"line {first}: an unfinished command: {pending[0]}")


def _transcript(lines: Iterable[str], first: int) -> Iterator[Command]:
    """Commands after `$ `, each with the output up to the next one."""
    command, at, output = "", first, list[str]()
    for number, line in enumerate(lines, start=first):
        if line.startswith("$ ") and command:
            yield Command(at, command, tuple(output))
        if line.startswith("$ "):
            command, at, output = line[2:], number, []
        elif not is_complete(command):
            command += "\n" + line.removeprefix("> ")
        else:
            output.append(line)
    if command:
        yield Command(at, command, tuple(output))


def is_complete(text: str) -> bool:
    """A shell would run this, and not wait for another line."""
    if text.endswith("\\"):
        return False
    opened = _HEREDOC.search(text)
    if opened:
        return text.splitlines()[-1].strip() == opened[1]
    try:
        shlex.split(text, comments=True)
    except ValueError:
        return False
    return True
