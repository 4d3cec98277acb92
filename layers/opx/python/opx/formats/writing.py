"""Writes Markdown from the parts of other formats, in blocks that chunking needn't split."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from opx.formats.source import MAX_PIECE

PIECE = 1_200
"""Approximate characters of a code block or table before the next one begins: some 400 tokens, so that it fits a chunk."""

_MAX_HEADING = 200
_FENCES = re.compile(r"`{3,}")
_HEADING = re.compile(r"( {0,3})(#{1,6}(?:[ \t]|$))")
_UNDERLINE = re.compile(r" {0,3}(?:=+|-+)[ \t]*\Z")
_OPENING = re.compile(r" {0,3}(`{3,}|~{3,})")


def heading(level: int, text: str) -> str:
    """A heading in one line, at most level 6, with the blank line below it; "" without any text."""
    words = " ".join(text.split())[:_MAX_HEADING].rstrip()
    return f"{'#' * min(level, 6)} {words}\n\n" if words else ""


def fenced(lines: Iterable[str], language: str = "") -> Iterator[str]:
    """Yields code blocks of about `PIECE` characters, lazily, cut before lines that begin a block.

    `lines` end with `\
    `, but for the pieces of a very long one, which is cut anywhere. Blank lines around a
    block are dropped.
    """
    held: list[str] = []
    size = 0
    for line in lines:
        held.append(line)
        size += len(line)
        if size >= PIECE and (line.endswith("\n") or size > MAX_PIECE):
            at = _best_cut(held)
            yield _block(held[:at], language)
            held = held[at:]
            size = sum(map(len, held))
    yield _block(held, language)


def plain_text(text: str) -> str:
    """Converts text of another format to paragraphs: escapes headings, and closes the code blocks that it opens.

    An underlined line becomes bold.
    """
    done: list[str] = []
    fence = ""
    for line in text.split("\n"):
        opening = _OPENING.match(line)
        if fence:
            fence = "" if opening and opening[1].startswith(fence) and not line[opening.end() :].strip() else fence
        elif opening:
            fence = opening[1]
        elif _UNDERLINE.match(line) and done and done[-1].strip():
            done[-1] = f"**{done[-1].strip()}**\n" if not done[-1].endswith("**\n") else done[-1]
            continue
        else:
            line = _HEADING.sub(r"\1\\\2", line)  # noqa: PLW2901
        done.append(line)
    return "\n".join([*done, fence] if fence else done)


def cell(text: str) -> str:
    """A table cell: one line, bars escaped."""
    return " ".join(text.split()).replace("|", "\\|")


def table_row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |\n"


def table_head(cells: Sequence[str]) -> str:
    """The header row and the line of dashes below it."""
    return table_row(cells) + table_row(["---"] * len(cells))


def _block(lines: list[str], language: str) -> str:
    code = "".join(lines).rstrip()
    while code[: (end := code.find("\n") + 1)].isspace():
        code = code[end:]
    if not code.strip():
        return ""
    fence = max(["``", *_FENCES.findall(code)], key=len) + "`"
    return f"{fence}{language}\n{code}\n{fence}\n\n"


def _best_cut(lines: list[str]) -> int:
    """Number of lines before the best cut: at the least indented line of the second half, preferably below a blank line."""
    best, rank = len(lines), (2, 0)
    for at in range(max(1, len(lines) // 2), len(lines)):
        line = lines[at]
        if not line.strip() or line.lstrip()[0] in ")]}":
            continue
        found = (int(bool(lines[at - 1].strip())), len(line) - len(line.lstrip()))
        if found <= rank:
            best, rank = at, found
    return best


_DASHES = re.compile(r"\|(?: *:?-+:? *\|)+\s*\Z")
_MAX_REPEATED_HEAD = 400


def with_repeated_heads(lines: Iterable[str]) -> Iterator[str]:
    """Splits long tables into several, each with the column names: if chunking split a table, only the first part would
    have them. Heads of over 400 characters are not repeated."""
    before, head, size, fence = "", "", 0, False
    for line in lines:
        fence ^= line.startswith(("```", "~~~"))
        if fence or not line.startswith("|"):
            head = ""
        elif _DASHES.match(line) and before.startswith("|") and not head:
            head, size = before + line, 0
        elif head and size >= PIECE and len(head) <= _MAX_REPEATED_HEAD:
            yield "\n" + head
            size = 0
        yield line
        size += len(line)
        before = line
