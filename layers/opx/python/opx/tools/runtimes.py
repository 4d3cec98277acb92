"""How each agent runtime calls a tool and wants its answer: Bedrock action groups of both kinds, and AgentCore Gateway.

The scope of a call comes from what the application set, never from an argument:

- action groups: the session attributes `opxClientId` and `opxProjectId`;
- the gateway: the request headers `x-opx-client-id` and `x-opx-project-id`, propagated to the target. A caller could
  send them too, so that they may be on the target's list of allowed headers only behind a request interceptor which
  sets both from the verified token.

Where neither is present the installation's own identity counts. Which agent calls, and so which tools it may use, is
not an argument either: action groups name it, and the gateway is known by its target's name, or by the header
`x-opx-agent` on the same terms as the others. docs/decisions/0005-agent-entry-points.md says why
these are not Powertools' resolvers.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from opx.domain.scopes import Identity
from opx.errors import InvalidScopeError
from opx.runtime.metrics import Metric, Report
from opx.tools.declarations import ArgumentError, Tool, ToolGroup, UnknownToolError
from opx.tools.failures import Failure, attempt
from opx.tools.grants import ToolGrants
from opx.tools.replies import Reply

CLIENT_ATTRIBUTE, PROJECT_ATTRIBUTE = "opxClientId", "opxProjectId"
CLIENT_HEADER, PROJECT_HEADER, AGENT_HEADER = "x-opx-client-id", "x-opx-project-id", "x-opx-agent"
GATEWAY_TOOL = "bedrockAgentCoreToolName"
GATEWAY_HEADERS = "bedrockAgentCorePropagatedHeaders"
GATEWAY_SEPARATOR = "___"

MAX_RESPONSE_BYTES = 25_000
"""Bedrock takes at most 25 KB from an action group's function, session attributes included."""

Arguments = list[tuple[str, object]]
Response = dict[str, Any]


class Toolbox(Protocol):
    """The tools of one identity."""

    def call(self, tool: Tool, given: Arguments) -> Reply:
        """Raises `ArgumentError` for arguments that are not as declared."""


@dataclass(frozen=True, slots=True)
class Serving:
    """What a function serves: one group, the tools for whoever asks (None: nobody in particular) through an agent, and
    who may use which of them. Both are asked for at a call, so that the function starts with the first."""

    group: ToolGroup
    tools: Callable[[Identity | None, str], Toolbox]
    grants: Callable[[], ToolGrants]


@dataclass(frozen=True, slots=True)
class Call:
    """`tool` is as it was sent. `identity` is None if the application said nothing about it; an empty `agent` is one
    that nothing was said about."""

    tool: object
    arguments: Arguments
    identity: Identity | None
    agent: str


class Runtime(Protocol):
    """One call of one runtime."""

    def call(self) -> Call:
        """Raises `UnknownToolError`, `ArgumentError` or `InvalidScopeError`."""

    def answer(self, reply: Reply) -> Response: ...

    def fail(self, failure: Failure, message: str) -> Response: ...


def respond(event: Any, context: Any, serving: Serving, report: Report) -> Response:
    """Answer a call in the form of the runtime that made it. Never raises: an agent gets a message, not a traceback."""
    runtime = runtime_of(event, context, serving.group)
    report(Metric.TOOL_CALLS)

    def answered() -> Response:
        call = runtime.call()
        tool = serving.group.tool_named(call.tool, serving.grants().allowed(call.agent))
        return runtime.answer(serving.tools(call.identity, call.agent).call(tool, call.arguments))

    def failed(failure: Failure, message: str) -> Response:
        report(failure.metric)
        return runtime.fail(failure, message)

    return attempt(answered, failed)


def runtime_of(event: Any, context: Any, group: ToolGroup) -> Runtime:
    """Which runtime calls. The context decides before the event does: a gateway's event is nothing but the arguments
    that a model chose, and must not be taken for an action group's, which has the scope in it."""
    fields = event if isinstance(event, Mapping) else {}
    client_context = getattr(context, "client_context", None)
    if client_context is not None:
        return Gateway(fields, getattr(client_context, "custom", None) or {})
    if "apiPath" in fields:
        return ApiSchemaGroup(fields, group)
    return FunctionGroup(fields, group)


def caller_of_tool(event: Any, context: Any, agent: str) -> str:
    """Who calls, for records: the agent, with its session if an action group calls. What a gateway sends was chosen by a
    model."""
    of_gateway = getattr(context, "client_context", None) is not None
    session = "" if of_gateway or not isinstance(event, Mapping) else event.get("sessionId")
    return " ".join(filter(None, (agent, f"session {session}" if session else "")))


class Gateway:
    """AgentCore Gateway: the event is the arguments, everything else is in the context; plain JSON goes back."""

    def __init__(self, event: Mapping[str, Any], custom: Mapping[str, Any]) -> None:
        self._event = event
        self._custom = custom

    def call(self) -> Call:
        target, _, tool = str(self._custom.get(GATEWAY_TOOL, "")).rpartition(GATEWAY_SEPARATOR)
        headers = self._headers()
        agent = headers.get(AGENT_HEADER, target)
        if not isinstance(agent, str):
            raise InvalidScopeError(f"header {AGENT_HEADER} is not a text")
        return Call(tool, list(self._event.items()), _identity(headers, CLIENT_HEADER, PROJECT_HEADER), agent)

    def answer(self, reply: Reply) -> Response:
        return reply.to_json()

    def fail(self, failure: Failure, message: str) -> Response:
        return {"error": {"code": failure.code, "message": message}}

    def _headers(self) -> dict[str, Any]:
        headers: dict[str, Any] = {}
        for name, value in dict(self._custom.get(GATEWAY_HEADERS) or {}).items():
            if headers.setdefault(name.lower(), value) != value:
                raise InvalidScopeError(f"header {name} came with two values")
        return headers


class ActionGroup:
    """What both kinds of Bedrock action group have in common."""

    def __init__(self, event: Mapping[str, Any], group: ToolGroup) -> None:
        self._event = event
        self._group = group

    def _call(self, tool: object, arguments: Arguments) -> Call:
        called = self._event.get("actionGroup")
        if called != self._group.name:
            raise UnknownToolError(f"unknown action group {called!r}; this function serves {self._group.name}")
        return Call(tool, arguments, self._identity(), self._agent())

    def _agent(self) -> str:
        agent = self._event.get("agent")
        return str(agent.get("name") or "") if isinstance(agent, Mapping) else ""

    def _identity(self) -> Identity | None:
        return _identity(self._event.get("sessionAttributes") or {}, CLIENT_ATTRIBUTE, PROJECT_ATTRIBUTE)

    def _response(self, names: tuple[str, ...], content: Mapping[str, Any]) -> Response:
        """`names`: the fields of the event that the answer repeats."""
        event = self._event
        return {
            "messageVersion": "1.0",
            "response": {**{name: event.get(name, "") for name in ("actionGroup", *names)}, **content},
            "sessionAttributes": event.get("sessionAttributes") or {},
            "promptSessionAttributes": event.get("promptSessionAttributes") or {},
        }


class FunctionGroup(ActionGroup):
    """A Bedrock action group that is defined with function details."""

    def call(self) -> Call:
        return self._call(self._event.get("function"), _arguments(self._event.get("parameters")))

    def answer(self, reply: Reply) -> Response:
        return _fitting(reply, lambda fit: self._function_response(fit.text()))

    def fail(self, failure: Failure, message: str) -> Response:
        return self._function_response(message, {"responseState": failure.state})

    def _function_response(self, text: str, state: Mapping[str, str] | None = None) -> Response:
        content = {**(state or {}), "responseBody": {"TEXT": {"body": text}}}
        return self._response(("function",), {"functionResponse": content})


class ApiSchemaGroup(ActionGroup):
    """A Bedrock action group that is defined with an OpenAPI schema."""

    def call(self) -> Call:
        event = self._event
        path, method = str(event["apiPath"]), str(event.get("httpMethod", ""))
        if method.upper() != "POST":
            raise UnknownToolError(f"unknown operation {method} {path}; all operations are POST")
        return self._call(path.removeprefix("/"), _arguments(event.get("parameters")) + self._body())

    def _body(self) -> Arguments:
        content = (self._event.get("requestBody") or {}).get("content") or {}
        return _arguments((content.get("application/json") or {}).get("properties"))

    def answer(self, reply: Reply) -> Response:
        return _fitting(reply, lambda fit: self._api_response(200, fit.to_json()))

    def fail(self, failure: Failure, message: str) -> Response:
        return self._api_response(failure.status, {"error": {"code": failure.code, "message": message}})

    def _api_response(self, status: int, body: Mapping[str, Any]) -> Response:
        content = {
            "httpStatusCode": status,
            "responseBody": {"application/json": {"body": json.dumps(body, ensure_ascii=False)}},
        }
        return self._response(("apiPath", "httpMethod"), content)


def _identity(values: Mapping[str, Any], client: str, project: str) -> Identity | None:
    if client not in values and project not in values:
        return None
    ids = values.get(client, ""), values.get(project, "")
    if not all(isinstance(value, str) for value in ids):
        raise InvalidScopeError("a client or project id is not a text")
    return Identity(*ids)


def _arguments(listed: object) -> Arguments:
    """Bedrock's list of names, types and values; every value is a text."""
    if not isinstance(listed, list | tuple | None):
        raise ArgumentError("the parameters are not a list")
    given: Arguments = []
    for entry in listed or ():
        if not isinstance(entry, Mapping) or not isinstance(entry.get("name"), str):
            raise ArgumentError("a parameter has no name")
        given.append((entry["name"], entry.get("value")))
    return given


def _fitting(reply: Reply, respond_with: Callable[[Reply], Response]) -> Response:
    """The response with as much of the reply as the runtime takes."""
    response = respond_with(reply)
    while len(json.dumps(response, ensure_ascii=False).encode("utf-8", "replace")) > MAX_RESPONSE_BYTES:
        shorter = reply.shortened()
        if shorter is None:
            break
        reply, response = shorter, respond_with(shorter)
    return response
