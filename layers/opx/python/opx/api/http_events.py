"""Requests in the form in which API Gateway's HTTP APIs send them to a function (payload format 2.0), and replies.

Who asks is what the authorizer found out, and nothing else: no parameter, header or field of a body is read for it.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, unquote

from opx.api.fields import Json
from opx.domain.record import replace
from opx.domain.scopes import Identity, reader_of
from opx.errors import InvalidScopeError, OpxError
from opx.operations.requests import RequestError

MAX_BODY_BYTES = 4 * 1024 * 1024
"""Lambda takes an event of 6 MB, in which a body that isn't text is a third longer."""

MAX_REPLY_BYTES = 5_900_000
"""Lambda hands on 6 MB of a reply, of which a little is not the body."""

CLIENT_CLAIMS = ("opx_client_id", "custom:opxClientId")
PROJECT_CLAIMS = ("opx_project_id", "custom:opxProjectId")
"""Either spelling: user pools of Cognito put `custom:` before the names of attributes."""

_SCOPE_CLAIMS = ("scope", "scp")
_SUBJECT_CLAIMS = ("sub", "client_id")
_MAX_PARAMETERS = 1000
_NESTED = "the body is nested too deeply"


class ForbiddenError(OpxError):
    """The caller may not do this, or nobody said who the caller is."""


class TooLargeError(OpxError):
    """A request or its reply is larger than what can be sent."""


@dataclass(frozen=True, slots=True)
class Caller:
    """`token_scopes` is None where there is no token, as permissions are on routes then."""

    identity: Identity
    token_scopes: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class Request:
    """A request of one route. `query` has the parameters in order, as often as they were given."""

    route_key: str
    path: Mapping[str, str]
    query: tuple[tuple[str, str], ...]
    body: bytes
    content_type: str

    def json(self) -> Mapping[str, object]:
        """The body's object. Raises `RequestError`."""
        kind = self.content_type.partition(";")[0].strip().lower()
        if kind != "application/json":
            raise RequestError(f"the body must be application/json, not {kind[:60] or 'without a content-type'}")
        try:
            found = json.loads(self.body.decode("utf-8"), parse_constant=_refuse_constant)
        except RecursionError:
            raise RequestError(_NESTED) from None
        except ValueError as exc:  # also text that isn't UTF-8, and numbers of thousands of digits
            raise RequestError(f"the body is not JSON: {str(exc)[:100]}") from exc
        if not isinstance(found, dict):
            raise RequestError("the body is not a JSON object")
        return found


def is_http(event: object, context: object) -> bool:
    """Whether API Gateway sent the event. Where the context says that an agent's gateway calls, the event is nothing
    but arguments that a model chose, and is never taken for a request; neither is what an action group sent."""
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


def request_of(event: Mapping[str, Any]) -> Request:
    """Raises `RequestError` for what can't be decoded, and `TooLargeError`."""
    headers = {name.lower(): value for name, value in (event.get("headers") or {}).items()}
    try:
        # The parameters that API Gateway parsed are joined with commas where one is given twice.
        query = parse_qsl(
            event.get("rawQueryString") or "", keep_blank_values=True, errors="strict", max_num_fields=_MAX_PARAMETERS
        )
        path = {name: unquote(text, errors="strict") for name, text in (event.get("pathParameters") or {}).items()}
    except ValueError as exc:
        raise RequestError("the address has too many parameters, or some that are not percent-encoded UTF-8") from exc
    return Request(
        route_key=event["routeKey"],
        path=path,
        query=tuple(query),
        body=_body(event, str(headers.get("content-length", ""))),
        content_type=str(headers.get("content-type", "")),
    )


def _body(event: Mapping[str, Any], declared: str) -> bytes:
    """What is declared to be too large, or can't be anything else, isn't decoded to find out."""
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
    return TooLargeError(f"the body may have {MAX_BODY_BYTES:,} bytes; larger documents go through POST /uploads")


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is no JSON")


# -- who asks


def caller_of(event: Mapping[str, Any], configured: Identity) -> Caller:
    """Who the authorizer says is asking: for a token, whom its claims name; for an IAM role, whom the installation is
    `configured` for.

    Raises `ForbiddenError` if no authorizer said anything, so that a route which is open by mistake answers nobody,
    and for claims that contradict each other or are malformed.
    """
    authorizer = event["requestContext"].get("authorizer")
    found = authorizer if isinstance(authorizer, Mapping) else {}
    token, role = found.get("jwt"), found.get("iam")
    if isinstance(token, Mapping) == isinstance(role, Mapping):
        raise ForbiddenError("the request was not authorised")
    caller = _token_caller(token) if isinstance(token, Mapping) else Caller(_role_identity(role, configured))
    try:
        reader_of(caller.identity)
    except InvalidScopeError as exc:
        raise ForbiddenError("the caller's client or project id is malformed") from exc
    return caller


def _token_caller(token: Mapping[str, Any]) -> Caller:
    claims = token.get("claims")
    if not isinstance(claims, Mapping):
        raise ForbiddenError("the token has no claims")
    principal = next((claims[name] for name in _SUBJECT_CLAIMS if isinstance(claims.get(name), str)), "")
    identity = Identity(_claim(claims, CLIENT_CLAIMS), _claim(claims, PROJECT_CLAIMS), principal)
    texts = [claims[name] for name in _SCOPE_CLAIMS if isinstance(claims.get(name), str)]
    # A claim that is a list arrives as a text in brackets.
    return Caller(identity, frozenset(scope for text in texts for scope in text.strip("[]").replace(",", " ").split()))


def _role_identity(role: object, configured: Identity) -> Identity:
    arn = role.get("userArn") if isinstance(role, Mapping) else ""
    return replace(configured, principal=arn if isinstance(arn, str) else "")


def _claim(claims: Mapping[str, Any], names: tuple[str, ...]) -> str:
    values = [claims[name] for name in names if name in claims]
    if not all(isinstance(value, str) and value == values[0] for value in values):
        raise ForbiddenError(f"the token's claims {' and '.join(names)} contradict each other, or are no text")
    return str(values[0]) if values else ""


# -- replies


def reply(status: int, payload: Json, *, headers: Mapping[str, str] | None = None) -> Json:
    """A reply in API Gateway's form. Raises `TooLargeError` if it can't be sent."""
    body = json.dumps(payload, ensure_ascii=False)
    if not _is_unicode(body):  # documents may have halves of surrogate pairs, which JSON can escape and UTF-8 can't
        body = json.dumps(payload)
    if sent_bytes(body) > MAX_REPLY_BYTES:
        raise TooLargeError("the reply would be too large; ask for less at once")
    common = {"content-type": "application/json; charset=utf-8", "cache-control": "no-store"}
    return {"statusCode": status, "headers": {**common, **(headers or {})}, "body": body, "isBase64Encoded": False}


def _is_unicode(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def sent_bytes(body: str) -> int:
    """How much of Lambda's limit a body takes at most: it is written as a JSON text once more."""
    return len(json.dumps(body))
