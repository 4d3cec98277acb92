"""`opx hold`, `opx review`, `opx prune`: legal holds, reviews, and deletion past retention."""

from __future__ import annotations

import click

from opx.edges.cli.operations import OperationGroup, operation_command, request_command
from opx.edges.cli.output import (
    SHORT_ID,
    exit_unless,
    plural,
    print_either,
    print_json,
    print_table,
    printable,
    warn,
)
from opx.edges.cli.session import Session
from opx.lifecycle.report import PruneReport
from opx.lifecycle.retention.holds import Hold
from opx.lifecycle.retention.reviews import ReviewItem, ReviewReport
from opx.operations import lifecycle

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
