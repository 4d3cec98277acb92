"""`opx edit`, `opx reviewed`: edits the text of a document, marks it as reviewed."""

from __future__ import annotations

import tempfile
from pathlib import Path, PurePosixPath

import click

from opx.domain.record import replace
from opx.edges.cli.documents import NAME, await_ingestion, version_named
from opx.edges.cli.operations import request_command
from opx.edges.cli.output import CommandFailed, safe
from opx.edges.cli.session import Session, pass_session
from opx.errors import ConditionFailedError
from opx.operations.lifecycle import REVIEW_DAYS, MarkReviewed, mark_reviewed
from opx.operations.texts import OriginalText, ReadText, WriteText, read_text, write_text


@request_command("reviewed", mark_reviewed, arguments=("document_id",), json="")
@NAME
@click.option(
    "--days", type=click.IntRange(1, 3650), default=REVIEW_DAYS, show_default=True, help="Days until the next review."
)
def reviewed_command(session: Session, request: MarkReviewed) -> None:
    """Mark a document as reviewed: its next review is due after some days, whatever its text states.

    A prefix of the id is enough, the end of a path, an address or a title. A changed text needs a new review.
    """
    document = version_named(session, request.document_id).document
    session.loader.note_failures()
    found = session.call(mark_reviewed, replace(request, document_id=document.document_id))
    await_ingestion(session, [found.object_key])
    click.echo(safe(f"{document.title}: to be reviewed again by {found.review.until}"))


@click.command("edit")
@click.argument("source", metavar="SOURCE")
@click.option("--new", "is_new", is_flag=True, help="Write a document that doesn't exist yet.")
@pass_session
def edit_command(session: Session, source: str, *, is_new: bool) -> None:
    """Edit the text of a document in $EDITOR: SOURCE is its name in the corpus, such as runbooks/disk-full.md.

    It becomes a new version. If another person changed the document meanwhile, nothing is written and your text is kept in
    a file. A document of a source is edited there.

    Exit codes: 0 it is written, or unchanged, 1 its ingestion failed, 2 it can't be edited, or was changed meanwhile.
    """
    empty = OriginalText(source, "", "", "")
    read = empty if is_new else session.call(read_text, ReadText(source=source))
    text = click.edit(read.text, extension=PurePosixPath(source).suffix or ".md", require_save=True)
    if text is None or text == read.text or not text.strip():
        click.echo("unchanged")
        return
    session.loader.note_failures()
    try:
        written = session.call(write_text, WriteText(source=source, text=text, expected=read.revision))
    except ConditionFailedError as exc:
        raise CommandFailed(f"{exc}. Your text is in {_kept(text, source)}", 2) from exc
    await_ingestion(session, [written.object_key])
    click.echo(safe(f"{source} is written"))


def _kept(text: str, source: str) -> Path:
    """A file of the user alone with text that wasn't written."""
    with tempfile.NamedTemporaryFile(
        "w", encoding="utf-8", prefix="opx-", suffix=PurePosixPath(source).suffix, delete=False
    ) as file:
        file.write(text)
    return Path(file.name)
