"""A batch of a stream into the corpus: each record by itself, so that one that fails keeps no other back."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from opx.domain.streams import StreamDefinition
from opx.errors import InvalidInputError, StoreUnavailableError
from opx.ingestion.corpus_writer import CorpusWriter
from opx.operations.metrics import Metric, Report
from opx.streams.lambda_events import DeliveredRecord, delivered_records
from opx.streams.taking import StreamTaker

log = logging.getLogger(__name__)


def consume_batch(
    event: Mapping[str, Any], streams: Sequence[StreamDefinition], writer: CorpusWriter, report: Report
) -> dict[str, list[dict[str, Any]]]:
    """Put a batch's records. Returns Lambda's report of those that are to be delivered again, as the store was away.

    After one that fails, those behind it in its shard, partition or message group come again, too, and keep their order.
    Raises `InvalidInputError` for what is no batch, and for a stream that nobody declared: Lambda then halves the batch
    until the record that is to blame is alone.
    """
    takers: dict[str, StreamTaker] = {}
    held: set[str] = set()
    again: list[dict[str, Any]] = []
    for one in delivered_records(event):
        definition = _definition_of(one, streams)
        taker = takers.setdefault(definition.name, StreamTaker(definition, writer))
        if one.lane in held or not _taken(taker, one, report):
            report(Metric.STREAM_RETRIES)
            again.append({"itemIdentifier": one.failure})
            if one.lane:
                held.add(one.lane)
    return {"batchItemFailures": again}


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
