"""Local files as documents: finds them, without leaving their folder, derives their source names, and reads digests and
sidecars."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opx.errors import InvalidInputError
from opx.ingestion.events import SIDECAR_SUFFIX, EventOutcome, Result
from opx.ports import ObjectInfo

OBJECT_METADATA = "opx-document"
"""Name of the object's user metadata with the uploader's facts as JSON, which win over the document's own."""

MAX_DEPTH = 64
"""Levels of folders below the one that is read."""

MAX_FILES = 1_000_000
"""Files of one folder, with those in the folders below it."""

LEADS_OUT = "a link that leads out of the folder"
LINKED_FOLDER = "links to folders are not followed"
NO_FILE = "no regular file, or a link to none"
TOO_DEEP = f"folders below {MAX_DEPTH} levels are not read"
LEFT_OUT = frozenset({LEADS_OUT, LINKED_FOLDER, NO_FILE, TOO_DEEP})
"""Reasons for which a file or folder is not read."""

_HASH_BLOCK = 1024 * 1024


@dataclass(frozen=True, slots=True)
class FileToIngest:
    """A file on disk and the source name of its document. `renamed` is the name of the file where it has another one."""

    path: Path
    source: str
    renamed: str = ""

    def described(self, metadata: Mapping[str, Any]) -> dict[str, Any]:
        """Metadata for its object: the name and path of the file, and the caller's metadata."""
        return described(self.renamed or self.source, metadata)


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A file or folder that is not read, with the reason."""

    path: Path
    reason: str


def plan_files(paths: Sequence[Path], base: Path) -> Iterator[FileToIngest | EventOutcome]:
    """The files under `paths` in a stable order. Sources are relative to `base` where possible, so that they stay
    the same wherever the command runs. A path that can't be read is a failed outcome, and what `regular_files` leaves out a
    skipped one; a link that is one of `paths` is followed. Raises `InvalidInputError` for a folder of too many files."""
    for path in paths:
        if path.is_file():
            yield FileToIngest(path, source_name(path, base))
        elif path.is_dir():
            yield from _planned(path, base)
        else:
            there = path.exists()
            reason = f"neither a file nor a folder: {path}" if there else f"no such file or folder: {path}"
            yield EventOutcome(Result.FAILED, str(path), reason, error=InvalidInputError(reason))


def _planned(folder: Path, base: Path) -> Iterator[FileToIngest | EventOutcome]:
    for found in regular_files(folder):
        if isinstance(found, LeftOut):
            yield EventOutcome(Result.SKIPPED, str(found.path), found.reason)
        elif not found.name.endswith(SIDECAR_SUFFIX):
            yield FileToIngest(found, source_name(found, base))


def regular_files(root: Path) -> Iterator[Path | LeftOut]:
    """Files below a folder in a stable order, hidden ones and those in hidden folders excepted.

    A symbolic link is followed to a file in the folder only: a repository could otherwise name any
    file of this machine. Raises `InvalidInputError` for more than `MAX_FILES`.
    """
    count = 0
    for base, folders, names in os.walk(root):
        here = Path(base)
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield from (LeftOut(here / name, LINKED_FOLDER) for name in folders if (here / name).is_symlink())
        if folders and len(here.relative_to(root).parts) >= MAX_DEPTH:
            yield LeftOut(here, TOO_DEEP)
            folders.clear()
        for name in sorted(name for name in names if not name.startswith(".")):
            count += 1
            if count > MAX_FILES:
                raise InvalidInputError(f"{root} has more than {MAX_FILES:,} files: name the folders in it to read")
            reason = _reason_to_leave_out(here / name, root)
            yield LeftOut(here / name, reason) if reason else here / name


def leads_out(path: Path, folder: Path) -> bool:
    """True for a symbolic link to anything outside of the folder."""
    return path.is_symlink() and not _real(path).is_relative_to(_real(folder))


def _reason_to_leave_out(path: Path, root: Path) -> str:
    if leads_out(path, root):
        return LEADS_OUT
    return "" if path.is_file() else NO_FILE


def _real(path: Path) -> Path:
    """The target of a path; unlike `Path.resolve`, without an error for links that lead to themselves."""
    return Path(os.path.realpath(path))


def source_name(path: Path, base: Path) -> str:
    """The path relative to `base`, with `/`; absolute if it is elsewhere."""
    absolute = path.absolute()
    try:
        return absolute.relative_to(base).as_posix()
    except ValueError:
        return absolute.as_posix()


def described(source: str, metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Metadata for a file's object: its name and source, and the caller's metadata."""
    return {"name": source.rsplit("/", 1)[-1], "source_uri": source, **metadata}


def stated_facts(info: ObjectInfo) -> dict[str, Any]:
    """The uploader's facts of an object; none if they are malformed."""
    try:
        facts = json.loads(info.metadata.get(OBJECT_METADATA) or "{}")
    except (ValueError, RecursionError):
        return {}
    return facts if isinstance(facts, dict) else {}


def sidecar_of(path: Path) -> Path | None:
    """The sidecar of the document `path`, if there is one; a link to another folder is none."""
    sidecar = path.with_name(path.name + SIDECAR_SUFFIX)
    return sidecar if sidecar.is_file() and not leads_out(sidecar, path.parent) else None


def file_digest(path: Path) -> str:
    """SHA-256 of a file, in hex. Raises `OSError`."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while block := stream.read(_HASH_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def unreadable(object_key: str, path: Path, error: OSError) -> EventOutcome:
    """The outcome of a file that can't be read."""
    reason = f"can't read {path}: {error.strerror}"
    return EventOutcome(Result.FAILED, object_key, reason, error=InvalidInputError(reason))
