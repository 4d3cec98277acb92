"""Found text as Markdown that means no more than the text did."""

from __future__ import annotations

import re
from collections.abc import Sequence

_STRUCTURE = re.compile(r"(?m)^([ \t]{0,3})(#{1,6}(?=[ \t]|$)|`{3,}|~{3,}|\||>|(?:=+|-{2,})[ \t]*$)")
_FENCES = re.compile(r"`{3,}")
_SPACE = re.compile(r"\s+")


def plain(text: str) -> str:
    """Text whose lines begin no heading, code, table or quotation."""
    return _STRUCTURE.sub(r"\1\\\2", text)


def heading(level: int, text: str) -> str:
    """A heading in one line; levels go from 1 to 6."""
    return f"{'#' * max(1, min(level, 6))} {one_line(text)}"


def one_line(text: str) -> str:
    return _SPACE.sub(" ", text).strip()


def code(lines: Sequence[str]) -> str:
    """A fenced block, its fence longer than any in the code."""
    body = "\n".join(lines)
    fence = max(["``", *_FENCES.findall(body)], key=len) + "`"
    return f"{fence}\n{body}\n{fence}"


def table(rows: Sequence[Sequence[str]], *, header: bool = True) -> str:
    """Rows as a table with bars; the first is its header, or an empty one is. Empty columns at the right are left out."""
    cells = [[one_line(cell).replace("|", "\\|") for cell in row] for row in rows]
    width = max((at + 1 for row in cells for at, cell in enumerate(row) if cell), default=0)
    if not width:
        return ""
    if not header:
        cells.insert(0, [""] * width)
    lines = ["| " + " | ".join((row + [""] * width)[:width]) + " |" for row in cells]
    return "\n".join([lines[0], "|" + " --- |" * width, *lines[1:]])
