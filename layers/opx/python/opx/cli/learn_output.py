"""How what was learned looks in a terminal. Its texts are others', so that nothing in them may act on it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from opx.cli.output import SHORT_ID, plural, printable
from opx.domain.learning import EntryState, EntryType

if TYPE_CHECKING:
    from opx.domain.learning import CheckpointReport, Pattern, PatternView, RAGPattern, StagingEntry

_WIDTH = 80


def _short(text: str) -> str:
    line = printable(text)
    return line if len(line) <= _WIDTH else line[: _WIDTH - 1] + "…"


def entry_rows(entries: Sequence[StagingEntry]) -> list[tuple[str, ...]]:
    return [
        (
            entry.id,
            entry.timestamp[:16],
            entry.state.value,
            printable(entry.project_id),
            entry.entry_type.value,
            _short(_told(entry)),
        )
        for entry in entries
    ]


def _told(entry: StagingEntry) -> str:
    if entry.entry_type is EntryType.WARNING:
        return f"{' '.join(entry.solution_steps)} ({entry.effect})"
    said = entry.failure_description or entry.human_feedback or entry.approved_approach
    return f"{entry.gate_type}: {said}" if entry.gate_type else said


def verified_line(entry: StagingEntry) -> str:
    """What is known now, and what comes of it."""
    said = "worked" if entry.worked else f"did not work{f' ({entry.effect})' if entry.effect else ''}"
    then = "was taken in" if entry.state is EntryState.TAKEN_IN else "the next checkpoint takes it in"
    return f"{entry.id[:SHORT_ID]} {said}; {then}"


def report_lines(report: CheckpointReport) -> Iterator[str]:
    """What a checkpoint did."""
    yield (
        f"{report.checkpoint_type.value.replace('_', ' ')} of {printable(report.project_id)}: "
        f"{report.taken_in:,} taken in, {plural(report.patterns_new, 'new pattern')}, "
        f"{report.patterns_confirmed:,} confirmed, {plural(report.warnings, 'warning')}, {report.took_ms:,.0f} ms"
    )
    if report.waiting:
        waits = "waits" if len(report.waiting) == 1 else "wait"
        yield f"{len(report.waiting):,} {waits} for `opx learn verify`, or for a solution that could be verified:"
        yield from (f"  {entry_id}" for entry_id in report.waiting)


def pattern_rows(patterns: Sequence[Pattern]) -> list[tuple[str, ...]]:
    return [
        (
            pattern.pattern_id,
            f"{pattern.success_count:,}",
            f"{pattern.failure_count:,}",
            pattern.embedded_at[:10],
            pattern.scope_key,
            _short(pattern.problem),
        )
        for pattern in patterns
    ]


def found_lines(found: Sequence[RAGPattern]) -> Iterator[str]:
    """Patterns that answer a question, the best first."""
    if not found:
        yield "nothing that was learned helps with this"
    for number, pattern in enumerate(found, 1):
        yield (
            f"{number}. {_short(pattern.problem)}  "
            f"(worked {pattern.success_count:,}, failed {pattern.failure_count:,}, similarity {pattern.similarity:.2f})"
        )
        yield from (f"   Warning: {printable(warning)}" for warning in pattern.warnings)
        yield f"   Solution: {printable(pattern.solution)}"
        yield f"   When to try: {printable(pattern.when_to_try)}"
        yield f"   Pattern {pattern.pattern_id}"


def pattern_lines(view: PatternView) -> Iterator[str]:
    """A pattern and what it was learned from."""
    pattern = view.pattern
    yield f"Pattern {pattern.pattern_id} ({pattern.entry_type.value}, {pattern.scope_key})"
    yield f"Problem: {printable(pattern.problem)}"
    if pattern.error_message:
        yield f"Error: {printable(pattern.error_message)}"
    yield f"Solution: {printable(pattern.solution)}"
    yield f"When to try: {printable(pattern.when_to_try)}"
    yield f"Worked {pattern.success_count:,} times, failed {pattern.failure_count:,} times; last on {pattern.embedded_at}"
    for one in view.occurrences:
        told = "worked" if one.worked else "failed"
        more = f", {printable(one.incident)}" if one.incident else ""
        yield f"  {one.at}  {told}  {printable(one.project_id)}{more}  entry {one.entry_id} ({one.reason})"
    if view.more:
        yield "  ... and more"
