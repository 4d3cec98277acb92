"""A batch of a stream into the corpus: each record by itself, so that one that fails keeps no other back."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from opx.domain.streams import StreamDefinition, StreamKind
from opx.errors import InvalidInputError, StoreUnavailableError
from opx.ingestion.corpus_writer import CorpusWriter
from opx.operations.metrics import Metric, Report
from opx.streams.lambda_events import DeliveredRecord, delivered_records
from opx.streams.taking import StreamTaker

log = logging.getLogger(__name__)


def consume_batch(
    event: Mapping[str, Any], streams: Sequence[StreamDefinition], writer: CorpusWriter, report: Report
) -> dict[str, list[Any]]:
    """Put a batch's records. Returns Lambda's report of those that are to be delivered again.

    Records of Kinesis and Kafka are in order: after one that fails, the rest of the batch comes again, too. Raises
    `InvalidInputError` for what is no batch, and for a stream that nobody declared.
    """
    delivered = delivered_records(event)
    takers: dict[str, StreamTaker] = {}
    failed: list[Any] = []
    for one in delivered:
        definition = _definition_of(one, streams)
        taker = takers.setdefault(definition.name, StreamTaker(definition, writer))
        if not _taken(taker, one, report):
            failed.append(one.failure)
            if definition.kind is not StreamKind.SQS:
                break
    return {"batchItemFailures": failed}


def _taken(taker: StreamTaker, one: DeliveredRecord, report: Report) -> bool:
    try:
        key = taker.take(one.record)
    except (StoreUnavailableError, InvalidInputError) as exc:
        log.warning("record %s is to come again: %s", one.record.position, type(exc).__name__)
        report(Metric.STREAM_RETRIES)
        return False
    report(Metric.STREAM_RECORDS if key else Metric.STREAM_RECORDS_UNWANTED)
    return True


def _definition_of(one: DeliveredRecord, streams: Sequence[StreamDefinition]) -> StreamDefinition:
    for definition in streams:
        if definition.source == one.source and (not one.topic or definition.topic == one.topic):
            return definition
    raise InvalidInputError(f"no stream is declared for {one.source} {one.topic}".strip())
