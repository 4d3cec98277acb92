"""The registry of operations: each use case, declared once beside the function that implements it.

    @operation(http="GET /recent", command="recent", tool=Tool(KNOWLEDGE, "List what changed lately."))
    def list_recent(context: Context, request: RecentRequest) -> RecentPage:
        \"""List documents that were updated lately, the newest first.\"""

HTTP routes, OpenAPI documents, tool schemas, the remote client and commands are made from these declarations by
`opx.edges`; there is no other access to the data. A declaration that can't be served fails when its module is imported.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import UnionType
from typing import Any, Generic, Protocol, TypeVar, Union, get_args, get_origin, get_type_hints

from msgspec import UnsetType, inspect

from opx.domain.policy import TABLE, Action, Target
from opx.domain.record import Record, type_info
from opx.domain.requests import Request
from opx.operations.context import Context

DEFAULT_KNOWLEDGE_BASE = "default"
MAX_TOOLS = 11
"""Tools of an agent, over all its groups: Bedrock's quota "APIs per Agent"."""

MAX_FUNCTION_PARAMETERS = 5
"""Parameters of a tool: Bedrock's quota "Parameters per function"; it refuses action groups that exceed it."""

Q = TypeVar("Q", bound=Request)
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
Run = Callable[[Context, Q], R]
FindTarget = Callable[[Context, Any], Target]
"""Returns the target of a request, as the policy judges it."""


class DeclarationError(TypeError):
    """An operation is declared in a way that can't be served."""


class Function(StrEnum):
    """Lambda functions that serve HTTP routes: one reads, the other may write."""

    RETRIEVE = "retrieve_knowledge"
    MANAGE = "manage_knowledge"


class AgentReply(Protocol[R_co]):
    """A reply that agents read as text."""

    def record(self) -> R_co:
        """The reply as it is sent in JSON."""

    def text(self) -> str:
        """The text for agents, never empty."""

    def shortened(self) -> AgentReply[R_co] | None:
        """The same reply with a little less content and a note of that, for limited sizes; None if it can't be
        shortened."""


@dataclass(frozen=True, slots=True)
class HttpRoute:
    """An HTTP route. `path` is in API Gateway's notation, where `{x+}` stands for several segments; `status` is that of
    success. `form`: besides JSON, the route accepts files in a form with these fields."""

    method: str
    path: str
    function: Function
    status: int = 200
    form: type[Request] | None = None

    @property
    def key(self) -> str:
        """API Gateway's name of the route, in its configuration and in events."""
        return f"{self.method} {self.path}"

    @property
    def path_names(self) -> tuple[str, ...]:
        return tuple(re.findall(r"{(\w+)\+?}", self.path))

    @property
    def segment(self) -> str:
        """The first segment of the path."""
        return self.path.split("/")[1]

    @property
    def takes_body(self) -> bool:
        """True if fields that aren't in the path are in a JSON body; else they are query parameters."""
        return self.method in ("POST", "PUT", "PATCH")


@dataclass(frozen=True, slots=True)
class ToolGroup:
    """Tools that one Lambda function serves: its name is `name` with `_` for `-`. `name` is also the usual name of the action
    group and of the gateway's target."""

    name: str
    title: str
    description: str


@dataclass(frozen=True, slots=True)
class Tool:
    """An operation as an agent's tool. `description` instructs the agent when to use it. `opt_in`: only agents with a
    grant may use it. `writes`: it stores something; repeated calls store it once."""

    group: ToolGroup
    description: str
    opt_in: bool = False
    writes: bool = False


@dataclass(frozen=True, slots=True)
class Operation(Generic[Q, R]):
    """A use case. `actions` are those of the policy that a call needs, all of them, on the `target` of a request (None: the
    usual one). `reply` is the type of its JSON; `command` its name on the command line, "" for none of its own."""

    name: str
    run: Run[Q, R]
    request: type[Q]
    reply: Any
    about: str
    actions: tuple[Action, ...]
    target: FindTarget | None
    route: HttpRoute | None
    tool: Tool | None
    command: str

    @property
    def is_for_all(self) -> bool:
        """True if it is a tool that every agent may use unless `knowledge.yaml` states otherwise."""
        return self.tool is not None and not self.tool.opt_in

    @property
    def doc(self) -> str:
        """The first paragraph of its docstring, on one line."""
        return " ".join(self.about.split("\n\n", 1)[0].split())


@dataclass(frozen=True, slots=True)
class Module:
    """A module that declares operations, of this package or by its full name. Its routes begin with these segments, its tools
    are of these groups: a request's operation is looked up only in modules that can declare it."""

    name: str
    addresses: tuple[str, ...] = ()
    groups: tuple[ToolGroup, ...] = ()

    @property
    def path(self) -> str:
        """The module's full name."""
        return self.name if "." in self.name else f"{__package__}.{self.name}"


@dataclass(frozen=True, slots=True)
class Feature:
    """Operations of another distribution, which an entry point of `opx.operations` names. `modules` declare them. `commands`
    are those that aren't made from an operation's declaration: by name, the module that has `<name>_command`, and a
    summary. `feeds` name modules with `feed(system)`, which makes a `Feed`: scheduled work of `opx run` and `opx serve`."""

    modules: tuple[Module, ...]
    commands: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    feeds: tuple[str, ...] = ()


class Registry:
    """Operations by name, in the order of their modules and of their declaration there."""

    def __init__(self) -> None:
        self._operations: dict[str, Operation[Any, Any]] = {}
        self._claimed: dict[object, Operation[Any, Any]] = {}

    def __iter__(self) -> Iterator[Operation[Any, Any]]:
        return iter(sorted(self._operations.values(), key=_position))

    def __contains__(self, name: object) -> bool:
        return name in self._operations

    def get(self, name: str) -> Operation[Any, Any] | None:
        return self._operations.get(name)

    def of(self, run: Run[Q, R]) -> Operation[Q, R]:
        """The operation that this function implements."""
        return self._claimed[run]

    def of_route(self, key: str) -> Operation[Any, Any] | None:
        return self._claimed.get(f"route {key}")

    def of_tool(self, name: str, group: ToolGroup | None = None) -> Operation[Any, Any] | None:
        found = self._operations.get(name)
        return found if found and found.tool and group in (None, found.tool.group) else None

    def add(self, added: Operation[Any, Any]) -> None:
        """Adds an operation. Raises `DeclarationError` for a duplicate name, route, tool or command, for a tool with more
        parameters than Bedrock accepts, and for a reply that can't be JSON."""
        _check_declaration(added)
        for claim in _claims(added):
            if other := self._claimed.get(claim):
                duplicate = "name" if other.name == added.name else claim
                raise DeclarationError(f"operation {added.name}: {other.name} has the same {duplicate}")
        if added.is_for_all:
            usual = [one.name for one in (*self, added) if one.is_for_all]
            if len(usual) > MAX_TOOLS:
                raise DeclarationError(
                    f"operation {added.name}: an agent may have {MAX_TOOLS} tools, and {', '.join(usual)} are for every "
                    "agent: declare it with opt_in"
                )
        self._operations[added.name] = added
        self._claimed |= dict.fromkeys(_claims(added), added)

    def remove(self, name: str) -> None:
        """Removes an operation that was declared temporarily."""
        removed = self._operations.pop(name)
        for claim in _claims(removed):
            del self._claimed[claim]

    @property
    def routes(self) -> dict[str, Operation[Any, Any]]:
        """Operations with an HTTP route, by its key."""
        return {one.route.key: one for one in self if one.route}

    def tools(self, group: ToolGroup | None = None) -> dict[str, Operation[Any, Any]]:
        """Operations that are tools, of one group or of all, by name."""
        return {one.name: one for one in self if one.tool and group in (None, one.tool.group)}


REGISTRY = Registry()
"""The registry that `opx.operations.load` fills and its lookups use."""

KNOWLEDGE = ToolGroup(
    "retrieve-knowledge",
    "OPX Knowledge retrieval",
    "Runbooks, postmortems and documentation for operations agents, with their sources.",
)
OPERATIONS = ToolGroup(
    "query-operations",
    "OPX Knowledge operational queries",
    "Logs, metrics, traces and baselines of the running systems, for operations agents.",
)
LEARNING = ToolGroup(
    "learn-from-work", "OPX Knowledge learning", "Knowledge from work: captured by agents, queried by orchestrators."
)
GROUPS = (KNOWLEDGE, OPERATIONS, LEARNING)

MODULES = (
    Module("search", ("knowledge",)),
    Module("search_tools", groups=(KNOWLEDGE,)),
    Module("reading", ("reading",), (KNOWLEDGE,)),
    Module("procedures", ("procedures",), (KNOWLEDGE,)),
    Module("alerts", ("alerts",)),
    Module("alert_bindings", ("alerts",)),
    Module("documents", ("documents", "categories")),
    Module("corpus", ("status", "ingest", "uploads", "objects", "documents", "failures")),
    Module("texts", ("texts",)),
    Module("uploads", ("uploads",)),
    Module("provenance", ("documents",)),
    Module("graph", ("graph",), (KNOWLEDGE,)),
    Module("resources", ("resources",), (KNOWLEDGE,)),
    Module("learning", ("learning", "evidence"), (LEARNING,)),
    Module("outcomes", ("outcomes", "documents"), (LEARNING,)),
    Module("patterns", ("learning",), (LEARNING,)),
    Module("pattern_changes", ("learning",)),
    Module("questions", ("audit", "answers", "gaps"), (LEARNING,)),
    Module("sources", ("sources", "crawl")),
    Module("secrets"),
    Module("lifecycle", ("reviews", "documents", "prunings", "holds")),
    Module("usage", ("usage", "costs")),
    Module("masked_secrets", ("secrets",)),
    Module("projects", ("projects",)),
    Module("calibration", ("calibration",)),
    Module("administration", ("clients", "index")),
)
"""Modules in the order in which their operations are listed."""

_POSITIONS = {one.path: position for position, one in enumerate(MODULES)}


def operation(
    *,
    http: str = "",
    function: Function = Function.RETRIEVE,
    status: int = 200,
    form: type[Request] | None = None,
    action: Action | tuple[Action, ...] = Action.READ,
    target: FindTarget | None = None,
    tool: Tool | None = None,
    command: str = "",
    registry: Registry = REGISTRY,
) -> Callable[[Run[Q, R]], Run[Q, R]]:
    """Declares the decorated function as an operation: `http` is its method and path, `action` what the policy has to permit
    (on the `target` of a request; left out, on the usual one). Raises `DeclarationError`."""

    def declare(run: Run[Q, R]) -> Run[Q, R]:
        name = run.__name__
        hints = get_type_hints(run)
        if missing := [what for what in ("request", "return") if what not in hints]:
            raise DeclarationError(
                f"operation {name}: it declares no type of its {missing[0].replace('return', 'reply')}"
            )
        method, _, path = http.partition(" ")
        registry.add(
            Operation(
                name=name,
                run=run,
                request=hints["request"],
                reply=_record_of(hints["return"]),
                about=run.__doc__ or "",
                actions=_actions(action, tool),
                target=target,
                route=HttpRoute(method, path, function, status, form) if http else None,
                tool=tool,
                command=command,
            )
        )
        return run

    return declare


def agent_tool(
    group: ToolGroup, description: str, *, opt_in: bool = False, writes: bool = False, action: Action = Action.READ
) -> Callable[[Run[Q, R]], Run[Q, R]]:
    """Declares the decorated function as an operation that only agents call, as a `Tool`."""
    return operation(tool=Tool(group, description, opt_in, writes), action=action)


def _actions(declared: Action | tuple[Action, ...], tool: Tool | None) -> tuple[Action, ...]:
    """The actions that a call needs: a tool that writes needs those of a writing route."""
    actions = (declared,) if isinstance(declared, str) else declared
    if tool is None or not tool.writes or Action.WRITE in actions:
        return actions
    return (*(one for one in actions if one is not Action.READ), Action.WRITE)


def _claims(operation: Operation[Any, Any]) -> list[object]:
    """Properties that must be unique among operations, worded for errors, and its function."""
    route, command = operation.route, operation.command
    named = (f"name {operation.name}", f"route {route.key}" if route else "", f"command {command}" if command else "")
    return [*filter(None, named), operation.run]


def _position(operation: Operation[Any, Any]) -> tuple[int, str, int]:
    """Sort key that is independent of the order of imports. Operations of other modules sort after those of this
    package."""
    module = operation.run.__module__
    return _POSITIONS.get(module, len(MODULES)), module, operation.run.__code__.co_firstlineno


def _record_of(reply: Any) -> Any:
    """Returns the type of a reply's JSON: for an `AgentReply`, that of its record."""
    return get_type_hints(reply.record)["return"] if is_agent_reply(reply) else reply


def is_agent_reply(reply: Any) -> bool:
    """True if a reply, or its type, is an `AgentReply`. A record may have fields with the names of its methods."""
    return callable(getattr(reply, "record", None))


def _check_declaration(added: Operation[Any, Any]) -> None:
    problem = ""
    if not (isinstance(added.request, type) and issubclass(added.request, Request)):
        problem = "its request is no Request"
    elif not added.about:
        problem = "it has no docstring"
    elif unknown := [action for action in added.actions if action not in TABLE]:
        problem = f"the policy has no action {unknown[0]!r}"
    elif added.tool and len(added.request.__struct_fields__) > MAX_FUNCTION_PARAMETERS:
        count = len(added.request.__struct_fields__)
        problem = f"a tool takes at most {MAX_FUNCTION_PARAMETERS} parameters, not {count}"
    elif added.route and (missing := {*added.route.path_names} - {"kbId"} - {*added.request.__struct_encode_fields__}):
        problem = f"its path has {', '.join(sorted(missing))}, which its request lacks"
    else:
        problem = _module_problem(added) or _json_problem(added.reply)
    if problem:
        raise DeclarationError(f"operation {added.name}: {problem}")


def _module_problem(added: Operation[Any, Any]) -> str:
    """The reason why an operation of this package can't be looked up, "" if it can."""
    position = _POSITIONS.get(added.run.__module__)
    if position is None:
        return ""
    module = MODULES[position]
    if added.route and added.route.segment not in module.addresses:
        return f"MODULES doesn't list the address /{added.route.segment} for {module.name}"
    if added.tool and added.tool.group not in module.groups:
        return f"MODULES doesn't list the tool group {added.tool.group.name} for {module.name}"
    return ""


def _json_problem(reply: Any) -> str:
    """The reason why a type can't be JSON, "" if it can."""
    seen: set[Any] = set()
    waiting: list[Any] = [reply]
    while waiting:
        kind = waiting.pop()
        if kind in _JSON_KINDS or kind in seen:
            continue
        seen.add(kind)
        if isinstance(kind, type) and issubclass(kind, Record):
            waiting.extend(get_type_hints(kind).values())
        elif get_origin(kind) in _CONTAINERS:
            waiting.extend(get_args(kind))
        elif _is_no_json(kind):
            return f"its reply has {kind!r}, which is no JSON"
    _JSON_KINDS.update(seen)
    return ""


_CONTAINERS = (tuple, list, dict, Union, UnionType)
_JSON_KINDS: set[Any] = {str, int, float, bool, type(None), Any, UnsetType, ...}
"""Types known to be JSON, as a cache: most of them are part of several replies."""


def _is_no_json(kind: Any) -> bool:
    try:
        return isinstance(type_info(kind), inspect.CustomType)
    except TypeError:  # such as another class or a number
        return True
