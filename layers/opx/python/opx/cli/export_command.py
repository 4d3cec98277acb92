"""`opx export`: a backup in one file."""

from __future__ import annotations

from pathlib import Path

import click

from opx.cli.archive_progress import Phases
from opx.cli.output import plural, print_json, readable_size, warn
from opx.cli.session import Session, pass_session
from opx.operations.administration import ExportArchive, export_archive


@click.command("export")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--audit", is_flag=True, help="Also who asked what when, and the key of this installation's hashes.")
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
@pass_session
def export_command(session: Session, file: Path, *, audit: bool, as_json: bool) -> None:
    """Write into FILE everything that can't be made anew: documents with all their versions, what work taught and what
    came of documents, clients and projects, names, holds, baselines, gaps and sources. Of all clients.

    Not in it: secrets, index, graph and cached vectors; `opx import` has the last three made anew. Others may work
    meanwhile. FILE appears when it is whole, and only you may read it: it holds all that is known.

    For a folder of this machine, and for a system on AWS by whoever may use its stores themselves (OPX_BACKEND=aws with
    the settings of its functions). How to check a backup: docs/backup.md.
    """
    session.require_knowledge()
    with Phases() as phases:
        report = session.watched_client(phases.progress).call(
            export_archive, ExportArchive(path=str(file), audit=audit)
        )
    for note in report.notes:
        warn(note)
    if as_json:
        print_json(report.to_json())
        return
    counts = report.counts
    click.echo(
        f"{file}: {readable_size(report.size)}, {plural(counts['documents'], 'document')} in "
        f"{plural(counts['versions'], 'version')}"
    )
    click.echo(f"sha256 {report.sha256}")
