"""Stores tables in DynamoDB: items as attribute values without loss, conditions and ranges as expressions.

Every name in an expression is a placeholder: hundreds of plain words are reserved, among them `name`, `status`, `owner`
and `key`.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass
from decimal import Decimal
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

from opx.adapters.limits import (
    Slice,
    check_item,
    check_table_key,
    check_whole,
    holds,
    is_expired,
    slice_of,
    with_fields,
)
from opx.domain.record import replace
from opx.errors import ConditionFailedError, StoreUnavailableError
from opx.ports import AllOf, AnyOf, Clock, Condition, Equals, Item, ItemPage, KeyAbsent, KeyRange
from opx.ports.tables import TableSpec, stored
from opx.runtime.threads import Each
from opx_aws.index_shards import gathered, merged, partitions_of, spread
from opx_aws.vendor_errors import Backoff, answers, raised_as, translated_errors

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_dynamodb.type_defs import AttributeValueTypeDef as AttributeValue

FLOATS = "opx-floats"
"""An attribute that lists the paths of whole numbers that were floats: DynamoDB stores 2.0 as 2."""

Path = tuple[str | int, ...]


def to_attributes(item: Mapping[str, Any]) -> dict[str, AttributeValue]:
    """Encodes an item, with the paths of whole numbers that are floats, if any."""
    floats: list[Path] = []
    attributes = {name: _to_value(value, (name,), floats) for name, value in item.items()}
    if floats:
        attributes[FLOATS] = {"S": json.dumps(floats, ensure_ascii=False)}
    return attributes


def from_attributes(attributes: Mapping[str, Any]) -> Item:
    """Decodes an item, or some of its attributes, to the values that were put."""
    item = {name: _from_value(value) for name, value in attributes.items()}
    for path in json.loads(item.pop(FLOATS, "[]")):
        if path[0] not in item:
            continue
        *parents, last = path
        target: Any = item
        for step in parents:
            target = target[step]
        target[last] = float(target[last])
    return item


def to_key(key: Mapping[str, Any]) -> dict[str, AttributeValue]:
    """Encodes a key, or values to compare with, for which int and float needn't be distinguished."""
    return {name: to_value(value) for name, value in key.items()}


def to_value(value: object) -> AttributeValue:
    """Encodes one attribute value, for which int and float needn't be distinguished."""
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
        # The shortest decimal that round-trips to the same float has 17 digits at most; DynamoDB keeps 38.
        return {"N": str(Decimal(repr(value)).normalize() if isinstance(value, float) else value)}
    return {"NULL": True}


def _from_value(value: Mapping[str, Any]) -> Any:
    ((kind, content),) = value.items()
    if kind == "NULL":
        return None
    if kind == "N":
        return _number(content)
    if kind == "M":
        return {name: _from_value(element) for name, element in content.items()}
    if kind == "L":
        return [_from_value(element) for element in content]
    if kind == "B" and isinstance(content, str):  # as the service sends it: see `opx_aws.clients`
        return base64.b64decode(content)
    return content


def _number(text: str) -> int | float:
    if text.lstrip("-").isdigit():
        return int(text)
    number = Decimal(text)
    return int(number) if number == number.to_integral_value() else float(number)


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
        """True only if the attribute has the type of the value: not every engine distinguishes true from 1."""
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
    if isinstance(condition, KeyAbsent):
        return f"attribute_not_exists({build.name(condition.attribute or spec.partition)})"
    return build.comparison(condition.attribute, "=" if isinstance(condition, Equals) else "<", condition.value)


def _combined(build: Expression, spec: TableSpec, condition: AnyOf | AllOf) -> str:
    parts = [f"({_condition(build, spec, part)})" for part in condition.conditions]
    if not parts:  # any of none is false, all of none is true, and an expression can't be empty
        key = build.name(spec.partition)
        word = "AND" if isinstance(condition, AnyOf) else "OR"
        return f"attribute_exists({key}) {word} attribute_not_exists({key})"
    return (" OR " if isinstance(condition, AnyOf) else " AND ").join(parts)


def _read_from(index: str) -> dict[str, Any]:
    return {"IndexName": index} if index else {"ConsistentRead": True}


def _merged(parts: list[Iterator[Item]], sort: str, *, reverse: bool) -> Iterator[Item]:
    """Items of all parts in order. The first pages are read at the same time."""
    if len(parts) > 1:
        first = Each(len(parts))(lambda part: list(islice(part, 1)), parts)
        parts = [chain(found, part) for found, part in zip(first, parts, strict=True)]
    yield from merged(parts, sort, reverse=reverse)


KEYS_A_READ = 100
ITEMS_A_WRITE = 25

Batch = list[dict[str, Any]]


@dataclass(eq=False)
class DynamoTable:
    """A `Table` in DynamoDB, whose name is `prefix` and the name in the `TableSpec`. It must exist.

    Reads by key are consistent; indexes lag. Items that a batch leaves unprocessed are retried as `backoff` says.
    """

    spec: TableSpec
    client: DynamoDBClient
    _: KW_ONLY
    prefix: str = ""
    clock: Clock = time.time
    backoff: Backoff | None = None
    sleep: Callable[[float], None] = time.sleep

    def __post_init__(self) -> None:
        self._name = self.prefix + self.spec.name
        self._backoff = self.backoff or Backoff(attempts=8, base=0.05, longest=5.0)

    def get(self, key: Mapping[str, Any]) -> Item | None:
        check_table_key(self.spec, key)
        with self._translated("read from"):
            answer = self.client.get_item(TableName=self._name, Key=to_key(key), ConsistentRead=True)
        return next(self._current([answer["Item"]] if "Item" in answer else []), None)

    def get_many(self, keys: Sequence[Mapping[str, Any]]) -> list[Item]:
        for key in keys:
            check_table_key(self.spec, key)
        remaining = iter({self._key_values(key): key for key in keys}.values())
        found: list[Item] = []

        def read(batch: Batch) -> Batch:
            answer = self.client.batch_get_item(RequestItems={self._name: {"Keys": batch, "ConsistentRead": True}})
            found.extend(self._current(answer["Responses"].get(self._name, [])))
            left = answer.get("UnprocessedKeys", {}).get(self._name)
            return list(left["Keys"]) if left else []

        while batch := list(islice(remaining, KEYS_A_READ)):
            self._drain("read from", [to_key(key) for key in batch], read)
        return found

    def put(self, item: Mapping[str, Any], *, condition: Condition | None = None) -> None:
        check_item(self.spec, item)
        with self._translated("write to", condition):
            self.client.put_item(TableName=self._name, Item=self._attributes(item), **self._arguments(condition))

    def put_many(self, items: Iterable[Mapping[str, Any]]) -> None:
        def write(batch: Batch) -> Batch:
            requests: Any = {self._name: [{"PutRequest": {"Item": attributes}} for attributes in batch]}
            left: Any = self.client.batch_write_item(RequestItems=requests)["UnprocessedItems"]
            return [request["PutRequest"]["Item"] for request in left.get(self._name, [])]

        for batch in self._batches(items):
            self._drain("write to", batch, write)

    def delete(self, key: Mapping[str, Any], *, condition: Condition | None = None) -> None:
        check_table_key(self.spec, key)
        with self._translated("delete from", condition):
            self.client.delete_item(TableName=self._name, Key=to_key(key), **self._arguments(condition))

    def query(
        self,
        partition: str | int,
        *,
        index: str = "",
        where: KeyRange | None = None,
        reverse: bool = False,
        limit: int | None = None,
    ) -> Iterator[Item]:
        part = slice_of(self.spec, partition, index, where)
        if limit is not None:
            check_whole("limit", limit, 0, 2**31)
        options: dict[str, Any] = {"ScanIndexForward": not reverse, **_read_from(index)}
        if limit is not None:
            options["Limit"] = max(1, min(limit, 1000))
        shards = [replace(part, partition=name) for name in partitions_of(self.spec, index, partition)]
        parts = [self._items(self.client.query, {**slice_arguments(shard), **options}, "query") for shard in shards]
        found = iter(()) if part.is_empty else _merged(parts, part.sort_name, reverse=reverse)
        return islice(found, limit)

    def page(
        self, partition: str | int, *, index: str = "", fields: Sequence[str] = (), begin: Item | None = None
    ) -> ItemPage:
        part = slice_of(self.spec, partition, index, None)
        shards = partitions_of(self.spec, index, partition)
        shard = begin[part.partition_name] if begin else shards[0]
        request = {"TableName": self._name, **slice_arguments(replace(part, partition=shard)), **_read_from(index)}
        if fields:
            marks = {f"#f{number}": name for number, name in enumerate(self._read_for(fields))}
            request["ProjectionExpression"] = ", ".join(marks)
            request["ExpressionAttributeNames"] |= marks
        if begin and len(begin) > 1:  # else it is the beginning of a shard
            request["ExclusiveStartKey"] = to_key(begin)
        with self._translated("query"):
            answer = self.client.query(**request)
        items, last = self._current(answer["Items"]), answer.get("LastEvaluatedKey")
        following = next(iter(shards[shards.index(shard) + 1 :]), None)
        behind = from_attributes(last) if last else {part.partition_name: following} if following else None
        return ItemPage([with_fields(item, fields) for item in items], behind)

    def _read_for(self, fields: Sequence[str]) -> list[str]:
        """Attributes that these and the item's expiry are decoded from."""
        return list(dict.fromkeys([*fields, FLOATS, *([self.spec.ttl] if self.spec.ttl else [])]))

    def count(self, partition: str | int, *, index: str = "", where: KeyRange | None = None) -> int:
        part = slice_of(self.spec, partition, index, where)
        if part.is_empty:
            return 0
        shards = partitions_of(self.spec, index, partition)
        return sum(Each(len(shards))(lambda name: self._counted(replace(part, partition=name), index), shards))

    def _counted(self, part: Slice, index: str) -> int:
        request = {"TableName": self._name, "Select": "COUNT", **slice_arguments(part), **_read_from(index)}
        if self.spec.ttl:  # DynamoDB removes expired items up to two days late
            request["FilterExpression"] = "NOT (attribute_type(#ttl, :number) AND #ttl < :now)"
            request["ExpressionAttributeNames"] |= {"#ttl": self.spec.ttl}
            request["ExpressionAttributeValues"] |= {":number": {"S": "N"}, ":now": to_value(self.clock())}
        action = f"count in table {self._name}"
        pages = answers(self.client.query, request, action, mark="LastEvaluatedKey", sent_as="ExclusiveStartKey")
        return sum(page["Count"] for page in pages)

    def scan(self, after: Item | None = None) -> Iterator[Item]:
        """All items, in DynamoDB's order, behind the key `after`; items that change meanwhile may be returned in their old
        state. Reads every byte of the table, consistently: a backup, not a query."""
        begin = {"ExclusiveStartKey": to_key(after)} if after else {}
        return self._items(self.client.scan, {"ConsistentRead": True, **begin}, "read from")

    def _items(self, call: Callable[..., Any], arguments: Mapping[str, Any], action: str) -> Iterator[Item]:
        request = {"TableName": self._name, **arguments}
        action = f"{action} table {self._name}"
        for answer in answers(call, request, action, mark="LastEvaluatedKey", sent_as="ExclusiveStartKey"):
            yield from self._current(answer["Items"])

    def _current(self, found: Iterable[Mapping[str, Any]]) -> Iterator[Item]:
        """Filters out expired items: DynamoDB removes them up to two days late."""
        now = self.clock()
        spec = self.spec
        items = (stored(spec, gathered(spec, from_attributes(attributes))) for attributes in found)
        return (item for item in items if not is_expired(item, self.spec.ttl, now))

    def _attributes(self, item: Mapping[str, Any]) -> dict[str, AttributeValue]:
        return to_attributes(spread(self.spec, item))

    def _batches(self, items: Iterable[Mapping[str, Any]]) -> Iterator[Batch]:
        """Batches without two items of one key, which DynamoDB refuses; the last item of a key wins."""
        batch: dict[tuple[Any, ...], dict[str, Any]] = {}
        for item in items:
            check_item(self.spec, item)
            batch[self._key_values(item)] = self._attributes(item)
            if len(batch) == ITEMS_A_WRITE:
                yield list(batch.values())
                batch.clear()
        if batch:
            yield list(batch.values())

    def _drain(self, action: str, batch: Batch, call: Callable[[Batch], Batch]) -> None:
        """Repeats the call until nothing is left unprocessed; the pauses start anew after any progress."""
        pauses = self._backoff.pauses()
        while batch:
            with self._translated(action):
                left = call(batch)
            if left:
                pauses = self._backoff.pauses() if len(left) < len(batch) else pauses
                pause = next(pauses, None)
                if pause is None:
                    raise StoreUnavailableError(f"can't {action} table {self._name} for now: it is over its capacity")
                self.sleep(pause)
            batch = left

    @contextmanager
    def _translated(self, action: str, condition: Condition | None = None) -> Iterator[None]:
        failed = ConditionFailedError(f"item of table {self._name} is in another state: {condition}")
        with translated_errors(f"{action} table {self._name}"), raised_as(failed, "ConditionalCheckFailedException"):
            yield

    def _arguments(self, condition: Condition | None) -> dict[str, Any]:
        return {} if condition is None else condition_arguments(self.spec, condition, self.clock())

    def _key_values(self, item: Mapping[str, Any]) -> tuple[Any, ...]:
        return tuple(item[name] for name in (self.spec.partition, self.spec.sort) if name)
