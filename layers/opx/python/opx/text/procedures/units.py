"""Units of a document's text: the smallest blocks that make sense when they are shown without their neighbours."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from opx.domain.procedures import Section, Step, Unit
from opx.text.estimates import estimated_tokens
from opx.text.procedures.blocks import Block, BlockKind
from opx.text.procedures.phrases import Phrases, approval, sentences, warnings

LONG_ITEM = 500
"""Characters of a list item above which what is nested in it is shown block by block."""
FEW_ROWS = 3
"""A table of so few rows is shown whole."""
_WARNS = Phrases(r"\b(?:never|do not|don'?t|warning|caution|not)\b")
_CAUTIONS = Phrases(
    r"""
    \b(?:danger(?:ous)?|never|do not|don'?t|caution|warning|careful|beware|watch out|irreversib\w+|destructive|disruptive)\b
    \b(?:data loss|wipes|erases|deletes all|(?:made|makes) (?:it|things) worse|can(?:no|')t be undone)\b
    """
)
LONG_CAUTION = 150
"""Tokens of a block above which it isn't shown only because it warns."""
_LISTS = (BlockKind.ORDERED, BlockKind.BULLETS)


@dataclass(slots=True)
class _Found:
    start: int
    end: int
    head: int = -1
    takes_code: bool = False


def units_of(
    blocks: Sequence[Block], sections: Sequence[Section], steps: Sequence[Step], text: str
) -> tuple[Unit, ...]:
    """The units of top-level blocks, in order and without overlap."""
    splitting = _Splitting(text, {step.start: step.end for step in steps})
    for block in blocks:
        splitting.add(block)
    return tuple(_placed(splitting.found, sections, steps, text))


@dataclass(slots=True)
class _Splitting:
    """`steps` are the ends of steps by their starts."""

    text: str
    steps: Mapping[int, int]
    found: list[_Found] = field(default_factory=list)

    def add(self, block: Block, head: int = -1) -> None:
        if block.kind is BlockKind.HEADING:
            end = self.steps.get(block.start)
            if end is not None and not self.text[block.end : end].strip():
                self.found.append(_Found(block.start, block.end))  # all that there is of a step
            return
        if block.kind is BlockKind.CODE and self._joins(block):
            self.found[-1].end = block.end
            self.found[-1].takes_code = False
        elif block.kind is BlockKind.TABLE:
            self._add_table(block, head)
        elif block.kind in _LISTS:
            lead = self._lead(block) if head < 0 else head
            for item in block.children:
                self._add_item(item, lead)
        else:
            self.found.append(_Found(block.start, block.end, head, block.kind is BlockKind.PARAGRAPH))

    def _joins(self, block: Block) -> bool:
        """Whether code stands below a paragraph or an item that has none yet."""
        if not self.found or not self.found[-1].takes_code:
            return False
        between = self.text[self.found[-1].end : block.start]
        return not between.strip()

    def _lead(self, block: Block) -> int:
        """The index of the paragraph that leads to a list, such as `In this order:`; -1 for none."""
        if not self.found:
            return -1
        last = self.found[-1]
        leads = self.text[last.start : last.end].rstrip().endswith(":")
        return len(self.found) - 1 if leads and not self.text[last.end : block.start].strip() else -1

    def _add_item(self, item: Block, head: int) -> None:
        if item.end - item.start <= LONG_ITEM or len(item.children) < 2:
            self.found.append(
                _Found(item.start, item.end, head, not any(b.kind is BlockKind.CODE for b in item.walk()))
            )
            return
        first, *others = item.children
        own = len(self.found)
        self.found.append(_Found(item.start, first.end, head, first.kind is BlockKind.PARAGRAPH))
        for child in others:
            self.add(child, own)

    def _add_table(self, block: Block, head: int) -> None:
        rows = list(self._rows(block))
        if len(rows) <= FEW_ROWS + 2:
            self.found.append(_Found(block.start, block.end, head))
            return
        header = len(self.found)
        self.found.append(_Found(block.start, rows[1][1], head))
        self.found.extend(_Found(start, end, header) for start, end in rows[2:])

    def _rows(self, block: Block) -> Iterator[tuple[int, int]]:
        at = block.start
        for line in self.text[block.start : block.end].split("\n"):
            end = min(at + len(line) + 1, block.end)
            if line.strip():
                yield at, end
            at = end


def _placed(found: Sequence[_Found], sections: Sequence[Section], steps: Sequence[Step], text: str) -> Iterator[Unit]:
    starts, step_starts = [section.start for section in sections], [step.start for step in steps]
    for one in found:
        at = bisect_right(step_starts, one.start) - 1
        step = steps[at] if at >= 0 and one.start < steps[at].end else None
        section = max(bisect_right(starts, one.start) - 1, 0)
        content = text[one.start : one.end]
        tokens = estimated_tokens(content)
        cautions = (not step or bool(step.commands)) and tokens <= LONG_CAUTION and _cautions(content, bool(step))
        warns = _WARNS.are_in(content)
        yield Unit(one.start, one.end, section, step.number if step else 0, one.head, tokens, warns, cautions)


def _cautions(content: str, in_step: bool) -> bool:
    """True if a block warns or forbids: `Never restart it`, but not `uploads that were never finished`. Outside of steps it
    may also say who has to agree."""
    if not in_step and approval((content,)):
        return True
    return _CAUTIONS.are_in(content) and bool(warnings(tuple(sentences(content))))
