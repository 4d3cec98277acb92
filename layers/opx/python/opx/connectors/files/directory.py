"""A directory of this machine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from opx.connectors.connector import Batch, Connector, Options
from opx.domain.sources import Page, PullRequest, SourceDocument
from opx.domain.times import iso_time
from opx.errors import InvalidInputError, SourceRefusedError

PAGE_BYTES = 16 * 1024 * 1024
MAX_NAME = 255


class DirectoryOptions(Options, frozen=True):
    """`pattern` is matched against names, or against the path from `path` if it has a `/` (`docs/**/*.md`)."""

    path: str
    pattern: str = "*.md"
    max_bytes: int = 32 * 1024 * 1024

    def __post_init__(self) -> None:
        parts = self.pattern.split("/")
        if not set(parts) - {"."} or not all(map(_is_part, parts)):
            raise InvalidInputError(
                f"pattern {self.pattern!r}: write a name such as *.md, or a path below `path` such as docs/**/*.md"
            )


def _is_part(part: str) -> bool:
    """Whether a part of a pattern stays below the folder, and is one that pathlib takes."""
    return 0 < len(part) <= MAX_NAME and part != ".." and (part == "**" or "**" not in part)


class Directory(Connector[DirectoryOptions]):
    """Files of a directory and those below it: new, changed, renamed and deleted ones."""

    local = True

    def pull(self, request: PullRequest) -> Iterator[Page]:  # noqa: ARG002 - files are listed as a whole
        batch = Batch()
        for path in self._files():
            self._read(path, batch)
            if batch.size >= PAGE_BYTES:
                yield batch.page()
        yield batch.page(complete=True)

    def probe(self) -> None:
        if not self._folder.is_dir():
            raise SourceRefusedError(f"{self._folder} is no directory of this machine: mount it, or correct the path")

    @property
    def _folder(self) -> Path:
        return Path(self.options.path).expanduser()

    def _files(self) -> list[Path]:
        """Every file whose name fits, hidden ones left out, in a stable order."""
        self.probe()
        pattern = self.options.pattern
        found = self._folder.glob(pattern) if "/" in pattern else self._folder.rglob(pattern)
        return sorted(path for path in found if path.is_file() and not self._is_hidden(path))

    def _is_hidden(self, path: Path) -> bool:
        return any(part.startswith(".") for part in path.relative_to(self._folder).parts)

    def _read(self, path: Path, batch: Batch) -> None:
        key = path.relative_to(self._folder).as_posix()
        try:
            facts = path.stat()
            if facts.st_size > self.options.max_bytes:
                batch.refuse(key, f"it has {facts.st_size:,} bytes; the limit is max_bytes {self.options.max_bytes:,}")
                return
            content = path.read_bytes()
        except OSError as exc:
            batch.refuse(key, f"it can't be read: {exc.strerror}")
            return
        metadata = {"name": path.name, "source_uri": str(path), "last_updated": iso_time(facts.st_mtime)}
        batch.add(SourceDocument(key, content, metadata))
