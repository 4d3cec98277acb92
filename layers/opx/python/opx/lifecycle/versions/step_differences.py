"""Compares the steps of two versions of a document: added, removed, changed, moved and renumbered ones.

Steps are matched by their ids, then by equal text anywhere in the document, and then within their section by similar titles
or equal commands.
"""

from __future__ import annotations

import difflib
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence, Set
from itertools import zip_longest

from opx.domain.procedures import Command, Outline, Step
from opx.domain.versions import CommandChange, Renumbering, StepChange, StepChangeKind
from opx.lifecycle.versions.differences import (
    MAX_LIKENED,
    OutlineChanges,
    likeness,
    longest_increasing,
    most_alike,
    unmarked,
)
from opx.lifecycle.versions.safeguards import TOO_LONG, is_too_long, safeguard_changes
from opx.text.procedures.phrases import plain

_COMPARED = 60
"""Characters of a title by which its line in the text is found."""
_LINES = 4
"""Lines over which these characters may be spread."""

_Pair = tuple[Step, Step]
_Path = tuple[str, ...]


def outline_changes(before: Outline, after: Outline) -> OutlineChanges:
    comparison = _Comparison(before, after)
    notes = (TOO_LONG,) if is_too_long(before) or is_too_long(after) else ()
    pairs = {old.number: new.number for old, new in comparison.pairs}
    return OutlineChanges(
        tuple(_step_changes(comparison, before, after)),
        tuple(comparison.renumbered()),
        () if notes else safeguard_changes(before, after, pairs),
        notes,
    )


def _step_changes(comparison: _Comparison, before: Outline, after: Outline) -> Iterator[StepChange]:
    """Changed steps in the order of the later version; a removed one follows its former predecessor."""
    old_of = {new.number: old for old, new in comparison.pairs}
    new_of = {old.number: new.number for old, new in comparison.pairs}
    found = [(new.number, 0, comparison.of(old_of.get(new.number), new)) for new in after.steps]
    last = 0
    for old in before.steps:
        last = new_of.get(old.number, last)
        if old.number not in new_of:
            found.append((last, 1, comparison.of(old, None)))
    return (change for _, _, change in sorted(found, key=lambda one: one[:2]) if change)


class _Comparison:
    """Matches the steps of two versions. A section that only one version has may be another one with a new heading: such
    sections count as one."""

    def __init__(self, before: Outline, after: Outline) -> None:
        self._before, self._after = before, after
        self._common = {one.path for one in before.sections} & {one.path for one in after.sections}
        self._names = before.step_names(), after.step_names()
        self.pairs = sorted(self._matched(), key=lambda pair: pair[0].number)
        order = longest_increasing([(old.number, new.number) for old, new in self.pairs])
        self._in_order = {new for _, new in order}

    def renumbered(self) -> Iterator[Renumbering]:
        """Steps with another number of their author because others were added or removed, in runs per section."""
        run: list[_Pair] = []
        for old, new in self.pairs:
            if not (old.label and new.label) or old.label == new.label or self._is_moved(old, new):
                continue
            if run and not _follow(run[-1], (old, new)):
                yield self._renumbering(run)
                run = []
            run.append((old, new))
        if run:
            yield self._renumbering(run)

    def _renumbering(self, run: Sequence[_Pair]) -> Renumbering:
        (first_before, first), (last_before, last) = run[0], run[-1]
        section = self._after.sections[first.section].heading
        return Renumbering(first_before.label, last_before.label, first.label, last.label, section)

    def of(self, old: Step | None, new: Step | None) -> StepChange | None:
        """The change of a step; None if there is none."""
        shown, outline = (new, self._after) if new else (old, self._before)
        assert shown is not None
        moved = bool(old and new and self._is_moved(old, new))
        kind = self._kind(old, new, moved=moved)
        if kind is None:
            return None
        return StepChange(
            kind=kind,
            title=shown.title,
            section=outline.sections[shown.section].heading,
            name=self._names[1][new.number] if new else "",
            name_before=self._names[0][old.number] if old else "",
            title_before=old.title if old and old.title != shown.title else "",
            moved=moved,
            commands=tuple(_command_changes(old.commands if old else (), new.commands if new else ())),
        )

    def _kind(self, old: Step | None, new: Step | None, *, moved: bool) -> StepChangeKind | None:
        if old is None or new is None:
            return StepChangeKind.REMOVED if new is None else StepChangeKind.ADDED
        if _content(self._before, old) != _content(self._after, new):
            return StepChangeKind.CHANGED
        return StepChangeKind.MOVED if moved else None

    def _is_moved(self, old: Step, new: Step) -> bool:
        return new.number not in self._in_order or self._common_path(self._before, old) != self._common_path(
            self._after, new
        )

    def _common_path(self, outline: Outline, step: Step) -> _Path | None:
        """The path of the step's section, if both versions have it."""
        path = outline.sections[step.section].path
        return path if path in self._common else None

    # -- matching

    def _matched(self) -> list[_Pair]:
        old, new = list(self._before.steps), list(self._after.steps)
        found: list[_Pair] = []
        for match in (self._by_id, self._by_content, self._by_likeness):
            pairs = list(match(old, new))
            found += pairs
            taken, taken_new = {one.number for one, _ in pairs}, {one.number for _, one in pairs}
            old, new = _without(old, taken), _without(new, taken_new)
        return found

    def _by_id(self, old: Sequence[Step], new: Sequence[Step]) -> Iterator[_Pair]:
        known = {step.step_id: step for step in new}
        return ((step, known[step.step_id]) for step in old if step.step_id in known)

    def _by_content(self, old: Sequence[Step], new: Sequence[Step]) -> Iterator[_Pair]:
        def key(outline: Outline) -> Callable[[Step], Hashable]:
            return lambda step: _content(outline, step)

        for some, others in _groups(old, new, key(self._before), key(self._after)):
            yield from zip(some, others, strict=False)

    def _by_likeness(self, old: Sequence[Step], new: Sequence[Step]) -> Iterator[_Pair]:
        def key(outline: Outline) -> Callable[[Step], Hashable]:
            return lambda step: self._common_path(outline, step)

        for some, others in _groups(old, new, key(self._before), key(self._after)):
            if len(some) * len(others) <= MAX_LIKENED:
                yield from most_alike(some, others, _step_likeness, lambda step: step.number)


def _follow(pair: _Pair, other: _Pair) -> bool:
    """True if the author's numbers of the second pair are the next ones in both versions."""
    return all(
        one.section == next_.section and one.label.isdecimal() and next_.label == str(int(one.label) + 1)
        for one, next_ in zip(pair, other, strict=True)
    )


def _without(steps: Sequence[Step], numbers: Set[int]) -> list[Step]:
    return [step for step in steps if step.number not in numbers]


def _groups(
    old: Sequence[Step], new: Sequence[Step], old_key: Callable[[Step], Hashable], new_key: Callable[[Step], Hashable]
) -> Iterator[tuple[list[Step], list[Step]]]:
    """Steps of both versions with one key."""
    groups: dict[Hashable, tuple[list[Step], list[Step]]] = defaultdict(lambda: ([], []))
    for step in old:
        groups[old_key(step)][0].append(step)
    for step in new:
        groups[new_key(step)][1].append(step)
    return iter(groups.values())


def _step_likeness(old: Step, new: Step) -> float:
    if old.commands and _texts(old.commands) == _texts(new.commands):
        return 1.0
    return likeness(old.title, new.title)


# -- content of a step


def _content(outline: Outline, step: Step) -> str:
    """Normalised text of a step, without the introduction of its section, which the first step includes."""
    lines = outline.slice(step).split("\n")
    first = step.title[:_COMPARED]
    own = next((at for at in range(len(lines)) if _begins(lines[at : at + _LINES], first)), 0)
    return " ".join(unmarked("\n".join(lines[own:])).split())


def _begins(lines: Sequence[str], title: str) -> bool:
    return unmarked(plain("\n".join(lines))).startswith(unmarked(title))


def _command_changes(old: Sequence[Command], new: Sequence[Command]) -> Iterator[CommandChange]:
    """Changed commands: a replaced one as a pair, added and removed ones alone."""
    before, after = _texts(old), _texts(new)
    for tag, low, high, new_low, new_high in difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if tag != "equal":
            pairs = zip_longest(before[low:high], after[new_low:new_high], fillvalue="")
            yield from (CommandChange(was, is_) for was, is_ in pairs)


def _texts(commands: Sequence[Command]) -> list[str]:
    return [command.text for command in commands]
