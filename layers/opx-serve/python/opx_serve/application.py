"""The ASGI application of a local server: operations over REST, tools over MCP, webhooks, uploads, documentation, metrics,
health."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl

import anyio
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse

from opx.connectors.deliveries import MAX_BODY_BYTES as MAX_DELIVERY_BYTES
from opx.domain.record import Json
from opx.edges.http import MAX_BODY_BYTES, RETRY_AFTER_SECONDS, reply
from opx.operations.context import Caller
from opx.operations.forms import is_form
from opx_serve import bodies
from opx_serve.console import HEADERS as CONSOLE_HEADERS
from opx_serve.console import KEY, ConsoleFiles, ConsoleSessions, cookie, cookie_name
from opx_serve.console import PREFIX as CONSOLE
from opx_serve.deliveries import LocalDeliveries
from opx_serve.jobs import PREFERENCE, Jobs, events, prefers_job
from opx_serve.jobs import PREFIX as JOBS
from opx_serve.listening import STOPPING, Application, own_addresses
from opx_serve.metrics import MeasuredRequest, Measurements
from opx_serve.pages import documentation_page, openapi_text
from opx_serve.routes import Answers, Raw, unauthenticated
from opx_serve.tokens import Callers
from opx_serve.uploads import PREFIX as UPLOADS
from opx_serve.uploads import SignedUploads, requested_at
from opx_serve.uploads import refused as refused_upload

THREADS = 16
"""Requests that are answered at once; others wait."""

_MAX_PARAMETERS = 1000
_WEBHOOKS = "/webhooks"
_PUBLIC = ("/docs", "/openapi.json", "/healthz")
"""Pages that need no token: they have nothing of the knowledge."""

_TOO_LARGE = (
    f"the body may have at most {MAX_BODY_BYTES:,} bytes; files go through POST /uploads, or as a form of at most "
    f"{bodies.MAX_FORM_BYTES:,} bytes"
)
_DELIVERY_TOO_LARGE = f"a delivery may have {MAX_DELIVERY_BYTES:,} bytes; larger documents go through POST /uploads"


@dataclass(frozen=True)
class Served:
    """The parts of a server. `mcp` are ASGI applications of the tools by caller, with their life spans; `ready` is false
    until what answers need is loaded, and `healthy` raises if the system can't answer. The console is served if the callers
    have sessions."""

    answers: Answers
    callers: Callers
    deliveries: LocalDeliveries
    uploads: SignedUploads
    measurements: Measurements
    ready: Callable[[], bool]
    healthy: Callable[[], object]
    mcp: Mapping[int, Any] = field(default_factory=dict)
    console: ConsoleFiles = field(default_factory=ConsoleFiles)


def application(served: Served) -> Application:
    """Answers every request; errors have the form of the REST API's."""
    return _Application(served)


class _Application:
    def __init__(self, served: Served) -> None:
        self._served = served
        self._limiter = functools.cache(lambda: anyio.CapacityLimiter(THREADS))
        self._health_limiter = functools.cache(lambda: anyio.CapacityLimiter(2))  # not after many slow answers
        self._jobs = Jobs(served.answers)
        self._memory = bodies.Memory(bodies.MEMORY_BYTES)
        self._delivery_memory = bodies.Memory(bodies.DELIVERY_MEMORY_BYTES)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await _lifespan(self._served.mcp.values(), receive, send)
        elif scope["type"] == "http":
            await self._http(Request(scope, receive), scope, receive, send)

    async def _http(self, request: Request, scope: Any, receive: Any, send: Any) -> None:
        path: str = scope["path"]
        response = None if path.startswith(_WEBHOOKS + "/") else self._refusal(request, path)
        with suppress(ClientDisconnect):
            try:
                if response is None and path.rstrip("/") == "/mcp":
                    response = await self._tools(request, scope, receive, send)
                    if response is None:
                        return
                if response is None:
                    response = await self._response(request, path)
            except bodies.BodyRefusedError as exc:
                response = _body_refused(exc)
            await response(scope, receive, send)

    def _refusal(self, request: Request, path: str) -> Response | None:
        """The refusal of a request for another address, or by a page of another site, by a server of this machine alone. The
        console may be opened from anywhere."""
        if not self._served.callers.is_private or path in _PUBLIC:
            return None
        headers, own = request.headers, own_addresses(_port_of(request))
        if headers.get("host", "").lower() not in own:
            return _forbidden(
                f"the request is for another host: this server's address is http://{own[0]} (docs/serve.md)"
            )
        if path.startswith(CONSOLE) or not _is_from_elsewhere(request, own):
            return None
        return _forbidden("the request comes from a page of another site")

    def _caller(self, request: Request) -> Caller | None:
        callers, authorization = self._served.callers, request.headers.get("authorization", "")
        if callers.sessions is None or not _is_own_page(request):
            return callers.of(authorization)
        return callers.of(authorization, request.cookies.get(cookie_name(_port_of(request)), ""))

    async def _response(self, request: Request, path: str) -> Response:
        if path.startswith(_WEBHOOKS + "/"):
            delivered = path.removeprefix(_WEBHOOKS)
            return await _delivery(self._served.deliveries, request, delivered, self._delivery_memory, self._limiter())
        if path.startswith(UPLOADS) and request.method == "PUT":
            return await self._upload(request, path.removeprefix(UPLOADS))
        if path.startswith(f"{JOBS}/") and request.method == "DELETE":
            return self._job(request, path.removeprefix(JOBS).strip("/"))
        found = await self._own_page(request, path) if request.method in ("GET", "HEAD") else None
        return found or await self._operation(request)

    async def _own_page(self, request: Request, path: str) -> Response | None:
        """A page of the server itself; None for the routes of operations."""
        if path in _PUBLIC:
            return await self._page(path)
        sessions = self._served.callers.sessions
        if sessions is not None and (path == "/" or path.startswith(CONSOLE)):
            return self._console(request, path, sessions)
        if path == "/metrics":
            return self._metrics(self._caller(request))
        if path == JOBS or path.startswith(f"{JOBS}/"):
            return self._job(request, path.removeprefix(JOBS).strip("/"))
        return None

    def _metrics(self, caller: Caller | None) -> Response:
        if caller is None:
            return _response(unauthenticated())
        if not self._served.callers.watches(caller):
            return _forbidden("metrics are of all clients: use a token without a client")
        return Response(*self._served.measurements.exposition())

    async def _operation(self, request: Request) -> Response:
        content_type = request.headers.get("content-type", "")
        caller = self._caller(request)
        if caller is None:  # its body isn't read
            return _response(unauthenticated())
        largest = bodies.MAX_FORM_BYTES if is_form(content_type) else MAX_BODY_BYTES
        with self._memory.share() as share, self._served.measurements.request() as measured:
            measured.status = 400
            body = await bodies.read_body(request, largest, share, _TOO_LARGE)
            try:
                query = request.scope["query_string"].decode("ascii")
                pairs = parse_qsl(query, keep_blank_values=True, errors="strict", max_num_fields=_MAX_PARAMETERS)
            except ValueError:
                message = "the address has too many parameters, or some that are not percent-encoded UTF-8"
                return _refused(400, "invalid_argument", message)
            raw_path = request.scope["raw_path"].decode("ascii", "replace")
            method = "GET" if request.method == "HEAD" else request.method
            raw = Raw(method, raw_path, tuple(pairs), content_type, body)
            if prefers_job(request.headers.get("prefer", "")):
                measured.status = 202
                return self._started(raw, caller)
            return await self._answered(raw, caller, measured, requested_at(request))

    async def _answered(self, raw: Raw, caller: Caller, measured: MeasuredRequest, address: str) -> Response:
        measured.status = 500
        with self._served.uploads.at(address):
            measured.route, found = await anyio.to_thread.run_sync(
                self._served.answers.answer, raw, caller, limiter=self._limiter(), abandon_on_cancel=True
            )
        measured.status = found["statusCode"]
        return _response(found)

    def _started(self, raw: Raw, caller: Caller) -> Response:
        """Begins a job, and replies with its address."""
        job = self._jobs.start(raw, caller)
        if job is None:
            return _busy("too many jobs are running: wait for one of them")
        headers = {"location": f"{JOBS}/{job.job_id}", "preference-applied": PREFERENCE}
        return _response(reply(202, job.view(), headers))

    def _job(self, request: Request, path: str) -> Response:
        """The jobs of the caller, one of them, which DELETE ends, or its events."""
        caller = self._caller(request)
        if caller is None:
            return _response(unauthenticated())
        if not path:
            return _response(reply(200, {"jobs": [job.view() for job in self._jobs.of(caller)]}))
        job_id, _, part = path.partition("/")
        job = self._jobs.get(job_id, caller)
        if job is None or part not in ("", "events"):
            return _refused(
                404, "not_found", "there is no such job of yours: this server was restarted, or it is long over"
            )
        if not part:
            is_ending = request.method == "DELETE"
            job.is_cancelled |= is_ending
            return _response(reply(202 if is_ending else 200, job.view()))
        if not self._jobs.may_stream(caller):
            return _busy("too many streams are open: ask for the job's state instead")
        number = request.headers.get("last-event-id", "")
        after = int(number) if number.isdecimal() and len(number) < 10 else 0
        is_stopping = request.scope.get(STOPPING, lambda: False)
        headers = {"cache-control": "no-store", "x-accel-buffering": "no", **_NOT_SNIFFED}
        return StreamingResponse(
            events(self._jobs, job, after, is_stopping), headers=headers, media_type="text/event-stream"
        )

    async def _tools(self, request: Request, scope: Any, receive: Any, send: Any) -> Response | None:
        """Has the tools of the caller answer; a refusal if there is none."""
        caller = self._caller(request)
        if caller is None:
            return _response(unauthenticated())
        if request.method != "POST":
            refused = _refused(405, "no_such_route", "messages are sent with POST; this server sends none by itself")
            refused.headers["allow"] = "POST"
            return refused
        with self._memory.share() as share, self._served.measurements.request() as measured:
            measured.route, measured.status = "POST /mcp", 400
            body = await bodies.read_body(request, MAX_BODY_BYTES, share, _TOO_LARGE)
            messages = [{"type": "http.request", "body": body, "more_body": False}]

            async def replayed() -> Any:
                return messages.pop() if messages else await receive()

            async def observed(message: Any) -> None:
                measured.status = message.get("status", measured.status)
                await send(message)

            await self._served.mcp[id(caller)]({**scope, "path": "/mcp", "raw_path": b"/mcp"}, replayed, observed)
        return None

    async def _upload(self, request: Request, token: str) -> Response:
        uploads = self._served.uploads
        grant = uploads.granted(token)
        if grant is None:
            return _response(refused_upload(403, "AccessDenied"))
        with self._memory.share() as share:
            message = f"the address is for a file of {grant.size:,} bytes"
            body = await bodies.read_body(request, grant.size, share, message)
            found = await anyio.to_thread.run_sync(uploads.put, grant, body, limiter=self._limiter())
        return _response(found)

    def _console(self, request: Request, path: str, sessions: ConsoleSessions) -> Response:
        """A file of the console, which has nothing of the knowledge; or a session for the key in the address."""
        if path == "/":
            return Response(status_code=303, headers={"location": CONSOLE})
        key = request.query_params.get(KEY)
        if key is not None:
            session = sessions.open(key)
            if session is None:
                text = "This address was used before, or is too old: Enter in `opx console` prints a new one.\n"
                return Response(text, 403, CONSOLE_HEADERS, "text/plain")
            opened = {
                "location": CONSOLE,
                "set-cookie": cookie(session, _port_of(request)),
                "cache-control": "no-store",
            }
            return Response(status_code=303, headers={**CONSOLE_HEADERS, **opened})
        found = self._served.console.get(path.removeprefix(CONSOLE))
        if found is None:
            return _refused(404, "not_found", "the console has no such file")
        return Response(found.data, headers=dict(found.headers))

    async def _page(self, path: str) -> Response:
        if path == "/docs":
            text = await anyio.to_thread.run_sync(documentation_page)
            policy = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'"
            return Response(text, media_type="text/html", headers={"content-security-policy": policy, **_NOT_SNIFFED})
        if path == "/openapi.json":
            text = await anyio.to_thread.run_sync(openapi_text)
            return Response(text, media_type="application/json", headers=_NOT_SNIFFED)
        if not self._served.ready():
            return _busy("the server is starting: it loads what answers need", "starting")
        try:
            await anyio.to_thread.run_sync(self._served.healthy, limiter=self._health_limiter())
        except Exception as exc:  # noqa: BLE001 - whatever it is, the server can't answer
            return _refused(503, "unavailable", f"the knowledge base can't answer ({type(exc).__name__}); see the log")
        return _response(reply(200, {"status": "ok"}))


_NOT_SNIFFED = {"x-content-type-options": "nosniff"}


def _port_of(request: Request) -> int:
    server = request.scope.get("server") or ("", 0)
    return server[1] or 0


def _is_own_page(request: Request) -> bool:
    """True for a request of a page of this server: what another site's page sends isn't taken for the console's."""
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        return site in ("same-origin", "none")
    origin = request.headers.get("origin")
    if origin is None:
        return request.method in ("GET", "HEAD")
    return origin == f"http://{request.headers.get('host', '')}"


def _is_from_elsewhere(request: Request, own: Iterable[str]) -> bool:
    """True for a request by a page of another site, or of another port of this machine."""
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    return site in ("cross-site", "same-site") or origin not in (None, *(f"http://{one}" for one in own))


async def _delivery(
    deliveries: LocalDeliveries, request: Request, path: str, memory: bodies.Memory, limiter: anyio.CapacityLimiter
) -> Response:
    with memory.share() as share:
        body = await bodies.read_body(request, MAX_DELIVERY_BYTES, share, _DELIVERY_TOO_LARGE)
        query = request.scope["query_string"].decode("ascii", "replace")
        work = functools.partial(deliveries.answer, request.method, path, query, dict(request.headers), body)
        return _response(await anyio.to_thread.run_sync(work, limiter=limiter))


def _forbidden(message: str) -> Response:
    return _refused(403, "forbidden", message)


def _busy(message: str, code: str = "busy") -> Response:
    response = _refused(503, code, message)
    response.headers["retry-after"] = str(RETRY_AFTER_SECONDS)
    return response


def _body_refused(error: bodies.BodyRefusedError) -> Response:
    response = _refused(error.status, error.code, error.message)
    response.headers["connection"] = "close"  # the rest of the body isn't read
    if error.status == 503:
        response.headers["retry-after"] = str(RETRY_AFTER_SECONDS)
    return response


def _refused(status: int, code: str, message: str) -> Response:
    return _response(reply(status, {"error": {"code": code, "message": message}}))


def _response(found: Json) -> Response:
    return Response(found["body"], found["statusCode"], found["headers"])


async def _lifespan(apps: Iterable[Any], receive: Any, send: Any) -> None:
    """Starts applications with life spans of their own, the session managers of MCP, and ends them."""
    await receive()
    try:
        async with AsyncExitStack() as stack:
            for app in apps:
                await stack.enter_async_context(app.router.lifespan_context(app))
            await send({"type": "lifespan.startup.complete"})
            await receive()
    finally:
        await send({"type": "lifespan.shutdown.complete"})


# -- deliveries alone


def deliveries_application(deliveries: LocalDeliveries) -> Application:
    """Answers `POST /ingest/{tier}/{category}` of webhooks, and nothing else."""
    limiter = functools.cache(lambda: anyio.CapacityLimiter(4))
    memory = bodies.Memory(bodies.DELIVERY_MEMORY_BYTES)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await _lifespan((), receive, send)
            return
        try:
            response = await _delivery(deliveries, Request(scope, receive), scope["path"], memory, limiter())
        except bodies.BodyRefusedError as exc:
            response = _body_refused(exc)
        except ClientDisconnect:
            return
        await response(scope, receive, send)

    return app
