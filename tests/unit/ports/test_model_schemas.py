"""Answers of models as typed records: what fits is what a whole implementation of JSON Schema says of the schema that is
sent."""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

import jsonschema
import pytest
from msgspec import Meta

from opx.errors import InvalidInputError
from opx.ports.models import ModelAnswer, answer_schema, read_answer, without_bounds


class Step(ModelAnswer, frozen=True):
    text: Annotated[str, Meta(min_length=1, max_length=5)]
    at: int


class Plan(ModelAnswer, frozen=True):
    """A plan, in words for programmers."""

    steps: Annotated[tuple[Step, ...], Meta(min_length=1, max_length=2)]
    done: bool
    share: Annotated[float, Meta(ge=0, le=1)]
    kind: Literal["a", "b"]
    tone: Annotated[str, Meta(pattern="^(warm|cold)$", extra_json_schema={"enum": ["warm", "cold"]})]


STEP = {"text": "one", "at": 1}
PLAN: dict[str, Any] = {"steps": [STEP], "done": True, "share": 0.5, "kind": "a", "tone": "warm"}
VALUES: list[Any] = [
    PLAN,
    {**PLAN, "steps": [STEP, {"text": "two", "at": 2.0}], "share": 0, "kind": "b", "tone": "cold"},
    {**PLAN, "more": 1},
    {**PLAN, "steps": []},
    {**PLAN, "steps": [STEP] * 3},
    {**PLAN, "steps": [{**STEP, "text": ""}]},
    {**PLAN, "steps": [{**STEP, "text": "longer"}]},
    {**PLAN, "steps": [{**STEP, "text": 1}]},
    {**PLAN, "steps": [{"at": 1}]},
    {**PLAN, "steps": [{**STEP, "more": 1}]},
    {**PLAN, "steps": [{**STEP, "at": 1.5}]},
    {**PLAN, "steps": [{**STEP, "at": True}]},
    {**PLAN, "steps": [{**STEP, "at": "1"}]},
    {**PLAN, "steps": STEP},
    {**PLAN, "done": 1},
    {**PLAN, "done": None},
    {**PLAN, "share": 1.01},
    {**PLAN, "share": -1},
    {**PLAN, "share": True},
    {**PLAN, "kind": "c"},
    {**PLAN, "tone": "grey"},
    {},
    [],
    "text",
    None,
]


def fits(value: Any) -> bool:
    try:
        read_answer(Plan, value)
    except InvalidInputError:
        return False
    return True


@pytest.mark.parametrize("value", VALUES, ids=lambda value: str(value)[:60])
def test_accepted_values_match_a_full_json_schema_implementation(value: Any) -> None:
    assert fits(value) == jsonschema.Draft202012Validator(answer_schema(Plan)).is_valid(value)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_numbers_that_are_not_finite_fit_nothing(value: float) -> None:
    assert not fits({**PLAN, "share": value})


def test_texts_that_can_not_be_stored_fit_nothing() -> None:
    assert not fits({**PLAN, "steps": [{**STEP, "text": "\ud800"}]})


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        ({"steps": [{**STEP, "text": "payroll"}]}, "Expected `str` of length <= 5 - at `$.steps[0].text`"),
        ({"kind": "payroll"}, "it is none of the values that are allowed - at `$.kind`"),
        ({"tone": "payroll"}, "it is none of the values that are allowed - at `$.tone`"),
        ({"payroll": 1}, "it has members that are not allowed"),
    ],
)
def test_a_problem_names_its_location_and_quotes_nothing(wrong: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidInputError) as raised:
        read_answer(Plan, {**PLAN, **wrong})
    assert str(raised.value) == problem


def test_the_schema_has_no_references_and_nothing_for_programmers() -> None:
    schema = answer_schema(Plan)
    assert (schema["type"], schema["additionalProperties"], set(schema)) == (
        "object",
        False,
        {"type", "properties", "required", "additionalProperties"},
    )
    assert schema["required"] == ["steps", "done", "share", "kind", "tone"]
    assert schema["properties"]["steps"]["items"]["properties"]["at"] == {"type": "integer"}
    assert schema["properties"]["tone"] == {"type": "string", "enum": ["warm", "cold"]}


def test_bounds_are_taken_out_everywhere_and_nothing_else_is() -> None:
    bare = without_bounds(answer_schema(Plan))
    assert "minItems" not in bare["properties"]["steps"]
    assert bare["properties"]["steps"]["items"]["properties"]["text"] == {"type": "string"}
    assert bare["properties"]["steps"]["items"]["required"] == ["text", "at"]
    assert "minItems" in answer_schema(Plan)["properties"]["steps"]
