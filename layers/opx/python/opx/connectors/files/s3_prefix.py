"""Objects under a prefix of another bucket.

S3 notes when each object was put, and nobody can set that: what was put before the last pull, and was taken in then, is
not read again. Which objects there are is listed every time, so that those that were deleted are noticed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import islice
from pathlib import PurePosixPath
from typing import Any

from opx.connectors.connector import Batch, Connector, Options, SourceTools
from opx.domain.sources import Page, PullRequest, SourceDefinition, SourceDocument
from opx.domain.times import iso_time
from opx.errors import (
    InvalidInputError,
    ObjectNotFoundError,
    SourceRefusedError,
    SourceUnavailableError,
    StoreUnavailableError,
)
from opx.formats.data.replies import since_of
from opx.formats.registry import EXTENSIONS
from opx.ports.objects import ObjectInfo, ObjectStore

LISTED = 1_000
PAGE_BYTES = 16 * 1024 * 1024

SLOW_UPLOAD = timedelta(hours=1)
"""S3 dates an object that was uploaded in parts by when the upload began: so much before the last pull is read again."""

_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]\Z")


class S3PrefixOptions(Options, frozen=True):
    """`prefix` is left out of documents' names; one that isn't empty should end with `/`."""

    bucket: str
    prefix: str = ""
    max_object_bytes: int = 25 * 1024 * 1024


class S3PrefixConnector(Connector[S3PrefixOptions]):
    """One document an object of a format that is read. Sidecars with metadata are not taken for documents."""

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
        objects = self._listed(store, str(request.cursor.get("after", "")))
        while batch := list(islice(objects, LISTED)):
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
        """The object; nothing if it was deleted since it was listed."""
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
        """Objects of formats that are read, behind a key. The listing begins anew: a thousand keys a request."""
        try:
            for found in store.list(self.options.prefix):
                if found.key.encode() > after.encode() and found.size and self._is_taken(found.key):
                    yield found
        except StoreUnavailableError as exc:
            raise SourceUnavailableError(str(exc)) from exc

    def _is_taken(self, key: str) -> bool:
        return PurePosixPath(key).suffix.lower() in EXTENSIONS and not key.endswith(".metadata.json")

    def _key(self, found: ObjectInfo) -> str:
        return found.key.removeprefix(self.options.prefix).lstrip("/") or found.key

    def _store(self) -> ObjectStore:
        if self._open is None:
            raise SourceRefusedError(f"{self.name}: buckets can't be read here")
        return self._open(self.options.bucket)
