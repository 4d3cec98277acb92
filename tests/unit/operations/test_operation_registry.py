"""The registry: an operation that is declared can be reached by every edge, and is found by its name."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import anyio
import jsonschema
import pytest
from mcp.client.client import Client
from msgspec import Meta
from openapi_spec_validator import validate

from opx import operations
from opx.domain.policy import Action
from opx.domain.record import Record
from opx.domain.requests import Request, fields_of
from opx.domain.scopes import Identity
from opx.edges import http, schemas, tools
from opx.edges.calling import LocalClient, plain
from opx.edges.calling import text_of as text_for_agents
from opx.errors import InvalidInputError
from opx.operations import feeds, load, of_route, of_tool
from opx.operations.context import Caller, Context
from opx.operations.grants import ToolGrants, read_grants
from opx.operations.registry import KNOWLEDGE, REGISTRY, Feature, Function, Registry, Tool, operation
from opx.operations.system import System
from opx.settings import Settings
from opx.system import connect
from opx_serve.mcp import make_server, tools_for
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


class ListPlanets(Request, frozen=True):
    limit: Annotated[int, Meta(ge=1, le=10, description="Maximum number.")] = 10


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


def list_planets(context: Context, request: ListPlanets) -> Moons:
    """List planets."""
    return Moons("mars", context.identity.client_id, MARS[: request.limit])


@pytest.fixture(autouse=True)
def _declared(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    load()
    moons = "/planets/{planet}/moons"
    tool = Tool(KNOWLEDGE, DESCRIPTION, opt_in=True)
    operation(http=f"GET {moons}", command="moons", tool=tool)(count_moons)
    operation(http=f"POST {moons}", function=Function.MANAGE, status=201, action=Action.WRITE)(name_moon)
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

    def test_caller_without_write_scope_is_refused(self, services: System) -> None:
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
        assert post["security"] == [
            {"role": []},
            {"token": ["opx/write"]},
            {"token": ["opx/curate"]},
            {"token": ["opx/admin"]},
        ]
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

    def test_a_tool_without_required_arguments_is_in_a_valid_document(self) -> None:
        operation(tool=Tool(KNOWLEDGE, "List planets.", opt_in=True))(list_planets)
        try:
            validate(json.loads(schemas.documents()["retrieve-knowledge.openapi.json"]))
            assert "required" not in schemas.input_schema(REGISTRY.of(list_planets))
        finally:
            REGISTRY.remove("list_planets")


def is_it(described: dict[str, Any]) -> bool:
    return str(described["name"]) == "count_moons"


class TestTools:
    def replied(self, services: System, event: Any, context: FakeContext | None = None) -> dict[str, Any]:
        return tools.respond(event, context or FakeContext(), KNOWLEDGE, lambda: services, Measured())

    def test_gateway_gets_json(self, services: System) -> None:
        context = FakeContext.of_gateway("count_moons")
        assert self.replied(services, ARGUMENTS, context) == FOUND

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

    def test_error_of_the_operation_is_one_line(self, opx: Opx) -> None:
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
        assert (opx(command).exit_code, "there is no command" in opx(command).stderr) == (2, True)

    def test_call_lists_all_operations(self, opx: Opx) -> None:
        help_text = opx("call", "--help").stdout
        assert all(f"\n  {one.name} " in help_text for one in load())
        assert "\n  call " in opx("help", "all").stdout


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


LOOK_UP = """
import json, sys
from opx import operations
from opx.operations import of_route, of_tool, registry
found = {call}
loaded = [one.name for one in operations._modules() if one.path in sys.modules]
print(json.dumps([found and found.name, loaded]))
"""


@pytest.mark.parametrize(
    ("call", "name", "modules"),
    [
        ("of_route('GET /knowledge/{kbId}/search')", "search", ["search"]),
        ("of_route('POST /documents/{documentId}/restore')", "restore_document", ["documents", "corpus"]),
        ("of_route('GET /nowhere')", None, []),
        ("of_tool('search_docs', registry.KNOWLEDGE)", "search_docs", ["search", "search_tools"]),
        ("of_tool('get_baseline', registry.OPERATIONS)", "get_baseline", ["opx_telemetry.operations"]),
    ],
)
def test_look_up_of_an_operation_imports_only_its_modules(call: str, name: str | None, modules: list[str]) -> None:
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


def test_scheduled_work_that_cannot_be_imported_is_logged_and_the_rest_is_there(
    services: System, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    usable = feeds(services)
    known = {**operations.features(), "broken": Feature((), feeds=("opx_broken.hourly",))}
    monkeypatch.setattr(operations, "features", lambda: known)
    assert [type(one) for one in feeds(services)] == [type(one) for one in usable]
    assert usable
    assert "opx_broken.hourly of the plugin broken can't be used" in caplog.text
