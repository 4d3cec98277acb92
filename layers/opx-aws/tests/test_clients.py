"""Clients find their service where the environment says, give up in time, and their failures are named."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from botocore.awsrequest import AWSResponse
from botocore.compat import HTTPHeaders
from botocore.exceptions import ClientError, EndpointConnectionError, ParamValidationError

import opx
from opx.errors import StoreUnavailableError
from opx_aws.clients import client
from opx_aws.queue import SqsQueue
from opx_aws.vendor_errors import translated_errors


def test_client_retries_and_times_out_and_names_itself(aws_session: boto3.Session) -> None:
    config = client("sqs", session=aws_session, read_seconds=7.0, attempts=2).meta.config
    assert config.retries == {"mode": "standard", "total_max_attempts": 2}
    assert (config.connect_timeout, config.read_timeout) == (3.0, 7.0)
    assert f"opx-knowledge/{opx.__version__}" in config.user_agent


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Seconds that botocore would have waited: before it repeats a call, and before it sends one at all."""
    waited: list[float] = []

    def no_wait(_: Any, amount: float) -> float:
        waited.append(amount)
        return 0.0

    monkeypatch.setattr("botocore.endpoint.time.sleep", waited.append)
    monkeypatch.setattr("botocore.retries.bucket.TokenBucket._sleep_amount", no_wait)
    return waited


def test_throttling_of_one_table_does_not_delay_another(aws: boto3.Session, pauses: list[float]) -> None:
    dynamo = client("dynamodb", session=aws, attempts=2)
    for table in ("hot", "cold"):
        key: Any = {"AttributeName": "id", "AttributeType": "S"}
        schema: Any = {"AttributeName": "id", "KeyType": "HASH"}
        dynamo.create_table(
            TableName=table, AttributeDefinitions=[key], KeySchema=[schema], BillingMode="PAY_PER_REQUEST"
        )
    dynamo.meta.events.register_first("before-send.dynamodb.GetItem", _throttle_hot)
    for _ in range(5):
        with pytest.raises(ClientError, match="ProvisionedThroughputExceededException"):
            dynamo.get_item(TableName="hot", Key={"id": {"S": "1"}})
    assert pauses
    pauses.clear()
    for _ in range(5):
        dynamo.get_item(TableName="cold", Key={"id": {"S": "1"}})
    assert pauses == []


def _throttle_hot(request: Any, **_: Any) -> AWSResponse | None:
    """The service's refusal of a call to the table `hot`."""
    if b'"hot"' not in request.body:
        return None
    refusal = b'{"__type": "com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException"}'
    return AWSResponse(request.url, 400, HTTPHeaders(), _Body(refusal))


class _Body:
    def __init__(self, content: bytes) -> None:
        self._content = content

    def stream(self, **_: Any) -> Iterator[bytes]:
        yield self._content


def test_endpoint_comes_from_the_environment(aws_session: boto3.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_SQS", "http://127.0.0.1:9")
    assert client("sqs", session=aws_session).meta.endpoint_url == "http://127.0.0.1:9"
    assert "amazonaws.com" in client("s3", session=aws_session).meta.endpoint_url


def test_missing_queue_is_unavailable(aws: boto3.Session) -> None:
    queue = SqsQueue(client("sqs", session=aws), "https://sqs.eu-central-1.amazonaws.com/123456789012/missing")
    for call in (
        queue.receive,
        queue.waiting,
        lambda: queue.send("a"),
        lambda: queue.done("a"),
        lambda: queue.retry("a"),
    ):
        with pytest.raises(StoreUnavailableError, match="NonExistentQueue"):
            call()


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("ThrottlingException", 400),
        ("ProvisionedThroughputExceededException", 400),
        ("SlowDown", 503),
        ("AnythingNew", 500),
        ("AnythingNew", 429),
        ("AccessDeniedException", 400),
        ("403", 403),
        ("AWS.SimpleQueueService.NonExistentQueue", 400),
    ],
)
def test_refusal_is_unavailable_and_keeps_its_cause(code: str, status: int) -> None:
    error = a_client_error(code, status)
    with pytest.raises(StoreUnavailableError, match="can't read x") as caught, translated_errors("read x"):
        raise error
    assert caught.value.__cause__ is error


def test_service_that_can_not_be_reached_is_unavailable() -> None:
    with pytest.raises(StoreUnavailableError, match="can't read x"), translated_errors("read x"):
        raise EndpointConnectionError(endpoint_url="http://127.0.0.1:9")


@pytest.mark.parametrize(
    "error", [ParamValidationError(report="x"), KeyError("x")], ids=lambda error: type(error).__name__
)
def test_mistake_of_ours_goes_through(error: Exception) -> None:
    with pytest.raises(type(error)), translated_errors("read x"):
        raise error


def test_request_that_is_wrong_goes_through() -> None:
    with pytest.raises(ClientError), translated_errors("read x"):
        raise a_client_error("ValidationException", 400)


def a_client_error(code: str, status: int) -> ClientError:
    return ClientError({"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}, "GetItem")  # type: ignore[typeddict-item]
