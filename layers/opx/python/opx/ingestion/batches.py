"""A batch of delivered messages: what was handled before is skipped, the rest goes through the worker together."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from opx.errors import StoreUnavailableError
from opx.ingestion.outcomes import Outcome, Result
from opx.ingestion.worker import IngestionWorker
from opx.ports import Queue
from opx.runtime.metrics import Metric, Report

log = logging.getLogger(__name__)

_METRICS = {
    Result.INGESTED: Metric.DOCUMENTS_INGESTED,
    Result.UNCHANGED: Metric.DOCUMENTS_UNCHANGED,
    Result.DELETED: Metric.DOCUMENTS_DELETED,
    Result.SKIPPED: Metric.EVENTS_SKIPPED,
    Result.FAILED: Metric.INGESTION_FAILURES,
    Result.RETRY: Metric.INGESTION_RETRIES,
}
_REMEMBERED = (Result.INGESTED, Result.UNCHANGED, Result.DELETED, Result.SKIPPED)
"""Results after which the same event has nothing more to say. A failed item may be sent again, once it can succeed."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """A message as it was delivered. `receives` counts deliveries, this one included."""

    message_id: str
    body: str
    receipt: str
    receives: int


class HandledEvents(Protocol):
    """Remembers for a while which events were handled. It may forget: the catalog skips what isn't new anyway."""

    def has(self, body: str) -> bool:
        """True only if `remember` was called with an event of the same bucket, key and sequencer."""

    def remember(self, body: str) -> None:
        """Note the event as handled. A body that is no event is ignored."""


def process_batch(
    deliveries: Sequence[Delivery], worker: IngestionWorker, queue: Queue, handled: HandledEvents, report: Report
) -> list[str]:
    """Handle the messages and return the ids of those that must come again, each after its own delay.

    A failed item is in the failure log, and done as a message. One that raises what nobody foresaw (or can't even be
    recorded as failed) comes again when the queue lets it, until the queue moves it to its dead letters; it takes no
    other message of the batch with it.
    """
    report(Metric.EVENTS, len(deliveries))
    fresh = [delivery for delivery in deliveries if not handled.has(delivery.body)]
    if len(fresh) < len(deliveries):
        report(Metric.DUPLICATE_EVENTS, len(deliveries) - len(fresh))
    unfinished = []
    for delivery, outcome in zip(fresh, _outcomes(fresh, worker), strict=True):
        if outcome is None:
            report(Metric.INGESTION_ERRORS)
            unfinished.append(delivery.message_id)
            continue
        _measure(outcome, report)
        if outcome.result is Result.RETRY:
            _postpone(queue, delivery, outcome)
            unfinished.append(delivery.message_id)
        elif outcome.result in _REMEMBERED:
            handled.remember(delivery.body)
    return unfinished


def _outcomes(deliveries: Sequence[Delivery], worker: IngestionWorker) -> list[Outcome | None]:
    """One outcome a message, in order; None for one that could not be handled at all."""
    try:
        return list(worker.process([(delivery.body, delivery.receives) for delivery in deliveries]))
    except Exception:  # the outermost edge: one message must not take the others to the dead letters
        log.exception("handling %d messages failed", len(deliveries))
    if len(deliveries) == 1:
        return [None]
    alone = [_outcomes([delivery], worker)[0] for delivery in deliveries]
    # The failed attempt may have left claims behind. They end before the queue's visibility timeout does, and coming
    # back sooner would only use up the deliveries that the queue allows.
    return [None if outcome and outcome.result is Result.RETRY else outcome for outcome in alone]


def _postpone(queue: Queue, delivery: Delivery, outcome: Outcome) -> None:
    """Let the message come again when the outcome says, not only when the queue's long visibility timeout is over."""
    about = delivery.message_id, outcome.delay_seconds, outcome.object_key, outcome.reason
    log.info("message %s is to be retried in %.0f s: %s: %s", *about)
    try:
        queue.retry(delivery.receipt, delay_seconds=math.ceil(outcome.delay_seconds))
    except StoreUnavailableError:
        log.warning("could not set a delay; the message comes again when the queue lets it", exc_info=True)


def _measure(outcome: Outcome, report: Report) -> None:
    report(_METRICS[outcome.result])
    if outcome.chunks:
        report(Metric.CHUNKS_INGESTED, outcome.chunks)
