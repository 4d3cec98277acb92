"""`opx client`, `opx project`, `opx usage`: manages the clients of this system, groups of projects that share knowledge,
and lists what each client uses."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import nullcontext

import click

from opx.domain.record import to_json
from opx.edges.cli.operations import OperationGroup, operation_command
from opx.edges.cli.output import exit_unless, plural, print_either, print_table, warn
from opx.edges.cli.session import Session
from opx.errors import InvalidInputError
from opx.ingestion.corpus.clients import Client, SightChange
from opx.lifecycle.cost_estimate import MonthCosts
from opx.lifecycle.usage import ClientUsage
from opx.operations import administration, projects, usage

_ELSEWHERE = (
    "clients are administered with access to the stores: omit --profile and --api, and for a system on AWS set "
    "OPX_BACKEND=aws and the settings of its functions"
)


def _progress(step: str, _count: int) -> None:
    if sys.stderr.isatty():
        click.echo(f"{step} ...", err=True)


_SHAPE = {"elsewhere": _ELSEWHERE, "progress": lambda: nullcontext(_progress)}
_ONE = {**_SHAPE, "arguments": ("client_id",), "fields": {"client_id": "CLIENT"}}


@click.group("client", cls=OperationGroup)
def client_command() -> None:
    """List clients and their data, and remove a client entirely.

    \b
    opx client list
    opx client show acme                  number of items in each store
    opx client remove acme --dry-run      the same, without removing anything
    opx client remove acme                remove everything, and prove that nothing is left
    opx client add acme                   serve a removed client again

    It works on a folder of this machine. On AWS it needs access to the stores (OPX_BACKEND=aws with the settings of the
    functions); the API doesn't offer it.
    """


@client_command.operation("list", administration.list_clients, items="clients", **_SHAPE, json="Print them as JSON.")
def list_all(found: administration.ClientList) -> None:
    """List the clients, including removed ones."""
    rows = [(c.client_id, c.state.value, c.since or "-", str(c.documents), str(c.projects)) for c in found.clients]
    print_table(("CLIENT", "STATE", "SINCE", "DOCUMENTS", "PROJECTS"), rows, "no clients")


@client_command.operation("show", administration.get_client, **_ONE)
def show_client(found: administration.ClientInventory) -> None:
    """Show the number of items of CLIENT in each store."""
    click.echo(f"client {found.client_id}: {found.state.value}" + (f" since {found.since}" if found.since else ""))
    print_table(("STORE", "ITEMS"), [(name, f"{count:,}") for name, count in found.stores.items()])


@client_command.operation("add", administration.add_client, **_ONE, json="")
def add_one(added: Client) -> None:
    """Serve a removed CLIENT again; it starts empty. Other clients are created by their first document."""
    click.echo(f"client {added.client_id} is {added.state.value} since {added.since}")


@client_command.request("remove", administration.remove_client, **_ONE, json="Print the report as JSON.")
@click.option("--dry-run", is_flag=True, help="Show what would be removed, and do nothing.")
@click.option("-y", "--yes", is_flag=True, help="Don't ask.")
def remove(session: Session, request: administration.RemoveClient, *, dry_run: bool, yes: bool, as_json: bool) -> None:
    """Remove all data of CLIENT, query every store for leftovers, and keep a report of that.

    From then on, documents and questions of the client are refused. Run it again to continue an interrupted removal.

    Exit codes: 0 nothing is left, 1 something is left (it is listed; start again), 2 it could not be done.
    """
    client = request.client_id
    if dry_run:
        click.get_current_context().invoke(show_client, client_id=client, as_json=as_json)
        return
    if not yes:
        _confirm(client)
    report = session.watched_client(_progress).call(administration.remove_client, request)
    gone = () if report.left else (f"all of it is gone; the report is kept as {report.object_key}",)
    print_either(report, (*report.lines(), *gone), as_json=as_json)
    if report.left:
        warn("left: " + ", ".join(f"{count} {name}" for name, count in report.left.items()))
    exit_unless(not report.left)


def _confirm(client: str) -> None:
    """Requires typing the client's id: a removal can't be undone."""
    if not sys.stdin.isatty():
        raise InvalidInputError("this needs a terminal to confirm: add --yes to remove the client without confirmation")
    click.get_current_context().invoke(show_client, client_id=client)
    typed = click.prompt("All of this will be gone for good. Type the client's id to remove it", err=True)
    if typed != client:
        raise InvalidInputError(f"{json.dumps(typed)} is not {client}: nothing was removed")


# -- projects

_OF_CLIENT = {"client_id": "CLIENT", "project_id": "PROJECT", "group_id": "GROUP"}


@click.group("project", cls=OperationGroup)
def project_command() -> None:
    """Put a client's projects into groups: those of one group see each other's documents.

    \b
    opx project list acme
    opx project assign acme shop payments --dry-run      show gained and lost visibility
    opx project assign acme shop payments
    """


@project_command.request(
    "assign",
    projects.assign_project,
    arguments=("client_id", "project_id", "group_id"),
    fields=_OF_CLIENT,
    anywhere=True,
    json="",
)
@click.option("--dry-run", is_flag=True, help="Show gained and lost visibility, and move nothing.")
def assign(session: Session, request: projects.AssignProject, *, dry_run: bool) -> None:
    """Put PROJECT of CLIENT into GROUP; "" takes it out. Takes effect on the next query."""
    if dry_run:
        _describe(session.client.call(projects.preview_project_move, request).changes, planned=True)
        return
    changes = () if session.is_remote else session.client.call(projects.preview_project_move, request).changes
    session.client.call(projects.assign_project, request)
    group = f"group {request.group_id}" if request.group_id else "no group"
    click.echo(f"project {request.project_id} of client {request.client_id} is in {group}")
    _describe(changes)


@project_command.operation("show", projects.get_project, arguments=("client_id", "project_id"), fields=_OF_CLIENT)
def show_project(found: projects.Project) -> Iterator[str]:
    """Show the group of PROJECT of CLIENT, and the scopes that it may see."""
    yield f"group  {found.group_id or '-'}"
    yield from (f"sees   {scope}" for scope in found.visible)


@project_command.operation(
    "list",
    projects.list_projects,
    arguments=("client_id",),
    fields={"group_id": "--group ID", "client_id": "CLIENT"},
    items="projects",
    anywhere=True,
)
def list_of_client(found: projects.ProjectList) -> None:
    """List the projects of CLIENT that had documents or were put into a group."""
    rows = [(one.project_id, one.group_id or "-") for one in found.projects]
    print_table(("PROJECT", "GROUP"), rows, "no projects")


@project_command.operation(
    "remove", projects.remove_project, arguments=("client_id", "project_id"), fields=_OF_CLIENT, anywhere=True, json=""
)
def remove_of_client(move: projects.ProjectMove, request: projects.RemoveProject) -> None:
    """Remove PROJECT of CLIENT from the registry and its group. Its documents stay, visible to this project alone."""
    click.echo(f"project {request.project_id} of client {request.client_id} is no longer registered")
    _describe(move.changes)


def _describe(changes: Sequence[SightChange], *, planned: bool = False) -> None:
    """Prints a line for each project and the scopes that it gains or loses."""
    sees, loses = ("will see", "will no longer see") if planned else ("now sees", "no longer sees")
    for change in changes:
        if change.gained:
            click.echo(f"project {change.project_id} {sees} {', '.join(change.gained)}")
        if change.lost:
            click.echo(f"project {change.project_id} {loses} {', '.join(change.lost)}")


# -- use


@operation_command("usage", usage.get_usage, items="clients", without=("limit", "after"))
@click.option("--csv", "as_csv", is_flag=True, help="Print it as CSV.")
def usage_command(found: usage.Usage, *, as_csv: bool, as_json: bool) -> None:
    """List questions and documents of a month by client.

    \b
    opx usage --month 2026-11
    opx --client acme usage --csv

    Each night counts the day before. `opx call measure_usage` counts a day again. docs/tenants.md defines the numbers.
    """
    if as_json:
        return
    rows = [dict(to_json(one)) for one in found.clients]
    if as_csv:
        writer = csv.DictWriter(sys.stdout, [*ClientUsage.__struct_encode_fields__], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        return
    shown = ("questions", "documents", "chunks", "ingestedDocuments", "ingestedChunks", "ingestedTokens")
    heads = ("CLIENT", "QUESTIONS", "DOCUMENTS", "CHUNKS", "NEW DOCUMENTS", "NEW CHUNKS", "NEW TOKENS")
    numbers = [[one["clientId"] or "global", *(_number(one[name]) for name in shown)] for one in rows]
    hint = "`opx run` counts each day in the night after it, `opx call measure_usage` at once"
    print_table(heads, numbers, f"nothing was counted in {found.month}: {hint}")


@operation_command("costs", usage.get_costs, without=("limit",))
def costs_command(found: usage.Costs, *, as_json: bool) -> None:
    """Estimate the costs of this month so far and of the last one, by service and by client.

    It multiplies the use that `opx usage` lists by the prices of AWS in us-east-1. A system on this machine is free.
    """
    if as_json:
        return
    for month in found.months:
        click.echo(f"{month.month}: {_costs_line(found, month)}")
        clients = [
            [one.client_id or "global", _number(one.questions), _number(one.documents), _number(one.new_tokens)]
            + [f"{one.dollars:,.2f}"] * found.is_billed
            for one in month.clients
        ]
        print_table(("CLIENT", "QUESTIONS", "DOCUMENTS", "NEW TOKENS", "US$"), clients, "nothing was counted")
        if found.is_billed:
            print_table(("SERVICE", "US$"), [[one.service, f"{one.dollars:,.2f}"] for one in month.services])
    for text in found.left_out if found.is_billed else ():
        click.echo(f"left out: {text}")


def _costs_line(found: usage.Costs, month: MonthCosts) -> str:
    counted = f"{plural(month.days, 'day')} counted"
    if not found.is_billed:
        return f"{counted}; this system runs on this machine, and AWS bills nothing for it"
    budget = f" of {found.budget:,} US$ budgeted" if found.budget else ""
    return f"about {month.dollars:,.2f} US${budget}, {counted}"


def _number(count: object) -> str:
    return "-" if count is None else f"{count:,}"
