"""A web site on 127.0.0.1 whose pages a test sets: with versions, and with everything that goes wrong on the web.

with MisbehavingSite() as site, closing(a_web(site)) as web:
    site.page("/guide", "<h1>Guide</h1>", etag='"1"')
    site.fail("/guide", status=429, retry_after="3")      # the next request only
    web.get(site.url("/guide"))
"""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qsl

from opx.adapters.web import HttpWeb, open_web
from opx.domain.record import replace
from opx.domain.sources import RateLimit
from opx.ports.sources import Validators
from opx_testing.fake_time import FakeTime
from tests.doubles.http_double import DoubleHandler, DoubleServer, Request


@dataclass(frozen=True, slots=True)
class Answer:
    """`body`: bytes and strings as they are, anything else as JSON. `declared_length` overrides Content-Length (-1: none,
    the connection ends the body). `drip`: seconds before every byte. `hang_up`: no answer at all."""

    status: int = 200
    body: Any = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    declared_length: int | None = None
    drip: float = 0.0
    drip_head: float = 0.0
    hang_up: bool = False

    @property
    def data(self) -> bytes:
        if isinstance(self.body, bytes):
            return self.body
        return self.body.encode() if isinstance(self.body, str) else json.dumps(self.body).encode()


class MisbehavingSite:
    """Runs inside `with`. `target` is a path (`/api/items`), or a path with query (`/api/items?page=2`), which wins."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.dripped = 0
        self._pages: dict[str, Callable[[Request], Answer]] = {}
        self._once: dict[str, list[Answer]] = {}
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.site = self
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    # -- addresses and received requests

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    def url(self, target: str = "") -> str:
        return f"http://{self.host}{target}"

    def request_count(self, target: str) -> int:
        """Number of requests for a path, or a path with query."""
        return sum(target in (request.path, request.target) for request in self.requests)

    # -- pages

    def page(self, target: str, body: Any, *, kind: str = "", headers: Mapping[str, str] | None = None, etag: str = "", last_modified: str = "", status: int = 200) -> None:  # fmt: skip # noqa: E501
        """Set a page. With `etag` or `last_modified`, a request that has the same is answered with 304."""
        sent = {"Content-Type": kind or _kind_of(body), **(headers or {})}
        sent.update({"ETag": etag} if etag else {})
        sent.update({"Last-Modified": last_modified} if last_modified else {})
        whole = Answer(status, body, sent)
        versions = {("if-none-match", etag), ("if-modified-since", last_modified)}

        def answer(request: Request) -> Answer:
            same = any(value and request.headers.get(name) == value for name, value in versions)
            return Answer(304, b"", sent) if same else whole

        self._pages[target] = answer

    def on(self, target: str, answer: Callable[[Request], Answer] | Answer) -> None:
        """Answers each request by a function, or always the same."""
        self._pages[target] = answer if callable(answer) else lambda request: answer

    def remove(self, target: str) -> None:
        """Answers it with 404 from now on."""
        self._pages.pop(target, None)

    def redirect(self, target: str, to: str, *, status: int = 302) -> None:
        self.on(target, Answer(status, b"", {"Location": to}))

    def bomb(self, target: str, *, megabytes: int) -> None:
        """A small reply that unpacks to zeros."""
        packed = gzip.compress(bytes(megabytes * 1024 * 1024))
        self.on(target, Answer(200, packed, {"Content-Encoding": "gzip", "Content-Type": "text/plain"}))

    # -- failures of the next requests

    def fail(self, target: str, *, status: int = 500, retry_after: str = "", times: int = 1, headers: Mapping[str, str] | None = None) -> None:  # fmt: skip # noqa: E501
        sent = {"Retry-After": retry_after} if retry_after else {}
        self.once(target, Answer(status, b"not now", {**sent, **(headers or {})}), times=times)

    def hang_up(self, target: str, *, times: int = 1) -> None:
        self.once(target, Answer(hang_up=True), times=times)

    def cut(self, target: str, *, times: int = 1) -> None:
        """Half of the page's body, declared as a whole one: the connection ends too early."""
        self._next(target, times, lambda page: replace(page, declared_length=len(page.data), body=_half(page)))

    def cut_quietly(self, target: str, *, times: int = 1) -> None:
        """Half of the page's body with a matching length: JSON that ends in the middle."""
        self._next(target, times, lambda page: replace(page, body=_half(page)))

    def drip(self, target: str, *, seconds: float, times: int = 1) -> None:
        """The page's body, so many seconds before each byte."""
        self._next(target, times, lambda page: replace(page, drip=seconds))

    def once(self, target: str, answer: Answer, *, times: int = 1) -> None:
        """Answers the next requests with this."""
        self._once.setdefault(target, []).extend([answer] * times)

    def _next(self, target: str, times: int, change: Callable[[Answer], Answer]) -> None:
        path, _, query = target.partition("?")
        page = self._pages[target](Request("GET", path, dict(parse_qsl(query)), {}, b"", target))
        self.once(target, change(page), times=times)

    # -- requests

    def respond(self, request: Request) -> Answer:
        with self._lock:
            self.requests.append(request)
            for target in (request.target, request.path):
                if self._once.get(target):
                    return self._once[target].pop(0)
            for target in (request.target, request.path):
                if target in self._pages:
                    return self._pages[target](request)
        return Answer(404, b"not here")

    def pause(self, seconds: float) -> None:
        self._closing.wait(seconds)


def a_web(
    *sites: MisbehavingSite,
    time: FakeTime | None = None,
    rate: RateLimit | None = None,
    validators: Validators | None = None,
    timeout: float = 10.0,
) -> HttpWeb:
    """A real client that may request these sites, with time that passes only when it sleeps."""
    time = time or FakeTime()
    hosts = tuple(site.host for site in sites)
    return open_web(
        rate=rate,
        allowed_hosts=hosts,
        validators=validators,
        clock=time.clock,
        sleep=time.sleep,
        timeout=timeout,
    )


class MemoryValidators:
    """`Validators` in memory."""

    def __init__(self) -> None:
        self.kept: dict[str, Mapping[str, str]] = {}

    def get(self, url: str) -> Mapping[str, str]:
        return self.kept.get(url, {})

    def put(self, url: str, validators: Mapping[str, str]) -> None:
        self.kept[url] = dict(validators)


def _half(page: Answer) -> bytes:
    return page.data[: len(page.data) // 2]


def _kind_of(body: Any) -> str:
    if isinstance(body, bytes):
        return "application/octet-stream"
    return "text/html; charset=utf-8" if isinstance(body, str) else "application/json"


class _Server(DoubleServer):
    request_queue_size = 64
    site: MisbehavingSite


class _Handler(DoubleHandler):
    server: _Server

    def do_GET(self) -> None:  # noqa: N802
        answer = self.server.site.respond(self.received())
        if answer.hang_up:
            self.close_connection = True
        else:
            self._send(answer)

    do_POST = do_HEAD = do_GET  # noqa: N815

    def _send(self, answer: Answer) -> None:
        data = b"" if answer.status == 304 or self.command == "HEAD" else answer.data
        length = len(data) if answer.declared_length is None else answer.declared_length
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        if length >= 0:
            self.send_header("Content-Length", str(length))
        self.close_connection = self.close_connection or length != len(data)
        if answer.drip_head:
            self._drip_head(answer.drip_head)
        self.end_headers()
        if answer.drip:
            self._drip(data, answer.drip)
        else:
            self.wfile.write(data)

    def _drip_head(self, seconds: float) -> None:
        """A header that never ends."""
        self.flush_headers()
        self._drip(b"X-Slow: " + b"z" * 10_000, seconds)

    def _drip(self, data: bytes, seconds: float) -> None:
        for position in range(len(data)):
            self.server.site.pause(seconds)
            self.wfile.write(data[position : position + 1])
            self.wfile.flush()
            self.server.site.dripped += 1
