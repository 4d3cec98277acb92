"""`opx repair`: rebuilds damaged stores."""

from __future__ import annotations

import click

from opx.edges.cli.operations import CommandShape, request_command
from opx.edges.cli.output import exit_unless, plural, print_json, printable
from opx.edges.cli.retention import Phases
from opx.edges.cli.session import Session
from opx.lifecycle.consistency.repair import RepairReport
from opx.operations import integrity

_ELSEWHERE = (
    "repair works on a folder of this machine, or with OPX_BACKEND=aws on the stores of a deployed system: "
    "see docs/backup.md"
)


_CHANGED = "not as it was ingested; it was ingested as it is now, and `opx history` has the version before"
_KEPT = "that belong to nothing were kept: `opx reconcile` lists them, --repair removes them"


@request_command(
    "repair",
    integrity.repair_stores,
    CommandShape(fields={"dry_run": "List the damage, and change nothing."}, elsewhere=_ELSEWHERE),
    json="Print the report as JSON.",
)
def repair_command(session: Session, request: integrity.RepairStores, *, as_json: bool) -> None:
    """Rebuild whatever can be rebuilt from whatever is left: index, chunk files, outlines, catalog, graph and tables; and
    list what is lost for good.

    Every file is read. A database that is damaged, or can't be opened, is read row by row; a damaged index is built again
    from the documents. Damaged files are moved to a folder `damaged-TIME` of the home folder, never deleted. End other opx
    processes before. It can be interrupted and repeated at any time.

    On AWS the services keep files and pages intact: there it ingests again what a thorough comparison finds.

    Exit codes: 0 all is in order, 1 something is lost or left, 2 it could not be done.
    """
    with Phases() as phases:
        report = session.watched_client(phases.progress).call(integrity.repair_stores, request)
    if as_json:
        print_json(report.to_json())
    else:
        _print_report(report)
    exit_unless(report.is_whole)


def _print_report(report: RepairReport) -> None:
    for one in report.damaged:
        click.echo(f"damaged: {printable(one.file)}: {printable(one.problem)}")
    if report.folder:
        click.echo(f"the damaged files are in the folder {report.folder}: delete it when you don't need it any more")
    if report.rows:
        click.echo(f"{plural(sum(report.rows.values()), 'row')} read from damaged databases")
    if report.heads:
        click.echo(f"{plural(report.heads, 'document')} entered in the catalog again, from their versions")
    for problem, count in report.repaired.items():
        click.echo(f"repaired: {plural(count, 'difference')} of the kind {problem.value.replace('_', ' ')}")
    for key in report.changed:
        click.echo(f"changed: {printable(key)}: {_CHANGED}")
    for left in report.left:
        name = printable(left.object_key) or f"scope {left.scope_key}"
        click.echo(
            f"{'would repair' if report.dry_run else 'left'}: {name}: {printable(left.text)}; repair: {left.repair}"
        )
    for loss in report.lost:
        click.echo(f"lost for good, unless a backup has it: {printable(loss)}")
    _print_rest(report)


def _print_rest(report: RepairReport) -> None:
    if report.waiting:
        click.echo(f"{plural(report.waiting, 'document')} sent again; functions ingest them: then run it again")
    if report.failed:
        click.echo(f"{plural(report.failed, 'document')} could not be ingested: `opx failed` lists the reasons")
    if report.surplus:
        click.echo(f"{plural(report.surplus, 'item')} {_KEPT}")
    if report.is_whole and not report.waiting:
        click.echo("all stores are in order")
