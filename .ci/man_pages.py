"""Writes a manual page for each `opx` command: `python .ci/man_pages.py FOLDER`."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import click
from click_man.core import write_man_pages

from opx import __version__
from opx.edges.cli.main import cli

GENERATED = "call"
"""The command whose subcommands are the operations, which docs/api describes."""

_EXAMPLES = re.compile(r"^\x08\n(.*?)(?=^\.(?:PP|SH))", re.MULTILINE | re.DOTALL)
"""A block whose lines click leaves as they are."""


def main(folder: Path) -> None:
    """Imports each command, which the group does when one is called, and writes the pages."""
    context = click.Context(cli, info_name="opx")
    for name in cli.list_commands(context):
        command = cli.get_command(context, name)
        if command is not None and name != GENERATED:
            cli.add_command(command, name)
    folder.mkdir(parents=True, exist_ok=True)
    write_man_pages("opx", cli, version=__version__, target_dir=str(folder))
    for page in folder.glob("*.1"):
        page.write_text(_EXAMPLES.sub(r".nf\n\1.fi\n", page.read_text(encoding="utf-8")), encoding="utf-8")
    click.echo(f"{len(list(folder.glob('*.1')))} pages in {folder}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
