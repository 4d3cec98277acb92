"""Stores files in the corpus and ingests them, for `ingest`, `watch`, `demo` and `alerts`."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from opx.domain.documents import RemarkKind
from opx.domain.scopes import scope_of_object
from opx.edges.calling import LocalClient, OperationClient
from opx.edges.cli.output import exit_unless, plural, safe, warn
from opx.edges.cli.reporting import Reporter, remarks_summary
from opx.edges.loading import KEYS_AT_ONCE, Loader, remove_objects, stored_under
from opx.errors import InvalidInputError, OpxError
from opx.ingestion.events import DOCUMENTS_FOLDER, SIDECAR_SUFFIX, EventOutcome, Result
from opx.ingestion.files import LEFT_OUT, FileToIngest, file_digest, plan_files, source_name
from opx.ingestion.states import NOTHING_TO_KNOW, ObjectState
from opx.operations.corpus import GetObjectStates, get_object_states
from opx.operations.documents import ListCategories, list_categories

LARGEST_LOSS = 0.2
"""A folder that lost more than this share of its documents is probably not mounted, rather than cleaned up."""

SHOWN_LEFT_OUT = 10
SHOWN_GONE = 5

_WEAK = (Result.SKIPPED, Result.UNCHANGED)


@dataclass(slots=True)
class IntakeTally:
    """One outcome per document, the last significant one: a document and its sidecar are two events."""

    outcomes: dict[str, EventOutcome] = field(default_factory=dict)
    sent: set[str] = field(default_factory=set)

    def add(self, outcome: EventOutcome) -> None:
        key = outcome.object_key.removesuffix(SIDECAR_SUFFIX)
        if outcome.result not in _WEAK or key not in self.outcomes:
            self.outcomes[key] = outcome

    def count(self, result: Result) -> int:
        return sum(outcome.result is result for outcome in self.outcomes.values())

    @property
    def chunks(self) -> int:
        return sum(outcome.chunks for outcome in self.outcomes.values())

    @property
    def remarks(self) -> str:
        """Number of documents with remarks, by kind; "" if none has any."""
        return remarks_summary(outcome.remarks for outcome in self.outcomes.values())

    @property
    def kept_out(self) -> int:
        """Documents that are past their retention."""
        return sum(
            outcome.result is Result.SKIPPED and any(one.kind is RemarkKind.EXPIRED for one in outcome.remarks)
            for outcome in self.outcomes.values()
        )

    @property
    def empty(self) -> int:
        """Files without anything to know: empty markers, and pages of front matter alone."""
        return sum(one.result is Result.SKIPPED and one.reason in NOTHING_TO_KNOW for one in self.outcomes.values())

    @property
    def left_out(self) -> list[EventOutcome]:
        """Files and folders that were not read, such as links out of a folder."""
        return [one for one in self.outcomes.values() if one.result is Result.SKIPPED and one.reason in LEFT_OUT]

    @property
    def failures(self) -> list[EventOutcome]:
        return [outcome for outcome in self.outcomes.values() if outcome.result is Result.FAILED]

    @property
    def left_to_others(self) -> int:
        """Documents that were sent but not ingested here: functions do it, or another process claimed them."""
        return len(self.sent - self.outcomes.keys())


@dataclass(frozen=True, slots=True)
class WorkingFolder:
    """Files are named by their path from `base`. Files in `home`, the home folder, are left out."""

    base: Path
    home: Path | None = None

    def holds(self, path: Path) -> bool:
        """True if a path is in the home folder."""
        return self.home is not None and path.is_relative_to(self.home)


def planned_files(paths: Iterable[str | Path], working_folder: WorkingFolder) -> list[FileToIngest | EventOutcome]:
    """Files to ingest, and outcomes of those that can't be. Files in the home folder are left out."""
    found = plan_files([canonical(path) for path in paths], working_folder.base)
    return [step for step in found if isinstance(step, EventOutcome) or not working_folder.holds(step.path)]


@dataclass(frozen=True, slots=True)
class Intake:
    """Ingests files of this machine."""

    client: OperationClient
    loader: Loader
    working_folder: WorkingFolder
    reporter: Reporter

    def plan(self, paths: Iterable[str | Path]) -> list[FileToIngest | EventOutcome]:
        """Files to ingest, and outcomes of those that can't be. Files in the home folder are left out."""
        return planned_files(paths, self.working_folder)

    def put(
        self, steps: Sequence[FileToIngest | EventOutcome], metadata: Mapping[str, Any], tally: IntakeTally
    ) -> None:
        """Store the files that are new or changed; `tally.sent` has their keys."""
        files = [step for step in steps if isinstance(step, FileToIngest)]
        for step in steps:
            if isinstance(step, EventOutcome):
                tally.add(step)
        for done, put in enumerate(self.loader.put_files(files, metadata), start=1):
            if put.outcome is not None:
                tally.add(put.outcome)
            else:
                tally.sent.add(put.object_key)
            self.reporter.stored(done, len(files))

    def remove(self, keys: Sequence[str], tally: IntakeTally) -> None:
        """Delete objects."""
        if keys:
            self.loader.note_failures()
            remove_objects(self.client, keys)
        tally.sent.update(keys)

    def work(self, tally: IntakeTally) -> None:
        """Ingests the sent documents, or waits for their outcomes."""
        self.reporter.expect(len(tally.sent))
        for outcome in self.loader.outcomes(tally.sent, self.reporter.embedding, self.reporter.others):
            tally.add(outcome)
            self.reporter.settled(outcome)

    def renamed(
        self, folders: Iterable[Path], steps: Sequence[FileToIngest | EventOutcome]
    ) -> list[FileToIngest | EventOutcome]:
        """The steps, in which a file that was renamed within its folder keeps the document of its former name, so that
        outcomes and versions stay with it. It is known by its content, or as the file that the document was last put from.
        Documents of the folder that files are named from, and files whose new folder means another category, are new."""
        present = _present(steps)
        stored: set[str] = set()
        lost: list[str] = []
        for folder in (folder for folder in folders if folder != self.working_folder.base):
            keys, gone = self._stored_and_lost(folder, present)
            stored.update(map(source_of, keys))
            lost += gone
        files = [step for step in steps if isinstance(step, FileToIngest)]
        new = {file.source: file for file in files if file.source.lstrip("/") not in stored}
        former = self._former_names(new, lost) if new and lost else {}
        renamed = {name: FileToIngest(new[name].path, source, renamed=name) for name, source in former.items()}
        return [renamed.get(step.source, step) if isinstance(step, FileToIngest) else step for step in steps]

    def renamed_from(self, path: Path, folder: Path) -> list[str]:
        """Keys of documents of this folder that were last put from a file, or the files of a folder, with another name."""
        name = source_name(path, self.working_folder.base)
        lost = self._stored_and_lost(folder, _present(self.plan([folder])))[1]
        return [one.object_key for one in self._states(lost) if one.file == name or one.file.startswith(f"{name}/")]

    def _former_names(self, new: Mapping[str, FileToIngest], lost: Sequence[str]) -> dict[str, str]:
        """The names of documents without a file, by the new names of their files."""
        states = list(self._states(lost))
        former = {state.file: source_of(state.object_key) for state in states if state.file in new}
        by_content = {
            state.etag: source_of(state.object_key) for state in states if state.file not in new and state.etag
        }
        model = self.client.call(list_categories, ListCategories()).model()
        for name, file in new.items():
            etag = "" if name in former else _digest(file.path)
            source = by_content.get(etag, "")
            if source and model.category_of_path(source) == model.category_of_path(name):
                del by_content[etag]
                former[name] = source
                click.echo(safe(f"renamed: {source} -> {name}; its versions and outcomes stay"))
        return former

    def _states(self, object_keys: Sequence[str]) -> Iterator[ObjectState]:
        for at in range(0, len(object_keys), KEYS_AT_ONCE):
            wanted = GetObjectStates(object_keys=tuple(object_keys[at : at + KEYS_AT_ONCE]))
            yield from self.client.call(get_object_states, wanted).states

    def missing(
        self, folders: Iterable[Path], steps: Sequence[FileToIngest | EventOutcome], *, force: bool
    ) -> list[str]:
        """Keys of stored documents of these folders whose files are gone.

        Raises `InvalidInputError` if that is more than a fifth of a folder's documents, unless forced, and for the folder
        that files are named from: documents of other origins look as if they came from it.
        """
        present = _present(steps)
        gone: list[str] = []
        for folder in folders:
            if folder == self.working_folder.base:
                raise InvalidInputError(
                    f"it can't be determined which documents came from {folder} itself: name the folders in it"
                )
            stored, lost = self._stored_and_lost(folder, present)
            if len(lost) > max(1.0, LARGEST_LOSS * len(stored)) and not force:
                raise InvalidInputError(
                    f"{folder} has lost {len(lost)} of {len(stored)} documents, so none is removed. If it is complete, "
                    "`opx ingest --mirror --force` removes them"
                )
            gone.extend(lost)
        return list(dict.fromkeys(gone))

    def gone(
        self, folders: Iterable[Path], steps: Sequence[FileToIngest | EventOutcome]
    ) -> Iterator[tuple[Path, list[str]]]:
        """Names of the documents of each folder that an earlier run stored and whose files are gone. The folder that files
        are named from has none: documents of other origins look as if they came from it."""
        present = _present(steps)
        for folder in folders:
            lost = [] if folder == self.working_folder.base else self._stored_and_lost(folder, present)[1]
            if lost:
                yield folder, [source_of(key) for key in lost]

    def _stored_and_lost(self, folder: Path, present: Collection[str]) -> tuple[list[str], list[str]]:
        """Keys of a folder's stored documents, and those of them whose files are gone."""
        stored = self.stored_under(folder)
        return stored, [key for key in stored if source_of(key) not in present]

    def stored_at(self, source: str) -> list[str]:
        """Keys of the document with this source name."""
        return [key for key in stored_under(self.client, source) if source_of(key) == source]

    def stored_under(self, path: Path) -> list[str]:
        """Keys of the documents that came from a file or a folder."""
        return list(stored_under(self.client, source_name(path, self.working_folder.base)))


def _present(steps: Sequence[FileToIngest | EventOutcome]) -> set[str]:
    return {step.source.lstrip("/") for step in steps if isinstance(step, FileToIngest)}


def _digest(path: Path) -> str:
    try:
        return file_digest(path)
    except OSError:  # reported when it is put
        return ""


def settled(loader: Loader, keys: Collection[str]) -> IntakeTally:
    """Waits for the outcomes of objects that were put or deleted."""
    tally = IntakeTally(sent=set(keys))
    for outcome in loader.outcomes(keys):
        tally.add(outcome)
    return tally


def warn_of(failures: Iterable[EventOutcome], left: int = 0) -> None:
    """Prints failures, and the number of documents that weren't settled in time."""
    warn(*(f"failed: {outcome.reason}" for outcome in failures))
    if left:
        warn(still_under_way(left))


def finish(tally: IntakeTally, started: float, *, left: int = 0) -> None:
    """Prints failures, the number of unsettled documents, what was not read, and the summary; exits with 1 for either of the
    first two."""
    warn_of(tally.failures, left)
    left_out = tally.left_out
    warn(*(f"left out: {one.object_key}: {one.reason}" for one in left_out[:SHOWN_LEFT_OUT]))
    if len(left_out) > SHOWN_LEFT_OUT:
        warn(f"left out: {len(left_out) - SHOWN_LEFT_OUT:,} more like these")
    if tally.remarks:
        warn(tally.remarks)
    click.echo(summary(tally, started))
    exit_unless(not (tally.failures or left))


def report_closed_gaps(client: OperationClient, tally: IntakeTally) -> None:
    """Checks open gaps again if anything was ingested on this machine, and prints those that have an answer now. An error
    of the check is a warning only."""
    from opx.operations.questions import CheckGaps, check_gaps

    if not tally.count(Result.INGESTED) or not isinstance(client, LocalClient):
        return
    try:
        found = client.call(check_gaps, CheckGaps(every_scope=True))
    except OpxError as exc:
        warn(f"open gaps could not be checked: {exc}")
        return
    for gap in found.closed:
        click.echo(safe(f"closed gap: {gap.question}  <- {gap.closed_by_title}"))


def report_gone(folder: Path, names: Sequence[str]) -> None:
    """Warns of documents of a folder whose files are gone, and says how to remove them."""
    more = f" and {len(names) - SHOWN_GONE:,} more" if len(names) > SHOWN_GONE else ""
    stay = "is still stored, and its file is" if len(names) == 1 else "are still stored, and their files are"
    warn(
        f"{plural(len(names), 'document')} of {folder} {stay} gone: {', '.join(names[:SHOWN_GONE])}{more}; to remove them: "
        f"opx ingest {folder} --mirror"
    )


def find_category(client: OperationClient, name: str) -> str:
    """The path of the category that a name or a part of a path stands for. Raises `UnknownCategoryError`."""
    return client.call(list_categories, ListCategories()).model().category(name).path


def source_of(object_key: str) -> str:
    """The name of the file that an object came from, without a `/` before it."""
    return scope_of_object(object_key)[1].removeprefix(DOCUMENTS_FOLDER)


def canonical(path: str | Path) -> Path:
    """The absolute path without `..` and, above its last name, without symbolic links: one file, one source name."""
    absolute = Path(os.path.abspath(path))  # noqa: PTH100 - Path.absolute keeps `..`
    return absolute.parent.resolve() / absolute.name


def still_under_way(documents: int) -> str:
    """The warning about documents that weren't settled in time."""
    verb = "is" if documents == 1 else "are"
    return f"{plural(documents, 'document')} {verb} still being worked on: see `opx status` and `opx failed` in a while"


def summary(tally: IntakeTally, started: float) -> str:
    """A one-line summary of the work since `started` (of `time.perf_counter`)."""
    unchanged = tally.count(Result.UNCHANGED)
    done = [result for result in (Result.INGESTED, Result.DELETED, Result.FAILED) if tally.count(result)]
    if not (done or tally.left_to_others or tally.kept_out or tally.empty or tally.left_out):
        return f"nothing changed, nothing ingested ({unchanged:,} unchanged)" if unchanged else "no documents found"
    counted = (Result.INGESTED, Result.UNCHANGED, Result.DELETED, Result.FAILED)
    text = ", ".join(f"{tally.count(result):,} {result.value}" for result in counted)
    if tally.kept_out:
        text += f", {tally.kept_out:,} kept out by retention"
    if tally.left_out:
        text += f", {len(tally.left_out):,} left out"
    if tally.empty:
        text += f", {plural(tally.empty, 'file')} without content skipped"
    if tally.left_to_others:
        text += f", {tally.left_to_others:,} left to the workers of this corpus"
    seconds = time.perf_counter() - started
    if not tally.chunks:
        return f"{text}; {seconds:.1f} s"
    return f"{text}; {plural(tally.chunks, 'chunk')} in {seconds:.1f} s ({tally.chunks / max(seconds, 0.001):.1f} chunks/s)"
