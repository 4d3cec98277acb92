"""`opx review`: what should be looked at again."""

from __future__ import annotations

import click

from opx.cli.operations import Shape, operation_command
from opx.cli.output import SHORT_ID, plural, print_table, warn
from opx.cli.session import Session
from opx.lifecycle.reviews import ReviewItem, ReviewReport
from opx.operations.lifecycle import ListReviews, list_reviews


@operation_command("review", list_reviews, Shape(without=("limit",), metavars={"owner": "NAME"}))
@click.option("--owners", "by_owner", is_flag=True, help="Count by owner.")
def review_command(
    _session: Session, report: ReviewReport, *, request: ListReviews, by_owner: bool, as_json: bool
) -> None:
    """List documents whose `review_by:` is past, or soon, the most overdue first.

    An owner is the document's own (`owner:`), else that of one of its services or of its category in the section `owners`
    of knowledge.yaml, else its author.
    """
    if not as_json:
        _print(report, request, by_owner=by_owner)
    if report.more:
        warn("there are more; name an --owner or fewer --days")


def _print(report: ReviewReport, request: ListReviews, *, by_owner: bool) -> None:
    if not report.items:
        click.echo(f"nothing is to be reviewed within {plural(request.days, 'day')}")
    elif by_owner:
        rows = [(one.owner, f"{one.overdue:,}", f"{one.items:,}") for one in report.owners]
        print_table(("OWNER", "OVERDUE", "TO REVIEW"), rows)
    else:
        print_table(("ID", "REVIEW BY", "", "OWNER", "CATEGORY", "TITLE"), [_row(item) for item in report.items])


def _row(item: ReviewItem) -> tuple[str, ...]:
    days = plural(abs(item.overdue), "day")
    when = f"{days} overdue" if item.overdue > 0 else f"in {days}" if item.overdue else "today"
    return item.document_id[:SHORT_ID], item.review_by, when, item.owner or "-", item.category, item.title
