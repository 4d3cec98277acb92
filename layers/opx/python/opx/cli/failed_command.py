"""`opx failed`: what could not be taken in."""

from __future__ import annotations

from collections.abc import Sequence

import click

from opx.cli.output import NO_ANSWER, SHORT_ID, plural, print_json, print_table, warn
from opx.cli.session import Session, pass_session
from opx.edges.calling import all_pages
from opx.errors import InvalidInputError
from opx.ingestion.events import SIDECAR_SUFFIX
from opx.ingestion.failures import Failure
from opx.ingestion.outcomes import Outcome, Result
from opx.operations.corpus import MAX_BATCH, ListFailures, RetryFailures, list_failures, retry_failures


@click.group("failed", invoke_without_command=True)
@click.option("--json", "as_json", is_flag=True, help="Print them as JSON.")
@click.pass_context
def failed_command(context: click.Context, *, as_json: bool) -> None:
    """List what could not be taken in, the oldest first, or try it again.

    \b
    opx failed                 list
    opx failed retry ID...     try some again
    opx failed retry --all     try all again
    """
    if context.invoked_subcommand is None:
        context.invoke(list_failed, as_json=as_json)


@failed_command.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print them as JSON.")
@pass_session
def list_failed(session: Session, *, as_json: bool) -> None:
    """List failed items with their reasons."""
    session.require_knowledge()
    items = _every_failure(session)
    if as_json:
        print_json([item.to_json() for item in items])
    elif not items:
        click.echo("nothing failed")
    else:
        rows = [(i.failure_id[:SHORT_ID], i.failed_at, str(i.attempts), i.object_key, i.reason) for i in items]
        print_table(("ID", "FAILED AT", "ATTEMPTS", "OBJECT", "REASON"), rows)


@failed_command.command("retry")
@click.argument("ids", nargs=-1, metavar="[ID...]")
@click.option("--all", "everything", is_flag=True, help="Try all failed items again.")
@click.option("--json", "as_json", is_flag=True, help="Print the outcomes as JSON.")
@pass_session
def retry_failed(session: Session, ids: tuple[str, ...], *, everything: bool, as_json: bool) -> None:
    """Try failed items again as they are stored now; an item leaves the list once it is settled.

    A file that was corrected is better taken in again: `opx ingest` replaces the stored one and its failure.
    """
    if bool(ids) == everything:
        raise InvalidInputError("name the items to retry (see `opx failed`), or give --all")
    session.require_knowledge()
    known = _every_failure(session)
    items = known if everything else [_wanted(known, wanted) for wanted in ids]
    outcomes = _settled(session, items)
    _print_outcomes(outcomes, items, as_json=as_json)
    if any(outcome.result is Result.FAILED for outcome in outcomes):
        click.get_current_context().exit(NO_ANSWER)


def _wanted(items: Sequence[Failure], wanted: str) -> Failure:
    found = [item for item in items if item.failure_id.startswith(wanted.lower())]
    if len(found) != 1:
        problem = "no failed item has" if not found else f"{len(found)} failed items have"
        raise InvalidInputError(f"{problem} an id that begins with {wanted!r}; `opx failed` lists them")
    return found[0]


def _every_failure(session: Session) -> list[Failure]:
    found = all_pages(session.client, list_failures, ListFailures())
    return [failure for page in found for failure in page.failures]


def _settled(session: Session, items: Sequence[Failure]) -> list[Outcome]:
    """Have the items ingested, which removes those that are settled; what concerns others is left out."""
    session.loader.note_failures()
    keys: list[str] = []
    for at in range(0, len(items), MAX_BATCH):
        ids = tuple(item.failure_id for item in items[at : at + MAX_BATCH])
        keys += session.client.call(retry_failures, RetryFailures(failure_ids=ids)).object_keys
    return [o for o in session.loader.outcomes(keys) if o.object_key.removesuffix(SIDECAR_SUFFIX) in keys]


def _print_outcomes(outcomes: Sequence[Outcome], items: Sequence[Failure], *, as_json: bool) -> None:
    if as_json:
        print_json([{"objectKey": o.object_key, "result": o.result.value, "reason": o.reason} for o in outcomes])
        return
    for outcome in outcomes:
        text = f"{outcome.object_key}: {outcome.reason}" if outcome.reason else outcome.object_key
        if outcome.result is Result.FAILED:
            warn(f"failed again: {text}")
        else:
            click.echo(f"{outcome.result.value}  {text}")
    if not items:
        click.echo("nothing to retry")
    elif not outcomes:
        click.echo(f"sent {plural(len(items), 'item')} to the queue; its workers try again")
