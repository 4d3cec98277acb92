"""docs/glossary.md names types that exist, and all values of those that are enumerations."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from enum import StrEnum
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LAYERS = ROOT / "layers"
PAGE = ROOT / "docs" / "glossary.md"
_ROW = re.compile(r"^\| ([^|`]+) \| ([^|]+) \| ([^|]*`[^|]+) \|$", re.MULTILINE)
_DEFINED = re.compile(r"^ *(?:class|def) (\w+)|^ *(\w+)(?:: [^=\n]+)?(?: =|$)", re.MULTILINE)


@cache
def defined() -> dict[str, list[str]]:
    """Modules of the library by the names that they define, and by their own names."""
    found: dict[str, list[str]] = {}
    for path in LAYERS.glob("*/python/**/*.py"):
        module = ".".join(Path(*path.relative_to(LAYERS).parts[2:]).with_suffix("").parts).removesuffix(".__init__")
        names = {one or other for one, other in _DEFINED.findall(path.read_text(encoding="utf-8"))}
        for name in (*names, *re.split(r"\W", module)):
            found.setdefault(name, []).append(module)
    return found


def rows(text: str) -> Iterator[tuple[str, str, list[str]]]:
    """Term, meaning, and the types that stand for it."""
    for term, meaning, types in _ROW.findall(text):
        yield term, meaning, re.findall(r"`([^`]+)`", types)


def missing(text: str) -> list[str]:
    """Types that are not there: each part of a name is a module, a type or a field."""
    return [
        name
        for _, _, types in rows(text)
        for name in types
        if not all(part in defined() for part in re.findall(r"\w+", name))
    ]


def enumerations(text: str) -> Iterator[tuple[str, str, type[StrEnum]]]:
    for term, meaning, types in rows(text):
        for name in types:
            for module in defined().get(name, []):
                kind = getattr(importlib.import_module(module), name, None) if name[0].isupper() else None
                if isinstance(kind, type) and issubclass(kind, StrEnum):
                    yield term, meaning, kind


def unnamed(text: str) -> list[tuple[str, str]]:
    """Values of enumerations that a meaning lists only some of."""
    return [
        (term, value.value)
        for term, meaning, kind in enumerations(text)
        if sum(_is_named(value, meaning) for value in kind) > 1 or ": " in meaning
        for value in kind
        if not _is_named(value, meaning)
    ]


def _is_named(value: StrEnum, meaning: str) -> bool:
    return value.value.replace("_", " ") in meaning.lower()


def test_every_type_exists() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert len(list(rows(text))) > 90
    assert missing(text) == []


def test_every_value_is_named_where_a_meaning_lists_them() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert len({kind for _, _, kind in enumerations(text)}) >= 5
    assert unnamed(text) == []


@pytest.mark.parametrize("name", ["NoSuchType", "Tier.no_such_field", "opx.no_such_module"])
def test_a_type_that_does_not_exist_is_found(name: str) -> None:
    assert missing(f"| x | y | `{name}` |") == [name]


def test_a_value_that_is_left_out_is_found() -> None:
    assert unnamed("| tier | Level of trust: internal, vendor | `Tier` |") == [
        ("tier", "specialized"),
        ("tier", "internet"),
    ]
