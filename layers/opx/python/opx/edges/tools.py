"""Serves operations as agents' tools, in the calling conventions of Bedrock action groups (both kinds) and AgentCore
Gateway.

The scope of a call comes from values that the application set, never from an argument:

- action groups: the session attributes `opxClientId` and `opxProjectId`;
- the gateway: the statement that its request interceptor signed (`opx.edges.gateway_callers`). A gateway whose callers have
  no tokens has none.

Without either, the installation's own identity counts. The calling agent, which determines the granted tools, is not an
argument either: action groups name it, and the gateway is known by its target's name, or by a claim of its caller's
token. An action group may have any name: tools' names are unique.
docs/decisions/0005-agent-entry-points.md has the reasons not to use Powertools' resolvers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct

from opx.domain.record import Json, replace
from opx.domain.requests import RequestError, fields_of, quoted, read_request
from opx.domain.scopes import Identity
from opx.edges.calling import check_identity, perform, plain, text_of
from opx.edges.failures import ErrorResponse, UnknownToolError, attempt, started
from opx.errors import ForbiddenError, StoreUnavailableError
from opx.operations import load, of_tool
from opx.operations.context import Caller, Context
from opx.operations.registry import Operation, ToolGroup, is_agent_reply
from opx.runtime.metrics import Metric, Report

if TYPE_CHECKING:
    from opx.operations.grants import ToolGrants
    from opx.operations.system import System

CLIENT_ATTRIBUTE, PROJECT_ATTRIBUTE = "opxClientId", "opxProjectId"
GATEWAY_ID, GATEWAY_TOOL = "bedrockAgentCoreGatewayId", "bedrockAgentCoreToolName"
GATEWAY_HEADERS = "bedrockAgentCorePropagatedHeaders"
GATEWAY_SEPARATOR = "___"

MAX_RESPONSE_BYTES = 25_000
"""Bedrock accepts at most 25 KB from an action group's function, session attributes included."""

Arguments = list[tuple[str, object]]

_CAMEL_CASE = re.compile(r"[a-z]+(?:[A-Z][a-z0-9]*)+\Z")
_HUMP = re.compile(r"(?=[A-Z])")


# -- calls, independent of the runtime


def call_tool(operation: Operation[Any, Any], context: Context, arguments: Iterable[tuple[str, object]]) -> Any:
    """The reply to a tool's arguments. Raises `RequestError`, and the operation's errors."""
    return perform(operation, context, read_arguments(operation, arguments))


def read_arguments(operation: Operation[Any, Any], arguments: Iterable[tuple[str, object]]) -> Any:
    """The request of a tool's arguments. Bedrock sends every value as a string, and some agents send empty ones for omitted
    arguments; `maxResults` is accepted as `max_results`. Raises `RequestError`."""
    given: dict[str, object] = {}
    for spelled, value in arguments:
        name = snake_case(spelled)
        if name in given:
            raise RequestError(f"{name} is given twice")
        # Models write halves of surrogate pairs now and then.
        given[name] = value.encode("utf-8", "ignore").decode("utf-8").strip() if isinstance(value, str) else value
    optional = {one.name for one in fields_of(operation.request) if not one.required}
    given = {name: value for name, value in given.items() if not (value == "" and name in optional)}
    return read_request(operation.request, given, texts=True, attributes=True)


def tool_named(tools: Mapping[str, Operation[Any, Any]], name: object) -> Operation[Any, Any]:
    """The tool with a name; `searchDocs` is accepted as `search_docs`. Raises an `UnknownToolError` that lists the tools, the
    same one for a tool that isn't granted and for one that doesn't exist."""
    found = tools.get(snake_case(name)) if isinstance(name, str) else None
    if found is None:
        raise UnknownToolError(f"unknown tool {quoted(name)}; there are: {', '.join(tools) or 'none'}")
    return found


def granted(group: ToolGroup | None, allowed: Collection[str]) -> dict[str, Operation[Any, Any]]:
    """Tools of a group, or of all groups, with allowed names."""
    return {name: one for name, one in load().tools(group).items() if name in allowed}


def granted_tool(group: ToolGroup, grants: ToolGrants, call: ToolCall) -> Operation[Any, Any]:
    """The called tool, if it is granted. Raises `UnknownToolError` as `tool_named`."""
    found = of_tool(snake_case(call.tool), group) if isinstance(call.tool, str) else None
    if found is not None and found.name in grants.allowed(call.agent):
        return found
    return tool_named(granted(group, grants.allowed(call.agent)), call.tool)


def snake_case(name: str) -> str:
    """`maxResults` as `max_results`; other forms of names unchanged."""
    return _HUMP.sub("_", name).lower() if _CAMEL_CASE.match(name) else name


# -- Lambda functions


class ToolCall(Struct, frozen=True):
    """A call of a tool. `tool` is the name as sent. `identity` is None if the application set none, and `agent` is empty if
    it is unknown. `through` is how it came if a gateway sent it."""

    tool: object
    arguments: Arguments
    identity: Identity | None
    agent: str
    through: GatewayCall | None = None


class GatewayCall(Struct, frozen=True):
    """A call's way through a gateway: the gateway's id, the full name of the called tool, and the signed statement about the
    caller, "" for none."""

    gateway: str
    tool: str
    statement: str


class Runtime(Protocol):
    """One call in the convention of a runtime."""

    def call(self) -> ToolCall:
        """The call of the event. Raises `UnknownToolError`, `RequestError` or `ForbiddenError`."""

    def answer(self, reply: Any) -> Json: ...

    def fail(self, failure: ErrorResponse, error: Json) -> Json: ...


def respond(event: Any, context: Any, group: ToolGroup, start: Callable[[], System], report: Report) -> Json:
    """Answers a call of one of the group's tools in the form of the runtime that made it. Never raises: an agent gets a
    message, not a traceback."""
    runtime = runtime_of(event, context)
    report(Metric.TOOL_CALLS)

    from opx.operations.grants import read_grants

    def answered() -> Json:
        call = runtime.call()
        system = started(start, StoreUnavailableError)  # an agent continues without it
        caller = _stated_caller(call.through, system) if call.through else None
        if caller is None:
            configured = Identity(system.settings.client_id, system.settings.project_id)
            identity = replace(call.identity or configured, principal=caller_of_tool(event, context, call.agent))
            caller = Caller(identity, agent=call.agent)
        check_identity(caller.identity, "session")
        known = replace(call, agent=caller.agent or call.agent)
        operation = granted_tool(group, system.installation.declared(read_grants), known)
        return runtime.answer(call_tool(operation, Context(system, caller, report), call.arguments))

    def failed(failure: ErrorResponse, error: Json) -> Json:
        report(failure.tool_metric)
        return runtime.fail(failure, error)

    return attempt(answered, failed, "tool call")


def _stated_caller(through: GatewayCall, system: System) -> Caller | None:
    """The caller that the gateway's interceptor stated; None for a gateway whose callers have no tokens.

    Raises `ForbiddenError` for a call without a valid statement that needs one, and for a statement that nothing here can
    verify.
    """
    settings = system.settings
    if not settings.gateway_secret:
        if through.statement:
            raise ForbiddenError("the caller's identity can't be verified: OPX_GATEWAY_SECRET is not set")
        return None
    unsigned = settings.unsigned_gateway
    if not through.statement and unsigned and re.fullmatch(re.escape(unsigned) + "-[0-9a-z]{10}", through.gateway):
        return None
    from opx.edges.gateway_callers import verified

    key = started(lambda: system.ports.deployment_secrets.get(settings.gateway_secret), StoreUnavailableError)
    return verified(through.statement, key, tool=through.tool, now=system.installation.clock()).caller


def runtime_of(event: Any, context: Any) -> Runtime:
    """The calling runtime. The context takes precedence over the event: a gateway's event is nothing but arguments that a
    model chose, and must not be treated as an action group's, which has the scope in it."""
    fields = event if isinstance(event, Mapping) else {}
    client_context = getattr(context, "client_context", None)
    if client_context is not None:
        return Gateway(fields, getattr(client_context, "custom", None) or {})
    return ApiSchemaGroup(fields) if "apiPath" in fields else FunctionGroup(fields)


def caller_of_tool(event: Any, context: Any, agent: str) -> str:
    """The principal for records: the agent, with the session of an action group. A gateway's event is not read: a model chose
    it."""
    of_gateway = getattr(context, "client_context", None) is not None
    session = "" if of_gateway or not isinstance(event, Mapping) else event.get("sessionId")
    return " ".join(filter(None, (agent, f"session {session}" if session else "")))


class Gateway:
    """AgentCore Gateway: the event is the arguments, everything else is in the context; the answer is plain JSON."""

    def __init__(self, event: Mapping[str, Any], custom: Mapping[str, Any]) -> None:
        self._event = event
        self._custom = custom

    def call(self) -> ToolCall:
        name, gateway = str(self._custom.get(GATEWAY_TOOL, "")), str(self._custom.get(GATEWAY_ID, ""))
        target, _, tool = name.rpartition(GATEWAY_SEPARATOR)
        through = GatewayCall(gateway, name, self._statement())
        return ToolCall(tool, list(self._event.items()), None, target, through)

    def answer(self, reply: Any) -> Json:
        found: Json = plain(reply)
        return found

    def fail(self, failure: ErrorResponse, error: Json) -> Json:  # noqa: ARG002 - the same for all
        return {"error": error}

    def _statement(self) -> str:
        """The header that the interceptor set. Raises `ForbiddenError` for several that differ, and for any other header that
        looks like an identity: only a caller can have sent it."""
        headers = dict(self._custom.get(GATEWAY_HEADERS) or {})
        if not headers:
            return ""
        from opx.edges.gateway_callers import IDENTITY_HEADER, header_name, is_own

        found = [value for name, value in headers.items() if header_name(str(name)) == IDENTITY_HEADER]
        foreign = [name for name in headers if is_own(str(name)) and header_name(str(name)) != IDENTITY_HEADER]
        if foreign or not all(isinstance(value, str) and value == found[0] for value in found):
            raise ForbiddenError("the call has headers that look like an identity and were not set by the gateway")
        return found[0] if found else ""


class ActionGroup:
    """Base of both kinds of Bedrock action groups."""

    def __init__(self, event: Mapping[str, Any]) -> None:
        self._event = event

    def _call(self, tool: object, arguments: Arguments) -> ToolCall:
        identity = _identity(self._event.get("sessionAttributes") or {}, CLIENT_ATTRIBUTE, PROJECT_ATTRIBUTE)
        agent = self._event.get("agent")
        return ToolCall(tool, arguments, identity, str(agent.get("name") or "") if isinstance(agent, Mapping) else "")

    def _response(self, names: tuple[str, ...], content: Mapping[str, Any]) -> Json:
        """The response envelope. `names`: fields of the event that the answer repeats."""
        event = self._event
        return {
            "messageVersion": "1.0",
            "response": {**{name: event.get(name, "") for name in ("actionGroup", *names)}, **content},
            "sessionAttributes": event.get("sessionAttributes") or {},
            "promptSessionAttributes": event.get("promptSessionAttributes") or {},
        }


class FunctionGroup(ActionGroup):
    """A Bedrock action group that is defined with function details."""

    def call(self) -> ToolCall:
        return self._call(self._event.get("function"), _arguments(self._event.get("parameters")))

    def answer(self, reply: Any) -> Json:
        return _fitting(reply, lambda fit: self._function_response(text_of(fit)))

    def fail(self, failure: ErrorResponse, error: Json) -> Json:
        state = "REPROMPT" if failure.reprompts else "FAILURE"
        return self._function_response(str(error["message"]), {"responseState": state})

    def _function_response(self, text: str, state: Mapping[str, str] | None = None) -> Json:
        content = {**(state or {}), "responseBody": {"TEXT": {"body": text}}}
        return self._response(("function",), {"functionResponse": content})


class ApiSchemaGroup(ActionGroup):
    """A Bedrock action group that is defined with an OpenAPI schema."""

    def call(self) -> ToolCall:
        event = self._event
        path, method = str(event["apiPath"]), str(event.get("httpMethod", ""))
        if method.upper() != "POST":
            raise UnknownToolError(f"unknown operation {method} {path}; all operations are POST")
        content = (event.get("requestBody") or {}).get("content") or {}
        body = _arguments((content.get("application/json") or {}).get("properties"))
        return self._call(path.removeprefix("/"), _arguments(event.get("parameters")) + body)

    def answer(self, reply: Any) -> Json:
        return _fitting(reply, lambda fit: self._api_response(200, plain(fit)))

    def fail(self, failure: ErrorResponse, error: Json) -> Json:
        return self._api_response(failure.status, {"error": error})

    def _api_response(self, status: int, body: Mapping[str, Any]) -> Json:
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
        raise ForbiddenError("a client or project id is not a string")
    return Identity(*ids)


def _arguments(listed: object) -> Arguments:
    """Arguments of Bedrock's list of names, types and values; every value is a string. Raises `RequestError`."""
    if not isinstance(listed, list | tuple | None):
        raise RequestError("the parameters are not a list")
    given: Arguments = []
    for entry in listed or ():
        if not isinstance(entry, Mapping) or not isinstance(entry.get("name"), str):
            raise RequestError("a parameter has no name")
        given.append((entry["name"], entry.get("value")))
    return given


def _fitting(reply: Any, respond_with: Callable[[Any], Json]) -> Json:
    """The response with as much of the reply as the runtime accepts."""
    response = respond_with(reply)
    while len(json.dumps(response, ensure_ascii=False).encode("utf-8", "replace")) > MAX_RESPONSE_BYTES:
        shorter = reply.shortened() if is_agent_reply(reply) else None
        if shorter is None:
            break
        reply, response = shorter, respond_with(shorter)
    return response
