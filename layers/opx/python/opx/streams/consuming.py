"""A batch of a stream into the corpus: each record by itself, so that one that fails keeps no other back."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from opx.domain.baselines import BASELINES_CATEGORY
from opx.domain.streams import StreamDefinition
from opx.errors import InvalidInputError, StoreUnavailableError
from opx.ingestion.corpus_writer import CorpusWriter
from opx.runtime.metrics import Metric, Report
from opx.streams.lambda_events import DeliveredRecord, delivered_records
from opx.streams.taking import StreamTaker
from opx.telemetry.baselines.taking import BaselineTaker

log = logging.getLogger(__name__)


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
