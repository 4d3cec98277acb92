"""Files into the corpus store, then the queue worked off: what `ingest`, `watch` and `demo` share."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opx.cli.reporting import Reporter
from opx.errors import InvalidInputError
from opx.ingestion.events import DOCUMENTS_FOLDER, SIDECAR_SUFFIX
from opx.ingestion.manager import FileToIngest, source_name
from opx.ingestion.outcomes import Outcome, Result

if TYPE_CHECKING:
    from opx.bootstrap import Services

LARGEST_LOSS = 0.2
"""A folder that lost more than this share of its documents is more likely not mounted than cleaned up."""

_WEAK = (Result.SKIPPED, Result.UNCHANGED)


@dataclass(slots=True)
class Tally:
    """One outcome a document, its last that says something: a document and its sidecar are two events."""

    outcomes: dict[str, Outcome] = field(default_factory=dict)
    sent: set[str] = field(default_factory=set)

    def add(self, outcome: Outcome) -> None:
        key = outcome.object_key.removesuffix(SIDECAR_SUFFIX)
        if outcome.result not in _WEAK or key not in self.outcomes:
            self.outcomes[key] = outcome

    def count(self, result: Result) -> int:
        return sum(outcome.result is result for outcome in self.outcomes.values())

    @property
    def chunks(self) -> int:
        return sum(outcome.chunks for outcome in self.outcomes.values())

    @property
    def failures(self) -> list[Outcome]:
        return [outcome for outcome in self.outcomes.values() if outcome.result is Result.FAILED]

    @property
    def left_to_others(self) -> int:
        """Documents that were sent and not worked on here: functions do it, or another process took them."""
        return len(self.sent - self.outcomes.keys())


class Intake:
    """Takes files of this machine in for the configured owner."""

    def __init__(self, services: Services, reporter: Reporter) -> None:
        self._services = services
        self._reporter = reporter
        self._home = services.settings.home_path.resolve()
        self.base = self._home.parent

    def plan(self, paths: Iterable[str | Path]) -> list[FileToIngest | Outcome]:
        """The files to take in and what can't be. What is kept in the home folder itself is left out."""
        found = self._services.manager.plan([canonical(path) for path in paths], self.base)
        return [step for step in found if isinstance(step, Outcome) or not step.path.is_relative_to(self._home)]

    def object_key(self, path: Path) -> str:
        """The key under which a file, or a folder's files, are stored."""
        return f"{self._services.scope.prefix}{DOCUMENTS_FOLDER}{source_name(path, self.base).lstrip('/')}"

    def put(self, steps: Sequence[FileToIngest | Outcome], metadata: Mapping[str, Any], tally: Tally) -> None:
        """Store the files that are new or changed; `tally.sent` has their keys."""
        for step in steps:
            outcome = step if isinstance(step, Outcome) else self._put(step, metadata)
            if outcome is not None:
                tally.add(outcome)
            elif isinstance(step, FileToIngest):
                tally.sent.add(self.object_key(step.path))

    def _put(self, file: FileToIngest, metadata: Mapping[str, Any]) -> Outcome | None:
        try:
            return self._services.manager.put_file(file, metadata)
        except InvalidInputError as exc:  # a name that no object can have: the other files are fine
            return Outcome(Result.FAILED, str(file.path), str(exc), error=exc)

    def remove(self, keys: Iterable[str], tally: Tally) -> None:
        """Delete objects."""
        for key in keys:
            self._services.manager.delete_object(key)
            tally.sent.add(key)

    def work(self, tally: Tally) -> None:
        """Work the queue off, if that is done in this process."""
        self._reporter.expect(len(tally.sent))
        drain = self._services.drain
        if drain is None:
            return
        for outcome in drain.run(progress=self._reporter.embedding):
            tally.add(outcome)
            self._reporter.settled(outcome)

    def missing(self, folders: Iterable[Path], steps: Sequence[FileToIngest | Outcome], *, force: bool) -> list[str]:
        """Keys of stored documents of these folders whose files are gone.

        Raises `InvalidInputError` if that is more than a fifth of a folder's documents, unless forced.
        """
        present = {self.object_key(step.path) for step in steps if isinstance(step, FileToIngest)}
        gone: list[str] = []
        for folder in folders:
            stored = list(self.stored_under(folder))
            lost = [key for key in stored if key not in present]
            if len(lost) > LARGEST_LOSS * len(stored) and not force:
                raise InvalidInputError(
                    f"{folder} has lost {len(lost)} of {len(stored)} documents, so none is removed. If it is complete, "
                    "`opx ingest --delete-missing --force` removes them"
                )
            gone.extend(lost)
        return list(dict.fromkeys(gone))

    def stored_under(self, folder: Path) -> Iterator[str]:
        """Keys of the documents that came from a folder."""
        for info in self._services.store.list(self.object_key(folder) + "/"):
            if not info.key.endswith(SIDECAR_SUFFIX):
                yield info.key


def canonical(path: str | Path) -> Path:
    """The absolute path without `..` and, above its last name, without symbolic links: one file, one source name."""
    absolute = Path(os.path.abspath(path))  # noqa: PTH100 - Path.absolute keeps `..`
    return absolute.parent.resolve() / absolute.name


def summary(tally: Tally, started: float) -> str:
    """What was done since `started` (of `time.perf_counter`), in one line."""
    unchanged = tally.count(Result.UNCHANGED)
    done = [result for result in (Result.INGESTED, Result.DELETED, Result.FAILED) if tally.count(result)]
    if not done and not tally.left_to_others:
        return f"nothing changed, nothing ingested ({unchanged:,} unchanged)" if unchanged else "no documents found"
    counted = (Result.INGESTED, Result.UNCHANGED, Result.DELETED, Result.FAILED)
    text = ", ".join(f"{tally.count(result):,} {result.value}" for result in counted)
    if tally.left_to_others:
        text += f", {tally.left_to_others:,} left to the workers of this corpus"
    seconds = time.perf_counter() - started
    if not tally.chunks:
        return f"{text}; {seconds:.1f} s"
    return f"{text}; {tally.chunks:,} chunks in {seconds:.1f} s ({tally.chunks / max(seconds, 0.001):.1f} chunks/s)"
