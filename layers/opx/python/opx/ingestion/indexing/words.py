"""Keeps segments of the corpus's words in the corpus store: the newest one answers while the index wakes up.

A segment is one object below `words/NAME/`, with a manifest beside it that is put last: without it there is no segment. Names
sort by time.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from secrets import token_hex
from typing import BinaryIO

from msgspec import Struct

from opx.domain.record import Record
from opx.errors import IndexUnavailableError, InvalidInputError, ObjectNotFoundError
from opx.ports import Clock, ObjectStore
from opx.ports.search import WordsCount

log = logging.getLogger(__name__)

FOLDER = "words/"
_SEGMENT, _MANIFEST = "segment", "manifest.json"
_PIECE = 1024 * 1024
_LARGEST_MANIFEST = 1024 * 1024


class SegmentFile(Struct, frozen=True):
    """A file of a segment, in the order in which they follow each other in its object."""

    path: str
    size: int


class WordsManifest(Record, frozen=True, kw_only=True):
    """Describes a segment: `identity` of its format, the `corpus` version that it was made of, its extent, and its bytes.
    `clients` are those with documents in it."""

    name: str
    identity: str
    corpus: str
    budget: int
    documents: int
    chunks: int
    whole: bool
    clients: tuple[str, ...]
    files: tuple[SegmentFile, ...]
    sha256: str

    @property
    def size(self) -> int:
        """Bytes of the segment."""
        return sum(file.size for file in self.files)


class WordsShelf:
    """Publishes, finds and fetches segments of at most `budget` bytes."""

    def __init__(self, store: ObjectStore, *, budget: int, clock: Clock) -> None:
        self._store = store
        self.budget = budget
        self._clock = clock

    def newest(self) -> WordsManifest | None:
        """The manifest of the newest segment; None if there is none, or if its manifest can't be read. Raises
        `StoreUnavailableError`."""
        names = [key.split("/")[1] for key in self._keys() if key.endswith(f"/{_MANIFEST}")]
        return self.manifest(max(names)) if names else None

    def manifest(self, name: str) -> WordsManifest | None:
        """The manifest of this name; None if it is missing, or can't be read."""
        try:
            with closing(self._store.open(f"{FOLDER}{name}/{_MANIFEST}")) as stream:
                found = WordsManifest.from_json(json.loads(stream.read(_LARGEST_MANIFEST)))
        except ObjectNotFoundError:
            return None
        except (InvalidInputError, ValueError, RecursionError) as exc:
            log.warning("the segment of words %s has no readable manifest: %s", name, exc)
            return None
        return found if found.name == name else None

    def publish(
        self, folder: Path, count: WordsCount, *, identity: str, corpus: str, clients: tuple[str, ...]
    ) -> WordsManifest:
        """Puts the segment in this folder into the store, and removes all others. Raises `IndexUnavailableError` for one that
        exceeds the budget, and `StoreUnavailableError`."""
        paths = sorted(path for path in folder.rglob("*") if path.is_file() and path.suffix != ".lock")
        files = tuple(SegmentFile(path.relative_to(folder).as_posix(), path.stat().st_size) for path in paths)
        name = f"{int(1000 * self._clock()):015d}-{token_hex(4)}"
        whole = folder.with_name(f"{folder.name}.{_SEGMENT}")
        manifest = WordsManifest(
            name=name,
            identity=identity,
            corpus=corpus,
            budget=self.budget,
            documents=count.documents,
            chunks=count.chunks,
            whole=count.whole,
            clients=clients,
            files=files,
            sha256=_joined(paths, whole),
        )
        if manifest.size > self.budget:
            raise IndexUnavailableError(f"a segment of words has {manifest.size:,} bytes, of {self.budget:,} allowed")
        with whole.open("rb") as stream:
            self._store.put(f"{FOLDER}{name}/{_SEGMENT}", stream)
        self._store.put(f"{FOLDER}{name}/{_MANIFEST}", json.dumps(manifest.to_json()).encode())
        self._remove_others(name)
        return manifest

    def fetch(self, manifest: WordsManifest, folder: Path) -> None:
        """Writes the files of a segment to an empty folder. Raises `IndexUnavailableError` for a segment that is missing,
        cut short, altered or too large, and `StoreUnavailableError`."""
        if manifest.size > self.budget:
            raise IndexUnavailableError(f"the segment of words {manifest.name} exceeds {self.budget:,} bytes")
        try:
            with closing(self._store.open(f"{FOLDER}{manifest.name}/{_SEGMENT}")) as stream:
                digest = _split(stream, manifest.files, folder)
        except ObjectNotFoundError as exc:
            raise IndexUnavailableError(f"the segment of words {manifest.name} is missing") from exc
        if digest != manifest.sha256:
            raise IndexUnavailableError(f"the segment of words {manifest.name} is not as it was put")

    def clients(self) -> Iterator[tuple[str, ...]]:
        """The clients with documents in each segment."""
        for key in self._keys():
            manifest = self.manifest(key.split("/")[1]) if key.endswith(f"/{_MANIFEST}") else None
            if manifest:
                yield manifest.clients

    def _keys(self) -> list[str]:
        return [found.key for found in self._store.list(FOLDER)]

    def _remove_others(self, name: str) -> None:
        """Removes all other segments, each from its manifest on; also parts of interrupted ones."""
        for key in sorted(self._keys(), key=lambda key: not key.endswith(_MANIFEST)):
            if key.split("/")[1] != name:
                self._store.delete(key)


def _joined(paths: list[Path], target: Path) -> str:
    """Writes all files one after the other to `target`; returns their SHA-256."""
    digest = hashlib.sha256()
    with target.open("wb") as stream:
        for path in paths:
            with path.open("rb") as part:
                while data := part.read(_PIECE):
                    digest.update(data)
                    stream.write(data)
    return digest.hexdigest()


def _split(stream: BinaryIO, files: tuple[SegmentFile, ...], folder: Path) -> str:
    """Writes files that follow each other in a stream; returns the SHA-256 of all its bytes, "" if it ends early, or if a
    file would leave the folder."""
    digest = hashlib.sha256()
    for file in files:
        target = (folder / file.path).resolve()
        if not target.is_relative_to(folder.resolve()):
            return ""
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("wb") as written:
            left = file.size
            while left and (data := stream.read(min(left, _PIECE))):
                digest.update(data)
                written.write(data)
                left -= len(data)
        if left:
            return ""
    return "" if stream.read(1) else digest.hexdigest()
