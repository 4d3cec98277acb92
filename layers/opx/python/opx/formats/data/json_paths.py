"""JSONPath expressions of a category's mapping. Imported only where JSON is parsed or a mapping is checked."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from jsonpath_ng.exceptions import JSONPathError
from jsonpath_ng.ext.parser import parse as parse_path

from opx.errors import InvalidInputError

SEPARATOR = " | "
INSTEAD = " || "
"""Between paths of which the first that leads to something counts."""

_NAME = re.compile(r"\.\s*([A-Za-z_][\w-]*)")
_BRACKETS = re.compile(r"\[[^\]]*\]")


@dataclass(frozen=True, slots=True)
class FieldPath:
    """One expression, or several of which the first that finds something counts. `label` is the name of the field that
    (the first of) it leads to."""

    text: str
    label: str
    compiled: tuple[Any, ...]

    def values(self, record: object) -> list[Any]:
        """All values found, without nulls, empty texts and empty collections."""
        for each in self.compiled:
            if found := [value for value in _found(each, record) if not _is_empty(value)]:
                return found
        return []


@lru_cache(maxsize=256)
def compile_paths(expressions: str) -> tuple[FieldPath, ...]:
    """The paths of a mapping entry, which ` | ` separates; ` || ` is between a path and what stands in for it.

    Raises `InvalidInputError` for one that is no JSONPath."""
    paths = []
    for text in expressions.split(SEPARATOR):
        try:
            compiled = tuple(map(parse_path, text.split(INSTEAD)))
        except JSONPathError as exc:
            problem = " ".join(str(exc).split())
            raise InvalidInputError(
                f"{text!r} is not a JSONPath ({problem}); allowed: such as $.items[*].name"
            ) from exc
        paths.append(FieldPath(text, _label(text.partition(INSTEAD)[0]), compiled))
    return tuple(paths)


def _label(text: str) -> str:
    """The last name of the path; that of its parent if it is a mere `value` or `name`."""
    names: list[str] = _NAME.findall(_BRACKETS.sub("", text)) or [text]
    return names[-2] if names[-1] in ("value", "name") and len(names) > 1 else names[-1]


def _found(compiled: Any, record: object) -> list[Any]:
    """Nothing if the path applies a function for texts, such as `sub`, to something else."""
    try:
        return [match.value for match in compiled.find(record)]
    except TypeError:
        return []


def _is_empty(value: object) -> bool:
    return value is None or value in ([], {}) or (isinstance(value, str) and not value.strip())
