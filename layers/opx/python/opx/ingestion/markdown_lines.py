"""Markdown text, line by line, with how good a place each line's start is to cut.

A scanner instead of a Markdown parser, because it works in bounded memory on documents of any size and keeps every
character. It knows ATX and one-line setext headings, fenced code, tables, list items with what is indented under
them, and paragraphs; property tests hold its headings against a CommonMark parser's.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import IntEnum


class Break(IntEnum):
    """How well a cut before a line respects the text: higher is better."""

    INSIDE = 0
    """Within a code block or a table."""
    NESTED = 1
    """Within a list item or a paragraph."""
    BLOCK = 2
    """Between blocks."""
    HEADING = 3


@dataclass(frozen=True, slots=True)
class Line:
    """A line with the blank lines that follow it. `level` is 1-6 for a heading and else 0; `start` is its offset."""

    text: str
    start: int
    break_before: Break
    level: int = 0
    heading: str = ""


_ATX = re.compile(r" {0,3}(#{1,6})(?:[ \t]+(.*?))??(?:[ \t]+#+)?[ \t]*\n?\Z")
_SETEXT = re.compile(r" {0,3}(=+|-+)[ \t]*\n?\Z")
_FENCE = re.compile(r"[ \t]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)?(`{3,}|~{3,})([^`\n]*)")
_CLOSING_FENCE = re.compile(r"[ \t]*(`{3,}|~{3,})[ \t]*\n?\Z")
_ITEM = re.compile(r" {0,3}(?:[-*+]|\d{1,9}[.)])(?:[ \t]+|\n|\Z)")
_NOT_SETEXT = re.compile(r"\s*(?:[|>#]|[-*+]\s|\d{1,9}[.)]\s|```|~~~)")


def scan(pieces: Iterable[str]) -> Iterator[Line]:
    """Classify lines. The concatenated texts of the result are the concatenated input."""
    return _attach_blank_lines(_mark_setext(_classify(_numbered(pieces))))


def _numbered(pieces: Iterable[str]) -> Iterator[tuple[str, int]]:
    position = 0
    for piece in pieces:
        yield piece, position
        position += len(piece)


class _State:
    """Where the scanner is: within a fence, a list item, a table, or a paragraph."""

    def __init__(self) -> None:
        self.fence = ""
        self.in_item = False
        self.in_table = False
        self.after_blank = True
        self.continued = False


def _classify(pieces: Iterable[tuple[str, int]]) -> Iterator[Line]:
    state = _State()
    for text, start in pieces:
        yield _classified(text, start, state)
        state.continued = not text.endswith("\n")  # the rest of a very long line follows


def _classified(text: str, start: int, state: _State) -> Line:
    blank = not text.strip()
    if state.fence:
        closing = _CLOSING_FENCE.match(text)
        if closing and closing[1].startswith(state.fence):
            state.fence = ""
            state.after_blank = True
        return Line(text, start, Break.INSIDE)
    if state.continued:
        return Line(text, start, Break.INSIDE)
    if blank:
        state.after_blank, state.in_table = True, False
        return Line(text, start, Break.NESTED)
    atx = _ATX.match(text)
    if atx:
        state.in_item = state.in_table = False
        state.after_blank = True
        return Line(text, start, Break.HEADING, len(atx[1]), (atx[2] or "").strip())
    return Line(text, start, _break_of(text, state))


def _break_of(text: str, state: _State) -> Break:
    """The break before a line that is neither blank, heading nor inside a fence; updates the state."""
    indented = text[0] in " \t"
    starts_item = bool(_ITEM.match(text))
    after_blank, state.after_blank = state.after_blank, False
    fence = _FENCE.match(text)
    if fence and not (fence[1][0] == "`" and "`" in fence[2]):
        state.fence, state.in_table = fence[1], False
        state.in_item = starts_item or (state.in_item and indented)
        return Break.NESTED if state.in_item and not starts_item else Break.BLOCK
    if text.lstrip().startswith("|"):
        inside, state.in_table = state.in_table, True
        return Break.INSIDE if inside else (Break.NESTED if state.in_item and indented else Break.BLOCK)
    state.in_table = False
    if starts_item and not (state.in_item and indented):
        state.in_item = True
        return Break.BLOCK
    if state.in_item and (indented or not after_blank):
        return Break.NESTED
    state.in_item = False
    return Break.BLOCK if after_blank else Break.NESTED


def _mark_setext(lines: Iterable[Line]) -> Iterator[Line]:
    """Turn a one-line paragraph with its underline into a heading of two lines joined."""
    held: Line | None = None
    for line in lines:
        if held is not None:
            underline = _SETEXT.match(line.text) if line.break_before == Break.NESTED else None
            if underline and line.text.strip():
                level = 1 if underline[1][0] == "=" else 2
                joined = Line(held.text + line.text, held.start, Break.HEADING, level, held.text.strip())
                held = None
                yield joined
                continue
            yield held
            held = None
        may_be_heading = line.break_before == Break.BLOCK and line.text.endswith("\n")
        if may_be_heading and not _NOT_SETEXT.match(line.text) and not line.text.startswith("    "):
            held = line
        else:
            yield line
    if held is not None:
        yield held


def _attach_blank_lines(lines: Iterable[Line]) -> Iterator[Line]:
    """Give blank lines to the line before them (the first ones to the line after), so that no piece is blank."""
    held: Line | None = None
    for line in lines:
        blank = not line.text.strip()
        if held is not None and blank and len(held.text) < _LONGEST_WITH_BLANKS:
            held = replace(held, text=held.text + line.text)
            continue
        if held is not None and not held.text.strip() and len(held.text) < _LONGEST_WITH_BLANKS:
            held = replace(line, text=held.text + line.text, start=held.start)
            continue
        if held is not None:
            yield held
        held = line
    if held is not None:
        yield held


_LONGEST_WITH_BLANKS = 65_536
