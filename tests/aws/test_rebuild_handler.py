"""The function that makes a new index, on DynamoDB, S3, SQS and a double of OpenSearch, while others ask and change."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import boto3
import pytest

from lambdas.rebuild_index.handler import make_handler
from opx.adapters.aws.bedrock_embedder import BedrockEmbedder
from opx.adapters.aws.ports import OpenSearchIndexes
from opx.adapters.aws.queue import SqsQueue
from opx.domain.queries import QueryConfig, SearchMode
from opx.errors import EmbeddingError, ReindexBusyError
from opx.ingestion.events import ObjectEvent, Result
from opx.lifecycle.reindex.job import ReindexPhase
from opx.operations.system import System
from opx.ports.queues import ThisProcess
from opx.retrieval.calibration.calibrating import Calibrator
from opx.retrieval.calibration.models import with_changes
from opx.retrieval.confidence import shipped
from opx.retrieval.hybrid import BOTH
from opx.retrieval.searching import CalibratedModels
from opx.system import bootstrap
from tests.aws.cloud import Cloud, a_cloud
from tests.doubles.fake_time import FakeTime
from tests.support.builders import ports_of
from tests.support.calibration_support import page
from tests.support.fakes import FakeContext, function_logs

TITAN = "amazon.titan-embed-text-v2:0"
HOUR = 3_600_000
FOLDERS = ("documents/runbooks/procedures", "documents/postmortems")


@dataclass
class Runtime(FakeContext):
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
        answer = self.services.questions.search().answer(question, QueryConfig(min_confidence=0.0))
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


@pytest.fixture
def deployed(aws: boto3.Session, monkeypatch: pytest.MonkeyPatch) -> Iterator[Deployed]:
    monkeypatch.setattr(SqsQueue, "send", _at_once)
    with function_logs(), a_cloud(aws) as cloud:
        url = cloud.sqs.create_queue(QueueName="rebuilds")["QueueUrl"]
        clock, given = FakeTime(), cloud.services
        services = bootstrap(
            given.settings,
            clock=clock.clock,
            embedder=given.embedder,
            functions=ThisProcess(rebuilds=SqsQueue(cloud.sqs, url)),
            aws=ports_of(given)._aws,
            indexes=OpenSearchIndexes(
                lambda: given.index._client,  # type: ignore[attr-defined]
                given.settings.search_index,
                generation="nextgen",
                timeout=5.0,
            ),
            new_embedder=lambda model, _, dimension: _titan(given, model, dimension),
        )
        services.indexing.editions._clock = clock.clock
        system = Deployed(cloud, services, url, clock)
        system.put("disk", "# Disk full\n\nDelete rotated logs. Grow the volume.\n")
        system.put("vault", "# Unseal the vault\n\nThree keys are needed.\n")
        yield system


def _at_once(queue: SqsQueue, body: str, *, delay_seconds: int = 0) -> None:
    assert 0 <= delay_seconds <= 900
    queue._client.send_message(QueueUrl=queue._url, MessageBody=body)


def _titan(given: System, model: str, dimension: int) -> Any:
    client = given.embedder._client  # type: ignore[attr-defined]
    return BedrockEmbedder(client, model or TITAN, dimension=dimension or None)


def test_turns_make_an_index_that_answers_while_documents_change(deployed: Deployed) -> None:
    deployed.call(json.dumps({"do": "reindex", "model": TITAN, "dimension": 256}), left=0)
    job = deployed.services.lifecycle.reindexer.status()[1]
    assert job is not None
    assert (job.phase, job.documents) == (ReindexPhase.WAITING, 0)  # for functions that know nothing of it
    deployed.put("tape", "# Tape lost\n\nAsk the courier.\n")
    deployed.delete("vault")
    assert deployed.run(do="go on") is ReindexPhase.DONE
    assert deployed.services.indexing.document_embedder.model_id == f"{TITAN}/256"
    found = [deployed.ask(question)[:1] for question in ("grow the volume", "ask the courier")]
    assert found == [["Disk full"], ["Tape lost"]]
    assert "Unseal the vault" not in deployed.ask("unseal the vault")
    deployed.call('{"do": "go on"}')  # a message that came twice
    assert deployed.next_turn() is None


def test_the_earlier_index_can_be_gone_back_to_and_the_other_one_removed(deployed: Deployed) -> None:
    deployed.run(HOUR, do="reindex", model=TITAN, dimension=256)
    deployed.put("lock", "# Lock held\n\nFind the session that holds it.\n")
    assert deployed.run(do="rollback") is ReindexPhase.DONE
    assert deployed.services.indexing.document_embedder.model_id == f"{TITAN}/1024"
    found = [deployed.ask(question)[:1] for question in ("grow the volume", "find the session", "unseal the vault")]
    assert found == [["Disk full"], ["Lock held"], ["Unseal the vault"]]
    deployed.call('{"do": "discard"}')
    assert len(deployed.services.indexing.every_index()) == 1
    assert deployed.ask("grow the volume")[0] == "Disk full"


def test_of_two_at_once_one_works(deployed: Deployed) -> None:
    reindexer = deployed.services.lifecycle.reindexer
    reindexer.start(model=TITAN, dimension=256)
    held = reindexer._held()
    with pytest.raises(ReindexBusyError):
        deployed.services.lifecycle.reindexer.advance(lambda: True)
    deployed.call('{"do": "go on"}')  # leaves it to the one who has it
    assert deployed.next_turn() is None
    deployed.clock.sleep(1000)
    deployed.call('{"do": "go on"}', left=0)  # who had it was ended
    with pytest.raises(ReindexBusyError):
        reindexer._parts.jobs.save(held)


MODEL = f"{TITAN}/1024"


def test_the_new_index_is_calibrated_for_after_the_switch(deployed: Deployed) -> None:
    deployed.run(HOUR, do="reindex", model=TITAN, dimension=256)
    kept = deployed.services.questions.calibrations.read(f"{TITAN}/256")
    assert (kept.calibration, kept.entries) == (None, 2)  # it was tried: two documents are too few
    assert deployed.services.questions.calibrations.read(MODEL).entries is None


def test_a_message_calibrates_and_searches_use_what_was_kept(deployed: Deployed) -> None:
    for number in range(32):
        deployed.ingest(f"{FOLDERS[number % 2]}/{number}.md", page(number))
    deployed.call('{"do": "calibrate"}')
    kept = deployed.services.questions.calibrations.read(MODEL)
    assert kept.calibration
    assert (kept.entries, kept.calibration.documents) == (34, 34)
    assert kept.calibration.loss < kept.calibration.loss_before
    models = CalibratedModels(deployed.services.questions.kept_calibration)(MODEL, BOTH, SearchMode.BALANCED)
    assert models == with_changes(MODEL, kept.calibration.fit, BOTH, SearchMode.BALANCED)
    assert models != shipped(MODEL, BOTH, SearchMode.BALANCED)


def test_a_message_leaves_alone_what_is_not_due(deployed: Deployed) -> None:
    store = deployed.services.questions.calibrations
    store.write(MODEL, None, entries=2)
    before = deployed.cloud.bedrock.calls
    deployed.call('{"do": "calibrate", "ifDue": true}')
    assert deployed.cloud.bedrock.calls == before
    assert deployed.next_turn() is None


def test_a_model_that_can_not_be_calibrated_is_not_retried(deployed: Deployed, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise EmbeddingError("zeros")

    monkeypatch.setattr(Calibrator, "run", refused)
    deployed.call('{"do": "calibrate"}')  # doesn't raise: the queue would hand it out again
    assert deployed.next_turn() is None
