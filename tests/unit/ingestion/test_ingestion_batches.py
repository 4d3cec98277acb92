"""Batches of messages with unexpected errors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from opx.ingestion.events import EventOutcome, Result
from opx.ingestion.worker import QueueMessage, process_batch
from opx.runtime.metrics import Metric
from tests.support.fakes import Measured


class ScriptedWorker:
    """Raises when a body says so; of the others, those that say so are to be retried when they come alone."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []

    def process(self, messages: Sequence[tuple[str, int]]) -> list[EventOutcome]:
        self.batches.append([body for body, _ in messages])
        if any("raise" in body for body, _ in messages):
            raise ZeroDivisionError("unforeseen")
        return [EventOutcome(Result.RETRY if "busy" in body else Result.INGESTED, body) for body, _ in messages]


class NotedQueue:
    """Notes which messages got a delay."""

    def __init__(self) -> None:
        self.retried: list[str] = []

    def retry(self, receipt: str, *, delay_seconds: int = 0) -> None:
        self.retried.append(receipt)


class RememberedEvents:
    def __init__(self, *known: str) -> None:
        self.known = set(known)

    def has(self, body: str) -> bool:
        return body in self.known

    def remember(self, body: str) -> None:
        self.known.add(body)


class Batch:
    """Effects of `process_batch` on messages with these bodies."""

    def __init__(self, *bodies: str, known: Sequence[str] = ()) -> None:
        self.worker, self.queue, self.measured = ScriptedWorker(), NotedQueue(), Measured()
        self.handled = RememberedEvents(*known)
        deliveries = [QueueMessage(f"id {body}", body, f"receipt {body}", 1) for body in bodies]
        worker: Any = self.worker
        queue: Any = self.queue
        self.unfinished = process_batch(deliveries, worker, queue, self.handled, self.measured)


def test_batch_goes_to_the_worker_together() -> None:
    assert Batch("a", "b", "c").worker.batches == [["a", "b", "c"]]


def test_known_events_do_not_reach_the_worker() -> None:
    batch = Batch("a", "b", known=["a"])
    assert batch.worker.batches == [["b"]]
    assert batch.measured.values[Metric.DUPLICATE_EVENTS] == [1]


def test_message_to_be_retried_gets_its_delay_and_is_not_remembered() -> None:
    batch = Batch("busy", "a")
    assert batch.unfinished == ["id busy"]
    assert batch.queue.retried == ["receipt busy"]
    assert batch.handled.known == {"a"}


def test_message_that_raises_takes_no_other_with_it(caplog: pytest.LogCaptureFixture) -> None:
    batch = Batch("a", "raise", "b")
    assert batch.unfinished == ["id raise"]
    assert batch.handled.known == {"a", "b"}
    assert batch.measured.values[Metric.INGESTION_ERRORS] == [1.0]
    assert "ZeroDivisionError: unforeseen" in caplog.text


def test_message_that_raises_comes_again_when_the_queue_lets_it() -> None:
    assert Batch("raise").queue.retried == []


def test_message_that_is_busy_after_an_error_waits_as_long() -> None:
    batch = Batch("busy", "raise")
    assert batch.unfinished == ["id busy", "id raise"]
    assert batch.queue.retried == []
