"""The registry of operations: each use case, declared once beside the function that does it.

    @operation(http="GET /recent", command="recent", tool=Tool(KNOWLEDGE_TOOLS, "List what changed lately."))
    def list_recent(context: Context, request: RecentRequest) -> RecentPage:
        \"""List documents that were updated lately, the newest first.\"""

HTTP routes, OpenAPI documents, tool schemas, the remote client and commands are made from these declarations by
`opx.edges`; nothing else leads to the data. A declaration that can't be served fails when its module is imported.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Generic, Protocol, TypeVar, get_args, get_origin, get_type_hints

from msgspec import UnsetType, inspect

from opx.domain.record import Record
from opx.operations.context import Context
from opx.operations.requests import Request, fields_of

MODULES = (
    "search",
    "documents",
    "corpus",
    "graph",
    "learning",
    "outcomes",
    "patterns",
    "telemetry",
    "baselines",
    "questions",
    "sources",
    "webhooks",
    "evidence",
    "lifecycle",
    "projects",
    "administration",
)
"""The modules of this package that declare operations, in the order in which these are listed."""

MAX_TOOLS = 11
"""Of an agent, over all its groups: Bedrock's quota "APIs per Agent"."""

MAX_FUNCTION_PARAMETERS = 5
"""Of a tool: Bedrock's quota "Parameters per function", which a bigger action group is refused for."""

Q = TypeVar("Q", bound=Request)
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
Run = Callable[[Context, Q], R]


class DeclarationError(TypeError):
    """An operation is declared in a way that can't be served."""


class Access(StrEnum):
    """Who may call an operation. READER: whoever may ask at all. WRITER: callers that may change documents of their own
    scope. ORCHESTRATOR: those that `knowledge.yaml` lets ask for patterns. OPERATOR: who administers the installation."""

    READER = "reader"
    WRITER = "writer"
    ORCHESTRATOR = "orchestrator"
    OPERATOR = "operator"


class Function(StrEnum):
    """Lambda functions that serve HTTP routes: one reads, the other may write."""

    RETRIEVE = "retrieve_knowledge"
    MANAGE = "manage_knowledge"


class AgentReply(Protocol[R_co]):
    """A reply that is also read as text by an agent."""

    def record(self) -> R_co:
        """The reply as it goes out in JSON."""

    def text(self) -> str:
        """Never empty."""

    def shortened(self) -> AgentReply[R_co] | None:
        """The same with a little less and a note of that, for where an answer's size is limited; None if it can't."""


@dataclass(frozen=True, slots=True)
class Route:
    """An HTTP route. `path` is written as API Gateway takes it, where `{x+}` stands for several segments; `status` is that
    of success. `form`: besides JSON, the route takes files in a form with these fields."""

    method: str
    path: str
    function: Function
    status: int = 200
    form: type[Request] | None = None

    @property
    def key(self) -> str:
        """As API Gateway names it, in its configuration and in events."""
        return f"{self.method} {self.path}"

    @property
    def path_names(self) -> tuple[str, ...]:
        return tuple(re.findall(r"{(\w+)\+?}", self.path))

    @property
    def takes_body(self) -> bool:
        """Whether fields that the path doesn't have are in a JSON body; else they are in the address."""
        return self.method in ("POST", "PUT", "PATCH")


@dataclass(frozen=True, slots=True)
class ToolGroup:
    """Tools that one Lambda function serves, `name` with `_` for `-`. It is the usual name of the action group, and of the
    gateway's target."""

    name: str
    title: str
    description: str


@dataclass(frozen=True, slots=True)
class Tool:
    """An operation as an agent's tool. `description` tells the agent when to use it. `opt_in`: only agents that are said to
    may use it. `writes`: it keeps something; told again, it is kept once."""

    group: ToolGroup
    description: str
    opt_in: bool = False
    writes: bool = False


@dataclass(frozen=True, slots=True)
class Operation(Generic[Q, R]):
    """A use case. `reply` is the type of its JSON; `command` its name on the command line, "" for none of its own."""

    name: str
    run: Run[Q, R]
    request: type[Q]
    reply: Any
    about: str
    access: Access
    route: Route | None
    tool: Tool | None
    command: str

    @property
    def doc(self) -> str:
        """The first paragraph of its docstring, on one line."""
        return " ".join(self.about.split("\n\n", 1)[0].split())


class Registry:
    """Operations by name, in the order of their modules and of their declaration there."""

    def __init__(self) -> None:
        self._operations: dict[str, Operation[Any, Any]] = {}
        self._by_run: dict[Callable[..., Any], Operation[Any, Any]] = {}

    def __iter__(self) -> Iterator[Operation[Any, Any]]:
        return iter(sorted(self._operations.values(), key=_place))

    def __contains__(self, name: object) -> bool:
        return name in self._operations

    def get(self, name: str) -> Operation[Any, Any] | None:
        return self._operations.get(name)

    def of(self, run: Run[Q, R]) -> Operation[Q, R]:
        """The operation that this function does."""
        return self._by_run[run]

    def add(self, added: Operation[Any, Any]) -> None:
        """Raises `DeclarationError` for a name, a route, a tool or a command that is there already, for a tool with more
        parameters than Bedrock takes, and for a reply that is no JSON."""
        _check_alone(added)
        for other in self._operations.values():
            _check_apart(added, other)
        if added.tool and not added.tool.opt_in:
            usual = [one.name for one in (*self, added) if one.tool and not one.tool.opt_in]
            if len(usual) > MAX_TOOLS:
                raise DeclarationError(
                    f"operation {added.name}: an agent may have {MAX_TOOLS} tools, and {', '.join(usual)} are for every "
                    "agent: declare it with opt_in"
                )
        self._operations[added.name] = added
        self._by_run[added.run] = added

    def remove(self, name: str) -> None:
        """Forget an operation that was declared for a while."""
        del self._by_run[self._operations.pop(name).run]

    @property
    def routes(self) -> dict[str, Operation[Any, Any]]:
        """Operations with an HTTP route, by its key."""
        return {one.route.key: one for one in self if one.route}

    def tools(self, group: ToolGroup | None = None) -> dict[str, Operation[Any, Any]]:
        """Operations that are tools, of one group or of all, by name."""
        return {one.name: one for one in self if one.tool and group in (None, one.tool.group)}


REGISTRY = Registry()
"""What `opx.operations.load` fills."""


def operation(
    *,
    http: str = "",
    function: Function = Function.RETRIEVE,
    status: int = 200,
    form: type[Request] | None = None,
    access: Access = Access.READER,
    tool: Tool | None = None,
    command: str = "",
    registry: Registry = REGISTRY,
) -> Callable[[Run[Q, R]], Run[Q, R]]:
    """Declare the function below as an operation: `http` is its method and path. Raises `DeclarationError`."""

    def declare(run: Run[Q, R]) -> Run[Q, R]:
        name = run.__name__
        hints = get_type_hints(run)
        if missing := [what for what in ("request", "return") if what not in hints]:
            raise DeclarationError(f"operation {name}: it says no type of its {missing[0].replace('return', 'reply')}")
        method, _, path = http.partition(" ")
        registry.add(
            Operation(
                name=name,
                run=run,
                request=hints["request"],
                reply=_record_of(hints["return"]),
                about=run.__doc__ or "",
                access=access,
                route=Route(method, path, function, status, form) if http else None,
                tool=tool,
                command=command,
            )
        )
        return run

    return declare


def _place(operation: Operation[Any, Any]) -> tuple[int, str, int]:
    """The same order whichever module was imported first. Operations of other modules are behind those of this package."""
    module = operation.run.__module__
    name = module.rpartition(".")[2]
    place = MODULES.index(name) if name in MODULES else len(MODULES)
    return place, module, operation.run.__code__.co_firstlineno


def _record_of(reply: Any) -> Any:
    """The type of a reply's JSON: of an `AgentReply`, that of its record."""
    return get_type_hints(reply.record)["return"] if is_agent_reply(reply) else reply


def is_agent_reply(reply: Any) -> bool:
    """Whether a reply, or its type, is an `AgentReply`. A record may have fields that are called like methods of it."""
    return callable(getattr(reply, "record", None))


def _check_alone(added: Operation[Any, Any]) -> None:
    problem = ""
    if not (isinstance(added.request, type) and issubclass(added.request, Request)):
        problem = "its request is no Request"
    elif not added.about:
        problem = "it has no docstring"
    elif added.tool and len(fields_of(added.request)) > MAX_FUNCTION_PARAMETERS:
        problem = f"a tool takes at most {MAX_FUNCTION_PARAMETERS} parameters, not {len(fields_of(added.request))}"
    elif added.route and (missing := set(added.route.path_names) - _json_names(added) - {"kbId"}):
        problem = f"its path has {', '.join(sorted(missing))}, which its request lacks"
    else:
        problem = _json_problem(added.reply)
    if problem:
        raise DeclarationError(f"operation {added.name}: {problem}")


def _json_names(added: Operation[Any, Any]) -> set[str]:
    return {field.json_name for field in fields_of(added.request)}


def _json_problem(reply: Any) -> str:
    """What keeps a type from being JSON, "" if nothing does."""
    seen: set[type] = set()
    waiting: list[Any] = [reply]
    while waiting:
        kind = waiting.pop()
        if isinstance(kind, type) and issubclass(kind, Record):
            if kind in seen or kind in _JSON_RECORDS:
                continue
            seen.add(kind)
            waiting.extend(get_type_hints(kind).values())
        elif kind is not UnsetType and _is_no_json(kind):
            return f"its reply has {kind!r}, which is no JSON"
        else:
            waiting.extend(one for one in get_args(kind) if isinstance(one, type) or get_origin(one))
    _JSON_RECORDS.update(seen)
    return ""


_JSON_RECORDS: set[type] = set()
"""Records that were found to be JSON: most of them are part of several replies."""


def _is_no_json(kind: Any) -> bool:
    try:
        return isinstance(inspect.type_info(kind), inspect.CustomType)
    except TypeError:  # such as another class or a number
        return True


def _check_apart(added: Operation[Any, Any], other: Operation[Any, Any]) -> None:
    same = ""
    if added.name == other.name:
        same = "name"
    elif added.route and other.route and added.route.key == other.route.key:
        same = f"route {added.route.key}"
    elif added.command and added.command == other.command:
        same = f"command {added.command}"
    if same:
        raise DeclarationError(f"operation {added.name}: {other.name} has the same {same}")
