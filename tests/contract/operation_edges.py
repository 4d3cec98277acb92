"""A small system that many callers reach, and every edge that serves an operation: what each says, in one form."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlencode

import anyio
from click.testing import CliRunner
from mcp.client.client import Client as McpClient

from opx.adapters.connections import Connections
from opx.domain.policy import TABLE, Reach, Role
from opx.domain.record import Json
from opx.domain.requests import fields_of, read_request
from opx.domain.scopes import Identity, Scope
from opx.edges import http, tools
from opx.edges.calling import LocalClient, json_bytes, plain, text_of
from opx.edges.claims import caller_of_claims
from opx.edges.cli.main import Launch, cli
from opx.edges.client import RemoteClient, bearer
from opx.edges.failures import attempt
from opx.errors import (
    AccessDeniedError,
    ConditionFailedError,
    HeldError,
    InvalidInputError,
    NotFoundError,
    OpxError,
    StoreUnavailableError,
    UnknownCategoryError,
)
from opx.learning.rules import LearningRules, read_learning_rules
from opx.operations import load
from opx.operations.context import Caller, Context
from opx.operations.grants import ToolGrants, read_grants
from opx.operations.registry import Operation
from opx.operations.system import System
from opx.runtime.metrics import unreported
from opx.settings import Settings
from opx.system import bootstrap, connect
from opx_serve import mcp
from opx_serve.application import application
from opx_serve.composition import serve
from opx_serve.routes import LocalBase
from opx_serve.tokens import Callers
from opx_telemetry.rules import read_telemetry
from tests.doubles.api_gateway import DeployedSystem, UploadAddresses
from tests.support.agent_calls import a_function_event, an_api_event, body_of, state_of
from tests.support.agent_calls import text_of as reply_text
from tests.support.api_requests import a_request
from tests.support.fakes import FakeContext, WordsEmbedder
from tests.support.telemetry_support import RULES, fake_stores

AGENT = "orchestrator"
CALLER = Identity("acme", "shop", AGENT)
ORCHESTRATOR = Caller(CALLER, agent=AGENT)
SESSION = {"opxClientId": CALLER.client_id, "opxProjectId": CALLER.project_id}
BUILT = 1_750_000_000.0
NOW = BUILT + 10 * 86_400
"""When documents were ingested, and when operations are called. No time passes in between calls."""

KNOWLEDGE_FILE = Path(__file__).parents[2] / "corpus" / "knowledge.yaml"
WEBHOOK = "alerts: {category: operations/alerts, format: alertmanager, secret: webhook-alerts}"

REFUSED_BY_COMMAND = "refused"
"""The code of a refusal by the command line itself: its exit status says no more than that."""


@dataclass(frozen=True)
class EdgeReply:
    """The reply of an edge: JSON or text, or the code and the message of a refusal."""

    data: Any = None
    text: str | None = None
    code: str = ""
    message: str = ""


@dataclass(frozen=True)
class World:
    """A system in a folder, and the ids of what it holds."""

    services: System
    ids: Mapping[str, str]
    caller: Caller = ORCHESTRATOR

    @property
    def home(self) -> Path:
        return Path(self.services.settings.home)

    @property
    def context(self) -> Context:
        return Context(self.services, self.caller)

    def for_operation(self, operation: Operation[Any, Any]) -> World:
        """With a caller whose role the operation is for: the usual one, who is the project's administrator, one of the client
        or of all clients, or the owner of the machine."""
        if self.caller.token_scopes is not None:
            return self
        row = [TABLE[action] for action in operation.actions]
        usual = all(
            one[Role.PROJECT_ADMIN] is not Reach.NONE or one[Role.ORCHESTRATOR] is not Reach.NONE for one in row
        )
        if usual:
            return self
        if operation.route is None:
            return replace(self, caller=replace(self.caller, owns_system=True))
        of_client = all(one[Role.CLIENT_ADMIN] is not Reach.NONE for one in row)
        client = self.caller.identity.client_id if of_client else ""
        return replace(self, caller=replace(self.caller, identity=Identity(client, "", AGENT)))

    @property
    def claims(self) -> Json:
        """Those of the caller's token; without any scopes, it has all of them."""
        scopes = self.caller.token_scopes
        return {
            "opx_client_id": self.caller.identity.client_id,
            "opx_project_id": self.caller.identity.project_id,
            "sub": self.caller.identity.principal,
            "scope": "opx/write opx/admin" if scopes is None else " ".join(scopes),
        }


@contextmanager
def opened(home: Path, ids: Mapping[str, str] = {}, *, now: float = NOW) -> Iterator[World]:
    """The system of a folder, whose time stands still. All tools are for all agents."""
    home.mkdir(parents=True, exist_ok=True)
    knowledge = home / "knowledge.yaml"
    knowledge.write_text(KNOWLEDGE_FILE.read_text().replace("webhooks: {}", f"webhooks:\n  {WEBHOOK}"))
    settings = Settings(
        home=str(home), client_id=CALLER.client_id, project_id=CALLER.project_id, knowledge_file=str(knowledge)
    )
    services = bootstrap(settings, clock=lambda: now, embedder=WordsEmbedder(), telemetry_stores=fake_stores())
    services.installation.declare(read_learning_rules, LearningRules(orchestrators=frozenset({AGENT})))
    services.installation.declare(read_grants, ToolGrants(default=frozenset(load().tools())))
    services.installation.declare(read_telemetry, RULES)
    services.corpus.upload_signer = UploadAddresses(services)
    services.__dict__["close"] = lambda: None  # a command closes what it was given
    try:
        yield World(services, ids)
    finally:
        del services.__dict__["close"]
        services.close()


@contextmanager
def copied(template: Path, home: Path, ids: Mapping[str, str]) -> Iterator[World]:
    """A system that holds the same, to write to."""
    shutil.copytree(template, home, copy_function=_copied_or_linked)
    with opened(home, ids) as world:
        yield world
    shutil.rmtree(home)


def _copied_or_linked(source: str, target: str) -> None:
    """Objects are replaced and never written in place, so that copies may share them."""
    if f"{os.sep}corpus{os.sep}" in source:
        os.link(source, target)
    else:
        shutil.copy(source, target)


# -- what the system holds


def put(services: System, scope: Scope, name: str, text: str, metadata: Json | None = None) -> str:
    """The key of the object."""
    key = f"{scope.prefix}documents/{name}"
    services.store.put(key, text.encode())
    if metadata:
        services.store.put(f"{key}.metadata.json", json.dumps({"metadataAttributes": metadata}).encode())
    return key


def id_of(services: System, key: str) -> str:
    from tests.support.agent_calls import id_of as found

    return found(services, key)


# -- edges


Edge = Callable[[World, Operation[Any, Any], Json], EdgeReply]


def _refused(_: object, error: Json) -> EdgeReply:
    return EdgeReply(code=error["code"], message=error["message"])


def local(world: World, operation: Operation[Any, Any], fields: Json) -> EdgeReply:
    """In this process."""

    def work() -> EdgeReply:
        reply = LocalClient(world.for_operation(operation).context).call(
            operation.run, read_request(operation.request, fields)
        )
        return EdgeReply(json.loads(json_bytes(reply)), text_of(reply))

    return attempt(work, _refused, operation.name)


def over_http(world: World, operation: Operation[Any, Any], fields: Json) -> EdgeReply:
    """An event of API Gateway."""
    route = operation.route
    assert route is not None
    rest = dict(fields)
    path: dict[str, Any] = {name: quote(str(rest.pop(name)), safe="") for name in route.path_names if name in rest}
    body = rest if route.takes_body else None
    event = a_request(
        operation.name,
        body=body,
        query={} if route.takes_body else {name: _in_address(value) for name, value in rest.items()},
        caller={"jwt": {"claims": world.for_operation(operation).claims, "scopes": None}},
        **path,
    )
    reply = http.respond(event, route.function, lambda: world.services, unreported)
    found = json.loads(reply["body"])
    if reply["statusCode"] == route.status:
        return EdgeReply(found)
    return EdgeReply(code=found["error"]["code"], message=found["error"]["message"])


def served(world: World, operation: Operation[Any, Any], fields: Json) -> EdgeReply:
    """A request to `opx serve`, with a token of the caller's client, project and scopes."""
    route, caller = operation.route, caller_of_claims(world.for_operation(operation).claims)
    assert route is not None
    rest = {"kbId": "default", **fields}
    path = re.sub(r"{(\w+)(\+?)}", lambda part: quote(str(rest.pop(part[1])), safe="/" if part[2] else ""), route.path)
    rest.pop("kbId", None)
    query = (
        "" if route.takes_body else urlencode({name: _in_address(value) for name, value in rest.items()}, doseq=True)
    )
    body = json.dumps(rest).encode() if route.takes_body else b""
    callers = Callers({"token": caller}, Caller(CALLER))
    app = application(serve(world.services, callers, {"default": LocalBase(world.services)}, lambda: None))
    status, found = anyio.run(asgi_reply, app, route.method, path, query, body)
    if status == route.status:
        return EdgeReply(found)
    return EdgeReply(code=found["error"]["code"], message=found["error"]["message"])


async def asgi_reply(app: Any, method: str, path: str, query: str, body: bytes) -> tuple[int, Any]:
    """Status and JSON of an application's reply."""
    headers = {b"authorization": b"Bearer token", b"content-type": b"application/json", b"host": b"127.0.0.1"}
    scope = {
        "type": "http",
        "method": method,
        "path": unquote(path),
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "headers": list(headers.items()),
    }
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    await app(scope, receive, send)
    return sent[0]["status"], json.loads(b"".join(one["body"] for one in sent[1:]))


def _in_address(value: Any) -> Any:
    if isinstance(value, bool):
        return str(value).lower()
    return value


def remote(world: World, operation: Operation[Any, Any], fields: Json) -> EdgeReply:
    """A client of the deployed system, over a socket."""
    with DeployedSystem(world.services, tokens={"token": world.for_operation(operation).claims}) as system:
        client = RemoteClient(system.endpoint, bearer("token"), Connections(), pause=lambda _: None)
        try:
            return EdgeReply(plain(client.call(operation.run, read_request(operation.request, fields))))
        except OpxError as exc:
            return EdgeReply(code=_code_of(exc), message=str(exc))
        finally:
            client.close()


_CODES: Mapping[type[OpxError], str] = {
    UnknownCategoryError: "unknown_category",
    InvalidInputError: "invalid_argument",
    NotFoundError: "not_found",
    AccessDeniedError: "forbidden",
    HeldError: "held",
    ConditionFailedError: "conflict",
    StoreUnavailableError: "unavailable",
}


def _code_of(exc: OpxError) -> str:
    return next((code for kind, code in _CODES.items() if isinstance(exc, kind)), type(exc).__name__)


def function_group(world: World, operation: Operation[Any, Any], fields: Json) -> EdgeReply:
    """An event of an action group with function details, which answers with text and names no code."""
    event = a_function_event(operation.name, SESSION, **_texts(operation, fields))
    found = tools.respond(_of_agent(event), FakeContext(), _group(operation), lambda: world.services, unreported)
    if state_of(found) is None:
        return EdgeReply(text=reply_text(found))
    return EdgeReply(code=str(state_of(found)), message=reply_text(found))


def api_schema(world: World, operation: Operation[Any, Any], fields: Json) -> EdgeReply:
    """An event of an action group with an OpenAPI schema."""
    event = an_api_event(f"/{operation.name}", SESSION, **_texts(operation, fields))
    found = tools.respond(_of_agent(event), FakeContext(), _group(operation), lambda: world.services, unreported)
    body = body_of(found)
    if found["response"]["httpStatusCode"] == 200:
        return EdgeReply(body)
    return EdgeReply(code=body["error"]["code"], message=body["error"]["message"])


def gateway(world: World, operation: Operation[Any, Any], fields: Json) -> EdgeReply:
    """A call by AgentCore Gateway, whose target has the agent's name."""
    context = FakeContext.of_gateway(operation.name)
    context.client_context.custom["bedrockAgentCoreToolName"] = f"{AGENT}___{operation.name}"
    event = by_attribute(operation, fields)
    found = tools.respond(event, context, _group(operation), lambda: world.services, unreported)
    if set(found) == {"error"}:
        return EdgeReply(code=found["error"]["code"], message=found["error"]["message"])
    return EdgeReply(found)


def over_mcp(world: World, operation: Operation[Any, Any], fields: Json) -> EdgeReply:
    """A call by the official client, which gets no code."""
    server = mcp.make_server(mcp.tools_for(world.context), world.context)

    async def call() -> Any:
        async with McpClient(server) as client:
            return await client.call_tool(operation.name, by_attribute(operation, fields))

    found = anyio.run(call)
    text = found.content[0].text
    return EdgeReply(code="REPROMPT", message=text) if found.is_error else EdgeReply(text=text)


def command(world: World, operation: Operation[Any, Any], fields: Json) -> EdgeReply:
    """`opx call NAME --field value`. Who calls owns the system."""
    where = {"OPX_CLIENT_ID": CALLER.client_id, "OPX_PROJECT_ID": CALLER.project_id, "OPX_HOME": str(world.home)}
    return _commanded(Launch(lambda _: world.services, connect, where), operation, fields)


def remote_command(world: World, operation: Operation[Any, Any], fields: Json) -> EdgeReply:
    """The same on a deployed system."""
    with DeployedSystem(world.services, tokens={"token": world.for_operation(operation).claims}) as system:
        where = {"OPX_API_URL": system.endpoint, "OPX_API_TOKEN": "token"}
        return _commanded(Launch(bootstrap, connect, where), operation, fields)


def _commanded(launch: Launch, operation: Operation[Any, Any], fields: Json) -> EdgeReply:
    line = ["call", operation.name, *_options(operation, fields)]
    found = CliRunner().invoke(cli, line, obj=launch, prog_name="opx")
    if found.exit_code == 0:
        return EdgeReply(json.loads(found.stdout))
    return EdgeReply(code=REFUSED_BY_COMMAND, message=found.stderr.removeprefix("opx: ").strip())


def _options(operation: Operation[Any, Any], fields: Json) -> Iterator[str]:
    names = {one.json_name: one.name for one in fields_of(operation.request)}
    optional = {one.json_name for one in fields_of(operation.request) if one.default is None}
    for json_name, value in fields.items():
        option = "--" + names.get(json_name, json_name).replace("_", "-")
        if isinstance(value, bool):
            negative = [option.replace("--", "--no-", 1)] if json_name in optional else []
            yield from [option] if value else negative
            continue
        for one in value if isinstance(value, list) else [value]:
            yield from (option, json.dumps(one) if isinstance(one, dict) else str(one))


def edges_of(operation: Operation[Any, Any]) -> dict[str, Edge]:
    """Every edge that serves an operation, besides the calls in this process."""
    found: dict[str, Edge] = {"command": command}
    if operation.route:
        found |= {"http": over_http, "served": served, "remote": remote, "remote command": remote_command}
    if operation.tool:
        found |= {"function": function_group, "api schema": api_schema, "gateway": gateway, "mcp": over_mcp}
    return found


def _of_agent(event: dict[str, Any]) -> dict[str, Any]:
    """From the orchestrator, without a session that would be in its name."""
    return {**event, "agent": {**event["agent"], "name": AGENT}, "sessionId": ""}


def _group(operation: Operation[Any, Any]) -> Any:
    assert operation.tool is not None
    return operation.tool.group


def by_attribute(operation: Operation[Any, Any], fields: Json) -> dict[str, Any]:
    """Fields as agents name them."""
    names = {one.json_name: one.name for one in fields_of(operation.request)}
    return {names.get(name, name): value for name, value in fields.items()}


def _texts(operation: Operation[Any, Any], fields: Json) -> dict[str, str]:
    return {name: str(_in_address(value)) for name, value in by_attribute(operation, fields).items()}


def in_words_of_tools(operation: Operation[Any, Any], message: str) -> str:
    """A message with fields named as agents name them."""
    for one in fields_of(operation.request):
        message = re.sub(rf"\b{re.escape(one.json_name)}\b", one.name, message)
    return message
