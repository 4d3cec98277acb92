"""`opx hold`: legal holds."""

from __future__ import annotations

from collections.abc import Sequence

import click

from opx.cli.output import print_json, print_table
from opx.cli.session import Session, pass_session
from opx.lifecycle.holds import Hold


@click.group("hold")
def hold_command() -> None:
    """Keep something from being removed, whatever its retention is: by pruning, by hand, or with its client.

    \b
    opx hold add --document 3f9a --reason "Case 2026-114"
    opx hold add --category operations/incidents --scope client:acme --reason "Audit"
    opx hold list
    opx hold remove 8c1f0a94b2d7          once the matter is over

    What is replaced while a hold is in force stays as a version.
    """


@hold_command.command("add")
@click.option("--reason", required=True, metavar="TEXT", help="Why, such as the matter's name.")
@click.option("--document", default="", metavar="ID", help="A document, by its id or the beginning of it.")
@click.option(
    "--category", default="", metavar="PATH", help="What is of a category, or below this beginning of a path."
)
@click.option("--scope", "within", default="", metavar="KEY", help="What is of client:ACME, with all below, or global.")
@click.option("--everything", is_flag=True, help="All there is.")
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
@pass_session
def add(
    session: Session, /, *, reason: str, document: str, category: str, within: str, everything: bool, as_json: bool
) -> None:
    """Put a hold in force. The same one again changes nothing."""
    base = session.existing_base()
    before = {hold.id for hold in base.holds()} if document else set()
    hold = base.add_hold(reason, document=document, category=category, within=within, everything=everything)
    if as_json:
        print_json(hold.to_json())
        return
    others = [one for one in base.holds() if one.id not in before | {hold.id}] if document else []
    for one in (hold, *others):  # the same text may be there under several names
        click.echo(f"hold {one.id} on {one.what}, by {one.by} since {one.since}")


@hold_command.command("list")
@click.option("--lifted", is_flag=True, help="Those that were lifted, in place of those in force.")
@click.option("--json", "as_json", is_flag=True, help="Print them as JSON.")
@pass_session
def list_(session: Session, *, lifted: bool, as_json: bool) -> None:
    """List the holds."""
    found = session.existing_base().holds(lifted=lifted)
    if as_json:
        print_json([hold.to_json() for hold in found])
    elif not found:
        click.echo("no holds")
    else:
        _print(found, lifted=lifted)


@hold_command.command("remove")
@click.argument("hold_id", metavar="ID")
@pass_session
def remove(session: Session, hold_id: str) -> None:
    """Lift a hold. What is past its retention goes with the next run; the hold is kept as a record."""
    hold = session.existing_base().lift_hold(hold_id)
    click.echo(f"lifted hold {hold.id} on {hold.what}, which was in force since {hold.since}")


def _print(found: Sequence[Hold], *, lifted: bool) -> None:
    heads = ("ID", "ON", "SINCE", "BY", *(("LIFTED", "BY") if lifted else ()), "REASON")
    rows = [
        (
            hold.id,
            hold.what,
            hold.since,
            hold.by,
            *((hold.lifted, hold.lifted_by) if lifted else ()),
            hold.reason,
        )
        for hold in found
    ]
    print_table(heads, rows)
