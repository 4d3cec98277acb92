"""The registry: a declaration that can't be served fails at once, and one that can is on every road."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import anyio
import jsonschema
import pytest
from mcp.client.client import Client
from msgspec import Meta
from openapi_spec_validator import validate

from opx.domain.record import Record
from opx.domain.requests import Request, fields_of
from opx.domain.scopes import Identity
from opx.edges import http, schemas, tools
from opx.edges.calling import LocalClient, plain
from opx.edges.calling import text_of as text_for_agents
from opx.edges.mcp import make_server, tools_for
from opx.errors import InvalidInputError
from opx.operations import load, of_route, of_tool
from opx.operations.context import Caller, Context
from opx.operations.grants import ToolGrants, read_grants
from opx.operations.registry import (
    KNOWLEDGE,
    MAX_FUNCTION_PARAMETERS,
    MAX_TOOLS,
    OPERATIONS,
    REGISTRY,
    Access,
    DeclarationError,
    Function,
    Registry,
    Tool,
    operation,
)
from opx.operations.system import System
from opx.settings import Settings
from opx.system import connect
from tests.doubles.api_gateway import REGION, DeployedSystem
from tests.support import api_requests
from tests.support.agent_calls import a_function_event, an_api_event, body_of, state_of, text_of
from tests.support.api_requests import a_request, a_token, answered, check_described, refusal
from tests.support.cli_support import Opx, word_services
from tests.support.fakes import FakeContext, Measured
from tests.support.remote_support import KINDS, aws_credentials, opx_at

# -- one operation, which there is only here


class CountMoons(Request, frozen=True):
    planet: Annotated[str, Meta(min_length=1, max_length=100, description="Whose moons.")]
    least_size: Annotated[int, Meta(ge=1, le=5000, description="In kilometres.")] = 1


class Moon(Record, frozen=True):
    name: str
    mean_size: int


class Moons(Record, frozen=True):
    planet: str
    client_id: str
    moons: tuple[Moon, ...]


class NameMoon(Request, frozen=True):
    planet: Annotated[str, Meta(min_length=1, max_length=100, description="Whose moon.")]
    name: Annotated[str, Meta(min_length=1, max_length=100, description="Its name.")]


MARS = (Moon("Phobos", 22), Moon("Deimos", 12))
DESCRIPTION = "List the moons of a planet. Use it where a tide is to be explained."
ARGUMENTS = {"planet": "mars", "least_size": 20}
FOUND = {"planet": "mars", "clientId": "", "moons": [{"name": "Phobos", "meanSize": 22}]}


def count_moons(context: Context, request: CountMoons) -> Moons:
    """List the moons of a planet.

    Raises `InvalidInputError` for an unknown planet.
    """
    if request.planet != "mars":
        raise InvalidInputError(f"{request.planet} is no planet")
    found = tuple(moon for moon in MARS if moon.mean_size >= request.least_size)
    return Moons(request.planet, context.identity.client_id, found)


def name_moon(context: Context, request: NameMoon) -> Moon:
    """Give a moon a name."""
    return Moon(f"{request.name} of {request.planet}", 1)


@pytest.fixture(autouse=True)
def _declared(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    load()
    moons = "/planets/{planet}/moons"
    tool = Tool(KNOWLEDGE, DESCRIPTION, opt_in=True)
    operation(http=f"GET {moons}", command="moons", tool=tool)(count_moons)
    operation(http=f"POST {moons}", function=Function.MANAGE, status=201, access=Access.WRITER)(name_moon)
    for run in (count_moons, name_moon):
        monkeypatch.setitem(api_requests.ROUTE, run.__name__, REGISTRY.of(run).route)
    yield
    REGISTRY.remove("count_moons")
    REGISTRY.remove("name_moon")


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    with word_services(Settings(home=str(tmp_path_factory.mktemp("home")))) as found:
        found.installation.declare(read_grants, ToolGrants(frozenset({"count_moons"})))
        yield found


class TestHttp:
    def replied(self, services: System, name: str = "count_moons", **request: Any) -> tuple[int, Any]:
        function = api_requests.ROUTE[name].function
        return answered(http.respond(a_request(name, **request), function, lambda: services, Measured()))

    def test_reply_is_the_json_that_is_described(self, services: System) -> None:
        status, found = self.replied(services, query={"leastSize": "20"}, planet="mars", caller=a_token("acme"))
        assert (status, found) == (200, {**FOUND, "clientId": "acme"})
        check_described("count_moons", found)

    def test_bounds_and_names_are_checked(self, services: System) -> None:
        status, found = self.replied(services, query={"leastSize": "0"}, planet="mars")
        assert (status, found["error"]["message"]) == (400, "leastSize must be a whole number from 1 to 5000, not 0")
        assert refusal(self.replied(services, query={"size": "1"}, planet="mars")) == (400, "invalid_argument")

    def test_errors_of_the_operation_are_returned(self, services: System) -> None:
        status, found = self.replied(services, planet="sun")
        assert (status, found) == (400, {"error": {"code": "invalid_argument", "message": "sun is no planet"}})

    def test_fields_are_in_the_path_and_in_the_body(self, services: System) -> None:
        found = self.replied(services, "name_moon", body={"name": "Io"}, planet="mars")
        assert found == (201, {"name": "Io of mars", "meanSize": 1})

    def test_who_may_not_is_refused(self, services: System) -> None:
        caller = a_token("acme", scopes="opx/read")
        found = self.replied(services, "name_moon", body={"name": "Io"}, planet="mars", caller=caller)
        assert refusal(found) == (403, "forbidden")

    def test_another_function_does_not_serve_it(self, services: System) -> None:
        event = a_request("count_moons", planet="mars")
        found = answered(http.respond(event, Function.MANAGE, lambda: services, Measured()))
        assert refusal(found) == (404, "no_such_route")


class TestDescriptions:
    def test_it_is_in_the_openapi_document(self) -> None:
        document = schemas.openapi()
        validate(document)
        described = document["paths"]["/planets/{planet}/moons"]
        assert set(described) == {"get", "post"}
        get, post = described["get"], described["post"]
        assert (get["operationId"], get["summary"]) == ("countMoons", "List the moons of a planet.")
        assert [(one["name"], one["in"], one["required"]) for one in get["parameters"]] == [
            ("planet", "path", True),
            ("leastSize", "query", False),
        ]
        assert get["parameters"][1]["schema"] == {"type": "integer", "minimum": 1, "maximum": 5000, "default": 1}
        assert list(post["requestBody"]["content"]["application/json"]["schema"]["properties"]) == ["name"]
        assert post["security"] == [{"role": []}, {"token": ["opx/write"]}, {"token": ["opx/admin"]}]
        assert set(document["components"]["schemas"]) >= {"Moons", "Moon"}

    def test_it_is_in_the_tools_documents(self) -> None:
        documents = schemas.documents()
        (function,) = [
            one for one in json.loads(documents["retrieve-knowledge.functions.json"])["functions"] if is_it(one)
        ]
        assert (function["description"], list(function["parameters"])) == (DESCRIPTION, ["planet", "least_size"])
        (tool,) = [one for one in json.loads(documents["retrieve-knowledge.gateway.json"]) if is_it(one)]
        assert tool["inputSchema"]["required"] == ["planet"]
        document = json.loads(documents["retrieve-knowledge.openapi.json"])
        validate(document)
        assert "/count_moons" in document["paths"]
        assert "Moon" in document["components"]["schemas"]

    def test_arguments_have_their_limits(self) -> None:
        schema = schemas.input_schema(REGISTRY.of(count_moons))
        jsonschema.validate(ARGUMENTS, schema)
        for wrong in ({}, {"planet": ""}, {"planet": "mars", "least_size": 0}, {"planet": "mars", "size": 1}):
            with pytest.raises(jsonschema.ValidationError):
                jsonschema.validate(wrong, schema)
        assert schema["properties"]["least_size"]["description"] == "In kilometres. From 1 to 5000, 1 if not given."


def is_it(described: dict[str, Any]) -> bool:
    return str(described["name"]) == "count_moons"


class TestTools:
    def replied(self, services: System, event: Any, context: FakeContext | None = None) -> dict[str, Any]:
        return tools.respond(event, context or FakeContext(), KNOWLEDGE, lambda: services, Measured())

    def test_gateway_gets_json(self, services: System) -> None:
        context = FakeContext.of_gateway("count_moons", {"x-opx-client-id": "acme"})
        assert self.replied(services, ARGUMENTS, context) == {**FOUND, "clientId": "acme"}

    def test_function_of_an_action_group_gets_text(self, services: System) -> None:
        response = self.replied(services, a_function_event("count_moons", planet="mars", leastSize="20"))
        assert (state_of(response), json.loads(text_of(response))) == (None, FOUND)

    def test_operation_of_an_api_schema_gets_json(self, services: System) -> None:
        event = an_api_event("/count_moons", {"opxClientId": "acme"}, planet="mars", least_size="20")
        assert body_of(self.replied(services, event)) == {**FOUND, "clientId": "acme"}

    def test_wrong_argument_is_reported(self, services: System) -> None:
        response = self.replied(services, a_function_event("count_moons", planet="mars", least_size="0"))
        assert state_of(response) == "REPROMPT"
        assert text_of(response) == "least_size must be a whole number from 1 to 5000, not 0"

    def test_over_mcp(self, services: System) -> None:
        context = Context(services, Caller(Identity("acme")))
        server = make_server(tools_for(context), context)

        async def run() -> tuple[Any, Any]:
            async with Client(server) as client:
                return (await client.list_tools()).tools, await client.call_tool("count_moons", ARGUMENTS)

        (listed,), result = anyio.run(run)
        assert (listed.name, listed.description) == ("count_moons", DESCRIPTION)
        assert not result.is_error
        assert result.structured_content == {**FOUND, "clientId": "acme"}
        jsonschema.validate(result.structured_content, listed.output_schema)

    def test_operation_that_is_no_tool_is_none(self, services: System) -> None:
        response = self.replied(services, a_function_event("name_moon", planet="mars", name="Io"))
        assert text_of(response) == "unknown tool 'name_moon'; there are: count_moons"


class TestClients:
    def test_both_give_the_same_reply(self, services: System, monkeypatch: pytest.MonkeyPatch) -> None:
        aws_credentials(monkeypatch)
        request = CountMoons(planet="mars", least_size=20)
        local = LocalClient(Context(services, Caller(Identity())))
        with DeployedSystem(services) as system:
            remote = connect(Settings(api_url=system.endpoint, aws_region=REGION))
            assert remote.call(count_moons, request) == local.call(count_moons, request) == Moons("mars", "", MARS[:1])
            named = remote.call(name_moon, NameMoon(planet="m/a rs", name="Io"))
            assert named == Moon("Io of m/a rs", 1)
            with pytest.raises(InvalidInputError, match="sun is no planet"):
                remote.call(count_moons, CountMoons(planet="sun"))
            remote.close()


@pytest.fixture(params=KINDS)
def opx(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Opx]:
    (tmp_path / ".opx").mkdir()
    with opx_at(request.param, tmp_path, monkeypatch) as opx:
        yield opx


class TestCommands:
    @pytest.mark.parametrize("command", [("moons",), ("call", "count_moons"), ("call", "count-moons")])
    def test_reply_is_printed_as_json(self, opx: Opx, command: tuple[str, ...]) -> None:
        result = opx(*command, "--planet", "mars", "--least-size", "20")
        assert (result.exit_code, json.loads(result.stdout)) == (0, FOUND)

    def test_what_the_operation_raises_is_one_line(self, opx: Opx) -> None:
        result = opx("moons", "--planet", "sun")
        assert (result.exit_code, result.stderr) == (2, "opx: sun is no planet\n")

    def test_options_are_described_and_checked(self, opx: Opx) -> None:
        help_text = opx("moons", "--help").stdout
        assert "List the moons of a planet." in help_text
        assert "In kilometres." in help_text
        assert opx("moons").exit_code == opx("moons", "--planet", "mars", "--least-size", "0").exit_code == 2

    def test_operation_without_a_command_can_be_called(self, opx: Opx) -> None:
        result = opx("call", "name_moon", "--planet", "mars", "--name", "Io")
        assert (result.exit_code, json.loads(result.stdout)["name"]) == (0, "Io of mars")

    @pytest.mark.parametrize("command", ["count_moons", "name_moon", "nothing"])
    def test_other_names_are_no_commands(self, opx: Opx, command: str) -> None:
        assert (opx(command).exit_code, "No such command" in opx(command).stderr) == (2, True)

    def test_call_lists_all_operations(self, opx: Opx) -> None:
        help_text = opx("call", "--help").stdout
        assert all(f"\n  {one.name} " in help_text for one in load())
        assert "\n  call " in opx("--help").stdout


@pytest.mark.parametrize("name", [one.name for one in load()])
def test_every_operation_is_a_command_of_call(tmp_path: Path, name: str) -> None:
    result = Opx(tmp_path)("call", name, "--help")
    assert result.exit_code == 0
    options = {"--" + field.name.replace("_", "-") for field in fields_of(REGISTRY.get(name).request)}  # type: ignore[union-attr]
    assert options <= set(re.findall(r"--[a-z0-9-]+", result.stdout))


class Spoken(Record, frozen=True):
    record: str
    text: str


def speak(context: Context, request: NameMoon) -> Spoken:
    """Give a record whose fields are called like methods of what agents read."""
    return Spoken(request.name, request.planet)


def test_fields_of_a_reply_may_have_any_name(services: System) -> None:
    registry = Registry()
    operation(tool=Tool(KNOWLEDGE, "Use it."), registry=registry)(speak)
    found = tools.call_tool(registry.of(speak), Context(services, Caller(Identity())), [("planet", "a"), ("name", "b")])
    assert registry.of(speak).reply is Spoken
    assert json.loads(text_for_agents(found)) == plain(found) == {"record": "b", "text": "a"}


# -- declarations that can't be served


class Wide(Request, frozen=True):
    a: str
    b: str
    c: str
    d: str
    e: str
    f: str


class Nothing(Request, frozen=True):
    pass


class NoJson:
    pass


class HoldsNoJson(Record, frozen=True):
    inner: dict[str, NoJson]


def silent(context: Context, request: Nothing) -> Moon:
    return Moon("", 0)


def of_a_record(context: Context, request: Moon) -> Moon:
    """Takes what is no request."""
    return request


def untyped(context, request) -> Moon:  # type: ignore[no-untyped-def]
    """Takes something."""
    return Moon("", 0)


def unanswered(context: Context, request: Nothing):  # type: ignore[no-untyped-def]
    """Gives something."""


def gives_an_object(context: Context, request: Nothing) -> NoJson:
    """Gives what is no JSON."""
    return NoJson()


def gives_objects(context: Context, request: Nothing) -> tuple[NoJson, ...]:
    """Gives what is no JSON."""
    return ()


def gives_a_holder(context: Context, request: Nothing) -> HoldsNoJson:
    """Gives what is no JSON."""
    return HoldsNoJson({})


def gives_either(context: Context, request: Nothing) -> int | NoJson:
    """Gives what is no JSON."""
    return 1


def gives_an_iterator(context: Context, request: Nothing) -> Iterator[int]:
    """Gives what is no JSON."""
    return iter(())


def wide(context: Context, request: Wide) -> Moon:
    """Takes a lot."""
    return Moon("", 0)


def narrow(context: Context, request: Nothing) -> Moon:
    """Takes nothing."""
    return Moon("", 0)


def other(context: Context, request: Nothing) -> Moon:
    """Takes nothing, too."""
    return Moon("", 0)


def for_every_agent() -> Tool:
    return Tool(KNOWLEDGE, "Use it.")


class TestWrongDeclarations:
    @pytest.mark.parametrize(
        ("run", "problem"),
        [
            (silent, "it has no docstring"),
            (of_a_record, "its request is no Request"),
            (untyped, "it declares no type of its request"),
            (unanswered, "it declares no type of its reply"),
            (gives_an_object, "its reply has .*NoJson.*, which is no JSON"),
            (gives_objects, "its reply has .*NoJson.*, which is no JSON"),
            (gives_a_holder, "its reply has .*NoJson.*, which is no JSON"),
            (gives_either, "its reply has .*NoJson.*, which is no JSON"),
            (gives_an_iterator, "its reply has .*Iterator.*, which is no JSON"),
        ],
    )
    def test_function_that_can_not_be_served_is_named(self, run: Callable[..., Any], problem: str) -> None:
        registry = Registry()
        with pytest.raises(DeclarationError, match=f"^operation {run.__name__}: {problem}"):
            operation(http="GET /x", registry=registry)(run)
        assert list(registry) == []

    def test_parameter_of_the_path_is_one_of_the_request(self) -> None:
        with pytest.raises(DeclarationError, match=r"^operation wide: its path has x, y, which its request lacks$"):
            operation(http="GET /{a}/{x}/{y+}", registry=Registry())(wide)

    def test_knowledge_base_in_the_path_is_no_field(self) -> None:
        registry = Registry()
        operation(http="GET /knowledge/{kbId}/narrow", registry=registry)(narrow)
        assert list(registry.routes) == ["GET /knowledge/{kbId}/narrow"]

    def test_tool_with_too_many_parameters_is_refused(self) -> None:
        message = f"^operation wide: a tool takes at most {MAX_FUNCTION_PARAMETERS} parameters, not 6$"
        with pytest.raises(DeclarationError, match=message):
            operation(tool=for_every_agent(), registry=Registry())(wide)

    def test_route_with_as_many_fields_is_not(self) -> None:
        registry = Registry()
        operation(http="GET /wide", registry=registry)(wide)
        assert "wide" in registry

    @pytest.mark.parametrize(
        ("first", "second", "problem"),
        [
            ((narrow, {}), (narrow, {}), "operation narrow: narrow has the same name"),
            (
                (narrow, {"http": "GET /x"}),
                (other, {"http": "GET /x"}),
                "operation other: narrow has the same route GET /x",
            ),
            (
                (narrow, {"command": "x"}),
                (other, {"command": "x"}),
                "operation other: narrow has the same command x",
            ),
        ],
    )
    def test_what_is_there_already_is_refused(self, first: Any, second: Any, problem: str) -> None:
        registry = Registry()
        operation(**first[1], registry=registry)(first[0])
        with pytest.raises(DeclarationError, match=f"^{problem}$"):
            operation(**second[1], registry=registry)(second[0])
        assert [one.name for one in registry] == ["narrow"]

    @pytest.mark.parametrize(
        ("declared", "problem"),
        [
            ({"http": "GET /moons/big"}, "MODULES doesn't list the address /moons for search"),
            ({"tool": Tool(OPERATIONS, "Use it.")}, "MODULES doesn't list the tool group query-operations for search"),
        ],
    )
    def test_module_that_would_not_be_looked_in_is_refused(
        self, monkeypatch: pytest.MonkeyPatch, declared: dict[str, Any], problem: str
    ) -> None:
        monkeypatch.setattr(narrow, "__module__", "opx.operations.search")
        with pytest.raises(DeclarationError, match=f"^operation narrow: {problem}$"):
            operation(**declared, registry=Registry())(narrow)

    def test_more_tools_for_every_agent_than_one_can_have_are_refused(self) -> None:
        registry = Registry()
        for number in range(MAX_TOOLS):
            operation(tool=for_every_agent(), registry=registry)(a_function(f"tool_{number}"))
        message = r"^operation narrow: an agent may have 11 tools, and tool_0, .*narrow are for every agent: "
        with pytest.raises(DeclarationError, match=message):
            operation(tool=for_every_agent(), registry=registry)(narrow)
        operation(tool=Tool(KNOWLEDGE, "Use it.", opt_in=True), registry=registry)(narrow)
        assert len(registry.tools(KNOWLEDGE)) == MAX_TOOLS + 1

    def test_it_fails_when_the_module_is_imported(self, tmp_path: Path) -> None:
        file = tmp_path / "wrong_operations.py"
        file.write_text(
            "from opx.operations.context import Context\n"
            "from opx.operations.documents import ListCategories, Categories\n"
            "from opx.operations.registry import operation\n\n"
            '@operation(http="GET /categories")\n'
            "def list_kinds(context: Context, request: ListCategories) -> Categories:\n"
            '    """List what list_categories lists."""\n'
        )
        spec = importlib.util.spec_from_file_location("wrong_operations", file)
        assert spec is not None
        assert spec.loader is not None
        with pytest.raises(
            DeclarationError, match="operation list_kinds: list_categories has the same route GET /categories"
        ):
            spec.loader.exec_module(importlib.util.module_from_spec(spec))
        assert "list_kinds" not in REGISTRY


def a_function(name: str) -> Callable[[Context, Nothing], Moon]:
    """An operation's function of this name."""

    def made(context: Context, request: Nothing) -> Moon:
        """Takes nothing."""
        return narrow(context, request)

    made.__name__ = name
    return made


def test_operations_are_in_the_same_order_whatever_was_declared_first() -> None:
    orders = []
    for runs in ((narrow, other, wide), (wide, other, narrow)):
        registry = Registry()
        for run in runs:
            operation(registry=registry)(run)
        orders.append([one.name for one in registry])
    assert orders == [["wide", "narrow", "other"]] * 2


def test_operation_that_was_removed_is_unknown() -> None:
    registry = Registry()
    operation(http="GET /x", command="x", registry=registry)(narrow)
    registry.remove("narrow")
    assert "narrow" not in registry
    assert registry.routes == {}
    operation(http="GET /x", command="x", registry=registry)(narrow)


LOOK_UP = """
import json, sys
from opx.operations import of_route, of_tool, registry
found = {call}
loaded = [one.name for one in registry.MODULES if "opx.operations." + one.name in sys.modules]
print(json.dumps([found and found.name, loaded]))
"""


@pytest.mark.parametrize(
    ("call", "name", "modules"),
    [
        ("of_route('GET /knowledge/{kbId}/search')", "search", ["search"]),
        ("of_route('POST /documents/{documentId}/restore')", "restore_document", ["documents", "corpus"]),
        ("of_route('GET /nowhere')", None, []),
        ("of_tool('search_docs', registry.KNOWLEDGE)", "search_docs", ["search", "research"]),
        ("of_tool('get_baseline', registry.OPERATIONS)", "get_baseline", ["telemetry"]),
    ],
)
def test_what_is_named_is_found_without_the_modules_of_others(call: str, name: str | None, modules: list[str]) -> None:
    run = subprocess.run(
        [sys.executable, "-c", LOOK_UP.replace("{call}", call)], capture_output=True, text=True, check=True
    )
    assert json.loads(run.stdout) == [name, modules]


def test_tool_of_another_group_is_not_found() -> None:
    assert of_tool("get_baseline", KNOWLEDGE) is None


def test_every_route_and_tool_is_found_by_its_name() -> None:
    for one in load():
        assert one.route is None or of_route(one.route.key) is one
        assert one.tool is None or of_tool(one.name, one.tool.group) is one
