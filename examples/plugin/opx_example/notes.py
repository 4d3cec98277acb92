"""Notes whose headings begin with `*`, as in Org mode."""

from __future__ import annotations

import re
from itertools import chain

from opx.sdk import Format, ParsedSource, Source, text_lines

FORMAT = Format(".opxnote", parse="opx_example.notes:parse")

_HEADING = re.compile(r"(\*+)(?= )")


def parse(source: Source) -> ParsedSource:
    """The note as Markdown; the file's first line is its title, if it is a heading."""
    lines = text_lines(source)
    first = next(lines, "")
    title = first.removeprefix("* ").strip() if first.startswith("* ") else None
    return ParsedSource(title, {}, map(_heading, chain([first], lines)))


def _heading(line: str) -> str:
    return _HEADING.sub(lambda found: "#" * len(found[1]), line, count=1) if line.startswith("*") else line
