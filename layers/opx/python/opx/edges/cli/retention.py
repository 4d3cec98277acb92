"""`opx hold`, `opx review`, `opx prune`, `opx export`, `opx import`: legal holds, reviews, deletion past retention, and
archives."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from opx.edges.cli.operations import OperationGroup, operation_command, request_command
from opx.edges.cli.output import (
    SHORT_ID,
    CommandFailed,
    exit_unless,
    plural,
    print_either,
    print_json,
    print_table,
    printable,
    readable_size,
    warn,
)
from opx.edges.cli.session import Session
from opx.errors import ArchiveError
from opx.lifecycle.report import ExportReport, ImportReport, PruneReport
from opx.lifecycle.retention.holds import Hold
from opx.lifecycle.retention.reviews import ReviewItem, ReviewReport
from opx.operations import administration, lifecycle
from opx.operations.context import Progress

# -- legal holds


@click.group("hold", cls=OperationGroup)
def hold_command() -> None:
    """Legal holds. A hold protects documents from pruning, from `opx delete`, and from the removal of their client.

    \b
    opx hold add --document 3f9a --reason "Case 2026-114"
    opx hold add --category operations/incidents --scope client:acme --reason "Audit"
    opx hold list
    opx hold remove 8c1f0a94b2d7          once the matter is over

    A document that is replaced while a hold is in force stays as a version.
    """


@hold_command.request(
    "add",
    lifecycle.add_hold,
    fields={
        "within": "--scope KEY  All of a scope: client:ACME, including its projects, or global.",
        "reason": "TEXT",
        "document": "ID  A document, by its id or a prefix of it.",
        "category": "PATH  All of a category, or of those below this path.",
        "everything": "Everything.",
    },
)
def add(session: Session, request: lifecycle.AddHold, *, as_json: bool) -> None:
    """Add a hold. Adding the same one again changes nothing."""
    before = (
        {hold.id for hold in session.call(lifecycle.list_holds, lifecycle.ListHolds()).holds}
        if request.document
        else set()
    )
    hold = session.call(lifecycle.add_hold, request)
    if as_json:
        print_json(hold.to_json())
        return
    found = session.call(lifecycle.list_holds, lifecycle.ListHolds()).holds if request.document else ()
    others = [one for one in found if one.id not in before | {hold.id}]
    for one in (hold, *others):  # the same content may be stored under several sources
        click.echo(printable(f"hold {one.id} on {one.what}, by {one.by} since {one.since}"))


@hold_command.operation("list", lifecycle.list_holds, items="holds")
def list_command(reply: lifecycle.HoldList, request: lifecycle.ListHolds) -> None:
    """List the holds."""
    heads = ("ID", "ON", "SINCE", "BY", *(("LIFTED", "BY") if request.lifted else ()), "REASON")
    fields = ("id", "what", "since", "by", *(("lifted", "lifted_by") if request.lifted else ()), "reason")
    rows = [[getattr(hold, name) for name in fields] for hold in reply.holds]
    print_table(heads, rows, "no holds")


@hold_command.operation("remove", lifecycle.lift_hold, arguments=("hold_id",), fields={"hold_id": "ID"}, json="")
def remove_command(hold: Hold) -> None:
    """Lift a hold. Documents past their retention are deleted by the next run; the hold is kept as a record."""
    click.echo(f"lifted hold {hold.id} on {hold.what}, which was in force since {hold.since}")


# -- reviews


@operation_command("review", lifecycle.list_reviews, without=("limit",), fields={"owner": "NAME"})
@click.option("--owners", "by_owner", is_flag=True, help="Count by owner.")
def review_command(report: ReviewReport, *, request: lifecycle.ListReviews, by_owner: bool, as_json: bool) -> None:
    """List documents whose `review_by:` is past, or soon, the most overdue first.

    The owner is the document's own (`owner:`), else that of one of its services or of its category in the section `owners`
    of knowledge.yaml, else its author.
    """
    if not as_json:
        _print_reviews(report, request, by_owner=by_owner)
    if report.more:
        warn("there are more; narrow them with --owner or fewer --days")


def _print_reviews(report: ReviewReport, request: lifecycle.ListReviews, *, by_owner: bool) -> None:
    if by_owner and report.items:
        rows = [(one.owner, f"{one.overdue:,}", f"{one.items:,}") for one in report.owners]
        print_table(("OWNER", "OVERDUE", "TO REVIEW"), rows)
    else:
        heads = ("ID", "REVIEW BY", "", "OWNER", "CATEGORY", "TITLE")
        empty = f"nothing is to be reviewed within {plural(request.days, 'day')}"
        print_table(heads, list(map(_review_row, report.items)), empty)


def _review_row(item: ReviewItem) -> tuple[str, ...]:
    days = plural(abs(item.overdue), "day")
    when = f"{days} overdue" if item.overdue > 0 else f"in {days}" if item.overdue else "today"
    return item.document_id[:SHORT_ID], item.review_by, when, item.owner or "-", item.category, item.title


# -- pruning


@request_command(
    "prune",
    lifecycle.prune_expired,
    fields={"dry_run": "Show what would be removed, and remove nothing."},
    json="Print the report as JSON.",
)
@click.option(
    "--allow-share",
    type=click.FloatRange(min=0, max=1, min_open=True),
    metavar="SHARE",
    help="Allow removal of up to this share of a category at once (1: all).",
)
@click.option("--reports", is_flag=True, help="Show past runs, and do nothing.")
def prune_command(session: Session, request: lifecycle.PruneExpired, *, reports: bool, as_json: bool) -> None:
    """Delete documents, versions and patterns past their retention, from index, graph, corpus and catalog.

    \b
    opx prune --dry-run                   show what would be removed
    opx prune                             remove it; an interrupted run continues
    opx prune --reports                   list past runs

    The retention of a category is set in knowledge.yaml; a document may set `expires:` itself. Documents under a hold stay.
    A run that would remove much more than usual removes nothing and reports the reason.

    Exit codes: 0 done, 1 stopped, as too much would be removed, 2 it could not be done.
    """
    if reports:
        _print_prunings(session, as_json=as_json)
        return
    session.require_local(
        "a deployed system prunes once a day by itself. `opx prune --reports` shows its runs; to prune now, omit "
        "--profile and --api and set OPX_BACKEND=aws and the settings of its functions"
    )
    report = session.call(lifecycle.prune_expired, request)
    print_either(report, report.lines(), as_json=as_json)
    if report.stopped:
        message = report.stop_message()
        warn(message.replace("nothing was", "nothing would be") if report.dry_run else message)
    exit_unless(not report.stopped)


def _print_prunings(session: Session, *, as_json: bool) -> None:
    found = session.call(lifecycle.list_prunings, lifecycle.ListPrunings()).prunings
    if as_json:
        print_json([one.to_json() for one in found])
    else:
        heads = ("STARTED", "VERSIONS", "REMOVED", "STATE")
        print_table(heads, list(map(_pruning_row, found)), "no run has removed anything so far")


def _pruning_row(one: PruneReport) -> tuple[str, ...]:
    removed = ", ".join(f"{count:,} {category}" for category, count in one.removed.items()) or "-"
    state = "stopped" if one.stopped else "unfinished" if one.unfinished else "done"
    return one.started, f"{one.versions:,}", removed, state


# -- archives


_EVERY_SECONDS = 0.2
_WIDTH = 100


@contextmanager
def phases() -> Iterator[Progress]:
    """Shows the current phase in one line on stderr, if that is a terminal, and clears the line at the end."""
    is_seen = sys.stderr.isatty()
    due = 0.0

    def show(step: str, count: int) -> None:
        nonlocal due
        if is_seen and (now := time.monotonic()) >= due:
            due = now + _EVERY_SECONDS
            text = f"{count:,} {step}" if count else step
            click.echo(f"\r\033[K{text[:_WIDTH]}", err=True, nl=False)

    try:
        yield show
    finally:
        if due:
            click.echo("\r\033[K", err=True, nl=False)


@operation_command(
    "export", administration.export_archive, arguments=("path",), progress=phases, json="Print the report as JSON."
)
@click.argument("path", metavar="FILE", type=click.Path(dir_okay=False, path_type=Path))
def export_command(report: ExportReport, request: administration.ExportArchive, *, as_json: bool) -> Iterator[str]:
    """Export everything that can't be rebuilt to FILE, for all clients: documents with all their versions, learned
    entries and outcomes, clients and projects, aliases, holds, baselines, gaps and sources.

    FILE omits secrets, index, graph and cached vectors; `opx import` rebuilds the last three. Others may keep working.
    FILE appears when it is complete. Only you may read it, as it has all knowledge.

    It works on a folder of this machine. On AWS it needs access to the stores (OPX_BACKEND=aws with the settings of the
    functions). docs/backup.md describes how to check a backup.
    """
    warn(*report.notes)
    if not as_json:
        documents, versions = (plural(report.counts[f"{noun}s"], noun) for noun in ("document", "version"))
        yield f"{request.path}: {readable_size(report.size)}, {documents} in {versions}"
        yield f"sha256 {report.sha256}"


@request_command(
    "import",
    administration.import_archive,
    arguments=("path",),
    fields={"dry_run": "Verify the archive, show what it would import, and change nothing."},
    anywhere=True,
    json="Print the report as JSON.",
)
@click.argument("path", metavar="FILE", type=click.Path(exists=True, dir_okay=False, path_type=Path))
def import_command(session: Session, request: administration.ImportArchive, *, as_json: bool) -> None:
    """Import FILE, which `opx export` wrote, here or elsewhere, on a laptop or on AWS.

    It verifies every checksum and every line first. Then it restores the history of the documents and all other
    records, and ingests the documents, which rebuilds index and graph. Run it again to continue an interrupted import.

    With --merge, existing documents and records stay. If the archive has a newer document, it becomes a further
    version.

    It works on a folder of this machine. On AWS it needs access to the stores (OPX_BACKEND=aws with the settings of the
    functions), and functions ingest the documents.

    Exit codes: 0 done, 1 some documents could not be ingested (`opx failed`), 2 the archive was refused or a store failed.
    """
    try:
        with phases() as progress:
            report = session.watched_client(progress).call(administration.import_archive, request)
    except ArchiveError as exc:  # may quote an archive made by an attacker
        raise CommandFailed(printable(str(exc))) from exc
    warn(*(printable(note) for note in report.notes))
    print_either(report, _import_lines(report), as_json=as_json)
    exit_unless(not report.failed)


def _import_lines(report: ImportReport) -> Iterator[str]:
    facts = report.archive
    yield f"archive of {printable(facts.made)}, of a system on {printable(facts.backend)}: all checksums match"
    verb = "would be " if report.dry_run else ""
    yield from (f"{plural(count, 'document')} {verb}{fate.value}" for fate, count in report.documents.items())
    if report.dry_run:
        return
    yield f"{plural(sum(report.rows.values()), 'row')} and {plural(report.files, 'file')} restored"
    if report.waiting:
        yield f"functions ingest {plural(report.waiting, 'document')} now; `opx status` shows the progress"
    if report.failed:
        yield f"{plural(report.failed, 'document')} could not be ingested: `opx failed` lists the reasons"
