"""Parses the block structure of Markdown, with exact character offsets, from markdown-it's block tokens."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import cache, cached_property
from itertools import accumulate

from markdown_it import MarkdownIt, rules_block
from markdown_it.rules_block import StateBlock
from markdown_it.token import Token
from msgspec import Struct, field

from opx.domain.procedures import Command
from opx.text.procedures.commands import commands_of
from opx.text.procedures.phrases import sentences

MAX_UNCLOSED = 20
"""Unclosed code blocks, after each of which the text is parsed again."""
MAX_NESTING = 80
"""Levels of nested blocks, of which a list takes two; markdown-it's own limit of 20 loses what is nested ten lists deep."""


class BlockKind(StrEnum):
    HEADING = "heading"
    PARAGRAPH = "paragraph"
    ORDERED = "ordered list"
    BULLETS = "bulleted list"
    ITEM = "item"
    CODE = "code"
    TABLE = "table"
    QUOTE = "quote"
    OTHER = "other"


class Block(Struct, dict=True):
    """A block with its offsets in the text.

    `text` is a heading's or paragraph's own text, and the content of code without fence and indentation; `level` is a
    heading's level; `label` is a list item's number as written; `children` are the blocks of a list, an item or a quote.
    `language` is the first word of a fence's info string; `is_unclosed`: its fence is never closed."""

    kind: BlockKind
    start: int
    end: int
    text: str = ""
    level: int = 0
    label: str = ""
    language: str = ""
    children: list[Block] = field(default_factory=list)
    is_unclosed: bool = False

    def walk(self) -> Iterator[Block]:
        """The block and all blocks in it, in order."""
        yield self
        for child in self.children:
            yield from child.walk()

    @cached_property
    def sentences(self) -> tuple[str, ...]:
        """The sentences of a paragraph."""
        return tuple(sentences(self.text))

    @cached_property
    def commands(self) -> tuple[Command, ...]:
        """The commands of code."""
        return tuple(commands_of(self.text, self.language))


def parse_blocks(text: str) -> list[Block]:
    """The top-level blocks of text with `\\n` line ends, in order. Link definitions and blank lines are in none.

    Code that is never closed ends where prose begins behind a blank line, so that what follows is read as text. Two lines
    that begin with a bullet of another program (`•`), one after the other, are a list."""
    blocks: list[Block] = []
    begin = 0
    for unclosed in range(MAX_UNCLOSED + 1):
        parsed = _parsed(text, begin)
        for at, block in enumerate(parsed):
            end = _end_of_code(block, text) if block.is_unclosed and unclosed < MAX_UNCLOSED else block.end
            if end < block.end:
                block.text = "".join(block.text.splitlines(keepends=True)[: text.count("\n", block.start, end) - 1])
                block.end = begin = end
                blocks += parsed[: at + 1]
                break
        else:
            blocks += parsed
            break
    return _with_pasted_lists(blocks, text) if _PASTED_LINE.search(text) else blocks


def _parsed(text: str, begin: int) -> list[Block]:
    rest = text[begin:] if begin else text
    lines = list(accumulate((len(line) + 1 for line in rest.split("\n")), initial=begin))
    return _Builder(lines, len(text)).build(_parser().parse(rest))


@cache
def _parser() -> MarkdownIt:
    """Parses blocks only: inline marks are left as they are, which takes a third of the time. The text is not normalised,
    which would move offsets."""
    parser = MarkdownIt("commonmark", {"maxNesting": MAX_NESTING}).enable("table")
    parser.core.ruler.disable(["normalize", "inline", "text_join"])
    ruler = parser.block.ruler
    ending = defaultdict(list)
    for name, rule, first, within in _RULES:
        ruler.at(name, _beginning_with(first, rule), {"alt": within})
        for character in first:
            ending[character].append(rule)
    ruler.at("table", rules_block.table, {"alt": ["reference"]})
    ruler.at("reference", _beginning_with("[", rules_block.reference))
    ruler.push("end of a paragraph", _ending_paragraphs(ending), {"alt": ["paragraph"]})
    return parser


_Rule = Callable[[StateBlock, int, int, bool], bool]

_RULES: tuple[tuple[str, _Rule, str, list[str]], ...] = (
    ("fence", rules_block.fence, "`~", ["reference", "blockquote", "list"]),
    ("blockquote", rules_block.blockquote, ">", ["reference", "blockquote", "list"]),
    ("hr", rules_block.hr, "*-_", ["reference", "blockquote", "list"]),
    ("list", rules_block.list_block, "*+-0123456789", ["reference", "blockquote"]),
    ("html_block", rules_block.html_block, "<", ["reference", "blockquote"]),
    ("heading", rules_block.heading, "#", ["reference", "blockquote"]),
)
"""markdown-it's rules of blocks that end a paragraph, with the characters that such a block begins with and what else it
ends. Most lines begin with none of them, and calling all rules on each line takes a third of the time."""


def _beginning_with(first: str, rule: _Rule) -> _Rule:
    """A rule that is called only where a line begins with one of these characters."""

    def guarded(state: StateBlock, line: int, end: int, silent: bool) -> bool:
        at = state.bMarks[line] + state.tShift[line]
        return at < len(state.src) and state.src[at] in first and rule(state, line, end, silent)

    return guarded


def _ending_paragraphs(rules: Mapping[str, Sequence[_Rule]]) -> _Rule:
    """A rule that checks if a line that isn't blank ends the paragraph before it."""

    def ends(state: StateBlock, line: int, end: int, silent: bool) -> bool:
        if not silent:
            return False
        for rule in rules.get(state.src[state.bMarks[line] + state.tShift[line]], ()):
            if rule(state, line, end, True):
                return True
        return rules_block.table(state, line, end, True)

    return ends


_KINDS = {
    "heading_open": BlockKind.HEADING,
    "paragraph_open": BlockKind.PARAGRAPH,
    "ordered_list_open": BlockKind.ORDERED,
    "bullet_list_open": BlockKind.BULLETS,
    "list_item_open": BlockKind.ITEM,
    "fence": BlockKind.CODE,
    "code_block": BlockKind.CODE,
    "table_open": BlockKind.TABLE,
    "blockquote_open": BlockKind.QUOTE,
    "html_block": BlockKind.OTHER,
    "hr": BlockKind.OTHER,
}


class _Builder:
    """Turns markdown-it's flat tokens into a tree of blocks."""

    def __init__(self, lines: Sequence[int], length: int) -> None:
        self._lines = lines
        self._length = length

    def build(self, tokens: Sequence[Token]) -> list[Block]:
        top: list[Block] = []
        open_blocks: list[tuple[Block, int]] = []  # with the level of the token that closes it
        for token in tokens:
            if token.nesting < 0:
                if open_blocks and open_blocks[-1][1] == token.level:
                    open_blocks.pop()
                continue
            parent = open_blocks[-1][0] if open_blocks else None
            if token.type == "inline" and parent and parent.kind in (BlockKind.HEADING, BlockKind.PARAGRAPH):
                parent.text = token.content
                continue
            if token.type not in _KINDS or token.map is None or (parent and parent.kind is BlockKind.TABLE):
                continue
            block = self._block(token)
            (top if parent is None else parent.children).append(block)
            if token.nesting > 0:
                open_blocks.append((block, token.level))
        return top

    def _block(self, token: Token) -> Block:
        first, last = token.map or (0, 0)
        kind = _KINDS[token.type]
        block = Block(kind, self._at(first), self._at(last))
        if kind is BlockKind.HEADING:
            block.level = int(token.tag[1:])
        elif kind is BlockKind.ITEM:
            block.label = token.info
        elif kind is BlockKind.CODE:
            block.text = token.content
            block.language = (token.info.strip().split() or [""])[0].strip("{}.").lower()
            block.is_unclosed = token.type == "fence" and (
                last - first < 2 + len(token.content.splitlines())
                or (token.markup in token.content and bool(_FENCE_WITHIN.search(token.content)))
            )
        return block

    def _at(self, line: int) -> int:
        return min(self._lines[line], self._length) if line < len(self._lines) else self._length


# -- unclosed code

_FENCE_WITHIN = re.compile(r"^ {0,3}(?:```|~~~)[A-Za-z]", re.MULTILINE)
"""The beginning of another code block within one that it can't end."""
_BLANK_LINES = re.compile(r"\n[ \t]*\n\s*?(?=[^\n])")
_MARKDOWN = re.compile(r" {0,3}(?:#{2,6} |# [^\n]*\Z|(?:[-*+]|\d{1,3}[.)]) +[A-Z*`\[]|\*\*|> |\|)")
_PROSE = re.compile(r"[A-Z][a-z']*,? [^\n]")


def _end_of_code(block: Block, text: str) -> int:
    """Returns the offset of prose in unclosed code: of a paragraph that is Markdown or a sentence, at the latest of other
    code."""
    within = _FENCE_WITHIN.search(text, block.start + 1, block.end)
    latest = within.start() if within else block.end
    starts = [found.end() for found in _BLANK_LINES.finditer(text, block.start, latest)]
    for start, end in zip(starts, [*starts[1:], latest], strict=False):
        paragraph = text[start:end].rstrip()
        if _MARKDOWN.match(paragraph) or (_PROSE.match(paragraph) and paragraph[-1] in ".:!?"):
            return start
    return latest


# -- lists with bullets of other programs

MAX_PASTED = 8
"""Levels of such lists."""
_BULLETS = "•◦▪‣●○■–"
_PASTED = re.compile(rf"([ \t>]*)([{_BULLETS}])[ \t]+(?=\S)")
_PASTED_LINE = re.compile(rf"^{_PASTED.pattern}", re.MULTILINE)
_Line = tuple[int, int, "re.Match[str] | None"]
"""Start and end of a line, and its bullet."""


def _with_pasted_lists(blocks: Sequence[Block], text: str) -> list[Block]:
    """Blocks with lists for lines that begin with bullets which Markdown doesn't know: two or more in a row, also with blank
    lines between them."""
    found: list[Block] = []
    run: list[Block] = []  # paragraphs, all but the first of which begin with a bullet
    for block in blocks:
        block.children = _with_pasted_lists(block.children, text) if block.children else block.children
        begins = _begins_with_bullet(block, text)
        if run and not begins:
            found += _as_list(run, text)
            run = []
        if begins or (block.kind is BlockKind.PARAGRAPH and any(bullet in block.text for bullet in _BULLETS)):
            run.append(block)
        else:
            found.append(block)
    return found + _as_list(run, text) if run else found


def _begins_with_bullet(block: Block, text: str) -> bool:
    return block.kind in (BlockKind.PARAGRAPH, BlockKind.CODE) and bool(_PASTED.match(text, block.start))


def _as_list(run: list[Block], text: str) -> list[Block]:
    """The paragraph before the first bullet and a list, or the same blocks if there are fewer than two bullets."""
    lines = [line for block in run for line in _lines(block, text)]
    first = next((at for at, line in enumerate(lines) if line[2]), len(lines))
    if sum(1 for line in lines if line[2]) < 2:
        return run
    lead, items = lines[:first], lines[first:]
    block = Block(BlockKind.BULLETS, items[0][0], items[-1][1], children=list(_items(items, text)))
    return [_paragraph(lead, text), block] if lead else [block]


def _lines(block: Block, text: str) -> Iterator[_Line]:
    start = block.start
    for line in text[block.start : block.end].splitlines(keepends=True):
        if line.strip():
            yield start, start + len(line), _PASTED.match(line)
        start += len(line)


def _items(lines: Sequence[_Line], text: str, depth: int = 1) -> Iterator[Block]:
    """Items with their lines. Lines with another bullet than the first, or indented more, are a list in the item above."""
    indent, bullet = _bullet_of(lines[0])
    bullets = [_bullet_of(line) if line[2] else None for line in lines]
    outer = [
        at
        for at, own in enumerate(bullets)
        if own and (depth == MAX_PASTED or own[0] < indent or (own[0] <= indent and own[1] == bullet))
    ]
    for at, following in zip(outer, [*outer[1:], len(lines)], strict=True):
        own = lines[at:following]
        nested = next((number for number, line in enumerate(own) if number and line[2]), len(own))
        children = [_paragraph(own[:nested], text)]
        if nested < len(own):
            inner = own[nested:]
            children.append(
                Block(BlockKind.BULLETS, inner[0][0], inner[-1][1], children=list(_items(inner, text, depth + 1)))
            )
        yield Block(BlockKind.ITEM, own[0][0], own[-1][1], children=children)


def _bullet_of(line: _Line) -> tuple[int, str]:
    return (len(line[2][1].expandtabs(4)) // 2, line[2][2]) if line[2] else (0, "")


def _paragraph(lines: Sequence[_Line], text: str) -> Block:
    words = [text[start + (bullet.end() if bullet else 0) : end].strip(" \t>\n") for start, end, bullet in lines]
    return Block(BlockKind.PARAGRAPH, lines[0][0], lines[-1][1], "\n".join(words))
