"""`opx rebuild`: the index again, from the corpus."""

from __future__ import annotations

import time

import click

from opx.cli.ingest_command import finish
from opx.cli.intake import Intake, Tally
from opx.cli.reporting import reporter_for_stderr
from opx.cli.session import Session, pass_session
from opx.errors import InvalidInputError
from opx.ingestion.announcing import AnnouncingObjectStore

ON_AWS = (
    "rebuild works on a folder of this machine. A deployed system gets a new index by a deployment (docs/deploy.md); "
    "then `opx ingest` of the same files sends again what that index lacks"
)


@click.command("rebuild")
@pass_session
def rebuild_command(session: Session) -> None:
    """Go through all stored documents and take in again those that the index lacks.

    After an upgrade that can't read the old index, or when the index is damaged: delete the folder `index` in the home
    folder, then run this. Vectors are cached, so that only a new embedding model costs time. Nothing is lost by running
    it at any other time: what is in order stays as it is.

    Exit codes: 0 done, 1 something failed, 2 another error.
    """
    started = time.perf_counter()
    if session.is_remote:
        raise InvalidInputError(ON_AWS)
    base = session.existing_base()
    store = session.services.store
    if not isinstance(store, AnnouncingObjectStore):
        raise InvalidInputError(ON_AWS)
    tally = Tally()
    with reporter_for_stderr() as reporter:
        tally.sent.update(store.announce_all())
        Intake(base, session.place, reporter).work(tally)
    finish(tally, started)
