"""`opx export` and `opx import`: a backup in one file, put back here or elsewhere."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from opx.edges.cli.operations import Shape, request_command
from opx.edges.cli.output import CommandFailed, exit_unless, plural, print_json, printable, readable_size, warn
from opx.edges.cli.session import Session
from opx.errors import ArchiveError
from opx.operations import administration

if TYPE_CHECKING:
    from opx.lifecycle.report import ImportReport

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


@request_command("export", administration.export_archive, Shape(arguments=("path",)), json="Print the report as JSON.")
@click.argument("path", metavar="FILE", type=click.Path(dir_okay=False, path_type=Path))
def export_command(session: Session, request: administration.ExportArchive, *, as_json: bool) -> None:
    """Write into FILE everything that can't be made anew: documents with all their versions, what work taught and what
    came of documents, clients and projects, names, holds, baselines, gaps and sources. Of all clients.

    Not in it: secrets, index, graph and cached vectors; `opx import` has the last three made anew. Others may work
    meanwhile. FILE appears when it is whole, and only you may read it: it holds all that is known.

    For a folder of this machine, and for a system on AWS by whoever may use its stores themselves (OPX_BACKEND=aws with
    the settings of its functions). How to check a backup: docs/backup.md.
    """
    with Phases() as phases:
        report = session.watched_client(phases.progress).call(administration.export_archive, request)
    warn(*report.notes)
    if as_json:
        print_json(report.to_json())
        return
    counts = report.counts
    click.echo(
        f"{request.path}: {readable_size(report.size)}, {plural(counts['documents'], 'document')} in "
        f"{plural(counts['versions'], 'version')}"
    )
    click.echo(f"sha256 {report.sha256}")


@request_command(
    "import",
    administration.import_archive,
    Shape(
        arguments=("path",),
        fields={"dry_run": "Verify the archive, show what it would bring, and change nothing."},
        anywhere=True,
    ),
    json="Print the report as JSON.",
)
@click.argument("path", metavar="FILE", type=click.Path(exists=True, dir_okay=False, path_type=Path))
def import_command(session: Session, request: administration.ImportArchive, *, as_json: bool) -> None:
    """Take in FILE, which `opx export` wrote, here or elsewhere, on a laptop or on AWS.

    Every checksum and every line is verified before anything is changed. Then the history of the documents and all that
    was kept beside them are put back, and the documents are taken in: index and graph are made anew. An import that was
    interrupted goes on when it is run again.

    With --merge, a document that is here stays unless that of the archive is newer; then it becomes a further version.
    Of everything else, what is here stays as it is.

    For a folder of this machine, and for a system on AWS by whoever may use its stores themselves (OPX_BACKEND=aws with
    the settings of its functions), where functions take the documents in.

    Exit codes: 0 done, 1 some documents could not be taken in (`opx failed`), 2 the archive was refused or a store failed.
    """
    try:
        with Phases() as phases:
            report = session.watched_client(phases.progress).call(administration.import_archive, request)
    except ArchiveError as exc:  # may quote an archive that somebody made to harm
        raise CommandFailed(printable(str(exc))) from exc
    warn(*(printable(note) for note in report.notes))
    if as_json:
        print_json(report.to_json())
    else:
        _print_import(report)
    exit_unless(not report.failed)


def _print_import(report: ImportReport) -> None:
    facts = report.archive
    made, backend = printable(facts.made), printable(facts.backend)
    click.echo(f"archive of {made}, of a system on {backend}: all checksums are right")
    verb = "would be " if report.dry_run else ""
    for fate, count in report.documents.items():
        click.echo(f"{plural(count, 'document')} {verb}{fate.value}")
    if report.dry_run:
        return
    click.echo(f"{plural(sum(report.rows.values()), 'row')} and {plural(report.files, 'file')} put back")
    if report.waiting:
        click.echo(f"functions take in {plural(report.waiting, 'document')} now; `opx status` shows how far they are")
    if report.failed:
        click.echo(f"{plural(report.failed, 'document')} could not be taken in: `opx failed` says why")
