"""Writes Markdown: external text, escaped so that it can't change the document's structure, and relations.

Relations stated by a source are lines at the end of a document: `jira:TASK-123|BLOCKS|jira:TASK-9`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from io import StringIO
from typing import TYPE_CHECKING

from opx.formats.markdown_lines import scan

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

_STRUCTURE = re.compile(r"(?m)^([ \t]{0,3})(#{1,6}(?=[ \t]|$)|`{3,}|~{3,}|\||>|(?:=+|-{2,})[ \t]*$)")
_FENCES = re.compile(r"`{3,}")
_LIKE_HEADING = re.compile(r"\A( {0,3})(#{1,6}(?=[ \t]|\Z)|(?:=+|-+)[ \t]*\Z)")
_NO_QUOTE = re.compile(r"[^>\s]")
_COMMENT = "<!--"
_MAX_LEVEL = 6
_MAX_NESTING = 80
_MAX_PARSED = 4
"""Number of times that text is parsed: what is left without its comments may be code or have comments itself."""


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
    """Embeds Markdown by another author below a heading of level `under`, so that it can't pass for another's.

    Its headings become deeper ones, code that it leaves open is closed, and HTML comments are removed. Text that would not
    end with the section, or that readers would divide in different ways, is shown as code.
    """
    lines = storable(markdown).replace("\r\n", "\n").replace("\r", "\n").strip("\n").split("\n")
    for _ in range(_MAX_PARSED):
        tokens = _parsed(lines)
        if not _remove_comments(lines, tokens):
            break
    else:
        return code(lines)
    open_html = any(token.type == "html_block" and token.map[1] > len(lines) for token in tokens if token.map)
    if open_html or max(token.level for token in tokens) >= _MAX_NESTING - 1:
        return code(lines)
    shown = "\n".join(_demoted(lines, tokens, under)).strip("\n")
    if not shown.strip():
        return ""
    return shown if _stays_below(shown, under) else code(lines)


def storable(text: str) -> str:
    """Removes NUL, and replaces halves of surrogate pairs by `?`: JSON may hold them, but no store accepts them."""
    return text.replace("\0", "").encode("utf-8", "replace").decode()


def _parsed(lines: Sequence[str]) -> list[Token]:
    """The tokens of blocks, the last ones those of a heading behind the lines: a block of HTML that ends behind them is
    not closed."""
    return _parser().parse("\n".join([*lines, "", "# end", ""]))


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"maxNesting": _MAX_NESTING})
    parser.core.ruler.disable(["inline", "text_join"])
    return parser


def _remove_comments(lines: list[str], tokens: Iterable[Token]) -> bool:
    """Removes HTML comments from the lines in place, and returns True if there were any outside of code."""
    found = False
    for token in tokens:
        if token.map and token.type in ("inline", "html_block") and _COMMENT in token.content:
            kept = _without_comments(token.content, of_html=token.type == "html_block")
            pairs = zip(token.content.split("\n"), kept.split("\n"), strict=True)
            for number, (before, after) in enumerate(pairs, token.map[0]):
                if before.strip() != after.strip() and number < len(lines):
                    prefix, _, rest = lines[number].rpartition(before.strip())
                    lines[number] = f"{prefix}{after.strip()}{rest}".rstrip()
                    found = True
    return found


def _without_comments(text: str, *, of_html: bool) -> str:
    """The text with the line breaks of its comments; one that isn't closed is a comment only in a block of HTML."""
    parts: list[str] = []
    at = 0
    while (begin := text.find(_COMMENT, at)) >= 0:
        end = text.find("-->", begin + len(_COMMENT))
        if end < 0 and not of_html:
            break
        end = len(text) if end < 0 else end + 3
        parts += [text[at:begin], "\n" * text.count("\n", begin, end)]
        at = end
    return "".join([*parts, text[at:]])


def _demoted(lines: Sequence[str], tokens: Sequence[Token], under: int) -> Iterator[str]:
    """The lines with deeper headings and closed fences. In HTML, lines that only look like headings change, too: `scan`
    doesn't know HTML."""
    shown: list[str | None] = list(lines)
    for at, token in enumerate(tokens):
        first, end = token.map or (len(lines), 0)
        if first >= len(lines):
            continue
        if token.type == "heading_open":
            shown[first] = _deeper(lines[first], token, tokens[at + 1].content, under)
            shown[first + 1 : end] = [None] * (end - first - 1)
        elif token.type == "fence" and token.content.count("\n") + 1 == end - first:
            prefix = _NO_QUOTE.sub(" ", lines[first].partition(token.markup)[0])
            end = min(end, len(lines))
            shown[end - 1] = f"{shown[end - 1]}\n{prefix}{token.markup}"
        elif token.type == "html_block":
            shown[first:end] = [_LIKE_HEADING.sub(r"\1\\\2", line) for line in lines[first:end]]
        elif token.type == "hr" and not token.level and first and lines[first - 1].strip():
            shown[first] = f"\n{lines[first]}"  # behind the definition of a link, `scan` takes it for an underline
    return (line for line in shown if line is not None)


def _deeper(line: str, heading: Token, title: str, under: int) -> str:
    marks = "#" * min(int(heading.tag[1]) + under, _MAX_LEVEL)
    if heading.markup.startswith("#"):
        before, _, after = line.partition(heading.markup)
        return f"{before}{marks}{after}"
    return f"{line[: line.rfind(title.partition(chr(10))[0])]}{marks} {one_line(title)}"


def _stays_below(text: str, under: int) -> bool:
    """True if `scan`, by which documents are divided, finds only deeper headings, and the author's next one."""
    levels = [line.level for line in scan(StringIO(f"{text}\n\n{'#' * under} next")) if line.level]
    return levels[-1:] == [under] and all(level > under for level in levels[:-1])


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
