"""Reads evidence in any form that agents have: mappings, data classes, models, plain objects.

An agent hands in its evidence at the end of a run, when nobody can correct it. A field that doesn't fit is therefore kept
among the details, and texts that are too long are shortened, with a remark.
"""

from __future__ import annotations

import inspect
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec
from msgspec import inspect as types

from opx.domain.evidence import EVIDENCE_FIELDS, MAX_TEXT, TIMES, Evidence
from opx.domain.record import Json, prepared
from opx.domain.requests import MAX_NESTING, fields_of
from opx.errors import InvalidInputError

_FACTS = {one.name: one for one in fields_of(Evidence)}
_CAMEL = re.compile("(?<=[a-z])[A-Z]")
_DETAIL_CHARACTERS = 2000
_DETAILS_CHARACTERS = MAX_TEXT - 4000
"""Characters of details that are kept; the remainder has room for what is left out."""


def read_evidence(given: object) -> Evidence:
    """Parses evidence of any form. Raises `InvalidInputError` for something that has no fields."""
    if isinstance(given, Evidence):
        return given
    fields = {str(name): _plain(value) for name, value in fields_of_object(given).items()}
    evidence, details = _sorted(fields)
    return msgspec.convert({**evidence, "details": _within_limits(details) or None}, prepared(Evidence))


def fields_of_object(given: object) -> Mapping[str, Any]:
    """The fields of a mapping or an object. Raises `InvalidInputError` for a value, a list or a coroutine."""
    if isinstance(given, Mapping):
        return given
    if inspect.isawaitable(given):
        if inspect.iscoroutine(given):
            given.close()  # its own warning would say nothing of evidence
        raise InvalidInputError("evidence is a coroutine that was never awaited: pass `await agent.run(...)`")
    for method in ("model_dump", "_asdict"):
        dump = getattr(given, method, None)
        if callable(dump) and not isinstance(given, type):
            return dict(dump())
    names = getattr(given, "__struct_fields__", None) or _names_of(given)
    if isinstance(given, str | bytes | type | Sequence) or not names:
        raise InvalidInputError("evidence must be an object (a mapping of fields, or an object that has them)")
    return {name: getattr(given, name) for name in names if hasattr(given, name)}


def _names_of(given: object) -> list[str]:
    """Public attributes of an object, in order."""
    slots = (name for kind in type(given).__mro__ for name in getattr(kind, "__slots__", ()))
    return [name for name in (*getattr(given, "__dict__", {}), *slots) if not name.startswith("_")]


def _plain(value: object, depth: int = 0) -> Any:
    """The value as JSON has it; an unknown kind of object as its fields, or as text."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")
    if value is None or isinstance(value, bool | int | float):
        return value
    return _plain_parts(value, depth + 1) if depth < MAX_NESTING - 2 else f"({type(value).__name__})"


def _plain_parts(value: object, depth: int) -> Any:
    if isinstance(value, Mapping):
        return {str(name): _plain(inner, depth) for name, inner in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, bytes | bytearray):
        return [_plain(inner, depth) for inner in value]
    try:
        return _plain(msgspec.to_builtins(value), depth)
    except (TypeError, ValueError, RecursionError):
        names = _names_of(value)
        return {name: _plain(getattr(value, name), depth) for name in names} if names else str(value)


# -- fields


def _sorted(given: Mapping[str, Any]) -> tuple[Json, Json]:
    """The fields of evidence, and everything else."""
    own = given.get("details")
    details: Json = dict(own) if isinstance(own, Mapping) else {} if own is None else {"details": own}
    evidence: Json = {}
    for spelled, value in given.items():
        name = _CAMEL.sub(r"_\g<0>", spelled).lower()
        if name == "agent" and not {"agent_type", "agentType"} & given.keys():
            name = "agent_type"
        if spelled == "details" or value is None:
            continue
        fitting = _fitting(name, value) if name in EVIDENCE_FIELDS else None
        if fitting is None:
            details.setdefault(spelled, value)
        else:
            evidence[name] = fitting
    return evidence, details


def _fitting(name: str, value: Any) -> Any:
    """The value as the field accepts it, texts shortened and numbers as text; None for one that doesn't fit."""
    if name == "verified":
        return value if isinstance(value, bool) else None
    longest, most = _limits(name)
    texts = [_text(one) for one in (value if isinstance(value, list) else [value])]
    if (isinstance(value, list) and not most) or not all(isinstance(one, str) for one in texts):
        return None
    shortened = [shorten(one, longest) for one in texts]
    if name in TIMES and not _is_time(shortened[0]):
        return None
    return _first(shortened, most) if most else shortened[0]


def _text(value: Any) -> Any:
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


def _is_time(text: str) -> bool:
    try:
        return not text or bool(datetime.fromisoformat(text.strip()))
    except ValueError:
        return False


def _limits(name: str) -> tuple[int, int]:
    """The longest text of a field, and how many it may have; 0 for a field that is no list."""
    kind: Any = _FACTS[name].kind
    if isinstance(kind, types.UnionType):
        kind = next(one for one in kind.types if isinstance(one, types.VarTupleType))
        return kind.item_type.max_length, kind.max_length
    return kind.max_length, 0


def _first(texts: list[str], most: int) -> list[str]:
    """The first texts, the last one of them a remark if others are left out."""
    return texts if len(texts) <= most else [*texts[: most - 1], f"({len(texts) - most + 1:,} more left out)"]


def shorten(text: str, most: int) -> str:
    """The text, cut to so many characters with a remark about its length."""
    if len(text) <= most:
        return text
    remark = f" … (shortened from {len(text):,} characters)"
    return text[: most - len(remark)] + remark if most > 2 * len(remark) else text[:most]


# -- details


def _within_limits(details: Json) -> Json:
    """The details that fit; of the others, long ones are shortened and named."""
    kept: Json = {}
    left_out: list[str] = []
    room = _DETAILS_CHARACTERS
    for name, value in sorted(details.items(), key=lambda one: _size(one[1])):
        fitting = value if _size(value) <= _DETAIL_CHARACTERS else shorten(_as_text(value), _DETAIL_CHARACTERS)
        size = _size({name[:200]: fitting})
        if size > room:
            left_out.append(shorten(name, 50))
            continue
        kept[name[:200]] = fitting
        room -= size
    return {**{name: kept[name] for name in details if name in kept}, **_named(left_out)}


def _named(left_out: list[str]) -> Json:
    return {"left_out": _first(left_out, 10)} if left_out else {}


def _size(value: object) -> int:
    return len(json.dumps(value))


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
