"""Scans Markdown line by line and grades the break before each line, for chunking.

A scanner instead of a Markdown parser, because it works in bounded memory on documents of any size and keeps every
character. It knows ATX and one-line setext headings, fenced code, tables, list items with what is indented under
them, and paragraphs; property tests hold its headings against a CommonMark parser's.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from enum import IntEnum

import msgspec

from opx.domain.record import replace


class Break(IntEnum):
    """Quality of a cut before a line: higher respects the text's structure better."""

    INSIDE = 0
    """Within a code block, a table, or a line that arrives in pieces."""
    TEXT = 1
    """Between the lines of a paragraph: no better than between any two words."""
    NESTED = 2
    """Within a list item."""
    BLOCK = 3
    """Between blocks."""
    HEADING = 4


class Line(msgspec.Struct, frozen=True):
    """A line with the blank lines that follow it. `level` is 1-6 for a heading and else 0; `start` is its offset; `code` is
    the language that the fence of its code block names."""

    text: str
    start: int
    break_before: Break
    level: int = 0
    heading: str = ""
    code: str = ""


# Each pattern takes linear time: a line may have 64 Ki characters that an attacker chose.
_ATX = re.compile(r" {0,3}(#{1,6})(?![^ \t\n])")
_SETEXT = re.compile(r" {0,3}(=+|-+)[ \t]*\n?\Z")
_RULE = re.compile(r" {0,3}([-*_])[ \t]*(?:\1[ \t]*){2,}\n?\Z")
_FENCE = re.compile(r"[ \t]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)?(`{3,}|~{3,})([^\n]*)")
_LANGUAGE = re.compile(r"[ \t]*\{?\.?([^\s{}]{0,30}).*")
_CLOSING_FENCE = re.compile(r"[ \t]*(`{3,}|~{3,})[ \t]*\n?\Z")
_ITEM = re.compile(r" {0,3}(?:[-*+]|\d{1,9}[.)])(?=[ \t\n]|\Z)")
_BLANKS = " \t"


def scan(pieces: Iterable[str]) -> Iterator[Line]:
    """Classifies lines. The concatenated texts of the result are the concatenated input."""
    return _attach_blank_lines(_mark_setext(_classify(_numbered(pieces))))


def _numbered(pieces: Iterable[str]) -> Iterator[tuple[str, int]]:
    position = 0
    for piece in pieces:
        yield piece, position
        position += len(piece)


class _State:
    """State of the scanner: within a fence, a list item, a table, or a paragraph."""

    def __init__(self) -> None:
        self.fence = ""
        self.fence_column = 0
        self.code = ""
        self.in_item = False
        self.item_column = 0
        self.in_table = False
        self.after_blank = True
        self.continued = False

    def end_block(self) -> None:
        """Ends the block: the next line begins a new one outside of lists and tables."""
        self.in_item = self.in_table = False
        self.after_blank = True


def _classify(pieces: Iterable[tuple[str, int]]) -> Iterator[Line]:
    state = _State()
    for text, start in pieces:
        yield _classified(text, start, state)
        state.continued = not text.endswith("\n")  # the rest of a very long line follows


def _classified(text: str, start: int, state: _State) -> Line:
    if state.continued:
        return Line(text, start, Break.INSIDE, code=state.code)
    if state.fence:
        line = Line(text, start, Break.INSIDE, code=state.code)
        if _closes_fence(text, state):
            state.fence = state.code = ""
            state.after_blank = True
        return line
    if not text.strip():
        state.after_blank, state.in_table = True, False
        return Line(text, start, Break.NESTED)
    atx = _ATX.match(text)
    if atx and not (state.in_item and _column(text) >= state.item_column):
        state.end_block()
        return Line(text, start, Break.HEADING, len(atx[1]), _atx_heading(text[atx.end() :]))
    return Line(text, start, _break_of(text, state))


def _closes_fence(text: str, state: _State) -> bool:
    closing = _CLOSING_FENCE.match(text)
    return bool(closing and closing[1].startswith(state.fence) and _column(text) <= state.fence_column + 3)


def _atx_heading(content: str) -> str:
    """A heading's text without its closing `#`s."""
    content = content.strip()
    without = content.rstrip("#")
    return without.rstrip() if not without or without[-1] in _BLANKS else content


def _column(text: str) -> int:
    """Column at which the text of a line begins; tabs reach to the next multiple of four."""
    return len(text[: len(text) - len(text.lstrip(_BLANKS))].expandtabs(4))


def _break_of(text: str, state: _State) -> Break:
    """The break before a line that is neither blank, heading nor inside a fence; updates the state."""
    after_blank, state.after_blank = state.after_blank, False
    nested = state.in_item and _column(text) > int(after_blank)  # lenient: two columns do, even under `10.`
    if text.lstrip(_BLANKS)[0].isalpha():
        return _break_of_text(text, state, nested=nested, after_blank=after_blank)
    if not (after_blank or state.in_item or state.in_table) and _SETEXT.match(text):
        state.after_blank = True
        return Break.TEXT
    if _RULE.match(text):
        if state.in_item and _column(text) >= state.item_column:
            return Break.NESTED
        state.end_block()
        return Break.BLOCK
    item = None if nested else _ITEM.match(text)
    if item:
        state.item_column = item.end() + 1
    if _opens_fence(text, state) or item:
        state.in_table = False
        state.in_item = bool(item) or nested
        return Break.NESTED if nested else Break.BLOCK
    return _break_of_text(text, state, nested=nested, after_blank=after_blank)


def _break_of_text(text: str, state: _State, *, nested: bool, after_blank: bool) -> Break:
    """The break before a table row or a line of a paragraph."""
    if _is_table_row(text, state, after_blank=after_blank):
        inside, state.in_table = state.in_table or text.lstrip()[0] != "|", True
        return Break.INSIDE if inside else (Break.NESTED if nested else Break.BLOCK)
    state.in_table = False
    if state.in_item and (nested or not after_blank):
        return Break.NESTED
    state.in_item = False
    return Break.BLOCK if after_blank else Break.TEXT


def _opens_fence(text: str, state: _State) -> bool:
    """Records the fence if the line opens a code block; a line of text may begin with code in three backticks."""
    fence = _FENCE.match(text)
    if not fence or (fence[1][0] == "`" and "`" in fence[2]):
        return False
    if _column(text) > 3 and not state.in_item:
        return False
    state.fence = fence[1]
    state.code = _LANGUAGE.sub(r"\1", fence[2])
    state.fence_column = len(text[: fence.start(1)].expandtabs(4))
    return True


def _is_table_row(text: str, state: _State, *, after_blank: bool) -> bool:
    """True for a line that begins with a bar, or has one and follows another row or is the dashes below a header."""
    if text.lstrip().startswith("|"):
        return True
    if "|" not in text:
        return False
    return state.in_table or ("-" in text and not after_blank and not text.strip(" \t\n|:-"))


def is_item(text: str) -> bool:
    """True if a line begins a list item."""
    return bool(_ITEM.match(text.lstrip(_BLANKS)))


def _mark_setext(lines: Iterable[Line]) -> Iterator[Line]:
    """Turns a one-line paragraph with its underline into a heading of two lines joined."""
    held: Line | None = None
    for line in lines:
        if held is not None:
            underline = _SETEXT.match(line.text) if line.break_before == Break.TEXT else None
            if underline:
                level = 1 if underline[1][0] == "=" else 2
                joined = Line(held.text + line.text, held.start, Break.HEADING, level, held.text.strip())
                held = None
                yield joined
                continue
            yield held
            held = None
        if _may_be_heading(line):
            held = line
        else:
            yield line
    if held is not None:
        yield held


def _may_be_heading(line: Line) -> bool:
    """True if an underline would make the line a heading: a paragraph's first line, not of a quote, list or rule."""
    text = line.text
    if line.break_before != Break.BLOCK or not text.endswith("\n") or text.lstrip()[:1] in (">", "|"):
        return False
    return not (_ITEM.match(text) or _RULE.match(text) or _column(text) > 3)


def _attach_blank_lines(lines: Iterable[Line]) -> Iterator[Line]:
    """Appends blank lines to the line before them (the first ones to the line after), so that no piece is blank."""
    held: Line | None = None
    blanks: list[str] = []
    size = 0
    for line in lines:
        blank = not line.text.strip()
        if held is not None and size < _LONGEST_WITH_BLANKS:
            if blank:
                blanks.append(line.text)
                size += len(line.text)
                continue
            if not held.text.strip():
                held = replace(line, text="".join((held.text, *blanks, line.text)), start=held.start)
                blanks, size = [], len(held.text)
                continue
        if held is not None:
            yield _with_blanks(held, blanks)
        held, blanks, size = line, [], len(line.text)
    if held is not None:
        yield _with_blanks(held, blanks)


def _with_blanks(line: Line, blanks: list[str]) -> Line:
    return replace(line, text=line.text + "".join(blanks)) if blanks else line


_LONGEST_WITH_BLANKS = 65_536
