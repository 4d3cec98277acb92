"""A directory of this machine."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opx.connectors.connector import Batch, Connector, Options
from opx.connectors.registry import checked_options
from opx.connectors.runner import BROKEN_SECONDS, told
from opx.domain.sources import Page, PullRequest, SourceDocument
from opx.domain.times import iso_time
from opx.errors import InvalidInputError, SourceBusyError, SourceRefusedError, StoreUnavailableError

if TYPE_CHECKING:
    from opx.connectors.pulling import SourcePuller
    from opx.connectors.repository import SourceRepository
    from opx.domain.sources import SourceDefinition
    from opx.ports import Clock


PAGE_BYTES = 16 * 1024 * 1024
MAX_NAME = 255


class DirectoryOptions(Options, frozen=True):
    """`pattern` is matched against names, or against the path from `path` if it has a `/` (`docs/**/*.md`)."""

    path: str
    pattern: str = "*.md"
    max_bytes: int = 32 * 1024 * 1024

    def __post_init__(self) -> None:
        parts = self.pattern.split("/")
        if not set(parts) - {"."} or not all(map(_is_part, parts)):
            raise InvalidInputError(
                f"pattern {self.pattern!r}: write a name such as *.md, or a path below `path` such as docs/**/*.md"
            )


def _is_part(part: str) -> bool:
    """Whether a part of a pattern stays below the folder, and is one that pathlib takes."""
    return 0 < len(part) <= MAX_NAME and part != ".." and (part == "**" or "**" not in part)


class Directory(Connector[DirectoryOptions]):
    """Files of a directory and those below it: new, changed, renamed and deleted ones."""

    local = True

    def pull(self, request: PullRequest) -> Iterator[Page]:  # noqa: ARG002 - files are listed as a whole
        batch = Batch()
        for path in self._files():
            self._read(path, batch)
            if batch.size >= PAGE_BYTES:
                yield batch.page()
        yield batch.page(complete=True)

    def probe(self) -> None:
        if not self._folder.is_dir():
            raise SourceRefusedError(f"{self._folder} is no directory of this machine: mount it, or correct the path")

    @property
    def _folder(self) -> Path:
        return Path(self.options.path).expanduser()

    def _files(self) -> list[Path]:
        """Every file whose name fits, hidden ones left out, in a stable order."""
        self.probe()
        pattern = self.options.pattern
        found = self._folder.glob(pattern) if "/" in pattern else self._folder.rglob(pattern)
        return sorted(path for path in found if path.is_file() and not self._is_hidden(path))

    def _is_hidden(self, path: Path) -> bool:
        return any(part.startswith(".") for part in path.relative_to(self._folder).parts)

    def _read(self, path: Path, batch: Batch) -> None:
        key = path.relative_to(self._folder).as_posix()
        try:
            facts = path.stat()
            if facts.st_size > self.options.max_bytes:
                batch.refuse(key, f"it has {facts.st_size:,} bytes; the limit is max_bytes {self.options.max_bytes:,}")
                return
            content = path.read_bytes()
        except OSError as exc:
            batch.refuse(key, f"it can't be read: {exc.strerror}")
            return
        metadata = {"name": path.name, "source_uri": str(path), "last_updated": iso_time(facts.st_mtime)}
        batch.add(SourceDocument(key, content, metadata))


# -- watching


AGAIN_SECONDS = 10.0
LOOK_MS = 50
QUIET_MS = 200
"""A burst of changes is one when nothing happened for this long."""


class DirectoryFeed:
    """Follows the directories among the sources. Each is pulled once at the beginning: what changed while nobody
    looked is made up for."""

    def __init__(self, sources: SourceRepository, puller: Callable[[], SourcePuller], clock: Clock) -> None:
        self._sources = sources
        self._puller = puller
        self._clock = clock
        self._again: dict[str, float] = {}
        self._followed: dict[str, Generator[set[Any], None, None] | None] = {}

    def poll(self) -> Sequence[str]:
        changed = [source for source in self._sources.all() if _is_watched(source) and self._changed(source)]
        return [line for definition in changed for line in self._pulled(definition)]

    def _changed(self, definition: SourceDefinition) -> bool:
        due = self._again.get(definition.source_id)
        if due is not None:
            if due > self._clock():
                return False
            del self._again[definition.source_id]
            return True
        changes = self._followed.get(definition.source_id)
        if changes is None:
            try:
                self._followed[definition.source_id] = _changes_of(definition)
            except InvalidInputError:  # wrong options, which the pull tells
                return True
            return self._followed[definition.source_id] is not None
        try:
            return bool(next(changes))
        except (StopIteration, OSError, RuntimeError):  # the directory is gone; it is looked for again
            self._followed[definition.source_id] = None
            return False

    def _pulled(self, definition: SourceDefinition) -> list[str]:
        """Lines about a pull; one that could not be done is tried again after a while."""
        try:
            report = self._puller().pull(definition.source_id)
        except SourceBusyError:
            self._again[definition.source_id] = self._clock() + AGAIN_SECONDS
            return []
        except (InvalidInputError, StoreUnavailableError) as exc:
            self._again[definition.source_id] = self._clock() + BROKEN_SECONDS
            return [f"source {definition.source_id}: {exc}"]
        if report.error:
            self._again[definition.source_id] = self._clock() + AGAIN_SECONDS
        return [told(report)]


def _is_watched(definition: SourceDefinition) -> bool:
    """One with a schedule is pulled at its times instead."""
    return definition.kind == "directory" and definition.enabled and not definition.schedule


def _changes_of(definition: SourceDefinition) -> Generator[set[Any], None, None] | None:
    """None while there is no such directory."""
    from watchfiles import watch

    folder = Path(checked_options(definition).path).expanduser()
    if not folder.is_dir():
        return None
    changes = watch(
        folder, step=QUIET_MS, debounce=1000, rust_timeout=LOOK_MS, yield_on_timeout=True, raise_interrupt=True
    )
    next(changes)  # from here on changes are noted
    return changes
