"""Objects in an archive: one after the other in entries of a size that can be handled, however many and small they are."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import IO, Annotated, Any, BinaryIO

from msgspec import Meta

from opx.domain.record import Record, from_json
from opx.errors import ArchiveError, InvalidInputError
from opx.lifecycle.archive.file import BLOCK, ArchiveReader, ArchiveWriter, EntryWriter, spooled

PACK_BYTES = 64 * 1024 * 1024
"""A pack that has so much gets no further object."""

MAX_BLOB_BYTES = 5 * 1024**3
"""What S3 takes in one part of a copy; documents are far smaller."""


class Blob(Record, frozen=True):
    """An object, and where its bytes are."""

    key: str
    pack: str
    start: Annotated[int, Meta(ge=0)]
    size: Annotated[int, Meta(ge=0, le=MAX_BLOB_BYTES)]
    sha256: str
    metadata: dict[str, str]

    @classmethod
    def from_json(cls, data: Any) -> Blob:
        """Raises `ArchiveError` for anything that `to_json` doesn't give."""
        try:
            return from_json(cls, data)
        except InvalidInputError as exc:
            raise ArchiveError(f"an object is listed without what belongs to it: {str(data)[:200]}") from exc


class BlobWriter:
    """Writes objects into packs of an archive, in which nothing else is written meanwhile. A context manager."""

    def __init__(self, archive: ArchiveWriter) -> None:
        self._archive = archive
        self._stack = ExitStack()
        self._packs = 0
        self._pack: EntryWriter | None = None

    def __enter__(self) -> BlobWriter:
        return self

    def __exit__(self, *error: Any) -> None:
        self._stack.__exit__(*error)

    def add(self, key: str, source: BinaryIO, metadata: dict[str, str]) -> Blob:
        """Read a stream to its end."""
        pack = self._open_pack()
        start, digest = pack.size, hashlib.sha256()
        while block := source.read(BLOCK):
            pack.write(block)
            digest.update(block)
        return Blob(key, f"objects/{self._packs:05d}", start, pack.size - start, digest.hexdigest(), metadata)

    def _open_pack(self) -> EntryWriter:
        if self._pack is None or self._pack.size >= PACK_BYTES:
            self._stack.close()
            self._packs += 1
            self._pack = self._stack.enter_context(self._archive.entry(f"objects/{self._packs:05d}"))
        return self._pack


class BlobReader:
    """Gives the bytes of objects. Those that are asked for in the order in which they were written are read once through.
    A context manager."""

    def __init__(self, archive: ArchiveReader) -> None:
        self._archive = archive
        self._stack = ExitStack()
        self._pack = ""
        self._source: BinaryIO | None = None
        self._at = 0

    def __enter__(self) -> BlobReader:
        return self

    def __exit__(self, *error: Any) -> None:
        self._stack.__exit__(*error)

    @contextmanager
    def open(self, blob: Blob) -> Iterator[IO[bytes]]:
        """A temporary file with the object. Raises `ArchiveError` if it isn't what its checksum says."""
        with spooled() as target:
            for block in self._blocks(blob):
                target.write(block)
            target.seek(0)
            yield target

    def check(self, blob: Blob) -> None:
        """Raises `ArchiveError` if it isn't what its checksum says."""
        for _ in self._blocks(blob):
            pass

    def _blocks(self, blob: Blob) -> Iterator[bytes]:
        source, digest = self._at_start_of(blob), hashlib.sha256()
        left = blob.size
        while left and (block := source.read(min(BLOCK, left))):
            left -= len(block)
            self._at += len(block)
            digest.update(block)
            yield block
        if left or digest.hexdigest() != blob.sha256:
            raise ArchiveError(
                f"the checksum of {blob.key} (in {blob.pack}) is wrong: take another copy of the archive"
            )

    def _at_start_of(self, blob: Blob) -> BinaryIO:
        if self._source is None or self._pack != blob.pack or blob.start < self._at:
            self._stack.close()
            self._source = self._stack.enter_context(self._archive.open(blob.pack))
            self._pack, self._at = blob.pack, 0
        while self._at < blob.start and (skipped := self._source.read(min(BLOCK, blob.start - self._at))):
            self._at += len(skipped)
        return self._source
