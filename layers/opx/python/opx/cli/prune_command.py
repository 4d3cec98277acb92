"""`opx prune`: removes what its retention is over for."""

from __future__ import annotations

import click

from opx.cli.output import NO_ANSWER, print_json, print_table, warn
from opx.cli.session import Session, pass_session
from opx.errors import InvalidInputError
from opx.lifecycle.report import PruneReport
from opx.operations.lifecycle import ListPrunings, PruneExpired, list_prunings, prune_expired


@click.command("prune")
@click.option("--dry-run", is_flag=True, help="Show what would go, and remove nothing.")
@click.option(
    "--allow-share",
    type=click.FloatRange(min=0, max=1, min_open=True),
    metavar="SHARE",
    help="Let up to this share of a category go at once (1: all), where that is what is meant.",
)
@click.option("--reports", is_flag=True, help="Show what past runs did, and do nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
@pass_session
def prune_command(session: Session, *, dry_run: bool, allow_share: float | None, reports: bool, as_json: bool) -> None:
    """Remove documents, versions and patterns whose retention is over: from index, graph, corpus and catalog.

    \b
    opx prune --dry-run                   what would go
    opx prune                             remove it; a run that was interrupted goes on
    opx prune --reports                   what past runs did

    How long a category is kept is in knowledge.yaml; a document may say `expires:` itself. Holds keep what they are on. A
    run that would remove much more than usual removes nothing and says why.

    Exit codes: 0 done, 1 it was stopped as too much would go, 2 it could not be done.
    """
    session.require_knowledge()
    if reports:
        _print_reports(session, as_json=as_json)
        return
    if session.is_remote:
        raise InvalidInputError(
            "a deployed system prunes once a day by itself. `opx prune --reports` shows what it did; to run it now, leave "
            "--profile and --api out and set OPX_BACKEND=aws and the settings of its functions"
        )
    report = session.call(prune_expired, PruneExpired(dry_run=dry_run, allow_share=allow_share))
    if as_json:
        print_json(report.to_json())
    else:
        for line in report.lines():
            click.echo(line)
    if report.stopped:
        warn(_stopped(report))
        click.get_current_context().exit(NO_ANSWER)


def _stopped(report: PruneReport) -> str:
    """A dry run was not stopped; it tells of a run that would be."""
    return report.stop_message().replace("nothing was", "nothing would be") if report.dry_run else report.stop_message()


def _print_reports(session: Session, *, as_json: bool) -> None:
    found = session.call(list_prunings, ListPrunings()).prunings
    if as_json:
        print_json([one.to_json() for one in found])
    elif not found:
        click.echo("no run has removed anything so far")
    else:
        rows = [
            (
                one.started,
                f"{one.versions:,}",
                ", ".join(f"{count:,} {category}" for category, count in one.removed.items()) or "-",
                "stopped" if one.stopped else "unfinished" if one.unfinished else "done",
            )
            for one in found
        ]
        print_table(("STARTED", "VERSIONS", "REMOVED", "STATE"), rows)
