"""Outlines of documents: typed sections, and the steps of procedures in every form that authors write them in.

A step is what the author numbered, bulleted or headed at the outermost level; in prose, a paragraph that tells to do something,
with the code below it. All offsets point into the document's text, so that a step is shown as it was written.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from opx.domain.ids import normalise, stable_hash
from opx.domain.procedures import Command, Outline, Section, SectionKind, Step
from opx.domain.record import replace
from opx.procedures import phrases
from opx.procedures.blocks import Block, BlockKind, parse_blocks
from opx.procedures.commands import commands_of, inline_commands

MAX_CHARACTERS = 1_000_000
"""Of a text in which steps are looked for."""
MAX_LINES = 60_000
"""Of such a text: a million characters of prose have 25,000 lines, and a parser's time goes by lines."""
MAX_STEPS = 5_000
MAX_TITLE = 160
MAX_HEADING = 200
STEP_ID_LENGTH = 10
_MAX_SENTENCE = 600

_NO_STEPS = (SectionKind.SYMPTOMS, SectionKind.IMPACT, SectionKind.BACKGROUND, SectionKind.REFERENCES)
_LISTS = (BlockKind.ORDERED, BlockKind.BULLETS)
_ALERT = re.compile(r"\b(?:[A-Z][a-z0-9]+|[A-Z]{2,}(?=[A-Z][a-z]))(?:[A-Z]+[a-z0-9]*){1,}\b|\betcd[A-Z]\w+\b")
_BOLD_LINE = re.compile(r"\s*(\*\*|__)(?P<text>[^*_\n]{3,120})(?::\1|\1:?)\s*\Z")


def outline_of(document_id: str, title: str, text: str) -> Outline:
    """The outline of a document's normalised text. One that is longer than `MAX_CHARACTERS` or `MAX_LINES` has a single
    section and no steps; of more than `MAX_STEPS` steps the first are kept, and `whole` is false for both."""
    if len(text) > MAX_CHARACTERS or text.count("\n") > MAX_LINES:
        whole = Section((), 0, SectionKind.OTHER, 0, len(text))
        return Outline(document_id, title, text, (whole,), whole=False)
    parts = _parts(parse_blocks(text), title, len(text))
    drafts = list(_Drafting(parts).drafts())
    steps = _steps(drafts[:MAX_STEPS], parts, text)
    alerts = tuple(dict.fromkeys(_ALERT.findall(title)))
    sections = tuple(part.section for part in parts)
    return Outline(document_id, title, text, sections, steps, alerts, whole=len(drafts) <= MAX_STEPS)


# -- sections


@dataclass(slots=True)
class _Part:
    """A section with its own blocks, its heading left out. `parent` is the index of the section above it, -1 for none;
    `tells`: its heading tells to do something."""

    section: Section
    parent: int
    tells: bool = False
    blocks: list[Block] = field(default_factory=list)


def _parts(blocks: Sequence[Block], title: str, length: int) -> list[_Part]:
    parts = [_Part(Section((), 0, SectionKind.OTHER, 0, length), -1)]
    for block in blocks:
        if block.kind is BlockKind.HEADING:
            parts.append(_headed_part(block, parts, title, length))
        else:
            parts[-1].blocks.append(block)
    ends = [part.section.start for part in parts[1:]] + [length]
    for part, end in zip(parts, ends, strict=True):
        part.section = replace(part.section, end=end)
    return parts if parts[0].section.end or len(parts) == 1 else _without_first(parts)


def _headed_part(block: Block, parts: Sequence[_Part], title: str, length: int) -> _Part:
    parent = _parent(parts, block.level)
    above = parts[parent].section if parent >= 0 else None
    heading = normalise(" ".join(block.text[: 2 * MAX_HEADING].split())[:MAX_HEADING])
    tells = _tells_by_heading(heading)
    if above is None and heading.casefold() == title.casefold():
        return _Part(Section((), block.level, SectionKind.OTHER, block.start, length), parent)
    kind = phrases.role_of(heading)
    inherits = kind is SectionKind.OTHER or tells  # `Verify the role` below `Diagnosis` belongs to the diagnosis
    if above and above.kind is not SectionKind.OTHER and inherits:
        kind = above.kind
    return _Part(Section((*(above.path if above else ()), heading), block.level, kind, block.start, length), parent, tells)


def _without_first(parts: list[_Part]) -> list[_Part]:
    """Without the empty section before a heading that the text begins with."""
    for part in parts:
        part.parent -= 1
    return parts[1:]


def _parent(parts: Sequence[_Part], level: int) -> int:
    at = len(parts) - 1
    while at >= 0 and (parts[at].section.level >= level or parts[at].section.level == 0):
        at = parts[at].parent
    return at


def _tells_by_heading(heading: str) -> bool:
    plain = phrases.plain(heading)
    if phrases.is_role(plain):
        return phrases.is_step_number(plain)
    return phrases.is_numbered(plain) or phrases.begins_with_verb(plain) or phrases.is_condition(plain)


# -- steps


@dataclass(slots=True)
class _Draft:
    """A step as it is found: its first line, its extent, and the blocks that belong to it. `ahead` are the blocks between the
    section's heading and its first step, which may warn of it."""

    part: int
    first: str
    start: int
    end: int
    label: str = ""
    blocks: list[Block] = field(default_factory=list)
    ahead: Sequence[Block] = ()
    from_paragraph: bool = False
    in_list: bool = False


class _Drafting:
    """Finds steps section by section."""

    def __init__(self, parts: Sequence[_Part]) -> None:
        self._parts = parts
        self._siblings: dict[tuple[int, int], list[_Part]] = defaultdict(list)
        for part in parts:
            self._siblings[part.parent, part.section.level].append(part)
        self._headed = [False] * len(parts)
        for at in range(len(parts)):
            self._headed[at] = self._is_step(at)

    def drafts(self) -> Iterator[_Draft]:
        at = 0
        while at < len(self._parts):
            part = self._parts[at]
            if self._headed[at]:
                below = self._below(at)
                yield self._heading_step(at, below)
                at = below
                continue
            if part.section.kind not in _NO_STEPS or _tells_commands(part):
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
        """Whether a heading is itself a step: it is numbered, or it tells to do something and what is below it is no list of
        steps. Among headings of which most tell to do something, the others are steps, too."""
        part = self._parts[at]
        above = self._parts[part.parent] if part.parent >= 0 else None
        role = above.section.kind if above else SectionKind.OTHER
        heading = part.section.heading
        if not heading or role in _NO_STEPS or (above and self._headed[part.parent]):
            return False
        inside = self._parts[at : self._below(at)]
        blocks = [block for one in inside for block in one.blocks]
        if not blocks or (phrases.is_role(heading) and not part.tells):
            return False
        if phrases.is_numbered(heading):
            return True
        if not any(map(_tells_something, blocks)):
            return False
        if role is not SectionKind.OTHER and self._is_one_of_steps(part):
            return True
        return part.tells and not any(one.tells for one in inside[1:]) and not _has_procedure(blocks)

    def _is_one_of_steps(self, part: _Part) -> bool:
        """Whether most of several sections below one heading tell to do something by their headings."""
        siblings = self._siblings[part.parent, part.section.level]
        telling = sum(one.tells for one in siblings)
        if not telling or not (part.tells or phrases.names_action(part.section.heading)):
            return telling >= 2 and telling * 2 > len(siblings)
        return sum(one.tells or phrases.names_action(one.section.heading) for one in siblings) * 2 > len(siblings) > 1

    def _heading_step(self, at: int, behind: int) -> _Draft:
        inside = self._parts[at:behind]
        section = inside[0].section
        number = re.search(r"\d{1,3}(?:\.\d{1,3})*", section.heading) if phrases.is_numbered(section.heading) else None
        first = phrases.unnumbered(phrases.plain(section.heading))
        blocks = [block for part in inside for block in part.blocks]
        return _Draft(at, first, section.start, inside[-1].section.end, number[0] if number else "", blocks)


class _Blocks:
    """Finds the steps of one section's blocks. A paragraph that stands for a heading (`How to fix:`) changes what is expected
    of the blocks behind it: in text on background, only instructions with commands are steps."""

    def __init__(self, at: int, part: _Part) -> None:
        self._at = at
        self._blocks = part.blocks
        self._lists = [number for number, block in enumerate(part.blocks) if block.kind in _LISTS]
        self._strict = part.section.kind in _NO_STEPS

    def steps(self) -> Iterator[_Draft]:
        current: _Draft | None = None
        ahead: list[Block] = []
        for number, block in enumerate(self._blocks):
            label = phrases.label_of(block.text[:200]) if block.kind is BlockKind.PARAGRAPH else None
            if label:
                self._strict = label[0] in _NO_STEPS
            ends = label is not None and (self._strict or not label[1])  # the step before it; nothing begins with it
            begun = [] if ends else self._begun(number, current)
            if current is not None and (ends or begun) and not (begun and begun[0].start == current.start):
                yield current
            if begun:
                begun[0].ahead, ahead = ahead, []
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

    def _begun(self, number: int, current: _Draft | None) -> list[_Draft]:
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
            return [_Draft(self._at, block.text, block.start, block.end, blocks=[block], from_paragraph=True)]
        if current is not None or self._strict or not _has_commands(block):
            return []
        if before is None or before.kind is not BlockKind.PARAGRAPH:
            return [_Draft(self._at, _first_command(block), block.start, block.end, blocks=[block])]
        if phrases.announces_output(before.text) or phrases.label_of(before.text[:200]):
            return []
        return [_Draft(self._at, before.text, before.start, block.end, blocks=[before, block])]

    def _is_within_list(self, number: int, current: _Draft | None) -> bool:
        """Whether the list that the current step is an item of goes on behind this block."""
        following = bisect_right(self._lists, number)
        if current is None or not current.in_list or following == len(self._lists):
            return False
        later = self._blocks[self._lists[following]]
        if current.label:
            return later.kind is BlockKind.ORDERED and _number(later) == int(current.label) + 1
        return later.kind is BlockKind.BULLETS and len(later.children) == 1

    def _items(self, block: Block, lead: Block | None) -> Iterator[_Draft]:
        first = _number(block)
        for place, item in enumerate(block.children):
            label = str(first + place) if block.kind is BlockKind.ORDERED else ""
            start = lead.start if lead and place == 0 else item.start
            blocks = [lead, *item.children] if lead and place == 0 else list(item.children)
            yield _Draft(self._at, _first_line(item), start, item.end, label, blocks, in_list=True)

    def _is_steps(self, block: Block) -> bool:
        """Whether a list's items are steps: it is numbered, or most of its items tell to do something."""
        telling = sum(1 for item in block.children if _tells(item))
        if block.kind is BlockKind.ORDERED:
            return telling == len(block.children) if self._strict else telling * 3 >= len(block.children)
        return not self._strict and telling * 2 > len(block.children)

    def _begins_step(self, number: int, current: _Draft | None) -> bool:
        text = self._blocks[number].text
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
        return (has_command and current is None) or any(map(phrases.is_instruction, phrases.sentences(text)))


def _tells_something(block: Block) -> bool:
    """Whether blocks below a heading hold something to do."""
    if block.kind is BlockKind.PARAGRAPH:
        return any(map(phrases.is_instruction, phrases.sentences(block.text))) or any(inline_commands(block.text))
    return _has_commands(block) or any(map(_tells_something, block.children))


def _has_procedure(blocks: Sequence[Block]) -> bool:
    """Whether blocks below a heading are several steps themselves, and no details of one."""
    pairs = zip(blocks, blocks[1:], strict=False)
    told = sum(1 for before, after in pairs if before.kind is BlockKind.PARAGRAPH and _has_commands(after))
    numbered = sum(len(block.children) for block in blocks if block.kind is BlockKind.ORDERED)
    bullets = sum(sum(map(_tells, block.children)) for block in blocks if block.kind is BlockKind.BULLETS)
    return told >= 3 or numbered >= 2 or bullets >= 3


def _tells_commands(part: _Part) -> bool:
    """Whether a section that is no place for steps has one all the same: an instruction with a command below it."""
    if part.section.kind in (SectionKind.REFERENCES, SectionKind.SYMPTOMS):
        return False
    return any(
        before.kind is BlockKind.PARAGRAPH and (phrases.is_instruction(before.text) or phrases.label_of(before.text[:200]))
        and _has_commands(after)
        for before, after in zip(part.blocks, part.blocks[1:], strict=False)
    )


def _number(block: Block) -> int:
    label = block.children[0].label if block.children else ""
    return int(label) if label.isdecimal() else 1


def _first_line(item: Block) -> str:
    return next((child.text.strip() for child in item.walk() if child.text.strip()), "")


def _first_command(block: Block) -> str:
    return next((one.text for one in commands_of(block.text, block.language)), "")


def _tells(item: Block) -> bool:
    """Whether a list item tells to do something, itself or by what is nested in it."""
    first = _first_line(item)
    if phrases.is_instruction(next(phrases.sentences(first[:_MAX_SENTENCE]), "")) or any(inline_commands(first)):
        return True
    return any(
        _has_commands(child) or (child.kind in _LISTS and any(map(_tells, child.children))) for child in item.children
    )


def _has_commands(block: Block) -> bool:
    return block.kind is BlockKind.CODE and bool(_first_command(block))


# -- drafts to steps


def _steps(drafts: Sequence[_Draft], parts: Sequence[_Part], text: str) -> tuple[Step, ...]:
    seen: Counter[str] = Counter()
    found = []
    for number, draft in enumerate(drafts, start=1):
        title = _title(draft.first)
        key = stable_hash("step", parts[draft.part].section.path, title)[:STEP_ID_LENGTH]
        seen[key] += 1
        step_id = key if seen[key] == 1 else f"{key}-{seen[key]}"
        found.append(_step(step_id, number, title, draft, text))
    return _with_targets(found)


def _step(step_id: str, number: int, title: str, draft: _Draft, text: str) -> Step:
    lines = _lines(draft.blocks)
    own = next((at for at, line in enumerate(lines) if _title(line) == title), -1)
    below = [line for at, line in enumerate(lines) if at != own]  # a step's first line is not its own check
    fails, goes_to = phrases.failure(below)
    return Step(
        step_id=step_id,
        number=number,
        title=title,
        section=draft.part,
        start=draft.start,
        end=draft.start + len(text[draft.start : draft.end].rstrip()),
        label=draft.label,
        commands=_commands(draft.blocks),
        expect=phrases.expectation(below),
        check=phrases.check(below),
        if_fails=fails,
        goes_to=goes_to,
        approval=phrases.approval(lines),
        warnings=phrases.warnings(_lines(draft.ahead)) + phrases.warnings(lines),
    )


def _title(first: str) -> str:
    """The first sentence of a step's first paragraph, or as much of it as is read at a glance."""
    line = phrases.plain(" ".join(first[: 10 * MAX_TITLE].split()))
    sentence = next(phrases.sentences(line), line).rstrip(":").strip()
    if len(sentence) <= MAX_TITLE:
        return sentence
    return sentence[: MAX_TITLE - 1].rsplit(" ", 1)[0] + "…"


def _lines(blocks: Sequence[Block]) -> list[str]:
    """The sentences of the paragraphs in blocks."""
    prose = (one for block in blocks for one in block.walk() if one.kind is BlockKind.PARAGRAPH)
    return [line[:_MAX_SENTENCE] for block in prose for line in phrases.sentences(block.text)]


def _commands(blocks: Sequence[Block]) -> tuple[Command, ...]:
    found: dict[str, Command] = {}
    before = ""  # the paragraph before a code block
    for block in (one for outer in blocks for one in outer.walk()):
        if block.kind is BlockKind.CODE and not phrases.announces_output(before):
            for one in commands_of(block.text, block.language):
                found.setdefault(one.text, one)
        elif block.kind is BlockKind.PARAGRAPH:
            for one in inline_commands(block.text):
                found.setdefault(one.text, one)
        before = block.text if block.kind is BlockKind.PARAGRAPH else ""
    return tuple(found.values())


def _with_targets(steps: Sequence[Step]) -> tuple[Step, ...]:
    """Authors' numbers in `goes_to` as numbers of steps: of the same section first, then the first of the document. A number
    that no step has leads nowhere."""
    labels: dict[tuple[int, str], int] = {}
    anywhere: dict[str, int] = {}
    for step in steps:
        if step.label:
            labels.setdefault((step.section, step.label), step.number)
            anywhere.setdefault(step.label, step.number)

    def target(step: Step) -> str:
        number = labels.get((step.section, step.goes_to)) or anywhere.get(step.goes_to)
        return str(number) if number else ("" if step.goes_to[0].isdigit() else step.goes_to)

    return tuple(replace(step, goes_to=target(step)) if step.goes_to else step for step in steps)
