"""How far a long command is, on a terminal."""

from __future__ import annotations

import sys
import time

import click

_EVERY_SECONDS = 0.2
_WIDTH = 100


class Phases:
    """One line on stderr that tells what is done now; nothing where nobody looks. A context manager, which clears it."""

    def __init__(self) -> None:
        self._is_seen = sys.stderr.isatty()
        self._next = 0.0
        self._shown = False

    def __enter__(self) -> Phases:
        return self

    def __exit__(self, *_: object) -> None:
        if self._shown:
            click.echo("\r\033[K", err=True, nl=False)

    def progress(self, step: str, count: int) -> None:
        self.phase(f"{count:,} {step}" if count else step)

    def phase(self, text: str) -> None:
        now = time.monotonic()
        if not self._is_seen or now < self._next:
            return
        self._next, self._shown = now + _EVERY_SECONDS, True
        click.echo(f"\r\033[K{text[:_WIDTH]}", err=True, nl=False)
