"""Conditions and ranges as DynamoDB expressions.

Every name is a placeholder: hundreds of plain words are reserved, among them `name`, `status`, `owner` and `key`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from opx.adapters.aws.dynamo_items import to_value
from opx.adapters.conditions import holds
from opx.adapters.limits import Slice
from opx.ports import Absent, AllOf, AnyOf, Condition, Equals
from opx.tables import TableSpec

if TYPE_CHECKING:
    from mypy_boto3_dynamodb.type_defs import AttributeValueTypeDef as AttributeValue


class Expression:
    """Collects the names and values of an expression while its text is built."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._values: dict[str, AttributeValue] = {}

    def name(self, attribute: str) -> str:
        return self._names.setdefault(attribute, f"#n{len(self._names)}")

    def value(self, value: object) -> str:
        mark = f":v{len(self._values)}"
        self._values[mark] = to_value(value)
        return mark

    def comparison(self, attribute: str, operator: str, value: object) -> str:
        """True only if the attribute has the type of the value: not every engine keeps true and 1 apart."""
        name, mark = self.name(attribute), self.value(value)
        (kind,) = to_value(value)
        return f"attribute_type({name}, {self.value(kind)}) AND {name} {operator} {mark}"

    def arguments(self, kind: str, text: str) -> dict[str, Any]:
        """The arguments of a request; `kind` is e.g. `ConditionExpression`."""
        names = {mark: attribute for attribute, mark in self._names.items()}
        values = {"ExpressionAttributeValues": self._values} if self._values else {}
        return {kind: text, "ExpressionAttributeNames": names, **values}


def condition_arguments(spec: TableSpec, condition: Condition, now: float) -> dict[str, Any]:
    """A condition for a write. An item that has expired, but that DynamoDB has not removed yet, counts as absent."""
    build = Expression()
    text = _condition(build, spec, condition)
    if spec.ttl:
        expired = build.comparison(spec.ttl, "<", now)
        text = f"({expired}) OR ({text})" if holds(condition, None) else f"(NOT ({expired})) AND ({text})"
    return build.arguments("ConditionExpression", text)


def slice_arguments(part: Slice) -> dict[str, Any]:
    """The key condition of a query."""
    build = Expression()
    texts = [f"{build.name(part.partition_name)} = {build.value(part.partition)}"]
    if part.begins_with:
        texts.append(f"begins_with({build.name(part.sort_name)}, {build.value(part.begins_with)})")
    elif part.low is not None and part.high is not None:
        between = f"BETWEEN {build.value(part.low)} AND {build.value(part.high)}"
        texts.append(f"{build.name(part.sort_name)} {between}")
    elif part.low is not None:
        texts.append(f"{build.name(part.sort_name)} >= {build.value(part.low)}")
    elif part.high is not None:
        texts.append(f"{build.name(part.sort_name)} <= {build.value(part.high)}")
    return build.arguments("KeyConditionExpression", " AND ".join(texts))


def _condition(build: Expression, spec: TableSpec, condition: Condition) -> str:
    if isinstance(condition, AnyOf | AllOf):
        return _combined(build, spec, condition)
    if isinstance(condition, Absent):
        return f"attribute_not_exists({build.name(condition.attribute or spec.partition)})"
    return build.comparison(condition.attribute, "=" if isinstance(condition, Equals) else "<", condition.value)


def _combined(build: Expression, spec: TableSpec, condition: AnyOf | AllOf) -> str:
    parts = [f"({_condition(build, spec, part)})" for part in condition.conditions]
    if not parts:  # any of none is false, all of none is true, and an expression can't be empty
        key = build.name(spec.partition)
        word = "AND" if isinstance(condition, AnyOf) else "OR"
        return f"attribute_exists({key}) {word} attribute_not_exists({key})"
    return (" OR " if isinstance(condition, AnyOf) else " AND ").join(parts)
