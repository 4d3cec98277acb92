"""Table items as DynamoDB attribute values and back, without loss."""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from opx.ports import Item

if TYPE_CHECKING:
    from mypy_boto3_dynamodb.type_defs import AttributeValueTypeDef as AttributeValue

FLOATS = "opx-floats"
"""An attribute that lists where whole numbers were floats: DynamoDB stores 2.0 as 2."""

Path = tuple[str | int, ...]


def to_attributes(item: Mapping[str, Any]) -> dict[str, AttributeValue]:
    """An item as it is written, with a note of which whole numbers are floats if there are any."""
    floats: list[Path] = []
    attributes = {name: _to_value(value, (name,), floats) for name, value in item.items()}
    if floats:
        attributes[FLOATS] = {"S": json.dumps(floats, ensure_ascii=False)}
    return attributes


def from_attributes(attributes: Mapping[str, Any]) -> Item:
    """The item as it was put."""
    item = {name: _from_value(value) for name, value in attributes.items()}
    for path in json.loads(item.pop(FLOATS, "[]")):
        *parents, last = path
        target: Any = item
        for step in parents:
            target = target[step]
        target[last] = float(target[last])
    return item


def to_key(key: Mapping[str, Any]) -> dict[str, AttributeValue]:
    """A key, or values to compare with, for which it doesn't matter whether a number is a float."""
    return {name: to_value(value) for name, value in key.items()}


def to_value(value: object) -> AttributeValue:
    """One attribute value, for which it doesn't matter whether a number is a float."""
    return _to_value(value, (), [])


def _to_value(value: object, path: Path, floats: list[Path]) -> AttributeValue:
    if isinstance(value, Mapping):
        return {"M": {name: _to_value(element, (*path, name), floats) for name, element in value.items()}}
    if isinstance(value, list | tuple):
        return {"L": [_to_value(element, (*path, position), floats) for position, element in enumerate(value)]}
    if isinstance(value, float) and value.is_integer():
        floats.append(path)
    return _scalar(value)


def _scalar(value: object) -> AttributeValue:
    if isinstance(value, bool):
        return {"BOOL": value}
    if isinstance(value, str):
        return {"S": value}
    if isinstance(value, bytes):
        return {"B": value}
    if isinstance(value, int | float):
        # The shortest text that gives the same float has 17 digits at most; DynamoDB keeps 38.
        return {"N": str(Decimal(repr(value)).normalize() if isinstance(value, float) else value)}
    return {"NULL": True}


def _from_value(value: Mapping[str, Any]) -> Any:
    ((kind, content),) = value.items()
    if kind == "NULL":
        return None
    if kind == "N":
        number = Decimal(content)
        return int(number) if number == number.to_integral_value() else float(number)
    if kind == "M":
        return {name: _from_value(element) for name, element in content.items()}
    if kind == "L":
        return [_from_value(element) for element in content]
    return content
