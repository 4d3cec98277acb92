"""Pulls messages in files of this machine: a folder of `.eml` files, an mbox file, or a Maildir."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from email import policy
from email.errors import MessageError
from email.header import decode_header, make_header
from email.message import Message
from email.parser import BytesHeaderParser
from email.utils import parseaddr, parsedate_to_datetime
from pathlib import Path
from typing import Annotated, Any

from opx.connectors.connector import Batch, Connector, Options, SourceTools
from opx.domain.ids import iso_time
from opx.domain.record import about
from opx.domain.sources import Cursor, Page, PullRequest, SourceDefinition, SourceDocument
from opx.errors import SourceRefusedError, SourceUnavailableError
from opx.formats.data.replies import OddRecordError
from opx.formats.markdown import one_line
from opx.formats.source import well_formed

PAGE_MESSAGES = 50
PAGE_BYTES = 16 * 1024 * 1024
"""Size of the messages that are held at a time; a larger one is a page of its own."""


class MailboxOptions(Options, frozen=True):
    """Location and limits of messages. Links are not followed."""

    path: Annotated[
        str,
        about(
            "A folder, whose .eml files are read with those of folders in it; a Maildir, of which cur "
            "and new are read; or an mbox file."
        ),
    ]
    max_message_bytes: Annotated[int, about("Larger messages are reported, not read.")] = 25 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class _Found:
    """A message. `behind` is the cursor that resumes after it; `data` is None if it is too large."""

    key: str
    behind: dict[str, str | int]
    address: str
    data: bytes | None


class MailboxConnector(Connector[MailboxOptions]):
    """Pulls one document per message. Every pull reads all, so that deleted ones are noticed."""

    about = "messages in .eml files, an mbox file or a Maildir of this machine"
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
        """Returns messages from a cursor on: of files, behind a name; of an mbox, from an offset in it."""
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
            if after and _order(name) <= _order(after):
                continue
            large = file.stat().st_size > self.options.max_message_bytes
            key = f"{name}.eml" if maildir else name
            yield _Found(key, {"after": name}, file.as_uri(), None if large else file.read_bytes())

    def _maildir(self) -> list[tuple[str, Path]]:
        """Files of a Maildir by name without the flags and the folder, which change when a message is read."""
        files = (file for part in ("cur", "new") for file in (self._path / part).iterdir() if _is_own_file(file))
        return sorted((file.name.partition(":")[0], file) for file in files)

    def _files(self) -> Iterator[tuple[str, Path]]:
        """Files folder by folder, so that no more than the names of one are held."""
        for base, folders, names in os.walk(self._path):
            folders.sort()
            for name in sorted(names):
                file = Path(base) / name
                if file.suffix.lower() == ".eml" and _is_own_file(file):
                    yield file.relative_to(self._path).as_posix(), file

    # -- an mbox

    def _of_mbox(self, position: int) -> Iterator[_Found]:
        """Messages of an mbox, keyed by a hash of their bytes, as their position in the file changes."""
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


def _order(name: str) -> tuple[tuple[int, str], ...]:
    """Sort key of a file: a folder's own files before those of the folders in it."""
    *folders, last = name.split("/")
    return (*((1, folder) for folder in folders), (0, last))


# -- documents


HEADER_BYTES = 256 * 1024
"""Size of a message's beginning that is searched for headers; those of real ones end within a few kilobytes."""

_PREFIX = re.compile(r"^(?:\s*(?:re|fwd?|aw|wg|sv|antw)\s*(?:\[\d+\])?:)+\s*", re.IGNORECASE)


def message_document(key: str, data: bytes, *, address: str = "", received: str = "") -> SourceDocument:
    """Returns a message's document; its key ends with `.eml`. `address` is its location, `received` the time of receipt,
    used if the headers have no date. Raises `OddRecordError` if it is not a message."""
    headers = BytesHeaderParser(policy=policy.compat32).parsebytes(data[:HEADER_BYTES])
    if not data.strip() or not headers.keys():
        raise OddRecordError("not a message: it has no headers")
    subject = _decoded(headers, "Subject")
    sent = _date(headers) or received
    sender, sender_address = parseaddr(_decoded(headers, "From"))
    metadata: dict[str, Any] = {
        "title": subject or "(no subject)",
        "author": sender or sender_address,
        "source_uri": address,
        "created_at": sent,
        "last_updated": sent,
        "tags": ["e-mail", *_thread(subject)],
    }
    return SourceDocument(key, data, {name: value for name, value in metadata.items() if value})


def _thread(subject: str) -> list[str]:
    """Tag of a conversation: the subject without the prefixes that mail programs add."""
    topic = _PREFIX.sub("", subject).strip()
    return [f"thread: {topic[:120]}"] if topic else []


def _date(headers: Message) -> str:
    """Time of sending, "" if the header is missing or wrong."""
    try:
        return iso_time(parsedate_to_datetime(str(headers.get("Date", ""))).timestamp())
    except (ValueError, OverflowError, OSError):
        return ""


def _decoded(headers: Message, name: str) -> str:
    """Header in one line: encoded words are decoded (RFC 2047), bytes read as UTF-8; unchanged if malformed."""
    raw = next((str(value) for key, value in headers.raw_items() if key.lower() == name.lower()), "")
    text = raw.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    with suppress(MessageError, LookupError, ValueError):
        text = str(make_header(decode_header(text)))
    return one_line(well_formed(text))[:500]
