"""What conditions of the Table port mean, in plain Python."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from opx.ports import Absent, AllOf, AnyOf, Condition, Equals, LessThan


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
