"""`opx project`: which of a client's projects share knowledge."""

from __future__ import annotations

import click

from opx.cli.session import Session, pass_session
from opx.domain.scopes import Identity


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
    session.services.projects.assign(client, project, group)
    click.echo(f"project {project} of client {client} is in " + (f"group {group}" if group else "no group"))


@project_command.command("show")
@click.argument("client")
@click.argument("project")
@pass_session
def show(session: Session, client: str, project: str) -> None:
    """Show the group of PROJECT of CLIENT, and whose documents it may see."""
    projects = session.existing_services().projects
    reader = projects.reader(Identity(client, project))
    click.echo(f"group  {projects.group_of(client, project) or '-'}")
    for scope in reader.visible:
        click.echo(f"sees   {scope}")
