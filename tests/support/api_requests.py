"""Requests of the HTTP API as API Gateway sends them, and what is in the replies."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlencode

import jsonschema

from opx.edges.schemas import openapi
from opx.operations import load
from tests.support.fakes import FakeContext

Handler = Callable[[Any, Any], dict[str, Any]]

ROUTE = {one.name: one.route for one in load().routes.values() if one.route}
ROLE: dict[str, Any] = {
    "iam": {
        "accessKey": "AKIAEXAMPLE",
        "accountId": "123456789012",
        "callerId": "AIDAEXAMPLE",
        "cognitoIdentity": None,
        "principalOrgId": "o-example",
        "userArn": "arn:aws:iam::123456789012:role/reader",
        "userId": "AIDAEXAMPLE",
    }
}
"""API Gateway's statement about a caller with an IAM role."""


def a_token(client: str = "", project: str = "", scopes: str = "opx/write", **claims: Any) -> dict[str, Any]:
    """API Gateway's statement about a caller with a token."""
    named = {"opx_client_id": client, "opx_project_id": project}
    found = {"sub": "alice", "scope": scopes, **{name: value for name, value in named.items() if value}, **claims}
    return {"jwt": {"claims": found, "scopes": None}}


def a_request(
    name: str,
    *,
    body: object = None,
    query: Mapping[str, Any] | str = "",
    caller: Mapping[str, Any] | None = ROLE,
    headers: Mapping[str, str] | None = None,
    encoded: bool = False,
    **path: str,
) -> dict[str, Any]:
    """A request of the route with this name. `body` is written as JSON unless it is a string."""
    route = ROUTE[name]
    text = body if isinstance(body, str) else json.dumps(body)
    raw = query if isinstance(query, str) else urlencode(query, doseq=True)
    common = {"content-type": "application/json", "host": "api.example.com"}
    request_context: dict[str, Any] = {
        "accountId": "123456789012",
        "apiId": "abcdefghij",
        "http": {"method": route.method, "path": route.path, "protocol": "HTTP/1.1", "sourceIp": "192.0.2.1"},
        "requestId": "JKJaXmPLvHcESHA=",
        "routeKey": route.key,
        "stage": "$default",
    }
    if caller is not None:
        request_context["authorizer"] = dict(caller)
    event: dict[str, Any] = {
        "version": "2.0",
        "routeKey": route.key,
        "rawPath": route.path,
        "rawQueryString": raw,
        "headers": {**common, **(headers or {})},
        "requestContext": request_context,
        "isBase64Encoded": encoded,
    }
    if path:
        event["pathParameters"] = path
    if body is not None:
        event["body"] = base64.b64encode(text.encode()).decode() if encoded else text
    return event


def call(handler: Handler, name: str, **request: Any) -> tuple[int, Any]:
    """Status and JSON of the reply."""
    return answered(handler(a_request(name, **request), FakeContext()))


def answered(reply: Mapping[str, Any]) -> tuple[int, Any]:
    assert reply["isBase64Encoded"] is False
    assert reply["headers"]["content-type"] == "application/json; charset=utf-8"
    return reply["statusCode"], json.loads(reply["body"])


def check_described(name: str, found: object) -> None:
    """Raise for a reply that isn't as the API's description says that this operation's is."""
    described = openapi()
    route = ROUTE[name]
    operation = described["paths"][route.path.replace("+}", "}")][route.method.lower()]
    schema = operation["responses"][str(route.status)]["content"]["application/json"]["schema"]
    jsonschema.validate(found, {**schema, "components": described["components"]})


def refusal(answer: tuple[int, Any]) -> tuple[int, str]:
    """Status and code of an error."""
    status, found = answer
    assert set(found) == {"error"}
    missing = {"what"} if status == 404 and found["error"]["code"] == "not_found" else set()
    assert set(found["error"]) == {"code", "message"} | missing
    return status, found["error"]["code"]
