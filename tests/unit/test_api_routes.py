"""The routes' declarations, and the document that is made from them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from openapi_spec_validator import validate

from opx.api import openapi
from opx.api.reading import ReadingApi
from opx.api.reading_routes import CONFIG_FIELDS
from opx.api.replies import REPLIES
from opx.api.routes import ROUTES, Function, Route, TokenScope
from opx.api.writing import WritingApi
from opx.domain.queries import QueryConfig

DOCUMENT = Path(__file__).parents[2] / "docs" / "api" / "http-api.json"
every_route = pytest.mark.parametrize("route", ROUTES.values(), ids=lambda route: str(route.name))


@every_route
def test_each_route_has_an_operation_and_a_reply(route: Route) -> None:
    operations = ReadingApi if route.function is Function.RETRIEVE else WritingApi
    assert callable(getattr(operations, route.name))
    assert route.name in REPLIES


def test_names_are_not_shared_and_nothing_else_is_described() -> None:
    names = [route.name for route in ROUTES.values()]
    assert len(set(names)) == len(names) == 61
    assert set(REPLIES) == set(names)


@every_route
def test_what_may_write_needs_a_scope_and_what_reads_does_not(route: Route) -> None:
    assert bool(route.scopes) == (route.function is Function.MANAGE or route.name == "audit")
    assert not route.scopes or TokenScope.ADMIN in route.scopes


@every_route
def test_no_route_takes_an_identity(route: Route) -> None:
    """Projects are named by those who manage them, and as that in which something was learned, which a caller of another
    project is refused; they don't say who asks."""
    names = {field.name.lower() for field in (*route.path_fields, *route.query, *(route.body or ()))}
    if route.path in ("/learning/entries", "/learning/checkpoints"):
        names -= {"project_id", "projectid"}
    if TokenScope.WRITE in route.scopes or not route.scopes:
        assert not {name for name in names if "client" in name or "project" in name or "scope" in name}


def test_a_question_is_configured_with_the_fields_of_the_library() -> None:
    assert [field.name for field in CONFIG_FIELDS] == list(QueryConfig.__struct_encode_fields__)


@every_route
def test_texts_and_lists_have_an_end(route: Route) -> None:
    for field in (*route.path_fields, *route.query, *(route.body or ())):
        assert field.maximum is not None or field.kind != "string" or field.choices or field.pattern, field.name
        assert field.most is not None or not field.repeated, field.name


class TestDocument:
    def test_checked_in_document_is_what_the_code_says(self) -> None:
        assert DOCUMENT.read_text(encoding="utf-8") == openapi.text()

    def test_it_is_valid(self) -> None:
        validate(json.loads(openapi.text()))

    def test_it_has_every_route(self) -> None:
        document = openapi.document()
        found = {f"{method.upper()} {path}" for path, methods in document["paths"].items() for method in methods}
        assert found == {key.replace("+}", "}") for key in ROUTES}

    @every_route
    def test_an_operation_says_what_a_token_needs(self, route: Route) -> None:
        operation: dict[str, Any] = openapi.document()["paths"][route.path.replace("+}", "}")][route.method.lower()]
        tokens = [scheme["token"] for scheme in operation["security"] if "token" in scheme]
        assert tokens == ([[scope.value] for scope in route.scopes] or [[]])
        assert {"role": []} in operation["security"]

    def test_command_writes_the_same_bytes_every_time(self, tmp_path: Path) -> None:
        assert openapi.main([str(tmp_path / "new")]) == 0
        assert (tmp_path / "new" / "http-api.json").read_bytes() == DOCUMENT.read_bytes()

    def test_command_without_a_folder_says_how_it_is_used(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert openapi.main([]) == 2
        assert "usage" in capsys.readouterr().err
