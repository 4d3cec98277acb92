"""The part of JSON Schema in which models are asked to answer, compared with a whole implementation of it."""

from __future__ import annotations

import math
from typing import Any

import jsonschema
import pytest

from opx.errors import InvalidInputError
from opx.models.schema import first_problem, without_bounds

SCHEMA: dict[str, Any] = {
    "type": "object",
    "description": "a plan",
    "properties": {
        "steps": {
            "type": "array",
            "minItems": 1,
            "maxItems": 2,
            "items": {
                "type": "object",
                "properties": {"text": {"type": "string", "minLength": 1, "maxLength": 5}, "at": {"type": "integer"}},
                "required": ["text"],
                "additionalProperties": False,
            },
        },
        "done": {"type": "boolean"},
        "share": {"type": "number", "minimum": 0, "maximum": 1},
        "kind": {"enum": ["a", "b", None]},
        "nothing": {"type": "null"},
    },
    "required": ["steps"],
}
VALUES: list[Any] = [
    {"steps": [{"text": "one"}]},
    {"steps": [{"text": "one", "at": 1}, {"text": "two", "at": 2.0}], "done": True, "share": 0, "kind": "a"},
    {"steps": [{"text": "one"}], "nothing": None, "more": 1, "kind": None},
    {"steps": []},
    {"steps": [{"text": "1"}] * 3},
    {"steps": [{"text": ""}]},
    {"steps": [{"text": "longer"}]},
    {"steps": [{"text": 1}]},
    {"steps": [{"at": 1}]},
    {"steps": [{"text": "one", "more": 1}]},
    {"steps": [{"text": "one", "at": 1.5}]},
    {"steps": [{"text": "one", "at": True}]},
    {"steps": [{"text": "one", "at": 10**400}]},
    {"steps": {"text": "one"}},
    {"steps": [{"text": "one"}], "done": 1},
    {"steps": [{"text": "one"}], "share": 1.01},
    {"steps": [{"text": "one"}], "share": -1},
    {"steps": [{"text": "one"}], "share": True},
    {"steps": [{"text": "one"}], "kind": "c"},
    {"steps": [{"text": "one"}], "nothing": 0},
    {},
    [],
    "text",
    None,
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: str(value)[:60])
def test_what_fits_is_what_a_whole_implementation_says(value: Any) -> None:
    assert (first_problem(value, SCHEMA) == "") == jsonschema.Draft202012Validator(SCHEMA).is_valid(value)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_numbers_that_are_not_finite_fit_nothing(value: float) -> None:
    assert first_problem(value, {"type": "number"})


def test_texts_that_can_not_be_stored_fit_nothing() -> None:
    assert first_problem("\ud800", {"type": "string"})


def test_a_problem_says_where_it_is_and_quotes_nothing() -> None:
    assert first_problem({"steps": [{"text": "payroll"}]}, SCHEMA) == (
        "the length of answer.steps[0].text is 7, more than 5"
    )


@pytest.mark.parametrize(
    "schema", [{"type": "string", "pattern": "a+"}, {"anyOf": []}, {"type": ["string", "null"]}, {"type": "text"}]
)
def test_a_schema_that_could_not_be_checked_in_full_is_refused(schema: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError, match="isn't checked"):
        first_problem("a", schema)


def test_bounds_are_taken_out_everywhere_and_nothing_else_is() -> None:
    bare = without_bounds(SCHEMA)
    assert "minItems" not in bare["properties"]["steps"]
    assert bare["properties"]["steps"]["items"]["properties"]["text"] == {"type": "string"}
    assert bare["properties"]["steps"]["items"]["required"] == ["text"]
    assert "minItems" in SCHEMA["properties"]["steps"]
