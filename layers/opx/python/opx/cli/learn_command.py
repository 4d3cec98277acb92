"""`opx learn`: what work taught, and what of it helps now."""

from __future__ import annotations

from collections.abc import Sequence

import click

from opx.cli.learn_capture_command import capture_command
from opx.cli.learn_output import entry_rows, found_lines, pattern_lines, pattern_rows, report_lines, verified_line
from opx.cli.operations import Shape, operation_command
from opx.cli.output import NO_ANSWER, print_json, print_table, warn
from opx.cli.session import Session, pass_session
from opx.domain.learning import DEFAULT_RESULTS, MAX_RESULTS, Effect, EntryState, PatternView, RAGPattern, StagingEntry
from opx.domain.record import replace
from opx.operations.learning import (
    Checkpoint,
    ListEntries,
    VerifyEntry,
    list_entries,
    process_checkpoint,
    verify_entry,
)
from opx.operations.patterns import (
    FindPatternsForFailure,
    FindPatternsForTask,
    ListPatterns,
    PromptContext,
    find_patterns_for_failure,
    find_patterns_for_task,
    get_pattern,
    get_task_context,
    list_patterns,
)

as_json_option = click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
agent_option = click.option("--agent", default="", metavar="TYPE", help="Only what agents of this type learned.")
task_type_option = click.option("--task-type", default="", metavar="TYPE", help="Only of tasks of this type.")
technology_option = click.option("--technology", default="", metavar="NAME", help="A task's: only what is about it.")
MAX_LISTED = 500


@click.group("learn", no_args_is_help=True)
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
    "--effect", type=click.Choice([effect.value for effect in Effect]), help="What came of it, if it didn't work."
)
@click.option("--incident", default="", metavar="ID", help="The incident's id.")
@as_json_option
@pass_session
def verify(
    session: Session, /, entry_id: str, *, worked: bool | None, effect: str | None, incident: str, as_json: bool
) -> None:
    """Say whether what was captured worked. Until then it is told to nobody."""
    if worked is None and effect is None:
        raise click.UsageError("say --worked or --failed, or what came of it with --effect")
    request = VerifyEntry(
        entry_id=entry_id, worked=bool(worked), effect=Effect(effect) if effect else None, incident=incident
    )
    found = session.call(verify_entry, request)
    if as_json:
        print_json(found.to_json())
    else:
        click.echo(verified_line(found))


@learn_command.command("list")
@click.option("--state", type=click.Choice([state.value for state in EntryState]), help="Only those in this state.")
@click.option("--for", "project_id", default="", metavar="PROJECT", help="Only what was learned in this project.")
@click.option("--limit", type=click.IntRange(1, MAX_LISTED), default=50, show_default=True, help="How many at most.")
@click.option("--after", default="", metavar="ENTRY_ID", help="Those before this one, which was the last on the page.")
@as_json_option
@pass_session
def show_entries(
    session: Session, /, state: str | None, project_id: str, *, limit: int, after: str, as_json: bool
) -> None:
    """List what was captured in your scope, the newest first. Exit codes: 0 there is something, 1 there is nothing."""
    wanted = EntryState(state) if state else None
    found = _entries(session, ListEntries(state=wanted, project_id=project_id, limit=limit, after=after))
    if as_json:
        print_json([entry.to_json() for entry in found])
    elif found:
        print_table(("ID", "AT", "STATE", "PROJECT", "TYPE", "WHAT"), entry_rows(found))
    else:
        click.echo("nothing was captured")
    if not found:
        click.get_current_context().exit(NO_ANSWER)


def _entries(session: Session, request: ListEntries) -> list[StagingEntry]:
    """As many as were requested, if need be of several pages: a page has what fits into a reply."""
    found: list[StagingEntry] = []
    following = request
    while True:
        page = session.call(list_entries, following)
        found += page.entries
        if not page.next or len(found) >= request.limit:
            return found
        following = replace(request, limit=request.limit - len(found), after=page.next)


@learn_command.add_command
@operation_command(
    "checkpoint",
    process_checkpoint,
    Shape(
        arguments=("project_id",),
        options={"checkpoint_type": "--type"},
        metavars={"project_id": "[PROJECT]"},
    ),
)
def show_checkpoint(reply: Checkpoint, *, as_json: bool) -> None:
    """Take in what was captured for PROJECT and is verified. Done twice, it counts once.

    Exit codes: 0 done or asked for, 1 some of it could not be taken in, 2 there is no such project, or any other error.
    """
    report = reply.report
    if report is None:
        if not as_json:
            click.echo("asked for: it begins in a few minutes, after what is still on its way")
        return
    for line in () if as_json else report_lines(report):
        click.echo(line)
    for one in report.refused:
        warn(f"{one.entry_id}: {one.reason}")
    if report.refused:
        click.get_current_context().exit(NO_ANSWER)


@learn_command.command("patterns")
@click.argument("task", default="")
@click.option("--failure", default="", metavar="TEXT", help="What went wrong, in place of a task.")
@click.option("--error", default="", metavar="TEXT", help="The error of the failure, copied as it was.")
@agent_option
@task_type_option
@technology_option
@click.option("--limit", type=click.IntRange(1, MAX_LISTED), help="How many at most; not for a failure.")
@as_json_option
@pass_session
def find_patterns(
    session: Session,
    /,
    task: str,
    *,
    failure: str,
    error: str,
    agent: str,
    task_type: str,
    technology: str,
    limit: int | None,
    as_json: bool,
) -> None:
    """Find what helps with TASK, or helped against a failure. With neither, list the patterns, the latest first.

    Exit codes: 0 there is something, 1 there is nothing.
    """
    if task and (failure or error):
        raise click.UsageError("give either a task, or --failure")
    if limit and (failure or error or (task and limit > MAX_RESULTS)):
        raise click.UsageError(f"--limit is {MAX_RESULTS} at most for a task; for a failure there are three at most")
    if task:
        by_task = FindPatternsForTask(
            task_description=task,
            agent_type=agent,
            task_type=task_type,
            technology=technology,
            max_results=limit or DEFAULT_RESULTS,
        )
        _show_found(session.call(find_patterns_for_task, by_task).patterns, as_json=as_json)
    elif failure or error:
        by_failure = FindPatternsForFailure(
            failure_description=failure or error, error_message=error, agent_type=agent, task_type=task_type
        )
        _show_found(session.call(find_patterns_for_failure, by_failure).patterns, as_json=as_json)
    else:
        _show_all(session, limit or 100, as_json=as_json)


def _show_found(found: Sequence[RAGPattern], *, as_json: bool) -> None:
    if as_json:
        print_json([pattern.to_json() for pattern in found])
    for line in () if as_json else found_lines(found):
        click.echo(line)
    if not found:
        click.get_current_context().exit(NO_ANSWER)


def _show_all(session: Session, limit: int, *, as_json: bool) -> None:
    found = session.call(list_patterns, ListPatterns(limit=limit)).patterns
    if as_json:
        print_json([pattern.to_json() for pattern in found])
    elif found:
        print_table(("ID", "WORKED", "FAILED", "LAST", "SCOPE", "PROBLEM"), pattern_rows(found))
    else:
        click.echo("nothing was learned yet: `opx learn capture`, then `opx learn checkpoint`")
    if not found:
        click.get_current_context().exit(NO_ANSWER)


@learn_command.add_command
@operation_command("pattern", get_pattern, Shape(arguments=("pattern_id",)))
def show_pattern(found: PatternView) -> None:
    """Show a pattern, and each entry that was counted for it."""
    for line in pattern_lines(found):
        click.echo(line)


@learn_command.add_command
@operation_command(
    "context",
    get_task_context,
    Shape(
        arguments=("task_description",),
        options={"agent_type": "--agent"},
        metavars={"task_description": "TASK", "agent_type": "TYPE", "task_type": "TYPE", "technology": "NAME"},
    ),
    json="",
)
def show_context(reply: PromptContext) -> None:
    """Print what was learned for TASK, as it goes into an agent's prompt. Exit codes: 0 there is something, 1 nothing."""
    if not reply.context:
        warn("nothing that was learned helps with this")
        click.get_current_context().exit(NO_ANSWER)
    click.echo(reply.context)
