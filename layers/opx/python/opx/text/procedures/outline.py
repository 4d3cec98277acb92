"""Builds outlines of documents: typed sections, and the steps of procedures with their commands and conditions.

All offsets point into the document's text, so that a step is shown as it was written.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct, field

from opx.domain.ids import normalise, stable_hash
from opx.domain.procedures import Command, Outline, Section, SectionKind, Step, Unit
from opx.domain.record import replace
from opx.domain.titles import repeats
from opx.text.procedures import phrases
from opx.text.procedures.blocks import Block, BlockKind, parse_blocks
from opx.text.procedures.commands import inline_commands, row_commands
from opx.text.procedures.drafts import DraftPart, StepDraft, drafts_of, is_instruction_heading
from opx.text.procedures.phrases import Phrases, approval, sentences, warnings
from opx.text.tokenizer import estimated_tokens

MAX_CHARACTERS = 1_000_000
"""Characters of the longest text in which steps are detected."""
MAX_LINES = 60_000
"""Lines of such text at most: a million characters of prose have 25,000 lines, and parsing time depends on lines."""
MAX_STEPS = 5_000
MAX_TITLE = 160
MAX_HEADING = 200
STEP_ID_LENGTH = 10
_MAX_SENTENCE = 600
_COMMENTS = ("#", "--", "//")

_ALERT = re.compile(r"\b(?:[A-Z][a-z0-9]+|[A-Z]{2,}(?=[A-Z][a-z]))(?:[A-Z]+[a-z0-9]*){1,}\b|\betcd[A-Z]\w+\b")


def outline_of(document_id: str, title: str, text: str) -> Outline:
    """The outline of a document's normalised text. One that is longer than `MAX_CHARACTERS` or `MAX_LINES` has a single
    section and no steps; of more than `MAX_STEPS` steps the first are kept, and `whole` is false for both."""
    if len(text) > MAX_CHARACTERS or text.count("\n") > MAX_LINES:
        only = Section((), 0, SectionKind.OTHER, 0, len(text))
        return Outline(document_id, title, text, (only,), whole=False)
    blocks = parse_blocks(text)
    parts = _parts(blocks, title, len(text))
    drafts = list(drafts_of(parts))
    steps = _steps(drafts[:MAX_STEPS], parts, text)
    alerts = tuple(dict.fromkeys(_ALERT.findall(title)))
    sections = tuple(part.section for part in parts)
    units = units_of(blocks, sections, steps, text)
    whole = len(drafts) <= MAX_STEPS
    unclosed = tuple(1 + text.count("\n", 0, start) for start in _unclosed(blocks))
    return Outline(document_id, title, text, sections, steps, alerts, whole=whole, units=units, unclosed=unclosed)


def _unclosed(blocks: Sequence[Block]) -> Iterator[int]:
    for block in blocks:
        if block.is_unclosed:
            yield block.start
        if block.children:
            yield from _unclosed(block.children)


# -- sections


def _parts(blocks: Sequence[Block], title: str, length: int) -> list[DraftPart]:
    parts = [DraftPart(Section((), 0, SectionKind.OTHER, 0, length), -1)]
    for block in blocks:
        if block.kind is BlockKind.HEADING:
            parts.append(_headed_part(block, parts, title, length))
        else:
            parts[-1].blocks.append(block)
    ends = [part.section.start for part in parts[1:]] + [length]
    for part, end in zip(parts, ends, strict=True):
        part.section = replace(part.section, end=end)
    return parts if parts[0].section.end or len(parts) == 1 else _without_first(parts)


def _headed_part(block: Block, parts: Sequence[DraftPart], title: str, length: int) -> DraftPart:
    parent = _parent(parts, block.level)
    above = parts[parent].section if parent >= 0 else None
    heading = normalise(" ".join(block.text[: 2 * MAX_HEADING].split())[:MAX_HEADING])
    instructs = is_instruction_heading(heading)
    if above is None and repeats(heading, title):
        return DraftPart(Section((), block.level, SectionKind.OTHER, block.start, length), parent)
    kind = phrases.role_of(heading)
    inherits = kind is SectionKind.OTHER or instructs  # `Verify the role` below `Diagnosis` belongs to the diagnosis
    if above and above.kind is not SectionKind.OTHER and inherits:
        kind = above.kind
    path = (*(above.path if above else ()), heading)
    return DraftPart(Section(path, block.level, kind, block.start, length), parent, instructs)


def _without_first(parts: list[DraftPart]) -> list[DraftPart]:
    """Without the empty section before a heading that the text begins with."""
    for part in parts:
        part.parent -= 1
    return parts[1:]


def _parent(parts: Sequence[DraftPart], level: int) -> int:
    at = len(parts) - 1
    while at >= 0 and (parts[at].section.level >= level or parts[at].section.level == 0):
        at = parts[at].parent
    return at


# -- steps


def _steps(drafts: Sequence[StepDraft], parts: Sequence[DraftPart], text: str) -> tuple[Step, ...]:
    seen: Counter[str] = Counter()
    found = []
    for number, draft in enumerate(drafts, start=1):
        title = _title(draft.first)
        key = stable_hash("step", parts[draft.part].section.path, title)[:STEP_ID_LENGTH]
        seen[key] += 1
        step_id = key if seen[key] == 1 else f"{key}-{seen[key]}"
        found.append(_step(step_id, number, title, draft, text))
    return _with_targets(found)


def _step(step_id: str, number: int, title: str, draft: StepDraft, text: str) -> Step:
    lines, ahead = _lines(draft.blocks), _lines(draft.ahead)
    own = next((at for at, line in enumerate(lines) if _title(line) == title), -1)
    below = [line for at, line in enumerate(lines) if at != own]  # a step's first line is not its own check
    fails, goes_to = phrases.failure(below)
    warnings = tuple(dict.fromkeys((*phrases.warnings(ahead), *phrases.warnings(lines))))
    return Step(
        step_id=step_id,
        number=number,
        title=title,
        section=draft.part,
        start=draft.start,
        end=draft.start + len(text[draft.start : draft.end].rstrip()),
        label=draft.label,
        commands=_commands(draft.blocks, text),
        expect=phrases.expectation(below),
        check=phrases.check(below),
        if_fails=fails,
        goes_to=goes_to,
        approval=phrases.approval([*lines, *ahead]),
        warnings=warnings,
        destructive=any(map(phrases.destroys, (title, *warnings, *_comments(draft.blocks)))),
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
    return [line[:_MAX_SENTENCE] for block in prose for line in block.sentences]


def _comments(blocks: Sequence[Block]) -> Iterator[str]:
    """The comments of code blocks."""
    for block in (one for outer in blocks for one in outer.walk()):
        if block.kind is BlockKind.CODE:
            yield from (line[:_MAX_SENTENCE] for line in block.text.split("\n") if line.lstrip().startswith(_COMMENTS))


def _commands(blocks: Sequence[Block], text: str) -> tuple[Command, ...]:
    found: dict[str, Command] = {}
    before = ""  # the paragraph before a code block
    for block in (one for outer in blocks for one in outer.walk()):
        if block.kind is BlockKind.CODE and not phrases.announces_output(before):
            for one in block.commands:
                found.setdefault(one.text, one)
        elif block.kind is BlockKind.PARAGRAPH:
            for one in inline_commands(block.text):
                found.setdefault(one.text, one)
        elif block.kind is BlockKind.TABLE:
            for row in text[block.start : block.end].split("\n"):
                for one in row_commands(row):
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


# -- units


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


class _Found(Struct):
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


class _Splitting(Struct):
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
        """True if code is directly below a paragraph or an item that has none yet."""
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
