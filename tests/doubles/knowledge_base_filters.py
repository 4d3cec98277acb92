"""Retrieval filters of the knowledge base double: checked as documented, then applied to metadata.

Sources: the service model of `bedrock-agent-runtime` (one member a filter, at least two in a group, keys of 1 to 100
characters) and the user guide's "Configure and customize queries" (at most five in a group, one level of embedding,
which values each operator takes).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

from tests.doubles.bedrock import refused

MAX_GROUP = 5
GROUPS = ("andAll", "orAll")

_NUMERIC: dict[str, Callable[[float, float], bool]] = {"greaterThanOrEquals": operator.ge, "lessThan": operator.lt}

Metadata = Mapping[str, Any]
Passes = Callable[[Metadata], bool]


def compiled(given: Any, depth: int = 0) -> Passes:
    """A predicate on metadata. Refuses what the service does."""
    if not isinstance(given, dict) or len(given) != 1:
        raise refused("filter must have exactly one member set")
    ((name, argument),) = given.items()
    return _group(name, argument, depth) if name in GROUPS else _comparison(name, argument)


def _group(name: str, members: Any, depth: int) -> Passes:
    if depth > 1:
        raise refused("filters can be embedded one level deep")
    if not isinstance(members, list) or not 2 <= len(members) <= MAX_GROUP:
        raise refused(f"{name} must have 2 to {MAX_GROUP} members")
    passes = [compiled(member, depth + 1) for member in members]
    combine = all if name == "andAll" else any
    return lambda metadata: combine(each(metadata) for each in passes)


def _comparison(name: str, argument: Any) -> Passes:
    if not isinstance(argument, dict) or argument.keys() != {"key", "value"}:
        raise refused(f"{name} takes key and value")
    key, value = argument["key"], argument["value"]
    if not isinstance(key, str) or not 1 <= len(key) <= 100:
        raise refused("a key has 1 to 100 characters")
    if name == "in" and isinstance(value, list) and value and all(isinstance(each, str) for each in value):
        return lambda metadata: isinstance(metadata.get(key), str) and metadata[key] in value
    if name == "equals" and isinstance(value, str | int | float | bool):
        return lambda metadata: metadata.get(key) == value
    if name in _NUMERIC and isinstance(value, int | float):
        compare = _NUMERIC[name]
        return lambda metadata: isinstance(metadata.get(key), int | float) and compare(metadata[key], value)
    if name == "listContains" and isinstance(value, str):
        return lambda metadata: isinstance(metadata.get(key), list) and value in metadata[key]
    raise refused(f"{name} does not take {value!r}, or the double does not know it")
