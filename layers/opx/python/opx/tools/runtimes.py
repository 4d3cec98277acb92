"""How each agent runtime calls a tool and wants its answer: Bedrock action groups of both kinds, and AgentCore Gateway.

The scope of a call comes from what the application set, never from an argument:

- action groups: the session attributes `opxClientId` and `opxProjectId`;
- the gateway: the request headers `x-opx-client-id` and `x-opx-project-id`, propagated to the target. A caller could
  send them too, so that they may be on the target's list of allowed headers only behind a request interceptor which
  sets both from the verified token.

Where neither is present the installation's own identity counts. docs/decisions/0005-agent-entry-points.md says why
these are not Powertools' resolvers.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from opx.domain.scopes import Identity
from opx.errors import DocumentNotFoundError, InvalidScopeError, StoreUnavailableError
from opx.operations.metrics import Metric, Report
from opx.tools.declarations import ACTION_GROUP, ArgumentError, Tool, UnknownToolError, tool_named
from opx.tools.knowledge_tools import KnowledgeTools
from opx.tools.replies import Reply

log = logging.getLogger(__name__)

CLIENT_ATTRIBUTE, PROJECT_ATTRIBUTE = "opxClientId", "opxProjectId"
CLIENT_HEADER, PROJECT_HEADER = "x-opx-client-id", "x-opx-project-id"
GATEWAY_TOOL = "bedrockAgentCoreToolName"
GATEWAY_HEADERS = "bedrockAgentCorePropagatedHeaders"
GATEWAY_SEPARATOR = "___"

MAX_RESPONSE_BYTES = 25_000
"""Bedrock takes at most 25 KB from an action group's function, session attributes included."""

Arguments = list[tuple[str, object]]
Response = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Call:
    """`identity` is None if the application said nothing about it."""

    tool: Tool
    arguments: Arguments
    identity: Identity | None


@dataclass(frozen=True, slots=True)
class Failure:
    """How an error looks to an agent. With `state` REPROMPT it goes on, knowing the message; FAILURE ends its turn."""

    code: str
    status: int
    state: str
    metric: Metric
    message: str = ""


_FAILURES: dict[type[Exception], Failure] = {
    ArgumentError: Failure("invalid_argument", 400, "REPROMPT", Metric.INVALID_CALLS),
    UnknownToolError: Failure("unknown_tool", 404, "FAILURE", Metric.INVALID_CALLS),
    DocumentNotFoundError: Failure("not_found", 404, "REPROMPT", Metric.INVALID_CALLS),
    InvalidScopeError: Failure(
        "invalid_scope", 400, "FAILURE", Metric.INVALID_CALLS, "the session's client or project id is malformed"
    ),
    StoreUnavailableError: Failure(
        "unavailable", 500, "REPROMPT", Metric.TOOL_UNAVAILABLE, "the knowledge base is unavailable for now"
    ),
}
_UNEXPECTED = Failure("internal", 500, "FAILURE", Metric.TOOL_ERRORS, "the tool failed; the error was logged")


class Runtime(Protocol):
    """One call of one runtime."""

    def call(self) -> Call:
        """Raises `UnknownToolError`, `ArgumentError` or `InvalidScopeError`."""

    def answer(self, reply: Reply) -> Response: ...

    def fail(self, failure: Failure, message: str) -> Response: ...


def respond(event: Any, context: Any, tools: Callable[[Identity | None], KnowledgeTools], report: Report) -> Response:
    """Answer a call in the form of the runtime that made it. Never raises: an agent gets a message, not a traceback."""
    runtime = runtime_of(event, context)
    report(Metric.TOOL_CALLS)
    try:
        call = runtime.call()
        return runtime.answer(tools(call.identity).call(call.tool, call.arguments))
    except tuple(_FAILURES) as exc:
        failure = next(found for kind, found in _FAILURES.items() if isinstance(exc, kind))
        _log_failure(failure, exc)
        report(failure.metric)
        return runtime.fail(failure, failure.message or str(exc))
    except Exception:  # the outermost edge: whatever it is, the agent must get an answer in its form
        log.exception("tool call failed")
        report(_UNEXPECTED.metric)
        return runtime.fail(_UNEXPECTED, _UNEXPECTED.message)


def _log_failure(failure: Failure, exc: Exception) -> None:
    """Messages about a call's arguments quote them, so that they are for the agent alone."""
    if failure.metric is Metric.TOOL_UNAVAILABLE:
        log.error("a store is unavailable", exc_info=exc)
        return
    log.warning("call refused as %s: %s", failure.code, type(exc).__name__)
    log.debug("%s", exc)


def runtime_of(event: Any, context: Any) -> Runtime:
    """Which runtime calls. The context decides before the event does: a gateway's event is nothing but the arguments
    that a model chose, and must not be taken for an action group's, which has the scope in it."""
    fields = event if isinstance(event, Mapping) else {}
    client_context = getattr(context, "client_context", None)
    if client_context is not None:
        return Gateway(fields, getattr(client_context, "custom", None) or {})
    if "apiPath" in fields:
        return ApiSchemaGroup(fields)
    return FunctionGroup(fields)


class Gateway:
    """AgentCore Gateway: the event is the arguments, everything else is in the context; plain JSON goes back."""

    def __init__(self, event: Mapping[str, Any], custom: Mapping[str, Any]) -> None:
        self._event = event
        self._custom = custom

    def call(self) -> Call:
        name = str(self._custom.get(GATEWAY_TOOL, ""))
        tool = tool_named(name.rpartition(GATEWAY_SEPARATOR)[2])
        return Call(tool, list(self._event.items()), self._identity())

    def answer(self, reply: Reply) -> Response:
        return reply.to_json()

    def fail(self, failure: Failure, message: str) -> Response:
        return {"error": {"code": failure.code, "message": message}}

    def _identity(self) -> Identity | None:
        headers: dict[str, Any] = {}
        for name, value in dict(self._custom.get(GATEWAY_HEADERS) or {}).items():
            if headers.setdefault(name.lower(), value) != value:
                raise InvalidScopeError(f"header {name} came with two values")
        return _identity(headers, CLIENT_HEADER, PROJECT_HEADER)


class ActionGroup:
    """What both kinds of Bedrock action group have in common."""

    def __init__(self, event: Mapping[str, Any]) -> None:
        self._event = event

    def _check_group(self) -> None:
        group = self._event.get("actionGroup")
        if group != ACTION_GROUP:
            raise UnknownToolError(f"unknown action group {group!r}; this function serves {ACTION_GROUP}")

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
        self._check_group()
        tool = tool_named(self._event.get("function"))
        return Call(tool, _arguments(self._event.get("parameters")), self._identity())

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
        self._check_group()
        event = self._event
        path, method = str(event["apiPath"]), str(event.get("httpMethod", ""))
        if method.upper() != "POST":
            raise UnknownToolError(f"unknown operation {method} {path}; all operations are POST")
        tool = tool_named(path.removeprefix("/"))
        return Call(tool, _arguments(event.get("parameters")) + self._body(), self._identity())

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
