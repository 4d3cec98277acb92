"""How an archive is written."""

from __future__ import annotations

import hashlib
import json
import stat
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import IO, Any

from opx.lifecycle.archive.file import BLOCK, ENTRIES, FORMAT, MANIFEST, Entry, digest_of


class EntryWriter:
    """Takes the bytes of one entry."""

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
    """Writes an archive. One entry at a time; `finish` makes it whole, and without it nobody can read it."""

    def __init__(self, file: IO[bytes]) -> None:
        self._zip = zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, allowZip64=True, compresslevel=6)
        self._entries: list[Entry] = []

    def __enter__(self) -> ArchiveWriter:
        return self

    def __exit__(self, *_: object) -> None:
        """Whatever isn't finished by now has no manifest."""
        self._zip.close()

    @contextmanager
    def entry(self, name: str) -> Iterator[EntryWriter]:
        info = zipfile.ZipInfo(name)  # of 1980: equal contents, equal files
        info.compress_type = zipfile.ZIP_DEFLATED
        info.external_attr = (stat.S_IFREG | 0o600) << 16
        with self._zip.open(info, "w", force_zip64=True) as target:
            writer = EntryWriter(target)
            yield writer
        self._entries.append(Entry(name, writer.size, writer.sha256))

    def add_lines(self, name: str, lines: Iterator[str]) -> int:
        """An entry of lines; how many there were."""
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
    """A temporary file that is in memory while it is small."""
    return tempfile.SpooledTemporaryFile(BLOCK)
