"""Whether a value fits a JSON Schema, for the part of JSON Schema in which models are asked to answer."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from opx.errors import InvalidInputError

Schema = Mapping[str, Any]

_NOTES = frozenset({"$schema", "description", "title"})
_BOUNDS = frozenset({"maxItems", "maxLength", "maximum", "minItems", "minLength", "minimum"})
_KEYWORDS = _NOTES | _BOUNDS | {"additionalProperties", "enum", "items", "properties", "required", "type"}


def _is_number(value: object) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, int) and not isinstance(value, bool)


def _is_text(value: object) -> bool:
    """Unpaired surrogates can be written in JSON, and stored nowhere."""
    return isinstance(value, str) and not any("\ud800" <= character <= "\udfff" for character in value)


_TYPES: dict[str, Callable[[Any], bool]] = {
    "object": lambda value: isinstance(value, Mapping),
    "array": lambda value: isinstance(value, list | tuple),
    "string": _is_text,
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
    "number": _is_number,
    "integer": lambda value: _is_number(value) and value == int(value),
}


def first_problem(value: object, schema: Schema, where: str = "answer") -> str:
    """What is wrong with a value, and where in it; "" if it fits. Never quotes a text of the value.

    Knows `type` (one), `enum`, `properties`, `required`, `additionalProperties` (true or false), `items`, and the bounds
    of numbers, of lists and of texts (JSON Schema 2020-12). Numbers that aren't finite fit nothing. Raises
    `InvalidInputError` for a schema with anything else in it: it would not be checked.
    """
    return next(_problems(value, schema, where), "")


def without_bounds(schema: Schema) -> dict[str, Any]:
    """The same without the bounds of numbers, lists and texts, which services that generate by a schema refuse."""
    found: dict[str, Any] = {name: value for name, value in schema.items() if name not in _BOUNDS}
    if "properties" in found:
        found["properties"] = {name: without_bounds(inner) for name, inner in found["properties"].items()}
    if "items" in found:
        found["items"] = without_bounds(found["items"])
    return found


def _problems(value: Any, schema: Schema, where: str) -> Iterator[str]:
    unknown = sorted(schema.keys() - _KEYWORDS)
    kind = schema.get("type", "")
    if unknown or (kind and str(kind) not in _TYPES):
        raise InvalidInputError(f"the schema of {where} has what isn't checked: {unknown or kind!r}")
    if kind and not _TYPES[kind](value):
        yield f"{where} is not of type {kind}"
        return
    if "enum" in schema and value not in schema["enum"]:
        yield f"{where} is none of the values that are allowed"
    if isinstance(value, Mapping):
        yield from _problems_of_object(value, schema, where)
    elif isinstance(value, list | tuple):
        yield from _outside(len(value), schema.get("minItems"), schema.get("maxItems"), f"the length of {where}")
        for index, item in enumerate(value if "items" in schema else ()):
            yield from _problems(item, schema["items"], f"{where}[{index}]")
    elif isinstance(value, str):
        yield from _outside(len(value), schema.get("minLength"), schema.get("maxLength"), f"the length of {where}")
    elif _is_number(value):
        yield from _outside(value, schema.get("minimum"), schema.get("maximum"), where)


def _problems_of_object(value: Mapping[str, Any], schema: Schema, where: str) -> Iterator[str]:
    known: Mapping[str, Schema] = schema.get("properties", {})
    yield from (f"{where} has no {name}" for name in schema.get("required", ()) if name not in value)
    if schema.get("additionalProperties", True) is False and not value.keys() <= known.keys():
        yield f"{where} has members that are not allowed"
    for name, inner in known.items():
        if name in value:
            yield from _problems(value[name], inner, f"{where}.{name}")


def _outside(value: float, low: float | None, high: float | None, where: str) -> Iterator[str]:
    if low is not None and value < low:
        yield f"{where} is {value}, less than {low}"
    if high is not None and value > high:
        yield f"{where} is {value}, more than {high}"
