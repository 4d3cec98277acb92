"""What is known about an object beside its content, kept so that a crash never pairs one version with another's facts.

A put first writes the facts of the new file next to those of the current one, then renames the file: that rename is the
one moment of change. The file's identity (inode, time, size) then tells which facts are its own.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import BinaryIO

from opx.adapters.embedded.durable_files import move_into_place, sync_file, temporary_file

Identity = tuple[int, int, int]
"""Inode, time of the last change in nanoseconds, size in bytes. A rename keeps all three."""


@dataclass(frozen=True, slots=True)
class Version:
    """The facts of one content of an object."""

    identity: Identity
    etag: str
    metadata: Mapping[str, str]

    @property
    def size(self) -> int:
        return self.identity[2]

    def is_of(self, path: Path) -> bool:
        """Whether the file at `path` is the one that this describes."""
        try:
            return _identity(path.stat()) == self.identity
        except FileNotFoundError:
            return False


def identity_of(file: BinaryIO) -> Identity:
    return _identity(os.fstat(file.fileno()))


def read_versions(path: Path) -> list[Version]:
    """The versions noted in a file, newest first; none if there is no such file."""
    try:
        noted = json.loads(path.read_bytes())
    except FileNotFoundError:
        return []
    return [Version(tuple(entry["identity"]), entry["etag"], entry["metadata"]) for entry in noted]


def write_versions(path: Path, versions: Sequence[Version], temporary: Path) -> None:
    """Replace what is noted, durably."""
    with temporary_file(temporary) as file:
        file.write(json.dumps([asdict(version) for version in versions], ensure_ascii=False).encode())
        sync_file(file)
        move_into_place(Path(file.name), path)


def _identity(stat: os.stat_result) -> Identity:
    return stat.st_ino, stat.st_mtime_ns, stat.st_size
