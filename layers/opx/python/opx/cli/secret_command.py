"""`opx secret`: credentials of sources on this machine."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from opx.cli.session import Session, pass_session
from opx.errors import InvalidInputError

if TYPE_CHECKING:
    from opx.edges.calling import Client


@click.group("secret", no_args_is_help=True)
def secret_command() -> None:
    """Keep credentials of sources in a file that you alone can read. On AWS they are in Secrets Manager.

    \b
    opx secret set github-token      asks for the value, or reads it from a pipe
    opx secret list                  names, never values
    opx secret remove github-token
    """


@secret_command.command("set")
@click.argument("name")
@pass_session
def set_secret(session: Session, name: str) -> None:
    """Set a secret. The value is asked for, or read from a pipe: on a command line others could see it."""
    from opx.operations.webhooks import SetSecret
    from opx.operations.webhooks import set_secret as put

    value = _asked() if sys.stdin.isatty() else sys.stdin.read()
    _client(session).call(put, SetSecret(name=name, value=value))
    click.echo(f"set {name}")


@secret_command.command("list")
@pass_session
def list_secrets(session: Session) -> None:
    """List the names of the secrets."""
    from opx.operations.webhooks import ListSecrets
    from opx.operations.webhooks import list_secrets as listed

    for name in _client(session).call(listed, ListSecrets()).names:
        click.echo(name)


@secret_command.command("remove")
@click.argument("name")
@pass_session
def remove_secret(session: Session, name: str) -> None:
    """Remove a secret."""
    from opx.operations.webhooks import RemoveSecret
    from opx.operations.webhooks import remove_secret as remove

    _client(session).call(remove, RemoveSecret(name=name))
    click.echo(f"removed {name}")


def _asked() -> str:
    answer: str = click.prompt("value", hide_input=True, err=True)
    return answer


def _client(session: Session) -> Client:
    """Raises `InvalidInputError` for a deployed system."""
    if session.is_remote:
        raise InvalidInputError("secrets of a deployed system are in Secrets Manager: set them there")
    return session.client
