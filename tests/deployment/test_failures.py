"""Behaviour of the system when parts of it crash, are unavailable, or are misconfigured."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator

import pytest

from tests.deployment.system import COLD_START_SECONDS, INGEST, RETRIEVE, SystemUnderTest, eventually
from tests.doubles.http_double import Response

LEASE_SECONDS, HIDDEN_SECONDS = 10, 20
"""Deployed are 900 and 1,800: a lease ends before the queue hands a message out again. The ratio is kept."""

PERSISTENT = {"retry_base_seconds": "1", "max_attempts": "12"}
"""Attempts with short pauses that go on for half an hour: deployed ones give up earlier than a busy machine starts a node."""


@pytest.fixture(autouse=True)
def rested(system: SystemUnderTest) -> None:
    """Nothing of an earlier test is in the queues."""
    system.idle()


@pytest.fixture
def impatient(system: SystemUnderTest) -> Iterator[SystemUnderTest]:
    """Messages come back, and claims of the dead end, within seconds."""
    with system.deliveries(hidden=HIDDEN_SECONDS), system.settings(INGEST, lease_seconds=str(LEASE_SECONDS)):
        yield system


def test_a_function_killed_in_the_middle_of_a_document_leaves_nothing_half_done(impatient: SystemUnderTest) -> None:
    system, bedrock = impatient, impatient.bedrock
    key = "documents/runbooks/killed.md"
    sections = [
        f"## Step {n}\n\nTurn breaker {n} of the switchgear off.{' Wait for the arc to end.' * 60}" for n in range(12)
    ]
    calls = len(bedrock.calls)
    bedrock.inject(Response(delay=60.0), times=4)
    system.put(key, "\n\n".join(["# Switchgear", *sections]))
    eventually(lambda: len(bedrock.calls) > calls)
    workers = system.emulator.workers(system.names.function(INGEST))
    assert workers
    for worker in workers:
        worker.send_signal(signal.SIGKILL)
    bedrock.reset()
    document = system.ingested(key, "breaker 11")
    assert document.versions == {1: "current"}
    assert len(document.chunks) > 4
    eventually(lambda: system.waiting("ingest") == 0)


def test_document_put_during_an_outage_of_the_engine_is_ingested_afterwards(system: SystemUnderTest) -> None:
    """With the pauses between attempts shortened, from 20 s, 40 s, ... to 1 s, 2 s, ..., and with more attempts."""
    key = "documents/runbooks/away.md"
    retries = system.metrics(INGEST).get("IngestionRetries", 0)
    with system.deliveries(hidden=COLD_START_SECONDS), system.settings(INGEST, **PERSISTENT):
        system.engine.stop()
        try:
            system.put(key, "# Relay chatter\n\nReplace the relay coil.")
            eventually(lambda: system.metrics(INGEST).get("IngestionRetries", 0) > retries)
        finally:
            system.engine.start()
        assert system.ingested(key, "relay coil").versions == {1: "current"}


def test_a_question_while_the_engine_is_away_is_answered_as_incomplete_and_counted(system: SystemUnderTest) -> None:
    before = system.metrics(RETRIEVE)
    system.engine.stop()
    try:
        answer = system.ask("relay chatter")
    finally:
        system.engine.start()
    assert "incomplete" in answer.lower() or "unavailable" in answer.lower(), answer
    eventually(lambda: system.metrics(RETRIEVE)["SearchUnavailable"] > before.get("SearchUnavailable", 0))
    assert system.metrics(RETRIEVE).get("ToolErrors", 0) == before.get("ToolErrors", 0)


def test_a_function_misses_a_right_that_is_taken_away_and_goes_on_when_it_is_given_back(
    system: SystemUnderTest,
) -> None:
    """Also shows that rights are enforced here, so that every other test covers the deployed roles."""
    key = "documents/runbooks/forbidden.md"
    retries = system.metrics(INGEST).get("IngestionRetries", 0)
    with system.deliveries(hidden=COLD_START_SECONDS), system.settings(INGEST, **PERSISTENT):
        with system.denied(INGEST, "s3:PutObject"):
            system.put(key, "# Elevator stuck\n\nRelease the elevator brake by hand.")
            eventually(lambda: system.metrics(INGEST).get("IngestionRetries", 0) > retries)
            assert not system.state(key).document_id
        assert system.ingested(key, "brake by hand").versions == {1: "current"}


def test_event_of_a_broken_function_waits_in_the_dead_letters_and_can_be_sent_again(
    system: SystemUnderTest,
) -> None:
    key = "documents/runbooks/redriven.md"
    with system.settings(INGEST, chunk_tokens="many"), system.deliveries(hidden=1, receives=1):
        system.put(key, "# Conveyor belt tracking\n\nTighten the tail pulley.")
        eventually(lambda: _keys(system, "ingest-failed") == {key})
    assert not system.state(key).document_id
    with system.deliveries(hidden=COLD_START_SECONDS):
        _send_again(system)
        assert system.ingested(key, "tail pulley").versions == {1: "current"}


def _keys(system: SystemUnderTest, kind: str) -> set[str]:
    """Of which objects there are messages, which stay where they are."""
    answer = system.sqs.receive_message(QueueUrl=system.queue(kind), MaxNumberOfMessages=10, VisibilityTimeout=0)
    return {json.loads(message["Body"])["detail"]["object"]["key"] for message in answer.get("Messages", [])}


def _send_again(system: SystemUnderTest) -> None:
    """As `StartMessageMoveTask` does, which the emulator doesn't have."""
    failed = system.queue("ingest-failed")
    for message in system.sqs.receive_message(QueueUrl=failed, MaxNumberOfMessages=10)["Messages"]:
        system.sqs.send_message(QueueUrl=system.queue("ingest"), MessageBody=message["Body"])
        system.sqs.delete_message(QueueUrl=failed, ReceiptHandle=message["ReceiptHandle"])
