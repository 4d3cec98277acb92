"""`opx delete`: documents out of the corpus."""

from __future__ import annotations

import sys
from collections.abc import Collection

import click

from opx.cli.documents import find_versions
from opx.cli.intake import Tally, still_under_way
from opx.cli.output import NO_ANSWER, plural, warn
from opx.cli.session import Session, pass_session
from opx.domain.documents import DocumentState, KnowledgeDocument
from opx.edges.loading import remove_document
from opx.errors import AccessDeniedError, DocumentNotFoundError, InvalidInputError
from opx.operations.corpus import GetStatus, get_status


@click.command("delete")
@click.argument("document_ids", nargs=-1, required=True, metavar="DOCUMENT_ID...")
@click.option("-y", "--yes", is_flag=True, help="Don't ask.")
@pass_session
def delete_command(session: Session, document_ids: tuple[str, ...], *, yes: bool) -> None:
    """Remove documents: they are no longer found. Their versions stay readable with `opx show`.

    The files that they came from are not touched: taking them in again brings the documents back.

    Exit codes: 0 all are gone, 1 a removal failed (see `opx failed`) or is still under way after the wait, 2 a document
    is unknown or another's: then none is removed.
    """
    session.require_knowledge()
    client, loader = session.client, session.loader
    wanted = (find_versions(client, document_id).document for document_id in document_ids)
    documents = {document.document_id: document for document in wanted}
    _check_deletable(documents.values(), client.call(get_status, GetStatus()).scope)
    if not yes:
        _confirm([f"{found.document_id}  {found.title}" for found in documents.values()])
    sent: list[str] = []
    loader.note_failures()
    for document_id, document in documents.items():
        deleted = remove_document(client, document_id)
        sent.extend(found.key.scope.prefix + found.key.source for found in deleted)
        click.echo(f"deleted {document_id}  {document.title}")
    tally = Tally(sent=set(sent))
    for outcome in loader.outcomes(sent):
        tally.add(outcome)
    for failure in tally.failures:
        warn(f"failed: {failure.reason}")
    if tally.left_to_others:
        warn(still_under_way(tally.left_to_others))
    if tally.failures or tally.left_to_others:
        click.get_current_context().exit(NO_ANSWER)


def _check_deletable(documents: Collection[KnowledgeDocument], own: str) -> None:
    """Before the first is deleted, raises `DocumentNotFoundError` for one that is no longer current, and
    `AccessDeniedError` that names each that may be seen but belongs to another scope."""
    for document in documents:
        if document.state is not DocumentState.CURRENT:
            raise DocumentNotFoundError(f"document {document.document_id} is {document.state}: nothing is deleted")
    foreign = [
        f"{document.document_id} belongs to {document.key.scope.key}"
        for document in documents
        if document.key.scope.key != own
    ]
    if foreign:
        raise AccessDeniedError(f"{', '.join(foreign)}, you may delete only {own}: nothing is deleted")


def _confirm(lines: list[str]) -> None:
    if not sys.stdin.isatty():
        raise InvalidInputError("nobody can be asked here: add --yes to delete without a question")
    for line in lines:
        click.echo(line, err=True)
    click.confirm(f"Delete {plural(len(lines), 'document')}?", abort=True, err=True)
