"""A system on AWS doubles whose indexes are built anew by the function, in one collection or another."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import boto3
import pytest

from lambdas.rebuild_index.handler import make_handler
from opx.domain.queries import QueryConfig
from opx.ingestion.events import ObjectEvent, Result
from opx.lifecycle.reindex.job import ReindexPhase
from opx.operations.system import System
from opx.ports.queues import ThisProcess
from opx.settings import FIRST_COLLECTION
from opx.system import bootstrap
from opx_aws.bedrock_embedder import BedrockEmbedder
from opx_aws.ports import OpenSearchIndexes, SearchCollection
from opx_aws.queue import SqsQueue
from opx_testing.fake_time import FakeTime
from tests.aws.cloud import Cloud, a_cloud
from tests.support.builders import ports_of
from tests.support.fakes import FakeContext, function_logs

TITAN = "amazon.titan-embed-text-v2:0"
HOUR = 3_600_000


@dataclass
class Runtime(FakeContext):
    """A call that may go on for so many milliseconds."""

    left: int = HOUR

    def get_remaining_time_in_millis(self) -> int:
        return self.left


@dataclass
class Deployed:
    """A system with a queue of turns, and a clock that tests move."""

    cloud: Cloud
    services: System
    turns: str
    clock: FakeTime

    def __post_init__(self) -> None:
        self.rebuild = make_handler(lambda: self.services)

    def put(self, key: str, text: str) -> None:
        self.ingest(f"documents/runbooks/{key}.md", text)

    def ingest(self, name: str, text: str) -> None:
        self.services.store.put(name, text.encode())
        self.apply(name)

    def delete(self, key: str) -> None:
        self.services.store.delete(f"documents/runbooks/{key}.md")
        self.apply(f"documents/runbooks/{key}.md", deleted=True)

    def apply(self, name: str, *, deleted: bool = False) -> None:
        event = ObjectEvent(name, deleted=deleted, sequencer="")
        (outcome,) = self.services.ingestion.pipeline.apply([event])
        assert outcome.result in (Result.INGESTED, Result.DELETED), outcome

    def ask(self, question: str) -> list[str]:
        answer = self.services.questions.for_reader().search(question, QueryConfig(min_confidence=0.0))
        assert answer.notes == ()
        return [result.title for result in answer.results]

    def call(self, body: str, left: int = HOUR) -> None:
        self.rebuild({"Records": [{"body": body}]}, Runtime(left=left))

    def next_turn(self) -> str | None:
        """The message that is to go on, whatever its delay."""
        found = self.cloud.sqs.receive_message(QueueUrl=self.turns, MaxNumberOfMessages=1).get("Messages", [])
        for message in found:
            self.cloud.sqs.delete_message(QueueUrl=self.turns, ReceiptHandle=message["ReceiptHandle"])
        return found[0]["Body"] if found else None

    def run(self, left: int = 0, **request: Any) -> ReindexPhase:
        """Run the function until it enqueues no further message, in shortest slices by default; queries are answered in
        between."""
        body: str | None = json.dumps(request)
        for turn in range(60):
            if body is None:
                break
            self.call(body, left=left)
            assert turn % 2 or self.ask("grow the volume")
            self.clock.sleep(400)
            body = self.next_turn()
        job = self.services.lifecycle.reindexer.status()[1]
        assert job is not None
        return job.phase


@contextmanager
def a_deployment(
    aws: boto3.Session,
    monkeypatch: pytest.MonkeyPatch,
    more: Mapping[str, SearchCollection] | None = None,
    *,
    clock: FakeTime | None = None,
) -> Iterator[Deployed]:
    """A system with two documents in the first collection, and `more` collections beside it."""
    monkeypatch.setattr(SqsQueue, "send", _at_once)
    with function_logs(), a_cloud(aws) as cloud:
        system = connected(cloud, {FIRST_COLLECTION: first_collection(cloud), **(more or {})}, clock or FakeTime())
        system.put("disk", "# Disk full\n\nDelete rotated logs. Grow the volume.\n")
        system.put("vault", "# Unseal the vault\n\nThree keys are needed.\n")
        yield system


def first_collection(cloud: Cloud) -> SearchCollection:
    """The collection of the cloud's own index."""
    return SearchCollection(lambda: cloud.services.index._client)  # type: ignore[attr-defined]


def connected(cloud: Cloud, collections: Mapping[str, SearchCollection], clock: FakeTime) -> Deployed:
    """A system of that cloud which knows these collections."""
    url, given = cloud.sqs.create_queue(QueueName="rebuilds")["QueueUrl"], cloud.services
    services = bootstrap(
        given.settings,
        clock=clock.clock,
        embedder=given.indexing.embedder,
        functions=ThisProcess(rebuilds=SqsQueue(cloud.sqs, url)),
        aws=ports_of(given).given["aws"],
        indexes=OpenSearchIndexes(collections, given.settings.search_index, timeout=5.0),
        new_embedder=lambda model, _, dimension: _titan(given, model, dimension),
    )
    services.indexing.editions.clock = clock.clock
    return Deployed(cloud, services, url, clock)


def _at_once(queue: SqsQueue, body: str, *, delay_seconds: int = 0) -> None:
    assert 0 <= delay_seconds <= 900
    queue._client.send_message(QueueUrl=queue._url, MessageBody=body)


def _titan(given: System, model: str, dimension: int) -> Any:
    client = given.indexing.embedder._client  # type: ignore[attr-defined]
    return BedrockEmbedder(client, model or TITAN, dimension=dimension or None)
