"""`opx import`: a backup put back, or knowledge brought from another system."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from opx.cli.archive_progress import Phases
from opx.cli.output import NO_ANSWER, CommandFailed, plural, print_json, printable, warn
from opx.cli.session import Session, pass_session
from opx.errors import ArchiveError
from opx.operations.administration import ImportArchive, import_archive

if TYPE_CHECKING:
    from opx.lifecycle.report import ImportReport


@click.command("import")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--dry-run", is_flag=True, help="Verify the archive, show what it would bring, and change nothing.")
@click.option("--merge", is_flag=True, help="Into a system that has knowledge: what is new or newer is taken.")
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
@pass_session
def import_command(session: Session, file: Path, *, dry_run: bool, merge: bool, as_json: bool) -> None:
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
    request = ImportArchive(path=str(file), merge=merge, dry_run=dry_run)
    try:
        with Phases() as phases:
            report = session.watched_client(phases.progress).call(import_archive, request)
    except ArchiveError as exc:  # may quote an archive that somebody made to harm
        raise CommandFailed(printable(str(exc))) from exc
    for note in report.notes:
        warn(printable(note))
    if as_json:
        print_json(report.to_json())
    else:
        _print(report)
    if report.failed:
        click.get_current_context().exit(NO_ANSWER)


def _print(report: ImportReport) -> None:
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
