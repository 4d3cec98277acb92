"""`opx secret`: credentials of sources on this machine."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from opx.cli.session import Session, pass_session
from opx.errors import InvalidInputError

if TYPE_CHECKING:
    from opx.ports.sources import WritableSecrets


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
    value = (_asked() if sys.stdin.isatty() else sys.stdin.read()).strip()
    if not value:
        raise InvalidInputError("an empty value is no secret; nothing was set")
    _secrets(session).put(name, value)
    click.echo(f"set {name}")


@secret_command.command("list")
@pass_session
def list_secrets(session: Session) -> None:
    """List the names of the secrets."""
    for name in _secrets(session).names():
        click.echo(name)


@secret_command.command("remove")
@click.argument("name")
@pass_session
def remove_secret(session: Session, name: str) -> None:
    """Remove a secret."""
    secrets = _secrets(session)
    if name not in secrets.names():
        raise InvalidInputError(f"there is no secret {name!r}; `opx secret list` shows those there are")
    secrets.delete(name)
    click.echo(f"removed {name}")


def _asked() -> str:
    answer: str = click.prompt("value", hide_input=True, err=True)
    return answer


def _secrets(session: Session) -> WritableSecrets:
    """Raises `InvalidInputError` for a deployed system."""
    if session.is_remote:
        raise InvalidInputError("secrets of a deployed system are in Secrets Manager: set them there")
    found: WritableSecrets = session.services.secrets  # type: ignore[assignment]  # the only one that there is here
    return found
