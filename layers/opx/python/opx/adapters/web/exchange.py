"""One request and its reply over a connection to one address: bounded in size and time, and never a part of a reply."""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from urllib3 import BaseHTTPResponse, HTTPConnectionPool, HTTPSConnectionPool, Timeout
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import ConnectTimeoutError, HTTPError, NewConnectionError, SSLError
from urllib3.response import HTTPResponse
from urllib3.util.ssl_match_hostname import CertificateError

from opx.errors import SourceRefusedError, SourceUnavailableError
from opx.hygiene.addresses import Target

CONNECT_SECONDS = 10.0
MAX_POOLS = 8
_BLOCK = 64 * 1024


class TooSlowError(SourceUnavailableError):
    """An exchange used up its time; at once again it would as well."""


@dataclass(frozen=True, slots=True)
class Reply:
    """Header names are in lower case; several of one name are joined by commas."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class Message:
    """What is sent. `limit`: most bytes of the reply, as they come and as they are unpacked."""

    method: str
    target: Target
    headers: Mapping[str, str]
    body: bytes | None
    limit: int


class Exchanges:
    """Keeps connections to checked addresses. `seconds`: how long a whole exchange may take."""

    def __init__(self, *, seconds: float, tls: ssl.SSLContext | None = None) -> None:
        self._seconds = seconds
        self._tls = tls
        self._pools: dict[tuple[str, str, int, str], HTTPConnectionPool] = {}

    def send(self, message: Message, addresses: tuple[str, ...]) -> Reply:
        """The reply from the first address that takes a connection, read to its end. Raises `SourceUnavailableError`
        for what may pass, and `SourceRefusedError` if the host can't prove who it is or sends too much."""
        target = message.target
        deadline = time.monotonic() + self._seconds
        for last, address in ((address == addresses[-1], address) for address in addresses):
            try:
                return self._send(message, address, deadline)
            except (NewConnectionError, ConnectTimeoutError) as exc:
                if last:
                    raise SourceUnavailableError(f"no connection to {target.netloc}: {_reason(exc)}") from exc
            except SSLError as exc:
                if exc.args and isinstance(exc.args[0], ssl.SSLCertVerificationError | CertificateError):
                    raise SourceRefusedError(f"no trusted connection to {target.netloc}: {_reason(exc)}") from exc
                raise SourceUnavailableError(f"the connection to {target.netloc} broke off: {_reason(exc)}") from exc
            except (HTTPError, OSError) as exc:
                if time.monotonic() >= deadline:
                    raise self._too_slow(target) from exc
                raise SourceUnavailableError(f"{target.shown}: the reply broke off: {_reason(exc)}") from exc
        raise AssertionError("an exchange needs an address")

    def close(self) -> None:
        """Close all connections."""
        while self._pools:
            self._pools.popitem()[1].close()

    def _send(self, message: Message, address: str, deadline: float) -> Reply:
        target = message.target
        left = deadline - time.monotonic()
        if left <= 0:
            raise self._too_slow(target)
        response = self._pool(target, address).urlopen(
            message.method,
            target.path,
            body=message.body,
            headers={**message.headers, "Host": target.netloc},
            retries=False,
            redirect=False,
            assert_same_host=False,
            preload_content=False,
            timeout=Timeout(connect=min(CONNECT_SECONDS, left), read=left),
        )
        with _closed_unless_read(response), _ended(deadline, response.shutdown):
            body = _body(response, message)
        if time.monotonic() >= deadline:  # a reply without a length looks whole when its connection is ended
            raise self._too_slow(target)
        joined = {name.lower(): response.headers[name] for name in response.headers}
        return Reply(response.status, joined, body)

    def _too_slow(self, target: Target) -> TooSlowError:
        return TooSlowError(f"{target.shown} took longer than {self._seconds:g} seconds")

    def _pool(self, target: Target, address: str) -> HTTPConnectionPool:
        key = (target.scheme, target.host, target.port, address)
        if key not in self._pools:
            if len(self._pools) >= MAX_POOLS:
                self._pools.pop(next(iter(self._pools))).close()
            self._pools[key] = self._new_pool(target, address)
        return self._pools[key]

    def _new_pool(self, target: Target, address: str) -> HTTPConnectionPool:
        if target.scheme == "http":
            pool = HTTPConnectionPool(address, target.port, maxsize=1)
            pool.ConnectionCls = _PlainConnection
            return pool
        if self._tls is None:
            self._tls = ssl.create_default_context()
        secure = HTTPSConnectionPool(
            address,
            target.port,
            maxsize=1,
            ssl_context=self._tls,
            assert_hostname=target.host,  # the name is proved, although the connection is to an address
            server_hostname=target.host,
        )
        secure.ConnectionCls = _SecureConnection
        return secure


class _PlainConnection(HTTPConnection):
    """Ends a connection whose reply doesn't begin in time: a time-out of the socket is one for each byte."""

    def getresponse(self) -> HTTPResponse:  # type: ignore[override] # as in the base class
        with _head_in_time(self):
            return super().getresponse()


class _SecureConnection(HTTPSConnection):
    """As `_PlainConnection`."""

    def getresponse(self) -> HTTPResponse:  # type: ignore[override] # as in the base class
        with _head_in_time(self):
            return super().getresponse()


@contextmanager
def _head_in_time(connection: HTTPConnection) -> Iterator[None]:
    sock, seconds = connection.sock, connection.timeout
    assert isinstance(seconds, float)
    assert sock is not None
    with _ended(time.monotonic() + seconds, lambda: sock.shutdown(socket.SHUT_RDWR)):
        yield


@contextmanager
def _ended(deadline: float, end: Callable[[], None]) -> Iterator[None]:
    """End the connection if the block isn't left before the deadline, so that what reads from it returns."""

    def at_deadline() -> None:
        with suppress(OSError, RuntimeError, ValueError):  # the connection has ended by itself
            end()

    timer = threading.Timer(max(0.0, deadline - time.monotonic()), at_deadline)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


@contextmanager
def _closed_unless_read(response: BaseHTTPResponse) -> Iterator[None]:
    try:
        yield
    except BaseException:
        response.close()
        raise
    response.release_conn()


def _body(response: BaseHTTPResponse, message: Message) -> bytes:
    said = response.headers.get("content-length", "")
    if said.isascii() and said.isdigit() and len(said) < 19 and int(said) > message.limit and message.method != "HEAD":
        raise _too_large(message)
    body = bytearray()
    for block in response.stream(_BLOCK, decode_content=True):
        body += block
        if len(body) > message.limit or response.tell() > message.limit:
            raise _too_large(message)
    return bytes(body)


def _too_large(message: Message) -> SourceRefusedError:
    return SourceRefusedError(f"{message.target.shown}: the reply is larger than {message.limit:,} bytes")


def _reason(exc: BaseException) -> str:
    """The innermost words of an error; urllib3 wraps them with objects' addresses."""
    text = str(exc.__cause__ or exc.__context__ or exc)
    return text.rpartition("object at 0x")[2].partition(": ")[2] or text
