"""What a request may have, as declarations: a value is read, refused and described (OpenAPI) from the same one."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from opx.operations.requests import RequestError

Json = dict[str, Any]
MAX_NESTING = 32
"""Objects and lists within each other in a field that may have any; what reads them goes a call deeper for each."""

_NUMBER = re.compile(r"-?[0-9]{1,310}(\.[0-9]{1,310})?([eE][-+]?[0-9]{1,3})?")
_QUOTED_CHARACTERS = 60


class Kind(StrEnum):
    """JSON's types. A document is a text or an object."""

    TEXT = "string"
    WHOLE = "integer"
    NUMBER = "number"
    FLAG = "boolean"
    OBJECT = "object"
    DOCUMENT = "document"


_CALLED = {
    Kind.TEXT: "a text",
    Kind.WHOLE: "a whole number",
    Kind.NUMBER: "a number",
    Kind.FLAG: "true or false",
    Kind.OBJECT: "an object",
    Kind.DOCUMENT: "a text or an object",
}


@dataclass(frozen=True, slots=True)
class Field:
    """A parameter of the address or a field of the body.

    `minimum` and `maximum` bound a number, or the characters of a text. `repeated`: a list in a body, a parameter that
    may be given several times in an address; `most` bounds how often, and one that is required is not empty. `fields`
    are those of an object; without them it may have any.
    """

    name: str
    kind: Kind
    about: str
    required: bool = False
    repeated: bool = False
    default: object = None
    minimum: int | None = None
    maximum: int | None = None
    most: int | None = None
    choices: tuple[str, ...] = ()
    pattern: str = ""
    fields: tuple[Field, ...] = ()

    def read(self, value: object) -> Any:
        """The value of a body's field. Raises `RequestError`."""
        if not self.repeated:
            return self._one(value)
        if not isinstance(value, list) or (self.required and not value):
            kind = "a list that is not empty" if self.required else "a list"
            raise RequestError(f"{self.name} must be {kind}, not {_quoted(value)}")
        if self.most is not None and len(value) > self.most:
            raise RequestError(f"{self.name} may have at most {self.most} entries, not {len(value):,}")
        return tuple(self._one(entry) for entry in value)

    def read_texts(self, texts: Sequence[str]) -> Any:
        """The value of a parameter of the address. Raises `RequestError`."""
        values = [self._from_text(text) for text in texts]
        if not self.repeated and len(values) > 1:
            raise RequestError(f"{self.name} is given {len(values)} times; it takes one value")
        return self.read(values if self.repeated else values[0])

    def _from_text(self, text: str) -> object:
        if self.kind is Kind.FLAG:
            return {"true": True, "false": False}.get(text, text)
        if self.kind is Kind.NUMBER and _NUMBER.fullmatch(text):
            return float(text)
        if self.kind is Kind.WHOLE and re.fullmatch(r"-?[0-9]{1,15}", text):
            return int(text)
        return text

    def _one(self, value: object) -> Any:
        if not _is(self.kind, value):
            raise RequestError(f"{self.name} must be {_CALLED[self.kind]}, not {_quoted(value)}")
        if self.kind is Kind.WHOLE and isinstance(value, float):
            value = int(value)
        if isinstance(value, dict) and self.fields:
            return read_fields(self.fields, value, within=f"{self.name}.")
        if self.kind is not Kind.DOCUMENT:  # which is looked through where it is stored
            if _is_nested_deeper(value, MAX_NESTING):
                raise RequestError(f"{self.name} may have at most {MAX_NESTING} objects and lists within each other")
            self._check_unicode(value)
        if isinstance(value, str):
            self._check_text(value)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            low, high = self.minimum, self.maximum
            if (low is not None and value < low) or (high is not None and value > high):
                raise RequestError(f"{self.name} must be from {low} to {high}, not {_quoted(value)}")
        return value

    def _check_unicode(self, value: object) -> None:
        """JSON can escape halves of a surrogate pair, which no text of UTF-8 has."""
        try:
            json.dumps(value, ensure_ascii=False).encode("utf-8")
        except UnicodeEncodeError:
            raise RequestError(f"{self.name} is not valid Unicode") from None

    def _check_text(self, text: str) -> None:
        if self.choices and text not in self.choices:
            raise RequestError(f"{self.name} must be one of {', '.join(self.choices)}, not {_quoted(text)}")
        low, high = self.minimum or 0, self.maximum
        if len(text.strip()) < low:
            raise RequestError(f"{self.name} must have at least {low} characters that are not blank")
        if high is not None and len(text) > high:
            raise RequestError(f"{self.name} may have at most {high:,} characters, not {len(text):,}")
        if self.pattern and not re.fullmatch(self.pattern, text):
            raise RequestError(f"{self.name} must match {self.pattern}, not {_quoted(text)}")

    def schema(self) -> Json:
        """JSON Schema of the value."""
        schema = {**self._entry_schema()}
        if self.repeated:
            schema = {"type": "array", "items": schema, **({"minItems": 1} if self.required else {})}
            if self.most is not None:
                schema["maxItems"] = self.most
        schema["description"] = self.about
        if self.default is not None:
            schema["default"] = self.default
        return schema

    def _entry_schema(self) -> Json:
        if self.kind is Kind.DOCUMENT:
            return {"oneOf": [{"type": "string"}, {"type": "object"}]}
        if self.fields:
            return object_schema(self.fields)
        low, high = ("minLength", "maxLength") if self.kind is Kind.TEXT else ("minimum", "maximum")
        facts = {low: self.minimum, high: self.maximum, "pattern": f"^{self.pattern}$" if self.pattern else None}
        found = {name: fact for name, fact in facts.items() if fact is not None}
        return {"type": self.kind.value, **found, **({"enum": list(self.choices)} if self.choices else {})}


def object_schema(declared: Sequence[Field]) -> Json:
    """JSON Schema of an object with these fields and no others."""
    required = [field.name for field in declared if field.required]
    return {
        "type": "object",
        "properties": {field.name: field.schema() for field in declared},
        **({"required": required} if required else {}),
        "additionalProperties": False,
    }


def read_fields(declared: Sequence[Field], given: Mapping[str, object], *, within: str = "") -> Json:
    """The fields of a body, with defaults. Null counts as absent. Raises `RequestError`."""
    present = {name: value for name, value in given.items() if value is not None}
    _check_names(declared, given, within)
    return {
        field.name: field.read(present[field.name]) if field.name in present else field.default
        for field in declared
        if field.name in present or field.default is not None
    }


def read_parameters(declared: Sequence[Field], pairs: Iterable[tuple[str, str]]) -> Json:
    """The parameters of an address, with defaults. Raises `RequestError`."""
    given: dict[str, list[str]] = {}
    for name, text in pairs:
        given.setdefault(name, []).append(text)
    _check_names(declared, given, "")
    return {
        field.name: field.read_texts(given[field.name]) if field.name in given else field.default
        for field in declared
        if field.name in given or field.default is not None
    }


def _check_names(declared: Sequence[Field], given: Mapping[str, object], within: str) -> None:
    known = [field.name for field in declared]
    for name in given:
        if name not in known:
            takes = ", ".join(known) or "none"
            raise RequestError(f"unknown field {within}{_quoted(name).strip(chr(39))}; there are: {takes}")
    for field in declared:
        if field.required and given.get(field.name) is None:
            raise RequestError(f"{within}{field.name} is missing: {field.about}")


def _is(kind: Kind, value: object) -> bool:
    if kind is Kind.FLAG:
        return isinstance(value, bool)
    if isinstance(value, float):  # 5.0 is a whole number, as JSON Schema has it
        return value.is_integer() if kind is Kind.WHOLE else kind is Kind.NUMBER and math.isfinite(value)
    if kind in (Kind.WHOLE, Kind.NUMBER):
        return isinstance(value, int) and not isinstance(value, bool)
    if kind is Kind.OBJECT:
        return isinstance(value, dict)
    return isinstance(value, str) or (kind is Kind.DOCUMENT and isinstance(value, dict))


def _is_nested_deeper(value: object, levels: int) -> bool:
    """Not by recursion, which is what the limit spares others."""
    level: list[Any] = [value]
    for _ in range(levels + 1):
        level = [found for found in level if isinstance(found, dict | list)]
        if not level:
            return False
        level = [inner for found in level for inner in (found.values() if isinstance(found, dict) else found)]
    return True


def _quoted(value: object) -> str:
    try:
        text = repr(value)
    except RecursionError:
        text = "something nested too deeply"
    return text if len(text) <= _QUOTED_CHARACTERS else text[:_QUOTED_CHARACTERS] + "…"
