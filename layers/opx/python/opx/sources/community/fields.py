"""Reads fields of replies, and says what is missing: a source whose shape changed must not be half read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from opx.errors import SourceShapeError


@dataclass(frozen=True, slots=True)
class Record:
    """An object of a reply. `name` is what errors call it. Null counts as missing.

    Everything raises `SourceShapeError` for a value of another type; what is `needed` also for one that is missing.
    """

    data: Mapping[str, Any]
    name: str

    @classmethod
    def of(cls, value: Any, name: str) -> Record:
        if not isinstance(value, dict):
            raise SourceShapeError(
                f"{name}: expected an object, not {_kind(value)}; the source's format may have changed"
            )
        return cls(value, name)

    def text(self, field: str, *, needed: bool = False) -> str:
        value = self._value(field, str, "a text", needed=needed)
        return "" if value is None else str(value)

    def number(self, field: str, *, needed: bool = False) -> int:
        value = self._value(field, int, "a whole number", needed=needed)
        return 0 if value is None else int(value)

    def flag(self, field: str) -> bool:
        return bool(self._value(field, bool, "true or false", needed=False))

    def record(self, field: str, *, needed: bool = False) -> Record:
        value = self._value(field, dict, "an object", needed=needed)
        return Record(value or {}, f"{self.name}.{field}")

    def items(self, field: str, *, needed: bool = False) -> list[Any]:
        return list(self._value(field, list, "a list", needed=needed) or ())

    def records(self, field: str, *, needed: bool = False) -> list[Record]:
        return [Record.of(item, f"{self.name}.{field}") for item in self.items(field, needed=needed)]

    def _value(self, field: str, kind: type, words: str, *, needed: bool) -> Any:
        value = self.data.get(field)
        if value is None:
            if needed:
                raise SourceShapeError(
                    f"{self.name}: the field {field!r} is missing; the source's format may have changed"
                )
            return None
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise SourceShapeError(f"{self.name}: the field {field!r} should be {words}, not {_kind(value)}")
        return value


def _kind(value: Any) -> str:
    names = {"dict": "an object", "list": "a list", "str": "a text", "NoneType": "null", "bool": "true or false"}
    return names.get(type(value).__name__, type(value).__name__)
