"""Tables in DynamoDB."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from opx.adapters.aws.backoff import Backoff
from opx.adapters.aws.dynamo_expressions import condition_arguments, slice_arguments
from opx.adapters.aws.dynamo_items import from_attributes, to_attributes, to_key
from opx.adapters.aws.vendor_errors import error_code, translated_errors
from opx.adapters.conditions import is_expired
from opx.adapters.limits import Slice, check_item, check_table_key, check_whole, slice_of
from opx.errors import ConditionFailedError, StoreUnavailableError
from opx.ports import Clock, Condition, Item, KeyRange
from opx.tables import TableSpec

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

KEYS_A_READ = 100
ITEMS_A_WRITE = 25

Batch = list[dict[str, Any]]


class DynamoTable:
    """A `Table` in DynamoDB, whose name is `prefix` and the name in the `TableSpec`. It must exist.

    Reads by key are consistent; indexes lag. What a batch leaves unprocessed is asked for again as `backoff` says.
    """

    def __init__(
        self,
        spec: TableSpec,
        client: DynamoDBClient,
        *,
        prefix: str = "",
        clock: Clock = time.time,
        backoff: Backoff | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._spec = spec
        self._client = client
        self._name = prefix + spec.name
        self._clock = clock
        self._backoff = backoff or Backoff(attempts=8, base=0.05, longest=5.0)
        self._sleep = sleep

    def get(self, key: Mapping[str, Any]) -> Item | None:
        check_table_key(self._spec, key)
        with self._translated("read from"):
            answer = self._client.get_item(TableName=self._name, Key=to_key(key), ConsistentRead=True)
        return next(self._current([answer["Item"]] if "Item" in answer else []), None)

    def get_many(self, keys: Sequence[Mapping[str, Any]]) -> list[Item]:
        for key in keys:
            check_table_key(self._spec, key)
        remaining = iter({self._key_values(key): key for key in keys}.values())
        found: list[Item] = []

        def read(batch: Batch) -> Batch:
            answer = self._client.batch_get_item(RequestItems={self._name: {"Keys": batch, "ConsistentRead": True}})
            found.extend(self._current(answer["Responses"].get(self._name, [])))
            left = answer.get("UnprocessedKeys", {}).get(self._name)
            return list(left["Keys"]) if left else []

        while batch := list(islice(remaining, KEYS_A_READ)):
            self._drain("read from", [to_key(key) for key in batch], read)
        return found

    def put(self, item: Mapping[str, Any], *, condition: Condition | None = None) -> None:
        check_item(self._spec, item)
        with self._translated("write to", condition):
            self._client.put_item(TableName=self._name, Item=to_attributes(item), **self._arguments(condition))

    def put_many(self, items: Iterable[Mapping[str, Any]]) -> None:
        def write(batch: Batch) -> Batch:
            requests: Any = {self._name: [{"PutRequest": {"Item": attributes}} for attributes in batch]}
            left: Any = self._client.batch_write_item(RequestItems=requests)["UnprocessedItems"]
            return [request["PutRequest"]["Item"] for request in left.get(self._name, [])]

        for batch in self._batches(items):
            self._drain("write to", batch, write)

    def delete(self, key: Mapping[str, Any], *, condition: Condition | None = None) -> None:
        check_table_key(self._spec, key)
        with self._translated("delete from", condition):
            self._client.delete_item(TableName=self._name, Key=to_key(key), **self._arguments(condition))

    def query(
        self,
        partition: str | int,
        *,
        index: str = "",
        where: KeyRange | None = None,
        reverse: bool = False,
        limit: int | None = None,
    ) -> Iterator[Item]:
        part = slice_of(self._spec, partition, index, where)
        arguments: dict[str, Any] = {"ScanIndexForward": not reverse}
        arguments.update({"IndexName": index} if index else {"ConsistentRead": True})
        if limit is not None:
            check_whole("limit", limit, 0, 2**31)
            arguments["Limit"] = max(1, min(limit, 1000))
        return islice(self._read(part, arguments), limit)

    def scan(self) -> Iterator[Item]:
        """All items, in no particular order; those that change meanwhile may come as they were. Reads every byte of the
        table, consistently: a backup, not a query."""
        request: dict[str, Any] = {"TableName": self._name, "ConsistentRead": True}
        while True:
            with self._translated("read from"):
                answer = self._client.scan(**request)
            yield from self._current(answer["Items"])
            if "LastEvaluatedKey" not in answer:
                return
            request["ExclusiveStartKey"] = answer["LastEvaluatedKey"]

    def _read(self, part: Slice, arguments: dict[str, Any]) -> Iterator[Item]:
        request = {"TableName": self._name, **arguments, **slice_arguments(part)}
        while not part.is_empty:
            with self._translated("query"):
                answer = self._client.query(**request)
            yield from self._current(answer["Items"])
            if "LastEvaluatedKey" not in answer:
                return
            request["ExclusiveStartKey"] = answer["LastEvaluatedKey"]

    def _current(self, found: Iterable[Mapping[str, Any]]) -> Iterator[Item]:
        """The items that haven't expired: DynamoDB removes them up to two days late."""
        now = self._clock()
        items = map(from_attributes, found)
        return (item for item in items if not is_expired(item, self._spec.ttl, now))

    def _batches(self, items: Iterable[Mapping[str, Any]]) -> Iterator[Batch]:
        """Batches without two items of one key, which DynamoDB refuses; the last item of a key stays."""
        batch: dict[tuple[Any, ...], dict[str, Any]] = {}
        for item in items:
            check_item(self._spec, item)
            batch[self._key_values(item)] = to_attributes(item)
            if len(batch) == ITEMS_A_WRITE:
                yield list(batch.values())
                batch.clear()
        if batch:
            yield list(batch.values())

    def _drain(self, action: str, batch: Batch, call: Callable[[Batch], Batch]) -> None:
        """Call until nothing is left unprocessed; the pauses start anew when something got through."""
        pauses = self._backoff.pauses()
        while batch:
            with self._translated(action):
                left = call(batch)
            if left:
                pauses = self._backoff.pauses() if len(left) < len(batch) else pauses
                pause = next(pauses, None)
                if pause is None:
                    raise StoreUnavailableError(f"can't {action} table {self._name} for now: it is over its capacity")
                self._sleep(pause)
            batch = left

    @contextmanager
    def _translated(self, action: str, condition: Condition | None = None) -> Iterator[None]:
        with translated_errors(f"{action} table {self._name}"):
            try:
                yield
            except ClientError as exc:
                if error_code(exc) == "ConditionalCheckFailedException":
                    raise ConditionFailedError(f"item of table {self._name} is in another state: {condition}") from exc
                raise

    def _arguments(self, condition: Condition | None) -> dict[str, Any]:
        return {} if condition is None else condition_arguments(self._spec, condition, self._clock())

    def _key_values(self, item: Mapping[str, Any]) -> tuple[Any, ...]:
        return tuple(item[name] for name in (self._spec.partition, self._spec.sort) if name)
