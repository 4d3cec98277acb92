"""Answers requests to the routes of operations: finds the operation, the caller and the knowledge base, and performs it."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, Protocol
from urllib.parse import unquote

from opx.domain.record import Json
from opx.domain.requests import RequestError
from opx.edges.client import RemoteClient
from opx.edges.failures import ErrorResponse, UnknownKnowledgeBaseError, UnknownRouteError, attempt
from opx.edges.http import RETRY_AFTER_SECONDS, RouteRequest, performed, read_parts, reply
from opx.errors import ForbiddenError
from opx.operations import load
from opx.operations.context import Caller, Context, Progress, unwatched
from opx.operations.registry import DEFAULT_KNOWLEDGE_BASE, Operation
from opx.operations.system import System
from opx.runtime.deadlines import deadline
from opx.runtime.metrics import Metric, Report
from opx_serve.tokens import administers
from opx_serve.workers import QUESTIONS, AnswerProcesses

ANSWER_SECONDS = 55.0
"""Time for one request: proxies and clients wait for a minute."""

JOB_SECONDS = 12 * 3600.0
"""Time for a request whose progress is watched."""


class KnowledgeBase(Protocol):
    """A knowledge base that requests name by its id."""

    def perform(
        self,
        operation: Operation[Any, Any],
        request: RouteRequest,
        caller: Caller,
        report: Report,
        progress: Progress | None = None,
    ) -> Any:
        """The reply of an operation, within the time of a request unless its `progress` is watched. Raises the errors of the
        operation."""


@dataclass(frozen=True, slots=True)
class LocalBase:
    """A home of this machine. The caller is the same in all of them: clients and projects have the same names."""

    system: System

    def perform(
        self,
        operation: Operation[Any, Any],
        request: RouteRequest,
        caller: Caller,
        report: Report,
        progress: Progress | None = None,
    ) -> Any:
        with deadline(ANSWER_SECONDS if progress is None else JOB_SECONDS):
            return performed(operation, request, Context(self.system, caller, report, progress or unwatched))


@dataclass(frozen=True, slots=True)
class RemoteBase:
    """A system at an address. It sees all callers as the owner of this server's token; so that none gains by that, only
    administrators with the server's own client and project may ask it."""

    client: RemoteClient
    own: Caller

    def perform(
        self,
        operation: Operation[Any, Any],
        request: RouteRequest,
        caller: Caller,
        report: Report,
        progress: Progress | None = None,
    ) -> Any:
        del report, progress
        if not administers(caller, self.own.identity):
            raise ForbiddenError("this knowledge base is for administrators with the client and project of the server")
        return self.client.call(operation.run, read_parts(operation, request).request)


@dataclass(frozen=True, slots=True)
class _Route:
    method: str
    pattern: re.Pattern[str]
    operation: Operation[Any, Any]


@cache
def _routes() -> tuple[_Route, ...]:
    """All routes, those with literal segments before those with parameters."""
    found = [_Route(one.route.method, _pattern(one.route.path), one) for one in load() if one.route is not None]
    return tuple(sorted(found, key=lambda one: one.pattern.groups))


def _pattern(path: str) -> re.Pattern[str]:
    parts = re.split(r"({\w+\+?})", path)
    return re.compile("".join(_part(part) for part in parts))


def _part(text: str) -> str:
    if not text.startswith("{"):
        return re.escape(text)
    name = text.strip("{}+")
    return f"(?P<{name}>.+)" if text.endswith("+}") else f"(?P<{name}>[^/]+)"


@dataclass(frozen=True, slots=True)
class Raw:
    """A request as it arrived: `path` is still percent-encoded, `pairs` and `body` are decoded."""

    method: str
    path: str
    pairs: tuple[tuple[str, str], ...] = ()
    content_type: str = ""
    body: bytes = b""


def find(raw: Raw) -> tuple[Operation[Any, Any], Mapping[str, str]]:
    """The operation of a request, and its path parameters. Raises `UnknownRouteError`, and `RequestError` for a path that
    isn't percent-encoded UTF-8."""
    found = [(route, match) for route in _routes() if (match := route.pattern.fullmatch(raw.path))]
    for route, match in found:
        if route.method == raw.method:
            return route.operation, {name: _decoded(text) for name, text in match.groupdict().items()}
    methods = sorted({route.method for route, _ in found})
    hint = f"it takes {' and '.join(methods)}" if methods else "/docs lists the routes"
    raise UnknownRouteError(f"there is no route {raw.method} {raw.path[:200]}; {hint}")


def _decoded(text: str) -> str:
    try:
        return unquote(text, errors="strict")
    except ValueError as exc:
        raise RequestError("the address is not percent-encoded UTF-8") from exc


@dataclass(frozen=True, slots=True)
class Answers:
    """Answers requests in the form of `opx.edges.http.reply`. `bases` are the knowledge bases by id, `default` among them,
    whose questions are answered by the `workers`, if there are any."""

    bases: Mapping[str, KnowledgeBase]
    report: Report
    workers: AnswerProcesses | None = None

    def answer(self, raw: Raw, caller: Caller, progress: Progress | None = None) -> tuple[str, Json]:
        """The key of the route ("" for none) and the reply. Never raises. With `progress`, it may take `JOB_SECONDS`."""
        if self.workers is not None and progress is None and is_question(raw):
            return self.workers.run(partial(_answered, raw, caller), self.report)
        self.report(Metric.API_REQUESTS)
        route: list[str] = []
        found = attempt(
            lambda: self._performed(raw, caller, route, progress), self._failed, f"{raw.method} {raw.path[:100]}"
        )
        return "".join(route), found

    def _performed(self, raw: Raw, caller: Caller, route: list[str], progress: Progress | None) -> Json:
        operation, parameters = find(raw)
        assert operation.route is not None
        route.append(operation.route.key)
        path = dict(parameters)
        base = self.bases.get(path.pop("kbId", DEFAULT_KNOWLEDGE_BASE))
        if base is None:
            known = ", ".join(sorted(self.bases))
            raise UnknownKnowledgeBaseError(f"no knowledge base has this id; there is: {known}")
        request = RouteRequest(path, raw.pairs, raw.content_type, raw.body)
        return reply(operation.route.status, base.perform(operation, request, caller, self.report, progress))

    def _failed(self, failure: ErrorResponse, error: Json) -> Json:
        self.report(failure.api_metric)
        headers = {"retry-after": str(error.get("retryAfter", RETRY_AFTER_SECONDS))} if failure.status == 503 else {}
        return reply(failure.status, {"error": error}, headers)


def is_question(raw: Raw) -> bool:
    """True for a route that searches the default knowledge base."""
    with contextlib.suppress(UnknownRouteError, RequestError):
        operation, path = find(raw)
        return operation.name in QUESTIONS and path.get("kbId", DEFAULT_KNOWLEDGE_BASE) == DEFAULT_KNOWLEDGE_BASE
    return False


def _answered(raw: Raw, caller: Caller, system: System, report: Report) -> tuple[str, Json]:
    return Answers({DEFAULT_KNOWLEDGE_BASE: LocalBase(system)}, report).answer(raw, caller)


def unauthenticated() -> Json:
    """The reply to a request without a token of this server."""
    error = {
        "code": "unauthenticated",
        "message": "give a token of this server: Authorization: Bearer TOKEN (docs/serve.md)",
    }
    return reply(401, {"error": error}, {"www-authenticate": "Bearer"})
