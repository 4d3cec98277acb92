"""Answers of language models: typed records, checked by msgspec, and the JSON Schema by which models are asked for them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from opx.domain.json_schema import without_references
from opx.errors import InvalidInputError

Schema = Mapping[str, Any]
A = TypeVar("A", bound="ModelAnswer")

_BOUNDS = frozenset({"maxItems", "maxLength", "maximum", "minItems", "minLength", "minimum", "pattern"})
_REFERENCE = "#/{name}"
_QUOTED = re.compile(r"Invalid enum value .*?(?= - at |\Z)|Expected `str` matching regex .*?(?= - at |\Z)", re.DOTALL)
_UNKNOWN = re.compile(r"Object contains unknown field `.*?`(?= - at |\Z)", re.DOTALL)


class ModelAnswer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Base of answers, and of the objects in them. Fields have no defaults: some services want all of them required."""


def read_answer(kind: type[A], content: object) -> A:
    """The record in what a model said. Whole numbers may be written as 2.0; numbers that aren't finite, and strings that
    can't be stored, fit nothing. Raises `InvalidInputError` that says where it doesn't fit, and quotes nothing of it."""
    try:
        written = json.dumps(content, ensure_ascii=False, allow_nan=False)
        written.encode("utf-8")
        return msgspec.convert(json.loads(written, parse_float=_number), kind)
    except msgspec.ValidationError as exc:
        problem = _UNKNOWN.sub("it has members that are not allowed", str(exc))
        problem = _QUOTED.sub("it is none of the values that are allowed", problem)
        raise InvalidInputError(problem) from None
    except (TypeError, ValueError, RecursionError) as exc:
        raise InvalidInputError(f"it can't be written as JSON: {type(exc).__name__}") from None


def _number(text: str) -> float:
    found = float(text)
    return int(found) if found.is_integer() else found


def answer_schema(kind: type[ModelAnswer]) -> Schema:
    """The JSON Schema of an answer, without references."""
    (schema,), named = msgspec.json.schema_components([kind], ref_template=_REFERENCE)
    found: Schema = json.loads(msgspec.json.encode(_plain(without_references(schema, named))))
    return found


def _plain(schema: Any) -> Any:
    """Without names and docstrings of record types, and without patterns of what is listed anyway."""
    if isinstance(schema, list):
        return [_plain(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    left_out = {"pattern"} if "enum" in schema else set()
    if "properties" in schema:
        left_out |= {"title", "description"}
    return {name: _plain(inner) for name, inner in schema.items() if name not in left_out}


def without_bounds(schema: Schema) -> dict[str, Any]:
    """The same without the bounds of numbers, lists and strings, which services that generate by a schema refuse."""
    found: dict[str, Any] = {name: value for name, value in schema.items() if name not in _BOUNDS}
    if "properties" in found:
        found["properties"] = {name: without_bounds(inner) for name, inner in found["properties"].items()}
    if "items" in found:
        found["items"] = without_bounds(found["items"])
    return found
