"""A connection to an IMAP server: encrypted, to a checked address, read-only, within limits (RFC 3501)."""

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
from typing import Any

from opx.errors import SourceRefusedError, SourceShapeError, SourceUnavailableError

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
    """Connects to given addresses, proving the host's name, and takes no literal above a limit."""

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
        """End the connection if this takes too long: a time-out of the socket is one for each byte."""
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
            raise self.abort(f"the server sends {size:,} bytes where at most {self._limit:,} were asked for")
        return super().read(size)


class ImapSession:
    """Reads folders. Raises `SourceUnavailableError` for what may pass, `SourceRefusedError` for what the server doesn't
    allow, and `SourceShapeError` for replies that are none of IMAP."""

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
                    raise SourceUnavailableError(f"{self._of}: {_said(exc)}") from exc
                raise SourceRefusedError(f"{self._of}: the server refused to log {user} in: {_said(exc)}") from exc

    def examine(self, folder: str) -> tuple[int, int]:
        """UIDVALIDITY and UIDNEXT of a folder, which is open for reading from now on."""
        with self._translated():
            kind, answer = self._imap.select(quoted_folder(folder), readonly=True)
            if kind != "OK":
                raise SourceRefusedError(f"{self._of}: no folder {folder!r}: {_said(answer)}")
            return self._number("UIDVALIDITY"), self._number("UIDNEXT")

    def uids(self, first: int, last: int) -> list[int]:
        """Which messages there are with numbers in a range, in order."""
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
        """Number and bytes of each message that is still there; they aren't marked as read by this."""
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
                f"{self._of}: expected {name} as the folder is opened, which this server doesn't say"
            )
        return int(value)

    def _expect(self, kind: str, answer: Any, command: str) -> None:
        if kind != "OK":
            raise SourceUnavailableError(f"{self._of}: {command} failed: {_said(answer)}")

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """One command."""
        try:
            with self._imap.in_time():
                yield
        except imaplib.IMAP4.abort as exc:
            raise SourceUnavailableError(f"{self._of}: the connection broke off: {_said(exc)}") from exc
        except imaplib.IMAP4.error as exc:
            raise SourceShapeError(f"{self._of}: {_said(exc)}") from exc
        except OSError as exc:
            raise SourceUnavailableError(f"{self._of}: the connection broke off: {exc}") from exc


def open_session(
    host: str, port: int, *, addresses: Sequence[str], ca_file: str, seconds: float, limit: int
) -> ImapSession:
    """A connection that isn't logged in yet."""
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
    """A folder's name as commands have it: in modified UTF-7 (RFC 3501, 5.1.3), quoted."""
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


def _said(answer: object) -> str:
    """What a server said, in short."""
    if isinstance(answer, BaseException):
        answer = answer.args[0] if answer.args else str(answer)
    if isinstance(answer, list):
        answer = answer[-1] if answer else ""
    return (answer.decode("utf-8", "replace") if isinstance(answer, bytes) else str(answer))[:200]
