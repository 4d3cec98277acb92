"""From a request to the operation that it names, and to a reply: who may call, what is taken, how errors look."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from opx.api.declarations import DEFAULT_KNOWLEDGE_BASE
from opx.api.fields import Json, read_fields, read_parameters
from opx.api.http_events import Caller, ForbiddenError, Request, TooLargeError, caller_of, reply, request_of
from opx.api.routes import ROUTES, Function, Route, TokenScope
from opx.domain.scopes import Identity
from opx.errors import (
    ConditionFailedError,
    DocumentNotFoundError,
    EntryNotFoundError,
    HeldError,
    HoldNotFoundError,
    InvalidInputError,
    KnowledgeConfigError,
    MergeNotFoundError,
    NodeNotFoundError,
    NotOrchestratorError,
    ObjectNotFoundError,
    OpxError,
    PatternNotFoundError,
    ReceiptNotFoundError,
    SourceBusyError,
    StoreUnavailableError,
    UnknownCategoryError,
    UnparsableDocumentError,
)
from opx.operations.forms import UploadedFile, is_form, read_form
from opx.runtime.metrics import Metric, Report

if TYPE_CHECKING:
    from opx.services import Services

log = logging.getLogger(__name__)

RETRY_AFTER_SECONDS = 5


class UnknownRouteError(OpxError):
    """There is no such route here."""


class UnknownKnowledgeBaseError(OpxError):
    """The path names a knowledge base that this is not."""


class StartError(OpxError):
    """The system can't be started as it is configured, which is never the caller's mistake."""


@dataclass(frozen=True, slots=True)
class Call:
    """A request as its route declares it: values by name, checked, with defaults."""

    path: Mapping[str, str]
    query: Json
    body: Json
    files: tuple[UploadedFile, ...] | None = None
    """Those of a form, whose fields are the body; None if the body is JSON."""


@dataclass(frozen=True, slots=True)
class Failure:
    """How an error looks to a caller; without a `message`, it has the error's own."""

    status: int
    code: str
    metric: Metric
    message: str = ""


_UNEXPECTED = Failure(500, "internal", Metric.API_ERRORS, "the request failed; the error was logged")

_FAILURES: dict[type[Exception], Failure] = {
    KnowledgeConfigError: _UNEXPECTED,
    UnknownCategoryError: Failure(400, "unknown_category", Metric.API_REFUSED),
    InvalidInputError: Failure(400, "invalid_argument", Metric.API_REFUSED),
    UnparsableDocumentError: Failure(400, "invalid_argument", Metric.API_REFUSED),
    ForbiddenError: Failure(403, "forbidden", Metric.API_REFUSED),
    NotOrchestratorError: Failure(403, "forbidden", Metric.API_REFUSED),
    DocumentNotFoundError: Failure(404, "not_found", Metric.API_REFUSED),
    MergeNotFoundError: Failure(404, "not_found", Metric.API_REFUSED),
    EntryNotFoundError: Failure(404, "not_found", Metric.API_REFUSED),
    PatternNotFoundError: Failure(404, "not_found", Metric.API_REFUSED),
    ReceiptNotFoundError: Failure(404, "not_found", Metric.API_REFUSED),
    HoldNotFoundError: Failure(404, "not_found", Metric.API_REFUSED),
    NodeNotFoundError: Failure(404, "not_found", Metric.API_REFUSED),
    ObjectNotFoundError: Failure(404, "not_found", Metric.API_REFUSED),
    UnknownKnowledgeBaseError: Failure(404, "not_found", Metric.API_REFUSED),
    UnknownRouteError: Failure(404, "no_such_route", Metric.API_REFUSED),
    SourceBusyError: Failure(409, "conflict", Metric.API_REFUSED),
    HeldError: Failure(409, "held", Metric.API_REFUSED),
    ConditionFailedError: Failure(409, "conflict", Metric.API_REFUSED, "it was changed meanwhile; try again"),
    TooLargeError: Failure(413, "too_large", Metric.API_REFUSED),
    StoreUnavailableError: Failure(
        503, "unavailable", Metric.API_UNAVAILABLE, "the knowledge base is unavailable for now"
    ),
}
"""The first that fits counts; what none does is unexpected."""

Operations = Callable[["Services", Caller, Report], object]
"""Makes what has a method for each route of a function, named like it: a `Call` in, JSON out."""


def respond(
    event: Mapping[str, Any], function: Function, start: Callable[[], Services], operations: Operations, report: Report
) -> Json:
    """Answer a request of `function`'s routes. Never raises."""
    report(Metric.API_REQUESTS)
    try:
        return _answer(event, function, start, operations, report)
    except tuple(_FAILURES) as exc:
        failure = next(found for kind, found in _FAILURES.items() if isinstance(exc, kind))
        level = logging.WARNING if failure.metric is Metric.API_REFUSED else logging.ERROR
        # Messages may quote the request, so that lines about refusals have none.
        log.log(level, "%s: %s", event["routeKey"], failure.code, exc_info=level >= logging.ERROR)
        return _failed(failure, failure.message or str(exc), report)
    except Exception:  # the outermost edge: whatever it is, the caller must get an answer in this form
        log.exception("%s failed", event["routeKey"])
        return _failed(_UNEXPECTED, _UNEXPECTED.message, report)


def _answer(
    event: Mapping[str, Any], function: Function, start: Callable[[], Services], operations: Operations, report: Report
) -> Json:
    route = ROUTES.get(event["routeKey"])
    if route is None or route.function is not function:
        raise UnknownRouteError("there is no such route")
    services = _started(start)
    settings = services.settings
    caller = caller_of(event, Identity(settings.client_id, settings.project_id))
    check_scopes(route, caller)
    call = call_of(route, request_of(event))
    if call.path.get("kbId", DEFAULT_KNOWLEDGE_BASE) not in {DEFAULT_KNOWLEDGE_BASE, settings.environment} - {""}:
        raise UnknownKnowledgeBaseError("no knowledge base has this id")
    return reply(route.status, getattr(operations(services, caller, report), route.name)(call))


def _started(start: Callable[[], Services]) -> Services:
    """Raises `StartError` for what would look like an error of the request."""
    try:
        return start()
    except OpxError as exc:
        raise StartError("the system does not start") from exc


def check_scopes(route: Route, caller: Caller) -> None:
    """Raise `ForbiddenError` if the caller's token doesn't allow the route. API Gateway checks the same before."""
    if caller.token_scopes is None or not route.scopes:
        return
    allowed = {scope.value for scope in route.scopes}
    if not allowed & caller.token_scopes:
        raise ForbiddenError(f"this needs a token with the scope {' or '.join(sorted(allowed))}")
    if not caller.identity.client_id and TokenScope.ADMIN.value not in caller.token_scopes:
        raise ForbiddenError(f"a token that names no client may write only with the scope {TokenScope.ADMIN.value}")


def call_of(route: Route, request: Request) -> Call:
    """The request's values. Raises `RequestError`."""
    path = read_parameters(route.path_fields, request.path.items())
    query = read_parameters(route.query, request.query)
    if route.form is not None and is_form(request.content_type):
        form = read_form(request.content_type, request.body)
        return Call(path, query, read_parameters(route.form, form.fields), form.files)
    return Call(path, query, body={} if route.body is None else read_fields(route.body, request.json()))


def _failed(failure: Failure, message: str, report: Report) -> Json:
    report(failure.metric)
    headers = {"retry-after": str(RETRY_AFTER_SECONDS)} if failure.status == 503 else {}
    return reply(failure.status, {"error": {"code": failure.code, "message": message}}, headers=headers)
