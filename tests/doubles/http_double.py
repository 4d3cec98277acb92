"""A small HTTP server for doubles of services: it records requests, and fails, delays or hangs up on demand."""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qsl, unquote, urlsplit

JSON = "application/json"


@dataclass(frozen=True, slots=True)
class Request:
    """`path` is unquoted, `target` is path and query as they were sent; header names are in lower case."""

    method: str
    path: str
    parameters: dict[str, str]
    headers: dict[str, str]
    body: bytes
    target: str = ""

    def json(self) -> Any:
        return json.loads(self.body)

    def json_lines(self) -> list[Any]:
        return [json.loads(line) for line in self.body.splitlines() if line]


@dataclass(frozen=True, slots=True)
class Response:
    """`body` None sends none; `hang_up` closes the connection without an answer; `delay` seconds pass before it."""

    status: int = 200
    body: object = None
    headers: tuple[tuple[str, str], ...] = ()
    hang_up: bool = False
    delay: float = 0.0


_LOST = Response(hang_up=True)


class ServiceFailure(Exception):  # noqa: N818
    """Raised while a request is answered, to answer it with this response instead."""

    def __init__(self, response: Response) -> None:
        super().__init__(response)
        self.response = response


class HttpDouble:
    """A server on 127.0.0.1, running inside `with`. Subclasses implement `answer`."""

    def __init__(self, service: str) -> None:
        self._service = service
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._injected: list[tuple[Callable[[Request], bool], Response]] = []
        self.requests: list[Request] = []
        self.responses: list[Response] = []
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.double = self
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

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

    def answer(self, request: Request) -> Response:
        """The service's answer; called by one thread at a time."""
        raise ServiceFailure(Response(404))

    def inject(
        self, response: Response, *, times: int = 1, path: str = "", method: str = "", containing: str = ""
    ) -> None:
        """Answer the next `times` requests whose path ends with `path`, and whose body has the text `containing`, with this
        response; of one method, or of any."""

        def applies(request: Request) -> bool:
            fits = request.path.endswith(path) and containing.encode() in request.body
            return fits and method in ("", request.method)

        self._injected += [(applies, response)] * times

    def reset(self) -> None:
        """Forget what was recorded and injected."""
        with self._lock:
            self._injected.clear()
            self.requests.clear()
            self.responses.clear()

    def lose_answers(self, times: int = 1, *, path: str = "", method: str = "") -> None:
        """Executes the next `times` requests whose path ends with `path`, then hangs up without an answer."""
        self.inject(_LOST, times=times, path=path, method=method)

    def respond(self, request: Request) -> Response:
        with self._lock:
            self.requests.append(request)
            injected = self._next_injected(request)
            response = self._answer(request) if injected is None or injected is _LOST else injected
            self.responses.append(response)
        response = _LOST if injected is _LOST else response
        if response.delay:
            self._closing.wait(response.delay)
        return response

    def _answer(self, request: Request) -> Response:
        problem = signature_problem(request, self._service)
        if problem:
            return Response(403, {"message": problem})
        try:
            return self.answer(request)
        except ServiceFailure as failure:
            return failure.response

    def _next_injected(self, request: Request) -> Response | None:
        for position, (applies, response) in enumerate(self._injected):
            if applies(request):
                del self._injected[position]
                return response
        return None


_AUTHORIZATION = re.compile(
    r"AWS4-HMAC-SHA256 Credential=[^/]+/\d{8}/[a-z0-9-]+/(?P<service>[a-z-]+)/aws4_request, "
    r"SignedHeaders=(?P<signed>[a-z0-9;-]+), Signature=[0-9a-f]{64}\Z"
)


def signature_problem(request: Request, service: str) -> str:
    """Returns the error of a request's Signature Version 4 headers, "" for none. The signature itself isn't verified."""
    match = _AUTHORIZATION.match(request.headers.get("authorization", ""))
    if not match:
        return "Missing Authentication Token"
    if match["service"] != service:
        return f"Credential should be scoped to correct service: '{service}'."
    if service != "aoss":
        return ""
    if "x-amz-content-sha256" not in match["signed"].split(";"):
        return "x-amz-content-sha256 must be signed"
    if request.headers.get("x-amz-content-sha256") != hashlib.sha256(request.body).hexdigest():
        return "x-amz-content-sha256 is not the hash of the body"
    return ""


class DoubleServer(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no failure of the double."""


class DoubleHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    timeout = 10

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass

    def received(self) -> Request:
        target = urlsplit(self.path)
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        headers = {name.lower(): value for name, value in self.headers.items()}
        return Request(self.command, unquote(target.path), dict(parse_qsl(target.query)), headers, body, self.path)


class _Server(DoubleServer):
    double: HttpDouble


class _Handler(DoubleHandler):
    server: _Server

    def do_GET(self) -> None:
        response = self.server.double.respond(self.received())
        if response.hang_up:
            self.close_connection = True
            return
        self._send(response)

    do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = do_GET  # noqa: N815

    def _send(self, response: Response) -> None:
        data = b"" if response.body is None else json.dumps(response.body).encode()
        self.send_response(response.status)
        self.send_header("Content-Type", JSON)
        self.send_header("Content-Length", str(len(data)))
        for name, value in response.headers:
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)
