"""`opx learn`: what work taught, and what of it helps now. Its texts are others', so that nothing in them may act on a
terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

import click

from opx.domain.learning import (
    DEFAULT_RESULTS,
    MAX_RESULTS,
    CheckpointReport,
    EntryState,
    EntryType,
    Pattern,
    PatternView,
    RAGPattern,
    StagingEntry,
    TriedEffect,
)
from opx.domain.record import Record, replace
from opx.edges.cli.feedback import capture_command
from opx.edges.cli.operations import CommandShape, OperationGroup
from opx.edges.cli.output import (
    NO_ANSWER,
    SHORT_ID,
    exit_unless,
    plural,
    print_json,
    print_lines,
    printable,
    table,
    warn,
)
from opx.edges.cli.session import Session, pass_session
from opx.operations import learning, patterns

T = TypeVar("T", bound=Record)
MAX_LISTED = 500


@click.group("learn", no_args_is_help=True, cls=OperationGroup)
def learn_command() -> None:
    """What work taught: kept as it happens, taken in at checkpoints, and told to those who plan what comes next.

    \b
    opx learn capture failure "deploy hangs" --step "raise the timeout"   keep what failed, and what was done
    opx learn verify ENTRY_ID --worked                                    say that it worked
    opx learn checkpoint checkout --type phase_completion                 take in what is verified
    opx learn patterns "deploy the checkout service"                      what helps with a task
    opx learn patterns --failure "deploy hangs" --error "exit 124"        what helped against a failure
    opx learn context "deploy the checkout service"                       the same, for an agent's prompt
    opx learn list --state waiting                                        what was kept, and how far it is
    """


learn_command.add_command(capture_command)


@learn_command.command("verify")
@click.argument("entry_id", metavar="ENTRY_ID")
@click.option("--worked/--failed", default=None, help="Whether the solution was seen to work.")
@click.option(
    "--effect", type=click.Choice([effect.value for effect in TriedEffect]), help="What came of it, if it didn't work."
)
@click.option("--incident", default="", metavar="ID", help="The incident's id.")
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
@pass_session
def verify(
    session: Session, /, entry_id: str, *, worked: bool | None, effect: str | None, incident: str, as_json: bool
) -> None:
    """Say whether what was captured worked. Until then it is told to nobody."""
    if worked is None and effect is None:
        raise click.UsageError("say --worked or --failed, or what came of it with --effect")
    request = learning.VerifyEntry(
        entry_id=entry_id, worked=bool(worked), effect=TriedEffect(effect) if effect else None, incident=incident
    )
    found = session.call(learning.verify_entry, request)
    if as_json:
        print_json(found.to_json())
    else:
        click.echo(_verified_line(found))


@learn_command.request(
    "list",
    learning.list_entries,
    CommandShape(
        fields={
            "project_id": "--for PROJECT  Only what was learned in this project.",
            "after": "ENTRY_ID  Those before this one, which was the last on the page.",
        }
    ),
)
def show_entries(session: Session, request: learning.ListEntries, *, as_json: bool) -> None:
    """List what was captured in your scope, the newest first. Exit codes: 0 there is something, 1 there is nothing."""
    _show(_entries(session, request), _table_of_entries, as_json=as_json)


def _entries(session: Session, request: learning.ListEntries) -> list[StagingEntry]:
    """As many as were requested, if need be of several pages: a page has what fits into a reply."""
    found: list[StagingEntry] = []
    following = request
    while True:
        page = session.call(learning.list_entries, following)
        found += page.entries
        if not page.next or len(found) >= request.limit:
            return found
        following = replace(request, limit=request.limit - len(found), after=page.next)


@learn_command.operation(
    "checkpoint",
    learning.process_checkpoint,
    CommandShape(arguments=("project_id",), fields={"checkpoint_type": "--type", "project_id": "[PROJECT]"}),
)
def show_checkpoint(reply: learning.Checkpoint, *, as_json: bool) -> None:
    """Take in what was captured for PROJECT and is verified. Done twice, it counts once.

    Exit codes: 0 done or asked for, 1 some of it could not be taken in, 2 there is no such project, or any other error.
    """
    report = reply.report
    if report is None:
        if not as_json:
            click.echo("asked for: it begins in a few minutes, after what is still on its way")
        return
    print_lines(() if as_json else _report_lines(report))
    warn(*(f"{one.entry_id}: {one.reason}" for one in report.refused))
    exit_unless(not report.refused)


@learn_command.command("patterns")
@click.argument("task", default="")
@click.option("--failure", default="", metavar="TEXT", help="What went wrong, in place of a task.")
@click.option("--error", default="", metavar="TEXT", help="The error of the failure, copied as it was.")
@click.option("--agent", "agent_type", default="", metavar="TYPE", help="Only what agents of this type learned.")
@click.option("--task-type", default="", metavar="TYPE", help="Only of tasks of this type.")
@click.option("--technology", default="", metavar="NAME", help="A task's: only what is about it.")
@click.option("--limit", type=click.IntRange(1, MAX_LISTED), help="How many at most; not for a failure.")
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
@pass_session
def find_patterns(
    session: Session,
    /,
    task: str,
    *,
    failure: str,
    error: str,
    technology: str,
    limit: int | None,
    as_json: bool,
    **of: str,
) -> None:
    """Find what helps with TASK, or helped against a failure. With neither, list the patterns, the latest first.

    Exit codes: 0 there is something, 1 there is nothing.
    """
    if task and (failure or error):
        raise click.UsageError("give either a task, or --failure")
    if limit and (failure or error or (task and limit > MAX_RESULTS)):
        raise click.UsageError(f"--limit is {MAX_RESULTS} at most for a task; for a failure there are three at most")
    if task:
        by_task = patterns.FindPatternsForTask(
            task_description=task, technology=technology, max_results=limit or DEFAULT_RESULTS, **of
        )
        found = session.call(patterns.find_patterns_for_task, by_task).patterns
        _show(found, _found_lines, as_json=as_json)
    elif failure or error:
        by_failure = patterns.FindPatternsForFailure(failure_description=failure or error, error_message=error, **of)
        found = session.call(patterns.find_patterns_for_failure, by_failure).patterns
        _show(found, _found_lines, as_json=as_json)
    else:
        known = session.call(patterns.list_patterns, patterns.ListPatterns(limit=limit or 100)).patterns
        _show(known, _table_of_patterns, as_json=as_json)


def _show(found: Sequence[T], lines: Callable[[Sequence[T]], Iterable[str]], *, as_json: bool) -> None:
    """As JSON or in lines; exits with the code of an answer that has nothing in it."""
    if as_json:
        print_json([one.to_json() for one in found])
    else:
        print_lines(lines(found))
    exit_unless(found)


@learn_command.operation("pattern", patterns.get_pattern, CommandShape(arguments=("pattern_id",)))
def show_pattern(found: PatternView) -> None:
    """Show a pattern, and each entry that was counted for it."""
    print_lines(_pattern_lines(found))


@learn_command.operation(
    "context",
    patterns.get_task_context,
    CommandShape(
        arguments=("task_description",),
        fields={"agent_type": "--agent TYPE", "task_description": "TASK", "task_type": "TYPE", "technology": "NAME"},
    ),
    json="",
)
def show_context(reply: patterns.PromptContext) -> None:
    """Print what was learned for TASK, as it goes into an agent's prompt. Exit codes: 0 there is something, 1 nothing."""
    if not reply.context:
        warn("nothing that was learned helps with this")
        click.get_current_context().exit(NO_ANSWER)
    click.echo(reply.context)


# -- in a terminal

_WIDTH = 80


def _short(text: str) -> str:
    line = printable(text)
    return line if len(line) <= _WIDTH else line[: _WIDTH - 1] + "…"


def _table_of_entries(found: Sequence[StagingEntry]) -> Iterable[str]:
    heads = ("ID", "AT", "STATE", "PROJECT", "TYPE", "WHAT")
    return table(heads, list(map(_entry_row, found)), "nothing was captured")


def _entry_row(entry: StagingEntry) -> tuple[str, ...]:
    project, what = printable(entry.project_id), _short(_told(entry))
    return entry.id, entry.timestamp[:16], entry.state.value, project, entry.entry_type.value, what


def _told(entry: StagingEntry) -> str:
    if entry.entry_type is EntryType.WARNING:
        return f"{' '.join(entry.solution_steps)} ({entry.effect})"
    said = entry.failure_description or entry.human_feedback or entry.approved_approach
    return f"{entry.gate_type}: {said}" if entry.gate_type else said


def _verified_line(entry: StagingEntry) -> str:
    """What is known now, and what comes of it."""
    said = "worked" if entry.worked else f"did not work{f' ({entry.effect})' if entry.effect else ''}"
    then = "was taken in" if entry.state is EntryState.TAKEN_IN else "the next checkpoint takes it in"
    return f"{entry.id[:SHORT_ID]} {said}; {then}"


def _report_lines(report: CheckpointReport) -> Iterator[str]:
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


def _table_of_patterns(found: Sequence[Pattern]) -> Iterable[str]:
    heads = ("ID", "WORKED", "FAILED", "LAST", "SCOPE", "PROBLEM")
    empty = "nothing was learned yet: `opx learn capture`, then `opx learn checkpoint`"
    return table(heads, list(map(_pattern_row, found)), empty)


def _pattern_row(one: Pattern) -> tuple[str, ...]:
    worked, failed = f"{one.success_count:,}", f"{one.failure_count:,}"
    return one.pattern_id, worked, failed, one.embedded_at[:10], one.scope_key, _short(one.problem)


def _found_lines(found: Sequence[RAGPattern]) -> Iterator[str]:
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


def _pattern_lines(view: PatternView) -> Iterator[str]:
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
