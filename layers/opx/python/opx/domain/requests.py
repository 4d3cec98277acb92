"""Requests of operations: parsed from a caller's input, checked against their declaration, and refused with a reason.

A request is a record whose fields carry their description and bounds (`Annotated[int, about("How many.", ge=1, le=20)]`).
msgspec does the checking. Only a refusal looks at the fields one by one, to name the invalid one,
its value and the accepted values.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta, Struct, inspect, structs

from opx.domain.record import Record, prepared, type_info
from opx.errors import InvalidInputError

Given = Mapping[str, object]
R = TypeVar("R", bound=msgspec.Struct)

MAX_NESTING = 32
"""Nested objects and lists in a field of any JSON; recursive readers go one call deeper for each."""

NOT_BLANK = r"\S"


Text = Annotated[str, Meta(max_length=100)]
Filled = Annotated[str, Meta(min_length=1, pattern=NOT_BLANK)]
FilledText = Annotated[Filled, Meta(max_length=100)]
Share = Annotated[float, Meta(ge=0, le=1)]

_WHOLE = re.compile(r"-?[0-9]{1,15}")
_NUMBER = re.compile(r"-?[0-9]{1,310}(\.[0-9]{1,310})?([eE][-+]?[0-9]{1,3})?")
_QUOTED_CHARACTERS = 60


class RequestError(InvalidInputError):
    """The request doesn't match the operation's declaration; the message names the field and the accepted values."""


class Request(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of requests. A field without a default is required; null counts as left out. Fields with other names are
    refused, or kept in the object that a type names as `unknown_fields`."""


class FieldFacts(Struct, frozen=True):
    """A field of a request. `name` is the attribute, `json_name` its name in JSON and in addresses; `kind` is its type
    without description and None."""

    name: str
    json_name: str
    about: str
    annotation: Any
    kind: inspect.Type
    required: bool
    default: Any

    @property
    def is_list(self) -> bool:
        return isinstance(self.kind, inspect.VarTupleType | inspect.ListType)

    @property
    def choices(self) -> tuple[str, ...]:
        """The values that are accepted, () for any."""
        return _choices(self.kind)


def fields_of(kind: type[msgspec.Struct]) -> tuple[FieldFacts, ...]:
    """The fields of a request type, in order."""
    if kind not in _KNOWN:
        info = type_info(kind)
        assert isinstance(info, inspect.StructType)
        annotations = {one.name: one.type for one in structs.fields(kind)}
        _KNOWN[kind] = tuple(_facts(one, annotations[one.name]) for one in info.fields)
    return _KNOWN[kind]


_KNOWN: dict[type[msgspec.Struct], tuple[FieldFacts, ...]] = {}


def _facts(field: inspect.Field, annotation: Any) -> FieldFacts:
    about, kind = "", field.type
    while True:
        if isinstance(kind, inspect.Metadata):
            about = about or str((kind.extra_json_schema or {}).get("description", ""))
            if "enum" in (kind.extra_json_schema or {}):
                break
            kind = kind.type
        elif isinstance(kind, inspect.UnionType) and any(isinstance(one, inspect.NoneType) for one in kind.types):
            (kind,) = (one for one in kind.types if not isinstance(one, inspect.NoneType))
        else:
            break
    default = None if field.default is msgspec.NODEFAULT else field.default
    return FieldFacts(field.name, field.encode_name, about, annotation, kind, field.required, default)


def read_request(kind: type[R], given: Given, *, texts: bool = False, attributes: bool = False, within: str = "") -> R:
    """Parses the request from `given`, by field. With `texts`, numbers and flags may be strings, as in a query string.
    With `attributes`, fields are named as in Python, which is how agents write them, and errors name them so, too, behind
    `within`.

    Raises `RequestError`, and the errors of the type itself for values that contradict each other.
    """
    facts = fields_of(kind)
    present = {name: value for name, value in given.items() if value is not None}
    shown = {one.json_name: within + (one.name if attributes else one.json_name) for one in facts}
    if attributes:
        present = _by_json_name(facts, present)
    present = _with_unknown_fields(getattr(kind, "unknown_fields", ""), present, shown)
    _check_names(facts, present, shown, within)
    given_values = {
        one.json_name: _prepared(one, present[one.json_name], texts) for one in facts if one.json_name in present
    }
    documents = {one.json_name for one in facts if _is_list_of_documents(one)}
    try:
        request = msgspec.convert(given_values, prepared(kind))
        msgspec.json.encode({name: value for name, value in given_values.items() if name not in documents})
    except (msgspec.ValidationError, UnicodeEncodeError, RecursionError, ValueError, TypeError, OverflowError):
        _refuse(facts, given_values, shown, attributes)
        raise
    for one in facts:
        if one.json_name in given_values:
            _check_free_values(one, given_values[one.json_name], shown[one.json_name])
    return request


def _is_list_of_documents(field: FieldFacts) -> bool:
    """True for a list of documents: each is validated on its own, so that an invalid one doesn't reject the others."""
    return field.is_list and isinstance(_unwrapped(field.kind.item_type), inspect.UnionType)  # type: ignore[attr-defined]


def _by_json_name(facts: tuple[FieldFacts, ...], given: Given) -> dict[str, object]:
    """Fields that are named as in Python or as in JSON, by their names in JSON."""
    names = {one.name: one.json_name for one in facts}
    found: dict[str, object] = {}
    for name, value in given.items():
        json_name = names.get(name, name)
        if json_name in found:
            raise RequestError(f"{quoted(name).strip(chr(39))} is given twice")
        found[json_name] = value
    return found


def _with_unknown_fields(kept_in: str, present: dict[str, object], known: Collection[str]) -> dict[str, object]:
    """The given fields with those of unknown names moved into the field `kept_in`, if the type has such a field and it is
    given as an object."""
    unknown = [name for name in present if name not in known]
    kept = present.get(kept_in, {})
    if not kept_in or not unknown or not isinstance(kept, Mapping):
        return present
    named = {name: value for name, value in present.items() if name in known}
    return {**named, kept_in: {**{name: present[name] for name in unknown}, **kept}}


def _check_names(facts: tuple[FieldFacts, ...], present: Given, shown: Mapping[str, str], within: str) -> None:
    for name in present:
        if name not in shown:
            takes = ", ".join(one.removeprefix(within) for one in shown.values()) or "none"
            raise RequestError(f"unknown field {within}{quoted(name).strip(chr(39))}; there are: {takes}")
    for one in facts:
        if one.required and one.json_name not in present:
            raise RequestError(f"{shown[one.json_name]} is missing: {one.about}")


def _prepared(field: FieldFacts, value: object, texts: bool) -> object:
    """The value as msgspec accepts it: 5 for 5.0 where an integer is expected, and strings parsed to their type."""
    if isinstance(field.kind, inspect.StructType) and isinstance(value, Mapping):
        inner_facts = {one.json_name: one for one in fields_of(field.kind.cls)}
        return {
            name: _prepared(inner_facts[name], inner, False) if name in inner_facts else inner
            for name, inner in value.items()
        }
    if texts and field.is_list and isinstance(value, str):
        value = [value]
    if isinstance(value, list | tuple) and field.is_list:
        inner = _unwrapped(field.kind.item_type)  # type: ignore[attr-defined]
        return [_value_of(inner, one) if texts else one for one in value]
    if texts and isinstance(value, str):
        value = _value_of(field.kind, value)
    if isinstance(value, float) and value.is_integer() and isinstance(field.kind, inspect.IntType):
        return int(value)
    return value


def _value_of(kind: inspect.Type, text: object) -> object:
    if not isinstance(text, str):
        return text
    if isinstance(kind, inspect.BoolType):
        return {"true": True, "false": False}.get(text, text)
    if isinstance(kind, inspect.IntType) and _WHOLE.fullmatch(text):
        return int(text)
    if isinstance(kind, inspect.FloatType) and _NUMBER.fullmatch(text):
        return float(text)
    return text


# -- refusals


def _refuse(facts: tuple[FieldFacts, ...], given: Given, shown: Mapping[str, str], attributes: bool) -> None:
    """Raise for the first invalid field; no error if each is valid by itself."""
    for one in facts:
        if one.json_name not in given:
            continue
        value = given[one.json_name]
        name = shown[one.json_name]
        _check_value(one, value, name)
        try:
            msgspec.convert(value, one.annotation)
        except msgspec.ValidationError:
            if isinstance(one.kind, inspect.StructType) and isinstance(value, Mapping):
                read_request(one.kind.cls, value, attributes=attributes, within=f"{name}.")
            raise RequestError(f"{name} {_problem(one.kind, value, one.required)}") from None
        except RecursionError:
            raise _too_deep(name) from None


def _check_free_values(field: FieldFacts, value: Any, name: str) -> None:
    """Check numbers and objects that may have any fields, alone or in a list: their type doesn't bound them."""
    kind = _unwrapped(field.kind.item_type) if field.is_list else field.kind  # type: ignore[attr-defined]
    if isinstance(kind, inspect.DictType | inspect.FloatType):
        for one in value if field.is_list else (value,):
            _check_value(field, one, name)


def _check_value(field: FieldFacts, value: object, name: str) -> None:
    """Raise for values that JSON can't represent, and for too deep nesting."""
    if isinstance(value, float) and not math.isfinite(value):
        raise RequestError(f"{name} {_problem(field.kind, value, field.required)}")
    if _is_nested_deeper(value, MAX_NESTING):
        raise _too_deep(name)
    try:
        msgspec.json.encode(value)
    except UnicodeEncodeError:
        raise RequestError(f"{name} is not valid Unicode") from None


def _too_deep(name: str) -> RequestError:
    return RequestError(f"{name} may have at most {MAX_NESTING} objects and lists within each other")


def _problem(kind: inspect.Type, value: object, required: bool) -> str:
    """The end of an error message: the accepted values, and the invalid one."""
    kind = _meant(_unwrapped(kind), value)
    if isinstance(kind, inspect.VarTupleType | inspect.ListType):
        return _list_problem(kind, value, required)
    choices = _choices(kind)
    if choices and isinstance(value, str):
        return f"must be one of {', '.join(choices)}, not {quoted(value)}"
    if isinstance(kind, inspect.StrType) and isinstance(value, str):
        return _text_problem(kind, value)
    if isinstance(kind, inspect.IntType | inspect.FloatType):
        return f"must be {_number_name(kind)}, not {quoted(value)}"
    return f"must be {_name(kind)}, not {quoted(value)}"


def _meant(kind: inspect.Type, value: object) -> inspect.Type:
    """The member of a union that fits the kind of value, or the union if none does."""
    if not isinstance(kind, inspect.UnionType):
        return kind
    kinds: dict[type, Any] = {str: inspect.StrType, list: inspect.VarTupleType | inspect.ListType}
    wanted = kinds.get(list if isinstance(value, tuple) else type(value), ())
    return next((one for one in kind.types if isinstance(_unwrapped(one), wanted)), kind)


def _list_problem(kind: Any, value: object, required: bool) -> str:
    least, most = kind.min_length, kind.max_length
    if not isinstance(value, list | tuple) or len(value) < (least or 0):
        return f"must be {'a list that is not empty' if required or least else 'a list'}, not {quoted(value)}"
    if most is not None and len(value) > most:
        return f"may have at most {most} entries, not {len(value):,}"
    wrong = next((one for one in value if not _takes(kind.item_type, one)), value)
    return _problem(kind.item_type, wrong, required)


def _takes(kind: inspect.Type, value: object) -> bool:
    """True if a list of this item type accepts the value."""
    choices, inner = _choices(kind), _unwrapped(kind)
    if choices:
        return value in choices
    if isinstance(inner, inspect.StrType):
        bounds = Meta(min_length=inner.min_length, max_length=inner.max_length, pattern=inner.pattern)
        annotation: Any = Annotated[str, bounds]
    else:
        annotation = inner.cls if isinstance(inner, inspect.StructType) else dict
    try:
        msgspec.convert(value, annotation)
    except msgspec.ValidationError:
        return False
    return True


def _text_problem(kind: inspect.StrType, text: str) -> str:
    if kind.min_length and len(text.strip()) < kind.min_length:
        return f"must have at least {kind.min_length} characters that are not blank"
    if kind.max_length is not None and len(text) > kind.max_length:
        return f"may have at most {kind.max_length:,} characters, not {len(text):,}"
    return f"must match {(kind.pattern or '').strip('^$')}, not {quoted(text)}"


def _number_name(kind: inspect.IntType | inspect.FloatType) -> str:
    name = "a whole number" if isinstance(kind, inspect.IntType) else "a number"
    if kind.ge is None and kind.le is None:
        return name
    return f"{name} from {kind.ge} to {kind.le}" if kind.le is not None else f"{name} of at least {kind.ge}"


def _name(kind: inspect.Type) -> str:
    if isinstance(kind, inspect.BoolType):
        return "true or false"
    if isinstance(kind, inspect.StrType | inspect.EnumType):
        return "a string"
    if isinstance(kind, inspect.UnionType):
        several = next((one for one in kind.types if isinstance(one, inspect.VarTupleType | inspect.ListType)), None)
        if several is not None:
            return "a string or a list" + (f" of at most {several.max_length:,} strings" if several.max_length else "")
        return "a string or an object"
    return "an object"


def _unwrapped(kind: inspect.Type) -> inspect.Type:
    while isinstance(kind, inspect.Metadata) and "enum" not in (kind.extra_json_schema or {}):
        kind = kind.type
    return kind


def _choices(kind: inspect.Type) -> tuple[str, ...]:
    if isinstance(kind, inspect.Metadata):
        return tuple(map(str, (kind.extra_json_schema or {}).get("enum", ())))
    return tuple(str(one.value) for one in kind.cls) if isinstance(kind, inspect.EnumType) else ()


def _is_nested_deeper(value: object, levels: int) -> bool:
    """True if the value is nested deeper. Iterative: recursion is what the limit protects others from."""
    level: list[Any] = [value]
    for _ in range(levels + 1):
        level = [found for found in level if isinstance(found, dict | list)]
        if not level:
            return False
        level = [inner for found in level for inner in (found.values() if isinstance(found, dict) else found)]
    return True


def quoted(value: object) -> str:
    """A value as error messages quote it."""
    try:
        text = repr(value)
    except RecursionError:
        text = "something nested too deeply"
    return text if len(text) <= _QUOTED_CHARACTERS else text[:_QUOTED_CHARACTERS] + "…"
