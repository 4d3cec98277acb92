"""Local files as documents: finds them, derives their source names, and reads digests and sidecars."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opx.errors import InvalidInputError
from opx.ingestion.events import SIDECAR_SUFFIX, EventOutcome, Result

_HASH_BLOCK = 1024 * 1024


@dataclass(frozen=True, slots=True)
class FileToIngest:
    """A file on disk and the source name of its document."""

    path: Path
    source: str


def plan_files(paths: Sequence[Path], base: Path) -> Iterator[FileToIngest | EventOutcome]:
    """The files under `paths` in a stable order. Sources are relative to `base` where possible, so that they stay
    the same wherever the command runs. A path that doesn't exist is a failed outcome."""
    for path in paths:
        if not path.exists():
            reason = f"no such file or folder: {path}"
            yield EventOutcome(Result.FAILED, str(path), reason, error=InvalidInputError(reason))
            continue
        files = [path] if path.is_file() else sorted(p for p in path.rglob("*") if _is_document(p, path))
        for file in files:
            yield FileToIngest(file, source_name(file, base))


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


def sidecar_of(path: Path) -> Path | None:
    """The sidecar of the document `path`, if there is one."""
    sidecar = path.with_name(path.name + SIDECAR_SUFFIX)
    return sidecar if sidecar.is_file() else None


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


def _is_document(path: Path, root: Path) -> bool:
    hidden = any(part.startswith(".") for part in path.relative_to(root).parts)
    return path.is_file() and not hidden and not path.name.endswith(SIDECAR_SUFFIX)
