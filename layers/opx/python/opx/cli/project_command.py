"""`opx project`: which of a client's projects share knowledge."""

from __future__ import annotations

import click

from opx.cli.session import Session, pass_session


@click.group("project")
def project_command() -> None:
    """Put a client's projects into groups: those of one group see each other's documents."""


@project_command.command("assign")
@click.argument("client")
@click.argument("project")
@click.argument("group")
@pass_session
def assign(session: Session, client: str, project: str, group: str) -> None:
    """Put PROJECT of CLIENT into GROUP; "" takes it out. Takes effect on the next question."""
    session.base.assign_project(client, project, group)
    click.echo(f"project {project} of client {client} is in " + (f"group {group}" if group else "no group"))


@project_command.command("show")
@click.argument("client")
@click.argument("project")
@pass_session
def show(session: Session, client: str, project: str) -> None:
    """Show the group of PROJECT of CLIENT, and whose documents it may see."""
    found = session.existing_base().project(client, project)
    click.echo(f"group  {found.group_id or '-'}")
    for scope in found.visible:
        click.echo(f"sees   {scope}")
