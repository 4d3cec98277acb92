"""Rounds, retries and the queue, with a pipeline that does what a test says; failed batches, and records of failures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from opx.adapters.embedded.database import Database
from opx.adapters.embedded.table import SqliteQueue, SqliteTable
from opx.errors import StoreUnavailableError, UnparsableDocumentError
from opx.ingestion.corpus.failures import MAX_REASON_CHARACTERS, FailureLog
from opx.ingestion.events import EventOutcome, ObjectEvent, Result
from opx.ingestion.pipeline import Progress
from opx.ingestion.worker import (
    BATCH_MESSAGES,
    LEAST_SECONDS,
    IngestionWorker,
    QueueDrain,
    QueueMessage,
    RetryRules,
    process_batch,
)
from opx.ports.tables import FAILURES
from opx.runtime.deadlines import deadline
from opx.runtime.metrics import Metric
from opx_testing.fake_time import FakeTime
from tests.support.fakes import Measured

DOWN = StoreUnavailableError("down")


class ScriptedPipeline:
    """Answers with the outcomes that are planned for a key, the last one for ever, and notes what came together."""

    def __init__(self, **plans: Sequence[EventOutcome]) -> None:
        self.plans = {key: list(plan) for key, plan in plans.items()}
        self.rounds: list[list[str]] = []

    def apply(self, events: Sequence[ObjectEvent], progress: Progress | None = None) -> list[EventOutcome]:
        self.rounds.append([event.key for event in events])
        return [self._next(event.key) for event in events]

    def _next(self, key: str) -> EventOutcome:
        plan = self.plans.get(key) or [EventOutcome(Result.INGESTED, key)]
        return plan.pop(0) if len(plan) > 1 else plan[0]


@pytest.fixture
def failures(database: Database, time: FakeTime) -> FailureLog:
    return FailureLog(SqliteTable(FAILURES, database, clock=time.clock), time.clock)


@pytest.fixture
def queue(database: Database, time: FakeTime) -> SqliteQueue:
    return SqliteQueue(database, "ingest", clock=time.clock)


def a_worker(pipeline: ScriptedPipeline, failures: FailureLog, attempts: int = 3, base: float = 1.0) -> IngestionWorker:
    return IngestionWorker(pipeline, failures, RetryRules(attempts, base))  # type: ignore[arg-type]


def body(key: str, number: int = 1) -> str:
    return ObjectEvent(key, deleted=False, sequencer=f"{number:040X}").to_json()


def down(attempts: int = 0) -> EventOutcome:
    return EventOutcome(Result.RETRY, "a", "down", error=DOWN, attempts=attempts)


class TestRounds:
    def test_new_messages_go_together(self, failures: FailureLog) -> None:
        pipeline = ScriptedPipeline()
        a_worker(pipeline, failures).process([(body(key), 1) for key in "abc"])
        assert pipeline.rounds == [["a", "b", "c"]]

    def test_events_of_one_document_go_one_after_the_other(self, failures: FailureLog) -> None:
        pipeline = ScriptedPipeline()
        messages = [body("a", 1), body("b"), body("a", 2), body("a.metadata.json")]
        a_worker(pipeline, failures).process([(message, 1) for message in messages])
        assert pipeline.rounds == [["a", "b"], ["a"], ["a.metadata.json"]]

    def test_message_that_comes_again_goes_alone(self, failures: FailureLog) -> None:
        pipeline = ScriptedPipeline()
        a_worker(pipeline, failures).process([(body("a"), 2), (body("b"), 1), (body("c"), 1), (body("d"), 3)])
        assert pipeline.rounds == [["b", "c"], ["a"], ["d"]]

    def test_outcomes_are_in_the_order_of_the_messages(self, failures: FailureLog) -> None:
        outcomes = a_worker(ScriptedPipeline(), failures).process(
            [(body("a"), 2), ("garbage", 1), (body("b"), 1), (body("a", 2), 1)]
        )
        assert [outcome.object_key for outcome in outcomes] == ["a", "", "b", "a"]

    def test_no_messages_give_no_outcomes(self, failures: FailureLog) -> None:
        assert a_worker(ScriptedPipeline(), failures).process([]) == []


class TestRetries:
    def test_pause_doubles_up_to_a_quarter_of_an_hour(self) -> None:
        rules = RetryRules(3, 1.0)
        assert [rules.delay(receives) for receives in (1, 2, 3, 11, 2000)] == [1, 2, 4, 900, 900]

    @pytest.mark.parametrize(("receives", "attempts", "result"), [(1, 0, "retry"), (2, 0, "retry"), (3, 0, "failed")])
    def test_last_attempt_is_a_failure(self, failures: FailureLog, receives: int, attempts: int, result: str) -> None:
        pipeline = ScriptedPipeline(a=[down(attempts)])
        (outcome,) = a_worker(pipeline, failures).process([(body("a"), receives)])
        assert outcome.result == result
        assert [item.reason for item in failures.items()] == (["down"] if result == "failed" else [])

    def test_deliveries_that_were_no_attempts_do_not_count(self, failures: FailureLog) -> None:
        (outcome,) = a_worker(ScriptedPipeline(a=[down(1)]), failures).process([(body("a"), 9)])
        assert (outcome.result, outcome.delay_seconds) == (Result.RETRY, 1)

    def test_attempts_of_earlier_events_do_not_count(self, failures: FailureLog) -> None:
        (outcome,) = a_worker(ScriptedPipeline(a=[down(9)]), failures).process([(body("a"), 1)])
        assert outcome.result is Result.RETRY

    def test_bad_document_fails_at_once(self, failures: FailureLog) -> None:
        bad = EventOutcome(Result.FAILED, "a", "bad", error=UnparsableDocumentError("bad"))
        a_worker(ScriptedPipeline(a=[bad]), failures).process([(body("a"), 1)])
        (item,) = failures.items()
        assert (item.object_key, item.reason, item.error, item.attempts) == ("a", "bad", "UnparsableDocumentError", 1)
        assert item.event == body("a")

    @pytest.mark.parametrize("result", [Result.INGESTED, Result.UNCHANGED, Result.DELETED, Result.SKIPPED])
    def test_settled_document_is_no_failure_any_more(self, failures: FailureLog, result: Result) -> None:
        failures.record(ObjectEvent("a", deleted=False, sequencer="1"), DOWN, 3)
        a_worker(ScriptedPipeline(a=[EventOutcome(result, "a")]), failures).process([(body("a"), 1)])
        assert list(failures.items()) == []

    def test_stale_event_leaves_a_failure(self, failures: FailureLog) -> None:
        failures.record(ObjectEvent("a", deleted=False, sequencer="1"), DOWN, 3)
        stale = EventOutcome(Result.SKIPPED, "a", stale=True)
        a_worker(ScriptedPipeline(a=[stale]), failures).process([(body("a"), 1)])
        assert len(list(failures.items())) == 1


class TestDrain:
    def a_drain(
        self, queue: SqliteQueue, pipeline: ScriptedPipeline, failures: FailureLog, time: FakeTime
    ) -> QueueDrain:
        return QueueDrain(queue, a_worker(pipeline, failures), sleep=time.sleep)

    def test_everything_waiting_is_worked_on(self, queue: SqliteQueue, failures: FailureLog, time: FakeTime) -> None:
        for number in range(BATCH_MESSAGES + 5):
            queue.send(body(f"k{number}"))
        pipeline = ScriptedPipeline()
        assert len(list(self.a_drain(queue, pipeline, failures, time).run())) == BATCH_MESSAGES + 5
        assert [len(group) for group in pipeline.rounds] == [BATCH_MESSAGES, 5]
        assert queue.waiting() == 0

    def test_batches_grow_with_the_queue(self, queue: SqliteQueue, failures: FailureLog, time: FakeTime) -> None:
        for number in range(500):
            queue.send(body(f"k{number}"))
        pipeline = ScriptedPipeline()
        assert len(list(self.a_drain(queue, pipeline, failures, time).run())) == 500
        sizes = [len(group) for group in pipeline.rounds]
        assert sizes == sorted(sizes, reverse=True)
        assert sizes[0] in range(500 // 8, 500 // 8 + 10)
        assert len(sizes) < 500 // BATCH_MESSAGES

    def test_retried_item_yields_only_its_last_outcome(
        self, queue: SqliteQueue, failures: FailureLog, time: FakeTime
    ) -> None:
        queue.send(body("a"))
        pipeline = ScriptedPipeline(a=[down(), down(), EventOutcome(Result.INGESTED, "a")])
        observed: list[EventOutcome] = []
        outcomes = list(self.a_drain(queue, pipeline, failures, time).run(observed.append))
        assert [outcome.result for outcome in outcomes] == ["ingested"]
        assert [outcome.result for outcome in observed] == ["retry", "retry", "ingested"]
        assert time.elapsed >= 3

    def test_item_that_never_works_ends_as_a_failure(
        self, queue: SqliteQueue, failures: FailureLog, time: FakeTime
    ) -> None:
        queue.send(body("a"))
        (outcome,) = self.a_drain(queue, ScriptedPipeline(a=[down()]), failures, time).run()
        assert outcome.result is Result.FAILED
        assert queue.waiting() == 0

    def test_empty_queue_ends_at_once(self, queue: SqliteQueue, failures: FailureLog, time: FakeTime) -> None:
        assert list(self.a_drain(queue, ScriptedPipeline(), failures, time).run()) == []

    def test_a_deadline_that_is_near_leaves_the_rest_to_the_next_run(
        self, queue: SqliteQueue, failures: FailureLog, time: FakeTime
    ) -> None:
        """As in a request of a local server, which must not wait for all that others uploaded."""
        queue.send(body("a"))
        drain = self.a_drain(queue, ScriptedPipeline(), failures, time)
        with deadline(LEAST_SECONDS - 5):
            assert list(drain.run()) == []
        assert queue.waiting() == 1
        assert len(list(drain.run())) == 1


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


BROKEN = ObjectEvent("documents/x.md", deleted=False, sequencer="0" * 40)


@pytest.mark.parametrize("length", [0, 10, MAX_REASON_CHARACTERS])
def test_a_reason_is_kept_as_it_is(failures: FailureLog, length: int) -> None:
    reason = "ä" * length
    failures.record(BROKEN, UnparsableDocumentError(reason), 1)
    (kept,) = failures.items()
    assert kept.reason == reason


@pytest.mark.parametrize("length", [MAX_REASON_CHARACTERS + 1, 1_000_000])
def test_of_a_long_reason_the_beginning_is_kept(failures: FailureLog, length: int) -> None:
    recorded = failures.record(BROKEN, UnparsableDocumentError("x" * length), 1)
    (kept,) = failures.items()
    assert kept.reason == recorded.reason == "x" * (MAX_REASON_CHARACTERS - 1) + "…"


def test_a_secret_that_a_parser_quotes_is_masked(failures: FailureLog) -> None:
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    recorded = failures.record(BROKEN, UnparsableDocumentError(f"line 3: unexpected {secret}"), 1)
    assert secret not in recorded.reason
    assert "masked" in recorded.reason
