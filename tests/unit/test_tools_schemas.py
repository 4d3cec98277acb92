"""The interface documents: equal to the code, and valid for what reads them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import botocore.session
import jsonschema
import pytest
from botocore.validate import ParamValidator
from openapi_spec_validator import validate

from opx.tools import schemas
from opx.tools.answer_schemas import DOCS_ANSWER, DOCUMENT, SEARCH_ANSWER
from opx.tools.declarations import MAX_FUNCTION_PARAMETERS, MAX_TOOLS, ToolGroup
from opx.tools.groups import GROUPS, TOOLS
from opx.tools.knowledge_group import KNOWLEDGE_GROUP
from opx.tools.knowledge_tools import KnowledgeTools
from tests.agent_calls import DISK, DISK_TITLE, a_system, id_of

DOCS = Path(__file__).parents[2] / "docs" / "api"
KINDS = ("openapi", "functions", "gateway")
each_group = pytest.mark.parametrize("group", GROUPS, ids=lambda group: group.name)


@pytest.mark.parametrize("file", [f"{group.name}.{kind}.json" for group in GROUPS for kind in KINDS])
def test_checked_in_document_is_what_the_code_says(file: str) -> None:
    assert (DOCS / file).read_text(encoding="utf-8") == schemas.documents()[file]


def test_command_writes_the_same_bytes_every_time(tmp_path: Path) -> None:
    assert schemas.main([str(tmp_path / "new" / "folder")]) == 0
    written = {path.name: path.read_bytes() for path in (tmp_path / "new" / "folder").iterdir()}
    assert schemas.main([str(tmp_path / "new" / "folder")]) == 0
    assert written == {path.name: path.read_bytes() for path in (tmp_path / "new" / "folder").iterdir()}
    assert set(written) == set(schemas.documents())


def test_command_without_a_folder_says_how_it_is_used(capsys: pytest.CaptureFixture[str]) -> None:
    assert schemas.main([]) == 2
    assert "usage" in capsys.readouterr().err


@each_group
def test_openapi_document_is_valid(group: ToolGroup) -> None:
    document = schemas.openapi(group)
    validate(document)
    assert document["openapi"] == "3.0.3"


@each_group
def test_every_operation_is_a_described_post_named_like_its_tool(group: ToolGroup) -> None:
    paths = schemas.openapi(group)["paths"]
    assert len(paths) <= MAX_TOOLS
    for path, methods in paths.items():
        assert list(methods) == ["post"]
        assert path == f"/{methods['post']['operationId']}"
        assert methods["post"]["description"] == TOOLS[methods["post"]["operationId"]].description


def test_openapi_input_accepts_and_refuses_what_the_tool_does() -> None:
    operation = schemas.openapi(KNOWLEDGE_GROUP)["paths"]["/search_runbooks"]["post"]
    schema = operation["requestBody"]["content"]["application/json"]["schema"]
    jsonschema.validate({"query": "q", "max_results": 20}, schema)
    for wrong in ({}, {"query": ""}, {"query": "q", "max_results": 21}, {"query": "q", "client_id": "acme"}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(wrong, schema)


def test_what_an_openapi_document_refers_to_is_in_it() -> None:
    part = schemas.openapi(KNOWLEDGE_GROUP.only({"search_docs"}))
    assert list(part["paths"]) == ["/search_docs"]
    assert list(part["components"]["schemas"]) == ["DocsAnswer", "Error"]


def test_input_lists_choices_and_default() -> None:
    thoroughness = schemas.input_schema(TOOLS["search_docs"])["properties"]["thoroughness"]
    assert thoroughness["enum"] == ["fast", "balanced", "thorough"]
    assert thoroughness["default"] == "balanced"


def test_tool_has_a_described_answer() -> None:
    assert set(schemas.ANSWERS) == set(TOOLS)


@pytest.fixture
def answers(tmp_path: Path) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Real answers with their schemas."""
    from opx.domain.scopes import Identity

    with a_system(tmp_path) as system:
        tools = KnowledgeTools(system, Identity())
        return [
            (tools.search_runbooks(DISK_TITLE).to_json(), SEARCH_ANSWER),
            (tools.search_runbooks("unknown").to_json(), SEARCH_ANSWER),
            (tools.search_docs(DISK_TITLE).to_json(), DOCS_ANSWER),
            (tools.get_document_details(id_of(system, DISK)).to_json(), DOCUMENT),
        ]


def test_answers_are_as_described(answers: list[tuple[dict[str, Any], dict[str, Any]]]) -> None:
    for answer, schema in answers:
        jsonschema.validate(answer, schema)
        assert set(answer) == set(schema["properties"])


@each_group
def test_bedrock_takes_the_function_details(group: ToolGroup) -> None:
    details = schemas.functions(group)
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
    report = ParamValidator().validate(json.loads(json.dumps(schemas.gateway(group))), shape)
    assert report.generate_report() == ""


def test_limits_are_in_the_descriptions_that_have_no_other_place_for_them() -> None:
    (parameter,) = [p for p in TOOLS["search_runbooks"].parameters if p.name == "max_results"]
    assert "From 1 to 20, 5 if not given." in parameter.description
    assert (
        schemas.gateway(KNOWLEDGE_GROUP)[0]["inputSchema"]["properties"]["max_results"]["description"]
        == parameter.description
    )


def _shape(service: str, name: str) -> Any:
    return botocore.session.get_session().get_service_model(service).shape_for(name)
