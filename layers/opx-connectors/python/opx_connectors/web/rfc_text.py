"""Converts the plain text of an RFC to Markdown: without page breaks, with headings, and diagrams and code unchanged.

Source of the form: RFC 7994, "Requirements for Plain-Text RFCs"; RFC 2223, "Instructions to RFC Authors", for pages.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from opx.formats.markdown import fenced, one_line

_FOOTER = re.compile(r".*\[Page\s+[\divxlc]+\]\s*\Z", re.IGNORECASE)
_HEADER = re.compile(r"(RFC|Request for Comments:?)\s+\d+\b.*\d{2,4}\s*\Z")
_NUMBERED = re.compile(r"(?P<number>\d+(?:\.\d+)*|[A-Z](?:\.\d+)+)\.?\s+(?P<title>\S.*)\Z")
_APPENDIX = re.compile(r"(?:Appendix|APPENDIX|Annex)\s+[A-Z\d]+\b.*\Z")
_LEADERS = re.compile(r"(?:\.\s?){4,}\s*[\divxlc]*\s*\Z")
_ITEM = re.compile(r"(?:o|\*|\+|-|•)\s+(?=\S)")
_DRAWN = re.compile(
    r"[+|][-=.~]{2,}|[-=]{2,}[+|>]|\|.*\||\S\s{3,}\S.*\S\s{3,}\S|::=|^\s*\S+\s+=/?\s|[{};]\s*\Z|^\s*<\S"
)
_RULE = re.compile(r"\s*[-=_]{3,}(?:\s+[-=_]{3,})*\s*\Z")
_SENTENCE_END = re.compile(r"[.:;!?)\"'>]\s*\Z")
_LEFT_OUT = (
    "table of contents",
    "contents",
    "status of this memo",
    "status of memo",
    "copyright notice",
    "full copyright statement",
    "copyright statement",
    "intellectual property",
    "intellectual property statement",
    "disclaimer of validity",
)
"""Sections that are the same in all RFCs, or repeat the headings; in lower case."""

_MAX_HEADING = 100
_MAX_LINE = 200
"""Characters of a line that are searched for drawings; lines of RFCs have 72."""

_MAX_LEVEL = 6


def rfc_markdown(text: str) -> str:
    """Converts the text from its first heading on, with headings from level 2 on; all of it if it has none."""
    lines = list(_unpaged(text))
    parts: list[str] = []
    kept = begun = False
    chapter = ""
    for block in _blocks(lines):
        heading = _heading(block) or (_inner_heading(block, chapter) if kept else None)
        if heading:
            level, title = heading
            kept = title.lower().rstrip(".:") not in _LEFT_OUT
            begun = True
            chapter = title.partition(".")[0] if level == 1 else chapter
            parts += [f"{'#' * min(level + 1, _MAX_LEVEL)} {title}"] if kept else []
        elif kept:
            parts.append(_body(block))
    if not begun:
        parts = [_body(block) for block in _blocks(lines)]
    return "\n\n".join(_joined_code(part for part in parts if part))


def _unpaged(text: str) -> Iterator[str]:
    """Returns the lines without headers and footers of pages. A paragraph that a page break divides is joined."""
    pages = text.removeprefix("\ufeff").replace("\r\n", "\n").split("\f")
    last = ""
    for at, page in enumerate(pages):
        lines = [line.rstrip() for line in page.split("\n")]
        _drop_blank(lines)
        if lines and _FOOTER.match(lines[-1]):
            lines.pop()
        if at and lines and _HEADER.match(lines[0].strip()):
            lines.pop(0)
        _drop_blank(lines)
        if not lines:
            continue
        if last and not _goes_on(last, lines[0]):
            yield ""
        yield from lines
        last = lines[-1]


def _drop_blank(lines: list[str]) -> None:
    while lines and not lines[-1]:
        lines.pop()
    while lines and not lines[0]:
        lines.pop(0)


def _goes_on(last: str, first: str) -> bool:
    """True if a page begins in the middle of a sentence: with the same indentation, after a line without an end."""
    same = _indent(last) == _indent(first)
    return same and not _SENTENCE_END.search(last) and first.strip()[:1].islower()


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _blocks(lines: Iterable[str]) -> Iterator[list[str]]:
    block: list[str] = []
    for line in lines:
        if line.strip():
            block.append(line)
        elif block:
            yield block
            block = []
    if block:
        yield block


def _heading(block: list[str]) -> tuple[int, str] | None:
    """Returns level (from 1) and title of a heading, which begins in the first column, unlike body text."""
    title = one_line(" ".join(block))
    odd = _indent(block[0]) or len(title) > _MAX_HEADING or len(block) > 2 or _LEADERS.search(block[0])
    if odd or (len(block) == 2 and not _indent(block[1])):
        return None
    numbered = _NUMBERED.match(title)
    if numbered:
        return numbered["number"].count(".") + 1, title
    if _APPENDIX.match(title):
        return 1, title
    plain = title.rstrip(":")
    return (1, plain) if len(block) == 1 and _is_title(plain) else None


def _inner_heading(block: list[str], chapter: str) -> tuple[int, str] | None:
    """Returns level and title of an indented heading within a chapter, as some authors have them."""
    title = one_line(block[0])
    numbered = _NUMBERED.match(title)
    if (
        len(block) > 1
        or len(title) > _MAX_HEADING
        or not numbered
        or "." not in numbered["number"]
        or _LEADERS.search(title)
    ):
        return None
    if numbered["number"].partition(".")[0] != chapter or _SENTENCE_END.search(title):
        return None
    return numbered["number"].count(".") + 1, title


def _is_title(line: str) -> bool:
    """True if a line of text at the first column is an unnumbered heading, such as `Abstract`."""
    words = line.split()
    return len(words) <= 8 and line[:1].isupper() and not _SENTENCE_END.search(line) and "  " not in line


def _body(block: list[str]) -> str:
    """Converts a paragraph or a list; diagrams, tables, grammars and code stay as they are."""
    first = min(_indent(line) for line in block)
    lines = [line[min(first, 3) :] for line in block]
    drawn = sum(bool(_DRAWN.search(line[:_MAX_LINE])) for line in lines)
    if drawn * 3 > len(lines) or any(_RULE.match(line) for line in lines):
        return fenced("\n".join(lines))
    return "\n".join(_items(lines))


def _items(lines: Iterable[str]) -> Iterator[str]:
    """Returns the lines without indentation, items as bullets; marks of headings, quotes and code are escaped."""
    for line in lines:
        text = line.strip()
        mark = _ITEM.match(text)
        if mark:
            yield f"- {text[mark.end() :]}"
        else:
            yield f"\\{text}" if text[0] in "#>=`~" else text


def _joined_code(parts: Iterable[str]) -> Iterator[str]:
    """Joins consecutive code blocks in one fence, as blank lines within code had divided them."""
    held = ""
    for part in parts:
        code = part.startswith("```\n")
        if held and code:
            held = f"{held[:-4]}\n\n{part[4:]}"
        else:
            if held:
                yield held
            held = part if code else ""
            if not code:
                yield part
    if held:
        yield held
