"""Decodes replies of external services to typed records: declared once, validated by msgspec, errors name the field.

    class Issue(Shape, frozen=True):
        number: int
        title: Filled
        assignee: Loose[Person] = Person()

Undeclared fields are ignored, and null counts as missing. A reply of a changed source is never half read: a field of
another type is refused, unless it is `Loose`, when it counts as missing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import cache
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta, inspect

from opx.domain.ids import utc_time
from opx.domain.record import prepared, type_info
from opx.errors import InvalidInputError, SourceShapeError

S = TypeVar("S", bound="Shape")
T = TypeVar("T")

Loose = Annotated[T, Meta(extra={"loose": True})]
"""A value of another type counts as missing; as an item of a list it is left out."""

Words = Annotated[str, Meta(extra={"words": True})]
"""A string or a number, decoded as a string that every store accepts, stripped of white space."""

NeededWords = Annotated[str, Meta(min_length=1, extra={"words": True})]
Filled = Annotated[str, Meta(pattern=r"\S")]
"""A string that is not blank."""

_WORDS = {
    "str": "a string",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "object": "an object",
    "array": "a list",
}
_KINDS: dict[type, str] = {str: "str", bool: "bool", int: "int", float: "float", list: "array"}
_CHANGED = "the source's format may have changed"
_MISSING = re.compile(r"Object missing required field `(\w+)`")
_EXPECTED = re.compile(r"Expected `([^`]+)`(?:, got `([^`]+)`)?")
_PLACE = re.compile(r" - at `\$\.?(.*)`\Z")


class Shape(msgspec.Struct, frozen=True):
    """Base of the records decoded from a vendor's objects."""


class Named(Shape, frozen=True):
    name: Loose[str] = ""


Names = tuple[Loose[str | Named], ...]
"""Names, or objects that have one. Other values are left out."""


def texts_of(names: Names) -> list[str]:
    """The names that are not empty."""
    return list(filter(None, (one if isinstance(one, str) else one.name for one in names)))


class OddRecordError(Exception):
    """One record is invalid; the others may be valid."""


def shaped(kind: type[S], value: object, of: str = "", error: Callable[[str], Exception] = SourceShapeError) -> S:
    """Decodes a value of a reply. Raises `error` that names the field and the expected type; `of` names the record."""
    info = _info(kind)
    try:
        return msgspec.convert(_present(info, value), prepared(kind))
    except (msgspec.ValidationError, RecursionError, UnicodeEncodeError) as exc:  # the last: half a surrogate pair
        problem = _problem(exc) if isinstance(value, dict) else _no_object(info, value)
        raise error(f"{of}: {problem}; {_CHANGED}" if of else f"{problem}; {_CHANGED}") from exc


def odd(kind: type[S], value: object) -> S:
    """Like `shaped`, where the other records of a reply may be valid. Raises `OddRecordError`."""
    return shaped(kind, value, error=OddRecordError)


def each_of(kind: type[S], values: Iterable[object], of: str) -> list[S]:
    """Decodes each value to a record. Raises `SourceShapeError`."""
    return [shaped(kind, value, of) for value in values]


def _present(kind: inspect.Type, value: Any) -> Any:
    """The declared part of a value, without nulls and without loose values of another type."""
    marks = getattr(kind, "extra", None) or {}
    while isinstance(kind, inspect.Metadata):
        kind = kind.type
    if "words" in marks:
        return _as_words(value)
    if isinstance(kind, inspect.UnionType):
        kind = next((one for one in kind.types if _is_of(one, value)), kind)
    if isinstance(kind, inspect.StructType) and isinstance(value, dict):
        found = ((one.encode_name, one.type, value.get(one.encode_name)) for one in kind.fields)
        return {name: _present(inner, one) for name, inner, one in found if one is not None and _is_kept(inner, one)}
    if isinstance(kind, inspect.VarTupleType | inspect.ListType) and isinstance(value, list):
        return [_present(kind.item_type, one) for one in value if _is_kept(kind.item_type, one)]
    if (
        isinstance(kind, inspect.DictType)
        and isinstance(value, dict)
        and not isinstance(kind.value_type, inspect.AnyType)
    ):
        return {name: _present(kind.value_type, one) for name, one in value.items() if _is_kept(kind.value_type, one)}
    return value


def _is_kept(kind: inspect.Type, value: object) -> bool:
    return "loose" not in (getattr(kind, "extra", None) or {}) or _is_of(kind, value)


def _is_of(kind: inspect.Type, value: object) -> bool:
    while isinstance(kind, inspect.Metadata):
        kind = kind.type
    if isinstance(kind, inspect.UnionType):
        return any(_is_of(one, value) for one in kind.types)
    if isinstance(value, bool):
        return isinstance(kind, inspect.BoolType)
    kinds = next((found for of, found in _OF.items() if isinstance(value, of)), ())
    return isinstance(kind, (*kinds, inspect.AnyType))


_OF: dict[type, tuple[type, ...]] = {
    str: (inspect.StrType,),
    int: (inspect.IntType, inspect.FloatType),
    float: (inspect.FloatType,),
    dict: (inspect.StructType, inspect.DictType),
    list: (inspect.VarTupleType, inspect.ListType),
}


def _as_words(value: object) -> object:
    """Replaces characters that no store accepts: halves of surrogate pairs, which no UTF-8 has, and NUL, which ends
    strings."""
    if isinstance(value, bool) or not isinstance(value, str | int | float | None):
        return value
    text = (
        ("" if value is None else str(value))
        .replace("\0", "")
        .encode("utf-16", "surrogatepass")
        .decode("utf-16", "replace")
    )
    return text.strip()


@cache
def _info(kind: type[Shape]) -> inspect.StructType:
    found = type_info(kind)
    assert isinstance(found, inspect.StructType)
    return found


def _problem(error: Exception) -> str:
    """Translates msgspec's message to plain English."""
    message = str(error)
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    place = _PLACE.search(message)
    at = place[1] if place else ""
    missing = _MISSING.match(message)
    if missing:
        return f"the field {f'{at}.{missing[1]}'.lstrip('.')!r} is missing"
    expected = _EXPECTED.match(message)
    requirement = f"should be {_named(expected[1])}" if expected else message
    got = f", not {_named(expected[2])}" if expected and expected[2] else " that is not empty" if expected else ""
    return f"the field {at!r} {requirement}{got}"


def _no_object(info: inspect.StructType, value: object) -> str:
    needed = " and ".join(repr(one.encode_name) for one in info.fields if one.required)
    kind = next((name for of, name in _KINDS.items() if isinstance(value, of)), "null")
    return f"it should be an object{f' with {needed}' if needed else ''}, not {_WORDS.get(kind, kind)}"


def _named(kind: str) -> str:
    return " or ".join(_WORDS.get(one, one) for one in kind.split(" | ") if one != "null" or kind == "null")


# -- times


def utc(text: str, of: str = "time") -> str:
    """Converts a time to ISO 8601 in UTC; one without a zone is UTC. Raises `OddRecordError`."""
    moment = utc_time(text)
    if moment is None:
        raise OddRecordError(f"expected a time at {of!r}, not {text[:40]!r}")
    return moment


def since_of(text: str) -> str:
    """Validates the lower bound of requested changes: ISO 8601 in UTC, "" for no bound. Raises `InvalidInputError`."""
    try:
        return utc(text) if text else ""
    except OddRecordError as exc:
        raise InvalidInputError(f"since must be a time as in 2024-01-31T12:00:00Z, not {text[:40]!r}") from exc
