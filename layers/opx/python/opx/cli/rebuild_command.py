"""`opx rebuild`: index and graph again, from the corpus."""

from __future__ import annotations

import time

import click

from opx.cli.ingest_command import finish
from opx.cli.intake import Intake, Tally
from opx.cli.reporting import reporter_for_stderr
from opx.cli.session import Session, pass_session
from opx.errors import InvalidInputError
from opx.operations.administration import REBUILD_ELSEWHERE, Rebuild, rebuild


@click.command("rebuild")
@click.option(
    "--graph", "graph_too", is_flag=True, help="Take in every document again, and all that it says of things."
)
@pass_session
def rebuild_command(session: Session, *, graph_too: bool) -> None:
    """Go through all stored documents and take in again those that the index lacks.

    After an upgrade that can't read the old index, or when the index is damaged: delete the folder `index` in the home
    folder (`index-NAME`, if `opx reindex` made it), then run this. `opx reindex` makes a new one while questions are
    answered. Vectors are cached, so that only a new embedding model costs time. Nothing is lost by running it at any
    other time: what is in order stays as it is.

    Things and relations are found anew with each document that is taken in. Where only they are to be (an upgrade has
    other rules for them, or some are missing), give --graph. Names and merges that people have set stay.

    Exit codes: 0 done, 1 something failed, 2 another error.
    """
    started = time.perf_counter()
    if session.is_remote:
        raise InvalidInputError(REBUILD_ELSEWHERE)
    session.require_knowledge()
    tally = Tally()
    with reporter_for_stderr() as reporter:
        tally.sent.update(session.call(rebuild, Rebuild(graph=graph_too)).object_keys)
        Intake(session.client, session.loader, session.place, reporter).work(tally)
    finish(tally, started)
