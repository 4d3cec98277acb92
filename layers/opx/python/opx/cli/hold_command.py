"""`opx hold`: legal holds."""

from __future__ import annotations

from collections.abc import Sequence

import click

from opx.cli.operations import Shape, operation_command
from opx.cli.output import print_json, print_table
from opx.cli.session import Session, pass_session
from opx.lifecycle.holds import Hold
from opx.operations.lifecycle import AddHold, HoldList, ListHolds, add_hold, lift_hold, list_holds


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
    before = {hold.id for hold in session.call(list_holds, ListHolds()).holds} if document else set()
    request = AddHold(
        reason=reason,
        document=document or None,
        category=category or None,
        within=within or None,
        everything=everything,
    )
    hold = session.call(add_hold, request)
    if as_json:
        print_json(hold.to_json())
        return
    found = session.call(list_holds, ListHolds()).holds if document else ()
    others = [one for one in found if one.id not in before | {hold.id}]
    for one in (hold, *others):  # the same text may be there under several names
        click.echo(f"hold {one.id} on {one.what}, by {one.by} since {one.since}")


@operation_command("list", list_holds, Shape(items="holds"))
def list_command(_session: Session, reply: HoldList, request: ListHolds) -> None:
    """List the holds."""
    if not reply.holds:
        click.echo("no holds")
    else:
        _print(reply.holds, lifted=request.lifted)


@operation_command("remove", lift_hold, Shape(arguments=("hold_id",), metavars={"hold_id": "ID"}), json=False)
def remove_command(_session: Session, hold: Hold) -> None:
    """Lift a hold. What is past its retention goes with the next run; the hold is kept as a record."""
    click.echo(f"lifted hold {hold.id} on {hold.what}, which was in force since {hold.since}")


hold_command.add_command(list_command)
hold_command.add_command(remove_command)


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
