"""Write units of DynamoDB, counted by the partition of the table or index that they reach."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from botocore.exceptions import ClientError
from msgspec import Struct

UNIT_BYTES = 1024
Attributes = Mapping[str, Any]


class PartitionName(Struct, frozen=True):
    """A partition of a table, or of one of its indexes."""

    table: str
    index: str
    value: str


@dataclass
class CountedWrites:
    """A client of DynamoDB whose writes are counted as the service charges them: a unit for each kilobyte begun, of the item
    and of what each index holds of it.

    An index costs nothing if neither its key nor what it holds of the item changes, and two writes if its key does.
    Conditions that fail cost a unit of the table.
    """

    client: Any
    units: Counter[PartitionName] = field(default_factory=Counter)
    _tables: dict[str, Any] = field(default_factory=dict)
    _lock: Any = field(default_factory=threading.RLock)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.client, name)

    def of_indexes(self) -> Counter[PartitionName]:
        return Counter({one: count for one, count in self.units.items() if one.index})

    def by_table(self) -> Counter[tuple[str, str]]:
        """Units by table and index; the index is empty for the table itself."""
        found: Counter[tuple[str, str]] = Counter()
        for one, count in self.units.items():
            found[one.table, one.index] += count
        return found

    # -- calls that write

    def put_item(self, **request: Any) -> Any:
        with self._lock:
            return self._written(request["TableName"], request["Item"], request["Item"], self.client.put_item, request)

    def delete_item(self, **request: Any) -> Any:
        with self._lock:
            return self._written(request["TableName"], request["Key"], None, self.client.delete_item, request)

    def batch_write_item(self, **request: Any) -> Any:
        with self._lock:
            for table, writes in request["RequestItems"].items():
                for write in writes:
                    item = write["PutRequest"]["Item"]
                    self._count(table, item, self._stored(table, item), item)
            return self.client.batch_write_item(**request)

    def update_item(self, **request: Any) -> Any:
        with self._lock:
            table, key = request["TableName"], request["Key"]
            old = self._stored(table, key)
            answer = self.client.update_item(**request)
            self._count(table, key, old, self._stored(table, key))
            return answer

    # -- counting

    def _written(self, table: str, key: Attributes, new: Attributes | None, call: Any, request: Any) -> Any:
        old = self._stored(table, key)
        try:
            answer = call(**request)
        except ClientError as exc:
            self.units[self._own(table, key)] += exc.response["Error"]["Code"] == "ConditionalCheckFailedException"
            raise
        self._count(table, key, old, new)
        return answer

    def _stored(self, table: str, item: Attributes) -> Attributes | None:
        key = {name: item[name] for name in self._key(self._description(table))}
        found: Attributes | None = self.client.get_item(TableName=table, Key=key, ConsistentRead=True).get("Item")
        return found

    def _count(self, table: str, key: Attributes, old: Attributes | None, new: Attributes | None) -> None:
        self.units[self._own(table, key)] += max(units(old), units(new), 1)
        for index in self._description(table).get("GlobalSecondaryIndexes", ()):
            for value, count in self._of_index(table, index, old, new):
                self.units[PartitionName(table, index["IndexName"], value)] += count

    def _of_index(
        self, table: str, index: Any, old: Attributes | None, new: Attributes | None
    ) -> Iterator[tuple[str, int]]:
        names = self._key(index)
        before, after = self._projected(table, index, old), self._projected(table, index, new)
        if before == after:
            return
        moved = before and after and any(before[name] != after[name] for name in names)
        if before and (moved or not after):
            yield _text(before[names[0]]), units(before)
        if after:
            yield _text(after[names[0]]), max(units(after), 0 if moved else units(before))

    def _projected(self, table: str, index: Any, item: Attributes | None) -> Attributes | None:
        """The part of the item that the index holds; None if it isn't in it."""
        keys = self._key(index)
        if item is None or any(name not in item for name in keys):
            return None
        projection = index["Projection"]
        if projection["ProjectionType"] == "ALL":
            return item
        names = {*keys, *self._key(self._description(table)), *projection.get("NonKeyAttributes", ())}
        return {name: value for name, value in item.items() if name in names}

    def _own(self, table: str, key: Attributes) -> PartitionName:
        return PartitionName(table, "", _text(key[self._key(self._description(table))[0]]))

    def _description(self, table: str) -> Any:
        if table not in self._tables:
            self._tables[table] = self.client.describe_table(TableName=table)["Table"]
        return self._tables[table]

    @staticmethod
    def _key(described: Any) -> list[str]:
        return [part["AttributeName"] for part in described["KeySchema"]]


def units(item: Attributes | None) -> int:
    """Write units of an item of this size; none for no item."""
    return -(-_size({"M": item}) // UNIT_BYTES) if item else 0


def _size(value: Mapping[str, Any]) -> int:
    ((kind, content),) = value.items()
    if kind == "M":
        return 3 + sum(1 + len(name.encode()) + _size(one) for name, one in content.items())
    if kind == "L":
        return 3 + sum(1 + _size(one) for one in content)
    if kind == "N":
        return 1 + (len(content.strip("-0.")) + 1) // 2
    return len(content.encode()) if kind == "S" else len(content) if kind == "B" else 1


def _text(value: Mapping[str, Any]) -> str:
    return str(next(iter(value.values())))
