"""`opx delete`: documents out of the corpus."""

from __future__ import annotations

import sys

import click

from opx.cli.exits import NO_ANSWER
from opx.cli.output import plural, warn
from opx.cli.session import Session, pass_session
from opx.errors import InvalidInputError
from opx.ingestion.outcomes import Result
from opx.knowledge_base import no_progress


@click.command("delete")
@click.argument("document_ids", nargs=-1, required=True, metavar="DOCUMENT_ID...")
@click.option("-y", "--yes", is_flag=True, help="Don't ask.")
@pass_session
def delete_command(session: Session, document_ids: tuple[str, ...], *, yes: bool) -> None:
    """Remove documents: they are no longer found. Their versions stay readable with `opx show`.

    The files that they came from are not touched: taking them in again brings the documents back.
    """
    base = session.existing_base()
    documents = {found.document_id: found for found in (base.document(wanted).document for wanted in document_ids)}
    if not yes:
        _confirm([f"{found.document_id}  {found.title}" for found in documents.values()])
    sent: list[str] = []
    for document_id, document in documents.items():
        sent.extend(found.key.scope.prefix + found.key.source for found in base.delete(document_id))
        click.echo(f"deleted {document_id}  {document.title}")
    failures = [outcome for outcome in base.work(sent, no_progress) if outcome.result is Result.FAILED]
    for failure in failures:
        warn(f"failed: {failure.reason}")
    if failures:
        click.get_current_context().exit(NO_ANSWER)


def _confirm(lines: list[str]) -> None:
    if not sys.stdin.isatty():
        raise InvalidInputError("nobody can be asked here: add --yes to delete without a question")
    for line in lines:
        click.echo(line, err=True)
    click.confirm(f"Delete {plural(len(lines), 'document')}?", abort=True, err=True)
