"""Validates input for both sets of adapters, by the narrowest limits among the services behind the ports.

The embedded adapters could accept more. They refuse the same input, so that whatever works in a folder works on AWS.
Queries and conditions of the Table port are shared by both, too.
Limits of DynamoDB: https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Constraints.html
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from opx.errors import ConditionFailedError, InvalidInputError
from opx.ports import AllOf, AnyOf, Condition, Equals, Item, KeyAbsent, KeyRange, LessThan
from opx.ports.tables import SHARD_NAME, TableSpec

MAX_OBJECT_KEY_BYTES = 1024
MAX_METADATA_BYTES = 1400
"""Size as JSON. S3 stores 2,048 bytes, in base64 where headers can't carry them unchanged."""
MAX_CONDITIONAL_BYTES = 8 * 1024 * 1024
"""From this size on S3 objects are put in parts, and have another kind of etag."""
MAX_ITEM_BYTES = 400 * 1024
MAX_PARTITION_KEY_BYTES = 2048
MAX_SORT_KEY_BYTES = 1024
MAX_DEPTH = 32
MAX_MESSAGE_BYTES = 262_144
MAX_DELAY_SECONDS = 900
MAX_HIDE_SECONDS = 43_200
MAX_RECEIVED = 10


_NOT_IN_KEYS = re.compile(r"[\x00-\x1f\\\x7f\ud800-\udfff]")
_NOT_IN_MESSAGES = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")


def is_object_key(key: str) -> bool:
    """True if `put` accepts the key: no empty, `.` or `..` segments, no backslash, no control characters."""
    if _NOT_IN_KEYS.search(key):
        return False
    if any(segment in ("", ".", "..") for segment in key.split("/")):
        return False
    return len(key.encode()) <= MAX_OBJECT_KEY_BYTES


def check_object_key(key: str) -> None:
    """Raises `InvalidInputError` for a malformed key."""
    if not is_object_key(key):
        raise InvalidInputError(
            f"object key {key[:100]!r} is malformed: use `/`-separated segments without `.`, `..`, backslashes and"
            f" control characters, at most {MAX_OBJECT_KEY_BYTES} bytes"
        )


def check_metadata(metadata: Mapping[str, str]) -> None:
    """Raises `InvalidInputError` for metadata that aren't strings or are too large."""
    texts = [*metadata.keys(), *metadata.values()]
    if not all(isinstance(text, str) for text in texts):
        raise InvalidInputError("names and values of an object's metadata must be strings")
    size = _utf8_length(json.dumps(dict(metadata), ensure_ascii=False))
    if size > MAX_METADATA_BYTES:
        raise InvalidInputError(f"an object's metadata have {size:,} bytes as JSON; at most {MAX_METADATA_BYTES:,} fit")


def check_conditional_put(key: str, data: bytes) -> None:
    """Raises `InvalidInputError` for data that is too large to be put on a condition."""
    if len(data) >= MAX_CONDITIONAL_BYTES:
        raise InvalidInputError(
            f"object {key} has {len(data):,} bytes: only one below {MAX_CONDITIONAL_BYTES:,} can be replaced on a condition"
        )


def check_etag(key: str, wanted: str, found: str) -> None:
    """Raises `ConditionFailedError` unless an object has the wanted etag; both are "" for none."""
    if found != wanted:
        state = "exists already" if not wanted else "was changed meanwhile" if found else "is gone"
        raise ConditionFailedError(f"object {key} {state}")


def check_table_key(spec: TableSpec, key: Mapping[str, Any]) -> None:
    """Raises `InvalidInputError` unless `key` has exactly the key attributes of the table, with usable values."""
    names = {spec.partition, spec.sort} - {""}
    if set(key) != names:
        raise InvalidInputError(f"a key of table {spec.name} has the attributes {sorted(names)}, not {sorted(key)}")
    _check_key_values(spec, key, spec.partition, spec.sort)


def check_item(spec: TableSpec, item: Mapping[str, Any]) -> None:
    """Raises `InvalidInputError` if the item lacks its key, has a value of an unknown type, or is too large."""
    _check_key_values(spec, item, spec.partition, spec.sort)
    for index in spec.indexes:
        present = [name for name in (index.partition, index.sort) if name in item]
        for name in present:
            check_key_value(spec, name, item[name], _key_limit(name, index.partition))
        if index.is_spread(value := item.get(index.partition)) and SHARD_NAME.search(str(value)):
            raise InvalidInputError(f"{index.partition} of table {spec.name} can't be {value!r}: it would name a shard")
    size = sum(_name_size(name) + _size(value, 1) for name, value in item.items())
    if size > MAX_ITEM_BYTES:
        raise InvalidInputError(
            f"an item of table {spec.name} has {size:,} bytes; at most {MAX_ITEM_BYTES:,} are stored"
        )


def check_key_value(spec: TableSpec, name: str, value: object, limit: int = MAX_PARTITION_KEY_BYTES) -> None:
    """Raises `InvalidInputError` unless `value` can be the key attribute `name`, in the table or an index."""
    if name in spec.numbers:
        number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        if not number or not -(2**63) <= value < 2**63:  # type: ignore[operator]
            raise InvalidInputError(f"{name} of table {spec.name} must be a number of 64 bits, not {value!r}")
    elif not isinstance(value, str) or not 0 < _utf8_length(value) <= limit:
        shown = repr(value)[:100]
        raise InvalidInputError(f"{name} of table {spec.name} must be a string of 1 to {limit} bytes, not {shown}")


def check_message(body: str, delay_seconds: int) -> None:
    """Raises `InvalidInputError` for a message that a queue can't carry unchanged."""
    if not 1 <= _utf8_length(body) <= MAX_MESSAGE_BYTES:
        raise InvalidInputError(f"a message has 1 to {MAX_MESSAGE_BYTES:,} bytes, not {len(body.encode()):,}")
    if _NOT_IN_MESSAGES.search(body):
        raise InvalidInputError("a message can't hold control characters other than tab and line ends; escape them")
    check_whole("delay_seconds", delay_seconds, 0, MAX_DELAY_SECONDS)


def check_whole(name: str, value: int, low: int, high: int) -> None:
    """Raises `InvalidInputError` unless `low <= value <= high`."""
    if not low <= value <= high:
        raise InvalidInputError(f"{name} must be {low} to {high}, not {value}")


def _check_key_values(spec: TableSpec, item: Mapping[str, Any], partition: str, sort: str) -> None:
    for name in filter(None, (partition, sort)):
        if name not in item:
            raise InvalidInputError(f"an item of table {spec.name} needs the key attribute {name}")
        check_key_value(spec, name, item[name], _key_limit(name, partition))


def _key_limit(name: str, partition: str) -> int:
    return MAX_PARTITION_KEY_BYTES if name == partition else MAX_SORT_KEY_BYTES


def _size(value: object, depth: int) -> int:
    """Bytes that DynamoDB counts for a value, rounded up. Raises `InvalidInputError` for unsupported values."""
    if depth > MAX_DEPTH:
        raise InvalidInputError(f"values may be nested {MAX_DEPTH} levels deep")
    if isinstance(value, str):
        return _utf8_length(value)
    if value is None or isinstance(value, bool):
        return 1
    if isinstance(value, bytes):
        return len(value)
    if isinstance(value, int | float):
        return _number_size(value)
    if isinstance(value, list | tuple):
        return 3 + sum(1 + _size(element, depth + 1) for element in value)
    if isinstance(value, dict):
        return 3 + sum(1 + _name_size(name) + _size(element, depth + 1) for name, element in value.items())
    raise InvalidInputError(f"a table can't hold a value of type {type(value).__name__}")


def _name_size(name: object) -> int:
    if not isinstance(name, str) or not name:
        raise InvalidInputError(f"a name in an item must be a non-empty string, not {name!r}")
    return _utf8_length(name)


def _number_size(value: float) -> int:
    if isinstance(value, int):
        if abs(value) >= 10**38:
            raise InvalidInputError("a whole number may have 38 digits")
    elif value and not 1e-130 <= abs(value) < 1e126:  # also NaN, which compares false
        raise InvalidInputError(f"a table can't hold the number {value!r}: its size must be 1e-130 to 1e126, or 0")
    return 21


def _utf8_length(text: str) -> int:
    try:
        return len(text) if text.isascii() else len(text.encode())
    except UnicodeEncodeError as exc:
        raise InvalidInputError(f"text with the unpaired surrogate {text[exc.start]!r} can't be stored") from exc


# -- conditions of the `Table` port, and the expiry of items


def holds(condition: Condition, item: Mapping[str, Any] | None) -> bool:
    """True if the condition holds for a stored item; None stands for an item that doesn't exist."""
    if isinstance(condition, AnyOf):
        return any(holds(part, item) for part in condition.conditions)
    if isinstance(condition, AllOf):
        return all(holds(part, item) for part in condition.conditions)
    if isinstance(condition, KeyAbsent):
        return item is None or (condition.attribute != "" and condition.attribute not in item)
    if item is None or condition.attribute not in item:
        return False
    return _compare(condition, item[condition.attribute])


def expiry(item: Mapping[str, Any], ttl: str) -> float | None:
    """Expiry time in seconds since the epoch; None without the attribute `ttl`, or if it isn't a number."""
    expires = item.get(ttl) if ttl else None
    return None if expires is None or _kind(expires) != "number" else float(expires)


def is_expired(item: Mapping[str, Any], ttl: str, now: float) -> bool:
    """True if the time in the attribute `ttl` has passed."""
    expires = expiry(item, ttl)
    return expires is not None and expires < now


def with_fields(item: Item, fields: Sequence[str]) -> Item:
    """The item with these attributes alone; with all, if none are given."""
    return {name: item[name] for name in fields if name in item} if fields else item


def _compare(condition: Equals | LessThan, stored: object) -> bool:
    # Python equates True and 1; a table doesn't.
    if _kind(stored) != _kind(condition.value):
        return False
    if isinstance(condition, Equals):
        return stored == condition.value
    return bool(stored < condition.value)  # type: ignore[operator]


def _kind(value: object) -> str:
    if isinstance(value, bool):
        return "bool"
    return "number" if isinstance(value, int | float) else type(value).__name__


# -- a query of the `Table` port, validated and normalised for both adapters


class Slice(Struct, frozen=True):
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
    """Builds the slice of a query. Raises `InvalidInputError` if the index doesn't exist or the range doesn't fit its
    sort attribute."""
    try:
        keys = spec.index(index) if index else spec
    except KeyError as exc:
        raise InvalidInputError(f"table {spec.name} has no index {index!r}") from exc
    check_key_value(spec, keys.partition, partition)
    where = where or KeyRange()
    _check_range(spec, keys.sort, where)
    # Nothing sorts before the empty string, and it is no valid key: as a lower bound it has no effect.
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
