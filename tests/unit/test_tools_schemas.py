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
from opx.tools.declarations import TOOLS
from opx.tools.knowledge_tools import KnowledgeTools
from tests.agent_calls import DISK, DISK_TITLE, a_system, id_of

DOCS = Path(__file__).parents[2] / "docs" / "api"
MAX_OPERATIONS = 11
MAX_FUNCTION_PARAMETERS = 5


@pytest.mark.parametrize("name", ["openapi", "functions", "gateway"])
def test_checked_in_document_is_what_the_code_says(name: str) -> None:
    file = f"retrieve-knowledge.{name}.json"
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


def test_openapi_document_is_valid() -> None:
    document = schemas.openapi()
    validate(document)
    assert document["openapi"] == "3.0.3"


def test_every_operation_is_a_described_post_named_like_its_tool() -> None:
    paths = schemas.openapi()["paths"]
    assert len(paths) <= MAX_OPERATIONS
    for path, methods in paths.items():
        assert list(methods) == ["post"]
        assert path == f"/{methods['post']['operationId']}"
        assert methods["post"]["description"] == TOOLS[methods["post"]["operationId"]].description


def test_openapi_input_accepts_and_refuses_what_the_tool_does() -> None:
    operation = schemas.openapi()["paths"]["/search_runbooks"]["post"]
    schema = operation["requestBody"]["content"]["application/json"]["schema"]
    jsonschema.validate({"query": "q", "max_results": 20}, schema)
    for wrong in ({}, {"query": ""}, {"query": "q", "max_results": 21}, {"query": "q", "client_id": "acme"}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(wrong, schema)


@pytest.fixture
def answers(tmp_path: Path) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Real answers with their schemas."""
    from opx.domain.scopes import Identity

    with a_system(tmp_path) as system:
        tools = KnowledgeTools(system, Identity())
        return [
            (tools.search_runbooks(DISK_TITLE).to_json(), schemas.SEARCH_ANSWER),
            (tools.search_runbooks("unknown").to_json(), schemas.SEARCH_ANSWER),
            (tools.get_document_details(id_of(system, DISK)).to_json(), schemas.DOCUMENT),
        ]


def test_answers_are_as_described(answers: list[tuple[dict[str, Any], dict[str, Any]]]) -> None:
    for answer, schema in answers:
        jsonschema.validate(answer, schema)
        assert set(answer) == set(schema["properties"])


def test_bedrock_takes_the_function_details() -> None:
    report = ParamValidator().validate(schemas.functions(), _shape("bedrock-agent", "FunctionSchema"))
    assert report.generate_report() == ""
    for function in schemas.functions()["functions"]:
        assert len(function["parameters"]) <= MAX_FUNCTION_PARAMETERS
        assert len(function["description"]) <= 1200
        assert all(len(parameter["description"]) <= 500 for parameter in function["parameters"].values())


def test_gateway_takes_the_tool_schema() -> None:
    shape = _shape("bedrock-agentcore-control", "ToolDefinitions")
    report = ParamValidator().validate(json.loads(json.dumps(schemas.gateway())), shape)
    assert report.generate_report() == ""


def test_limits_are_in_the_descriptions_that_have_no_other_place_for_them() -> None:
    (parameter,) = [p for p in TOOLS["search_runbooks"].parameters if p.name == "max_results"]
    assert "From 1 to 20, 5 if not given." in parameter.description
    assert schemas.gateway()[0]["inputSchema"]["properties"]["max_results"]["description"] == parameter.description


def _shape(service: str, name: str) -> Any:
    return botocore.session.get_session().get_service_model(service).shape_for(name)
