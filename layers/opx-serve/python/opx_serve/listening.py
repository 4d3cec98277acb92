"""Listens for HTTP requests with uvicorn, with limits that slow or many connections can't exhaust."""

from __future__ import annotations

import asyncio
import re
import socket
import threading
from collections import Counter
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any, ClassVar, Self

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from opx.edges.client import LOOPBACK
from opx.errors import InvalidInputError, OpxError

Application = Callable[[Any, Any, Any], Awaitable[None]]

REQUEST_SECONDS = 15.0
"""Age at which a connection without the whole head of a request is closed, however often it sends a byte."""

HEAD_BYTES = 16 * 1024
"""Bytes of a request's head, its first line and its headers."""

REPLY_SECONDS = 60.0
"""Time for a client to read a reply; then its connection is closed, as the reply is in memory."""

CONNECTIONS_OF_AN_ADDRESS = 500
"""Open connections of one address beyond which its further ones are closed at once."""

CONNECTIONS = 2000
"""The same of all addresses; fewer where the process may open fewer files."""

_FILES = 256
"""Files that the process opens beside its connections."""

STOP_SECONDS = 10
"""Time for requests in progress when the server ends."""

STOPPING = "opx.stopping"
"""Key of a request's scope: a function that returns true when the server is about to end, for replies that don't end."""

HTTP_PORT = 80
"""Addresses of this port name none."""

_CHECK_SECONDS = 1.0
_ADDRESS = re.compile(r"(?P<host>[A-Za-z0-9_.-]+|\[[0-9a-fA-F:.]+\]):(?P<port>\d{1,5})\Z")


def address_of(text: str) -> tuple[str, int]:
    """Host and port of `HOST:PORT`. Raises `InvalidInputError`."""
    match = _ADDRESS.match(text)
    if not match or int(match["port"]) > 65535:
        raise InvalidInputError(f"--listen {text!r}: give HOST:PORT, such as 127.0.0.1:8321")
    return match["host"].strip("[]"), int(match["port"])


def listening_socket(text: str) -> socket.socket:
    """A socket that listens at `HOST:PORT`; the system chooses the port if it is 0. Raises `InvalidInputError`."""
    host, port = address_of(text)
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        # With the protocol named, asyncio sends each part of a reply at once (TCP_NODELAY): else the second part waits for
        # the acknowledgement of the first, which takes clients 40 ms.
        opened = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        try:
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            opened.bind((host, port))
            opened.listen(2048)
        except OSError:
            opened.close()
            raise
    except OSError as exc:
        raise InvalidInputError(f"--listen {text}: {exc.strerror or exc}; choose another address or port") from exc
    return opened


def shown_address(opened: socket.socket) -> str:
    """Host and port that the socket listens at."""
    host, port = opened.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def own_addresses(port: int) -> tuple[str, ...]:
    """Values of `Host` with which programs of this machine reach a server at the port."""
    hosts = [f"[{host}]" if ":" in host else host for host in LOOPBACK]
    return (*(f"{host}:{port}" for host in hosts), *(hosts if port == HTTP_PORT else ()))


def most_connections() -> int:
    """The limit of connections, for which the process's limit of open files is raised as far as it may be."""
    try:
        import resource
    except ImportError:  # Windows, which has no such limit
        return CONNECTIONS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= CONNECTIONS + _FILES:
        return CONNECTIONS
    most = CONNECTIONS + _FILES if hard == resource.RLIM_INFINITY else min(hard, CONNECTIONS + _FILES)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    return max(most - _FILES, most // 2)


class _StrictConnection(h11.Connection):
    """Reads requests. A head that is too long, and one that gives two lengths of the body, are errors like others."""

    status = 400
    """That of the last error."""

    def next_event(self) -> Any:
        try:
            event = super().next_event()
            if isinstance(event, h11.Request):
                _check_head(event)
        except h11.RemoteProtocolError as exc:
            self.status = exc.error_status_hint
            raise
        return event


def _check_head(request: h11.Request) -> None:
    """Raises `RemoteProtocolError`."""
    names = {name for name, _ in request.headers}
    if {b"content-length", b"transfer-encoding"} <= names:  # a proxy before the server may go by the other one
        raise h11.RemoteProtocolError("two lengths of a body")
    if len(request.target) > HEAD_BYTES:
        raise h11.RemoteProtocolError("the address is too long", error_status_hint=414)
    if len(request.target) + sum(len(name) + len(value) + 4 for name, value in request.headers) > HEAD_BYTES:
        raise h11.RemoteProtocolError("the headers are too long", error_status_hint=431)


class _LimitedProtocol(H11Protocol):
    """HTTP/1.1 with limits of the head of each request, deadlines for it and for reading its reply, and limits of
    connections."""

    conn: _StrictConnection
    open: ClassVar[Counter[str]] = Counter()
    most: ClassVar[int] = CONNECTIONS
    _waiting_since = 0.0
    _unread_since = 0.0
    _check: asyncio.TimerHandle | None = None

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.conn = _StrictConnection(h11.SERVER, HEAD_BYTES)

    def send_400_response(self, msg: str) -> None:
        headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"connection", b"close")]
        status = self.conn.status
        for event in (
            h11.Response(status_code=status, headers=headers),
            h11.Data(data=msg.encode()),
            h11.EndOfMessage(),
        ):
            self.transport.write(self.conn.send(event))
        self.transport.close()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        host = self.client[0] if self.client else ""
        self.open[host] += 1
        if self.open[host] > CONNECTIONS_OF_AN_ADDRESS or len(self.connections) > self.most:
            transport.abort()
            return
        self._waiting_since = self.loop.time()
        self._check = self.loop.call_later(_CHECK_SECONDS, self._close_if_slow)

    def connection_lost(self, exc: Exception | None) -> None:
        host = self.client[0] if self.client else ""
        self.open[host] -= 1
        if not self.open[host]:
            del self.open[host]
        if self._check:
            self._check.cancel()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        self._waiting_since = self.loop.time()
        super().on_response_complete()

    def _close_if_slow(self) -> None:
        now = self.loop.time()
        unread = self.transport.get_write_buffer_size() > 0
        self._unread_since = (self._unread_since or now) if unread else 0.0
        waits = not unread and (self.cycle is None or self.cycle.response_complete)
        if (waits and now - self._waiting_since > REQUEST_SECONDS) or (
            unread and now - self._unread_since > REPLY_SECONDS
        ):
            self.transport.abort()
            return
        self._check = self.loop.call_later(_CHECK_SECONDS, self._close_if_slow)


class HttpServer:
    """Serves an ASGI application on listening sockets: `run` until a signal, or in a thread within a `with` block.
    `after` is called after each reply, in a thread."""

    def __init__(
        self, application: Application, *sockets: socket.socket, after: Callable[[], object] = lambda: None
    ) -> None:
        self._sockets = list(sockets)
        _LimitedProtocol.most = most_connections()

        async def stoppable(scope: Any, receive: Any, send: Any) -> None:
            await application({**scope, STOPPING: lambda: self._server.should_exit}, receive, send)
            if scope["type"] == "http":  # the life span's end is cancelled
                await asyncio.to_thread(after)

        config = uvicorn.Config(
            stoppable,
            http=_LimitedProtocol,
            ws="none",
            lifespan="on",
            log_config=None,
            log_level="error",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=STOP_SECONDS,
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._serve, name="http", daemon=True)

    @property
    def address(self) -> str:
        """Host and port that it listens at."""
        return shown_address(self._sockets[0])

    def run(self) -> None:
        """Serves in this thread until a signal or `stop`, and ends after the requests in progress. Raises `OpxError` if the
        application doesn't start."""
        try:
            self._server.run(sockets=self._sockets)
        except SystemExit as exc:
            raise OpxError("the server did not start; its error is above") from exc

    def stop(self) -> None:
        """Ends the server, or has it end as soon as it starts."""
        self._server.should_exit = True

    def _serve(self) -> None:
        asyncio.run(self._server.serve(sockets=self._sockets))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        self._thread.join(timeout=STOP_SECONDS + 5)
