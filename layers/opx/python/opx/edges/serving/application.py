"""The ASGI application of a local server: operations over REST, tools over MCP, webhooks, documentation, metrics, health."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import anyio
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from opx.connectors.deliveries import MAX_BODY_BYTES as MAX_DELIVERY_BYTES
from opx.domain.record import Json
from opx.edges.http import MAX_BODY_BYTES, reply
from opx.edges.serving.deliveries import DeliveryAnswers
from opx.edges.serving.listening import Application, is_loopback
from opx.edges.serving.metrics import Measurements
from opx.edges.serving.pages import documentation_page, openapi_text
from opx.edges.serving.routes import Answers, Raw, unauthenticated
from opx.edges.serving.tokens import Callers
from opx.operations.context import Caller
from opx.operations.forms import is_form

MAX_FORM_BYTES = 100 * 1024 * 1024
"""A form's files are in memory until they are written."""

BODY_SECONDS = 60.0
"""Time for the whole body of a request, however steadily it arrives; larger forms have a second more for each megabyte."""

THREADS = 16
"""Requests that are answered at once; others wait."""

_MAX_PARAMETERS = 1000
_PUBLIC = ("/docs", "/openapi.json", "/healthz")
"""Pages that need no token: they have nothing of the knowledge."""


@dataclass(frozen=True)
class Served:
    """The parts of a server. `mcp` are ASGI applications of the tools by caller, with their life spans; `healthy` raises if
    the system can't answer. `host` is the address's, or "" for a socket of the owner."""

    answers: Answers
    callers: Callers
    deliveries: DeliveryAnswers
    measurements: Measurements
    healthy: Callable[[], object]
    host: str
    mcp: Mapping[int, Any] = field(default_factory=dict)


def application(served: Served) -> Application:
    """Answers every request; errors have the form of the REST API's."""
    return _Application(served)


class _Application:
    def __init__(self, served: Served) -> None:
        self._served = served
        self._limiter = functools.cache(lambda: anyio.CapacityLimiter(THREADS))

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await _lifespan(self._served, receive, send)
        elif scope["type"] == "http":
            await self._http(Request(scope, receive), scope, receive, send)

    async def _http(self, request: Request, scope: Any, receive: Any, send: Any) -> None:
        path = request.url.path
        response = self._refusal(request)
        if response is None and path.rstrip("/") == "/mcp":
            caller = self._caller(request)
            if caller is not None:
                await self._served.mcp[id(caller)]({**scope, "path": "/mcp", "raw_path": b"/mcp"}, receive, send)
                return
            response = _response(unauthenticated())
        if response is None:
            try:
                response = await self._response(request, path)
            except ClientDisconnect:
                return
        await response(scope, receive, send)

    def _refusal(self, request: Request) -> Response | None:
        """The refusal of a request by a web page of another site: on loopback there may be no token that it lacks."""
        if not is_loopback(self._served.host):
            return None
        named = _host_of(f"//{request.headers.get('host', '')}")
        origin = request.headers.get("origin", "")
        if is_loopback(named) and (not origin or is_loopback(_host_of(origin))):
            return None
        message = "the request is for another host, or comes from a page of another site"
        return _response(reply(403, {"error": {"code": "forbidden", "message": message}}))

    def _caller(self, request: Request) -> Caller | None:
        return self._served.callers.of(request.headers.get("authorization", ""))

    async def _response(self, request: Request, path: str) -> Response:
        served = self._served
        if path.startswith("/webhooks/") and request.method == "POST":
            return await self._delivery(request)
        if request.method in ("GET", "HEAD"):
            if path in _PUBLIC:
                return await self._page(path)
            if path == "/metrics":
                if self._caller(request) is None:
                    return _response(unauthenticated())
                return Response(*served.measurements.exposition())
        return await self._operation(request)

    async def _operation(self, request: Request) -> Response:
        content_type = request.headers.get("content-type", "")
        largest = MAX_FORM_BYTES if is_form(content_type) else MAX_BODY_BYTES
        caller = self._caller(request)
        body = await _body(request, largest if caller is not None else 0)
        if not isinstance(body, bytes):
            return body if caller is not None else _response(unauthenticated())
        try:
            query = request.scope["query_string"].decode("ascii")
            pairs = parse_qsl(query, keep_blank_values=True, errors="strict", max_num_fields=_MAX_PARAMETERS)
        except ValueError:
            message = "the address has too many parameters, or some that are not percent-encoded UTF-8"
            return _refused(400, "invalid_argument", message)
        raw_path = request.scope["raw_path"].decode("ascii", "replace")
        raw = Raw(request.method, raw_path, tuple(pairs), content_type, body)
        with self._served.measurements.request() as measured:
            measured.route, found = await anyio.to_thread.run_sync(
                self._served.answers.answer, raw, caller, limiter=self._limiter(), abandon_on_cancel=True
            )
            measured.status = found["statusCode"]
        return _response(found)

    async def _delivery(self, request: Request) -> Response:
        body = await _body(request, MAX_DELIVERY_BYTES)
        if not isinstance(body, bytes):
            return body
        path = request.url.path.removeprefix("/webhooks")
        work = functools.partial(
            self._served.deliveries.answer, request.method, path, request.url.query, dict(request.headers), body
        )
        return _response(await anyio.to_thread.run_sync(work, limiter=self._limiter()))

    async def _page(self, path: str) -> Response:
        if path == "/docs":
            text = await anyio.to_thread.run_sync(documentation_page)
            policy = {
                "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"
            }
            return Response(text, media_type="text/html", headers=policy)
        if path == "/openapi.json":
            return Response(await anyio.to_thread.run_sync(openapi_text), media_type="application/json")
        try:
            await anyio.to_thread.run_sync(self._served.healthy)
        except Exception as exc:  # noqa: BLE001 - whatever it is, the server can't answer
            return _refused(503, "unavailable", f"the knowledge base can't answer ({type(exc).__name__}); see the log")
        return _response(reply(200, {"status": "ok"}))


def _host_of(address: str) -> str:
    try:
        return urlsplit(address).hostname or ""
    except ValueError:
        return ""


async def _body(request: Request, largest: int) -> bytes | Response:
    """The body; a refusal for one that is too large, or too slow."""
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared[:18]) > largest:
        return _too_large(largest)
    body = bytearray()
    seconds = BODY_SECONDS + int(declared[:18] if declared.isdecimal() else 0) / 1e6
    try:
        async with asyncio.timeout(seconds):
            async for part in request.stream():
                body += part
                if len(body) > largest:
                    return _too_large(largest)
    except TimeoutError:
        return _refused(408, "too_slow", f"the body took more than {seconds:.0f} seconds")
    return bytes(body)


def _too_large(largest: int) -> Response:
    message = f"the body may have at most {largest:,} bytes; files of up to {MAX_FORM_BYTES:,} go as a form"
    return _refused(413, "too_large", message)


def _refused(status: int, code: str, message: str) -> Response:
    response = _response(reply(status, {"error": {"code": code, "message": message}}))
    if status in (408, 413):  # the rest of the body isn't read
        response.headers["connection"] = "close"
    return response


def _response(found: Json) -> Response:
    return Response(found["body"], found["statusCode"], found["headers"])


async def _lifespan(served: Served, receive: Any, send: Any) -> None:
    """Starts and ends the session managers of MCP."""
    await receive()
    try:
        async with AsyncExitStack() as stack:
            for app in served.mcp.values():
                await stack.enter_async_context(app.router.lifespan_context(app))
            await send({"type": "lifespan.startup.complete"})
            await receive()
    finally:
        await send({"type": "lifespan.shutdown.complete"})


# -- deliveries alone


def deliveries_application(deliveries: DeliveryAnswers) -> Application:
    """Answers `POST /ingest/{tier}/{category}` of webhooks, and nothing else."""
    limiter = functools.cache(lambda: anyio.CapacityLimiter(4))

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await _no_lifespan(receive, send)
            return
        request = Request(scope, receive)
        try:
            body = await _body(request, MAX_DELIVERY_BYTES)
        except ClientDisconnect:
            return
        if isinstance(body, bytes):
            work = functools.partial(
                deliveries.answer, request.method, request.url.path, request.url.query, dict(request.headers), body
            )
            body = _response(await anyio.to_thread.run_sync(work, limiter=limiter()))
        await body(scope, receive, send)

    return app


async def _no_lifespan(receive: Any, send: Any) -> None:
    await receive()
    await send({"type": "lifespan.startup.complete"})
    await receive()
    await send({"type": "lifespan.shutdown.complete"})
