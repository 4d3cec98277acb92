"""`opx call`: any operation by its name."""

from __future__ import annotations

import click

from opx.cli.operations import plain_command


class Operations(click.Group):
    """A command an operation."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        from opx.operations import load

        return sorted(one.name for one in load())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        from opx.operations import load

        found = load().get(cmd_name.replace("-", "_"))
        return plain_command(found) if found else None


@click.group("call", cls=Operations)
def call_command() -> None:
    """Call an operation by its name, with its fields as options, and print its reply as JSON.

    \b
    opx call list_documents --category runbooks
    opx call --help                    all operations
    """
