"""`opx review`: what should be looked at again."""

from __future__ import annotations

import click

from opx.cli.output import SHORT_ID, plural, print_json, print_table, warn
from opx.cli.session import Session, pass_session
from opx.lifecycle.reviews import SOON_DAYS, ReviewItem


@click.command("review")
@click.option("--days", type=click.IntRange(min=0, max=3650), default=SOON_DAYS, show_default=True, help="Days ahead.")
@click.option("--owner", default="", metavar="NAME", help="What this owner is to see to.")
@click.option("--owners", "by_owner", is_flag=True, help="Count by owner.")
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
@pass_session
def review_command(session: Session, *, days: int, owner: str, by_owner: bool, as_json: bool) -> None:
    """List documents whose `review_by:` is past, or soon, the most overdue first.

    An owner is the document's own (`owner:`), else that of one of its services or of its category in the section `owners`
    of knowledge.yaml, else its author.
    """
    report = session.existing_base().reviews(days=days, owner=owner)
    if as_json:
        print_json(report.to_json())
    elif not report.items:
        click.echo(f"nothing is to be reviewed within {plural(days, 'day')}")
    elif by_owner:
        rows = [(one.owner, f"{one.overdue:,}", f"{one.items:,}") for one in report.owners]
        print_table(("OWNER", "OVERDUE", "TO REVIEW"), rows)
    else:
        print_table(("ID", "REVIEW BY", "", "OWNER", "CATEGORY", "TITLE"), [_row(item) for item in report.items])
    if report.more:
        warn("there are more; name an --owner or fewer --days")


def _row(item: ReviewItem) -> tuple[str, ...]:
    days = plural(abs(item.overdue), "day")
    when = f"{days} overdue" if item.overdue > 0 else f"in {days}" if item.overdue else "today"
    return item.document_id[:SHORT_ID], item.review_by, when, item.owner or "-", item.category, item.title
