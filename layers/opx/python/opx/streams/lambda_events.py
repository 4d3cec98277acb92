"""Batches as Lambda's event source mappings hand them to a function, and which of their records failed.

Shapes: AWS Lambda Developer Guide, "Using Lambda with Kinesis", "... with Amazon SQS", "... with Amazon MSK" and
"... with self-managed Apache Kafka".
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from opx.errors import InvalidInputError
from opx.streams.taking import StreamRecord

_KINESIS, _SQS = "aws:kinesis", "aws:sqs"
_KAFKA = ("aws:kafka", "aws:SelfManagedKafka", "SelfManagedKafka")


@dataclass(frozen=True, slots=True)
class DeliveredRecord:
    """A record, the stream it is of (an ARN, or brokers), Kafka's topic, and what a report of its failure names.

    Records of one `lane` are in order: none may be done after one that failed. "" is for those that are in none.
    """

    record: StreamRecord
    source: str
    topic: str
    lane: str
    failure: Any


def delivered_records(event: Mapping[str, Any]) -> list[DeliveredRecord]:
    """All records of a batch, in order. Raises `InvalidInputError` for what no stream sends."""
    try:
        if event.get("eventSource") in _KAFKA:
            return list(_of_kafka(event))
        return [_of_record(record) for record in event["Records"]]
    except (KeyError, TypeError, AttributeError, ValueError) as exc:  # the last: data that isn't base64
        raise InvalidInputError(f"the event is no batch of a stream: {type(exc).__name__}") from exc


def _of_record(record: Mapping[str, Any]) -> DeliveredRecord:
    """A number of Kinesis is unique in its shard alone, hence the event's id, which begins with the shard's."""
    source = _text(record, "eventSourceARN")
    if record["eventSource"] == _KINESIS:
        number = _text(record["kinesis"], "sequenceNumber")
        body = base64.b64decode(record["kinesis"]["data"], validate=True)
        shard = _text(record, "eventID").partition(":")[0]
        return DeliveredRecord(StreamRecord(f"{shard}/{number}", body), source, "", shard, number)
    if record["eventSource"] == _SQS:
        message = _text(record, "messageId")
        body = record["body"].encode("utf-8", "surrogatepass")
        attributes = {"MessageGroupId": "", **record.get("attributes", {})}
        group = _text(attributes, "MessageGroupId") if source.endswith(".fifo") else ""
        return DeliveredRecord(StreamRecord(message, body), source, "", group, message)
    raise InvalidInputError(f"records of {str(record['eventSource'])[:50]!r} are not taken")


def _of_kafka(event: Mapping[str, Any]) -> Iterator[DeliveredRecord]:
    """A record without a value says that its key is gone, which says nothing about documents: it has no body."""
    source = _text(event, "eventSourceArn") if event.get("eventSourceArn") else "kafka://" + event["bootstrapServers"]
    for partition, records in event["records"].items():
        for record in records:
            position = f"{record['topic']}-{record['partition']}-{record['offset']}"
            value = record.get("value")
            body = None if value is None else base64.b64decode(value, validate=True)
            failure = {"partition": partition, "offset": record["offset"]}
            yield DeliveredRecord(StreamRecord(position, body), source, _text(record, "topic"), partition, failure)


def _text(record: Mapping[str, Any], field: str) -> str:
    """A text that every record has. Raises `InvalidInputError` if it is anything else."""
    found = record[field]
    if not isinstance(found, str):
        raise InvalidInputError(f"the event is no batch of a stream: {field} is no text")
    return found
