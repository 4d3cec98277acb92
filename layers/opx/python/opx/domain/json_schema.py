"""Transformations of JSON Schemas that msgspec makes of types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def without_references(schema: Any, named: Mapping[str, Any]) -> Any:
    """The schema with the schemas that it refers to in place. `named` has these by the last part of the reference; they must
    not refer to themselves."""
    if isinstance(schema, list):
        return [without_references(one, named) for one in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        name = str(schema["$ref"]).rpartition("/")[2]
        more = {key: value for key, value in schema.items() if key != "$ref"}
        return {**without_references(named[name], named), **more}
    return {key: without_references(value, named) for key, value in schema.items()}
