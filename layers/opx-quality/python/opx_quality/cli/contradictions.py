"""`opx contradictions`: lists documents that contradict each other, and dismisses false findings."""

from __future__ import annotations

import click

from opx.domain.record import replace
from opx.edges.calling import plain
from opx.edges.cli.operations import AS_JSON_LINES, OperationGroup
from opx.edges.cli.output import print_json, print_json_lines, safe, warn
from opx.edges.cli.session import SESSION, Session
from opx.operations.paging import MAX_PAGE
from opx_quality import contradictions


@click.group("contradictions", invoke_without_command=True, cls=OperationGroup)
@click.option("--category", default="", metavar="PATH", help="Only documents of this category.")
@click.option("--json", "as_json", is_flag=True, help="Print them as JSON.")
@click.option("--jsonl", "as_jsonl", is_flag=True, help=AS_JSON_LINES)
@click.pass_context
def contradictions_command(context: click.Context, /, *, category: str, as_json: bool, as_jsonl: bool) -> None:
    """List documents that contradict each other: another value, command or instruction for the same thing.

    \b
    opx contradictions                                 list
    opx contradictions dismiss ID --because "..."      hide a false finding, until one of the documents changes
    opx contradictions dismiss ID --undo               show it again
    """
    if context.invoked_subcommand is not None:
        return
    session: Session = context.meta[SESSION]
    request = contradictions.ListContradictions(category=category, limit=MAX_PAGE)
    found = session.call(contradictions.list_contradictions, request)
    listed = list(found.contradictions)
    while found.next:
        found = session.call(contradictions.list_contradictions, replace(request, after=found.next))
        listed += found.contradictions
    if as_json or as_jsonl:
        (print_json_lines if as_jsonl else print_json)(plain(listed))
        return
    for one in listed:
        click.echo(safe(f"{one.contradiction_id}\n  {one.reason}"))
        click.echo("\n".join(safe(f"  {_side(side)}") for side in (one.first, one.second)))
    if not listed:
        click.echo(f"no contradictions in {found.compared:,} documents")
    if found.more:
        warn("there are more documents than one call compares: narrow them with --category")


def _side(side: contradictions.ContradictingPassage) -> str:
    section = f" ({side.section})" if side.section else ""
    return f"{side.key}{section}, {side.last_updated[:10]}: {side.statement}"


@contradictions_command.operation("dismiss", contradictions.dismiss_contradiction, arguments=("contradiction_id",))
def dismiss(found: contradictions.ContradictionDismissed) -> None:
    """Dismiss a false contradiction: it is hidden until one of the two documents changes."""
    click.echo("not listed any more" if found.dismissed else "listed again")
