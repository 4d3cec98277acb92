"""Takes messages from the queue through the pipeline: rounds, retries with backoff, and failed items at the end."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Protocol

from opx.domain.record import replace
from opx.errors import InvalidInputError, StoreUnavailableError
from opx.ingestion.corpus.failures import FailureLog
from opx.ingestion.events import EventOutcome, ObjectEvent, Result, parse_event
from opx.ingestion.pipeline import IngestionPipeline, Progress
from opx.ports import Message, Queue
from opx.runtime.metrics import Metric, Report

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
"""Results after which the same event has nothing more to say. A failed item may be sent again, once it can succeed."""


@dataclass(frozen=True, slots=True)
class QueueMessage:
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
    deliveries: Sequence[QueueMessage], worker: IngestionWorker, queue: Queue, handled: HandledEvents, report: Report
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


def _outcomes(deliveries: Sequence[QueueMessage], worker: IngestionWorker) -> list[EventOutcome | None]:
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


def _postpone(queue: Queue, delivery: QueueMessage, outcome: EventOutcome) -> None:
    """Let the message come again when the outcome says, not only when the queue's long visibility timeout is over."""
    about = delivery.message_id, outcome.delay_seconds, outcome.object_key, outcome.reason
    log.info("message %s is to be retried in %.0f s: %s: %s", *about)
    try:
        queue.retry(delivery.receipt, delay_seconds=math.ceil(outcome.delay_seconds))
    except StoreUnavailableError:
        log.warning("could not set a delay; the message comes again when the queue lets it", exc_info=True)


def _measure(outcome: EventOutcome, report: Report) -> None:
    report(_METRICS[outcome.result])
    if outcome.chunks:
        report(Metric.CHUNKS_INGESTED, outcome.chunks)


# -- worker


log = logging.getLogger(__name__)

MAX_DELAY_SECONDS = 900.0
BATCH_MESSAGES = 40
_IDLE_SECONDS = 0.2
Observer = Callable[[EventOutcome], None]
UnitOfWork = Callable[[], AbstractContextManager[Any]]
"""Groups writes into one commit where the store can; see `Services.unit_of_work`."""


@dataclass(frozen=True, slots=True)
class RetryRules:
    """An item that fails for reasons that may pass is tried `attempts` times, `base_seconds`, then twice that, ... apart."""

    attempts: int = 3
    base_seconds: float = 1.0

    def delay(self, receives: int) -> float:
        return doubled(self.base_seconds, receives)


def doubled(seconds: float, receives: int) -> float:
    """A pause that doubles with every delivery, up to a quarter of an hour."""
    return min(MAX_DELAY_SECONDS, seconds * 2.0 ** min(max(0, receives - 1), 30))


class IngestionWorker:
    """Turns messages into outcomes. It never loses one: what isn't done is retried, and what can't be is recorded."""

    def __init__(
        self,
        pipeline: IngestionPipeline,
        failures: FailureLog,
        rules: RetryRules,
        *,
        unit_of_work: UnitOfWork = nullcontext,
        after: Callable[[], None] | None = None,
    ) -> None:
        self._pipeline = pipeline
        self._failures = failures
        self._rules = rules
        self._unit_of_work = unit_of_work
        self._after = after

    def process(self, messages: Sequence[tuple[str, int]], progress: Progress | None = None) -> list[EventOutcome]:
        """Handle bodies with their delivery counts; one outcome each, in order. `RETRY` has its delay. In the end, `after`
        does what concerns documents that were there before; it raises nothing."""
        outcomes: dict[int, EventOutcome] = {}
        events: dict[int, ObjectEvent] = {}
        for position, (body, _) in enumerate(messages):
            try:
                events[position] = parse_event(body)
            except InvalidInputError as exc:
                log.warning("dropped a message that is no event: %s", exc)
                outcomes[position] = EventOutcome(Result.FAILED, "", str(exc), error=exc)
        again = {position for position, (_, receives) in enumerate(messages) if receives > 1}
        for group in _rounds(events, again):
            applied = self._pipeline.apply([events[position] for position in group], progress)
            with self._unit_of_work():
                for position, outcome in zip(group, applied, strict=True):
                    outcomes[position] = self._settled(events[position], outcome, messages[position][1])
        if self._after:
            self._after()
        return [outcomes[position] for position in range(len(messages))]

    def _settled(self, event: ObjectEvent, outcome: EventOutcome, receives: int) -> EventOutcome:
        """Decide on a retry, and keep the list of failed items up to date."""
        if outcome.result is Result.RETRY:
            if outcome.error is None:  # busy: nothing is wrong with the document
                return replace(outcome, delay_seconds=doubled(outcome.delay_seconds, receives))
            # Deliveries that found the document busy are no attempts; those that an earlier event used up aren't its own.
            attempts = min(receives, outcome.attempts or receives)
            if attempts < self._rules.attempts:
                return replace(outcome, delay_seconds=self._rules.delay(attempts))
            outcome = replace(outcome, result=Result.FAILED)
        if outcome.result is Result.FAILED:
            assert outcome.error is not None
            self._failures.record(event, outcome.error, receives)
            # The reason may quote the document: it is in the list of failed items, and not in the log.
            log.warning("failed: %s: %s", event.document_key, type(outcome.error).__name__)
            log.debug("%s", outcome.reason)
        elif not outcome.stale:
            self._failures.resolve(event.document_key)
        return outcome


def _rounds(events: Mapping[int, ObjectEvent], again: Set[int]) -> Iterator[list[int]]:
    """Positions in groups, each with at most one event of a document, so that a document never waits for itself.

    What comes again goes alone: of those that failed together, one may be why, and must not fail the others again.
    """
    remaining = {position: event for position, event in events.items() if position not in again}
    while remaining:
        group = list({event.document_key: position for position, event in reversed(remaining.items())}.values())
        yield sorted(group)
        for position in group:
            del remaining[position]
    yield from ([position] for position in events if position in again)


class QueueDrain:
    """Works through a queue until nothing is waiting; for processes that are not called by the queue itself."""

    def __init__(
        self,
        queue: Queue,
        worker: IngestionWorker,
        *,
        exclusive: UnitOfWork = nullcontext,
        unit_of_work: UnitOfWork = nullcontext,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._queue = queue
        self._worker = worker
        self._exclusive = exclusive
        self._unit_of_work = unit_of_work
        self._sleep = sleep

    def run(self, observe: Observer | None = None, progress: Progress | None = None) -> Iterator[EventOutcome]:
        """Yield outcomes as they happen; an item to be retried is waited for and yields only its last one."""
        with self._exclusive():
            while self._queue.waiting():
                messages = self._take()
                if messages:
                    yield from self._handle(messages, observe, progress)
                else:
                    self._sleep(_IDLE_SECONDS)

    def _handle(
        self, messages: Sequence[Message], observe: Observer | None, progress: Progress | None
    ) -> Iterator[EventOutcome]:
        outcomes = self._worker.process([(m.body, m.receives) for m in messages], progress)
        with self._unit_of_work():
            for message, outcome in zip(messages, outcomes, strict=True):
                if outcome.result is Result.RETRY:
                    self._queue.retry(message.receipt, delay_seconds=math.ceil(outcome.delay_seconds))
                else:
                    self._queue.done(message.receipt)
        for outcome in outcomes:
            if observe:
                observe(outcome)
            if outcome.result is not Result.RETRY:
                yield outcome

    def _take(self) -> list[Message]:
        messages: list[Message] = []
        while len(messages) < BATCH_MESSAGES:
            received = self._queue.receive(limit=10)
            if not received:
                break
            messages.extend(received)
        return messages
