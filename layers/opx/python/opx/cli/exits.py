"""How a command ends when it doesn't end well."""

from __future__ import annotations

from typing import IO, Any

import click

NO_ANSWER = 1
"""A search that found nothing good enough, as grep does it; also anything that failed for single documents."""

FAILED = 2
"""Usage errors, and everything else that kept a command from doing its work."""

UNEXPLAINED = 3
"""A replayed receipt has another answer, although nothing is known to have changed."""

TAMPERED = 4
"""A receipt was changed after it was given out."""

INTERRUPTED = 130
BROKEN_PIPE = 141
"""What a shell reports for a process that SIGINT or SIGPIPE ended."""


class CommandFailed(click.ClickException):
    """Ends the command with one line for people on stderr."""

    def __init__(self, message: str, exit_code: int = FAILED) -> None:
        super().__init__(message)
        self.exit_code = exit_code  # type: ignore[misc]  # click means it to be set

    def show(self, file: IO[Any] | None = None) -> None:
        click.echo(f"opx: {self.message}", file=file, err=True)
