"""`opx ingest`, `opx rebuild`, `opx failed`: ingests documents, repairs the index, and lists and retries failed items."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from opx.domain.ids import beginning_so
from opx.edges.cli.intake import Intake, IntakeTally, canonical, find_category, finish, report_closed_gaps, report_gone
from opx.edges.cli.operations import AS_JSON_LINES, OperationGroup, request_command, whole
from opx.edges.cli.output import (
    INTERRUPTED,
    SHORT_ID,
    CommandFailed,
    exit_unless,
    plural,
    print_json,
    print_table,
    safe,
    warn,
)
from opx.edges.cli.reporting import reporter_for_stderr
from opx.edges.cli.session import Session, pass_session
from opx.errors import InvalidInputError
from opx.ingestion.corpus.failures import Failure
from opx.ingestion.events import SIDECAR_SUFFIX, EventOutcome, Result
from opx.operations.administration import REBUILD_ELSEWHERE, Rebuild, rebuild
from opx.operations.corpus import MAX_BATCH, FailurePage, ListFailures, RetryFailures, list_failures, retry_failures

RESUME_HINT = "interrupted: what was finished is kept; run the same command again to go on"


@click.command("ingest")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...", type=click.Path(path_type=Path))
@click.option(
    "--category", metavar="NAME", help="Category of all files, instead of their own or that of their folders."
)
@click.option("--tag", "tags", multiple=True, metavar="TAG", help="Tag of all files; may be given several times.")
@click.option("--group", metavar="ID", help="Group of the client that the documents belong to; its projects see them.")
@click.option("--mirror", is_flag=True, help="Remove documents of these folders whose files are gone.")
@click.option("--force", is_flag=True, help="With --mirror: remove them even if more than a fifth is gone.")
@click.option(
    "--wait/--no-wait",
    default=True,
    help="Deployed system: wait until the documents are searchable, or leave them to its workers.  [default: wait]",
)
@pass_session
def ingest_command(
    session: Session,
    paths: tuple[Path, ...],
    *,
    category: str | None,
    tags: tuple[str, ...],
    group: str | None,
    mirror: bool,
    force: bool,
    wait: bool,
) -> None:
    """Ingest files and folders: Markdown, HTML, PDF, Office, e-mail, images, tables, configuration
    and code (docs/sources.md).

    An unchanged file is skipped, a changed one becomes the new version of its document. The category comes from the
    first of these that states one: --category, the sidecar (x.md.metadata.json), the folder (postmortems/x.md), the
    front matter, the default. Hidden files are left out.

    Exit codes: 0 all is ingested, 1 something failed (see `opx failed`) or is unfinished after the wait, 2 wrong usage,
    130 interrupted. With --no-wait, documents that workers still ingest count as finished.
    """
    started = time.perf_counter()
    if group:
        session.put_into_group(group)
        _warn_of_unknown_group(session, group)
    metadata: dict[str, Any] = {"tags": list(tags)} if tags else {}
    if category:
        metadata["category"] = find_category(session.client, category)
    tally = IntakeTally()
    try:
        with reporter_for_stderr(uploads=session.is_remote) as reporter:
            intake = Intake(session.client, session.loader, session.working_folder, reporter)
            folders = [folder for path in paths if (folder := canonical(path)).is_dir()]
            steps = intake.renamed(folders, intake.plan(paths))
            removed = intake.missing(folders, steps, force=force) if mirror else []
            gone = [] if mirror else list(intake.gone(folders, steps))
            intake.put(steps, metadata, tally)
            intake.remove(removed, tally)
            if wait or not session.is_remote:  # a folder has no workers: what isn't done here is not done
                intake.work(tally)
    except KeyboardInterrupt:
        raise CommandFailed(RESUME_HINT, INTERRUPTED) from None
    for folder, names in gone:
        report_gone(folder, names)
    report_closed_gaps(session.client, tally)
    finish(tally, started, left=tally.left_to_others if wait else 0)


def _warn_of_unknown_group(session: Session, group: str) -> None:
    projects = session.services.corpus.projects.projects(session.settings.client_id)
    if all(project.group_id != group for project in projects):
        assign = f"opx project assign {session.settings.client_id} PROJECT {group}"
        warn(f"no project is in group {group} yet, so that nobody sees its documents: `{assign}`")


@request_command(
    "rebuild",
    rebuild,
    fields={"graph": "Ingest every document again, with all its statements about things."},
    elsewhere=REBUILD_ELSEWHERE,
    json="",
)
def rebuild_command(session: Session, request: Rebuild) -> None:
    """Check all stored documents and ingest again those that the index lacks.

    Use it after an upgrade that can't read the old index, or if the index is damaged. First delete the folder `index`
    in the home folder (`index-NAME`, if `opx reindex` made it). `opx reindex` instead builds a new index while the old
    one answers. Vectors are cached, so only a new embedding model takes long. You can run it at any time: intact
    documents stay as they are.

    A complete index keeps its documents and their relations. --graph ingests every document again, and so extracts
    things and relations again. Use it if an upgrade has other rules for them, or if some are missing. Aliases and
    merges set by people stay.

    Exit codes: 0 done, 1 something failed, 2 another error.
    """
    started = time.perf_counter()
    tally = IntakeTally()
    with reporter_for_stderr() as reporter:
        tally.sent.update(session.call(rebuild, request).object_keys)
        Intake(session.client, session.loader, session.working_folder, reporter).work(tally)
    finish(tally, started)


# -- failed items


@click.group("failed", invoke_without_command=True, cls=OperationGroup)
@click.option("--json", "as_json", is_flag=True, help="Print them as JSON.")
@click.option("--jsonl", "as_jsonl", is_flag=True, help=AS_JSON_LINES)
@click.pass_context
def failed_command(context: click.Context, *, as_json: bool, as_jsonl: bool) -> None:
    """List documents that could not be ingested, the oldest first, or retry them.

    \b
    opx failed                 list
    opx failed retry ID...     retry some
    opx failed retry --all     retry all
    """
    if context.invoked_subcommand is None:
        context.invoke(list_failed, as_json=as_json, as_jsonl=as_jsonl)


@failed_command.operation(
    "list", list_failures, without=("limit", "after"), items="failures", json="Print them as JSON."
)
def list_failed(found: FailurePage) -> None:
    """List failed items with their reasons."""
    rows = [(i.failure_id[:SHORT_ID], i.failed_at, str(i.attempts), i.object_key, i.reason) for i in found.failures]
    print_table(("ID", "FAILED AT", "ATTEMPTS", "OBJECT", "REASON"), rows, "nothing failed")


@failed_command.command("retry")
@click.argument("ids", nargs=-1, metavar="[ID...]")
@click.option("--all", "everything", is_flag=True, help="Retry all failed items.")
@click.option("--json", "as_json", is_flag=True, help="Print the outcomes as JSON.")
@pass_session
def retry_failed(session: Session, ids: tuple[str, ...], *, everything: bool, as_json: bool) -> None:
    """Retry failed items as they are stored now; an item leaves the list once it is settled.

    After correcting a file, use `opx ingest` instead: it replaces the stored file and its failure.
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
    """Ingests the items, which removes those that are settled; outcomes of other documents are left out."""
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
            click.echo(safe(f"{outcome.result.value}  {text}"))
    if not items:
        click.echo("nothing to retry")
    elif not outcomes:
        click.echo(f"sent {plural(len(items), 'item')} to the queue; its workers retry them")
