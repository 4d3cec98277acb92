"""Pulls files of a directory of this machine, or objects below a prefix of another bucket, and watches directories."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Annotated, Any

from opx.connectors.connector import Batch, Connector, Options, SourceTools
from opx.connectors.registry import checked_options
from opx.connectors.runner import BROKEN_SECONDS, pull_summary
from opx.domain.ids import batched, iso_time
from opx.domain.record import about
from opx.domain.sources import Page, PullRequest, SourceDefinition, SourceDocument
from opx.errors import (
    InvalidInputError,
    ObjectNotFoundError,
    PluginError,
    SourceBusyError,
    SourceRefusedError,
    SourceUnavailableError,
    StoreUnavailableError,
)
from opx.formats.data.replies import since_of
from opx.formats.registry import is_known
from opx.ingestion.files import leads_out
from opx.ports.objects import ObjectInfo, ObjectStore
from opx.runtime.machine import path_here

if TYPE_CHECKING:
    from opx.connectors.pulling import SourcePuller
    from opx.connectors.repository import SourceRepository
    from opx.ports import Clock


# -- S3 prefix


LISTED = 1_000

SLOW_UPLOAD = timedelta(hours=1)
"""S3 dates an object that was uploaded in parts by when the upload began: objects dated this long before the last pull
are read again."""

_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]\Z")


class S3PrefixOptions(Options, frozen=True):
    """Selection of objects."""

    bucket: Annotated[str, about("The name of the bucket.")]
    prefix: Annotated[
        str, about("The prefix of the objects, ending with a slash; it is left out of documents' names.")
    ] = ""
    max_object_bytes: Annotated[int, about("Larger objects are reported, not read.")] = 25 * 1024 * 1024


class S3PrefixConnector(Connector[S3PrefixOptions]):
    """Pulls one document per object of a supported format. Sidecars are not documents."""

    about = "objects of another bucket"
    from_internet = False

    def __init__(self, definition: SourceDefinition, options: S3PrefixOptions, tools: SourceTools) -> None:
        super().__init__(definition, options, tools)
        if not _BUCKET.match(options.bucket):
            raise InvalidInputError(f"{self.name}: {options.bucket!r} is not the name of a bucket")
        self._open = tools.buckets

    def probe(self) -> None:
        next(self._listed(self._store(), ""), None)

    def pull(self, request: PullRequest) -> Iterator[Page]:
        store = self._store()
        since = since_of(request.since)
        before = iso_time((datetime.fromisoformat(since) - SLOW_UPLOAD).timestamp()) if since else ""
        for batch in batched(self._listed(store, str(request.cursor.get("after", ""))), LISTED):
            yield from self._pages(store, batch, before)
        yield Page(cursor={}, complete=True)

    def _pages(self, store: ObjectStore, objects: list[ObjectInfo], before: str) -> Iterator[Page]:
        known = set(self.known([self._key(each) for each in objects])) if before else set()
        batch = Batch()
        for each in objects:
            key = self._key(each)
            if key in known and each.modified and each.modified < before:
                batch.unchanged.append(key)
            elif each.size > self.options.max_object_bytes:
                batch.refuse(key, f"larger than {self.options.max_object_bytes:,} bytes (max_object_bytes)")
            else:
                batch.add(*self._read(store, each))
            if batch.size >= PAGE_BYTES:
                yield batch.page({"after": each.key})
        seen = max((each.modified for each in objects), default="")
        yield batch.page({"after": objects[-1].key}, seen_until=seen)

    def _read(self, store: ObjectStore, found: ObjectInfo) -> list[SourceDocument]:
        """Reads the object; empty if it was deleted since it was listed."""
        try:
            with store.open(found.key) as stream:
                data = stream.read(self.options.max_object_bytes + 1)
        except ObjectNotFoundError:
            return []
        except StoreUnavailableError as exc:
            raise SourceUnavailableError(str(exc)) from exc
        metadata: dict[str, Any] = {"title": PurePosixPath(found.key).stem, "source_uri": found.location}
        if found.modified:
            metadata["last_updated"] = found.modified
        return [SourceDocument(self._key(found), data, metadata)]

    def _listed(self, store: ObjectStore, after: str) -> Iterator[ObjectInfo]:
        """Objects of supported formats behind a key. The listing starts over: a thousand keys a request."""
        try:
            for found in store.list(self.options.prefix):
                if found.key.encode() > after.encode() and found.size and self._is_supported(found.key):
                    yield found
        except StoreUnavailableError as exc:
            raise SourceUnavailableError(str(exc)) from exc

    def _is_supported(self, key: str) -> bool:
        return is_known(PurePosixPath(key).suffix) and not key.endswith(".metadata.json")

    def _key(self, found: ObjectInfo) -> str:
        return found.key.removeprefix(self.options.prefix).lstrip("/") or found.key

    def _store(self) -> ObjectStore:
        if self._open is None:
            raise SourceRefusedError(f"{self.name}: buckets can't be read here")
        return self._open(self.options.bucket)


# -- directory


PAGE_BYTES = 16 * 1024 * 1024
MAX_NAME = 255


class DirectoryOptions(Options, frozen=True):
    """Selection of files."""

    path: Annotated[str, about("The folder, as an absolute path of this machine.")]
    pattern: Annotated[
        str,
        about("Names of the files, such as *.md; or, with a slash, paths below the folder, such as docs/**/*.md."),
    ] = "*.md"
    max_bytes: Annotated[int, about("Larger files are reported, not read.")] = 32 * 1024 * 1024

    def __post_init__(self) -> None:
        parts = self.pattern.split("/")
        if not set(parts) - {"."} or not all(map(_is_part, parts)):
            raise InvalidInputError(
                f"pattern {self.pattern!r}: write a name such as *.md, or a path below `path` such as docs/**/*.md"
            )


def _is_part(part: str) -> bool:
    """True if a part of a pattern stays below the folder, and is valid for pathlib."""
    return 0 < len(part) <= MAX_NAME and part != ".." and (part == "**" or "**" not in part)


class Directory(Connector[DirectoryOptions]):
    """Pulls files of a directory and those below it: new, changed, renamed and deleted ones."""

    about = "files of a directory of this machine"
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
            raise SourceRefusedError(
                f"{self._folder} is not a directory of this machine: mount it, or correct the path"
            )

    @property
    def _folder(self) -> Path:
        return path_here(self.options.path, f"{self.name}: path")

    def _files(self) -> list[Path]:
        """Every file whose name matches, without hidden ones and links out of the directory, in a stable order."""
        self.probe()
        pattern = self.options.pattern
        found = self._folder.glob(pattern) if "/" in pattern else self._folder.rglob(pattern)
        return sorted(path for path in found if path.is_file() and not self._is_left_out(path))

    def _is_left_out(self, path: Path) -> bool:
        hidden = any(part.startswith(".") for part in path.relative_to(self._folder).parts)
        return hidden or leads_out(path, self._folder)

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


# -- watched directories


AGAIN_SECONDS = 10.0
LOOK_MS = 50
QUIET_MS = 200
"""Changes are reported as one once nothing has happened for this long."""


class DirectoryFeed:
    """Watches the directories among the sources. Each is pulled once at the start, for changes that were made while no
    process watched."""

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
            except InvalidInputError:  # wrong options, which the pull reports
                return True
            return self._followed[definition.source_id] is not None
        try:
            return bool(next(changes))
        except (StopIteration, OSError, RuntimeError):  # the directory is gone; it is looked for again
            self._followed[definition.source_id] = None
            return False

    def _pulled(self, definition: SourceDefinition) -> list[str]:
        """Pulls a source and returns lines for the operator; a pull that failed is retried after a pause."""
        try:
            report = self._puller().pull(definition.source_id)
        except SourceBusyError:
            self._again[definition.source_id] = self._clock() + AGAIN_SECONDS
            return []
        except (InvalidInputError, PluginError, StoreUnavailableError) as exc:
            self._again[definition.source_id] = self._clock() + BROKEN_SECONDS
            return [f"source {definition.source_id}: {exc}"]
        if report.error:
            self._again[definition.source_id] = self._clock() + AGAIN_SECONDS
        return [pull_summary(report)]


def _is_watched(definition: SourceDefinition) -> bool:
    """True for an enabled directory without a schedule; one with a schedule is pulled at its times instead."""
    return definition.kind == "directory" and definition.enabled and not definition.schedule


def _changes_of(definition: SourceDefinition) -> Generator[set[Any], None, None] | None:
    """Starts watching the directory; None while it doesn't exist."""
    from watchfiles import watch

    folder = path_here(checked_options(definition).path)
    if not folder.is_dir():
        return None
    changes = watch(
        folder, step=QUIET_MS, debounce=1000, rust_timeout=LOOK_MS, yield_on_timeout=True, raise_interrupt=True
    )
    next(changes)  # from here on changes are recorded
    return changes
