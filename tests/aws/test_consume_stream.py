"""Stream function: records from Kinesis and SQS become documents; event source mappings of Lambda."""

from __future__ import annotations

import base64
import io
import json
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber

from lambdas.consume_stream.handler import make_handler
from opx.errors import InvalidInputError, StoreUnavailableError
from opx.runtime.functions import FunctionFailedError
from opx_aws.triggers import EventSourceMappings
from opx_streams import capability
from tests.aws.cloud import BUCKET, Cloud, a_cloud
from tests.support.fakes import FakeContext, function_logs
from tests.support.stream_support import ACCOUNT, BROKERS, FIFO, KINESIS, MSK, SQS, a_stream, an_incident, from_kafka

NEW, ORDERS, INCIDENTS = (f"00000000-0000-4000-8000-{number:012}" for number in range(3))
"""Ids of mappings."""


@dataclass
class Streams:
    """A Kinesis stream and a queue of an account, read by the function as Lambda does it."""

    cloud: Cloud
    kinesis: Any
    queue: str

    def __post_init__(self) -> None:
        self.handler = make_handler(lambda: self.cloud.services)

    def send(self, *records: Any) -> None:
        for record in records:
            self.kinesis.put_record(StreamName="incidents", Data=json.dumps(record).encode(), PartitionKey="p")

    def read(self) -> list[dict[str, Any]]:
        """All of the stream, as the function gets it."""
        shard = self.kinesis.list_shards(StreamName="incidents")["Shards"][0]["ShardId"]
        start = self.kinesis.get_shard_iterator(
            StreamName="incidents", ShardId=shard, ShardIteratorType="TRIM_HORIZON"
        )["ShardIterator"]
        return [
            {
                "eventSource": "aws:kinesis",
                "eventID": f"{shard}:{record['SequenceNumber']}",
                "eventSourceARN": KINESIS,
                "kinesis": {
                    "sequenceNumber": record["SequenceNumber"],
                    "data": base64.b64encode(record["Data"]).decode(),
                },
            }
            for record in self.kinesis.get_records(ShardIterator=start)["Records"]
        ]

    def receive(self) -> list[dict[str, Any]]:
        found = self.cloud.sqs.receive_message(QueueUrl=self.queue, MaxNumberOfMessages=10).get("Messages", [])
        return [
            {
                "eventSource": "aws:sqs",
                "eventSourceARN": SQS,
                "messageId": message["MessageId"],
                "receiptHandle": message["ReceiptHandle"],
                "body": message["Body"],
            }
            for message in found
        ]

    def consume(self, records: list[dict[str, Any]]) -> list[str]:
        answer = self.handler({"Records": records}, FakeContext())
        return [failure["itemIdentifier"] for failure in answer["batchItemFailures"]]

    @property
    def titles(self) -> list[str]:
        """Of the documents, after the ingestion function has had the bucket's events."""
        for found in self.cloud.s3.list_objects_v2(Bucket=BUCKET, Prefix="documents/").get("Contents", []):
            self.cloud.send(self.cloud.event(found["Key"]))
        for _ in range(3):
            self.cloud.deliver()
        return sorted(one.title for one in self.cloud.services.corpus.catalog.in_category("operations/incidents"))


@pytest.fixture
def streams(aws: boto3.Session) -> Iterator[Streams]:
    with function_logs(), a_cloud(aws) as cloud:
        kinesis = aws.client("kinesis")
        kinesis.create_stream(StreamName="incidents", ShardCount=1)
        queue = cloud.sqs.create_queue(QueueName="incidents")["QueueUrl"]
        for name, source in (("live", KINESIS), ("pager", SQS)):
            cloud.services.part(capability.StreamIngestion).repository.put(a_stream(name, source, identity="$.id"))
        yield Streams(cloud, kinesis, queue)


def test_records_of_a_kinesis_stream_become_documents(streams: Streams) -> None:
    streams.send(*(an_incident(number) for number in range(12)))
    assert streams.consume(streams.read()) == []
    assert streams.titles == sorted(f"Outage {number}" for number in range(12))


def test_messages_of_a_queue_become_documents(streams: Streams) -> None:
    streams.cloud.sqs.send_message(QueueUrl=streams.queue, MessageBody=json.dumps(an_incident()))
    assert streams.consume(streams.receive()) == []
    assert streams.titles == ["Outage 1"]


def test_while_the_bucket_is_away_records_come_again_and_none_is_lost(streams: Streams) -> None:
    streams.send(an_incident(1), an_incident(2))
    records = streams.read()
    store = streams.cloud.services.store
    put, calls = store.put, []

    def away(key: str, data: Any, **more: Any) -> Any:
        calls.append(key)
        if len(calls) > 1:
            raise StoreUnavailableError("can't be reached")
        return put(key, data, **more)

    store.put = away  # type: ignore[method-assign]
    again = streams.consume(records)
    assert again == [records[1]["kinesis"]["sequenceNumber"]]
    store.put = put  # type: ignore[method-assign]
    assert streams.consume(records[1:]) == []
    assert streams.titles == ["Outage 1", "Outage 2"]


def test_a_stream_that_nobody_subscribed_to_fails_the_call(streams: Streams) -> None:
    with pytest.raises(FunctionFailedError):
        streams.handler(from_kafka({0: [an_incident()]}), FakeContext())


class TestMappings:
    @pytest.fixture
    def client(self, aws: boto3.Session) -> Any:
        role = aws.client("iam").create_role(RoleName="r", AssumeRolePolicyDocument="{}")["Role"]["Arn"]
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as archive:
            archive.writestr("handler.py", "")
        client = aws.client("lambda")
        client.create_function(
            FunctionName="consume",
            Runtime="python3.13",
            Role=role,
            Handler="handler.handler",
            Code={"ZipFile": packed.getvalue()},
        )
        aws.client("kinesis").create_stream(StreamName="incidents", ShardCount=1)
        aws.client("sqs").create_queue(QueueName="incidents")
        return client

    def mappings(self, client: Any) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = client.list_event_source_mappings(FunctionName="consume")["EventSourceMappings"]
        return found

    def test_a_subscription_has_the_function_read_the_stream(self, client: Any) -> None:
        subscriptions = EventSourceMappings(client, "consume", failed="arn:aws:sqs:eu-central-1:123456789012:failed")
        for source in (KINESIS, SQS):
            subscriptions.put(a_stream(source=source, filter={"severity": ["critical"]}))
        kinesis, queue = self.mappings(client)
        assert (kinesis["EventSourceArn"], queue["EventSourceArn"]) == (KINESIS, SQS)
        assert {one["BatchSize"] for one in (kinesis, queue)} == {100}
        assert kinesis["FilterCriteria"] == {"Filters": [{"Pattern": '{"data": {"severity": ["critical"]}}'}]}
        assert kinesis["DestinationConfig"]["OnFailure"]["Destination"].endswith(":failed")

    def test_a_change_replaces_it_and_takes_the_filter_away(self, client: Any) -> None:
        subscriptions = EventSourceMappings(client, "consume")
        ids = {subscriptions.put(a_stream(filter=given)) for given in ({"a": [1]}, {})}
        (found,) = self.mappings(client)
        assert ({found["UUID"]}, found["FilterCriteria"]) == (ids, {"Filters": []})

    def test_an_ended_one_is_gone(self, client: Any) -> None:
        subscriptions = EventSourceMappings(client, "consume")
        subscriptions.put(a_stream())
        for _ in range(2):
            subscriptions.delete(a_stream())
        assert self.mappings(client) == []

    @pytest.mark.parametrize(
        "given",
        [
            {"source": FIFO},
            {"source": MSK},
            {"source": BROKERS, "network": ["subnet-0a", "sg-0b"]},
            {"source": BROKERS, "credentials_arn": f"arn:aws:secretsmanager:{ACCOUNT}:secret:kafka-AbCdEf"},
        ],
    )
    def test_requests_follow_the_services_model(self, aws_session: boto3.Session, given: dict[str, Any]) -> None:
        """Checked against the service's own description, where moto knows no Kafka."""
        client = aws_session.client("lambda")
        listed = {"EventSourceMappings": [{"UUID": ORDERS, "EventSourceArn": KINESIS}]}
        with Stubber(client) as stub:
            stub.add_response("list_event_source_mappings", listed)
            stub.add_response("create_event_source_mapping", {"UUID": NEW})
            failed = "arn:aws:sqs:eu-central-1:123456789012:failed"
            assert EventSourceMappings(client, "consume", failed=failed).put(a_stream(**given)) == NEW

    def test_kafka_is_found_by_its_brokers_and_topic(self, aws_session: boto3.Session) -> None:
        client = aws_session.client("lambda")
        servers = {"Endpoints": {"KAFKA_BOOTSTRAP_SERVERS": ["b-2.example.org:9092", "b-1.example.org:9092"]}}
        mappings = [
            {"UUID": uuid, "Topics": [topic], "SelfManagedEventSource": servers}
            for uuid, topic in ((ORDERS, "orders"), (INCIDENTS, "incidents"))
        ]
        with Stubber(client) as stub:
            stub.add_response("list_event_source_mappings", {"EventSourceMappings": mappings})
            stub.add_response("delete_event_source_mapping", {}, {"UUID": INCIDENTS})
            EventSourceMappings(client, "consume").delete(a_stream(source=BROKERS))
            stub.assert_no_pending_responses()

    @pytest.mark.parametrize(
        ("code", "error"),
        [
            ("InvalidParameterValueException", InvalidInputError),
            ("ResourceConflictException", InvalidInputError),
            ("AccessDeniedException", StoreUnavailableError),
            ("TooManyRequestsException", StoreUnavailableError),
        ],
    )
    def test_an_error_of_the_service_is_reported(
        self, aws_session: boto3.Session, code: str, error: type[Exception]
    ) -> None:
        client = aws_session.client("lambda")
        with Stubber(client) as stub:
            stub.add_response("list_event_source_mappings", {"EventSourceMappings": []})
            stub.add_client_error("create_event_source_mapping", code, "the role may not kinesis:GetRecords")
            with pytest.raises(error):
                EventSourceMappings(client, "consume").put(a_stream())

    def test_redis_is_none_of_its_business(self, aws_session: boto3.Session) -> None:
        with pytest.raises(InvalidInputError, match="opx run"):
            EventSourceMappings(aws_session.client("lambda"), "consume").put(
                a_stream(source="redis://127.0.0.1:6379/0")
            )
