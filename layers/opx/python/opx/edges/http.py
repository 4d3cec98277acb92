"""Serves operations over HTTP: reads requests of API Gateway (HTTP APIs, payload format 2.0), and builds replies.

The caller's identity is that of the authorizer, and nothing else: no parameter, header or field of a body is read for it.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl, unquote

import msgspec
from msgspec import Struct

from opx.domain.record import Json, replace
from opx.domain.requests import Request, RequestError, fields_of, quoted, read_request
from opx.domain.scopes import Identity
from opx.edges.calling import check_identity, json_bytes, perform
from opx.edges.claims import caller_of_claims
from opx.edges.failures import ErrorResponse, UnknownKnowledgeBaseError, UnknownRouteError, attempt, started
from opx.errors import ForbiddenError, TooLargeError
from opx.operations import of_route
from opx.operations.context import Caller, Context
from opx.operations.forms import UploadedFile, is_form, read_form
from opx.operations.paging import sent_bytes
from opx.operations.registry import DEFAULT_KNOWLEDGE_BASE, Function, Operation
from opx.operations.system import System
from opx.runtime.metrics import Metric, Report

MAX_BODY_BYTES = 4 * 1024 * 1024
"""Lambda accepts an event of 6 MB, in which a binary body is a third longer."""

MAX_REPLY_BYTES = 5_900_000
"""Lambda returns 6 MB of a reply, of which a little is not the body."""

RETRY_AFTER_SECONDS = 5
_MAX_PARAMETERS = 1000
_MOST_OF_A_CHARACTER = 12
"""Bytes of a character in a JSON string at most, two escapes: most replies needn't be encoded again to be measured."""


def is_http(event: object, context: object) -> bool:
    """True if API Gateway sent the event. If the context shows a call of an agent's gateway, the event is nothing but
    arguments that a model chose, and is never treated as a request; neither is an event of an action group."""
    if not isinstance(event, Mapping) or getattr(context, "client_context", None) is not None:
        return False
    request_context = event.get("requestContext")
    return (
        event.get("version") == "2.0"
        and isinstance(event.get("routeKey"), str)
        and isinstance(request_context, Mapping)
        and isinstance(request_context.get("http"), Mapping)
        and not {"actionGroup", "messageVersion", "apiPath"} & event.keys()
    )


def respond(event: Mapping[str, Any], function: Function, start: Callable[[], System], report: Report) -> Json:
    """Answers a request of `function`'s routes. Never raises."""
    report(Metric.API_REQUESTS)

    def failed(failure: ErrorResponse, error: Json) -> Json:
        report(failure.api_metric)
        seconds = error.get("retryAfter", RETRY_AFTER_SECONDS)
        headers = {"retry-after": str(seconds)} if failure.status == 503 else {}
        return reply(failure.status, {"error": error}, headers)

    return attempt(lambda: _answer(event, function, start, report), failed, str(event["routeKey"]))


def _answer(event: Mapping[str, Any], function: Function, start: Callable[[], System], report: Report) -> Json:
    operation = of_route(event["routeKey"])
    if operation is None or operation.route is None or operation.route.function is not function:
        raise UnknownRouteError("there is no such route")
    system = started(start)
    settings = system.settings
    configured = Identity(settings.client_id, settings.project_id)
    context = Context(system, caller_of(event, configured, settings.groups_claim), report)
    path = path_of(event)
    if path.pop("kbId", DEFAULT_KNOWLEDGE_BASE) not in {DEFAULT_KNOWLEDGE_BASE, settings.environment} - {""}:
        raise UnknownKnowledgeBaseError("no knowledge base has this id")
    pairs, takes_body = pairs_of(event), operation.route.takes_body
    request = RouteRequest(
        path, pairs, _header(event, "content-type"), body_of(event) if takes_body and not pairs else b""
    )
    return reply(operation.route.status, performed(operation, request, context))


# -- requests


def path_of(event: Mapping[str, Any]) -> dict[str, str]:
    """Path parameters, decoded. Raises `RequestError`."""
    try:
        return {name: unquote(text, errors="strict") for name, text in (event.get("pathParameters") or {}).items()}
    except ValueError as exc:
        raise RequestError("the address is not percent-encoded UTF-8") from exc


class RouteRequest(Struct, frozen=True):
    """A request to a route, decoded: path parameters without `kbId`, query parameters in their order, and the body."""

    path: Mapping[str, str]
    pairs: Sequence[tuple[str, str]] = ()
    content_type: str = ""
    body: bytes = b""


class ReadParts(Struct, frozen=True):
    """An operation's request, and the files and further fields of a form."""

    request: Request
    files: tuple[UploadedFile, ...] | None = None
    form: Json | None = None


def performed(operation: Operation[Any, Any], request: RouteRequest, context: Context) -> Any:
    """The reply of the operation. Raises `RequestError`, `TooLargeError`, and the operation's errors."""
    read = read_parts(operation, request)
    return perform(operation, replace(context, files=read.files, form=read.form), read.request)


def read_parts(operation: Operation[Any, Any], request: RouteRequest) -> ReadParts:
    """The parts of a request. Raises `RequestError` and `TooLargeError`."""
    route, path = operation.route, request.path
    assert route is not None
    if not route.takes_body:
        given = {**_grouped(request.pairs, operation.request), **path}
        return ReadParts(read_request(operation.request, given, texts=True))
    if request.pairs:
        name = quoted(request.pairs[0][0]).strip(chr(39))
        raise RequestError(f"unknown field {name} in the address; fields are in the body")
    if route.form is not None and is_form(request.content_type):
        form = read_form(request.content_type, request.body)
        fields = read_request(route.form, _grouped(form.fields, route.form), texts=True)
        stated = {name: value for name, value in msgspec.to_builtins(fields).items() if value not in ("", (), [])}
        return ReadParts(read_request(operation.request, path), form.files, stated)
    body = json_object(request.content_type, request.body)
    for name in path:
        if name in body:
            raise RequestError(f"{name} is in the address; leave it out of the body")
    return ReadParts(read_request(operation.request, {**body, **path}))


def pairs_of(event: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Query parameters, decoded, in order. Raises `RequestError`."""
    try:
        # API Gateway joins parameters that are given twice with commas.
        return parse_qsl(
            event.get("rawQueryString") or "", keep_blank_values=True, errors="strict", max_num_fields=_MAX_PARAMETERS
        )
    except ValueError as exc:
        raise RequestError("the address has too many parameters, or some that are not percent-encoded UTF-8") from exc


def _grouped(pairs: Any, kind: type[Request]) -> dict[str, object]:
    """Parameters by name. Raises `RequestError` for one that is given several times and takes one value."""
    given: dict[str, list[str]] = {}
    for name, text in pairs:
        given.setdefault(name, []).append(text)
    lists = {one.json_name for one in fields_of(kind) if one.is_list}
    for name, texts in given.items():
        if len(texts) > 1 and name not in lists:
            raise RequestError(f"{name[:60]} is given {len(texts)} times; it takes one value")
    return {name: texts if name in lists else texts[0] for name, texts in given.items()}


def _header(event: Mapping[str, Any], name: str) -> str:
    return next((str(text) for key, text in (event.get("headers") or {}).items() if key.lower() == name), "")


def body_of(event: Mapping[str, Any]) -> bytes:
    """The body, decoded. One with a declared or encoded length above the limit isn't decoded. Raises `RequestError` and
    `TooLargeError`."""
    declared = _header(event, "content-length")
    text = event.get("body") or ""
    if (declared.isdecimal() and int(declared[:18]) > MAX_BODY_BYTES) or len(text) > 2 * MAX_BODY_BYTES:
        raise _body_too_large()
    try:
        body = base64.b64decode(text, validate=True) if event.get("isBase64Encoded") else text.encode("utf-8")
    except (binascii.Error, ValueError) as exc:
        raise RequestError("the body can't be decoded") from exc
    if len(body) > MAX_BODY_BYTES:
        raise _body_too_large()
    return bytes(body)


def _body_too_large() -> TooLargeError:
    return TooLargeError(
        f"the body may have at most {MAX_BODY_BYTES:,} bytes; larger documents go through POST /uploads"
    )


def json_object(content_type: str, body: bytes) -> dict[str, object]:
    """The JSON object of a body. Raises `RequestError`."""
    kind = content_type.partition(";")[0].strip().lower()
    if kind != "application/json":
        raise RequestError(f"the body must be application/json, not {kind[:60] or 'without a content-type'}")
    try:
        found = json.loads(body.decode("utf-8"), parse_constant=_refuse_constant)
    except RecursionError:
        raise RequestError("the body is nested too deeply") from None
    except ValueError as exc:  # also text that isn't UTF-8, and numbers of thousands of digits
        raise RequestError(f"the body is not JSON: {str(exc)[:100]}") from exc
    if not isinstance(found, dict):
        raise RequestError("the body is not a JSON object")
    return found


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is no number")


# -- the caller


def caller_of(event: Mapping[str, Any], configured: Identity, groups_claim: str = "") -> Caller:
    """The caller that the authorizer reports: for a token, the identity of its claims, and roles also of its `groups_claim`;
    for an IAM role, the identity that the installation is `configured` for.

    Raises `ForbiddenError` without an authorizer's result, so that a route which is open by mistake answers nobody, and
    for claims that contradict each other or are malformed.
    """
    authorizer = event["requestContext"].get("authorizer")
    found = authorizer if isinstance(authorizer, Mapping) else {}
    token, role = found.get("jwt"), found.get("iam")
    if isinstance(token, Mapping) == isinstance(role, Mapping):
        raise ForbiddenError("the request was not authorised")
    caller = (
        caller_of_claims(token.get("claims"), groups_claim)
        if isinstance(token, Mapping)
        else Caller(_role_identity(role, configured))
    )
    check_identity(caller.identity, "caller")
    return caller


def _role_identity(role: object, configured: Identity) -> Identity:
    arn = role.get("userArn") if isinstance(role, Mapping) else ""
    return replace(configured, principal=arn if isinstance(arn, str) else "")


# -- replies


def reply(status: int, payload: object, headers: Mapping[str, str] | None = None) -> Json:
    """A reply in API Gateway's form. Raises `TooLargeError` if it can't be sent."""
    body = json_bytes(payload).decode("utf-8")
    if 2 + _MOST_OF_A_CHARACTER * len(body) > MAX_REPLY_BYTES < sent_bytes(body):
        raise TooLargeError("the reply would be too large; request less at once")
    common = {"content-type": "application/json; charset=utf-8", "cache-control": "no-store"}
    return {"statusCode": status, "headers": {**common, **(headers or {})}, "body": body, "isBase64Encoded": False}
