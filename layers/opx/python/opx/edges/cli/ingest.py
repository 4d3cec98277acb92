"""`opx ingest`, `opx rebuild`, `opx failed`: documents taken in, taken in again, and those that could not be."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from opx.domain.ids import beginning_so
from opx.edges.cli.intake import Intake, IntakeTally, canonical, find_category, finish, tell_closed_gaps
from opx.edges.cli.operations import CommandShape, OperationGroup, request_command, whole
from opx.edges.cli.output import (
    INTERRUPTED,
    SHORT_ID,
    CommandFailed,
    exit_unless,
    plural,
    print_json,
    print_table,
    warn,
)
from opx.edges.cli.reporting import reporter_for_stderr
from opx.edges.cli.session import Session, pass_session
from opx.errors import InvalidInputError
from opx.ingestion.corpus.failures import Failure
from opx.ingestion.events import SIDECAR_SUFFIX, EventOutcome, Result
from opx.operations.administration import REBUILD_ELSEWHERE, Rebuild, rebuild
from opx.operations.corpus import MAX_BATCH, FailurePage, ListFailures, RetryFailures, list_failures, retry_failures

TO_GO_ON = "interrupted: what was finished is kept; run the same command again to go on"


@click.command("ingest")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...", type=click.Path(path_type=Path))
@click.option("--category", metavar="NAME", help="Category of all files, whatever they or their folders say.")
@click.option("--tag", "tags", multiple=True, metavar="TAG", help="Tag of all files; may be given several times.")
@click.option("--delete-missing", is_flag=True, help="Remove documents of these folders whose files are gone.")
@click.option("--force", is_flag=True, help="With --delete-missing: even if more than a fifth is gone.")
@click.option(
    "--wait/--no-wait",
    default=True,
    help="Of a deployed system: wait until the documents are found, or leave them to its workers.  [default: wait]",
)
@pass_session
def ingest_command(
    session: Session,
    paths: tuple[Path, ...],
    *,
    category: str | None,
    tags: tuple[str, ...],
    delete_missing: bool,
    force: bool,
    wait: bool,
) -> None:
    """Take files and folders in: Markdown, plain text, HTML and JSON.

    A file that is unchanged is skipped, a changed one becomes the new version of its document. The category is, in this
    order: --category, the sidecar's (x.md.metadata.json), the folders' (postmortems/x.md), the front matter's, the
    default. Hidden files are left out.

    Exit codes: 0 all is in, 1 something failed (see `opx failed`) or is still under way after the wait, 2 wrong usage,
    130 interrupted. With --no-wait, what is left to the workers is no reason for 1.
    """
    started = time.perf_counter()
    metadata: dict[str, Any] = {"tags": list(tags)} if tags else {}
    if category:
        metadata["category"] = find_category(session.client, category)
    tally = IntakeTally()
    try:
        with reporter_for_stderr(uploads=session.is_remote) as reporter:
            intake = Intake(session.client, session.loader, session.place, reporter)
            steps = intake.plan(paths)
            folders = [folder for path in paths if (folder := canonical(path)).is_dir()]
            gone = intake.missing(folders, steps, force=force) if delete_missing else []
            intake.put(steps, metadata, tally)
            intake.remove(gone, tally)
            if wait or not session.is_remote:  # a folder has no workers: what isn't done here is not done
                intake.work(tally)
    except KeyboardInterrupt:
        raise CommandFailed(TO_GO_ON, INTERRUPTED) from None
    tell_closed_gaps(session.client, tally)
    finish(tally, started, left=tally.left_to_others if wait else 0)


@request_command(
    "rebuild",
    rebuild,
    CommandShape(
        fields={"graph": "Take in every document again, and all that it says of things."}, elsewhere=REBUILD_ELSEWHERE
    ),
    json="",
)
def rebuild_command(session: Session, request: Rebuild) -> None:
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
    tally = IntakeTally()
    with reporter_for_stderr() as reporter:
        tally.sent.update(session.call(rebuild, request).object_keys)
        Intake(session.client, session.loader, session.place, reporter).work(tally)
    finish(tally, started)


# -- what could not be taken in


@click.group("failed", invoke_without_command=True, cls=OperationGroup)
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


@failed_command.operation(
    "list", list_failures, CommandShape(without=("limit", "after"), items="failures"), json="Print them as JSON."
)
def list_failed(found: FailurePage) -> None:
    """List failed items with their reasons."""
    rows = [(i.failure_id[:SHORT_ID], i.failed_at, str(i.attempts), i.object_key, i.reason) for i in found.failures]
    print_table(("ID", "FAILED AT", "ATTEMPTS", "OBJECT", "REASON"), rows, "nothing failed")


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
    known = whole(session.client, list_failures, ListFailures(), "failures").failures
    items = known if everything else [_wanted(known, wanted) for wanted in ids]
    outcomes = _retried(session, items)
    _print_outcomes(outcomes, items, as_json=as_json)
    exit_unless(all(outcome.result is not Result.FAILED for outcome in outcomes))


def _wanted(items: Sequence[Failure], wanted: str) -> Failure:
    found = beginning_so(wanted, items, lambda item: f"{item.failure_id}  {item.object_key}", kind="failed items")
    if found is None:
        raise InvalidInputError(f"no failed item has an id that begins with {wanted!r}; `opx failed` lists them")
    return found


def _retried(session: Session, items: Sequence[Failure]) -> list[EventOutcome]:
    """Have the items ingested, which removes those that are settled; what concerns others is left out."""
    session.loader.note_failures()
    keys: list[str] = []
    for at in range(0, len(items), MAX_BATCH):
        ids = tuple(item.failure_id for item in items[at : at + MAX_BATCH])
        keys += session.client.call(retry_failures, RetryFailures(failure_ids=ids)).object_keys
    return [o for o in session.loader.outcomes(keys) if o.object_key.removesuffix(SIDECAR_SUFFIX) in keys]


def _print_outcomes(outcomes: Sequence[EventOutcome], items: Sequence[Failure], *, as_json: bool) -> None:
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
