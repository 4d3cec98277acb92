"""DynamoDB's behaviour beyond the contract: partial batches, errors and expressions."""

from __future__ import annotations

from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from opx.errors import StoreUnavailableError
from opx.ports import KeyAbsent
from opx.ports.tables import ALL_TABLES, TableSpec
from opx_aws.table import FLOATS, DynamoTable, from_attributes, to_attributes
from opx_aws.vendor_errors import Backoff
from opx_testing.fake_time import FakeTime
from tests.support.dynamo_tables import create_table

SPEC = TableSpec("things", "id", ttl="ttl")
BACKOFF = Backoff(attempts=3, base=1.0, random=lambda: 0.0)


class Throttling:
    """A client that leaves part of each batch unprocessed: all but `served` of its items, `times` times."""

    def __init__(self, client: Any, *, times: int, served: int) -> None:
        self._client = client
        self._times = times
        self._served = served

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def batch_write_item(self, **arguments: Any) -> Any:
        ((table, requests),) = arguments["RequestItems"].items()
        now, later = self._split(requests)
        answer = self._client.batch_write_item(RequestItems={table: now}) if now else {}
        return {**answer, "UnprocessedItems": {table: later} if later else {}}

    def batch_get_item(self, **arguments: Any) -> Any:
        ((table, request),) = arguments["RequestItems"].items()
        now, later = self._split(request["Keys"])
        answer = self._client.batch_get_item(RequestItems={table: {**request, "Keys": now}}) if now else {}
        left = {table: {**request, "Keys": later}} if later else {}
        return {"Responses": {}, **answer, "UnprocessedKeys": left}

    def _split(self, entries: list[Any]) -> tuple[list[Any], list[Any]]:
        self._times -= 1
        served = self._served if self._times >= 0 else len(entries)
        return entries[:served], entries[served:]


@pytest.fixture
def client(aws: boto3.Session) -> Any:
    client = aws.client("dynamodb")
    create_table(client, SPEC)
    return client


def a_table(client: Any, time: FakeTime) -> DynamoTable:
    return DynamoTable(SPEC, client, clock=time.clock, backoff=BACKOFF, sleep=time.sleep)


def test_unprocessed_items_are_written_in_the_end(client: Any, time: FakeTime) -> None:
    table = a_table(Throttling(client, times=4, served=5), time)
    table.put_many({"id": f"{number}"} for number in range(30))
    assert client.scan(TableName="things", Select="COUNT")["Count"] == 30
    assert time.slept == [1.0] * 4, "each step forward starts the pauses anew"


def test_unprocessed_keys_are_read_in_the_end(client: Any, time: FakeTime) -> None:
    a_table(client, time).put_many({"id": f"{number}"} for number in range(30))
    table = a_table(Throttling(client, times=4, served=5), time)
    found = table.get_many([{"id": f"{number}"} for number in range(30)])
    assert sorted(int(item["id"]) for item in found) == list(range(30))


def test_table_over_its_capacity_is_given_up_after_longer_and_longer_pauses(client: Any, time: FakeTime) -> None:
    table = a_table(Throttling(client, times=99, served=0), time)
    with pytest.raises(StoreUnavailableError, match="capacity"):
        table.put_many([{"id": "a"}])
    assert time.slept == [1.0, 2.0]
    with pytest.raises(StoreUnavailableError, match="capacity"):
        table.get_many([{"id": "a"}])


def test_no_batch_names_a_key_twice(client: Any, time: FakeTime) -> None:
    batches: list[list[str]] = []

    class Recording(Throttling):
        def batch_write_item(self, **arguments: Any) -> Any:
            requests = arguments["RequestItems"]["things"]
            batches.append([request["PutRequest"]["Item"]["id"]["S"] for request in requests])
            return super().batch_write_item(**arguments)

    table = a_table(Recording(client, times=0, served=0), time)
    table.put_many({"id": f"{number % 10}", "number": number} for number in range(100))
    assert [len(batch) - len(set(batch)) for batch in batches] == [0] * len(batches)
    assert sorted(item["number"] for item in table.get_many([{"id": f"{n}"} for n in range(10)])) == [*range(90, 100)]


def test_missing_table_is_unavailable(aws: boto3.Session, time: FakeTime) -> None:
    table = a_table(aws.client("dynamodb"), time)
    with pytest.raises(StoreUnavailableError, match="ResourceNotFoundException"):
        table.get({"id": "a"})
    with pytest.raises(StoreUnavailableError, match="ResourceNotFoundException"):
        list(table.query("a"))


def test_mistake_of_ours_is_not_called_unavailable(client: Any) -> None:
    wrong = TableSpec("things", "other")
    with pytest.raises(ClientError, match="ValidationException"):
        DynamoTable(wrong, client).get({"other": "a"})


def test_numbers_are_sent_exactly(client: Any, time: FakeTime) -> None:
    a_table(client, time).put({"id": "a", "tenth": 0.1, "third": 1 / 3, "even": 2.0, "large": 10**37 + 1})
    stored = client.get_item(TableName="things", Key={"id": {"S": "a"}})["Item"]
    numbers = {name: value["N"] for name, value in stored.items() if "N" in value}
    assert numbers == {"tenth": "0.1", "third": "0.3333333333333333", "even": "2", "large": "1" + "0" * 36 + "1"}


def test_numbers_that_the_service_writes_in_another_way_are_the_same() -> None:
    item = {"price": 100.0, "count": 100, "share": 0.5}
    attributes = {**to_attributes(item), "price": {"N": "1E+2"}, "count": {"N": "1E+2"}, "share": {"N": "5E-1"}}
    restored = from_attributes(attributes)
    assert [(type(value), value) for value in restored.values()] == [(float, 100.0), (int, 100), (float, 0.5)]


def test_item_without_whole_floats_has_no_note_of_them() -> None:
    assert FLOATS not in to_attributes({"id": "a", "count": 2, "share": 0.5})


def test_item_that_another_program_wrote_is_read(client: Any, time: FakeTime) -> None:
    client.put_item(TableName="things", Item={"id": {"S": "a"}, "count": {"N": "2"}, "set": {"SS": ["x"]}})
    assert a_table(client, time).get({"id": "a"}) == {"id": "a", "count": 2, "set": ["x"]}


@pytest.mark.parametrize("spec", ALL_TABLES, ids=lambda spec: spec.name)
def test_every_table_takes_an_item_under_its_condition(aws: boto3.Session, spec: TableSpec) -> None:
    client = aws.client("dynamodb")
    create_table(client, spec)
    names = filter(None, [spec.partition, spec.sort, *(name for i in spec.indexes for name in (i.partition, i.sort))])
    item: dict[str, Any] = {name: 1 if name in spec.numbers else "x" for name in names}
    table = DynamoTable(spec, client)
    table.put(item, condition=KeyAbsent())
    assert [table.get(spec.key_of(item))] == list(table.query(item[spec.partition])) == [item]
    for index in spec.indexes:
        assert list(table.query(item[index.partition], index=index.name)) == [item]
