"""`opx diff`: what changed between two versions of a document."""

from __future__ import annotations

import click

from opx.cli.output import print_json, warn
from opx.cli.session import Session, pass_session
from opx.domain.versions import VersionDiff, VersionName
from opx.operations.documents import DiffDocument, diff_document

_COLOURS = {"+": "green", "-": "red", "@": "cyan"}


@click.command("diff")
@click.argument("document_id", metavar="DOCUMENT_ID")
@click.option("--from", "before", type=click.IntRange(min=1), metavar="N", help="Compare with this version.")
@click.option("--to", "after", type=click.IntRange(min=1), metavar="M", help="The version to look at.")
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
@pass_session
def diff_command(session: Session, document_id: str, *, before: int | None, after: int | None, as_json: bool) -> None:
    """Show how a version of a document differs from the one that it replaced: its metadata, and its text line by line.

    Texts are those that were read of the files, as `opx show` prints them.
    """
    found = session.call(diff_document, DiffDocument(document_id=document_id, before=before, after=after))
    if as_json:
        print_json(found.to_json())
        return
    _print(found)


def _print(found: VersionDiff) -> None:
    click.echo(click.style(f"{found.source}: {_named(found.before)} -> {_named(found.after)}", bold=True))
    for change in found.changes:
        click.echo(f"  {change.field}: {change.before or '(none)'} -> {change.after or '(none)'}")
    for line in found.diff.splitlines()[2:]:
        click.echo(click.style(line, fg=_COLOURS.get(line[:1])))
    if not found.diff:
        click.echo("  the texts are equal")
    if found.cut:
        warn(f"the diff is longer than what is shown: {found.added:,} lines were added, {found.removed:,} removed")


def _named(name: VersionName) -> str:
    return f"version {name.version}" + (f" ({name.since})" if name.since else "")
