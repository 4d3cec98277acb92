"""`opx restore`: an old version of a document, put back."""

from __future__ import annotations

import click

from opx.cli.intake import Tally, still_under_way
from opx.cli.output import NO_ANSWER, warn
from opx.cli.session import Session, pass_session
from opx.domain.versions import Restored
from opx.operations.corpus import RestoreDocument, restore_document


@click.command("restore")
@click.argument("document_id", metavar="DOCUMENT_ID")
@click.option(
    "--version", type=click.IntRange(min=1), metavar="N", help="Which version.  [default: the one with this id]"
)
@pass_session
def restore_command(session: Session, document_id: str, *, version: int | None) -> None:
    """Put an old version of a document back, also of a deleted one. It becomes a new version: nothing is lost.

    Where the store still has the file of then, the file is restored as it was; else the text that was read of it. Where
    the document comes from a file or a source of yours, put it right there, too: taking it in again replaces what was
    restored.

    Exit codes: 0 it is restored, 1 taking it in failed (see `opx failed`) or is still under way after the wait, 2 it is
    unknown, another's, or current.
    """
    session.require_knowledge()
    session.loader.note_failures()
    restored = session.call(restore_document, RestoreDocument(document_id=document_id, version=version))
    what = "as the file was" if restored.original else "as the text that was read of it"
    click.echo(f"version {restored.restored.version} of {restored.object_key} is put back, {what}")
    for note in restored.notes:
        warn(note)
    tally = Tally(sent={restored.object_key})
    for outcome in session.loader.outcomes([restored.object_key]):
        tally.add(outcome)
    _tell(restored, tally)
    if tally.failures or tally.left_to_others:
        click.get_current_context().exit(NO_ANSWER)


def _tell(restored: Restored, tally: Tally) -> None:
    for failure in tally.failures:
        warn(f"failed: {failure.reason}")
    if tally.left_to_others:
        warn(still_under_way(tally.left_to_others))
    outcome = tally.outcomes.get(restored.object_key)
    if outcome is None or not outcome.document_id or tally.failures:
        return
    if outcome.document_id == restored.restored.document_id:
        click.echo(f"document {outcome.document_id} is current again")
    else:
        warn(
            f"the document that is current now, {outcome.document_id}, is not the same as version "
            f"{restored.restored.version}: see `opx diff {outcome.document_id} --from {restored.restored.version}`"
        )
