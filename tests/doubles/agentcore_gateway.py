"""A double of AgentCore Gateway: authorizer, request interceptor, targets, and MCP's JSON-RPC in front of them.

It is made of the properties of a gateway and of its targets as the service's API spells them, so that those of a template
fit. Functions get the events and contexts that the service makes. The documentation doesn't say whether an interceptor's
headers replace those of the caller or are added to them: `adds_headers` chooses.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qsl

from opx.domain.record import Json
from tests.doubles.http_double import HttpDouble, Request, Response, signature_problem
from tests.support.fakes import FakeContext

Function = Callable[[Any, Any], dict[str, Any]]

VERSION = "2025-11-25"
KEY = b"the issuer's key, which nobody else has"
_UNAUTHORIZED = (401, {"jsonrpc": "2.0", "id": None, "error": {"code": -32001, "message": "Invalid Bearer token"}})
_FORBIDDEN = (403, {"message": "Forbidden"})


def a_jwt(claims: Mapping[str, Any], key: bytes = KEY) -> str:
    """A signed token."""
    parts = ({"alg": "HS256", "typ": "JWT"}, claims)
    text = ".".join(_encoded(json.dumps(part).encode()) for part in parts)
    return f"{text}.{_encoded(hmac.digest(key, text.encode(), hashlib.sha256))}"


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


@dataclass
class AgentCoreGateway:
    """`gateway` has the fields of CreateGateway, each of `targets` those of CreateGatewayTarget. `functions` are the handlers
    by ARN. `signed_by` has the ARNs of callers whose signatures an IAM gateway accepts, as values of the header
    `Authorization`."""

    gateway: Mapping[str, Any]
    targets: Sequence[Mapping[str, Any]]
    functions: Mapping[str, Function]
    clock: Callable[[], float]
    issuer: str = ""
    adds_headers: bool = False
    signed_by: tuple[str, ...] = ("AWS4-HMAC-SHA256 of an allowed role",)
    calls: list[tuple[Any, Any]] = field(default_factory=list)
    """Arguments and context of each call of a target."""

    @property
    def identifier(self) -> str:
        return f"{self.gateway['name']}-a1b2c3d4e5".lower()

    def post(self, headers: Mapping[str, str], body: object) -> tuple[int, Any]:
        """The status and the body of the answer to a request."""
        refusal = self._refusal(headers)
        if refusal:
            return refusal
        for configured in self.gateway.get("interceptorConfigurations", ()):
            event = self._intercepted(configured, headers, body)
            answer = self.functions[configured["interceptor"]["lambda"]["arn"]](event, FakeContext())
            assert answer["interceptorOutputVersion"] == "1.0"
            if found := answer["mcp"].get("transformedGatewayResponse"):
                return found["statusCode"], found["body"]
            changed = answer["mcp"]["transformedGatewayRequest"]
            headers = {**(headers if self.adds_headers else {}), **changed["headers"]}
            body = changed["body"]
        return self._answered(headers, body)

    def call(self, headers: Mapping[str, str], tool: str, **arguments: object) -> Any:
        """The JSON that a tool answers; the error of the protocol if the gateway refuses the call."""
        body = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}
        _, found = self.post(headers, body)
        return json.loads(found["result"]["content"][0]["text"]) if "result" in found else found

    def _refusal(self, headers: Mapping[str, str]) -> tuple[int, Json] | None:
        sent = next((value for name, value in headers.items() if name.lower() == "authorization"), "")
        if self.gateway["authorizerType"] == "AWS_IAM":
            return None if sent in self.signed_by else _FORBIDDEN
        assert self.gateway["authorizerType"] == "CUSTOM_JWT"
        return None if self._accepts(sent.removeprefix("Bearer ")) else _UNAUTHORIZED

    def _accepts(self, token: str) -> bool:
        configured = self.gateway["authorizerConfiguration"]["customJWTAuthorizer"]
        text, _, signature = token.rpartition(".")
        if not hmac.compare_digest(_encoded(hmac.digest(KEY, text.encode(), hashlib.sha256)), signature):
            return False
        payload = text.partition(".")[2]
        claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        assert configured["discoveryUrl"] == f"{self.issuer.rstrip('/')}/.well-known/openid-configuration"
        audience = claims.get("aud", [])
        named = {"allowedAudience": audience if isinstance(audience, list) else [audience]}
        named["allowedClients"] = [claims.get("client_id")]
        fits = all(set(named[key]) & set(configured[key]) for key in named if key in configured)
        return bool(fits and claims.get("iss") == self.issuer and claims.get("exp", 0) > self.clock())

    @staticmethod
    def _intercepted(configured: Mapping[str, Any], headers: Mapping[str, str], body: object) -> Json:
        request: Json = {"path": "/mcp", "httpMethod": "POST", "body": body}
        if configured["inputConfiguration"]["passRequestHeaders"]:
            request["headers"] = dict(headers)
        mcp = {"rawGatewayRequest": {"body": json.dumps(body)}, "gatewayRequest": request}
        return {"interceptorInputVersion": "1.0", "mcp": mcp}

    def _answered(self, headers: Mapping[str, str], body: Any) -> tuple[int, Any]:
        if "id" not in body:
            return 202, None  # a notification
        served = {"initialize": self._initialized, "tools/list": self._listed, "ping": lambda *_: {}}
        serve = served.get(body["method"], self._called if body["method"] == "tools/call" else None)
        if serve is None:
            error = {"code": -32601, "message": "Method not found"}
            return 200, {"jsonrpc": "2.0", "id": body["id"], "error": error}
        return 200, {"jsonrpc": "2.0", "id": body["id"], "result": serve(headers, body.get("params") or {})}

    def _initialized(self, _: Mapping[str, str], params: Mapping[str, Any]) -> Json:
        known = self.gateway["protocolConfiguration"]["mcp"]
        version = params["protocolVersion"]
        return {
            "protocolVersion": version if version in known["supportedVersions"] else VERSION,
            "capabilities": {"tools": {"listChanged": False}},
            "serverInfo": {"name": self.gateway["name"], "version": "1.0.0"},
            "instructions": known["instructions"],
        }

    def _listed(self, _: Mapping[str, str], __: Mapping[str, Any]) -> Json:
        found = []
        for target in self.targets:
            tools = target["targetConfiguration"]["mcp"]["lambda"]["toolSchema"]["inlinePayload"]
            found += [{**tool, "name": f"{target['name']}___{tool['name']}"} for tool in tools]
        return {"tools": found}

    def _called(self, headers: Mapping[str, str], params: Mapping[str, Any]) -> Json:
        name, _, _ = params["name"].partition("___")
        target = next(one for one in self.targets if one["name"] == name)
        allowed = (target.get("metadataConfiguration") or {}).get("allowedRequestHeaders", [])
        passed = {sent: value for sent, value in headers.items() if sent.lower() in map(str.lower, allowed)}
        custom = {
            "bedrockAgentCoreMessageVersion": "1.0",
            "bedrockAgentCoreAwsRequestId": "1b2c3d4e",
            "bedrockAgentCoreGatewayId": self.identifier,
            "bedrockAgentCoreTargetId": "TARGET1234",
            "bedrockAgentCoreToolName": params["name"],
            **({"bedrockAgentCorePropagatedHeaders": passed} if passed else {}),
        }
        context = FakeContext(SimpleNamespace(custom=custom))
        self.calls.append((params.get("arguments") or {}, context))
        function = self.functions[target["targetConfiguration"]["mcp"]["lambda"]["lambdaArn"]]
        reply = function(*self.calls[-1])
        return {"content": [{"type": "text", "text": json.dumps(reply)}], "isError": False}


class PublicEndpoints(HttpDouble):
    """The gateway's `/mcp` over Streamable HTTP, and the issuer's `/oauth2/token` for client credentials: `clients` have a
    secret, scopes and claims."""

    def __init__(self, gateway: AgentCoreGateway, clients: Mapping[str, tuple[str, str, Mapping[str, Any]]]) -> None:
        super().__init__("bedrock-agentcore")
        self._gateway = gateway
        self._clients = clients

    def _answer(self, request: Request) -> Response:
        if (request.method, request.path) == ("POST", "/oauth2/token"):
            return self._token(dict(parse_qsl(request.body.decode())))
        if request.path != "/mcp":
            return Response(404, {"message": "Not Found"})
        if request.method != "POST":
            return Response(405, {"message": "Method Not Allowed"})
        headers = dict(request.headers)
        if self._gateway.gateway["authorizerType"] == "AWS_IAM" and not signature_problem(request, self._service):
            headers["authorization"] = self._gateway.signed_by[0]
        return Response(*self._gateway.post(headers, request.json()))

    def _token(self, form: Mapping[str, str]) -> Response:
        secret, scopes, claims = self._clients.get(form.get("client_id", ""), ("", "", {}))
        if form.get("grant_type") != "client_credentials" or not secret or form.get("client_secret") != secret:
            return Response(400, {"error": "invalid_client"})
        now, client = self._gateway.clock(), form["client_id"]
        common = {"iss": self._gateway.issuer, "sub": client, "client_id": client, "exp": now + 3600, "scope": scopes}
        return Response(200, {"access_token": a_jwt({**common, **claims}), "token_type": "Bearer", "expires_in": 3600})
