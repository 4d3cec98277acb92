"""Matches records of streams against filters.

A pattern is an object whose leaves are lists of allowed values of a field: literal values, or one of the tests
`{"prefix": "a"}`, `{"suffix": "z"}`, `{"anything-but": [...]}`, `{"exists": true}`, `{"numeric": [">", 5, "<=", 9]}`,
`{"equals-ignore-case": "x"}`. All fields must match, each with any entry of its list; of the objects of `"$or"`
one must match. A field that is a list matches if one of its values does. Source: AWS Lambda Developer Guide, "Filter rule
syntax".

Lambda compares numbers as they are written (`300` is not `300.0`). Here they are compared by value: all that Lambda passes
matches here, too.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Mapping
from typing import Any

from opx.errors import InvalidInputError

MAX_PATTERN_BYTES = 4096
"""Size limit of a pattern in Lambda."""

MAX_DEPTH = 20
"""Levels of nested objects in a pattern."""

_OR = "$or"
_ABSENT = object()
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_TESTS = ("prefix", "suffix", "anything-but", "exists", "numeric", "equals-ignore-case")


def checked_pattern(pattern: Any) -> dict[str, Any]:
    """Returns a valid pattern. Raises `InvalidInputError` that names the wrong field."""
    if not isinstance(pattern, Mapping) or not pattern:
        raise InvalidInputError('a filter is an object such as {"severity": ["critical"]}')
    _check(pattern, "")
    try:
        size = len(json.dumps(pattern, allow_nan=False).encode())
    except (TypeError, ValueError) as exc:
        raise InvalidInputError(f"the filter can't be written as JSON: {exc}") from exc
    if size > MAX_PATTERN_BYTES - 100:
        raise InvalidInputError(
            f"the filter is longer than the {MAX_PATTERN_BYTES:,} bytes that are allowed; shorten it"
        )
    return dict(pattern)


def matches(pattern: Mapping[str, Any], record: Any) -> bool:
    """True if a record (as read from JSON) matches a checked pattern; one that is not an object matches none."""
    return isinstance(record, Mapping) and _fields_match(pattern, record)


def _fields_match(pattern: Mapping[str, Any], fields: Mapping[str, Any]) -> bool:
    return all(_field_matches(name, wanted, fields) for name, wanted in pattern.items())


def _field_matches(name: str, wanted: Any, fields: Mapping[str, Any]) -> bool:
    if name == _OR:
        return any(_fields_match(one, fields) for one in wanted)
    if isinstance(wanted, Mapping):
        return _within(wanted, fields.get(name))
    return _matches_any(wanted, fields.get(name, _ABSENT))


def _within(wanted: Mapping[str, Any], value: Any) -> bool:
    """True if a field's object, or one of those in its list, matches. A missing one has no fields."""
    values = value if isinstance(value, list) and value else [value]
    return any(_fields_match(wanted, each if isinstance(each, Mapping) else {}) for each in values)


def _matches_any(wanted: list[Any], value: Any) -> bool:
    values = value if isinstance(value, list) else [value]
    return any(_is(one, each) for one in wanted for each in values or [_ABSENT])


def _is(wanted: Any, value: Any) -> bool:
    if not isinstance(wanted, Mapping):
        comparable = type(wanted) is type(value) or (_is_number(wanted) and _is_number(value))
        return comparable and bool(wanted == value)
    ((test, argument),) = wanted.items()
    if test == "exists":
        return bool((value is not _ABSENT) == argument)
    if value is _ABSENT:
        return False
    return _TEST[test](argument, value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _numeric(argument: list[Any], value: Any) -> bool:
    pairs = zip(argument[::2], argument[1::2], strict=True)
    return _is_number(value) and all(_COMPARE[sign](value, number) for sign, number in pairs)


def _anything_but(argument: Any, value: Any) -> bool:
    return not any(_is(one, value) for one in (argument if isinstance(argument, list) else [argument]))


_TEST: dict[str, Callable[[Any, Any], bool]] = {
    "prefix": lambda argument, value: isinstance(value, str) and value.startswith(argument),
    "suffix": lambda argument, value: isinstance(value, str) and value.endswith(argument),
    "equals-ignore-case": lambda argument, value: isinstance(value, str) and value.casefold() == argument.casefold(),
    "numeric": _numeric,
    "anything-but": _anything_but,
}


def _check(pattern: Mapping[str, Any], path: str, depth: int = 0) -> None:
    for name, wanted in pattern.items():
        here = f"{path}.{name}".lstrip(".")
        if depth > MAX_DEPTH:
            raise InvalidInputError(f"the filter has objects within objects more than {MAX_DEPTH} deep")
        if name == _OR:
            _check_alternatives(wanted, here, depth)
        elif isinstance(wanted, Mapping):
            if not wanted:
                raise InvalidInputError(f"filter field {here!r} is an object without fields")
            _check(wanted, here, depth + 1)
        elif isinstance(wanted, list) and wanted:
            for one in wanted:
                _check_leaf(one, here)
        else:
            raise InvalidInputError(f"filter field {here!r} must be a list of allowed values, or an object of fields")


def _check_alternatives(wanted: Any, path: str, depth: int) -> None:
    if not isinstance(wanted, list) or len(wanted) < 2 or not all(isinstance(one, Mapping) and one for one in wanted):
        raise InvalidInputError(f"filter field {path!r} must be a list of two or more objects of fields")
    for one in wanted:
        _check(one, path, depth + 1)


def _check_leaf(wanted: Any, path: str) -> None:
    if not isinstance(wanted, Mapping):
        if isinstance(wanted, list):
            raise InvalidInputError(f"filter field {path!r}: a list within a list is not a test")
        return
    if len(wanted) != 1 or next(iter(wanted)) not in _TESTS:
        raise InvalidInputError(f"filter field {path!r}: unknown test {list(wanted)}; allowed: {', '.join(_TESTS)}")
    ((test, argument),) = wanted.items()
    if not _is_argument(test, argument):
        raise InvalidInputError(f"filter field {path!r}: {argument!r} is not a valid argument of {test}")


def _is_argument(test: str, argument: Any) -> bool:
    if test == "exists":
        return isinstance(argument, bool)
    if test == "anything-but":
        listed = argument if isinstance(argument, list) else [argument]
        return bool(listed) and all(isinstance(one, str) or _is_number(one) for one in listed)
    if test == "numeric":
        return (
            isinstance(argument, list)
            and len(argument) in (2, 4)
            and all(sign in _COMPARE for sign in argument[::2])
            and all(map(_is_number, argument[1::2]))
        )
    return isinstance(argument, str)
