"""Queries that bypass botocore's layers are answered as botocore's, also when something is wrong."""

from __future__ import annotations

from collections import Counter
from typing import Any

import boto3
import pytest
from botocore.awsrequest import AWSResponse
from botocore.compat import HTTPHeaders

from opx.errors import StoreUnavailableError
from opx_aws.clients import client as deployed_client
from opx_aws.table import DynamoTable
from opx_testing.things import THINGS, a_thing, names
from tests.support.dynamo_tables import create_table

BEFORE_SEND = "before-send.dynamodb.Query"
BUILT = "before-call.dynamodb.Query"
"""Called by botocore's own way alone."""


class Account:
    """A table with two items. `thorough` counts the queries that botocore's own way answered."""

    def __init__(self, session: boto3.Session) -> None:
        self.client: Any = deployed_client("dynamodb", session=session)
        create_table(self.client, THINGS, "test-")
        self.table = DynamoTable(THINGS, self.client, prefix="test-")
        self.table.put_many([a_thing("a", size=2.0), a_thing("b", data=b"\x00\xff")])
        self.thorough: Counter[str] = Counter()
        self.client.meta.events.register(BUILT, lambda **_: self.thorough.update(["query"]))

    def first_reply(self, reply: AWSResponse | Exception) -> None:
        """Has the next request get this reply."""
        left = [reply]

        def answer(**_: Any) -> AWSResponse | None:
            found = left.pop() if left else None
            if isinstance(found, Exception):
                raise found
            return found

        self.client.meta.events.register_first(BEFORE_SEND, answer)


@pytest.fixture
def account(aws: boto3.Session) -> Account:
    return Account(aws)


class Raw:
    def __init__(self, body: bytes) -> None:
        self._body = body

    def stream(self, *_: Any, **__: Any) -> Any:
        yield self._body


def a_reply(status: int, body: bytes, **headers: str) -> AWSResponse:
    return AWSResponse("https://dynamodb", status, HTTPHeaders.from_dict(headers), Raw(body))


def test_queries_are_answered_without_botocores_layers(account: Account) -> None:
    assert list(account.table.query("ada")) == [a_thing("a", size=2.0), a_thing("b", data=b"\x00\xff")]
    assert names(account.table.page("ada", fields=("name",)).items) == ["a", "b"]
    assert account.table.count("ada") == 2
    assert account.thorough["query"] == 0


@pytest.mark.parametrize(
    "reply",
    [
        a_reply(400, b'{"__type": "com.amazonaws.dynamodb.v20120810#ThrottlingException"}'),
        a_reply(500, b"{}"),
        a_reply(200, b"<html>"),
        a_reply(200, b'{"Items": [], "Count": 0}', **{"x-amz-crc32": "1"}),
    ],
    ids=["throttled", "failed", "no JSON", "another checksum"],
)
def test_what_is_not_answered_well_is_queried_again_by_botocore(account: Account, reply: AWSResponse) -> None:
    account.first_reply(reply)
    assert names(account.table.query("ada")) == ["a", "b"]
    assert account.thorough["query"] == 1


def test_errors_are_those_of_botocore(account: Account) -> None:
    account.client.delete_table(TableName="test-things")
    with pytest.raises(StoreUnavailableError, match="ResourceNotFound"):
        list(account.table.query("ada"))


def test_value_that_json_lacks_is_left_to_botocore(account: Account) -> None:
    found = account.client.query(
        TableName="test-things",
        KeyConditionExpression="#owner = :owner",
        FilterExpression="#data = :data",
        ExpressionAttributeNames={"#owner": "owner", "#data": "data"},
        ExpressionAttributeValues={":owner": {"S": "ada"}, ":data": {"B": b"\x00\xff"}},
    )
    assert [item["name"] for item in found["Items"]] == [{"S": "b"}]
    assert account.thorough["query"] == 1


def test_requests_are_signed_with_the_credentials_of_that_time(
    account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    signed: list[Any] = []
    events = account.client.meta.events
    events.register_first(BEFORE_SEND, lambda request, **_: signed.append(request.headers["Authorization"]))
    list(account.table.query("ada"))
    (authorization,) = signed
    text = authorization.decode() if isinstance(authorization, bytes) else authorization
    assert "/eu-central-1/dynamodb/aws4_request" in text
    assert "x-amz-target" in text
