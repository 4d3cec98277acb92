"""Writes Markdown: external text, escaped so that it can't change the document's structure, and relations.

Relations stated by a source are lines at the end of a document: `jira:TASK-123|BLOCKS|jira:TASK-9`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

_STRUCTURE = re.compile(r"(?m)^([ \t]{0,3})(#{1,6}(?=[ \t]|$)|`{3,}|~{3,}|\||>|(?:=+|-{2,})[ \t]*$)")
_FENCES = re.compile(r"`{3,}")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)\Z")
_HEADING = re.compile(r" {0,3}(#{1,6})(?=[ \t]|\Z)")
_UNDERLINE = re.compile(r" {0,3}(?:=+|-+)[ \t]*\Z")
_MAX_LEVEL = 6


def plain(text: str) -> str:
    """Escapes text so that its lines begin no heading, code, table or quotation."""
    return _STRUCTURE.sub(r"\1\\\2", text)


def heading(level: int, text: str) -> str:
    """A heading in one line; levels go from 1 to 6."""
    return f"{'#' * max(1, min(level, 6))} {one_line(text)}"


def one_line(text: str) -> str:
    """Collapses line breaks and runs of spaces."""
    return " ".join(text.split())


def code(lines: Sequence[str]) -> str:
    """A fenced block, its fence longer than any in the code."""
    body = "\n".join(lines)
    fence = max(["``", *_FENCES.findall(body)], key=len) + "`"
    return f"{fence}\n{body}\n{fence}"


def table(rows: Sequence[Sequence[str]], *, header: bool = True, trimmed: bool = True) -> str:
    """Formats rows as a table with bars; the first is its header, or an empty one is. `trimmed` drops empty columns at
    the right."""
    cells = [[one_line(cell).replace("|", "\\|") for cell in row] for row in rows]
    width = max((at + 1 for row in cells for at, cell in enumerate(row) if cell or not trimmed), default=0)
    if not width:
        return ""
    if not header:
        cells.insert(0, [""] * width)
    lines = ["| " + " | ".join((row + [""] * width)[:width]) + " |" for row in cells]
    return "\n".join([lines[0], "|" + " --- |" * width, *lines[1:]])


def fenced(code: str, language: str = "") -> str:
    """Code in a fence that is longer than any in it."""
    fence = max(["``", *_FENCES.findall(code)], key=len) + "`"
    word = re.sub(r"[^\w+#.-]", "", language)
    return f"{fence}{word}\n{code.strip(chr(10))}\n{fence}"


def nested(markdown: str, under: int) -> str:
    """Moves Markdown headings below level `under`, and closes every code fence.

    Underlines that would make a heading of the line above are escaped: only headings with `#` are moved.
    """
    lines: list[str] = []
    fence = ""
    previous = ""
    for line in markdown.replace("\r\n", "\n").replace("\r", "\n").split("\n"):
        mark = _FENCE.match(line)
        if fence:
            if mark and mark[1].startswith(fence) and not mark[2].strip():
                fence = ""
            lines.append(line)
            previous = ""
            continue
        if mark and not (mark[1][0] == "`" and "`" in mark[2]):
            fence = mark[1]
        lines.append(_moved(line, previous, under))
        previous = line
    return "\n".join([*lines, fence] if fence else lines).strip("\n")


def _moved(line: str, previous: str, under: int) -> str:
    heading = _HEADING.match(line)
    if heading:
        return "#" * min(len(heading[1]) + under, _MAX_LEVEL) + line[heading.end() :]
    if previous.strip() and _UNDERLINE.match(line):
        return "\\" + line.lstrip()
    return line


def facts(pairs: Iterable[tuple[str, str]]) -> str:
    """`- **Name**: value` for each pair that has a value."""
    return "\n".join(f"- **{name}**: {one_line(value)}" for name, value in pairs if value.strip())


def joined(parts: Iterable[str]) -> str:
    """Joins parts that are not empty by blank lines, with a line end."""
    return "\n\n".join(part.strip("\n") for part in parts if part.strip()) + "\n"


_MARKS = re.compile(r"[|\[\]<>`\"]")
_EDGE = re.compile(r"[^A-Z0-9]+")


def reference(namespace: str, value: str) -> str:
    """`user:john` and the like; structural characters are removed from the value. "" without a value."""
    cleaned = one_line(_MARKS.sub(" ", value))
    return f"{namespace}:{cleaned}" if cleaned else ""


def relation(origin: str, edge: str, target: str) -> str:
    """A relation's line, or "" if an end of it is missing. The edge is written in capitals with underscores."""
    name = _EDGE.sub("_", edge.upper()).strip("_") or "RELATED_TO"
    return f"{origin}|{name}|{target}" if origin and target else ""


def block(lines: Iterable[str]) -> str:
    """The relations of a document, each once, or "" if there are none."""
    found = [line for line in dict.fromkeys(lines) if line]
    return "\n".join(["relationships:", *(f"- {line}" for line in found)]) if found else ""
