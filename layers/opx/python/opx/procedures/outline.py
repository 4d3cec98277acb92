"""Outlines of documents: typed sections, and the steps of procedures in every form that authors write them in.

A step is what the author numbered, bulleted or headed at the outermost level; in prose, a paragraph that tells to do something,
with the code below it. All offsets point into the document's text, so that a step is shown as it was written.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from opx.domain.ids import normalise, stable_hash
from opx.domain.procedures import Command, Outline, Section, SectionKind, Step
from opx.domain.titles import repeats
from opx.procedures import phrases
from opx.procedures.blocks import Block, BlockKind, parse_blocks
from opx.procedures.commands import command, commands_of, is_command_span, language_of, spans_of
from opx.procedures.units import units_of

MAX_CHARACTERS = 1_000_000
"""Of a text in which steps are looked for."""
MAX_STEPS = 5_000
MAX_TITLE = 160
MAX_HEADING = 200
STEP_ID_LENGTH = 10
_MAX_SENTENCE = 600

_NO_STEPS = (SectionKind.SYMPTOMS, SectionKind.IMPACT, SectionKind.BACKGROUND, SectionKind.REFERENCES)
_LISTS = (BlockKind.ORDERED, BlockKind.BULLETS)
_ALERT = re.compile(r"\b(?:[A-Z][a-z0-9]+|[A-Z]{2,}(?=[A-Z][a-z]))(?:[A-Z]+[a-z0-9]*){1,}\b|\betcd[A-Z]\w+\b")
_BOLD_LINE = re.compile(r"\s*(\*\*|__)(?P<text>[^*_\n]{3,120})\1:?\s*\Z")


def outline_of(document_id: str, title: str, text: str) -> Outline:
    """The outline of a document's normalised text. One that is longer than `MAX_CHARACTERS` has a single section and no
    steps; of more than `MAX_STEPS` steps the first are kept, and `whole` is false for both."""
    if len(text) > MAX_CHARACTERS:
        whole = Section((), 0, SectionKind.OTHER, 0, len(text))
        return Outline(document_id, title, text, (whole,), whole=False)
    blocks = parse_blocks(text)
    parts = _parts(blocks, title, len(text))
    drafts = list(_Drafting(parts).drafts())
    steps = _steps(drafts[:MAX_STEPS], parts, text)
    alerts = tuple(dict.fromkeys(_ALERT.findall(title)))
    sections = tuple(part.section for part in parts)
    units = units_of(blocks, sections, steps, text)
    whole = len(drafts) <= MAX_STEPS
    return Outline(document_id, title, text, sections, steps, alerts, whole=whole, units=units)


# -- sections


@dataclass(slots=True)
class _Part:
    """A section with its own blocks, its heading left out. `parent` is the index of the section above it, -1 for none."""

    section: Section
    parent: int
    blocks: list[Block] = field(default_factory=list)
    own_kind: SectionKind = SectionKind.OTHER


def _parts(blocks: Sequence[Block], title: str, length: int) -> list[_Part]:
    parts = [_Part(Section((), 0, SectionKind.OTHER, 0, length), -1)]
    for block in blocks:
        if block.kind is not BlockKind.HEADING:
            parts[-1].blocks.append(block)
            continue
        parent = _parent(parts, block.level)
        above = parts[parent] if parent >= 0 else None
        heading = normalise(" ".join(block.text.split())[:MAX_HEADING])
        path = () if above is None and repeats(heading, title) else (*(above.section.path if above else ()), heading)
        own = phrases.role_of(heading) if path else SectionKind.OTHER
        kind = own if own is not SectionKind.OTHER or above is None else above.section.kind
        parts.append(_Part(Section(path, block.level, kind, block.start, length), parent, own_kind=own))
    ends = [part.section.start for part in parts[1:]] + [length]
    for part, end in zip(parts, ends, strict=True):
        section = part.section
        part.section = Section(section.path, section.level, section.kind, section.start, end)
    return parts if parts[0].section.end or len(parts) == 1 else _without_first(parts)


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


# -- steps


@dataclass(slots=True)
class _Draft:
    """A step as it is found: its first line, its extent, and the blocks that belong to it."""

    part: int
    first: str
    start: int
    end: int
    label: str = ""
    blocks: list[Block] = field(default_factory=list)
    is_heading: bool = False
    from_paragraph: bool = False
    in_list: bool = False


class _Drafting:
    """Finds steps section by section."""

    def __init__(self, parts: Sequence[_Part]) -> None:
        self._parts = parts
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
            if part.section.kind not in _NO_STEPS or self._tells_commands(part):
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
        behind = self._below(at)
        if not part.section.heading or not any(one.blocks for one in self._parts[at:behind]):
            return False
        above = self._parts[part.parent] if part.parent >= 0 else None
        if above and (self._headed[part.parent] or above.section.kind in _NO_STEPS):
            return False
        if phrases.is_numbered(part.section.heading):
            return True
        if phrases.is_role(part.section.heading):
            return False
        if above and above.section.kind is not SectionKind.OTHER and self._is_one_of_steps(part):
            return True
        if not _tells_by_heading(part) or any(map(_tells_by_heading, self._parts[at + 1 : behind])):
            return False
        return not _has_procedure([block for one in self._parts[at:behind] for block in one.blocks])

    def _is_one_of_steps(self, part: _Part) -> bool:
        """Whether most of several sections below one heading tell to do something by their headings."""
        siblings = [one for one in self._parts if one.parent == part.parent and one.section.level == part.section.level]
        telling = sum(map(_tells_by_heading, siblings))
        return telling >= 2 and telling * 2 > len(siblings)

    def _heading_step(self, at: int, behind: int) -> _Draft:
        inside = self._parts[at:behind]
        blocks = [block for part in inside for block in part.blocks]
        section = inside[0].section
        number = re.search(r"\d{1,3}(?:\.\d{1,3})*", section.heading) if phrases.is_numbered(section.heading) else None
        first = phrases.unnumbered(phrases.plain(section.heading))
        return _Draft(
            at, first, section.start, inside[-1].section.end, number[0] if number else "", blocks, is_heading=True
        )

    def _tells_commands(self, part: _Part) -> bool:
        """Whether a section that is no place for steps has one all the same: an instruction with a command below it."""
        if part.section.kind in (SectionKind.REFERENCES, SectionKind.SYMPTOMS):
            return False
        return any(
            before.kind is BlockKind.PARAGRAPH and phrases.is_instruction(before.text) and _has_commands(after)
            for before, after in zip(part.blocks, part.blocks[1:], strict=False)
        )


class _Blocks:
    """Finds the steps of one section's blocks."""

    def __init__(self, at: int, part: _Part) -> None:
        self._at = at
        self._part = part
        self._strict = part.section.kind in _NO_STEPS

    def steps(self) -> Iterator[_Draft]:
        current: _Draft | None = None
        lead: Block | None = None  # a paragraph that leads to what follows
        blocks = self._part.blocks
        for number, block in enumerate(blocks):
            following = blocks[number + 1] if number + 1 < len(blocks) else None
            if block.kind in _LISTS and self._is_steps(block):
                begins = self._lead(current, lead)
                if current is not None and begins is None:
                    yield current
                *done, current = self._items(block, begins)
                yield from done
            elif (
                block.kind is BlockKind.PARAGRAPH
                and not self._is_within_list(number, current)
                and self._begins_step(block, following, current)
            ):
                if current is not None:
                    yield current
                start = lead.start if lead else block.start
                current = _Draft(self._at, block.text, start, block.end, blocks=[block], from_paragraph=True)
            elif current is not None:
                current.blocks.append(block)
                current.end = block.end
            elif _has_commands(block):
                start = lead.start if lead else block.start
                first = lead.text if lead else block.text.strip()
                current = _Draft(self._at, first, start, block.end, blocks=[*([lead] if lead else []), block])
            lead = block if block.kind is BlockKind.PARAGRAPH and current is None else None
        if current is not None:
            yield current

    def _is_within_list(self, number: int, current: _Draft | None) -> bool:
        """Whether the list that the current step is an item of goes on behind this block."""
        if current is None or not current.in_list:
            return False
        later = next((block for block in self._part.blocks[number + 1 :] if block.kind in _LISTS), None)
        if later is None:
            return False
        if current.label:
            return later.kind is BlockKind.ORDERED and _number(later) == int(current.label) + 1
        return later.kind is BlockKind.BULLETS and len(later.children) == 1

    def _lead(self, current: _Draft | None, lead: Block | None) -> Block | None:
        """The paragraph that a list's first step begins with: one that only announces the list."""
        if lead is not None:
            return lead
        if (
            current
            and current.from_paragraph
            and len(current.blocks) == 1
            and current.blocks[0].text.rstrip().endswith(":")
        ):
            return current.blocks[0]
        return None

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

    def _begins_step(self, block: Block, following: Block | None, current: _Draft | None) -> bool:
        has_command = following is not None and _has_commands(following)
        if self._strict:
            return has_command and phrases.is_instruction(block.text)
        if _BOLD_LINE.match(block.text):
            return (
                following is not None and following.kind is not BlockKind.HEADING and phrases.is_instruction(block.text)
            )
        if has_command and (block.text.rstrip().endswith(":") or current is None):
            return True
        return any(phrases.is_instruction(line) for line in phrases.sentences(block.text))


def _tells_by_heading(part: _Part) -> bool:
    heading = phrases.plain(part.section.heading)
    if phrases.is_numbered(heading):
        return True
    return not phrases.is_role(heading) and (phrases.begins_with_verb(heading) or phrases.is_condition(heading))


def _has_procedure(blocks: Sequence[Block]) -> bool:
    """Whether blocks below a heading are several steps themselves, and no details of one."""
    pairs = zip(blocks, blocks[1:], strict=False)
    told = sum(1 for before, after in pairs if before.kind is BlockKind.PARAGRAPH and _has_commands(after))
    numbered = sum(len(block.children) for block in blocks if block.kind is BlockKind.ORDERED)
    bullets = sum(sum(map(_tells, block.children)) for block in blocks if block.kind is BlockKind.BULLETS)
    return told >= 3 or numbered >= 2 or bullets >= 3


def _number(block: Block) -> int:
    label = block.children[0].label if block.children else ""
    return int(label) if label.isdigit() else 1


def _first_line(item: Block) -> str:
    for child in item.walk():
        if child.text.strip():
            return child.text.strip()
    return ""


def _tells(item: Block) -> bool:
    """Whether a list item tells to do something, itself or by what is nested in it."""
    first = _first_line(item)
    if phrases.is_instruction(first) or any(map(is_command_span, spans_of(first))):
        return True
    return any(
        _has_commands(child) or (child.kind in _LISTS and any(map(_tells, child.children))) for child in item.children
    )


def _has_commands(block: Block) -> bool:
    return block.kind is BlockKind.CODE and next(iter(commands_of(block.text, block.language)), None) is not None


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
    lines = [line[:_MAX_SENTENCE] for block in _prose(draft.blocks) for line in phrases.sentences(block.text)]
    fails, goes_to = phrases.failure(lines)
    return Step(
        step_id=step_id,
        number=number,
        title=title,
        section=draft.part,
        start=draft.start,
        end=len(text[: draft.end].rstrip()),
        label=draft.label,
        commands=_commands(draft.blocks),
        expect=phrases.expectation(lines),
        check=phrases.check(lines),
        if_fails=fails,
        goes_to=goes_to,
        approval=phrases.approval(lines),
        warnings=phrases.warnings(lines),
    )


def _title(first: str) -> str:
    """The first sentence of a step's first paragraph, or as much of it as is read at a glance."""
    line = phrases.plain(" ".join(first.split()))
    sentence = next(phrases.sentences(line), line).rstrip(":").strip()
    if len(sentence) <= MAX_TITLE:
        return sentence
    return sentence[: MAX_TITLE - 1].rsplit(" ", 1)[0] + "…"


def _prose(blocks: Sequence[Block]) -> Iterator[Block]:
    return (one for block in blocks for one in block.walk() if one.kind is BlockKind.PARAGRAPH)


def _commands(blocks: Sequence[Block]) -> tuple[Command, ...]:
    found: dict[str, Command] = {}
    for block in (one for outer in blocks for one in outer.walk()):
        if block.kind is BlockKind.CODE:
            for one in commands_of(block.text, block.language):
                found.setdefault(one.text, one)
        elif block.kind is BlockKind.PARAGRAPH:
            for span in spans_of(block.text):
                if is_command_span(span):
                    found.setdefault(span, command(span, language_of(span)))
    return tuple(found.values())


def _with_targets(steps: Sequence[Step]) -> tuple[Step, ...]:
    """Authors' numbers in `goes_to` as numbers of steps: of the same section first, then the first of the document."""
    from opx.domain.record import replace

    labels: dict[tuple[int, str], int] = {}
    anywhere: dict[str, int] = {}
    for step in steps:
        if step.label:
            labels.setdefault((step.section, step.label), step.number)
            anywhere.setdefault(step.label, step.number)

    def target(step: Step) -> str:
        number = labels.get((step.section, step.goes_to)) or anywhere.get(step.goes_to)
        return str(number) if number else step.goes_to

    return tuple(replace(step, goes_to=target(step)) if step.goes_to else step for step in steps)
