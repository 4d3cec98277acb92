"""Compares the safeguards of a procedure in two versions: warnings, approvals, preconditions, and whole sections of
preconditions, verification and rollback.

Sentences are found by the words that make them warnings or approvals of steps, anywhere in the document: in paragraphs,
lists, quotes, tables, headings, and comments of code.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from opx.domain.ids import shortened
from opx.domain.procedures import Outline, SectionKind, Step
from opx.domain.versions import Safeguard, SafeguardChange, StepChangeKind
from opx.lifecycle.versions.differences import MAX_LIKENED, likeness, most_alike, unmarked
from opx.text.procedures import phrases
from opx.text.procedures.blocks import Block, BlockKind, parse_blocks

TOO_LONG = "the text is too long to compare its steps, warnings and approvals: see the line diff"
MAX_SHOWN = 600
"""Limit of characters of a sentence, or of the beginning of a section."""

_SECTIONS = {
    SectionKind.PRECONDITIONS: Safeguard.PRECONDITION,
    SectionKind.VERIFICATION: Safeguard.VERIFICATION,
    SectionKind.ROLLBACK: Safeguard.ROLLBACK,
}
_KIND_ORDER = (StepChangeKind.REMOVED, StepChangeKind.CHANGED, StepChangeKind.MOVED, StepChangeKind.ADDED)
_COMMENT = re.compile(r"(?:^\s*(?:#+|//+|--|;+|REM\b)\s*|\s(?:#|//|--) +)(\S.*)")
"""The comment of a line of code."""
_CELL = re.compile(r"(?<!\\)\|")


@dataclass(frozen=True, slots=True)
class _Sentence:
    """A warning, approval or precondition. `start` is the position of its block in the text. `step` is the number of its
    step, 0 for none: a warning ahead of a section's steps belongs to none of them."""

    safeguard: Safeguard
    text: str
    start: int
    section: int
    step: int = 0

    @property
    def key(self) -> str:
        """Comparison key that ignores case and punctuation at the ends."""
        return unmarked(self.text).casefold().rstrip(" .!:")


@dataclass(frozen=True, slots=True)
class _Part:
    """A section with its subsections, or the blocks after a paragraph that serves as a heading (`**Rollback:**`). `body` is
    its text in one line, without list markers."""

    safeguard: Safeguard
    path: tuple[str, ...]
    start: int
    end: int
    body: str


def is_too_long(outline: Outline) -> bool:
    """True if the text was too long to find steps in."""
    return not outline.whole and not outline.steps


def safeguard_changes(before: Outline, after: Outline, steps: Mapping[int, int]) -> tuple[SafeguardChange, ...]:
    """Changed safeguards: removed ones first, of these the warnings first. `steps` maps the numbers of matching steps in
    both versions."""
    comparison = _Comparison(_Version.of(before), _Version.of(after), steps)
    changes = [*comparison.sentences(), *comparison.parts()]
    kinds = list(Safeguard)
    changes.sort(key=lambda one: (_KIND_ORDER.index(one.kind), kinds.index(one.safeguard)))
    return tuple(changes)


@dataclass(frozen=True, slots=True)
class _Version:
    outline: Outline
    names: Mapping[int, str]
    parts: Sequence[_Part]
    sentences: Sequence[_Sentence]

    @classmethod
    def of(cls, outline: Outline) -> _Version:
        blocks = parse_blocks(outline.text)
        parts = list(_parts(outline, blocks))
        return cls(outline, outline.step_names(), parts, list(_sentences(outline, blocks, parts)))

    def heading(self, one: _Sentence | _Part | None) -> str:
        if isinstance(one, _Part):
            return one.path[-1]
        return self.outline.sections[one.section].heading if one else ""

    def step(self, one: _Sentence | _Part | None) -> str:
        return self.names[one.step] if isinstance(one, _Sentence) and one.step else ""


class _Comparison:
    def __init__(self, before: _Version, after: _Version, steps: Mapping[int, int]) -> None:
        self._before, self._after = before, after
        self._steps = steps
        self._common = {one.path for one in before.outline.sections} & {one.path for one in after.outline.sections}
        self._parts = _matched_parts(before.parts, after.parts)
        self._gone = _without(before.parts, [one for one, _ in self._parts])
        self._fresh = _without(after.parts, [one for _, one in self._parts])

    def parts(self) -> Iterator[SafeguardChange]:
        """Changed sections. Changed preconditions are listed one by one."""
        for old, new in self._parts:
            if old.body != new.body and old.safeguard is not Safeguard.PRECONDITION:
                yield self._change(StepChangeKind.CHANGED, old, new)
        yield from (self._change(StepChangeKind.REMOVED, one, None) for one in self._gone)
        yield from (self._change(StepChangeKind.ADDED, None, one) for one in self._fresh)

    def sentences(self) -> Iterator[SafeguardChange]:
        """Changed sentences. If a section of preconditions was removed or added, only the section is listed."""
        old, new = self._before.sentences, self._after.sentences
        for match, kind in (
            (self._in_place, None),
            (_anywhere, StepChangeKind.MOVED),
            (self._alike_in_place, StepChangeKind.CHANGED),
            (_alike, StepChangeKind.CHANGED),
        ):
            pairs = list(match(old, new))
            old, new = _without(old, [one for one, _ in pairs]), _without(new, [one for _, one in pairs])
            if kind is StepChangeKind.MOVED:
                pairs = [pair for pair in pairs if self._is_moved(*pair)]
            if kind:
                yield from (self._change(kind, *pair) for pair in pairs)
        yield from (self._change(StepChangeKind.REMOVED, one, None) for one in old if not _is_of(one, self._gone))
        yield from (self._change(StepChangeKind.ADDED, None, one) for one in new if not _is_of(one, self._fresh))

    def _in_place(self, old: Sequence[_Sentence], new: Sequence[_Sentence]) -> Iterator[tuple[_Sentence, _Sentence]]:
        return _equal(
            old, new, lambda one: (_words(one), self._place(one)), lambda one: (_words(one), self._new_place(one))
        )

    def _alike_in_place(
        self, old: Sequence[_Sentence], new: Sequence[_Sentence]
    ) -> Iterator[tuple[_Sentence, _Sentence]]:
        there: dict[Hashable, list[_Sentence]] = defaultdict(list)
        for one in new:
            there[self._new_place(one)].append(one)
        here: dict[Hashable, list[_Sentence]] = defaultdict(list)
        for one in old:
            here[self._place(one)].append(one)
        for place, some in here.items():
            yield from _alike(some, there.get(place, ()))

    def _place(self, one: _Sentence) -> Hashable:
        """The sentence's step, by its number in the later version, or its section."""
        step = self._steps.get(one.step, -1) if one.step else 0
        return step or self._section(self._before, one)

    def _new_place(self, one: _Sentence) -> Hashable:
        return one.step or self._section(self._after, one)

    def _section(self, version: _Version, one: _Sentence) -> tuple[str, ...] | None:
        """The path of its section, if both versions have it; otherwise it may be the same section with another heading."""
        path = version.outline.sections[one.section].path
        return path if path in self._common else None

    def _is_moved(self, old: _Sentence, new: _Sentence) -> bool:
        """True if the sentence belongs to another step, or to another section that both versions have."""
        sections = self._section(self._before, old), self._section(self._after, new)
        return bool(old.step and new.step) or (None not in sections and sections[0] != sections[1])

    def _change(
        self, kind: StepChangeKind, old: _Sentence | _Part | None, new: _Sentence | _Part | None
    ) -> SafeguardChange:
        shown = new or old
        assert shown is not None
        return SafeguardChange(
            kind=kind,
            safeguard=shown.safeguard,
            before=_shown(old),
            after=_shown(new),
            section=self._after.heading(new),
            section_before=self._before.heading(old),
            step=self._after.step(new),
            step_before=self._before.step(old),
            whole_section=isinstance(shown, _Part),
        )


# -- matching

_T = TypeVar("_T", _Sentence, _Part)


def _equal(
    old: Sequence[_T], new: Sequence[_T], key: Callable[[_T], Hashable], new_key: Callable[[_T], Hashable]
) -> Iterator[tuple[_T, _T]]:
    """Pairs with equal keys, each item once, in order."""
    waiting: dict[Hashable, deque[_T]] = defaultdict(deque)
    for one in new:
        waiting[new_key(one)].append(one)
    for one in old:
        if found := waiting.get(key(one)):
            yield one, found.popleft()


def _anywhere(old: Sequence[_Sentence], new: Sequence[_Sentence]) -> Iterator[tuple[_Sentence, _Sentence]]:
    return _equal(old, new, _words, _words)


def _words(one: _Sentence) -> Hashable:
    return one.safeguard, one.key


def _alike(old: Sequence[_T], new: Sequence[_T]) -> Iterator[tuple[_T, _T]]:
    for safeguard in Safeguard:
        some, others = ([one for one in each if one.safeguard is safeguard] for each in (old, new))
        if len(some) * len(others) <= MAX_LIKENED:
            yield from most_alike(some, others, lambda one, other: likeness(_shown(one), _shown(other)), _start)


def _matched_parts(old: Sequence[_Part], new: Sequence[_Part]) -> list[tuple[_Part, _Part]]:
    """Matching sections: by heading, else by equal text, else by a similar beginning."""
    found: list[tuple[_Part, _Part]] = []
    for match in (_by_path, _by_body, _alike):
        pairs = list(match(old, new))
        found += pairs
        old, new = _without(old, [one for one, _ in pairs]), _without(new, [one for _, one in pairs])
    return found


def _by_path(old: Sequence[_Part], new: Sequence[_Part]) -> Iterator[tuple[_Part, _Part]]:
    def path(one: _Part) -> Hashable:
        return one.safeguard, one.path

    return _equal(old, new, path, path)


def _by_body(old: Sequence[_Part], new: Sequence[_Part]) -> Iterator[tuple[_Part, _Part]]:
    def body(one: _Part) -> Hashable:
        return one.safeguard, one.body

    return _equal(old, new, body, body)


def _without(ones: Sequence[_T], taken: Sequence[_T]) -> list[_T]:
    ids = set(map(id, taken))
    return [one for one in ones if id(one) not in ids]


def _is_of(sentence: _Sentence, parts: Sequence[_Part]) -> bool:
    return sentence.safeguard is Safeguard.PRECONDITION and any(
        one.safeguard is Safeguard.PRECONDITION and one.start <= sentence.start < one.end for one in parts
    )


def _start(one: _Sentence | _Part) -> int:
    return one.start


def _shown(one: _Sentence | _Part | None) -> str:
    return shortened(one.body if isinstance(one, _Part) else one.text if one else "", MAX_SHOWN)


# -- finding


def _parts(outline: Outline, blocks: Sequence[Block]) -> Iterator[_Part]:
    """Sections that are safeguards as a whole, except empty ones."""
    end = 0
    for at, section in enumerate(outline.sections):
        if section.start >= end and section.kind in _SECTIONS and section.path:
            behind = (one.start for one in outline.sections[at + 1 :] if one.level <= section.level)
            end = next(behind, len(outline.text))
            yield from _part(outline, section.kind, section.path, section.start, end)
    yield from _labelled_parts(outline, blocks)


def _labelled_parts(outline: Outline, blocks: Sequence[Block]) -> Iterator[_Part]:
    starts = [one.start for one in outline.sections]
    labels = {at: phrases.label_of(one.text[:200]) for at, one in enumerate(blocks) if one.kind is BlockKind.PARAGRAPH}
    ends = [at for at, one in enumerate(blocks) if one.kind is BlockKind.HEADING or labels.get(at)]
    for at, label in labels.items():
        section = outline.sections[max(bisect_right(starts, blocks[at].start) - 1, 0)]
        if label is None or label[0] not in _SECTIONS or section.kind in _SECTIONS:
            continue
        behind = bisect_right(ends, at)
        end = blocks[ends[behind]].start if behind < len(ends) else len(outline.text)
        path = (*section.path, phrases.plain(blocks[at].text.split(":")[0]).strip(" :"))
        yield from _part(outline, label[0], path, blocks[at].start, end)


def _part(outline: Outline, kind: SectionKind, path: tuple[str, ...], start: int, end: int) -> Iterator[_Part]:
    lines = outline.text[start:end].strip("\n").split("\n")
    first = phrases.plain(lines[0])
    rest = first[len(path[-1]) :] if first.startswith(path[-1]) else ""  # after a label; nothing for a heading
    if body := " ".join(" ".join(unmarked(line).split()) for line in (rest, *lines[1:]) if unmarked(line)):
        yield _Part(_SECTIONS[kind], path, start, end, body)


def _sentences(outline: Outline, blocks: Sequence[Block], parts: Sequence[_Part]) -> Iterator[_Sentence]:
    preconditions = [one for one in parts if one.safeguard is Safeguard.PRECONDITION]
    sections, steps = [one.start for one in outline.sections], [one.start for one in outline.steps]
    begun = 0
    for block in (one for outer in blocks for one in outer.walk()):
        at = bisect_right(steps, block.start) - 1
        step = outline.steps[at] if at >= 0 and block.start < outline.steps[at].end else None
        if step and begun != step.number and _begins(step, block):
            begun = step.number
        needed = any(one.start <= block.start < one.end for one in preconditions)
        section = max(bisect_right(sections, block.start) - 1, 0)
        for text in map(phrases.plain, _texts(outline, block, code=needed)):
            safeguard = _safeguard(text, needed=needed and block.kind is not BlockKind.HEADING)
            own = step and begun == step.number and safeguard is not Safeguard.PRECONDITION
            if safeguard:
                number = step.number if step and own else 0
                yield _Sentence(safeguard, text, block.start, section, number)


def _begins(step: Step, block: Block) -> bool:
    """True for the block with the step's first line: a step also includes warnings ahead of it."""
    return step.title.rstrip("…") in phrases.plain(block.text)


def _texts(outline: Outline, block: Block, *, code: bool) -> Iterator[str]:
    """The sentences of a block without nested blocks; for code, its comments, or with `code` its lines."""
    if block.kind in (BlockKind.PARAGRAPH, BlockKind.HEADING):
        yield from phrases.sentences(block.text)
    elif block.kind is BlockKind.CODE:
        lines = block.text.split("\n")
        yield from lines if code else (found[1] for found in map(_COMMENT.search, lines) if found)
    elif block.kind in (BlockKind.TABLE, BlockKind.OTHER):
        for line in outline.text[block.start : block.end].split("\n"):
            for cell in _CELL.split(line) if block.kind is BlockKind.TABLE else (line,):
                yield from phrases.sentences(cell)


def _safeguard(text: str, *, needed: bool) -> Safeguard | None:
    if phrases.approval([text]):
        return Safeguard.APPROVAL
    if phrases.warnings([text]):
        return Safeguard.WARNING
    return Safeguard.PRECONDITION if needed and re.search(r"\w", text) else None
