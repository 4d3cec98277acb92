"""The declarations of routes, and the document that is made from them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec import inspect
from openapi_spec_validator import validate

from opx.domain.policy import ADMIN_SCOPE, TABLE, Reach, Role, scopes_for
from opx.domain.queries import QueryConfig
from opx.domain.requests import FieldFacts, fields_of
from opx.edges import schemas
from opx.operations import load
from opx.operations.registry import Function, Operation

FOLDER = Path(__file__).parents[3] / "docs" / "api"
DOCUMENT = FOLDER / schemas.HTTP_FILE
ROUTED = load().routes
every_route = pytest.mark.parametrize("operation", ROUTED.values(), ids=lambda one: str(one.name))
every_operation = pytest.mark.parametrize("operation", list(load()), ids=lambda one: str(one.name))


@every_route
def test_writing_needs_a_scope_and_reading_does_not(operation: Operation[Any, Any]) -> None:
    scopes = scopes_for(operation.actions)
    assert operation.route is not None
    reports = (
        "list_audit_records",
        "list_prunings",
        "list_clients",
        "report_gap",
        "get_alert_use",
        "settle_gap",
        "assign_gap",
        "dismiss_contradiction",
    )
    is_report = operation.name in reports or operation.route.segment == "evaluations"
    assert bool(scopes) == (operation.route.function is Function.MANAGE or is_report)
    assert not scopes or ADMIN_SCOPE in scopes


@every_route
def test_no_route_takes_an_identity(operation: Operation[Any, Any]) -> None:
    """Project ids select what is managed, or the project of a learned entry, which callers of other projects are refused;
    they don't identify the caller."""
    assert operation.route is not None
    names = {field.json_name.lower() for field in fields_of(operation.request)}
    if operation.route.path in ("/learning/entries", "/learning/checkpoints"):
        names -= {"project_id", "projectid"}
    if any(TABLE[action][Role.WRITER] is not Reach.NONE for action in operation.actions):
        assert not {name for name in names if "client" in name or "project" in name or "scope" in name}


def test_a_question_is_configured_with_the_fields_of_the_library() -> None:
    (config,) = [one for one in fields_of(ROUTED["POST /knowledge/{kbId}/query"].request) if one.name == "config"]
    assert isinstance(config.kind, inspect.StructType)
    assert [one.json_name for one in fields_of(config.kind.cls)] == list(QueryConfig.__struct_encode_fields__)


@every_operation
def test_texts_and_lists_have_an_end(operation: Operation[Any, Any]) -> None:
    for field in fields_of(operation.request):
        assert _has_an_end(field.kind, field), field.name


def _has_an_end(kind: Any, field: FieldFacts) -> bool:
    while isinstance(kind, inspect.Metadata):
        kind = kind.type
    if isinstance(kind, inspect.StrType):
        return bool(kind.max_length is not None or kind.pattern or field.choices)
    if isinstance(kind, inspect.VarTupleType | inspect.ListType):
        return kind.max_length is not None and _has_an_end(kind.item_type, field)
    return True


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return schemas.openapi()


class TestDocument:
    def test_checked_in_document_is_current(self) -> None:
        for name, text in schemas.documents().items():
            assert (FOLDER / name).read_text(encoding="utf-8") == text, name

    def test_it_is_valid(self) -> None:
        validate(json.loads(schemas.documents()[schemas.HTTP_FILE]))

    def test_it_has_every_route(self) -> None:
        document = schemas.openapi()
        found = {f"{method.upper()} {path}" for path, methods in document["paths"].items() for method in methods}
        assert found == {key.replace("+}", "}") for key in ROUTED}

    @every_route
    def test_an_operation_declares_the_scopes_of_tokens(
        self, document: dict[str, Any], operation: Operation[Any, Any]
    ) -> None:
        route = operation.route
        assert route is not None
        described: dict[str, Any] = document["paths"][route.path.replace("+}", "}")][route.method.lower()]
        tokens = [scheme["token"] for scheme in described["security"] if "token" in scheme]
        assert tokens == ([[scope] for scope in scopes_for(operation.actions)] or [[]])
        assert {"role": []} in described["security"]

    def test_command_writes_the_same_bytes_every_time(self, tmp_path: Path) -> None:
        assert schemas.main([str(tmp_path / "new")]) == 0
        for file in FOLDER.glob("*.json"):
            assert (tmp_path / "new" / file.name).read_bytes() == file.read_bytes()

    def test_command_without_a_folder_prints_its_usage(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert schemas.main([]) == 2
        assert "usage" in capsys.readouterr().err
