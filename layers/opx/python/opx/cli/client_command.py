"""`opx client`: the clients of this system."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, TypeVar

import click

from opx.cli.output import NO_ANSWER, print_json, print_table, warn
from opx.cli.session import Session, pass_session
from opx.errors import InvalidInputError
from opx.operations.administration import (
    AddClient,
    ClientInventory,
    GetClient,
    ListClients,
    RemoveClient,
    add_client,
    get_client,
    list_clients,
    remove_client,
)

if TYPE_CHECKING:
    from opx.operations.registry import Run
    from opx.operations.requests import Request

Q = TypeVar("Q", bound="Request")
R = TypeVar("R")


@click.group("client")
def client_command() -> None:
    """The clients: what there is of each, and removing one with all of it.

    \b
    opx client list
    opx client show acme                  how much there is in each store
    opx client remove acme --dry-run      the same, and nothing else
    opx client remove acme                remove all of it, and prove that it is gone
    opx client add acme                   serve a client again that was removed

    For a folder of this machine, and for a system on AWS by whoever may use its stores themselves (OPX_BACKEND=aws with
    the settings of its functions); there is no way over the API.
    """


@client_command.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print them as JSON.")
@pass_session
def list_(session: Session, *, as_json: bool) -> None:
    """List the clients, those that were removed included."""
    found = _call(session, list_clients, ListClients()).clients
    if as_json:
        print_json([one.to_json() for one in found])
    elif not found:
        click.echo("no clients")
    else:
        rows = [
            (one.client_id, one.state.value, one.since or "-", str(one.documents), str(one.projects)) for one in found
        ]
        print_table(("CLIENT", "STATE", "SINCE", "DOCUMENTS", "PROJECTS"), rows)


@client_command.command("show")
@click.argument("client")
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
@pass_session
def show(session: Session, client: str, *, as_json: bool) -> None:
    """Show how much there is of CLIENT in each store."""
    _print_inventory(_call(session, get_client, GetClient(client_id=client)), as_json=as_json)


@client_command.command("add")
@click.argument("client")
@pass_session
def add(session: Session, client: str) -> None:
    """Serve CLIENT, also after it was removed: it begins with nothing. A client that was never removed needs no adding."""
    added = _call(session, add_client, AddClient(client_id=client))
    click.echo(f"client {added.client_id} is {added.state.value} since {added.since}")


@client_command.command("remove")
@click.argument("client")
@click.option("--dry-run", is_flag=True, help="Show what would be removed, and do nothing.")
@click.option("-y", "--yes", is_flag=True, help="Don't ask.")
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
@pass_session
def remove(session: Session, client: str, *, dry_run: bool, yes: bool, as_json: bool) -> None:
    """Remove all that there is of CLIENT, ask every store for it again, and keep a report of that.

    From then on nothing is taken in or answered for the client. A removal that was interrupted goes on when it is begun
    again.

    Exit codes: 0 all is gone, 1 something is left (it is named; begin again), 2 it could not be done.
    """
    if dry_run:
        _print_inventory(_call(session, get_client, GetClient(client_id=client)), as_json=as_json)
        return
    if not yes:
        _confirm(session, client)
    report = _call(session, remove_client, RemoveClient(client_id=client))
    if as_json:
        print_json(report.to_json())
    else:
        for line in report.lines():
            click.echo(line)
        if not report.left:
            click.echo(f"all of it is gone; the report is kept as {report.object_key}")
    if report.left:
        warn("left: " + ", ".join(f"{count} {name}" for name, count in report.left.items()))
        click.get_current_context().exit(NO_ANSWER)


def _call(session: Session, run: Run[Q, R], request: Q) -> R:
    if session.is_remote:
        raise InvalidInputError(
            "clients are administered where the stores are: leave --profile and --api out, and for a system on AWS set "
            "OPX_BACKEND=aws and the settings of its functions"
        )
    session.require_knowledge()
    return session.watched_client(_progress).call(run, request)


def _progress(step: str, _count: int) -> None:
    if sys.stderr.isatty():
        click.echo(f"{step} ...", err=True)


def _print_inventory(found: ClientInventory, *, as_json: bool) -> None:
    if as_json:
        print_json(found.to_json())
        return
    click.echo(f"client {found.client_id}: {found.state.value}" + (f" since {found.since}" if found.since else ""))
    print_table(("STORE", "ITEMS"), [(name, f"{count:,}") for name, count in found.stores.items()])


def _confirm(session: Session, client: str) -> None:
    """Has the id typed again: there is no way back."""
    if not sys.stdin.isatty():
        raise InvalidInputError("nobody can be asked here: add --yes to remove the client without a question")
    _print_inventory(_call(session, get_client, GetClient(client_id=client)), as_json=False)
    typed = click.prompt("All of this will be gone for good. Type the client's id to remove it", err=True)
    if typed != client:
        raise InvalidInputError(f"{json.dumps(typed)} is not {client}: nothing was removed")
