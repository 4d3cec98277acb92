"""Receives deliveries over HTTP on this machine: a WSGI application, and a server that runs it in a thread of its own."""

from __future__ import annotations

import json
import logging
import re
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cache
from http import HTTPStatus
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import parse_qsl

from opx.connectors.deliveries import MAX_BODY_BYTES, Delivery
from opx.connectors.webhooks.receiving import DeliveryReply, WebhookReceiver, answer, failed, too_large
from opx.errors import InvalidInputError

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment


log = logging.getLogger(__name__)

_PREFIX = "/ingest/"
_BLOCK_BYTES = 64 * 1024
_MAX_PARAMETERS = 20


def application(
    open_receiver: Callable[[], WebhookReceiver], accepted: Callable[[], object] = lambda: None
) -> WSGIApplication:
    """Answers `POST /ingest/{tier}/{category}`, and 404 to everything else. `accepted` is called after each delivery
    that changed the corpus, so that its consumer need not wait for the next poll.

    A body is read in blocks and never beyond the limit.
    """

    receiver = cache(open_receiver)

    def respond(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        try:
            found = _answer(environ, receiver)
            if found.status == HTTPStatus.ACCEPTED:
                accepted()
        except Exception:  # the outermost edge: the sender must get an answer, and the server goes on
            log.exception("a delivery failed")
            found = failed(500, "internal", "the delivery failed; the error was logged")
        body = json.dumps(found.payload).encode("utf-8")
        headers = {"content-type": "application/json; charset=utf-8", "cache-control": "no-store", **found.headers}
        start_response(
            f"{found.status} {HTTPStatus(found.status).phrase}", [*headers.items(), ("content-length", str(len(body)))]
        )
        return [body]

    return respond


def _answer(environ: WSGIEnvironment, receiver: Callable[[], WebhookReceiver]) -> DeliveryReply:
    # WSGI has the path's bytes as Latin-1.
    path = str(environ.get("PATH_INFO", "")).encode("latin-1", "replace").decode("utf-8", "replace")
    tier, _, category = path.removeprefix(_PREFIX).partition("/")
    if not path.startswith(_PREFIX) or not category:
        return failed(404, "no_such_route", "there is no such route; deliveries go to /ingest/{tier}/{category}")
    if environ.get("REQUEST_METHOD") != "POST":
        return DeliveryReply(
            405, failed(405, "no_such_route", "deliveries are sent with POST").payload, {"allow": "POST"}
        )
    body = _body(environ)
    if body is None:
        return too_large()
    try:
        query = parse_qsl(str(environ.get("QUERY_STRING", "")), keep_blank_values=True, max_num_fields=_MAX_PARAMETERS)
    except ValueError:
        return failed(400, "invalid_argument", f"the address has more than {_MAX_PARAMETERS} parameters")
    return answer(receiver, Delivery(tier, category, tuple(query), _headers(environ), body))


def _body(environ: WSGIEnvironment) -> bytes | None:
    """Reads the body; None if it exceeds the limit, in which case no more is read than necessary."""
    declared = str(environ.get("CONTENT_LENGTH") or "")
    if declared.isdecimal() and int(declared) > MAX_BODY_BYTES:
        return None
    stream = environ["wsgi.input"]
    # Without a declared length, the stream can be read to its end only if the server ends it.
    left = int(declared) if declared.isdecimal() else MAX_BODY_BYTES + 1 if environ.get("wsgi.input_terminated") else 0
    read = bytearray()
    while left > 0 and (block := stream.read(min(left, _BLOCK_BYTES))):
        read += block
        left -= len(block)
    return bytes(read) if len(read) <= MAX_BODY_BYTES else None


def _headers(environ: WSGIEnvironment) -> dict[str, str]:
    found: dict[str, Any] = {
        name.removeprefix("HTTP_").replace("_", "-").lower(): str(value)
        for name, value in environ.items()
        if name.startswith("HTTP_")
    }
    if environ.get("CONTENT_TYPE"):
        found["content-type"] = str(environ["CONTENT_TYPE"])
    return found


_ADDRESS = re.compile(r"(?P<host>[A-Za-z0-9_.-]+|\[[0-9a-fA-F:.]+\]):(?P<port>\d{1,5})\Z")
THREADS = 4

CONNECTIONS = 1000
"""Open connections beyond which no more are accepted: many more than slow senders keep within `REQUEST_SECONDS`."""

REQUEST_SECONDS = 30.0
"""Age at which a connection without a complete request is closed, however often it sends a byte."""

_CLEANUP_SECONDS = 5
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


class LocalServer:
    """Answers webhooks within a `with` block. `arrived` is called after each delivery that changed the corpus."""

    def __init__(
        self, open_receiver: Callable[[], WebhookReceiver], address: str, arrived: Callable[[], object]
    ) -> None:
        """Listens at once. Raises `InvalidInputError` if `address` is not `host:port`, or is in use."""
        from waitress.server import create_server

        match = _ADDRESS.match(address)
        if not match or int(match["port"]) > 65535:
            raise InvalidInputError(f"--listen {address!r}: give host:port, such as 127.0.0.1:8321")
        self._sockets: dict[int, Any] = {}
        try:
            self._server = create_server(
                application(open_receiver, arrived),
                map=self._sockets,
                host=match["host"].strip("[]"),
                port=int(match["port"]),
                threads=THREADS,
                connection_limit=CONNECTIONS,
                cleanup_interval=_CLEANUP_SECONDS,
                asyncore_use_poll=True,  # select() has no more than 1,024 files
                max_request_body_size=MAX_BODY_BYTES + 1,
                ident=None,
                clear_untrusted_proxy_headers=True,
            )
        except OSError as exc:
            self._close()
            raise InvalidInputError(f"--listen {address}: {exc.strerror or exc}; choose another port") from exc
        self._server.maintenance = self._close_slow
        self._is_public = match["host"].strip("[]") not in _LOOPBACK
        self._thread = threading.Thread(target=self._server.run, name="webhooks", daemon=True)

    @property
    def address(self) -> str:
        """Address that it listens at; the system chooses the port if 0 was given."""
        return f"{self._server.effective_host}:{self._server.effective_port}"

    @property
    def remark(self) -> str:
        """A warning if others than programs of this machine can reach the address; "" otherwise."""
        if not self._is_public:
            return ""
        return (
            f"others can reach {self.address}, which has no TLS: deliveries are verified by their signatures, but a proxy "
            "with TLS on this machine, and --listen 127.0.0.1, are safer"
        )

    def _close_slow(self, now: float) -> None:
        """Closes connections that are open for too long without a complete request; called every few seconds."""
        for channel in list(self._server.active_channels.values()):
            if not channel.requests and now - channel.creation_time > REQUEST_SECONDS:
                channel.will_close = True

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(OSError):  # the server's own thread, which ends with it, may close before it is woken
            self._server.trigger.pull_trigger(self._server.close)
        self._thread.join(timeout=5)
        self._server.task_dispatcher.shutdown()
        self._close()

    def _close(self) -> None:
        """Closes the sockets, which the server leaves open, as most servers live as long as their process."""
        from waitress.wasyncore import close_all

        close_all(self._sockets, ignore_all=True)
