"""Takes batches of streams into the corpus: each record by itself, so that one that fails keeps no other back.

Shapes of the batches that event source mappings hand to a function: AWS Lambda Developer Guide, "Using Lambda with
Kinesis", "... with Amazon SQS", "... with Amazon MSK" and "... with self-managed Apache Kafka".
"""

from __future__ import annotations

import base64
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from opx.connectors.streams.taking import BaselineTaker, StreamRecord, StreamTaker
from opx.domain.baselines import BASELINES_CATEGORY
from opx.domain.sources import StreamDefinition
from opx.errors import InvalidInputError, StoreUnavailableError
from opx.ingestion.corpus_writer import CorpusWriter
from opx.runtime.metrics import Metric, Report

log = logging.getLogger(__name__)

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


TakerOf = Callable[[StreamDefinition], BaselineTaker]
"""What adds the values of a stream to baselines."""


def consume_batch(
    event: Mapping[str, Any],
    streams: Sequence[StreamDefinition],
    writer: CorpusWriter,
    report: Report,
    *,
    values_of: TakerOf,
) -> dict[str, list[dict[str, Any]]]:
    """Put a batch's records. Returns Lambda's report of those that are to be delivered again, as the store was away.

    After one that fails, those behind it in its shard, partition or message group come again, too, and keep their order.
    Values of baselines have none: all of a stream are added together.
    Raises `InvalidInputError` for what is no batch, and for a stream that nobody declared: Lambda then halves the batch
    until the record that is to blame is alone.
    """
    takers: dict[str, StreamTaker] = {}
    held: set[str] = set()
    again: list[dict[str, Any]] = []
    values: dict[str, list[DeliveredRecord]] = {}
    for one in delivered_records(event):
        definition = _definition_of(one, streams)
        if definition.category == BASELINES_CATEGORY:
            values.setdefault(definition.name, []).append(one)
            continue
        taker = takers.setdefault(definition.name, StreamTaker(definition, writer))
        if one.lane in held or not _taken(taker, one, report):
            report(Metric.STREAM_RETRIES)
            again.append({"itemIdentifier": one.failure})
            if one.lane:
                held.add(one.lane)
    for delivered in values.values():
        again += _added(values_of(_definition_of(delivered[0], streams)), delivered, report)
    return {"batchItemFailures": again}


def _added(taker: BaselineTaker, delivered: Sequence[DeliveredRecord], report: Report) -> list[dict[str, Any]]:
    """Those that are to come again: all if the store was away, as none is counted twice."""
    try:
        wanted = taker.take_all([one.record for one in delivered])
    except StoreUnavailableError as exc:
        log.warning("%d values are to come again: %s", len(delivered), type(exc).__name__)
        report(Metric.STREAM_RETRIES, float(len(delivered)))
        return [{"itemIdentifier": one.failure} for one in delivered]
    for one in wanted:
        report(Metric.STREAM_RECORDS if one else Metric.STREAM_RECORDS_UNWANTED)
    return []


def _taken(taker: StreamTaker, one: DeliveredRecord, report: Report) -> bool:
    try:
        key = taker.take(one.record)
    except StoreUnavailableError as exc:
        log.warning("record %s is to come again: %s", one.record.position, type(exc).__name__)
        return False
    report(Metric.STREAM_RECORDS if key else Metric.STREAM_RECORDS_UNWANTED)
    return True


def _definition_of(one: DeliveredRecord, streams: Sequence[StreamDefinition]) -> StreamDefinition:
    for definition in streams:
        if definition.is_of(one.source, one.topic):
            return definition
    raise InvalidInputError(f"no stream is declared for {one.source} {one.topic}".strip())
