"""Objects as files of a folder that people can read."""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

from opx.adapters.embedded.durable_files import (
    is_missing,
    locked,
    make_folders,
    move_into_place,
    remove_abandoned,
    remove_file,
    sync_file,
    temporary_file,
    translated_os_errors,
)
from opx.adapters.embedded.object_names import folder_path, key_of, path_of
from opx.adapters.embedded.object_versions import Version, identity_of, read_versions, write_versions
from opx.adapters.limits import check_metadata, check_object_key, is_object_key
from opx.errors import ObjectNotFoundError, StoreUnavailableError
from opx.ports import ObjectInfo

BLOCK = 1024 * 1024
READ_ATTEMPTS = 10


class FolderObjectStore:
    """An `ObjectStore` in a folder: one file an object, under a path that reads like its key (see `object_names`).

    Several threads and processes may use one folder. Metadata are in `.meta`, in a file of the same path (see
    `object_versions`). The etag is the SHA-256 of the content. POSIX only.
    """

    def __init__(self, root: Path) -> None:
        self._root = root.absolute()
        self._metadata = self._root / ".meta"
        self._temporary = self._root / ".tmp"
        with translated_os_errors(f"use folder {root}"):
            make_folders(self._metadata)
            make_folders(self._temporary)
            remove_abandoned(self._temporary)

    def put(self, key: str, data: bytes | BinaryIO, *, metadata: Mapping[str, str] | None = None) -> ObjectInfo:
        check_object_key(key)
        check_metadata(metadata or {})
        stream = io.BytesIO(data) if isinstance(data, bytes) else data
        with translated_os_errors(f"store object {key}"), temporary_file(self._temporary) as file:
            etag = _copy(stream, file)
            sync_file(file)
            version = Version(identity_of(file), etag, dict(metadata or {}))
            with locked(self._root / ".lock"):
                self._announce(key, version)
                move_into_place(Path(file.name), self._path(key))
        return self._info(key, version)

    def open(self, key: str) -> BinaryIO:
        file = self._open(key)
        if file is None:
            raise ObjectNotFoundError(f"no object {key} in {self._root}")
        return file

    def head(self, key: str) -> ObjectInfo | None:
        for _ in range(READ_ATTEMPTS):
            file = self._open(key)
            if file is None:
                return None
            with file, translated_os_errors(f"read object {key}"):
                version = self._version(key, file)
            # The object may have been replaced between the two reads: then what is known describes another one.
            if version is not None:
                return self._info(key, version)
        raise StoreUnavailableError(f"object {key} changes faster than it can be read")

    def delete(self, key: str, *, etag: str = "") -> bool:
        if not is_object_key(key):
            return True
        with translated_os_errors(f"delete object {key}"), locked(self._root / ".lock"):
            known = self.head(key) if etag else None
            if known and known.etag != etag:
                return False
            remove_file(self._path(key), self._root)
            remove_file(self._metadata.joinpath(*path_of(key)), self._metadata)
        return True

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        # Code points sort like UTF-8 bytes.
        for key in sorted(self._keys(prefix)):
            info = self.head(key)
            if info is not None:
                yield info

    def _keys(self, prefix: str) -> Iterator[str]:
        parent = prefix.rpartition("/")[0]
        start = self._root.joinpath(*folder_path(parent.split("/"))) if is_object_key(parent) else self._root
        for folder, folders, files in os.walk(start):
            relative = Path(folder).relative_to(self._root).parts
            if not relative:
                folders[:] = [name for name in folders if not name.startswith(".")]
            keys = (key_of((*relative, name)) for name in files)
            yield from (key for key in keys if key is not None and key.startswith(prefix))

    def _open(self, key: str) -> BinaryIO | None:
        if not is_object_key(key):
            return None
        path = self._path(key)
        with translated_os_errors(f"read object {key}"):
            try:
                return path.open("rb")
            except OSError:
                if is_missing(path):
                    return None
                raise

    def _announce(self, key: str, version: Version) -> None:
        """Note the facts of an object that is about to be put, beside those of the one that it replaces."""
        notes = self._metadata.joinpath(*path_of(key))
        known = read_versions(notes)
        if version.metadata or known:
            current = [old for old in known if old.is_of(self._path(key))]
            write_versions(notes, [version, *(current or known[:2])], self._temporary)

    def _version(self, key: str, file: BinaryIO) -> Version | None:
        """The facts of an open object; None if it isn't the current one any more and nothing is known about it."""
        known = read_versions(self._metadata.joinpath(*path_of(key)))
        identity = identity_of(file)
        for version in known:
            if version.identity == identity:
                return version
        etag = _digest(file)
        found = Version(identity, etag, {})
        if not found.is_of(self._path(key)):
            return None
        # A folder that was copied: its files are new to the system, but their content is the same.
        return next((Version(identity, etag, old.metadata) for old in known if old.etag == etag), found)

    def _path(self, key: str) -> Path:
        return self._root.joinpath(*path_of(key))

    def _info(self, key: str, version: Version) -> ObjectInfo:
        location = self._path(key).as_uri()
        return ObjectInfo(key, version.size, version.etag, location, dict(version.metadata))


def _copy(source: BinaryIO, target: BinaryIO) -> str:
    """Copy a stream to its end and return the SHA-256 of what was copied."""
    digest = hashlib.sha256()
    while block := source.read(BLOCK):
        digest.update(block)
        target.write(block)
    return digest.hexdigest()


def _digest(file: BinaryIO) -> str:
    digest = hashlib.sha256()
    while block := file.read(BLOCK):
        digest.update(block)
    return digest.hexdigest()
