"""Checks queries and evaluates conditions of the Table port, alike for both adapters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from opx.adapters.limits import MAX_SORT_KEY_BYTES, check_key_value
from opx.errors import InvalidInputError
from opx.ports import Absent, AllOf, AnyOf, Condition, Equals, KeyRange, LessThan
from opx.tables import TableSpec


def holds(condition: Condition, item: Mapping[str, Any] | None) -> bool:
    """Whether the condition is true of a stored item; None stands for an item that doesn't exist."""
    if isinstance(condition, AnyOf):
        return any(holds(part, item) for part in condition.conditions)
    if isinstance(condition, AllOf):
        return all(holds(part, item) for part in condition.conditions)
    if isinstance(condition, Absent):
        return item is None or (condition.attribute != "" and condition.attribute not in item)
    if item is None or condition.attribute not in item:
        return False
    return _compare(condition, item[condition.attribute])


def expiry(item: Mapping[str, Any], ttl: str) -> float | None:
    """When the item expires, in seconds since the epoch; None without the attribute `ttl`, or if it is no number."""
    expires = item.get(ttl) if ttl else None
    return None if expires is None or _kind(expires) != "number" else float(expires)


def is_expired(item: Mapping[str, Any], ttl: str, now: float) -> bool:
    """Whether the time in the attribute `ttl` has passed."""
    expires = expiry(item, ttl)
    return expires is not None and expires < now


def _compare(condition: Equals | LessThan, stored: object) -> bool:
    # Python takes True for 1; a table doesn't.
    if _kind(stored) != _kind(condition.value):
        return False
    if isinstance(condition, Equals):
        return stored == condition.value
    return bool(stored < condition.value)  # type: ignore[operator]


def _kind(value: object) -> str:
    if isinstance(value, bool):
        return "bool"
    return "number" if isinstance(value, int | float) else type(value).__name__


@dataclass(frozen=True, slots=True)
class Slice:
    """Part of a partition of a table or an index: attribute names, and bounds on the sort attribute (both included)."""

    partition_name: str
    partition: str | int
    sort_name: str
    low: str | int | None = None
    high: str | int | None = None
    begins_with: str = ""

    @property
    def is_empty(self) -> bool:
        """True if no item can be in it, whatever the table holds."""
        if self.high == "":
            return True
        return self.low is not None and self.high is not None and self.low > self.high  # type: ignore[operator]


def slice_of(spec: TableSpec, partition: str | int, index: str, where: KeyRange | None) -> Slice:
    """Raises `InvalidInputError` if the index doesn't exist or the range doesn't fit its sort attribute."""
    try:
        keys = spec.index(index) if index else spec
    except KeyError as exc:
        raise InvalidInputError(f"table {spec.name} has no index {index!r}") from exc
    check_key_value(spec, keys.partition, partition)
    where = where or KeyRange()
    _check_range(spec, keys.sort, where)
    # Nothing sorts before the empty string, and it is no valid key: as a lower bound it says nothing.
    low = None if where.low == "" else where.low
    return Slice(keys.partition, partition, keys.sort, low, where.high, where.begins_with)


def _check_range(spec: TableSpec, sort: str, where: KeyRange) -> None:
    bounds = [bound for bound in (where.low, where.high) if bound is not None]
    if where.begins_with:
        if bounds:
            raise InvalidInputError("a range is given by its bounds or by begins_with, not both")
        if sort in spec.numbers:
            raise InvalidInputError(f"{sort} is a number: begins_with needs a string")
        bounds = [where.begins_with]
    if bounds and not sort:
        raise InvalidInputError(f"this part of table {spec.name} has no sort attribute to bound")
    for bound in bounds:
        if bound != "":
            check_key_value(spec, sort, bound, MAX_SORT_KEY_BYTES)
