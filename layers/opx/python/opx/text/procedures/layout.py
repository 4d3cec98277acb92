"""Renders parts of an outline as text, in the document's own characters, and finds parts by name."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterator, Sequence
from itertools import takewhile

from opx.domain.procedures import Outline, SectionKind, Step, Unit
from opx.domain.record import Record
from opx.errors import InvalidInputError

LEFT_OUT = "[…]"
"""Replaces omitted units of a section."""
ROW_LEFT_OUT = f"| {LEFT_OUT} |"
"""Replaces omitted rows of a table."""


def laid_out(outline: Outline, chosen: Sequence[int], *, ends: bool = False) -> str:
    """The text of some units, in order: under their headings, adjacent units unchanged, with a mark for omitted parts of a
    section; with `ends` also at the end of a section."""
    return "\n".join(_lines(outline, chosen, ends))


def _lines(outline: Outline, chosen: Sequence[int], ends: bool) -> Iterator[str]:
    headed: set[int] = set()
    last: int | None = None
    for run in _runs(outline.units, chosen):
        first = outline.units[run[0]]
        if ends and last is not None and first.section != outline.units[last].section and _goes_on(outline.units, last):
            yield f"\n{LEFT_OUT}"
        for heading in _headings(outline, first.section):
            if heading not in headed:
                headed.add(heading)
                if outline.sections[heading].start == first.start:  # a step that is nothing but this heading
                    continue
                yield ("" if last is None else "\n") + _heading(outline, heading) + "\n"
                last = None
        if last is not None:
            yield ROW_LEFT_OUT if _is_row_below(outline, last, run[0]) else f"\n{LEFT_OUT}\n"
        yield outline.text[first.start : outline.units[run[-1]].end].strip("\n")
        last = run[-1]
    if ends and last is not None and _goes_on(outline.units, last):
        yield f"\n{LEFT_OUT}"


def _goes_on(units: Sequence[Unit], at: int) -> bool:
    """True if a section continues after a unit."""
    return at + 1 < len(units) and units[at + 1].section == units[at].section


def _runs(units: Sequence[Unit], chosen: Sequence[int]) -> Iterator[list[int]]:
    """Groups adjacent units of one section."""
    run: list[int] = []
    for at in chosen:
        if run and (at != run[-1] + 1 or units[at].section != units[run[0]].section):
            yield run
            run = []
        run.append(at)
    if run:
        yield run


def _is_row_below(outline: Outline, before: int, at: int) -> bool:
    """True if a row is in the same table as the row (or header) before it, so that a line of text would break the table."""
    units = outline.units
    head = units[at].head
    return head >= 0 and head in (before, units[before].head) and is_row(outline, units[at])


def is_row(outline: Outline, unit: Unit) -> bool:
    """True if a unit is a row of a table."""
    return outline.text[unit.start : unit.end].lstrip().startswith("|")


def _headings(outline: Outline, at: int) -> list[int]:
    """The path of sections with a heading, from the top down to this one."""
    path = outline.sections[at].path
    found = [at] if path else []
    for above in range(at - 1, -1, -1):
        section = outline.sections[above]
        if section.path and len(section.path) < len(path) and path[: len(section.path)] == section.path:
            found.append(above)
            path = section.path
    return found[::-1]


def _heading(outline: Outline, at: int) -> str:
    section = outline.sections[at]
    return "#" * min(max(section.level, 1), 6) + " " + section.heading


def whole_steps(outline: Outline, chosen: Collection[int]) -> Iterator[int]:
    """Numbers of the steps whose units are all chosen."""
    held = set(chosen)
    of_steps: dict[int, list[int]] = {}
    for at, unit in enumerate(outline.units):
        of_steps.setdefault(unit.step, []).append(at)
    return (number for number, units in of_steps.items() if number and held.issuperset(units))


# -- parts of a document, by name

OUTLINE, STEPS, ALL = "outline", "steps", "all"
_NAMED = 40


class LayoutPart(Record, frozen=True):
    """A part of a document: its name, as in `read_document`, and its units in order."""

    name: str
    units: tuple[int, ...]


def part_named(outline: Outline, name: str) -> LayoutPart:
    """The part of a document with a name. Raises `InvalidInputError` that lists the parts."""
    wanted = " ".join(name.split())
    everything = tuple(range(len(outline.units)))
    if wanted.casefold() in ("", ALL):
        return LayoutPart(ALL, everything)
    if wanted.casefold() == OUTLINE:
        return LayoutPart(OUTLINE, ())
    if wanted.casefold() == STEPS:
        return LayoutPart(STEPS, _procedure(outline))
    if step := _step(outline, wanted):
        return step
    sections = _sections(outline, wanted)
    if sections:
        return LayoutPart(wanted, tuple(at for at in everything if outline.units[at].section in sections))
    steps = {step.number for step in outline.steps if step.title.casefold().startswith(wanted.casefold())}
    if steps:  # such as `Rollback: put the old value back` below another heading
        return LayoutPart(wanted, _of_steps(outline, steps))
    raise InvalidInputError(f"the document has no part {name[:100]!r}; it has: {', '.join(_names(outline))}")


def steps_meant(outline: Outline, name: str) -> list[int]:
    """Numbers of the steps that a name may mean, the likeliest first: those that their author numbered so, then the step
    with this name after `#`. `#` and a number, and a step id, mean one step."""
    text = name.casefold().removeprefix("step").strip()
    names, number = outline.step_names(), _numbered(outline, text)
    found = [step.number for step in outline.steps if text in (step.label.casefold(), step.step_id) and text]
    if number and (not found or names[number] == f"#{text}"):
        found.append(number)
    return list(dict.fromkeys(found))


def _numbered(outline: Outline, text: str) -> int:
    digits = text.removeprefix("#")
    number = int(digits) if digits.isdigit() and len(digits) < 6 else 0
    return number if 0 < number <= len(outline.steps) else 0


_DESCRIPTIVE = (SectionKind.SYMPTOMS, SectionKind.IMPACT, SectionKind.BACKGROUND, SectionKind.REFERENCES)


def _procedure(outline: Outline) -> tuple[int, ...]:
    """Units of the steps, and of all other sections except those that only describe or link, whose warnings are kept. All
    units of a document without steps."""
    with_steps = {step.section for step in outline.steps}
    apart = {at for at, section in enumerate(outline.sections) if section.kind in _DESCRIPTIVE and at not in with_steps}
    units = enumerate(outline.units)
    found = [at for at, unit in units if unit.step or unit.cautions or unit.section not in apart]
    return tuple(found if outline.steps else range(len(outline.units)))


def _step(outline: Outline, name: str) -> LayoutPart | None:
    meant = steps_meant(outline, name)
    return LayoutPart(f"step {outline.step_names()[meant[0]]}", _with_context(outline, meant[0])) if meant else None


def _with_context(outline: Outline, number: int) -> tuple[int, ...]:
    """The units of a step with the procedure's units between the step before and it, and with warnings above it under its
    headings; for the last step also with the text after it."""
    own = _of_steps(outline, {number})
    step, procedure = outline.steps[number - 1], _procedure(outline)
    first, last = bisect_left(procedure, own[0]), bisect_left(procedure, own[-1])
    lead = takewhile(lambda at: not outline.units[at].step, reversed(procedure[:first]))
    above = {step.section, *_headings(outline, step.section)}
    before = (at for at in procedure[:first] if outline.units[at].section in above)
    warns = (at for at in before if _warns_of(outline, outline.units[at], step))
    behind = procedure[last + 1 :]
    ends = () if any(outline.units[at].step for at in behind) else behind
    return tuple(sorted({*own, *lead, *warns, *ends}))


def _warns_of(outline: Outline, unit: Unit, step: Step) -> bool:
    """True if a block above a step warns of the step: it is in no step, or the step has its warning."""
    if not unit.step:
        return unit.cautions
    text = " ".join(outline.slice(unit).split())
    return any(warning[:_WORDS] in text for warning in step.warnings)


_WORDS = 40
"""Characters by which a warning is found again in its block."""


def _of_steps(outline: Outline, numbers: Collection[int]) -> tuple[int, ...]:
    return tuple(at for at, unit in enumerate(outline.units) if unit.step in numbers)


def _sections(outline: Outline, name: str) -> set[int]:
    """Sections with this heading, else of this role, else with these words in their heading; with their subsections."""
    wanted = name.removeprefix("section").strip(" :#").casefold()
    if not wanted:
        return set()
    headings = [section.heading.casefold() for section in outline.sections]
    found = (
        [at for at, heading in enumerate(headings) if heading == wanted]
        or [at for at, section in enumerate(outline.sections) if section.kind == wanted]
        or [at for at, heading in enumerate(headings) if wanted in heading]
    )
    return {below for at in found for below in _with_below(outline, at)}


def _with_below(outline: Outline, at: int) -> Iterator[int]:
    yield at
    level = outline.sections[at].level
    for below in range(at + 1, len(outline.sections)):
        if outline.sections[below].level <= level:
            return
        yield below


def _names(outline: Outline) -> Iterator[str]:
    yield from (OUTLINE, ALL)
    if outline.steps:
        names = list(outline.step_names().values())
        is_range = all(name.isdecimal() for name in names)
        yield "steps, step " + (f"{names[0]} to step {names[-1]}" if is_range else ", step ".join(names[:_NAMED]))
    yield from dict.fromkeys(section.heading for section in outline.sections[:_NAMED] if section.heading)


def fitting(outline: Outline, part: LayoutPart, room: int, after: int) -> tuple[list[int], int]:
    """The units of a part after the first `after`, as many as fit into about `room` tokens, at least one; and the offset
    for the next call, 0 at the end of the part."""
    chosen: list[int] = []
    for at in part.units[after:]:
        unit = outline.units[at]
        room -= unit.tokens + (0 if chosen and outline.units[chosen[-1]].section == unit.section else _HEADING)
        if chosen and room < 0:
            break
        chosen.append(at)
    reached = after + len(chosen)
    heads = [*with_heads(outline.units, chosen[0])][:0:-1] if chosen else []
    return [*heads, *chosen], reached if reached < len(part.units) else 0


_HEADING = 10
"""Tokens of a heading, on average."""


def with_heads(units: Sequence[Unit], at: int) -> Iterator[int]:
    """A unit and the units that have to be shown before it, the outermost last."""
    while at >= 0:
        yield at
        at = units[at].head
