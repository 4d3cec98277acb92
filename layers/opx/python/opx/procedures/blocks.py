"""Block structure of Markdown text, with exact character offsets, from markdown-it's block tokens."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache, cached_property
from itertools import accumulate

from markdown_it import MarkdownIt, rules_block
from markdown_it.rules_block import StateBlock
from markdown_it.token import Token

from opx.domain.procedures import Command
from opx.procedures.commands import commands_of
from opx.procedures.phrases import sentences

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


@dataclass
class Block:
    """A block with its offsets in the text.

    `text` is a heading's or paragraph's own text, and the content of code without fence and indentation; `level` is a
    heading's level; `label` is a list item's number as written; `children` are the blocks of a list, an item or a quote.
    `language` is the first word of a fence's info string."""

    kind: BlockKind
    start: int
    end: int
    text: str = ""
    level: int = 0
    label: str = ""
    language: str = ""
    children: list[Block] = field(default_factory=list)

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
    """The top-level blocks of a text with `\\n` line ends, in order. Link definitions and blank lines are in none."""
    lines = list(accumulate((len(line) + 1 for line in text.split("\n")), initial=0))
    return _Builder(lines, len(text)).build(_parser().parse(text))


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
    """A rule that finds whether a line that isn't blank ends the paragraph before it."""

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
        return block

    def _at(self, line: int) -> int:
        return min(self._lines[line], self._length) if line < len(self._lines) else self._length
