"""`opx watch`: keeps the knowledge in sync with a folder."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import Any

import click

from opx.edges.calling import OperationClient
from opx.edges.cli.intake import (
    Intake,
    IntakeTally,
    WorkingFolder,
    canonical,
    find_category,
    report_closed_gaps,
    still_under_way,
    summary,
    warn_of,
)
from opx.edges.cli.output import safe, warn
from opx.edges.cli.reporting import Reporter, outcome_line, reporter_for_stderr
from opx.edges.cli.session import Session, pass_session
from opx.edges.loading import Loader
from opx.errors import InvalidInputError, StoreUnavailableError
from opx.ingestion.events import SIDECAR_SUFFIX, EventOutcome
from opx.ingestion.files import FileToIngest

DEBOUNCE_MS = 1000
QUIET_MS = 100
"""A burst of changes is handled when nothing happened for this long, or after `DEBOUNCE_MS`."""

TICK_MS = 200
SETTLE_SECONDS = 0.3
"""An editor may remove a file before it writes the new one: only a file that stays away is deleted."""


@click.command("watch")
@click.argument("folder", metavar="DIR", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option(
    "--category", metavar="NAME", help="Category of all files, instead of their own or that of their folders."
)
@click.option(
    "--delete-missing/--no-delete",
    "delete",
    default=True,
    show_default=True,
    help="Remove documents whose files are gone.",
)
@pass_session
def watch_command(session: Session, folder: Path, *, category: str | None, delete: bool) -> None:
    """Ingest a folder, then follow its changes until Ctrl-C: new, changed, renamed and deleted files.

    Prints one line per document on stdout; failures, and documents that a deployed system's workers take too long for,
    on stderr. `opx failed` lists failures, too.
    """
    from watchfiles import watch

    metadata = {"category": find_category(session.client, category)} if category else {}
    follower = Follower(
        session.client, session.loader, session.working_folder, canonical(folder), metadata, delete=delete
    )
    changes = watch(
        follower.folder,
        debounce=DEBOUNCE_MS,
        step=QUIET_MS,
        rust_timeout=TICK_MS,
        yield_on_timeout=True,
        raise_interrupt=False,
    )
    try:
        next(changes, None)  # from here on changes are recorded, so that none is missed while the folder is ingested
        follower.ingest()
        click.echo(f"watching {follower.folder}: Ctrl-C stops")
        for batch in changes:
            follower.react(Path(path) for _, path in batch)
    except KeyboardInterrupt:
        pass
    click.echo("stopped; `opx watch` again catches up")


@dataclass
class Follower:
    """Brings documents to the current state of their files, independent of the kinds of events."""

    client: OperationClient
    loader: Loader
    working_folder: WorkingFolder
    folder: Path
    metadata: dict[str, Any]
    _: KW_ONLY
    delete: bool
    sleep: Callable[[float], None] = time.sleep
    _waiting: set[Path] = field(default_factory=set, init=False)

    def ingest(self) -> None:
        """Ingests the whole folder, as `opx ingest` does."""
        started = time.perf_counter()
        tally = IntakeTally()
        with reporter_for_stderr() as reporter:
            intake = Intake(self.client, self.loader, self.working_folder, reporter)
            steps = intake.renamed([self.folder], intake.plan([self.folder]))
            intake.put(steps, self.metadata, tally)
            intake.remove(self._missing(intake, steps), tally)
            intake.work(tally)
        warn_of(tally.failures)
        _print_open(tally)
        report_closed_gaps(self.client, tally)
        click.echo(summary(tally, started))

    def _missing(self, intake: Intake, steps: list[FileToIngest | EventOutcome]) -> list[str]:
        if not self.delete:
            return []
        try:
            return intake.missing([self.folder], steps, force=False)
        except InvalidInputError as exc:
            warn(str(exc))
            return []

    def react(self, changed: Iterable[Path]) -> None:
        """Handles a burst of changes. If the stores don't answer, it is handled with the next one."""
        paths = self._waiting | {document_path(path) for path in changed}
        if not paths:
            return
        self._waiting = set()
        try:
            tally = self._apply(paths)
            for outcome in tally.outcomes.values():
                _print(outcome)
            _print_open(tally)
            report_closed_gaps(self.client, tally)
        except StoreUnavailableError as exc:
            self._waiting = paths
            warn(f"will retry: {exc}")

    def _apply(self, paths: set[Path]) -> IntakeTally:
        tally = IntakeTally()
        intake = Intake(self.client, self.loader, self.working_folder, Reporter())
        relevant = sorted(path for path in paths if self._is_relevant(path))
        if not all(path.exists() for path in relevant):
            self.sleep(SETTLE_SECONDS)
        present = [path for path in relevant if path.exists()]
        intake.put(self._with_renames(intake, intake.plan(present)), self.metadata, tally)
        if self.delete and self.folder.is_dir():  # a folder that vanished as a whole was probably moved or unmounted
            for path in relevant:
                if path not in present:
                    keys = intake.stored_under(path) or intake.renamed_from(path, self.folder)
                    intake.remove([key for key in keys if key not in tally.sent], tally)
        intake.work(tally)
        return tally

    def _with_renames(
        self, intake: Intake, steps: list[FileToIngest | EventOutcome]
    ) -> list[FileToIngest | EventOutcome]:
        """The steps, in which renamed files keep their documents; the folder is only looked through for unknown files."""
        if all(isinstance(step, EventOutcome) or intake.stored_at(step.source.lstrip("/")) for step in steps):
            return steps
        every = intake.renamed([self.folder], intake.plan([self.folder]))
        files = {step.path: step for step in every if isinstance(step, FileToIngest)}
        return [files.get(step.path, step) if isinstance(step, FileToIngest) else step for step in steps]

    def _is_relevant(self, path: Path) -> bool:
        if not path.is_relative_to(self.folder) or self.working_folder.holds(path):
            return False
        return not any(part.startswith(".") for part in path.relative_to(self.folder).parts)


def document_path(path: Path) -> Path:
    """The path of the document that a changed file belongs to: itself, or that of a sidecar."""
    return path.with_name(path.name.removesuffix(SIDECAR_SUFFIX)) if path.name.endswith(SIDECAR_SUFFIX) else path


def _print_open(tally: IntakeTally) -> None:
    if tally.left_to_others:
        warn(f"{_now()} still waiting: {still_under_way(tally.left_to_others)}")


def _now() -> str:
    return time.strftime("%H:%M:%S")


def _print(outcome: EventOutcome) -> None:
    now = _now()
    line = outcome_line(outcome)
    if line:
        click.echo(safe(f"{now} {line}"))
    elif outcome.reason and outcome.error:
        warn(f"{now} failed: {outcome.reason}")
