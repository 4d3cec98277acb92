"""Stores objects as files of a folder that people can read. Object keys become paths, reversible and distinct:

`documents/runbooks/disk-full.md` is stored under exactly that path. Keys that a file system can't distinguish are marked:

- A file's name holds a dot and a folder's doesn't, or else it ends in `%`: `a` and `a/b` become `a%` and `a/b%`.
- A name that differs from another only by case or Unicode form gets a hash before its extension: `README~8ec9a00b.md`.
- `%`, `~`, a leading dot and characters that some systems refuse are percent-encoded.
- A name of more than 255 bytes is cut into folders; each but the last ends in `%+`.

Metadata are written so that a crash never pairs one version with another's metadata. A put first writes the metadata of the
new file next to those of the current one, then renames the file: that rename is the commit. The file's identity (inode,
time, size) then selects its own metadata.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import secrets
import shutil
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import unquote

from msgspec import Struct, structs

from opx.adapters.embedded.durable_files import (
    in_use,
    is_missing,
    locked,
    make_folders,
    move_all_into_place,
    move_into_place,
    place_unsynced,
    remove_abandoned,
    remove_file,
    sync_all,
    sync_file,
    sync_files,
    sync_folder,
    temporary_file,
    translated_os_errors,
)
from opx.adapters.limits import check_conditional_put, check_etag, check_metadata, check_object_key, is_object_key
from opx.domain.record import replace
from opx.errors import DamagedStoreError, InvalidInputError, ObjectNotFoundError, StoreUnavailableError
from opx.ports import ObjectInfo

MAX_NAME_BYTES = 255
PIECE_LENGTH = 58
"""Characters, of up to 4 bytes each, that fit into a name together with its marks."""

_UNSAFE = re.compile(r'[\x00-\x1f\x7f%~\\:*?"<>|]|^\.|[ .]$')
_CONTINUED = "%+"
"""Ends the name of a folder in which the name of a long segment goes on."""
_MARKED = re.compile(r"~[0-9a-f]{8}")


@lru_cache(1024)
def path_of(key: str) -> tuple[str, ...]:
    """The path of an object's file, as names."""
    *folders, last = key.split("/")
    return (*folder_path(folders), *_names(last, is_file=True))


@lru_cache(1024)
def _joined(root: Path, key: str) -> Path:
    """The path of an object's file below a folder. An object is read and written several times in a row."""
    return root.joinpath(*path_of(key))


def folder_path(segments: list[str]) -> tuple[str, ...]:
    """The path of the folder that holds all keys under these segments, as names."""
    return tuple(name for segment in segments for name in _names(segment, is_file=False))


def key_of(names: tuple[str, ...]) -> str | None:
    """The key that is stored under this path, or None if the path can't have come from `path_of`."""
    key = ""
    for position, name in enumerate(names):
        bare = _MARKED.sub("", name.removesuffix(_CONTINUED).removesuffix("%"))
        key += unquote(bare)
        if not name.endswith(_CONTINUED) and position < len(names) - 1:
            key += "/"
    return key if is_object_key(key) and path_of(key) == names else None


_IN_A_HOME = re.compile(r"file:///.*?/corpus/((?:documents|clients)/.*)", re.DOTALL)


def address_of(stored: str) -> str:
    """The address of a document as an index keeps it. Earlier versions kept the path of an object's file for its key."""
    found = _IN_A_HOME.fullmatch(stored)
    return (found and key_of(tuple(unquote(found[1]).split("/")))) or stored


def _segment(name: str) -> str:
    """The part of a key that a folder's name stands for."""
    return unquote(_MARKED.sub("", name.removesuffix("%")))


def _names(segment: str, *, is_file: bool) -> tuple[str, ...]:
    whole = _name(segment, is_file=is_file)
    if len(whole.encode()) <= MAX_NAME_BYTES:
        return (whole,)
    pieces = [segment[start : start + PIECE_LENGTH] for start in range(0, len(segment), PIECE_LENGTH)]
    return (*(_marked(piece) + _CONTINUED for piece in pieces[:-1]), _name(pieces[-1], is_file=is_file))


def _name(segment: str, *, is_file: bool) -> str:
    name = _marked(segment)
    return name if ("." in name) == is_file else name + "%"


def _marked(segment: str) -> str:
    name = _UNSAFE.sub(lambda match: f"%{ord(match[0]):02X}", segment)
    if segment.isascii() and segment == segment.lower():
        return name
    stem, dot, extension = name.rpartition(".")
    mark = "~" + hashlib.sha256(segment.encode()).hexdigest()[:8]
    return f"{stem}{mark}.{extension}" if dot else name + mark


Identity = tuple[int, int, int]
"""Inode, time of the last change in nanoseconds, size in bytes. A rename keeps all three."""


class Version(Struct, frozen=True):
    """Etag, metadata and file identity of one content of an object. `stored` is the SHA-256 of the file if it holds other
    bytes than those that the etag is of, or else ""."""

    identity: Identity
    etag: str
    metadata: Mapping[str, str]
    stored: str = ""

    @property
    def size(self) -> int:
        return self.identity[2]

    def is_of(self, path: Path) -> bool:
        """True if this describes the file at `path`."""
        try:
            return _identity(path.stat()) == self.identity
        except FileNotFoundError:
            return False


def identity_of(file: BinaryIO) -> Identity:
    return _identity(os.fstat(file.fileno()))


def read_versions(path: Path) -> list[Version]:
    """The versions recorded in a file, newest first; none if there is no such file. Raises `DamagedStoreError`."""
    try:
        noted = json.loads(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return []
    except (ValueError, RecursionError) as exc:
        raise _damaged_record(path) from exc
    try:
        return [_version_of(entry) for entry in noted]
    except (KeyError, TypeError, ValueError) as exc:
        raise _damaged_record(path) from exc


def _version_of(entry: Mapping[str, Any]) -> Version:
    """Raises `KeyError`, `TypeError` and `ValueError` for anything that `write_versions` doesn't write."""
    inode, changed, size = map(int, entry["identity"])
    etag, metadata, stored = entry["etag"], entry["metadata"], entry.get("stored", "")
    texts = [etag, stored, *(value for pair in metadata.items() for value in pair)]
    if not all(isinstance(text, str) for text in texts):
        raise TypeError("a version has a digest and metadata that are strings")
    return Version((inode, changed, size), etag, metadata, stored)


def _damaged_record(path: Path) -> DamagedStoreError:
    return DamagedStoreError(f"the record of an object's metadata, {path}, is damaged: `opx repair` makes it again")


def write_versions(path: Path, versions: Sequence[Version], temporary: Path) -> None:
    """Replaces the recorded versions, durably."""
    with temporary_file(temporary) as file:
        file.write(versions_data(versions))
        sync_file(file)
        move_into_place(Path(file.name), path)


def versions_data(versions: Sequence[Version]) -> bytes:
    return json.dumps([structs.asdict(version) for version in versions], ensure_ascii=False).encode()


def _identity(stat: os.stat_result) -> Identity:
    return stat.st_ino, stat.st_mtime_ns, stat.st_size


class _GroupedPut(Struct, frozen=True):
    """An object of a group: its temporary file, and what is recorded of it."""

    file: Path
    version: Version


BLOCK = 1024 * 1024
READ_ATTEMPTS = 10


class FolderObjectStore:
    """An `ObjectStore` in a folder: one file per object, under a readable path like its key.

    Several threads and processes may use one folder. Metadata are in `.meta`, in a file of the same path.
    The etag is the SHA-256 of the content. POSIX only.
    """

    def __init__(self, root: Path) -> None:
        self._root = root.absolute()
        self._metadata = self._root / ".meta"
        self._temporary = self._root / ".tmp"
        self._puts = threading.local()
        with translated_os_errors(f"use folder {root}"):
            make_folders(self._metadata)
            make_folders(self._temporary)
            remove_abandoned(self._temporary)

    def put(self, key: str, data: bytes | BinaryIO, *, metadata: Mapping[str, str] | None = None) -> ObjectInfo:
        return self._put(key, io.BytesIO(data) if isinstance(data, bytes) else data, metadata or {})

    def put_if(self, key: str, data: bytes, *, etag: str, metadata: Mapping[str, str] | None = None) -> ObjectInfo:
        check_conditional_put(key, data)
        return self._put(key, io.BytesIO(data), metadata or {}, etag)

    def _put(self, key: str, stream: BinaryIO, metadata: Mapping[str, str], wanted: str | None = None) -> ObjectInfo:
        """Stores an object; with `wanted`, in place of one with this etag, "" for none."""
        check_object_key(key)
        check_metadata(metadata)
        with translated_os_errors(f"store object {key}"), temporary_file(self._temporary) as file:
            etag = _copy(stream, file)
            group: dict[str, _GroupedPut] | None = getattr(self._puts, "group", None)
            if group is not None and wanted is None:
                return self._info(key, self._grouped(key, file, etag, metadata, group))
            waiting: list[Path] | None = getattr(self._puts, "waiting", None)
            syncs_later = waiting is not None and wanted is None and not metadata and is_missing(self._path(key))
            if not syncs_later:
                sync_file(file)
            version = Version(identity_of(file), etag, dict(metadata))
            with locked(self._root / ".lock"):
                if wanted is not None:
                    known = self.head(key)
                    check_etag(key, wanted, known.etag if known else "")
                self._announce(key, version)
                if waiting is not None and syncs_later and is_missing(self._path(key)):
                    place_unsynced(file, self._path(key))
                    waiting.append(self._path(key))
                else:
                    if syncs_later:  # meanwhile there is one
                        sync_file(file)
                    move_into_place(Path(file.name), self._path(key))
        return self._info(key, version)

    @contextmanager
    def together(self) -> Iterator[None]:
        """New objects without metadata that this thread puts in the block are on the disk when it ends: they wait for it at
        the same time. What replaces an object is put as always, lest a crash leaves half of it. Raises
        `StoreUnavailableError`."""
        waiting: list[Path] = []
        self._puts.waiting = waiting
        try:
            yield
        finally:
            self._puts.waiting = None
            with translated_os_errors(f"store objects in {self._root}"):
                sync_all(waiting)

    @contextmanager
    def grouped(self) -> Iterator[None]:
        """Objects that this thread puts in the block are stored when it ends, and none of them if it raises: they wait for
        the disk together. Nobody reads them earlier. Raises `StoreUnavailableError`; some may be stored then."""
        group: dict[str, _GroupedPut] = {}
        self._puts.group = group
        with in_use(self._temporary):
            try:
                yield
                with translated_os_errors(f"store objects in {self._root}"):
                    self._store(group)
            finally:
                self._puts.group = None
                for put in group.values():
                    put.file.unlink(missing_ok=True)

    def _grouped(
        self, key: str, file: BinaryIO, etag: str, metadata: Mapping[str, str], group: dict[str, _GroupedPut]
    ) -> Version:
        """Adds an object to the group, in place of an earlier one of its key."""
        file.flush()
        version = Version(identity_of(file), etag, dict(metadata))
        kept = Path(file.name).rename(self._temporary / secrets.token_hex(16))
        if key in group:
            group[key].file.unlink(missing_ok=True)
        group[key] = _GroupedPut(kept, version)
        return version

    def _store(self, group: Mapping[str, _GroupedPut]) -> None:
        """In the order of a single put: contents, then metadata, then the names of the objects, each of them on the disk
        before the next."""
        sync_files([put.file for put in group.values()])
        with locked(self._root / ".lock"), ExitStack() as temporary:
            records = []
            for key, put in group.items():
                if versions := self._announced(key, put.version):
                    file = temporary.enter_context(temporary_file(self._temporary))
                    file.write(versions_data(versions))
                    file.flush()
                    records.append((Path(file.name), _joined(self._metadata, key)))
            sync_files([file for file, _ in records])
            move_all_into_place(records)
            move_all_into_place([(put.file, self._path(key)) for key, put in group.items()])

    def replace(self, key: str, data: bytes, *, read: bytes, etag: str) -> bool:
        check_object_key(key)
        with translated_os_errors(f"store object {key}"), temporary_file(self._temporary) as file:
            stored = _copy(io.BytesIO(data), file)
            sync_file(file)
            with locked(self._root / ".lock"):
                known = self._current(key, read)
                if known is None or known.etag != etag:
                    return False
                self._announce(key, Version(identity_of(file), etag, known.metadata, stored))
                move_into_place(Path(file.name), self._path(key))
        return True

    def earlier(self, key: str, *, without: bytes) -> Sequence[str]:  # noqa: ARG002 - a folder keeps no versions
        return ()

    def erase_earlier(self, key: str, versions: Sequence[str]) -> Mapping[str, str]:  # noqa: ARG002
        return {}

    def _current(self, key: str, read: bytes) -> Version | None:
        """The version of the object if its file has these bytes."""
        file = self._open(key)
        if file is None:
            return None
        with file:
            version = self._version(key, file)
            file.seek(0)
            return version if file.read(len(read) + 1) == read else None

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
            # The object may have been replaced between the two reads: then the metadata describe another one.
            if version is not None:
                return self._info(key, version)
        raise StoreUnavailableError(f"object {key} changes faster than it can be read")

    def attests(self, info: ObjectInfo) -> bool:  # noqa: ARG002 - as all stores
        """True: metadata are in a folder that only the installation writes to, and which its owner alone can."""
        return True

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

    def delete_many(self, keys: Iterable[str]) -> None:
        for key in keys:
            self.delete(key)

    def list(self, prefix: str = "", *, after: str = "") -> Iterator[ObjectInfo]:
        for key in self._keys(prefix, after):
            info = self._listed(key)
            if info is not None:
                yield info

    def _listed(self, key: str) -> ObjectInfo | None:
        """As `head`, but without metadata if their record is damaged: one object must not hide all others."""
        try:
            return self.head(key)
        except DamagedStoreError:
            file = self._open(key)
        if file is None:
            return None
        with file, translated_os_errors(f"read object {key}"):
            return self._info(key, Version(identity_of(file), _digest(file), {}))

    def _keys(self, prefix: str, after: str) -> Iterator[str]:
        """Keys with the prefix behind `after`, in order: code points sort like UTF-8 bytes."""
        parent = prefix.rpartition("/")[0]
        names = folder_path(parent.split("/")) if is_object_key(parent) else ()
        begin = parent + "/" if names else ""
        found = self._below(names, begin, after)
        return (key for key in found if key > after and key.startswith(prefix))

    def _below(self, names: tuple[str, ...], begin: str, after: str) -> Iterator[str]:
        """Keys of a folder in order; `begin` is what they begin with. Folders with keys before `after` alone are not read."""
        files, folders = self._entries(names)
        if any(
            name.endswith(_CONTINUED) for name in folders
        ):  # a key's segment goes on there: keys beside it may lie between
            yield from sorted(self._all_below(names))
            return
        keys = ((key, "") for name in files if (key := key_of((*names, name))) is not None)
        for text, name in sorted(chain(keys, ((f"{begin}{_segment(name)}/", name) for name in folders))):
            if not name:
                yield text
            elif text >= after or after.startswith(text):
                yield from self._below((*names, name), text, after)

    def _all_below(self, names: tuple[str, ...]) -> Iterator[str]:
        for folder, _, files in os.walk(self._root.joinpath(*names)):
            relative = Path(folder).relative_to(self._root).parts
            keys = (key_of((*relative, name)) for name in files)
            yield from (key for key in keys if key is not None)

    def _entries(self, names: tuple[str, ...]) -> tuple[Sequence[str], Sequence[str]]:
        """Names of the files and folders in a folder, without those of the store itself; none if it is missing."""
        try:
            with os.scandir(self._root.joinpath(*names)) as entries:
                listed = [(entry.name, entry.is_dir(), entry.is_symlink()) for entry in entries]
        except OSError:
            return [], []
        folders = [name for name, is_folder, is_link in listed if is_folder and not is_link]
        files = [name for name, is_folder, _ in listed if not is_folder]
        return files, folders if names else [name for name in folders if not name.startswith(".")]

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
        """Records the metadata of an object that is about to be put, beside those of the one that it replaces."""
        if versions := self._announced(key, version):
            write_versions(_joined(self._metadata, key), versions, self._temporary)

    def _announced(self, key: str, version: Version) -> Sequence[Version]:
        """The versions to record; none if the content alone identifies the object."""
        notes = _joined(self._metadata, key)
        try:
            known = read_versions(notes)
        except DamagedStoreError:  # this put replaces the record
            known = []
            remove_file(notes, self._metadata)
        if not (version.metadata or version.stored or known):
            return ()
        current = [old for old in known if old.is_of(self._path(key))]
        return [version, *(current or known[:2])]

    def _version(self, key: str, file: BinaryIO) -> Version | None:
        """The version of an open object; None if it isn't the current one any more and nothing is recorded about it."""
        known = read_versions(_joined(self._metadata, key))
        identity = identity_of(file)
        for version in known:
            if version.identity == identity:
                return version
        etag = _digest(file)
        found = Version(identity, etag, {})
        if not found.is_of(self._path(key)):
            return None
        # A folder that was copied: its files are new to the system, but their content is the same.
        copied = (replace(old, identity=identity) for old in known if (old.stored or old.etag) == etag)
        return next(copied, found)

    def _path(self, key: str) -> Path:
        return _joined(self._root, key)

    def _info(self, key: str, version: Version) -> ObjectInfo:
        return ObjectInfo(key, version.size, version.etag, key, dict(version.metadata))


def _digest(file: BinaryIO) -> str:
    return hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type] # files have readinto


def _copy(source: BinaryIO, target: BinaryIO) -> str:
    """Copies a stream to its end and returns the SHA-256 of the copied bytes."""
    digest = hashlib.sha256()
    while block := source.read(BLOCK):
        digest.update(block)
        target.write(block)
    return digest.hexdigest()


class FolderObjectIntegrity:
    """`ObjectIntegrity` of a `FolderObjectStore` at the same root."""

    def __init__(self, root: Path) -> None:
        self._root = root.absolute()

    def is_intact(self, key: str) -> bool:
        """An object whose file was changed by a person is intact: it is another one. What changed without being written, and
        so without another time, is damaged."""
        with translated_os_errors(f"read object {key}"):
            try:
                with _joined(self._root, key).open("rb") as file:
                    identity = identity_of(file)
                    known = read_versions(_joined(self._root / ".meta", key))
                    recorded = next((one.stored or one.etag for one in known if one.identity == identity), None)
                    return recorded is None or recorded == _digest(file)
            except FileNotFoundError:
                return True


class FolderObjectHistory:
    """`ObjectHistory` of a `FolderObjectStore` at the same root: there are no versions, but records in `.meta`, which
    an interrupted put leaves without an object."""

    def __init__(self, root: Path) -> None:
        self._root = root.absolute()
        self._metadata = self._root / ".meta"

    def held(self, prefix: str) -> Iterator[str]:
        for root in (self._root, self._metadata):
            for path in self._files(root, prefix):
                names = path.relative_to(root).parts
                yield key_of(names) or "/".join(names)

    def erase(self, prefix: str) -> int:
        count = 0
        with translated_os_errors(f"erase {prefix}"), locked(self._root / ".lock"):
            for root in (self._root, self._metadata):
                count += sum(1 for _ in self._files(root, prefix))
                folder = _folder(root, prefix)
                if folder.is_dir():  # as a whole: a folder that is synced for each of its files takes 3 ms per file
                    shutil.rmtree(folder)
                    sync_folder(folder.parent)
        return count

    def _files(self, root: Path, prefix: str) -> Iterator[Path]:
        with translated_os_errors(f"list {prefix}"):
            for folder, _, files in os.walk(_folder(root, prefix)):
                yield from (Path(folder, name) for name in sorted(files))


def _folder(root: Path, prefix: str) -> Path:
    if not prefix.endswith("/") or prefix == "/":
        raise InvalidInputError(f"{prefix!r} is not a folder: it ends with no '/'")
    return root.joinpath(*folder_path(prefix.removesuffix("/").split("/")))
