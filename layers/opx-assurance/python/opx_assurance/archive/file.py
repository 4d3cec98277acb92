"""Reads and writes the archive file: entries with checksums, whatever their contents are.

A ZIP file (APPNOTE.TXT of PKWARE), so that any tool can inspect it. Its last two entries are the index:
`entries.jsonl` lists the others with size and SHA-256, and `manifest.json` has the SHA-256 of that list and of itself.
Names of entries are ours and never become paths: nothing is ever unpacked into a folder.
"""

from __future__ import annotations

import hashlib
import json
import re
import stat
import struct
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Annotated, Any, BinaryIO

from msgspec import Meta

from opx.domain.record import Record, from_json
from opx.errors import ArchiveError, InvalidInputError

FORMAT = 1
MANIFEST, ENTRIES = "manifest.json", "entries.jsonl"
BLOCK = 1024 * 1024
MAX_ENTRIES = 100_000
MAX_MANIFEST_BYTES = 1024 * 1024
MAX_LINE_BYTES = 2 * 1024 * 1024
"""A table item has at most 400 KB, which as JSON stays below this limit."""

MAX_GROWTH = 200
"""Limit of the decompression ratio of the whole file; text and rows grow tenfold, seldom thirtyfold."""

SMALL_BYTES = 100 * 1024 * 1024
"""Total uncompressed size that is accepted at any ratio."""

_NAME = re.compile(r"[a-z0-9][a-z0-9.-]{0,99}(/[a-z0-9][a-z0-9.-]{0,99})?\Z")
_DAMAGED = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, ValueError, OSError)
"""Errors that `zipfile` raises for a damaged file or another format; offsets in it may be negative."""

_ENCRYPTED = 0x1
_FIELD = struct.Struct("<HH")
_UNIX_FIELD = 0x000D
"""PKWARE's extra field for Unix, with the target of a link (APPNOTE.TXT, 4.5.7)."""


class ArchiveEntry(Record, frozen=True):
    """An entry of the list of entries."""

    name: str
    size: int
    sha256: str


class ArchiveReader:
    """Reads an archive, which is untrusted: another program may have written it. A context manager.

    Raises `ArchiveError` for any defect before the contents are returned: the constructor for the structure of the file
    and its manifest, `verify` for checksums. Memory is bounded by the maximum length of a line.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._file = path.open("rb")
        except OSError as exc:
            raise ArchiveError(f"{path} can't be read: {exc.strerror or exc}") from exc
        try:
            with self._readable():
                self._zip = zipfile.ZipFile(self._file)
            self._infos = self._checked_infos()
            self.manifest = self._manifest()
            self._entries = self._listed()
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> ArchiveReader:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    @property
    def sha256(self) -> str:
        """Checksum of the manifest, which depends on everything in the archive."""
        return str(self.manifest["sha256"])

    @property
    def names(self) -> list[str]:
        return [entry.name for entry in self._entries]

    def verify(self, progress: Callable[[str], None] = lambda _: None) -> None:
        """Read every entry and compare its checksum."""
        for entry in self._entries:
            progress(entry.name)
            digest = hashlib.sha256()
            with self.open(entry.name) as source:
                while block := source.read(BLOCK):
                    digest.update(block)
            if digest.hexdigest() != entry.sha256:
                raise self._damaged(entry.name)

    def lines(self, name: str) -> Iterator[dict[str, Any]]:
        """The lines of an entry, each a JSON object; none if the entry is missing."""
        return (_object(line, f"{self._path}: {name}") for line in self.raw_lines(name))

    def raw_lines(self, name: str) -> Iterator[bytes]:
        """The lines of an entry, with their line ends; none if the entry is missing."""
        if name not in self._infos:
            return
        with self.open(name) as source:
            while line := self._line(source, name):
                yield line

    @contextmanager
    def open(self, name: str) -> Iterator[BinaryIO]:
        """The bytes of an entry."""
        if name not in self._infos:
            raise ArchiveError(f"{self._path}: entry {name[:100]} is missing")
        with self._readable(name):
            source = self._zip.open(self._infos[name])
        with source:
            yield _Guarded(source, lambda: self._readable(name))  # type: ignore[misc]

    # -- structure and manifest

    def _checked_infos(self) -> dict[str, zipfile.ZipInfo]:
        infos = self._zip.infolist()
        if len(infos) > MAX_ENTRIES:
            raise ArchiveError(f"{self._path} has {len(infos):,} entries; an archive has at most {MAX_ENTRIES:,}")
        for info in infos:
            self._check_info(info)
        found = {info.filename: info for info in infos}
        if len(found) < len(infos):
            raise ArchiveError(f"{self._path} has two entries of one name")
        total, allowed = sum(info.file_size for info in infos), self._allowed()
        if total > allowed:
            raise ArchiveError(
                f"{self._path} would decompress to {total:,} bytes, more than {MAX_GROWTH} times its size: it is no archive "
                "of `opx export`"
            )
        return found

    def _allowed(self) -> int:
        return max(SMALL_BYTES, MAX_GROWTH * self._path.stat().st_size)

    def _check_info(self, info: zipfile.ZipInfo) -> None:
        kind = stat.S_IFMT(info.external_attr >> 16)
        plain = info.compress_type in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) and not info.flag_bits & _ENCRYPTED
        plain = plain and _UNIX_FIELD not in _fields_of(info.extra)
        if not _NAME.match(info.filename) or kind not in (0, stat.S_IFREG) or not plain:
            raise ArchiveError(f"{self._path}: entry {info.filename[:100]!r} is not one that `opx export` writes")

    def _manifest(self) -> dict[str, Any]:
        if MANIFEST not in self._infos or self._infos[MANIFEST].file_size > MAX_MANIFEST_BYTES:
            raise ArchiveError(f"{self._path} has no manifest: it is no archive of `opx export`, or was never finished")
        with self.open(MANIFEST) as source:
            manifest = _object(source.read(MAX_MANIFEST_BYTES), f"{self._path}: {MANIFEST}")
        version = manifest.get("format")
        if isinstance(version, int) and version > FORMAT:
            raise ArchiveError(
                f"{self._path} is of format {version}, this program reads up to {FORMAT}: import it with a program at "
                f"least as new as the one that wrote it ({manifest.get('version', 'unknown')})"
            )
        if version != FORMAT:
            raise ArchiveError(f"{self._path} has no format that this program knows")
        if manifest.get("sha256") != digest_of({name: value for name, value in manifest.items() if name != "sha256"}):
            raise self._damaged(MANIFEST)
        return manifest

    def _listed(self) -> list[ArchiveEntry]:
        """The list of entries, compared with the entries there are."""
        self._check_listing()
        entries = [_entry(line, f"{self._path}: {ENTRIES}") for line in self.lines(ENTRIES)]
        sizes = {name: info.file_size for name, info in self._infos.items() if name not in (MANIFEST, ENTRIES)}
        for entry in entries:
            if sizes.pop(entry.name, None) != entry.size:
                raise ArchiveError(f"{self._path}: entry {entry.name[:100]} is missing, or has another size")
        if sizes:
            raise ArchiveError(f"{self._path}: entry {next(iter(sizes))} is not among those listed")
        return entries

    def _check_listing(self) -> None:
        with self.open(ENTRIES) as source:
            digest = hashlib.sha256()
            while block := source.read(BLOCK):
                digest.update(block)
        listing = self.manifest.get("entries")
        if not isinstance(listing, dict) or listing.get("sha256") != digest.hexdigest():
            raise self._damaged(ENTRIES)

    def _line(self, source: BinaryIO, name: str) -> bytes:
        line = source.readline(MAX_LINE_BYTES + 1)
        if len(line) > MAX_LINE_BYTES:
            raise ArchiveError(f"{self._path}: {name} has a line of more than {MAX_LINE_BYTES:,} bytes")
        return line

    def _damaged(self, name: str) -> ArchiveError:
        return ArchiveError(
            f"{self._path}: the checksum of {name} is wrong: the archive was damaged or changed; take another copy of it"
        )

    @contextmanager
    def _readable(self, name: str = "") -> Iterator[None]:
        try:
            yield
        except _DAMAGED as exc:
            where = f"entry {name} is damaged" if name else "it is no archive, or was cut"
            raise ArchiveError(f"{self._path}: {where}: {exc}") from exc


def _fields_of(extra: bytes) -> set[int]:
    """Ids of the extra fields of an entry."""
    found: set[int] = set()
    while len(extra) >= _FIELD.size:
        name, size = _FIELD.unpack_from(extra)
        found.add(name)
        extra = extra[_FIELD.size + size :]
    return found


class _Guarded:
    """A stream whose errors name the entry."""

    def __init__(self, source: IO[bytes], readable: Callable[[], Any]) -> None:
        self._source = source
        self._readable = readable

    def read(self, size: int = -1) -> bytes:
        with self._readable():
            return self._source.read(size)

    def readline(self, size: int = -1) -> bytes:
        with self._readable():
            return self._source.readline(size)


def digest_of(manifest: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(manifest, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _object(data: bytes, where: str) -> dict[str, Any]:
    try:
        found = json.loads(data.decode("utf-8", "surrogatepass"))
    except (ValueError, RecursionError) as exc:
        raise ArchiveError(f"{where} is not JSON: {str(exc)[:100]}") from exc
    if not isinstance(found, dict):
        raise ArchiveError(f"{where} is not a JSON object")
    return found


def _entry(line: Mapping[str, Any], where: str) -> ArchiveEntry:
    try:
        return ArchiveEntry.from_json(line)
    except InvalidInputError as exc:
        raise ArchiveError(f"{where} names an entry without name, size or checksum") from exc


# -- writing


class EntryWriter:
    """Writes the bytes of one entry; computes size and checksum."""

    def __init__(self, target: IO[bytes]) -> None:
        self._target = target
        self._digest = hashlib.sha256()
        self.size = 0

    def write(self, data: bytes) -> None:
        self._target.write(data)
        self._digest.update(data)
        self.size += len(data)

    @property
    def sha256(self) -> str:
        return self._digest.hexdigest()


class ArchiveWriter:
    """Writes an archive, one entry at a time; without `finish` the archive is unreadable."""

    def __init__(self, file: IO[bytes]) -> None:
        self._zip = zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, allowZip64=True, compresslevel=6)
        self._entries: list[ArchiveEntry] = []

    def __enter__(self) -> ArchiveWriter:
        return self

    def __exit__(self, *_: object) -> None:
        """Close the file; an unfinished archive has no manifest."""
        self._zip.close()

    @contextmanager
    def entry(self, name: str) -> Iterator[EntryWriter]:
        info = zipfile.ZipInfo(name)  # of 1980: equal contents, equal files
        info.compress_type = zipfile.ZIP_DEFLATED
        info.external_attr = (stat.S_IFREG | 0o600) << 16
        with self._zip.open(info, "w", force_zip64=True) as target:
            writer = EntryWriter(target)
            yield writer
        self._entries.append(ArchiveEntry(name, writer.size, writer.sha256))

    def add_lines(self, name: str, lines: Iterator[str]) -> int:
        """Write an entry of lines; returns their number."""
        count = 0
        with self.entry(name) as target:
            for line in lines:
                target.write(line.encode("utf-8", "surrogatepass") + b"\n")
                count += 1
        return count

    def finish(self, facts: Mapping[str, Any]) -> None:
        """Write the list of entries and the manifest, which also has these facts."""
        entries = list(self._entries)
        self.add_lines(ENTRIES, (json.dumps(entry.to_json(), separators=(",", ":")) for entry in entries))
        listing = self._entries[-1]
        manifest = {"format": FORMAT, **facts, "entries": {"count": len(entries), "sha256": listing.sha256}}
        with self.entry(MANIFEST) as target:
            target.write(json.dumps({**manifest, "sha256": digest_of(manifest)}, indent=2).encode())


def spooled() -> tempfile.SpooledTemporaryFile[bytes]:
    """A temporary file that stays in memory while it is small."""
    return tempfile.SpooledTemporaryFile(BLOCK)


# -- blobs


PACK_BYTES = 64 * 1024 * 1024
"""Size from which a pack gets no further object."""

MAX_BLOB_BYTES = 5 * 1024**3
"""Limit of S3 for one part of a copy; documents are far smaller."""


class Blob(Record, frozen=True):
    """An object with the position of its bytes in a pack."""

    key: str
    pack: str
    start: Annotated[int, Meta(ge=0)]
    size: Annotated[int, Meta(ge=0, le=MAX_BLOB_BYTES)]
    sha256: str
    metadata: dict[str, str]

    @classmethod
    def from_json(cls, data: Any) -> Blob:
        """Raises `ArchiveError` for anything that `to_json` doesn't return."""
        try:
            return from_json(cls, data)
        except InvalidInputError as exc:
            raise ArchiveError(f"an object is listed without its required fields: {str(data)[:200]}") from exc


class BlobWriter:
    """Writes objects into packs of an archive; no other entry may be written meanwhile. A context manager."""

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
        """Write a stream to its end."""
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
    """Reads the bytes of objects; in the order in which they were written, each pack is read once. A context manager."""

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
        """A temporary file with the object. Raises `ArchiveError` if its checksum is wrong."""
        with spooled() as target:
            for block in self._blocks(blob):
                target.write(block)
            target.seek(0)
            yield target

    def check(self, blob: Blob) -> None:
        """Raises `ArchiveError` if the checksum of the object is wrong."""
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
