"""Renders Markdown for a terminal: wraps prose and keeps code unchanged.

rich's Markdown isn't used, as it pads and wraps code, expands tabs, renumbers lists, drops `<pod>` as HTML and takes 0.2 s to
import. Emphasis keeps its marks wherever they may be something else, as in `count(*), sum(*)` or `__name__`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import chain, groupby
from pathlib import PurePosixPath
from types import MappingProxyType
from unicodedata import combining, east_asian_width

from markdown_it import MarkdownIt
from markdown_it.rules_inline import StateInline
from markdown_it.rules_inline.escape import escape
from markdown_it.token import Token
from markdown_it.tree import SyntaxTreeNode

from opx.edges.cli.output import Screen, safe

_MOST_COLOURED = 20_000
"""Maximum number of characters of a code block that is coloured."""
_FILLED = 60
"""Minimum length of each line but the last of a wrapped paragraph. Shorter lines are kept: they may be commands."""
_BETWEEN = "  "
"""Separates the columns of a table."""

_BLANKS = re.compile(r"[ \t\n]+")
_HERE_DOCUMENT = re.compile(r"(?<!<)<<(?!<)-?\s*['\"\\]?[A-Za-z_]")
_QUOTE = "> "
_WILD = frozenset("/\\*_=|&${}[]<>")
"""Letters beside `**` that make a path or pattern of it."""

_Word = list[tuple[str, str]]
"""Pieces of text with their styles, with no line end between them. An empty word is the end of a line."""
_Mark = tuple[int, str, str]
"""The number of lines before an annotation, its text, and its style."""
_Line = str | None
"""A line; None for an empty line between blocks, repeated ones are collapsed."""


def rendered(text: str, screen: Screen, annotations: Mapping[str, str] = MappingProxyType({})) -> Iterator[str]:
    """Lines of rendered Markdown. Its lines that are in `annotations`, which have their styles, are shown before the block
    that follows them."""
    lines, marks = _without(safe(text).split("\n"), annotations)
    tree = SyntaxTreeNode(_parser().parse("\n".join(lines)))
    yield from _joined(_Rendering(lines, marks, screen).page(tree.children))


def _without(lines: Sequence[str], annotations: Mapping[str, str]) -> tuple[list[str], list[_Mark]]:
    """The lines without annotations, and each annotation with the number of lines before it."""
    kept: list[str] = []
    marks: list[_Mark] = []
    for line in lines:
        if line in annotations:
            marks.append((len(kept), line, annotations[line]))
        else:
            kept.append(line)
    return kept, marks


def _joined(lines: Iterable[_Line]) -> Iterator[str]:
    """Collapses each run of gaps to one empty line."""
    begun = gap = False
    for line in lines:
        if line is None:
            gap = begun
            continue
        if gap:
            yield ""
        yield line
        begun, gap = True, False


@cache
def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    parser.inline.ruler.at("escape", _escape)
    parser.normalizeLink = lambda url: url  # type: ignore[method-assign]
    parser.normalizeLinkText = lambda link: link  # type: ignore[method-assign]
    return parser


def _escape(state: StateInline, silent: bool) -> bool:
    """Markdown's escape rule, except that a backslash at the end of a line stays: it may continue a command."""
    return state.src[state.pos + 1 : state.pos + 2] != "\n" and escape(state, silent)


class _Rendering:
    """Renders blocks. Methods get the prefix of the first line and that of the others."""

    def __init__(self, lines: Sequence[str], marks: Sequence[_Mark], screen: Screen) -> None:
        self._lines = lines
        self._marks = list(marks)
        self._screen = screen

    def page(self, nodes: Sequence[SyntaxTreeNode]) -> Iterator[_Line]:
        yield from self._blocks(nodes, "", "")
        yield from self._warned(len(self._lines) + 1, "")

    def _blocks(self, nodes: Sequence[SyntaxTreeNode], first: str, rest: str) -> Iterator[_Line]:
        for at, node in enumerate(nodes):
            if at and not node.hidden:
                yield None
            yield from self._block(node, rest if at else first, rest)

    def _block(self, node: SyntaxTreeNode, first: str, rest: str) -> Iterator[_Line]:
        if node.type in ("bullet_list", "ordered_list"):
            yield from self._list(node, first, rest)
            return
        if node.type == "blockquote":
            yield from self._blocks(node.children, first + _QUOTE, rest + _QUOTE)
            yield None
            return
        start, end = node.map or (0, 0)
        yield from self._warned(end, rest)
        if node.type in ("fence", "code_block"):
            yield from self._apart(self._code(node, rest), first, rest)
        elif node.type == "table":
            yield from self._apart(self._table(node, rest), first, rest)
        elif node.type in ("heading", "paragraph"):
            style = "bold" if node.type == "heading" else ""
            marks = [[("#" * int(node.tag[1:]), style)]] if style else []
            yield from self._wrapped(chain(marks, _words(node.children[0], style)), first, rest)
        else:
            yield first + "\n".join(self._lines[start:end]).strip()

    def _warned(self, end: int, prefix: str) -> Iterator[_Line]:
        """Annotations before this line that weren't shown yet."""
        while self._marks and self._marks[0][0] < end:
            _, line, style = self._marks.pop(0)
            yield prefix + self._styled(line, style)

    def _apart(self, lines: Iterable[str], first: str, rest: str) -> Iterator[_Line]:
        """Lines with gaps around them. A list item's mark is in a line before them."""
        if first != rest:
            yield first.rstrip()
        yield None
        yield from lines
        yield None

    # -- lists

    def _list(self, node: SyntaxTreeNode, first: str, rest: str) -> Iterator[_Line]:
        for at, item in enumerate(node.children):
            mark = f"{item.info}{item.markup} "
            before = rest if at else first
            if item.map:
                yield from self._warned(item.map[0] + 1, rest)
            if not item.children:
                yield (before + mark).rstrip()
            yield from self._blocks(item.children, before + self._styled(mark, "mark"), rest + " " * len(mark))
            if any(child.type == "paragraph" and not child.hidden for child in item.children):
                yield None

    # -- code

    def _code(self, node: SyntaxTreeNode, prefix: str) -> Iterator[str]:
        """The lines of a code block, indented as deep as its list item. One with a here-document isn't, as its end has to
        begin a line."""
        indent = "" if _HERE_DOCUMENT.search(node.content) else prefix.replace(_QUOTE, "")
        code = node.content.removesuffix("\n")
        for line in self._coloured(code, node.info).split("\n"):
            yield indent + line if line else ""

    def _coloured(self, code: str, info: str) -> str:
        """The code with comments, strings and keywords coloured, if its language is known."""
        pieces = _highlighted(code, (info.split() or [""])[0]) if self._screen.colours else []
        return "".join(
            "\n".join(self._styled(line, style) for line in text.split("\n"))
            for text, style in pieces or [(code, "code")]
        )

    # -- prose

    def _wrapped(self, words: Iterable[_Word], first: str, rest: str, width: int = 0) -> Iterator[str]:
        """Lines of words, as wide as prose may be. No word is broken, and no code span."""
        prefix, room = first, (width or self._screen.prose) - _cells(rest)
        for line in _filled(words, room):
            yield (prefix + self._text(line)).rstrip()
            prefix = rest

    def _text(self, words: Iterable[_Word]) -> str:
        """Words with blanks between them; runs of one style are styled together."""
        pieces: list[tuple[str, str]] = []
        for at, word in enumerate(words):
            for number, (text, style) in enumerate(word):
                blank = " " if at and not number else ""
                if pieces and pieces[-1][1] == style:
                    pieces[-1] = pieces[-1][0] + blank + text, style
                elif blank and pieces:
                    pieces += [(blank, ""), (text, style)]
                else:
                    pieces.append((text, style))
        return "".join(self._styled(text, style) for text, style in pieces)

    def _styled(self, text: str, style: str) -> str:
        return self._screen.styled(text, style)

    # -- tables

    def _table(self, node: SyntaxTreeNode, prefix: str) -> Iterator[str]:
        """Rows in columns, wide ones wrapped; a line for each cell if not even words fit."""
        head, *rows = [[_cell(cell) for cell in row.children] for part in node.children for row in part.children]
        head = [[[(text, "bold") for text, _ in word] for word in cell] for cell in head]
        widths = _widths([head, *rows], self._screen.width - _cells(prefix))
        if widths:
            yield from self._columns([head, *rows] if any(head) else rows, widths, prefix, headed=any(head))
            return
        for at, row in enumerate(rows):
            if at:
                yield ""
            for name, cell in zip(head, row, strict=False):
                if cell:
                    labelled = [*name[:-1], [*name[-1], (":", "bold")], *cell] if name else cell
                    yield from self._wrapped(labelled, prefix, prefix + _BETWEEN)

    def _columns(
        self, rows: Sequence[Sequence[Sequence[_Word]]], widths: Sequence[int], prefix: str, *, headed: bool
    ) -> Iterator[str]:
        laid_out = [[list(_filled(cell, width)) for cell, width in zip(row, widths, strict=True)] for row in rows]
        tall = any(len(cell) > 1 for row in laid_out for cell in row)
        for at, row in enumerate(laid_out):
            if tall and at > headed:
                yield ""
            for number in range(max(1, *map(len, row))):
                cells = [
                    self._padded(cell[number : number + 1], width) for cell, width in zip(row, widths, strict=True)
                ]
                yield (prefix + _BETWEEN.join(cells)).rstrip()
            if headed and not at:
                yield prefix + _BETWEEN.join("─" * width for width in widths)

    def _padded(self, lines: Sequence[Sequence[_Word]], width: int) -> str:
        words = lines[0] if lines else ()
        return self._text(words) + " " * (width - _size(words))


def _highlighted(code: str, language: str) -> list[tuple[str, str]]:
    """The code in pieces with their styles; empty for a language that isn't known, and if the lexer alters it."""
    if not language or len(code) > _MOST_COLOURED:
        return []
    from pygments.lexers import get_lexer_by_name
    from pygments.token import Comment, Keyword, String
    from pygments.util import ClassNotFound

    try:
        lexer = get_lexer_by_name(language, stripnl=False, ensurenl=False)
    except ClassNotFound:
        return []
    styles = ((Comment, "dim"), (String, "string"), (Keyword, "keyword"))
    tokens = [
        (text, next((style for kind, style in styles if token in kind), "code"))
        for token, text in lexer.get_tokens(code)
    ]
    pieces = [("".join(text for text, _ in run), style) for style, run in groupby(tokens, key=lambda one: one[1])]
    return pieces if "".join(text for text, _ in pieces) == code else []


# -- words and wrapping


def _words(inline: SyntaxTreeNode, style: str = "") -> Iterator[_Word]:
    """The words of a paragraph, a heading or a cell."""
    keeps_lines = _has_own_lines(inline.content)
    tokens = (inline.token.children if inline.token else None) or []
    word: _Word = []
    for kind, text, shown in _pieces(tokens, style):
        if kind == "code_inline":
            word.append((text, shown))
            continue
        for at, part in enumerate(_BLANKS.split(text)):
            if at and word:
                yield word
                word = []
            if part:
                word.append((part, shown))
        if kind == "hardbreak" or (kind == "softbreak" and keeps_lines):
            yield []
    if word:
        yield word


def _pieces(tokens: Sequence[Token], style: str) -> Iterator[tuple[str, str, str]]:
    """Each token's kind, printed text, and style."""
    unmarked = _plain_emphasis(tokens)
    styles, links = [style], [("", "")]
    for at, token in enumerate(tokens):
        text, shown = token.content, styles[-1]
        match token.type:
            case "softbreak" | "hardbreak":
                text = "\n"
            case "code_inline":
                pad = " " if "`" in (text[:1], text[-1:]) else ""
                text, shown = f"{token.markup}{pad}{text}{pad}{token.markup}", "code"
            case "strong_open" | "em_open" | "strong_close" | "em_close":
                text = "" if at in unmarked else token.markup
                if token.nesting > 0:
                    styles.append("bold" if token.type == "strong_open" else shown)
                else:
                    styles.pop()
            case "link_open":
                links.append((str(token.attrs.get("href", "")), tokens[at + 1].content))
            case "link_close":
                target, name = links.pop()
                text = "" if target == name or PurePosixPath(target).stem == name else f" ({target})"
            case "image":
                text = f"[image: {text}] ({token.attrs.get('src', '')})"
        yield token.type, text, shown


def _has_own_lines(content: str) -> bool:
    """True if a paragraph's line ends are intended, not just wrapping by an editor."""
    return any(len(line) < _FILLED or line.endswith("\\") for line in content.split("\n")[:-1])


def _plain_emphasis(tokens: Sequence[Token]) -> set[int]:
    """The marks `**` that enclose whole words; others may be wildcards."""
    found: set[int] = set()
    opened: list[int] = []
    for at, token in enumerate(tokens):
        if token.type == "strong_open":
            opened.append(at)
        elif token.type == "strong_close":
            start = opened.pop()
            before, after = tokens[max(start - 1, 0)].content[-1:], tokens[min(at + 1, len(tokens) - 1)].content[:1]
            around = before + tokens[start + 1].content[:1] + tokens[at - 1].content[-1:] + after
            if token.markup == "**" and not _WILD.intersection(around):
                found |= {start, at}
    return found


def _cell(cell: SyntaxTreeNode) -> list[_Word]:
    return [word for child in cell.children for word in _words(child) if word]


def _cells(text: str) -> int:
    """Width of a string in terminal cells."""
    if text.isascii():
        return len(text)
    return sum(2 if east_asian_width(letter) in "WF" else not combining(letter) for letter in text)


def _size(words: Iterable[_Word]) -> int:
    return sum(_cells(text) for word in words for text, _ in word) + max(sum(1 for _ in words) - 1, 0)


def _filled(words: Iterable[_Word], width: int) -> Iterator[list[_Word]]:
    """Lines of words of at most this width, unless a single word is wider."""
    line: list[_Word] = []
    used = 0
    for word in words:
        size = _size([word])
        if line and (not word or used + 1 + size > width):
            yield line
            line, used = [], 0
        if word:
            used += size + (1 if line else 0)
            line.append(word)
    if line:
        yield line


def _widths(rows: Sequence[Sequence[Sequence[_Word]]], room: int) -> list[int]:
    """The width of each column; empty if the longest words don't fit beside each other."""
    columns = list(zip(*rows, strict=True))
    least = [max((_size([word]) for cell in column for word in cell), default=0) for column in columns]
    widths = [max(map(_size, column)) for column in columns]
    room -= len(_BETWEEN) * (len(columns) - 1)
    if sum(least) > room:
        return []
    while sum(widths) > room:
        widest = max((at for at in range(len(widths)) if widths[at] > least[at]), key=lambda at: widths[at])
        widths[widest] -= 1
    return widths
