"""Converts AsciiDoc to Markdown line by line: the constructs that most pages use, by the AsciiDoc Language Documentation.

Attributes are substituted, but no file is included. Unknown constructs stay as text.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from opx.domain.documents import Remark, RemarkKind
from opx.formats.source import ParsedSource, Source, cut_lines, filled_lines
from opx.formats.writing import cell, fenced, heading, plain_text, table_head, table_row

_TITLE = re.compile(r"(={1,6}|#{1,6})[ \t]+(\S.*)")
_ATTRIBUTE = re.compile(r":(!?)([A-Za-z0-9_][\w-]{0,100})(!?):(?:[ \t]+(.*))?\Z")
_AUTHOR = re.compile(r"(\w[^<>:\n]{0,200}?)[ \t]*<([^<>\s]+)>")
_REVISION = re.compile(r"v?(\d[\w.-]*)?(?:,?[ \t]*(\d{4}-\d{2}-\d{2}))?(?:[:,].*)?\Z")
_BLOCK_ATTRIBUTES = re.compile(r"\[([^\[\]]*(?:\[[^\[\]]*\][^\[\]]*)*)\]\Z")
_DELIMITER = re.compile(r"(-{4,}|\.{4,}|\+{4,}|={4,}|\*{4,}|_{4,}|/{4,}|--|```|[|,:!]={3,})([\w+#.-]*)\Z")
_ITEM = re.compile(r"[ \t]*(\*{1,5}|\.{1,5}|-|\d{1,9}\.)[ \t]+(\S.*)")
_DESCRIBED = re.compile(r"[ \t]*(\S.{0,300}?)(::{1,3}|;;)(?:[ \t]+(.*))?\Z")
_ADMONITION = re.compile(r"(NOTE|TIP|IMPORTANT|WARNING|CAUTION):[ \t]+(.*)")
_INCLUDE = re.compile(r"include::([^\[\]]+)\[")
_CONDITION = re.compile(r"(?:ifdef|ifndef|ifeval|endif)::[^\[]*\[(.*)\]\Z")
_BLOCK_TITLE = re.compile(r"\.([^ \t.].*)\Z")
_OPTION = re.compile(r"(?:[^,\"]|\"[^\"]*\"?)+|(?<=,)(?=,)|^(?=,)")
_ADMONITIONS = ("NOTE", "TIP", "IMPORTANT", "WARNING", "CAUTION")
_MAX_DEPTH = 6
_MAX_AUTHORS = 1_000
MAX_ADDED = 256 * 1024
"""Characters that attributes may add to a page."""

MAX_COLUMNS = 200
_REPEATED = 100
"""Characters of a cell, at most, that a repetition count before it repeats."""

_ROWS = 40
"""Rows after which the header is repeated, as chunks don't hold much more."""

_SPECIFIER = r"(?:(\d{1,3})(?:\.\d{1,3})?([+*]))?(?:\.\d{1,3}\+)?[<^>]?(?:\.[<^>])?[adehlmsv]?"
_COLUMN = re.compile(r"\s*(?:(\d{1,3})\*)?")
_FORMATS = {"csv": ",", "tsv": "\t", "dsv": ":"}

MAX_VALUE = 10_000
"""Characters of a line after substitution: attributes of attributes would multiply."""

_REFERENCE = re.compile(r"(\\?)\{([A-Za-z0-9_][\w-]{0,100})\}")
_BUILT_IN = {
    "nbsp": " ",
    "zwsp": "",
    "empty": "",
    "sp": " ",
    "plus": "+",
    "lt": "<",
    "gt": ">",
    "amp": "&",
    "vbar": "|",
}
_LINK = re.compile(
    r"(?:link:|mailto:|xref:)?((?:https?|ftp|irc)://[^\s\[\]<>\"]{1,500}|(?<=link:)[^\s\[\]]{1,500})\[([^\[\]]{0,500})\]"
)
_XREF = re.compile(r"xref:([^\s\[\]]{1,500})\[([^\[\]]{0,500})\]")
_CROSS = re.compile(r"<<([^<>,\n]{1,300})(?:,([^<>\n]{1,300}))?>>")
_IMAGE = re.compile(r"image::?([^\s\[\]:][^\[\]\n]{0,500})\[([^\[\]\n]{0,500})\]")
_MACRO = re.compile(r"\b(?:kbd|btn|menu|footnote|pass|stem|icon):[^\s\[\]]{0,100}\[([^\[\]\n]{0,500})\]")
_ANCHOR = re.compile(r"\[\[[^\[\]\n]{1,200}\]\]|\[#[^\[\]\n]{1,200}\](?=[`*_#\w])")
_MONOSPACE = re.compile(r"(?<![\w`])`\+?([^`\n]{1,500}?)\+?`(?![\w`])")
_BOLD = re.compile(r"(?<![\w*])\*(\S(?:[^*\n]{0,500}?\S)?)\*(?![\w*])")
_HARD_BREAK = re.compile(r" \+\Z")


def parse_asciidoc(source: Source) -> ParsedSource:
    """Converts the page to Markdown; title, author, version, date, description and keywords come from its header.

    Raises `UnparsableDocumentError`. Held in memory whole, as attributes apply from where they are set.
    """
    lines = filled_lines(source)
    page = _Page(source.name, "".join(lines).split("\n"))
    title = page.header()
    blocks = page.blocks()
    return ParsedSource(title or None, page.metadata, cut_lines(blocks, source.name), page.remarks)


@dataclass(slots=True)
class _Page:
    name: str
    lines: list[str]
    at: int = 0
    room: int = MAX_ADDED
    attributes: dict[str, str] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)
    remarks: list[Remark] = field(default_factory=list)
    options: list[str] = field(default_factory=list)
    """Attributes in brackets above the block: its style, and the language."""

    open_blocks: list[str] = field(default_factory=list)
    headings: list[str] = field(default_factory=list)

    def header(self) -> str:
        """Reads the title; leaves `at` below the header."""
        while self.at < len(self.lines) and (not self._line().strip() or self._takes_no_space()):
            self.at += 1
        found = _TITLE.match(self._line()) if self.at < len(self.lines) else None
        if not found or len(found[1]) > 1:
            return ""
        self.at += 1
        plain = 0
        while self.at < len(self.lines) and self._line().strip():
            if not self._takes_no_space():
                self._author_or_revision(self._line(), plain)
                plain += 1
            self.at += 1
        title = inline(self._filled(found[2]))
        self.headings.append(heading(1, title))
        self._declared()
        return title

    def _author_or_revision(self, line: str, number: int) -> None:
        if number == 0:
            authors = [match[1] for match in _AUTHOR.finditer(line[:_MAX_AUTHORS])]
            self.metadata["author"] = ", ".join(authors) or line[:200].partition(";")[0].strip()
        elif number == 1 and (match := _REVISION.match(line)):
            found = {"version": match[1], "last_updated": match[2]}
            self.metadata.update({key: value for key, value in found.items() if value})

    def _declared(self) -> None:
        names = {"author": "author", "revnumber": "version", "description": "description", "lang": "language"}
        for name, key in names.items():
            if self.attributes.get(name):
                self.metadata.setdefault(key, self.attributes[name])
        if re.match(r"\d{4}-\d{2}-\d{2}\Z", self.attributes.get("revdate", "")):
            self.metadata.setdefault("last_updated", self.attributes["revdate"])
        if self.attributes.get("keywords"):
            self.metadata.setdefault("tags", self.attributes["keywords"])

    def _line(self) -> str:
        return self.lines[self.at].rstrip()

    def _takes_no_space(self) -> bool:
        """Consumes a comment, an attribute entry, a condition or an include, which is remarked on; True if there was one."""
        line = self._line()
        if line.startswith("//") and not line.startswith("////"):
            return True
        if match := _ATTRIBUTE.match(line):
            if match[1] or match[3]:
                self.attributes.pop(match[2].lower(), None)
            else:
                self.attributes[match[2].lower()] = self._filled(match[4] or "")
            return True
        if match := _INCLUDE.match(line):
            text = f"{self.name}: line {self.at + 1} includes {match[1][:200]}, which is not followed"
            self.remarks.append(Remark(RemarkKind.UNREAD_PART, text))
            return True
        condition = _CONDITION.match(line)
        return bool(condition and not condition[1])

    def blocks(self) -> Iterator[str]:
        """Yields the rest of the page."""
        yield from self.headings
        while self.at < len(self.lines):
            line = self._line()
            if not line.strip() or self._takes_no_space():
                self.at += 1
                continue
            yield from self._block(line)

    def _block(self, line: str) -> Iterator[str]:
        if delimiter := _DELIMITER.match(line):
            yield from self._delimited(line, delimiter)
        elif found := _TITLE.match(line):
            self.at += 1
            yield heading(len(found[1]), self._inline(found[2]))
            self.options = []
        elif match := _BLOCK_ATTRIBUTES.match(line):
            self.at += 1
            self.options = [part.strip() for part in _OPTION.findall(match[1])]
        elif match := _BLOCK_TITLE.match(line):
            self.at += 1
            yield f"**{self._inline(match[1])}**\n\n"
        elif line == "+" or re.match(r"'{3,}\Z|<{3,}\Z", line):
            self.at += 1
        elif _ITEM.match(line) or _DESCRIBED.match(line):
            yield from self._items()
        else:
            yield from self._paragraph()

    def _delimited(self, line: str, delimiter: re.Match[str]) -> Iterator[str]:
        """The block up to the same delimiter; compound blocks are converted like the page itself."""
        kind = delimiter[1]
        self.at += 1
        if kind[0] in "=*_" or (kind == "--" and not self._is_listing()):
            yield from self._compound(line)
            return
        start = self.at
        end = kind if kind == "```" else line
        while self.at < len(self.lines) and self._line() != end:
            self.at += 1
        inside = self.lines[start : self.at]
        self.at += 1
        yield from self._verbatim(kind, inside, delimiter[2])
        self.options = []

    def _verbatim(self, kind: str, inside: list[str], language: str) -> Iterator[str]:
        if kind[0] == "/":
            return
        if kind[1:].startswith("="):
            separator = {"|": "|", "!": "!", ",": ",", ":": ":"}[kind[0]]
            text = self._filled("\n".join(inside))
            yield from markdown_table(text.split("\n"), self.options, separator)
            return
        lines = [line for line in inside if not self._is_include(line)]
        yield from fenced((line + "\n" for line in lines), language or self._language())

    def _compound(self, line: str) -> Iterator[str]:
        """An example, sidebar, quote or admonition: it ends where it is named again or the page ends."""
        label = next((option for option in self.options if option in _ADMONITIONS), "")
        self.options = []
        if self.open_blocks and line in self.open_blocks:
            del self.open_blocks[self.open_blocks.index(line) :]
            return
        self.open_blocks.append(line)
        if label:
            yield f"**{label.capitalize()}:**\n\n"

    def _is_listing(self) -> bool:
        return bool(self.options) and self.options[0] in ("source", "listing", "literal")

    def _is_include(self, line: str) -> bool:
        match = _INCLUDE.match(line)
        if match:
            text = f"{self.name}: a block includes {match[1][:200]}, which is not followed"
            self.remarks.append(Remark(RemarkKind.UNREAD_PART, text))
        return bool(match)

    def _language(self) -> str:
        """The language of `[source,java]` or `[,java]`; "" for others."""
        style = self.options[0].partition("%")[0] if self.options else ""
        if style in ("source", "") and len(self.options) > 1 and re.match(r"[\w+#.-]{1,40}\Z", self.options[1]):
            return self.options[1]
        return self.attributes.get("source-language", "") if style == "source" else ""

    def _items(self) -> Iterator[str]:
        """Items of a list up to a blank line, nested by their marks."""
        while self.at < len(self.lines) and (line := self._line()).strip():
            if item := _ITEM.match(line):
                mark = item[1]
                indent = "  " * (min(len(mark), _MAX_DEPTH) - 1) if mark[0] in "*." else ""
                text = re.sub(r"\[([ x*])\] ", lambda match: "[x] " if match[1] != " " else "[ ] ", item[2], count=1)
                bullet = "1." if mark[0] == "." or mark[-1] == "." else "-"
                yield f"{indent}{bullet} {self._inline(text)}\n"
            elif described := _DESCRIBED.match(line):
                yield f"- **{self._inline(described[1])}**{': ' if described[3] else ''}{self._inline(described[3] or '')}\n"
            elif line == "+" or _DELIMITER.match(line) or _BLOCK_ATTRIBUTES.match(line):
                break
            elif not self._takes_no_space():
                yield f"  {plain_text(self._inline(line.strip()))}\n"
            self.at += 1
        self.options = []
        yield "\n"

    def _paragraph(self) -> Iterator[str]:
        start = self.at
        found: list[str] = []
        while self.at < len(self.lines) and (line := self._line()).strip():
            if self.at > start and (_DELIMITER.match(line) or line == "+" or _BLOCK_ATTRIBUTES.match(line)):
                break
            if not self._takes_no_space():
                found.append(line)
            self.at += 1
        if found and (found[0][0] in " \t" or self._is_listing()):
            yield from fenced((line + "\n" for line in found), self._language())
        elif found:
            admonition = _ADMONITION.match(found[0])
            label = admonition[1] if admonition else next((one for one in self.options if one in _ADMONITIONS), "")
            found[0] = admonition[2] if admonition else found[0]
            text = plain_text("\n".join(self._inline(line) for line in found))
            yield f"**{label.capitalize()}:** {text}\n\n" if label else f"{text}\n\n"
        self.options = []

    def _inline(self, text: str) -> str:
        return inline(self._filled(text))

    def _filled(self, text: str) -> str:
        """Substitutes attributes, until they have added so much to the page that it must be an attack."""
        found = with_attributes(text, self.attributes) if self.room > 0 else text
        self.room -= max(0, len(found) - len(text))
        return found


def markdown_table(lines: list[str], options: list[str], separator: str) -> Iterator[str]:
    """Converts the rows between the delimiters. The columns follow `cols`, or else the cells of the first line."""
    text = ",".join(options)
    separator = _FORMATS.get(_value(text, "format"), separator)
    columns = _columns(_value(text, "cols"))
    first = next((line for line in lines if line.strip()), "")
    if separator in ",\t:":
        cells = [one for row in _separated(lines, separator) for one in row]
        columns = columns or max(len(next(iter(_separated([first], separator)), [])), 1)
    else:
        columns = columns or max(len(_cells(first, separator)), 1)
        cells = _cells("\n".join(lines), separator)
    columns = min(columns, MAX_COLUMNS)
    rows = [[cell(inline(one)) for one in cells[at : at + columns]] for at in range(0, len(cells), columns)]
    if not rows:
        return
    rows[-1] += [""] * (columns - len(rows[-1]))
    header = rows.pop(0) if _has_header(lines, text) else [""] * columns
    for at in range(0, max(len(rows), 1), _ROWS):
        yield table_head(header) + "".join(map(table_row, rows[at : at + _ROWS])) + "\n"


def _cells(text: str, separator: str) -> list[str]:
    """Splits a row into cells at separators, which may follow a specifier of repetition or width."""
    mark = re.escape(separator)
    parts = re.split(rf"(?:(?<=\s)|^)({_SPECIFIER})(?<!\\){mark}", f"\n{text}" if text else "", flags=re.MULTILINE)
    found: list[str] = []
    for at in range(1, len(parts), 4):
        times, kind = int(parts[at + 1] or 1), parts[at + 2]
        shown = parts[at + 3].strip().replace(f"\\{separator}", separator)
        again = [shown if kind == "*" and len(shown) < _REPEATED else ""] * (min(times, MAX_COLUMNS) - 1)
        found.extend([shown, *again])
    return found


def _separated(lines: list[str], separator: str) -> list[list[str]]:
    try:
        return [row for row in csv.reader((line + "\n" for line in lines), delimiter=separator) if row]
    except csv.Error:
        return [line.split(separator) for line in lines if line.strip()]


def _columns(text: str) -> int:
    """Number of columns of `3*`, `1,2,1` or `2*,4`."""
    if not text:
        return 0
    found = [_COLUMN.match(part) for part in re.split("[,;]", text)]
    return sum(int(match[1] or 1) for match in found if match)


def _value(text: str, name: str) -> str:
    match = re.search(rf"{name}=(?:\"([^\"]*)\"?|([^,\"]*))", text)
    return (match[1] or match[2] or "") if match else ""


def _has_header(lines: list[str], text: str) -> bool:
    """True if declared so, or if a blank line follows the first line."""
    if "header" in text:
        return True
    return "noheader" not in text and len(lines) > 2 and bool(lines[0].strip()) and not lines[1].strip()


def with_attributes(text: str, attributes: Mapping[str, str]) -> str:
    """Replaces `{name}` once, where the name is known; others stay."""
    if "{" not in text:
        return text
    room = MAX_VALUE

    def value(match: re.Match[str]) -> str:
        nonlocal room
        known = attributes.get(match[2].lower(), _BUILT_IN.get(match[2].lower()))
        if match[1] or known is None or len(known) > room:
            return match[0].lstrip("\\")
        room -= len(known)
        return known

    return _REFERENCE.sub(value, text)


def inline(text: str) -> str:
    """Markdown of one line: links as `text (address)`, images as their description."""
    text = _ANCHOR.sub("", _HARD_BREAK.sub("", text))
    if "[" in text:
        text = _IMAGE.sub(lambda match: _first(match[2]) or match[1], text)
        text = _LINK.sub(lambda match: _linked(match[1], _first(match[2])), text)
        text = _XREF.sub(lambda match: _first(match[2]) or match[1], text)
        text = _MACRO.sub(r"\1", text)
    text = _CROSS.sub(lambda match: (match[2] or match[1]).strip(), text)
    return _BOLD.sub(r"**\1**", _MONOSPACE.sub(r"`\1`", text))


def _linked(address: str, shown: str) -> str:
    return f"{shown} ({address})" if shown else address


def _first(values: str) -> str:
    """The text among the values in brackets, without `window=_blank` and the like."""
    quoted = re.match(r'"([^"]*)"', values)
    return (
        quoted[1]
        if quoted
        else re.split(r",\s*\w+=", values.removesuffix("^"), maxsplit=1)[0].strip().removesuffix("^")
    )
