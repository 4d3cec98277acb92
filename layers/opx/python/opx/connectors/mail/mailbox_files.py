"""Messages in files of this machine: a folder of `.eml` files, an mbox file, or a Maildir."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from opx.connectors.connector import Batch, Connector, Options, SourceTools
from opx.connectors.mail.documents import message_document
from opx.domain.sources import Cursor, Page, PullRequest, SourceDefinition, SourceDocument
from opx.errors import SourceRefusedError, SourceUnavailableError
from opx.formats.data.replies import OddRecordError

PAGE_MESSAGES = 50
PAGE_BYTES = 16 * 1024 * 1024
"""Of messages that are held at a time; one that is larger is a page of its own."""


class MailboxOptions(Options, frozen=True):
    """`path` is a folder or an mbox file. Of a Maildir, `cur` and `new` are read; of another folder, its `.eml` files and
    those of folders in it. Links to elsewhere are not followed."""

    path: str
    max_message_bytes: int = 25 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class _Found:
    """A message. `behind` is where a pull goes on after it; `data` is None if it is too large."""

    key: str
    behind: dict[str, str | int]
    address: str
    data: bytes | None


class MailboxConnector(Connector[MailboxOptions]):
    """One document a message. All are read in every pull, and those that are gone are noticed."""

    local = True

    def __init__(self, definition: SourceDefinition, options: MailboxOptions, tools: SourceTools) -> None:
        super().__init__(definition, options, tools)
        self._path = self.local_path(options.path)

    def probe(self) -> None:
        next(self._messages({}), None)

    def pull(self, request: PullRequest) -> Iterator[Page]:
        batch = Batch()
        for found in self._messages(request.cursor):
            with batch.refusing(found.key):
                batch.add(self._document(found))
            if len(batch.documents) + len(batch.refused) >= PAGE_MESSAGES or batch.size >= PAGE_BYTES:
                yield batch.page(found.behind)
        yield batch.page(complete=True)

    def _document(self, found: _Found) -> SourceDocument:
        if found.data is None:
            raise OddRecordError(f"larger than {self.options.max_message_bytes:,} bytes (max_message_bytes)")
        return message_document(found.key, found.data, address=found.address)

    def _messages(self, cursor: Cursor) -> Iterator[_Found]:
        """Messages from a cursor on: of files, behind a name; of an mbox, from a place in it."""
        try:
            if self._path.is_dir():
                yield from self._of_folder(str(cursor.get("after", "")))
            elif self._path.is_file():
                yield from self._of_mbox(int(cursor.get("position", 0)))
            else:
                raise SourceRefusedError(f"{self.name}: there is no file or folder {self._path}")
        except OSError as exc:
            raise SourceUnavailableError(f"{self.name}: {exc.filename or self._path}: {exc.strerror}") from exc

    # -- a folder

    def _of_folder(self, after: str) -> Iterator[_Found]:
        maildir = (self._path / "cur").is_dir() and (self._path / "new").is_dir()
        for name, file in self._maildir() if maildir else self._files():
            if after and _place(name) <= _place(after):
                continue
            large = file.stat().st_size > self.options.max_message_bytes
            key = f"{name}.eml" if maildir else name
            yield _Found(key, {"after": name}, file.as_uri(), None if large else file.read_bytes())

    def _maildir(self) -> list[tuple[str, Path]]:
        """By name without the flags and the folder, which change when a message is read."""
        files = (file for part in ("cur", "new") for file in (self._path / part).iterdir() if _is_own_file(file))
        return sorted((file.name.partition(":")[0], file) for file in files)

    def _files(self) -> Iterator[tuple[str, Path]]:
        """Folder by folder, so that no more than the names of one are held."""
        for base, folders, names in os.walk(self._path):
            folders.sort()
            for name in sorted(names):
                file = Path(base) / name
                if file.suffix.lower() == ".eml" and _is_own_file(file):
                    yield file.relative_to(self._path).as_posix(), file

    # -- an mbox

    def _of_mbox(self, position: int) -> Iterator[_Found]:
        """Each message is called by its Message-ID and content, as its place in the file changes."""
        with self._path.open("rb") as stream:
            stream.seek(position)
            digest = hashlib.sha256()
            lines: list[bytes] = []
            size, started, blank = 0, False, True
            while True:
                line = stream.readline(1024 * 1024)
                if not line or (blank and line.startswith(b"From ")):
                    if started:
                        data = None if size > self.options.max_message_bytes else b"".join(lines)
                        behind = stream.tell() - len(line)
                        yield _Found(f"{digest.hexdigest()[:32]}.eml", {"position": behind}, self._path.as_uri(), data)
                    if not line:
                        return
                    digest, lines, size, started = hashlib.sha256(), [], 0, True
                    continue
                blank = not line.strip()
                digest.update(line)
                size += len(line)
                if size <= self.options.max_message_bytes:
                    lines.append(line.removeprefix(b">") if line.lstrip(b">").startswith(b"From ") else line)


def _is_own_file(file: Path) -> bool:
    return file.is_file() and not file.is_symlink()


def _place(name: str) -> tuple[tuple[int, str], ...]:
    """Where a file comes: a folder's own files before those of the folders in it."""
    *folders, last = name.split("/")
    return (*((1, folder) for folder in folders), (0, last))
