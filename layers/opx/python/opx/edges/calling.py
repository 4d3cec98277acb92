"""Performs operations for every interface: checks access, reads requests and encodes replies."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Protocol, TypeVar, cast

import msgspec

from opx.domain.record import prepared, replace, to_json
from opx.domain.requests import Request, fields_of, read_request
from opx.domain.scopes import Identity, reader_of
from opx.errors import ForbiddenError, InvalidScopeError
from opx.operations.context import Context
from opx.operations.registry import REGISTRY, AgentReply, Operation, Run, is_agent_reply

Q = TypeVar("Q", bound=Request)
R = TypeVar("R")


class OperationClient(Protocol):
    """Calls operations of this process or of a deployed system."""

    def call(self, run: Run[Q, R], request: Q) -> R:
        """The reply of the operation with this function. Raises the errors of the operation."""


class LocalClient:
    """Calls operations of the system in this process, for one caller."""

    def __init__(self, context: Context) -> None:
        self.context = context

    def call(self, run: Run[Q, R], request: Q) -> R:
        operation = REGISTRY.of(run)
        checked = read_request(operation.request, msgspec.to_builtins(request))
        return perform(operation, self.context, checked)


def perform(operation: Operation[Q, R], context: Context, request: Q) -> R:
    """Performs an operation if the policy permits its actions on the target of the request. API Gateway has checked the
    scopes of a token before; without a token, permissions are on routes and tools.

    Raises `ForbiddenError`, `NotOrchestratorError` and errors of the operation.
    """
    own = replace(context)  # a context caches its caller's scopes, which may change from one call to the next
    for action in operation.actions:
        own.authorize(action, operation.target(own, request) if operation.target else None)
    return operation.run(own, request)


def check_identity(identity: Identity, whose: str) -> None:
    """Raises `ForbiddenError` for ids that no scope can have."""
    try:
        reader_of(identity)
    except InvalidScopeError as exc:
        raise ForbiddenError(f"the {whose}'s client or project id is malformed") from exc


def record_of(reply: Any) -> Any:
    """The record of a reply."""
    return reply.record() if is_agent_reply(reply) else reply


def text_of(reply: Any) -> str:
    """The text of a reply, for agents."""
    if is_agent_reply(reply):
        return cast("AgentReply[Any]", reply).text()
    return msgspec.json.format(encoded(reply), indent=2).decode()


def json_bytes(reply: Any) -> bytes:
    """A reply as JSON. Documents may have halves of surrogate pairs, which JSON can escape and UTF-8 can't."""
    return encoded(record_of(reply))


def encoded(record: Any) -> bytes:
    """A record, or plain objects, as JSON."""
    try:
        return msgspec.json.encode(record)
    except UnicodeEncodeError:
        return json.dumps(to_json(record)).encode("ascii")


def decoded(data: bytes, kind: Any) -> Any:
    """Decodes JSON of `encoded` to this type. Raises `msgspec.ValidationError` for another type, and `ValueError` or
    `RecursionError` for invalid JSON."""
    try:
        return msgspec.json.decode(data, type=prepared(kind))
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError:  # halves of surrogate pairs, or invalid JSON
        return msgspec.convert(json.loads(data), prepared(kind))


def plain(reply: Any) -> Any:
    """A reply as plain objects."""
    return to_json(record_of(reply))


def given_of(request: Request) -> Mapping[str, Any]:
    """The fields of a request that don't have their defaults, as JSON."""
    values = msgspec.to_builtins(request)
    facts = {one.json_name: one for one in fields_of(type(request))}
    return {
        name: value
        for name, value in values.items()
        if facts[name].required or value != msgspec.to_builtins(facts[name].default)
    }


def all_pages(client: OperationClient, run: Run[Q, R], request: Q) -> Iterator[R]:
    """Pages of a reply, one after the other; each has the cursor of the following one in `next`."""
    while True:
        page: Any = client.call(run, request)
        yield page
        if not page.next:
            return
        request = msgspec.structs.replace(request, after=page.next)
