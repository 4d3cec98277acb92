"""The interface documents: equal to the code, and valid for their consumers."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import botocore.session
import jsonschema
import pytest
from botocore.validate import ParamValidator
from openapi_spec_validator import validate

from opx.domain.requests import fields_of
from opx.domain.scopes import Identity
from opx.edges import schemas
from opx.edges.calling import plain
from opx.edges.tools import call_tool
from opx.operations import load
from opx.operations.context import Caller, Context
from opx.operations.registry import GROUPS, KNOWLEDGE, MAX_FUNCTION_PARAMETERS, MAX_TOOLS, ToolGroup
from opx.operations.system import System
from tests.support.agent_calls import DISK, DISK_TITLE, id_of, reply_schema

DOCS = Path(__file__).parents[3] / "docs" / "api"
KINDS = ("openapi", "functions", "gateway")
TOOLS = load().tools()
each_group = pytest.mark.parametrize("group", GROUPS, ids=lambda group: group.name)


def tools_of(group: ToolGroup) -> schemas.Tools:
    return tuple(load().tools(group).values())


def openapi(group: ToolGroup) -> dict[str, Any]:
    return schemas.tools_openapi(group, tools_of(group))


@pytest.mark.parametrize(
    "file", [schemas.HTTP_FILE, *(f"{group.name}.{kind}.json" for group in GROUPS for kind in KINDS)]
)
def test_checked_in_document_is_current(file: str) -> None:
    assert (DOCS / file).read_text(encoding="utf-8") == schemas.documents()[file]


def test_command_writes_the_same_bytes_every_time(tmp_path: Path) -> None:
    assert schemas.main([str(tmp_path / "new" / "folder")]) == 0
    written = {path.name: path.read_bytes() for path in (tmp_path / "new" / "folder").iterdir()}
    assert schemas.main([str(tmp_path / "new" / "folder")]) == 0
    assert written == {path.name: path.read_bytes() for path in (tmp_path / "new" / "folder").iterdir()}
    assert set(written) == set(schemas.documents())


def test_command_without_a_folder_prints_its_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert schemas.main([]) == 2
    assert "usage" in capsys.readouterr().err


@each_group
def test_openapi_document_is_valid(group: ToolGroup) -> None:
    document = openapi(group)
    validate(document)
    assert document["openapi"] == "3.0.3"


@each_group
def test_every_operation_is_a_described_post_named_like_its_tool(group: ToolGroup) -> None:
    paths = openapi(group)["paths"]
    assert len(paths) <= MAX_TOOLS
    for path, methods in paths.items():
        assert list(methods) == ["post"]
        assert path == f"/{methods['post']['operationId']}"
        tool = TOOLS[methods["post"]["operationId"]].tool
        assert tool is not None
        assert methods["post"]["description"] == tool.description


def test_openapi_input_accepts_and_refuses_what_the_tool_does() -> None:
    operation = openapi(KNOWLEDGE)["paths"]["/search_runbooks"]["post"]
    schema = operation["requestBody"]["content"]["application/json"]["schema"]
    jsonschema.validate({"query": "q", "max_results": 20}, schema)
    for wrong in ({}, {"query": ""}, {"query": "q", "max_results": 21}, {"query": "q", "client_id": "acme"}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(wrong, schema)


def test_openapi_document_contains_the_schemas_that_it_refers_to() -> None:
    part = schemas.tools_openapi(KNOWLEDGE, [TOOLS["search_docs"]])
    assert list(part["paths"]) == ["/search_docs"]
    assert {"DocsFound", "FoundDocument", "StepView", "NextCall", "Error"} <= set(part["components"]["schemas"])


@each_group
def test_everything_in_an_openapi_document_is_referred_to(group: ToolGroup) -> None:
    document = openapi(group)
    referred = set(re.findall(r'"#/components/schemas/(\w+)"', json.dumps(document)))
    assert referred == set(document["components"]["schemas"])


def test_input_lists_choices_and_default() -> None:
    thoroughness = schemas.input_schema(TOOLS["search_docs"])["properties"]["thoroughness"]
    assert thoroughness["enum"] == ["fast", "balanced", "thorough"]
    assert thoroughness["default"] == "balanced"


@pytest.mark.parametrize("name", TOOLS)
def test_tool_has_a_described_answer(name: str) -> None:
    schema = reply_schema(TOOLS[name])
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["type"] == "object"
    assert schema["properties"]
    assert "$ref" not in json.dumps(schema)


def answer_of(services: System, name: str, **arguments: object) -> dict[str, Any]:
    context = Context(services, Caller(Identity()))
    found: dict[str, Any] = plain(call_tool(TOOLS[name], context, arguments.items()))
    return found


@pytest.mark.parametrize(
    ("name", "argument"),
    [("search_runbooks", DISK_TITLE), ("search_runbooks", "unknown"), ("search_docs", DISK_TITLE)],
)
def test_answers_are_as_described(services: System, name: str, argument: str) -> None:
    answer, schema = answer_of(services, name, query=argument), reply_schema(TOOLS[name])
    jsonschema.validate(answer, schema)
    assert set(schema["required"]) <= set(answer) <= set(schema["properties"])


def test_details_are_as_described(services: System) -> None:
    answer = answer_of(services, "get_document_details", document_id=id_of(services, DISK))
    schema = reply_schema(TOOLS["get_document_details"])
    jsonschema.validate(answer, schema)
    assert set(answer) == set(schema["properties"])


@each_group
def test_bedrock_takes_the_function_details(group: ToolGroup) -> None:
    details = schemas.functions(tools_of(group))
    report = ParamValidator().validate(details, _shape("bedrock-agent", "FunctionSchema"))
    assert report.generate_report() == ""
    types = set(_shape("bedrock-agent", "Type").enum)
    for function in details["functions"]:
        assert {parameter["type"] for parameter in function["parameters"].values()} <= types
        assert len(function["parameters"]) <= MAX_FUNCTION_PARAMETERS
        assert len(function["description"]) <= 1200
        assert all(len(parameter["description"]) <= 500 for parameter in function["parameters"].values())


@each_group
def test_gateway_takes_the_tool_schema(group: ToolGroup) -> None:
    shape = _shape("bedrock-agentcore-control", "ToolDefinitions")
    report = ParamValidator().validate(json.loads(json.dumps(schemas.gateway(tools_of(group)))), shape)
    assert report.generate_report() == ""


def test_limits_are_in_the_descriptions_that_have_no_other_place_for_them() -> None:
    (field,) = [one for one in fields_of(TOOLS["search_runbooks"].request) if one.name == "max_results"]
    described = schemas.description(field)
    assert "From 1 to 20, 5 if not given." in described
    (tool,) = schemas.gateway([TOOLS["search_runbooks"]])
    assert tool["inputSchema"]["properties"]["max_results"]["description"] == described


def _shape(service: str, name: str) -> Any:
    return botocore.session.get_session().get_service_model(service).shape_for(name)
