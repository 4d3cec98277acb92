"""Callers of AgentCore Gateway: its request interceptor reads them from verified tokens, and states them to the functions of
tools in one signed header.

A gateway forwards the headers on a target's list whether its caller sent them or its interceptor. So a header isn't trusted
for being there, and a function accepts a statement only with the signature of the secret that it shares with the
interceptor, for the called tool, and for two minutes. docs/decisions/0063-callers-of-the-gateway.md has the reasons.
"""

from __future__ import annotations

import base64
import hmac
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from opx.domain.policy import SCOPES
from opx.domain.record import Json, Record
from opx.domain.requests import RequestError
from opx.domain.scopes import Identity
from opx.edges.calling import check_identity, decoded, encoded
from opx.edges.claims import agent_of_claims, caller_of_claims
from opx.edges.failures import ErrorResponse, attempt, started
from opx.errors import ForbiddenError, StoreUnavailableError
from opx.operations.context import Caller
from opx.runtime.metrics import Report

IDENTITY_HEADER = "x-opx-identity"
OWN_HEADERS = "x-opx-"
"""The beginning of names that no caller may send: they look like identities."""

VALID_SECONDS = 120.0
"""From the interceptor to the function, the start of its instance and retries of the gateway included."""

LEEWAY_SECONDS = 60.0
"""Allowed difference between the clocks of the issuer and of Lambda."""

MOST_TOKEN_SECONDS = 366 * 86_400.0
MIN_KEY_CHARACTERS = 32
MAX_CHARACTERS = 4096
"""Of the header. The gateway's limit isn't documented; AgentCore Runtime has this one."""

_DOMAIN = b"opx gateway caller 1\n"
_MAX_PRINCIPAL = 256
_REFUSED = -32001
"""A code of JSON-RPC that is free for servers."""


class CallerStatement(Record, frozen=True):
    """The interceptor's statement about a call of `tool`, valid until a time in seconds since 1970."""

    client_id: str
    project_id: str
    principal: str
    agent: str
    scopes: tuple[str, ...]
    tool: str
    until: float

    @property
    def caller(self) -> Caller:
        """The stated caller."""
        identity = Identity(self.client_id, self.project_id, self.principal)
        return Caller(identity, token_scopes=frozenset(self.scopes), agent=self.agent)


def signed(statement: CallerStatement, key: str) -> str:
    """The value of the header. Raises `ForbiddenError` if it would be too long, and for a key that is too short."""
    payload = base64.urlsafe_b64encode(encoded(statement)).decode().rstrip("=")
    header = f"{payload}.{_signature(payload, key)}"
    if len(header) > MAX_CHARACTERS:
        raise ForbiddenError("the token's claims are too long")
    return header


def verified(header: str, key: str, *, tool: str, now: float) -> CallerStatement:
    """The statement of a header. Raises `ForbiddenError` unless it is signed with this key, for this tool, and valid now."""
    payload, _, signature = header.partition(".")
    if not header.isascii() or not hmac.compare_digest(signature, _signature(payload, key)):
        raise ForbiddenError("the caller's identity isn't signed by this installation")
    try:
        statement: CallerStatement = decoded(_unpadded(payload), CallerStatement)
    except (ValueError, RecursionError) as exc:
        raise ForbiddenError("the caller's identity can't be read") from exc
    if statement.tool != tool:
        raise ForbiddenError("the caller's identity was stated for another tool")
    if not now <= statement.until <= now + VALID_SECONDS + LEEWAY_SECONDS:
        raise ForbiddenError("the caller's identity was stated for another time")
    return statement


def header_name(name: str) -> str:
    """A header's name as it is compared: proxies differ in case, and some write `_` as `-`."""
    return name.strip().lower().replace("_", "-")


def is_own(name: str) -> bool:
    """True for headers that only the interceptor may set."""
    return header_name(name).startswith(OWN_HEADERS)


def _signature(payload: str, key: str) -> str:
    if len(key) < MIN_KEY_CHARACTERS:
        raise ForbiddenError("identities can't be signed: the secret is too short")
    digest = hmac.digest(key.encode(), _DOMAIN + payload.encode(), "sha256")
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")


def _unpadded(text: str) -> bytes:
    """Decodes base64url without padding. Raises `ValueError`."""
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)


# -- the interceptor


@dataclass(frozen=True, slots=True)
class TrustedTokens:
    """Tokens that are accepted: of this issuer, for one of the audiences and of one of the clients, if there are any. The
    gateway's authorizer has checked the same, and the signature; checked here again, a changed gateway lets nobody in."""

    issuer: str
    audience: tuple[str, ...] = ()
    clients: tuple[str, ...] = ()

    def claims(self, headers: Mapping[str, Any], now: float) -> dict[str, Any]:
        """The claims of a request's token. Raises `ForbiddenError`."""
        claims = _claims(headers)
        if not self.issuer or claims.get("iss") != self.issuer:
            raise ForbiddenError("the token has another issuer")
        expires = claims.get("exp")
        if not isinstance(expires, int | float) or not now - LEEWAY_SECONDS <= expires <= now + MOST_TOKEN_SECONDS:
            raise ForbiddenError("the token has expired, or never does")
        audience = claims.get("aud")
        if self.audience and set(self.audience).isdisjoint(audience if isinstance(audience, list) else [audience]):
            raise ForbiddenError("the token is for another audience")
        if self.clients and claims.get("client_id") not in self.clients:
            raise ForbiddenError("the token was issued to another client")
        if not self.audience and not self.clients:
            raise ForbiddenError("no token is accepted: neither an audience nor a client is configured")
        return claims


def intercept(event: Any, tokens: TrustedTokens, key: Callable[[], str], now: float, report: Report) -> Json:
    """The interceptor's answer to a request: the request with the caller's statement instead of headers that look like one,
    or a refusal. Never raises."""
    request = _request(event)
    body = request.get("body")

    def stated() -> Json:
        headers = request.get("headers")
        if not isinstance(headers, Mapping):
            raise ForbiddenError("the request has no headers")
        claims = tokens.claims(headers, now)
        caller = caller_of_claims(claims)
        check_identity(caller.identity, "token")
        agent = agent_of_claims(claims)
        tool = _called_tool(body)
        passed = {name: value for name, value in headers.items() if not is_own(str(name))}
        if tool:
            until = min(now + VALID_SECONDS, claims["exp"] + LEEWAY_SECONDS)
            header = signed(_statement(caller, agent, tool, until), started(key, StoreUnavailableError))
            forged = [str(name) for name in headers if header_name(str(name)) == IDENTITY_HEADER]
            # If the gateway adds headers to those of its caller, each spelling has to be replaced.
            passed |= dict.fromkeys([IDENTITY_HEADER, *forged], header)
        return _answer("transformedGatewayRequest", {"headers": passed, "body": body})

    def refused(failure: ErrorResponse, error: Json) -> Json:
        report(failure.tool_metric)
        found = {"jsonrpc": "2.0", "id": _id_of(body), "error": {"code": _REFUSED, "message": error["message"]}}
        return _answer("transformedGatewayResponse", {"statusCode": failure.status, "body": found})

    return attempt(stated, refused, "gateway request")


def _request(event: Any) -> Mapping[str, Any]:
    mcp = event.get("mcp") if isinstance(event, Mapping) else None
    request = mcp.get("gatewayRequest") if isinstance(mcp, Mapping) else None
    return request if isinstance(request, Mapping) else {}


def _answer(kind: str, content: Json) -> Json:
    return {"interceptorOutputVersion": "1.0", "mcp": {kind: content}}


def _id_of(body: object) -> object:
    found = body.get("id") if isinstance(body, Mapping) else None
    return found if isinstance(found, str | int) else None


def _called_tool(body: object) -> str:
    """The full name of the called tool; "" for requests that call none. Raises `RequestError`: one statement is for one
    call, so that batches are refused."""
    if body in (None, ""):  # the end of a session, and the opening of a stream
        return ""
    if not isinstance(body, Mapping):
        raise RequestError("a request is one JSON object; batches are not supported")
    if body.get("method") != "tools/call":
        return ""
    params = body.get("params")
    name = params.get("name") if isinstance(params, Mapping) else None
    if not isinstance(name, str) or not name:
        raise RequestError("the call names no tool")
    return name


def _statement(caller: Caller, agent: str, tool: str, until: float) -> CallerStatement:
    identity = caller.identity
    scopes = tuple(sorted((caller.token_scopes or frozenset()) & SCOPES))
    principal = identity.principal[:_MAX_PRINCIPAL]
    return CallerStatement(identity.client_id, identity.project_id, principal, agent, scopes, tool, until)


def _claims(headers: Mapping[str, Any]) -> dict[str, Any]:
    """The claims of the bearer token. Raises `ForbiddenError`."""
    sent = [value for name, value in headers.items() if str(name).lower() == "authorization"]
    scheme, _, token = sent[0].partition(" ") if len(sent) == 1 and isinstance(sent[0], str) else ("", "", "")
    parts = token.strip().split(".")
    if scheme.lower() != "bearer" or len(parts) != 3:
        raise ForbiddenError("the request has no token, or several")
    try:
        claims = json.loads(_unpadded(parts[1]), object_pairs_hook=_once)
    except (ValueError, RecursionError) as exc:
        raise ForbiddenError("the token can't be read") from exc
    if not isinstance(claims, dict):
        raise ForbiddenError("the token has no claims")
    return claims


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a claim is given twice")
    return found
