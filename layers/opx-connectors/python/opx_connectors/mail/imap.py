"""Pulls messages of folders on an IMAP server (RFC 3501), over TLS from a checked address, without marking them.

A message's number (UID) identifies it for good while the folder's UIDVALIDITY stays, and its bytes never change (RFC
3501, 2.3.1.1): every pull lists the existing numbers and reads messages that were not ingested before. So messages that
were deleted or moved are noticed, and old ones that are moved into a folder are read.
"""

from __future__ import annotations

import imaplib
import re
import socket
import ssl
import threading
import time
from base64 import b64encode
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from typing import Annotated, Any
from urllib.parse import quote

from opx.connectors.connector import Batch, Connector, Options, SourceTools, Texts
from opx.domain.ids import iso_time
from opx.domain.record import about
from opx.domain.sources import Page, PullRequest, SourceDefinition, SourceDocument
from opx.errors import InvalidInputError, SourceRefusedError, SourceShapeError, SourceUnavailableError
from opx.hygiene.addresses import AddressBook
from opx_connectors.mail.mailbox_files import message_document

LINE_MARGIN = 64 * 1024
_UID = re.compile(rb"\bUID (\d+)")
_SIZE = re.compile(rb"RFC822\.SIZE (\d+)")
_DATE = re.compile(rb'INTERNALDATE "[^"]+"')
_PASSING = re.compile(r"\[(?:UNAVAILABLE|INUSE|LIMIT|SERVERBUG)\]", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class MessageFacts:
    uid: int
    size: int
    received: float


class CheckedImap(imaplib.IMAP4_SSL):
    """Connects to given addresses, verifies the host's name, and rejects literals above a limit."""

    def __init__(
        self, host: str, port: int, *, addresses: Sequence[str], context: ssl.SSLContext, seconds: float, limit: int
    ) -> None:
        self._addresses = addresses
        self._limit = limit
        self._seconds = seconds
        self._connection: socket.socket | None = None
        with self.in_time():
            super().__init__(host, port, ssl_context=context, timeout=seconds)

    @contextmanager
    def in_time(self) -> Iterator[None]:
        """Ends the connection if this takes too long: a time-out of the socket applies to each byte."""
        timer = threading.Timer(self._seconds, self._end)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def _end(self) -> None:
        with suppress(OSError):
            if self._connection is not None:
                self._connection.shutdown(socket.SHUT_RDWR)

    def _create_socket(self, timeout: float | None) -> socket.socket:
        for address in self._addresses[:-1]:
            with suppress(OSError):
                return self._secured(socket.create_connection((address, self.port), timeout))
        return self._secured(socket.create_connection((self._addresses[-1], self.port), timeout))

    def _secured(self, sock: socket.socket) -> socket.socket:
        context: ssl.SSLContext = self.ssl_context
        with closing(sock):  # which does nothing to one that was wrapped
            secured = context.wrap_socket(sock, server_hostname=self.host, do_handshake_on_connect=False)
        self._connection = secured
        try:
            secured.do_handshake()
        except BaseException:
            secured.close()
            raise
        return secured

    def read(self, size: int) -> bytes:
        if size > self._limit + LINE_MARGIN:
            raise self.abort(f"the server sends {size:,} bytes where at most {self._limit:,} were requested")
        return super().read(size)


class ImapSession:
    """Reads folders. Raises `SourceUnavailableError` for temporary errors, `SourceRefusedError` for requests that the
    server doesn't allow, and `SourceShapeError` for replies that don't follow IMAP."""

    def __init__(self, imap: CheckedImap, *, of: str) -> None:
        self._imap = imap
        self._of = of

    def login(self, user: str, password: str) -> None:
        with self._translated():
            try:
                self._imap.login(user, password)
            except self._imap.abort:
                raise
            except self._imap.error as exc:
                if _PASSING.search(str(exc)):
                    raise SourceUnavailableError(f"{self._of}: {_excerpt(exc)}") from exc
                raise SourceRefusedError(f"{self._of}: the server refused to log {user} in: {_excerpt(exc)}") from exc

    def examine(self, folder: str) -> tuple[int, int]:
        """Opens a folder for reading, and returns its UIDVALIDITY and UIDNEXT."""
        with self._translated():
            kind, answer = self._imap.select(quoted_folder(folder), readonly=True)
            if kind != "OK":
                raise SourceRefusedError(f"{self._of}: no folder {folder!r}: {_excerpt(answer)}")
            return self._number("UIDVALIDITY"), self._number("UIDNEXT")

    def uids(self, first: int, last: int) -> list[int]:
        """Returns the numbers of existing messages in a range, in order."""
        with self._translated():
            kind, answer = self._imap.uid("SEARCH", f"UID {first}:{last} UNDELETED")
            self._expect(kind, answer, "SEARCH")
            found = b" ".join(part for part in answer if isinstance(part, bytes)).split()
            if not all(part.isdigit() for part in found):
                raise SourceShapeError(f"{self._of}: expected numbers as the answer to SEARCH")
            return sorted({uid for uid in map(int, found) if first <= uid <= last})

    def facts(self, uids: Sequence[int]) -> list[MessageFacts]:
        with self._translated():
            kind, answer = self._imap.uid("FETCH", _set(uids), "(UID RFC822.SIZE INTERNALDATE)")
            self._expect(kind, answer, "FETCH")
        found = []
        for part in answer:
            line = b" ".join(part) if isinstance(part, tuple) else part or b""
            uid, size = _UID.search(line), _SIZE.search(line)
            if uid and size:
                found.append(MessageFacts(int(uid[1]), int(size[1]), _received(line)))
        return found

    def messages(self, uids: Sequence[int]) -> Iterator[tuple[int, bytes]]:
        """Returns number and bytes of each message that still exists, without marking it as read."""
        with self._translated():
            kind, answer = self._imap.uid("FETCH", _set(uids), "(UID BODY.PEEK[])")
            self._expect(kind, answer, "FETCH")
        wanted = set(uids)
        for part, following in zip(answer, [*answer[1:], b""], strict=True):
            if isinstance(part, tuple):
                uid = _UID.search(part[0]) or _UID.search(following if isinstance(following, bytes) else b"")
                if uid and int(uid[1]) in wanted:
                    yield int(uid[1]), part[1]

    def close(self) -> None:
        with suppress(imaplib.IMAP4.error, OSError):
            self._imap.logout()
        with suppress(OSError):  # the library leaves a connection open that broke off
            self._imap.shutdown()

    def _number(self, name: str) -> int:
        answer = self._imap.response(name)[1]
        value = answer[-1] if answer else None
        if not isinstance(value, bytes) or not value.isdigit():
            raise SourceShapeError(
                f"{self._of}: expected {name} as the folder is opened, which this server doesn't send"
            )
        return int(value)

    def _expect(self, kind: str, answer: Any, command: str) -> None:
        if kind != "OK":
            raise SourceUnavailableError(f"{self._of}: {command} failed: {_excerpt(answer)}")

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Runs one command within its time limit, and translates its errors."""
        try:
            with self._imap.in_time():
                yield
        except imaplib.IMAP4.abort as exc:
            raise SourceUnavailableError(f"{self._of}: the connection broke off: {_excerpt(exc)}") from exc
        except imaplib.IMAP4.error as exc:
            raise SourceShapeError(f"{self._of}: {_excerpt(exc)}") from exc
        except OSError as exc:
            raise SourceUnavailableError(f"{self._of}: the connection broke off: {exc}") from exc


def open_session(
    host: str, port: int, *, addresses: Sequence[str], ca_file: str, seconds: float, limit: int
) -> ImapSession:
    """Opens a connection that isn't logged in yet."""
    of = f"{host}:{port}"
    try:
        context = ssl.create_default_context(cafile=ca_file or None)
        imap = CheckedImap(host, port, addresses=addresses, context=context, seconds=seconds, limit=limit)
    except ssl.SSLCertVerificationError as exc:
        raise SourceRefusedError(f"{of}: no trusted connection: {exc.verify_message}") from exc
    except FileNotFoundError as exc:
        raise SourceRefusedError(f"{of}: there is no file {ca_file} with certificates") from exc
    except (imaplib.IMAP4.error, OSError) as exc:
        raise SourceUnavailableError(f"{of}: no connection: {exc}") from exc
    return ImapSession(imap, of=of)


def quoted_folder(name: str) -> str:
    """Encodes a folder's name for commands: in modified UTF-7 (RFC 3501, 5.1.3), quoted."""
    encoded = re.sub(r"&", "&-", name)
    encoded = re.sub(r"[^\x20-\x7e]+", lambda match: _shifted(match[0]), encoded)
    return '"' + encoded.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _shifted(text: str) -> str:
    return "&" + b64encode(text.encode("utf-16-be")).decode("ascii").rstrip("=").replace("/", ",") + "-"


def _set(uids: Sequence[int]) -> str:
    return ",".join(map(str, uids))


def _received(line: bytes) -> float:
    found = _DATE.search(line)
    moment = imaplib.Internaldate2tuple(found[0]) if found else None
    return time.mktime(moment) if moment else 0.0


def _excerpt(answer: object) -> str:
    """Excerpt of a server's reply or error, up to 200 characters."""
    if isinstance(answer, BaseException):
        answer = answer.args[0] if answer.args else str(answer)
    if isinstance(answer, list):
        answer = answer[-1] if answer else ""
    return (answer.decode("utf-8", "replace") if isinstance(answer, bytes) else str(answer))[:200]


WINDOW = 50_000
"""Message numbers per request. The library reads lines of up to 1,000,000 bytes."""

BATCH = 200
FETCH_MESSAGES = 50
FETCH_BYTES = 4 * 1024 * 1024
"""Size of the messages that are fetched and held at a time; a larger one is fetched alone."""


class ImapOptions(Options, frozen=True):
    """Address and limits of a mailbox."""

    host: Annotated[str, about("The host of the server.")]
    user: Annotated[str, about("The user who logs in.")]
    password_secret: Annotated[str, about("The name of the secret with the password.")]
    folders: Annotated[Texts, about("Folders whose messages are read.")] = ("INBOX",)
    port: Annotated[int, about("The port, for TLS.")] = 993
    ca_file: Annotated[str, about("A file with certificates of a company's own authority.")] = ""
    max_message_bytes: Annotated[int, about("Larger messages are reported, not read.")] = 25 * 1024 * 1024
    seconds: Annotated[float, about("The time limit of one command.")] = 120.0


@dataclass(frozen=True, slots=True)
class _Folder:
    """An open folder. A cursor has its number among the folders."""

    number: int
    name: str
    validity: int
    next: int


class ImapConnector(Connector[ImapOptions]):
    """Pulls one document per message: its bytes, which the pipeline parses as e-mail."""

    about = "messages of a mailbox"

    def __init__(self, definition: SourceDefinition, options: ImapOptions, tools: SourceTools) -> None:
        super().__init__(definition, options, tools)
        bad = [name for name in options.folders if any(ord(letter) < 32 or letter == "\x7f" for letter in name)]
        if bad or not options.folders:
            raise InvalidInputError(f"{self.name}: folders must be names without control characters")
        self._addresses = tools.addresses or AddressBook().addresses_of

    def probe(self) -> None:
        with closing(self._session()) as session:
            session.examine(self.options.folders[0])

    def pull(self, request: PullRequest) -> Iterator[Page]:
        first = int(request.cursor.get("folder", 0))
        with closing(self._session()) as session:
            for number, name in enumerate(self.options.folders):
                if number < first:
                    continue
                folder = _Folder(number, name, *session.examine(name))
                same = number == first and request.cursor.get("validity") == folder.validity
                after = int(request.cursor.get("after", 0)) if same else 0
                yield from self._folder(session, folder, after, new=not request.since)
        yield Page(complete=True)

    def _folder(self, session: ImapSession, folder: _Folder, after: int, *, new: bool) -> Iterator[Page]:
        width = max(WINDOW, folder.next // 1000)
        for start in range(after + 1, folder.next, width):
            uids = session.uids(start, min(start + width, folder.next) - 1)
            for at in range(0, len(uids), BATCH):
                yield from self._batch(session, folder, uids[at : at + BATCH], new=new)

    def _batch(self, session: ImapSession, folder: _Folder, uids: Sequence[int], *, new: bool) -> Iterator[Page]:
        """Returns pages of some messages, in the order of their numbers; a page also lists the known ones between them."""
        keys = {uid: f"{folder.name}/{folder.validity}-{uid}.eml" for uid in uids}
        known = set() if new else set(self.known(list(keys.values())))
        old = [uid for uid in uids if keys[uid] in known]
        wanted = [uid for uid in uids if keys[uid] not in known]
        facts = sorted(session.facts(wanted), key=lambda each: each.uid) if wanted else []
        batch = Batch()
        for portion in _portions(facts, self.options.max_message_bytes):
            self._read(session, folder, portion, keys, batch)
            behind = portion[-1].uid
            if batch.size >= FETCH_BYTES:
                batch.unchanged += [keys[uid] for uid in old if uid <= behind]
                old = [uid for uid in old if uid > behind]
                yield batch.page(_cursor(folder, behind))
        batch.unchanged += [keys[uid] for uid in old]
        yield batch.page(_cursor(folder, max(uids)))

    def _read(
        self, session: ImapSession, folder: _Folder, facts: Sequence[MessageFacts], keys: dict[int, str], batch: Batch
    ) -> None:
        most = self.options.max_message_bytes
        for each in facts:
            if each.size > most:
                batch.refuse(keys[each.uid], f"larger than {most:,} bytes (max_message_bytes)")
        received = {each.uid: each.received for each in facts if each.size <= most}
        for uid, data in session.messages(list(received)) if received else ():
            with batch.refusing(keys[uid]):
                batch.add(self._document(folder, uid, keys[uid], data, received[uid]))

    def _document(self, folder: _Folder, uid: int, key: str, data: bytes, received: float) -> SourceDocument:
        """Returns a message's document; its address has the form of RFC 5092."""
        address = f"imap://{self.options.host}/{quote(folder.name)};UIDVALIDITY={folder.validity}/;UID={uid}"
        return message_document(key, data, address=address, received=iso_time(received) if received else "")

    def _session(self) -> ImapSession:
        options = self.options
        password = self.secrets.get(options.password_secret).strip()
        if not (password + options.user).isascii():
            raise SourceRefusedError(f"{self.name}: user and password must be ASCII; set an app password")
        session = open_session(
            options.host,
            options.port,
            addresses=self._addresses(options.host, options.port),
            ca_file=options.ca_file,
            seconds=options.seconds,
            limit=options.max_message_bytes,
        )
        try:
            session.login(options.user, password)
        except BaseException:
            session.close()
            raise
        return session


def _cursor(folder: _Folder, after: int) -> dict[str, int]:
    return {"folder": folder.number, "validity": folder.validity, "after": after}


def _portions(facts: Sequence[MessageFacts], most: int) -> Iterator[list[MessageFacts]]:
    """Splits messages into portions to fetch at a time. Messages above the limit don't count: they are not fetched."""
    portion: list[MessageFacts] = []
    size = 0
    for each in facts:
        own = each.size if each.size <= most else 0
        if portion and (len(portion) >= FETCH_MESSAGES or size + own > FETCH_BYTES):
            yield portion
            portion, size = [], 0
        portion.append(each)
        size += own
    if portion:
        yield portion
