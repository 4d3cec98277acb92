"""Shows the progress of ingestion, as a bar on a terminal or lines in a log or pipe, and formats outcomes and remarks."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Self

import click

from opx.domain.documents import Remark, RemarkKind
from opx.edges.cli.output import plural, safe
from opx.ingestion.events import EventOutcome, Result

if TYPE_CHECKING:
    from rich.progress import TaskID


_MANY = 100
_OTHERS_SECONDS = 15.0
"""Time between two lines about another process that ingests."""

_LONG = 512
"""Chunks after which a document gets a line before it is done."""

_SILENT_SECONDS = 10.0
"""Time without a line after which the document in progress gets one."""


class Reporter:
    """Receives progress of ingestion. Subclasses write to stderr; failures are left to the summary. This base class is
    silent, for single changes, whose lines are printed when they are done."""

    def stored(self, done: int, files: int) -> None:
        """Reports how many of the files are stored, or unchanged."""

    def expect(self, documents: int) -> None:
        """Reports the number of new or changed documents."""

    def others(self, waiting: int) -> None:
        """Reports, again and again, that another process ingests, and how many documents are waiting."""

    def embedding(self, object_key: str, chunks: int) -> None:
        """Reports the number of embedded chunks of a document."""

    def settled(self, outcome: EventOutcome) -> None:
        """Reports the outcome of a document."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Clears the progress display."""


class LineReporter(Reporter):
    """Prints one line per document; with `uploads` also one for every hundred stored files."""

    def __init__(self, *, uploads: bool = False) -> None:
        self._uploads = uploads
        self._reported_at = -_OTHERS_SECONDS
        self._printed_at = time.monotonic()

    def stored(self, done: int, files: int) -> None:
        if self._uploads and done % _MANY == 0:
            self._print(f"stored {done:,} of {files:,} files")

    def expect(self, documents: int) -> None:
        if documents:
            self._print(f"ingesting {documents:,} new or changed")

    def others(self, waiting: int) -> None:
        if time.monotonic() - self._reported_at >= _OTHERS_SECONDS:
            self._reported_at = time.monotonic()
            self._print(_others_line(waiting))

    def embedding(self, object_key: str, chunks: int) -> None:
        if chunks % _LONG == 0 or time.monotonic() - self._printed_at >= _SILENT_SECONDS:
            self._print(safe(f"embedding  {object_key}: {chunks:,} chunks so far"))

    def settled(self, outcome: EventOutcome) -> None:
        line = outcome_line(outcome)
        if line:
            self._print(safe(line))

    def _print(self, line: str) -> None:
        self._printed_at = time.monotonic()
        click.echo(line, err=True)


class BarReporter(Reporter):
    """Shows a bar over documents as they are read and embedded; with `uploads` one over files before."""

    def __init__(self, *, uploads: bool = False) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn())
        console = Console(stderr=True)
        self._progress = Progress(*columns, TimeElapsedColumn(), console=console, transient=True)
        self._task: TaskID | None = None
        self._uploads = uploads
        self._seen: set[str] = set()

    def stored(self, done: int, files: int) -> None:
        if not self._uploads:
            return
        if self._task is None:
            self._task = self._progress.add_task("storing", total=files)
        self._progress.update(self._task, completed=done)

    def expect(self, documents: int) -> None:
        if self._task is not None:
            self._progress.remove_task(self._task)
        self._task = self._progress.add_task("reading and embedding", total=documents)

    def others(self, waiting: int) -> None:
        if self._task is not None:
            self._progress.update(self._task, description=_others_line(waiting))

    def embedding(self, object_key: str, chunks: int) -> None:
        self._advance(object_key, f"{_name(object_key)}: {chunks:,} chunks")

    def settled(self, outcome: EventOutcome) -> None:
        self._advance(outcome.object_key, _name(outcome.object_key))

    def _advance(self, object_key: str, description: str) -> None:
        self._seen.add(object_key)
        if self._task is not None:
            self._progress.update(self._task, completed=len(self._seen), description=description)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()


def reporter_for_stderr(*, uploads: bool = False) -> Reporter:
    """A bar if stderr is a terminal, else lines. `uploads`: storing files takes a while, and is shown too."""
    return BarReporter(uploads=uploads) if sys.stderr.isatty() else LineReporter(uploads=uploads)


def outcome_line(outcome: EventOutcome) -> str:
    """`ingested  documents/a.md (3 chunks)`; empty for unchanged documents and failures, and for skipped ones that have no
    title: they are no documents."""
    if outcome.result is Result.SKIPPED and outcome.title:
        return f"skipped    {outcome.object_key}: {outcome.reason}"
    if outcome.result not in (Result.INGESTED, Result.DELETED):
        return ""
    facts = f" ({plural(outcome.chunks, 'chunk')})" if outcome.chunks else ""
    if outcome.reason:
        facts += f": {outcome.reason}"
    return f"{outcome.result.value:<9}  {outcome.object_key}{facts}"


def _others_line(waiting: int) -> str:
    return f"another process ingests here: waiting for {plural(waiting, 'document')}"


def _name(object_key: str) -> str:
    return object_key.rsplit("/", 1)[-1]


# -- remarks

ANY = "any"
SECRET = "secret"  # noqa: S105 - a name, no secret
"""Short for masked secrets, whose list is the one that owners of documents need."""
KINDS = (ANY, SECRET, *(kind.value for kind in RemarkKind))


def kind_name(kind: RemarkKind) -> str:
    """`masked_secret` as `masked secret`."""
    return kind.value.replace("_", " ")


def remark_line(remark: Remark) -> str:
    """`masked secret: line 12: AWS access key id (fingerprint 3f9a)`."""
    style = "red" if remark.kind is RemarkKind.SUSPECTED_INSTRUCTION else "yellow"
    return f"{click.style(kind_name(remark.kind), fg=style)}: {remark.text}"


def has_remark(remarks: Iterable[Remark], kind: str | None) -> bool:
    """True if there is a remark of this kind; `any` matches every kind, and None is always true."""
    wanted = RemarkKind.MASKED_SECRET if kind == SECRET else kind
    return not kind or any(wanted in (ANY, remark.kind.value) for remark in remarks)


def remarked(remarks: Iterable[Remark], kind: str) -> str:
    """`GitLab token, password (3)`: the remarks of this kind, without lines and fingerprints, and how many are equal."""
    labels = Counter(_label(remark) for remark in remarks if has_remark((remark,), kind))
    return ", ".join(f"{label} ({count})" if count > 1 else label for label, count in labels.items())


def _label(remark: Remark) -> str:
    if remark.kind is not RemarkKind.MASKED_SECRET:
        return kind_name(remark.kind)
    position, _, label = remark.text.partition(": ")
    return (label or position).partition(" (fingerprint")[0]


def remarks_summary(documents: Iterable[Iterable[Remark]]) -> str:
    """`2 documents have remarks: 2 with masked secret, 1 with unread part`; "" if none has any."""
    kinds = [{remark.kind for remark in remarks} for remarks in documents]
    counts = Counter(kind for found in kinds for kind in found)
    if not counts:
        return ""
    documents_with = sum(bool(found) for found in kinds)
    verb = "has" if documents_with == 1 else "have"
    parts = ", ".join(f"{count:,} with {kind_name(kind)}" for kind, count in sorted(counts.items()))
    return f"{plural(documents_with, 'document')} {verb} remarks: {parts}; see them with `opx list --remarks any`"
