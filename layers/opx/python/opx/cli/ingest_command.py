"""`opx ingest`: files and folders into the knowledge."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click

from opx.cli.closed_gaps import tell_closed_gaps
from opx.cli.intake import Intake, Tally, canonical, find_category, still_under_way, summary
from opx.cli.output import INTERRUPTED, NO_ANSWER, CommandFailed, warn
from opx.cli.reporting import reporter_for_stderr
from opx.cli.session import Session, pass_session

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
    tally = Tally()
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


def finish(tally: Tally, started: float, *, left: int = 0) -> None:
    """Print the failures, how many documents were waited for in vain, and the summary; exit with 1 for either."""
    for outcome in tally.failures:
        warn(f"failed: {outcome.reason}")
    if left:
        warn(still_under_way(left))
    if tally.remarks:
        warn(tally.remarks)
    click.echo(summary(tally, started))
    if tally.failures or left:
        click.get_current_context().exit(NO_ANSWER)
