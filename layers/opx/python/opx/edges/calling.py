"""Performs operations for every interface: checks access, reads requests and encodes replies."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any, Protocol, TypeVar, cast

import msgspec

from opx.domain.record import prepared, to_json
from opx.domain.requests import Request, fields_of, read_request
from opx.domain.scopes import Identity, reader_of
from opx.errors import ForbiddenError, InvalidScopeError
from opx.operations.context import Context
from opx.operations.registry import REGISTRY, Access, AgentReply, Operation, Run, is_agent_reply

Q = TypeVar("Q", bound=Request)
R = TypeVar("R")

WRITE_SCOPE, ADMIN_SCOPE = "opx/write", "opx/admin"
"""Token scopes for writing; a token needs one of them. The latter also allows writing global documents."""


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
    """Performs an operation if access allows it. Raises `ForbiddenError`, `NotOrchestratorError` and errors of its own."""
    own = replace(context)  # a context caches its caller's scopes, which may change from one call to the next
    check_access(_access(operation), own)
    return operation.run(own, request)


def _access(operation: Operation[Any, Any]) -> Access:
    """The access that a call needs: a tool that writes needs the scope of a token that a writing route needs."""
    writes = operation.tool is not None and operation.tool.writes
    return Access.WRITER if writes and operation.access is Access.READER else operation.access


def check_access(access: Access, context: Context) -> None:
    """Raises `ForbiddenError` or `NotOrchestratorError` for a caller without access. API Gateway has checked the scopes of a
    token before; without a token, permissions are on routes."""
    caller = context.caller
    if caller.owns_system:
        return
    if access is Access.ORCHESTRATOR:
        from opx.learning.rules import check_orchestrator

        identity = replace(caller.identity, principal=caller.agent or caller.identity.principal)
        check_orchestrator(context.system.learning.rules, identity)
    needed = token_scopes(access)
    if caller.token_scopes is None or not needed:
        return
    if caller.token_scopes.isdisjoint(needed):
        raise ForbiddenError(f"this needs a token with the scope {' or '.join(sorted(needed))}")
    if not caller.identity.client_id and ADMIN_SCOPE not in caller.token_scopes:
        raise ForbiddenError(f"a token that names no client may write only with the scope {ADMIN_SCOPE}")


def check_identity(identity: Identity, whose: str) -> None:
    """Raises `ForbiddenError` for ids that no scope can have."""
    try:
        reader_of(identity)
    except InvalidScopeError as exc:
        raise ForbiddenError(f"the {whose}'s client or project id is malformed") from exc


def token_scopes(access: Access) -> Collection[str]:
    """Scopes of which a token needs one; empty for operations open to every token."""
    return {Access.WRITER: (WRITE_SCOPE, ADMIN_SCOPE), Access.OPERATOR: (ADMIN_SCOPE,)}.get(access, ())


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
        import json

        return json.dumps(to_json(record)).encode("ascii")


def decoded(data: bytes, kind: Any) -> Any:
    """Decodes JSON of `encoded` to this type. Raises `msgspec.ValidationError` for another type, and `ValueError` or
    `RecursionError` for invalid JSON."""
    try:
        return msgspec.json.decode(data, type=prepared(kind))
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError:  # halves of surrogate pairs, or invalid JSON
        import json

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
