"""`opx project`: which of a client's projects share knowledge."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from opx.cli.output import print_table
from opx.cli.session import Session, pass_session
from opx.operations.projects import (
    AssignProject,
    GetProject,
    ListProjects,
    RemoveProject,
    assign_project,
    get_project,
    list_projects,
    preview_project_move,
    remove_project,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opx.retrieval.readers import SightChange


@click.group("project")
def project_command() -> None:
    """Put a client's projects into groups: those of one group see each other's documents.

    \b
    opx project list acme
    opx project assign acme shop payments --dry-run      who would see what, and who no longer
    opx project assign acme shop payments
    """


@project_command.command("assign")
@click.argument("client")
@click.argument("project")
@click.argument("group")
@click.option("--dry-run", is_flag=True, help="Show who would see what, and move nothing.")
@pass_session
def assign(session: Session, client: str, project: str, group: str, *, dry_run: bool) -> None:
    """Put PROJECT of CLIENT into GROUP; "" takes it out. Takes effect on the next question."""
    move = AssignProject(client_id=client, project_id=project, group_id=group)
    if dry_run:
        _describe(session.client.call(preview_project_move, move).changes, planned=True)
        return
    changes = () if session.is_remote else session.client.call(preview_project_move, move).changes
    session.client.call(assign_project, move)
    click.echo(f"project {project} of client {client} is in " + (f"group {group}" if group else "no group"))
    _describe(changes)


@project_command.command("show")
@click.argument("client")
@click.argument("project")
@pass_session
def show(session: Session, client: str, project: str) -> None:
    """Show the group of PROJECT of CLIENT, and whose documents it may see."""
    found = session.call(get_project, GetProject(client_id=client, project_id=project))
    click.echo(f"group  {found.group_id or '-'}")
    for scope in found.visible:
        click.echo(f"sees   {scope}")


@project_command.command("list")
@click.argument("client")
@click.option("--group", metavar="ID", help="Those of this group alone.")
@pass_session
def list_(session: Session, client: str, group: str | None) -> None:
    """List the projects of CLIENT that had documents or were put into a group."""
    found = session.client.call(list_projects, ListProjects(client_id=client, group_id=group or "")).projects
    rows = [(place.project_id, place.group_id or "-") for place in found]
    if rows:
        print_table(("PROJECT", "GROUP"), rows)
    else:
        click.echo("no projects")


@project_command.command("remove")
@click.argument("client")
@click.argument("project")
@pass_session
def remove(session: Session, client: str, project: str) -> None:
    """Forget that PROJECT of CLIENT is there and in a group. Its documents stay, and are its own."""
    move = session.client.call(remove_project, RemoveProject(client_id=client, project_id=project))
    click.echo(f"project {project} of client {client} is in no list any more")
    _describe(move.changes)


def _describe(changes: Sequence[SightChange], *, planned: bool = False) -> None:
    """A line for each project and what it gains or loses."""
    sees, loses = ("will see", "will no longer see") if planned else ("now sees", "no longer sees")
    for change in changes:
        if change.gained:
            click.echo(f"project {change.project_id} {sees} {', '.join(change.gained)}")
        if change.lost:
            click.echo(f"project {change.project_id} {loses} {', '.join(change.lost)}")
