"""`opx reconcile`: whether all stores say the same, and having it put right."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from opx.cli.output import NO_ANSWER, plural, print_json, printable, warn
from opx.cli.session import Session, pass_session
from opx.operations.administration import Reconcile, reconcile

if TYPE_CHECKING:
    from opx.lifecycle.differences_found import ReconcileReport


@click.command("reconcile")
@click.option("--repair", is_flag=True, help="Put right what differs.")
@click.option("--thorough", is_flag=True, help="Compare entries of the index one by one; without, they are counted.")
@click.option(
    "--max-share",
    type=click.FloatRange(0, 1),
    metavar="SHARE",
    help="With --repair: remove up to this share of a kind.  [default: 0.2]",
)
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
@pass_session
def reconcile_command(
    session: Session, *, repair: bool, thorough: bool, max_share: float | None, as_json: bool
) -> None:
    """Compare corpus, catalog, chunk files, index, graph and calendar of all clients, and say what differs.

    Others may work meanwhile, and it may be ended and begun again at any time. With --repair, documents that differ are
    taken in again or withdrawn, and what belongs to no document is removed; unless it would be more than a share of all,
    which says that a store was lost, and that a backup is what helps (docs/backup.md).

    For a folder of this machine, and for a system on AWS by whoever may use its stores themselves (OPX_BACKEND=aws with
    the settings of its functions), where functions do what --repair asks for: look again a few minutes later.

    Exit codes: 0 all say the same or were put right, 1 differences are left, 2 it could not be done.
    """
    session.require_knowledge()
    request = Reconcile(repair=repair, thorough=thorough, max_share=max_share)
    report = session.client.call(reconcile, request)
    if as_json:
        print_json(report.to_json())
    else:
        _print(report)
    if report.given_up:
        warn(f"{plural(report.given_up, 'import')} that was cut short is given up: what it brought is in order")
    left = report.total - report.repaired
    if report.held_back:
        warn(
            f"{plural(report.held_back, 'removal')} held back: so many say that a store was lost, and not that it has too "
            "much; restore it, or give --max-share"
        )
    if left:
        click.get_current_context().exit(NO_ANSWER)


def _print(report: ReconcileReport) -> None:
    for difference in report.differences:
        name = printable(difference.object_key) or f"scope {difference.scope_key}"
        click.echo(f"{name}: {printable(difference.text)}; repair: {difference.repair}")
    if report.total > len(report.differences):
        click.echo(f"... and {report.total - len(report.differences):,} more")
    click.echo(
        f"compared {plural(report.objects, 'object')}, {plural(report.documents, 'document')} of the catalog, "
        f"{plural(report.index_documents, 'document')} of the index, {plural(report.chunk_files, 'chunk file')}: "
        f"{plural(report.total, 'difference')}, {report.repaired:,} repaired"
    )
    if report.waiting:
        click.echo(f"{plural(report.waiting, 'document')} asked for again; functions take them in")
    if report.in_flight:
        click.echo(f"{plural(report.in_flight, 'document')} just being worked on, not compared")
    if report.failed:
        click.echo(f"{plural(report.failed, 'failed item')}: `opx failed` lists them")
