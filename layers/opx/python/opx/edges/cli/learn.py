"""`opx learn`: captures, verifies and queries learned entries and patterns. Their text comes from others, so that terminal
control characters are removed from it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

import click

from opx.domain.ids import ID_LENGTH, beginning_so, shortened
from opx.domain.learning import (
    DEFAULT_RESULTS,
    MAX_RESULTS,
    CheckpointReport,
    EntryState,
    EntryType,
    Pattern,
    PatternChange,
    PatternView,
    RAGPattern,
    StagingEntry,
    TriedEffect,
)
from opx.domain.record import Record, replace
from opx.edges.cli.feedback import capture_command
from opx.edges.cli.operations import OperationGroup
from opx.edges.cli.output import (
    NO_ANSWER,
    SHORT_ID,
    exit_unless,
    plural,
    print_either,
    print_json_lines,
    printable,
    safe,
    table,
    warn,
)
from opx.edges.cli.session import Session, pass_session
from opx.operations import learning, pattern_changes, patterns

T = TypeVar("T", bound=Record)
MAX_LISTED = 500


@click.group("learn", no_args_is_help=True, cls=OperationGroup)
def learn_command() -> None:
    """Learned knowledge: entries are captured as work happens, become patterns at checkpoints, and help plan further work.

    \b
    opx learn capture failure "deploy hangs" --step "raise the timeout"   capture a failure and its solution
    opx learn verify ENTRY_ID --worked                                    confirm that it worked
    opx learn checkpoint checkout --type phase_completion                 make patterns of verified entries
    opx learn patterns "deploy the checkout service"                      patterns for a task
    opx learn patterns --failure "deploy hangs" --error "exit 124"        patterns for a failure
    opx learn patterns --gate security_review "read the password"         what people decided at a gate
    opx learn context "deploy the checkout service"                       the same, for an agent's prompt
    opx learn merge PATTERN OTHER                                         two patterns are one; split undoes it
    opx learn list --state waiting                                        captured entries and their states
    """


learn_command.add_command(capture_command)

# -- short ids


def pattern_named(session: Session, wanted: str) -> str:
    """The id of the only pattern of the newest 500 whose id begins so, else what was given. Raises `InvalidInputError` for
    several."""
    if len(wanted.strip()) >= ID_LENGTH:
        return wanted
    known = session.call(patterns.list_patterns, patterns.ListPatterns(limit=MAX_LISTED)).patterns
    found = beginning_so(wanted, known, lambda one: f"{one.pattern_id}  {printable(one.problem)}", kind="patterns")
    return found.pattern_id if found else wanted


def entry_named(session: Session, wanted: str) -> str:
    """As `pattern_named`, of the newest 500 entries."""
    if len(wanted.strip()) >= ID_LENGTH:
        return wanted
    known = _entries(session, learning.ListEntries(limit=MAX_LISTED))
    found = beginning_so(wanted, known, lambda one: f"{one.id}  {_short(_summary(one))}", kind="entries")
    return found.id if found else wanted


# -- commands


@learn_command.command("verify")
@click.argument("entry_id", metavar="ENTRY_ID")
@click.option("--worked/--failed", default=None, help="The solution was seen to work, or to fail.")
@click.option(
    "--effect", type=click.Choice([effect.value for effect in TriedEffect]), help="The effect, if it didn't work."
)
@click.option("--incident", default="", metavar="ID", help="The incident's id.")
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
@pass_session
def verify(
    session: Session, /, entry_id: str, *, worked: bool | None, effect: str | None, incident: str, as_json: bool
) -> None:
    """Record whether a captured solution worked. Until then it is not part of any pattern."""
    if worked is None and effect is None:
        raise click.UsageError("give --worked or --failed, or the effect with --effect")
    request = learning.VerifyEntry(
        entry_id=entry_named(session, entry_id),
        worked=bool(worked),
        effect=TriedEffect(effect) if effect else None,
        incident=incident,
    )
    found = session.call(learning.verify_entry, request)
    print_either(found, [_verified_line(found)], as_json=as_json)


@learn_command.request(
    "list",
    learning.list_entries,
    fields={
        "project_id": "--for PROJECT  Only entries of this project.",
        "after": "ENTRY_ID  Entries before this one, the last of the previous page.",
    },
    ids={"after": entry_named},
    items="entries",
)
def show_entries(session: Session, request: learning.ListEntries, *, as_json: bool, as_jsonl: bool) -> None:
    """List captured entries of your scope, the newest first. Exit codes: 0 found some, 1 found none."""
    found = _entries(session, request)
    if as_jsonl:
        print_json_lines(one.to_json() for one in found)
        exit_unless(found)
    else:
        _show(found, _table_of_entries, as_json=as_json)


def _entries(session: Session, request: learning.ListEntries) -> list[StagingEntry]:
    """The requested number of entries, from several pages if one reply can't hold them."""
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
    arguments=("project_id",),
    fields={"checkpoint_type": "--type", "project_id": "[PROJECT]"},
)
def show_checkpoint(reply: learning.Checkpoint, *, as_json: bool) -> Iterator[str]:
    """Turn the verified entries of PROJECT into patterns. Repeating it counts nothing twice.

    Exit codes: 0 done or requested, 1 some entries were refused, 2 there is no such project, or any other error.
    """
    report = reply.report
    if report is None:
        if not as_json:
            yield "requested: the checkpoint begins in a few minutes, after the entries still in the queue"
        return
    yield from () if as_json else _report_lines(report)
    warn(*(f"{one.entry_id}: {one.reason}" for one in report.refused))
    exit_unless(not report.refused)


@learn_command.command("patterns")
@click.argument("task", default="")
@click.option("--failure", default="", metavar="TEXT", help="A failure, instead of a task.")
@click.option("--error", default="", metavar="TEXT", help="The error of the failure, copied as it was.")
@click.option(
    "--gate", default="", metavar="NAME", help="A gate: decisions of people there, about TASK if it is given."
)
@click.option("--agent", "agent_type", default="", metavar="TYPE", help="Only patterns of agents of this type.")
@click.option("--task-type", default="", metavar="TYPE", help="Only patterns of tasks of this type.")
@click.option("--technology", default="", metavar="NAME", help="Only patterns about this technology; for a task.")
@click.option("--threshold", type=click.FloatRange(0, 1), help="Only patterns of this similarity or more.")
@click.option("--limit", type=click.IntRange(1, MAX_LISTED), help="Maximum number; not for a failure.")
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
@pass_session
def find_patterns(
    session: Session,
    /,
    task: str,
    *,
    failure: str,
    error: str,
    gate: str,
    technology: str,
    threshold: float | None,
    limit: int | None,
    as_json: bool,
    **of: str,
) -> None:
    """Find patterns for TASK, for a failure, or for a gate. With none of them, list all patterns, the latest first.

    Exit codes: 0 found some, 1 found none.
    """
    if (task or gate) and (failure or error):
        raise click.UsageError("give either a task, or --failure")
    if limit and (failure or error or (task and limit > MAX_RESULTS)):
        raise click.UsageError(f"--limit is {MAX_RESULTS} at most for a task; for a failure there are three at most")
    if gate:
        by_gate = patterns.FindPatternsForGate(
            gate_type=gate, proposal=task, max_results=limit or DEFAULT_RESULTS, score_threshold=threshold
        )
        _show(session.call(patterns.find_patterns_for_gate, by_gate).patterns, _found_lines, as_json=as_json)
    elif task:
        by_task = patterns.FindPatternsForTask(
            task_description=task,
            technology=technology,
            max_results=limit or DEFAULT_RESULTS,
            score_threshold=threshold,
            **of,
        )
        found = session.call(patterns.find_patterns_for_task, by_task).patterns
        _show(found, _found_lines, as_json=as_json)
    elif failure or error:
        by_failure = patterns.FindPatternsForFailure(
            failure_description=failure or error, error_message=error, score_threshold=threshold, **of
        )
        found = session.call(patterns.find_patterns_for_failure, by_failure).patterns
        _show(found, _found_lines, as_json=as_json)
    else:
        known = session.call(patterns.list_patterns, patterns.ListPatterns(limit=limit or 100)).patterns
        _show(known, _table_of_patterns, as_json=as_json)


def _show(found: Sequence[T], lines: Callable[[Sequence[T]], Iterable[str]], *, as_json: bool) -> None:
    """Prints records as JSON or lines; exits with 1 if there are none."""
    print_either(found, lines(found), as_json=as_json)
    exit_unless(found)


@learn_command.operation("pattern", patterns.get_pattern, arguments=("pattern_id",), ids={"pattern_id": pattern_named})
def show_pattern(view: PatternView) -> Iterator[str]:
    """Show a pattern and the entries counted for it."""
    pattern = view.pattern
    yield f"Pattern {pattern.pattern_id} ({pattern.entry_type.value}, {pattern.scope_key})"
    yield f"Problem: {printable(pattern.problem)}"
    if pattern.error_message:
        yield f"Error: {printable(pattern.error_message)}"
    yield f"Solution: {printable(pattern.solution)}"
    yield f"When to try: {printable(pattern.when_to_try)}"
    counted = f"Worked {plural(pattern.success_count, 'time')}, failed {plural(pattern.failure_count, 'time')}"
    yield f"{counted}; last on {pattern.embedded_at}"
    for one in view.occurrences:
        verdict = "worked" if one.worked else "failed"
        more = f", {printable(one.incident)}" if one.incident else ""
        yield f"  {one.at}  {verdict}  {printable(one.project_id)}{more}  entry {one.entry_id} ({one.reason})"
    if view.more:
        yield "  ... and more"


@learn_command.operation(
    "merge",
    pattern_changes.merge_patterns,
    arguments=("pattern_id", "other_id"),
    fields={"pattern_id": "PATTERN", "other_id": "OTHER"},
    ids={"pattern_id": pattern_named, "other_id": pattern_named},
)
def show_merge(done: PatternChange) -> None:
    """Make OTHER a part of PATTERN, with everything that was counted for it."""
    verb = "is now" if done.changed else "was already"
    click.echo(f"{done.other_id} {verb} a part of {done.pattern.pattern_id}, which {_worked(done.pattern)}")
    click.echo(f"to undo: opx learn split {done.pattern.pattern_id} {done.other_id}")


@learn_command.operation(
    "split",
    pattern_changes.split_pattern,
    arguments=("pattern_id", "ids"),
    fields={"ids": "ID..."},
    ids={"pattern_id": pattern_named},
)
def show_split(done: PatternChange) -> None:
    """Split a merged pattern (ID), or wrongly counted entries, off a pattern."""
    click.echo(f"{done.pattern.pattern_id} {_worked(done.pattern)}")
    if done.other:
        click.echo(f"{done.other_id} {_worked(done.other)}: {_short(done.other.problem)}")
    click.echo(f"to undo: opx learn merge {done.pattern.pattern_id} {done.other_id}")


def _worked(pattern: Pattern) -> str:
    return f"worked {plural(pattern.success_count, 'time')} and failed {plural(pattern.failure_count, 'time')}"


@learn_command.operation(
    "context",
    patterns.get_task_context,
    arguments=("task_description",),
    fields={"agent_type": "--agent TYPE", "task_description": "TASK", "task_type": "TYPE", "technology": "NAME"},
)
def show_context(reply: patterns.PromptContext, *, as_json: bool) -> None:
    """Print patterns for TASK in the form of an agent's prompt. Exit codes: 0 found some, 1 found none."""
    if not as_json:
        click.echo(safe(reply.context))
    if not reply.patterns:
        warn("no pattern helps with this")
        click.get_current_context().exit(NO_ANSWER)


# -- rendering

_WIDTH = 80


def _short(text: str) -> str:
    return shortened(printable(text), _WIDTH)


def _table_of_entries(found: Sequence[StagingEntry]) -> Iterable[str]:
    rows = [
        (e.id[:SHORT_ID], e.timestamp[:16], e.state, printable(e.project_id), e.entry_type, _short(_summary(e)))
        for e in found
    ]
    return table(("ID", "AT", "STATE", "PROJECT", "TYPE", "WHAT"), rows, "no entries")


def _summary(entry: StagingEntry) -> str:
    if entry.entry_type is EntryType.WARNING:
        return f"{' '.join(entry.solution_steps)} ({entry.effect})"
    text = entry.failure_description or entry.human_feedback or entry.approved_approach
    return f"{entry.gate_type}: {text}" if entry.gate_type else text


def _verified_line(entry: StagingEntry) -> str:
    """The recorded verification, and its consequence."""
    verdict = "worked" if entry.worked else f"did not work{f' ({entry.effect})' if entry.effect else ''}"
    then = "its pattern has it already" if entry.state is EntryState.TAKEN_IN else "the next checkpoint processes it"
    return f"{entry.id[:SHORT_ID]} {verdict}; {then}"


def _report_lines(report: CheckpointReport) -> Iterator[str]:
    """The report of a checkpoint."""
    yield (
        f"checkpoint of {printable(report.project_id)} ({report.checkpoint_type.value.replace('_', ' ')}): "
        f"{report.taken_in:,} processed, {plural(report.patterns_new, 'new pattern')}, "
        f"{report.patterns_confirmed:,} confirmed, {plural(report.warnings, 'warning')}, {report.took_ms:,.0f} ms"
    )
    if report.waiting:
        waits = "waits" if len(report.waiting) == 1 else "wait"
        yield f"{len(report.waiting):,} {waits} for `opx learn verify`, or for a solution that could be verified:"
        yield from (f"  {entry_id}" for entry_id in report.waiting)


def _table_of_patterns(found: Sequence[Pattern]) -> Iterable[str]:
    heads = ("ID", "WORKED", "FAILED", "LAST", "SCOPE", "PROBLEM")
    empty = "no patterns yet: `opx learn capture`, then `opx learn checkpoint`"
    return table(heads, list(map(_pattern_row, found)), empty)


def _pattern_row(one: Pattern) -> tuple[str, ...]:
    worked, failed = f"{one.success_count:,}", f"{one.failure_count:,}"
    return one.pattern_id[:SHORT_ID], worked, failed, one.embedded_at[:10], one.scope_key, _short(one.problem)


def _found_lines(found: Sequence[RAGPattern]) -> Iterator[str]:
    """Patterns found by a query, the best first."""
    if not found:
        yield "no pattern helps with this"
    for number, pattern in enumerate(found, 1):
        yield (
            f"{number}. {_short(pattern.problem)}  "
            f"({pattern.band.value}, {pattern.similarity:.2f}; worked {pattern.success_count:,}, failed "
            f"{pattern.failure_count:,})"
        )
        yield from (f"   Warning: {printable(warning)}" for warning in pattern.warnings)
        yield f"   Solution: {printable(pattern.solution)}"
        yield f"   When to try: {printable(pattern.when_to_try)}"
        yield f"   Pattern {pattern.pattern_id}"
