"""Questions that what was just taken in answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from opx.cli.intake import Tally
from opx.cli.output import warn
from opx.errors import OpxError
from opx.ingestion.outcomes import Result

if TYPE_CHECKING:
    from opx.edges.calling import Client


def tell_closed_gaps(client: Client, tally: Tally) -> None:
    """Ask open gaps again if anything was taken in on this machine, and say which have an answer now. That they can't be
    asked is said, and changes nothing of what was done."""
    from opx.edges.calling import LocalClient
    from opx.operations.questions import CheckGaps, check_gaps

    if not tally.count(Result.INGESTED) or not isinstance(client, LocalClient):
        return
    try:
        found = client.call(check_gaps, CheckGaps(every_scope=True))
    except OpxError as exc:
        warn(f"open gaps were not asked again: {exc}")
        return
    for gap in found.closed:
        click.echo(f"closed gap: {gap.question}  <- {gap.closed_by_title}")
