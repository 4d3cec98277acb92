"""Processes queue messages with the pipeline: rounds, retries with backoff, and failed items at the end."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import AbstractContextManager, nullcontext
from dataclasses import KW_ONLY, dataclass
from typing import Any, Protocol
from zlib import crc32

from opx.domain.record import replace
from opx.errors import InvalidInputError, StoreUnavailableError, ThrottledError, UnwritableStoreError
from opx.ingestion.corpus.failures import FailureLog
from opx.ingestion.events import EventOutcome, ObjectEvent, Result, parse_event
from opx.ingestion.pipeline import IngestionPipeline, Progress, UnitOfWork, postponed
from opx.ports import Message, Queue
from opx.runtime.deadlines import remaining
from opx.runtime.metrics import Metric, Report

log = logging.getLogger(__name__)


# -- batches


_METRICS = {
    Result.INGESTED: Metric.DOCUMENTS_INGESTED,
    Result.UNCHANGED: Metric.DOCUMENTS_UNCHANGED,
    Result.DELETED: Metric.DOCUMENTS_DELETED,
    Result.SKIPPED: Metric.EVENTS_SKIPPED,
    Result.FAILED: Metric.INGESTION_FAILURES,
    Result.RETRY: Metric.INGESTION_RETRIES,
}
_REMEMBERED = (Result.INGESTED, Result.UNCHANGED, Result.DELETED, Result.SKIPPED)
"""Results after which a duplicate of the event is skipped. A failed item may be sent again, once it can succeed."""


@dataclass(frozen=True, slots=True)
class QueueMessage:
    """A delivered message. `receives` counts deliveries, this one included."""

    message_id: str
    body: str
    receipt: str
    receives: int

    @classmethod
    def of_record(cls, record: Mapping[str, Any]) -> QueueMessage:
        """The message in a record of Lambda's event of an SQS queue."""
        receives = int(record["attributes"]["ApproximateReceiveCount"])
        return cls(record["messageId"], record["body"], record["receiptHandle"], receives)


class HandledEvents(Protocol):
    """Short-term memory of handled events. It may forget: the catalog skips old events anyway."""

    def has(self, body: str) -> bool:
        """True only if `remember` was called with an event of the same bucket, key and sequencer."""

    def remember(self, body: str) -> None:
        """Records the event as handled. A body that is no event is ignored."""


def process_batch(
    deliveries: Sequence[QueueMessage], worker: IngestionWorker, queue: Queue, handled: HandledEvents, report: Report
) -> list[str]:
    """Processes the messages and returns the ids of those to be redelivered, each after its own delay.

    A failed item is in the failure log, and done as a message. One with an unexpected error (or that can't even be recorded
    as failed) is redelivered after the visibility timeout, until the queue moves it to its dead letters; it doesn't affect
    other messages of the batch.
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
        if outcome.postponed and _sent_again(queue, delivery.body, outcome):
            continue
        if outcome.result is Result.RETRY:
            _postpone(queue, delivery, outcome)
            unfinished.append(delivery.message_id)
        elif outcome.result in _REMEMBERED:
            handled.remember(delivery.body)
    return unfinished


def _outcomes(deliveries: Sequence[QueueMessage], worker: IngestionWorker) -> list[EventOutcome | None]:
    """One outcome per message, in order; None for one that could not be handled at all."""
    try:
        return list(worker.process([(delivery.body, delivery.receives) for delivery in deliveries]))
    except Exception:  # the outermost edge: one message must not take the others to the dead letters
        log.exception("processing %d messages failed", len(deliveries))
    if len(deliveries) == 1:
        return [None]
    alone = [_outcomes([delivery], worker)[0] for delivery in deliveries]
    # The failed attempt may have left claims behind. They end before the queue's visibility timeout does, and an earlier
    # redelivery would only use up the deliveries that the queue allows.
    return [None if outcome and outcome.result is Result.RETRY else outcome for outcome in alone]


def _sent_again(queue: Queue, body: str, outcome: EventOutcome) -> bool:
    """Sends the message anew after the outcome's delay: a delivery that had to wait doesn't count towards those after which
    the queue gives a message up. False if it can't be sent."""
    try:
        queue.send(body, delay_seconds=math.ceil(outcome.delay_seconds))
    except StoreUnavailableError:
        log.warning("could not send a postponed message again; it is redelivered", exc_info=True)
        return False
    return True


def _postpone(queue: Queue, delivery: QueueMessage, outcome: EventOutcome) -> None:
    """Redelivers the message after the outcome's delay instead of the queue's long visibility timeout."""
    about = delivery.message_id, outcome.delay_seconds, outcome.object_key, outcome.reason
    log.info("message %s is to be retried in %.0f s: %s: %s", *about)
    try:
        queue.retry(delivery.receipt, delay_seconds=math.ceil(outcome.delay_seconds))
    except StoreUnavailableError:
        log.warning("could not set a delay; the message is redelivered after the visibility timeout", exc_info=True)


def _measure(outcome: EventOutcome, report: Report) -> None:
    report(Metric.DOCUMENTS_POSTPONED if outcome.postponed else _METRICS[outcome.result])
    if outcome.chunks:
        report(Metric.CHUNKS_INGESTED, outcome.chunks)


# -- worker


MAX_DELAY_SECONDS = 900.0
LEAST_SECONDS = 60.0
"""A group of documents is only begun with more time than this before the deadline of the call."""

BATCH_MESSAGES, LARGEST_BATCH = 40, 320
_BATCHES_OF_BACKLOG = 8
"""A batch is one commit, and takes an eighth of the waiting messages within these bounds: a long queue needs few commits, and
the end of it, or a queue that was short, is found soon."""

_IDLE_SECONDS = 0.2
_POSTPONED_SECONDS = 5.0
Observer = Callable[[EventOutcome], None]
Waits = Callable[[int], None]
"""Receives the number of waiting messages while another process works on the queue."""


@dataclass(frozen=True, slots=True)
class RetryRules:
    """An item with a transient error is tried `attempts` times, `base_seconds`, then twice that, ... apart."""

    attempts: int = 3
    base_seconds: float = 1.0

    def delay(self, receives: int) -> float:
        return doubled(self.base_seconds, receives)


def doubled(seconds: float, receives: int) -> float:
    """A pause that doubles with every delivery, up to a quarter of an hour."""
    return min(MAX_DELAY_SECONDS, seconds * 2.0 ** min(max(0, receives - 1), 30))


@dataclass(eq=False)
class IngestionWorker:
    """Turns messages into outcomes. It never loses one: transient failures are retried, final ones recorded. `settle` is
    called with each event that needs no further delivery."""

    pipeline: IngestionPipeline
    failures: FailureLog
    rules: RetryRules
    _: KW_ONLY
    unit_of_work: UnitOfWork = nullcontext
    after: Callable[[], None] | None = None
    settle: Callable[[ObjectEvent], None] | None = None

    def process(self, messages: Sequence[tuple[str, int]], progress: Progress | None = None) -> list[EventOutcome]:
        """Processes bodies with their delivery counts; one outcome each, in order. `RETRY` has its delay. Finally calls
        `after`, which updates other documents and raises nothing."""
        outcomes: dict[int, EventOutcome] = {}
        events: dict[int, ObjectEvent] = {}
        for position, (body, _) in enumerate(messages):
            try:
                events[position] = parse_event(body)
            except InvalidInputError as exc:
                log.warning("dropped a message that is no event: %s", exc)
                outcomes[position] = EventOutcome(Result.FAILED, "", str(exc), error=exc)
        again = {position for position, (_, receives) in enumerate(messages) if receives > 1}
        waits: Exception | None = None
        for group in _rounds(events, again):
            waits = waits or _out_of_time()
            if waits:
                applied = [postponed(events[position], waits) for position in group]
            else:
                applied = self.pipeline.apply([events[position] for position in group], progress)
                waits = next((outcome.error for outcome in applied if outcome.postponed), None)
            with self.unit_of_work():
                for position, outcome in zip(group, applied, strict=True):
                    outcomes[position] = self._settled(events[position], outcome, messages[position][1])
        self.follow_up()
        return [outcomes[position] for position in range(len(messages))]

    def follow_up(self) -> None:
        """Call `after`, as for a batch: an earlier process may not have come to it."""
        if self.after:
            self.after()

    def _settled(self, event: ObjectEvent, outcome: EventOutcome, receives: int) -> EventOutcome:
        """Decides on a retry, and updates the list of failed items."""
        if outcome.result is Result.RETRY:
            if outcome.postponed:
                return replace(outcome, delay_seconds=_delay(outcome.error, outcome.object_key))
            if outcome.error is None:  # busy: nothing is wrong with the document
                return replace(outcome, delay_seconds=doubled(outcome.delay_seconds, receives))
            # Deliveries of a busy document are no attempts, nor are those that an earlier event used up.
            attempts = min(receives, outcome.attempts or receives)
            if attempts < self.rules.attempts:
                return replace(outcome, delay_seconds=self.rules.delay(attempts))
            outcome = replace(outcome, result=Result.FAILED)
        if outcome.result is Result.FAILED:
            assert outcome.error is not None
            self.failures.record(event, outcome.error, receives)
            # The reason may quote the document: it is in the list of failed items, and not in the log.
            log.warning("failed: %s: %s", event.document_key, type(outcome.error).__name__)
            log.debug("%s", outcome.reason)
        elif not outcome.stale:
            self.failures.resolve(event.document_key)
        if self.settle:
            self.settle(event)
        return outcome


def _delay(error: Exception | None, key: str) -> float:
    """Time after which to repeat a postponed event, up to a half longer by its key, so that not all return together."""
    seconds: float = getattr(error, "retry_after", _POSTPONED_SECONDS)
    return min(MAX_DELAY_SECONDS, max(1.0, seconds) * (1 + crc32(key.encode()) / 2**33))


def _out_of_time() -> ThrottledError | None:
    left = remaining()
    is_over = left is not None and left < LEAST_SECONDS
    return ThrottledError("the time of this call is used up", _POSTPONED_SECONDS) if is_over else None


def _rounds(events: Mapping[int, ObjectEvent], again: Set[int]) -> Iterator[list[int]]:
    """Positions in groups, each with at most one event of a document, so that a document never waits for itself.

    Redelivered events are processed alone: one of a failed group may be the cause, and must not fail the others again.
    """
    remaining = {position: event for position, event in events.items() if position not in again}
    while remaining:
        group = list({event.document_key: position for position, event in reversed(remaining.items())}.values())
        yield sorted(group)
        for position in group:
            del remaining[position]
    yield from ([position] for position in events if position in again)


@dataclass(eq=False)
class QueueDrain:
    """Processes a queue until it is empty; for processes that the queue doesn't invoke."""

    queue: Queue
    worker: IngestionWorker
    _: KW_ONLY
    exclusive: Callable[[Callable[[], None] | None], AbstractContextManager[Any]] = nullcontext
    unit_of_work: UnitOfWork = nullcontext
    sleep: Callable[[float], None] = time.sleep

    def run(
        self, observe: Observer | None = None, progress: Progress | None = None, waits: Waits | None = None
    ) -> Iterator[EventOutcome]:
        """Yields outcomes as they happen; an item to be retried is waited for and yields only its last one. Before all
        messages, also if there are none, it does what an earlier process left. `waits` gets the number of waiting messages
        while another process works on them.

        Within a deadline that is too near for a document, such as a request's, it leaves the rest to the next run. Raises
        `UnwritableStoreError` when the disk is full or read-only."""
        if _out_of_time():
            return
        with self.exclusive((lambda: waits(self.queue.waiting())) if waits else None):
            self.worker.follow_up()
            while self.queue.waiting() and not _out_of_time():
                messages = self._take()
                if messages:
                    yield from self._handle(messages, observe, progress)
                else:
                    self.sleep(_IDLE_SECONDS)

    def _handle(
        self, messages: Sequence[Message], observe: Observer | None, progress: Progress | None
    ) -> Iterator[EventOutcome]:
        outcomes = self.worker.process([(m.body, m.receives) for m in messages], progress)
        full = next((one.error for one in outcomes if isinstance(one.error, UnwritableStoreError)), None)
        with self.unit_of_work():
            for message, outcome in zip(messages, outcomes, strict=True):
                if outcome.postponed:
                    self.queue.send(message.body, delay_seconds=math.ceil(outcome.delay_seconds))
                    self.queue.done(message.receipt)
                elif outcome.result is Result.RETRY:
                    delay = 0 if full else math.ceil(outcome.delay_seconds)  # waiting makes no room on a disk
                    self.queue.retry(message.receipt, delay_seconds=delay)
                else:
                    self.queue.done(message.receipt)
        for outcome in outcomes:
            if observe:
                observe(outcome)
            if outcome.result is not Result.RETRY:
                yield outcome
        if full:
            raise full

    def _take(self) -> list[Message]:
        messages: list[Message] = []
        wanted = min(LARGEST_BATCH, max(BATCH_MESSAGES, self.queue.waiting() // _BATCHES_OF_BACKLOG))
        with self.unit_of_work():
            while len(messages) < wanted and (received := self.queue.receive(limit=10)):
                messages.extend(received)
        return messages
