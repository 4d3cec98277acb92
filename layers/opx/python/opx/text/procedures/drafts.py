"""Finds the steps of a document in its sections.

A step is an item that the author numbered, bulleted or headed at the outermost level; in prose, it is a paragraph with an
instruction, with the code below it.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import islice, pairwise

from msgspec import Struct, field

from opx.domain.procedures import Section, SectionKind
from opx.text.procedures import phrases
from opx.text.procedures.blocks import Block, BlockKind
from opx.text.procedures.commands import inline_commands

_NO_STEPS = (SectionKind.SYMPTOMS, SectionKind.IMPACT, SectionKind.BACKGROUND, SectionKind.REFERENCES)
_LISTS = (BlockKind.ORDERED, BlockKind.BULLETS)
_BOLD_LINE = re.compile(r"\s*(\*\*|__)[^*_\n]{3,120}(?::\1|\1:?)\s*\Z")
_MAX_SENTENCE = 600


class DraftPart(Struct):
    """A section with its own blocks, its heading left out. `parent` is the index of the section above it, -1 for none;
    `instructs`: its heading is an instruction."""

    section: Section
    parent: int
    instructs: bool = False
    blocks: list[Block] = field(default_factory=list)


class StepDraft(Struct):
    """A step as it is found: its first line, its extent, and the blocks that belong to it. `ahead` are the blocks between the
    section's heading and its first step that warn of all its steps; the first step begins with them."""

    part: int
    first: str
    start: int
    end: int
    label: str = ""
    blocks: list[Block] = field(default_factory=list)
    ahead: Sequence[Block] = ()
    from_paragraph: bool = False
    in_list: bool = False


def _warning(blocks: Sequence[Block]) -> list[Block]:
    """The blocks from the first one on that is a quote, warns or names who has to agree."""
    for at, block in enumerate(blocks):
        lines = block.sentences
        if block.kind is BlockKind.QUOTE or phrases.warnings(lines) or phrases.approval(lines):
            return list(blocks[at:])
    return []


def _warned(begun: Sequence[StepDraft], warning: Sequence[Block], before: Sequence[Block | StepDraft]) -> None:
    """Have steps be warned of; the first begins with what is before it."""
    begun[0].start = min(one.start for one in (begun[0], *before))
    for draft in begun:
        draft.ahead = warning


def drafts_of(parts: Sequence[DraftPart]) -> Iterator[StepDraft]:
    """The steps of a document's sections, in order and without overlap."""
    return _Drafting(parts).drafts()


class _Drafting:
    """Finds steps section by section."""

    def __init__(self, parts: Sequence[DraftPart]) -> None:
        self._parts = parts
        self._siblings: dict[tuple[int, int], list[DraftPart]] = defaultdict(list)
        for part in parts:
            self._siblings[part.parent, part.section.level].append(part)
        self._headed = [False] * len(parts)
        for at in range(len(parts)):
            self._headed[at] = self._is_step(at)

    def drafts(self) -> Iterator[StepDraft]:
        at = 0
        while at < len(self._parts):
            part = self._parts[at]
            if self._headed[at]:
                below = self._below(at)
                yield self._heading_step(at, below)
                at = below
                continue
            if part.section.kind not in _NO_STEPS or _holds_command_step(part):
                yield from _Blocks(at, part).steps()
            at += 1

    def _below(self, at: int) -> int:
        """The index behind a section and the sections below it."""
        level = self._parts[at].section.level
        behind = at + 1
        while behind < len(self._parts) and self._parts[behind].section.level > level:
            behind += 1
        return behind

    def _is_step(self, at: int) -> bool:
        """True if a heading is itself a step: it is numbered, or it is an instruction and the text below it is no list of
        steps. Among headings that are mostly instructions, the others are steps, too."""
        part = self._parts[at]
        above = self._parts[part.parent] if part.parent >= 0 else None
        role = above.section.kind if above else SectionKind.OTHER
        heading = part.section.heading
        if not heading or role in _NO_STEPS or (above and self._headed[part.parent]):
            return False
        inside = self._parts[at : self._below(at)]
        blocks = [block for one in inside for block in one.blocks]
        if phrases.is_role(heading) and not part.instructs:
            return False
        if not blocks:
            return self._is_alone(at)
        has_role = role is not SectionKind.OTHER
        if phrases.is_numbered(heading) or (has_role and self._is_one_of_steps(at, len(inside) == 1)):
            return True
        alone = part.instructs and not any(one.instructs for one in inside[1:])
        return alone and not _has_procedure(blocks) and any(map(_holds_instruction, blocks))

    def _is_alone(self, at: int) -> bool:
        """True if a heading with nothing below it is a step: `Step 3: Restart the broker`, or an instruction that is numbered
        or one of several."""
        part = self._parts[at]
        heading = phrases.plain(part.section.heading)
        words = phrases.unnumbered(heading)
        if words == heading:
            return phrases.begins_with_verb(words) and self._is_one_of_steps(at, has_no_parts=False)
        return phrases.is_step_number(heading) or phrases.begins_with_verb(words)

    def _is_one_of_steps(self, at: int, has_no_parts: bool) -> bool:
        """True if a heading below a role such as `Mitigation` is a step: most of the headings beside it name what to do, or
        there is a single step below it."""
        part = self._parts[at]
        siblings = self._siblings[part.parent, part.section.level]
        instructing = sum(one.instructs for one in siblings)
        if instructing >= 2 and instructing * 2 > len(siblings):
            return True
        if instructing and (part.instructs or phrases.names_action(part.section.heading)):
            active = sum(one.instructs or phrases.names_action(one.section.heading) for one in siblings)
            if active * 2 > len(siblings) > 1:
                return True
        return has_no_parts and _is_one_step(at, part)

    def _heading_step(self, at: int, behind: int) -> StepDraft:
        inside = self._parts[at:behind]
        section = inside[0].section
        number = re.search(r"\d{1,3}(?:\.\d{1,3})*", section.heading) if phrases.is_numbered(section.heading) else None
        first = phrases.unnumbered(phrases.plain(section.heading))
        blocks = [block for part in inside for block in part.blocks]
        return StepDraft(at, first, section.start, inside[-1].section.end, number[0] if number else "", blocks)


class _Blocks:
    """Finds the steps of one section's blocks. A paragraph that stands for a heading (`How to fix:`) changes what is expected
    of the blocks behind it: in text on background, only instructions with commands are steps."""

    def __init__(self, at: int, part: DraftPart) -> None:
        self._at = at
        self._blocks = part.blocks
        self._lists = [number for number, block in enumerate(part.blocks) if block.kind in _LISTS]
        self._strict = part.section.kind in _NO_STEPS

    def steps(self) -> Iterator[StepDraft]:
        current: StepDraft | None = None
        ahead: list[Block] = []
        warning: list[Block] = []  # of what was ahead of the section's first step
        for number, block in enumerate(self._blocks):
            label = phrases.label_of(block.text[:200]) if block.kind is BlockKind.PARAGRAPH else None
            if label:
                self._strict = label[0] in _NO_STEPS
            ends = label is not None and (self._strict or not label[1])  # the step before it; nothing begins with it
            begun = [] if ends else self._begun(number, current)
            replaced = (
                current if current and begun and begun[0].start == current.start else None
            )  # it only led to a list
            if current is not None and (ends or begun) and not replaced:
                yield current
            if begun:
                warning = warning or _warning([one for one in ahead if one.start < begun[0].start])
                _warned(begun, warning, [*warning[: len(ahead)], *([replaced] if replaced else [])])
                ahead = []
                *done, current = begun
                yield from done
            elif ends:
                current = None
            elif current is not None:
                current.blocks.append(block)
                current.end = block.end
            else:
                ahead.append(block)
        if current is not None:
            yield current

    def _begun(self, number: int, current: StepDraft | None) -> list[StepDraft]:
        """The steps that begin with a block: all items of a list, or a paragraph. A paragraph that only announces them is the
        beginning of the first, also if it was taken for a step."""
        block = self._blocks[number]
        before = self._blocks[number - 1] if number else None
        if block.kind in _LISTS and self._is_steps(block):
            announced = before is not None and before.kind is BlockKind.PARAGRAPH and before.text.rstrip().endswith(":")
            is_lead = announced and (current is None or (current.from_paragraph and len(current.blocks) == 1))
            return list(self._items(block, before if is_lead else None))
        if block.kind is BlockKind.PARAGRAPH:
            if self._is_within_list(number, current) or not self._begins_step(number, current):
                return []
            return [StepDraft(self._at, block.text, block.start, block.end, blocks=[block], from_paragraph=True)]
        return [] if current is not None or self._strict else list(self._begun_by_code(block, before))

    def _begun_by_code(self, block: Block, before: Block | None) -> Iterator[StepDraft]:
        """The step of commands that no instruction leads to: with the paragraph before them, unless that announces output."""
        if not _has_commands(block):
            return
        if before is None or before.kind is not BlockKind.PARAGRAPH or phrases.label_of(before.text[:200]):
            yield StepDraft(self._at, _first_command(block), block.start, block.end, blocks=[block])
        elif not phrases.announces_output(before.text):
            yield StepDraft(self._at, before.text, before.start, block.end, blocks=[before, block])

    def _is_within_list(self, number: int, current: StepDraft | None) -> bool:
        """True if the list that the current step is an item of goes on behind this block."""
        following = bisect_right(self._lists, number)
        if current is None or not current.in_list or following == len(self._lists):
            return False
        later = self._blocks[self._lists[following]]
        if current.label:
            return later.kind is BlockKind.ORDERED and _number(later) == int(current.label) + 1
        return later.kind is BlockKind.BULLETS and len(later.children) == 1

    def _items(self, block: Block, lead: Block | None) -> Iterator[StepDraft]:
        labels = _labels(block) if block.kind is BlockKind.ORDERED else [""] * len(block.children)
        for offset, (item, label) in enumerate(zip(block.children, labels, strict=True)):
            start = lead.start if lead and offset == 0 else item.start
            blocks = [lead, *item.children] if lead and offset == 0 else list(item.children)
            yield StepDraft(self._at, _first_line(item), start, item.end, label, blocks, in_list=True)

    def _is_steps(self, block: Block) -> bool:
        """True if a list's items are steps: it is numbered, or most of its items are instructions."""
        instructing = sum(1 for item in block.children if _instructs(item))
        if block.kind is BlockKind.ORDERED:
            return instructing == len(block.children) if self._strict else instructing * 3 >= len(block.children)
        return not self._strict and instructing * 2 > len(block.children)

    def _begins_step(self, number: int, current: StepDraft | None) -> bool:
        block = self._blocks[number]
        text = block.text
        following = self._blocks[number + 1] if number + 1 < len(self._blocks) else None
        has_command = following is not None and _has_commands(following)
        if self._strict:
            return has_command and phrases.is_instruction(text)
        if phrases.announces_output(text):
            return False
        if _BOLD_LINE.match(text):
            return following is not None and phrases.is_instruction(text)
        if has_command and text.rstrip().endswith(":") and (current is None or len(text.split()) > 3):
            return True
        if phrases.announces_steps(text) and (following is None or following.kind is not BlockKind.CODE):
            return False
        return (has_command and current is None) or any(map(phrases.is_instruction, block.sentences))


def is_instruction_heading(heading: str) -> bool:
    """True if a heading is numbered, begins with an imperative or names a condition, and is no name of a role."""
    plain = phrases.plain(heading)
    if phrases.is_role(plain, exactly=phrases.is_numbered(plain)):
        return phrases.is_step_number(plain)
    return phrases.is_numbered(plain) or phrases.begins_with_verb(plain) or phrases.is_condition(plain)


def _is_one_step(at: int, part: DraftPart) -> bool:
    """True if a section holds a single step, so that its heading names it."""
    return len(list(islice(_Blocks(at, part).steps(), 2))) == 1


def _holds_instruction(block: Block) -> bool:
    """True if a block has an instruction or a command."""
    if block.kind is BlockKind.PARAGRAPH:
        return any(map(phrases.is_instruction, block.sentences)) or any(inline_commands(block.text))
    return _has_commands(block) or any(map(_holds_instruction, block.children))


def _has_procedure(blocks: Sequence[Block]) -> bool:
    """True if blocks below a heading are several steps themselves, and no details of one."""
    explained = sum(
        1 for before, after in pairwise(blocks) if before.kind is BlockKind.PARAGRAPH and _has_commands(after)
    )
    numbered = sum(len(block.children) for block in blocks if block.kind is BlockKind.ORDERED)
    bullets = sum(sum(map(_instructs, block.children)) for block in blocks if block.kind is BlockKind.BULLETS)
    return (
        explained >= 4 or numbered >= 2 or bullets >= 3
    )  # three commands with a word on each are often one headed step


def _holds_command_step(part: DraftPart) -> bool:
    """True if a section without a role for steps has one all the same: an instruction with a command below it."""
    if part.section.kind in (SectionKind.REFERENCES, SectionKind.SYMPTOMS):
        return False
    return any(
        before.kind is BlockKind.PARAGRAPH
        and (phrases.is_instruction(before.text) or phrases.label_of(before.text[:200]))
        and _has_commands(after)
        for before, after in pairwise(part.blocks)
    )


def _labels(block: Block) -> list[str]:
    """The numbers of a list's items: those that are written if they rise, else counted from the first, as Markdown does."""
    written = [int(item.label) if item.label.isdecimal() else 0 for item in block.children]
    if all(before < after for before, after in pairwise(written)):
        return [str(number) for number in written]
    return [str(_number(block) + offset) for offset in range(len(written))]


def _number(block: Block) -> int:
    label = block.children[0].label if block.children else ""
    return int(label) if label.isdecimal() else 1


def _first_line(item: Block) -> str:
    return next((child.text.strip() for child in item.walk() if child.text.strip()), "")


def _first_command(block: Block) -> str:
    return block.commands[0].text if block.commands else ""


def _instructs(item: Block) -> bool:
    """True if a list item has an instruction or a command, itself or in a nested item."""
    first = _first_line(item)
    if phrases.is_instruction(next(phrases.sentences(first[:_MAX_SENTENCE]), "")) or any(inline_commands(first)):
        return True
    return any(
        _has_commands(child) or (child.kind in _LISTS and any(map(_instructs, child.children)))
        for child in item.children
    )


def _has_commands(block: Block) -> bool:
    return block.kind is BlockKind.CODE and bool(_first_command(block))
