"""The table that the contract is tested with, and items for it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from opx.ports import Item
from opx.ports.tables import EVERY, IndexSpec, TableSpec

THINGS = TableSpec(
    name="things",
    partition="owner",
    sort="name",
    indexes=(
        IndexSpec("status-size-index", "status", "size"),
        IndexSpec("status-title-index", "status", "title"),
        IndexSpec("group-index", "group"),
    ),
    ttl="ttl",
    numbers=("size",),
)
"""Nearly all of these attribute names are reserved words of DynamoDB."""

ALL_STATES = "all"
SPREAD_THINGS = TableSpec(
    name="spread-things",
    partition="owner",
    sort="name",
    indexes=(
        IndexSpec("status-size-index", "status", "size", spread=ALL_STATES),
        IndexSpec("status-title-index", "status", "title", spread=ALL_STATES),
        IndexSpec("group-index", "group", spread=EVERY),
    ),
    ttl="ttl",
    numbers=("size",),
)
"""The same, with values whose items a store may keep in parts."""

ANYTHING: Item = {
    "text": "Größe ≥ 5 — 日本語 🔥",
    "empty": "",
    "whole": 42,
    "negative": -7,
    "large": 10**37 + 1,
    "third": 1 / 3,
    "tenth": 0.1,
    "tiny": 1.5e-100,
    "huge": 1.7976931348623157e125,
    "even": 2.0,
    "zero": 0,
    "zero point": 0.0,
    "yes": True,
    "no": False,
    "nothing": None,
    "bytes": b"\x00\xff\x80",
    "no bytes": b"",
    "list": [1, 1.0, "a", None, True, b"b", [], {}, [{"deep": [2.0]}]],
    "map": {"a.b": 3.0, "$bytes": "text", "$$": b"x", "nested": {"c": -0.5}},
    "a.b": "dotted",
    "$bytes": "not bytes",
}


def a_thing(name: str = "n", owner: str = "ada", **attributes: Any) -> Item:
    return {"owner": owner, "name": name, **attributes}


def a_key(name: str = "n", owner: str = "ada") -> Item:
    return {"owner": owner, "name": name}


def nested_lists(depth: int) -> list[Any]:
    return [nested_lists(depth - 1)] if depth else []


def names(items: Iterable[Item]) -> list[str]:
    return [item["name"] for item in items]


def typed(value: object) -> object:
    """The value with the types of all that is in it: 1, 1.0 and True are equal in Python."""
    if isinstance(value, dict):
        return {name: typed(element) for name, element in value.items()}
    if isinstance(value, list):
        return [typed(element) for element in value]
    return type(value), value
