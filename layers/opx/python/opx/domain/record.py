"""Records: types that are declared once. JSON both ways, their JSON Schema and table rows follow from the declaration.

A record is a `msgspec.Struct`: its fields have JSON names in camelCase, `from_json` checks types and bounds, and `replace`
makes a changed copy.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from copy import copy
from typing import Any, Self, TypeVar

import msgspec
from msgspec import inspect, structs

from opx.errors import InvalidInputError

Json = dict[str, Any]
INTERNAL = "x-internal"
"""Marks a field in `extra_json_schema` that is UNSET in all output, so that no schema has it."""

R = TypeVar("R")
S = TypeVar("S", bound=msgspec.Struct)


class Record(msgspec.Struct, frozen=True, rename="camel"):
    """Base of records. Immutable, compared by value, hashable if its fields are."""

    def to_json(self) -> Json:
        """Plain objects with the JSON names of the fields."""
        found: Json = to_json(self)
        return found

    @classmethod
    def from_json(cls, data: object) -> Self:
        """The record that `to_json` was called on. Raises as `from_json` of this module."""
        return from_json(cls, data)


class Draft(msgspec.Struct, rename="camel"):
    """A mutable record that is filled in step by step, such as a report or the state of a job. Not thread-safe."""

    def to_json(self) -> Json:
        """Plain objects with the JSON names of the fields."""
        found: Json = to_json(self)
        return found


def to_json(record: object) -> Any:
    """The JSON of a record or of a collection of records, as plain objects."""
    return _listed(msgspec.to_builtins(record))


def _listed(value: Any) -> Any:
    """The value with lists instead of tuples."""
    if isinstance(value, dict):
        return {name: _listed(inner) for name, inner in value.items()}
    return [_listed(inner) for inner in value] if isinstance(value, list | tuple) else value


_PREPARED: set[object] = set()
_PREPARING = threading.Lock()


def prepared(kind: type[R]) -> type[R]:
    """The type, with msgspec's description of it made by one thread. msgspec 0.22 makes it with the first conversion,
    decoder, schema or inspection, and a second thread that converts meanwhile sees half of it and ends the process."""
    if kind not in _PREPARED:
        with _PREPARING:
            with suppress(msgspec.ValidationError):
                msgspec.convert(None, kind)
            _PREPARED.add(kind)
    return kind


def type_info(kind: Any) -> inspect.Type:
    """msgspec's description of a type, for any thread."""
    with _PREPARING:
        return inspect.type_info(kind)


def schema_components(kinds: Sequence[Any], ref_template: str) -> tuple[tuple[Json, ...], Json]:
    """JSON Schemas of the types, and those of records by name, for any thread."""
    with _PREPARING:
        return msgspec.json.schema_components(kinds, ref_template=ref_template)


def from_json(kind: type[R], data: object) -> R:
    """The record of this type in `data`, plain objects as `json.loads` gives them. Fields that the type doesn't have are
    ignored. Raises `InvalidInputError` for a missing field, or a value of another type."""
    try:
        return msgspec.convert(data, prepared(kind))
    except (msgspec.ValidationError, UnicodeEncodeError) as exc:  # the latter: half a surrogate pair
        raise InvalidInputError(f"this is no {kind.__name__} as it should be: {exc}") from exc


def replace(thing: R, /, **changes: Any) -> R:
    """A copy with other values of some fields: of a record, or of a data class, as `copy.replace` of Python 3.13."""
    if isinstance(thing, msgspec.Struct):
        return structs.replace(thing, **changes)
    found: R = dataclasses.replace(thing, **changes)  # type: ignore[type-var]
    return found


def like(kind: type[S], thing: object, /, **others: Any) -> S:
    """A record of this type with the attributes of a thing that have the names of its fields; some have other values."""
    same = (name for name in kind.__struct_fields__ if name not in others and hasattr(thing, name))
    return kind(**{name: getattr(thing, name) for name in same}, **others)


def about(description: str, **bounds: Any) -> msgspec.Meta:
    """The description of a field, which schemas and help have, and its bounds."""
    return msgspec.Meta(description=description, **bounds)


def derive(record: Record, **fields: object) -> None:
    """Set fields that follow from others, within `__post_init__`."""
    for name, value in fields.items():
        structs.force_setattr(record, name, value)


def rounded(value: float | None, digits: int = 6) -> float | None:
    """A number rounded to the precision of records."""
    return None if value is None else round(value, digits)


def always(value: R) -> R:
    """A default that is written to JSON also in a record with `omit_defaults`, which leaves out default values."""

    def made() -> R:  # msgspec leaves out nothing that a function of ours made
        return copy(value)

    found: R = msgspec.field(default_factory=made)
    return found


# -- json schema


def without_references(schema: Any, named: Mapping[str, Any]) -> Any:
    """The schema with referenced schemas inlined. `named` has these by the last part of the reference; they must not
    refer to themselves."""
    if isinstance(schema, list):
        return [without_references(one, named) for one in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        name = str(schema["$ref"]).rpartition("/")[2]
        more = {key: value for key, value in schema.items() if key != "$ref"}
        return {**without_references(named[name], named), **more}
    return {key: without_references(value, named) for key, value in schema.items()}
