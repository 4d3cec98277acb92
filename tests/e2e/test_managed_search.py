"""A knowledge base as search engine: from a document in the corpus to an answer that cites it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config

from lambdas.sync_knowledge_base.handler import make_handler
from opx.domain.queries import QueryConfig
from opx.domain.record import replace
from opx.domain.results import Answer, RetrievalResult
from opx.domain.scopes import Identity
from opx.errors import IndexUnavailableError, StoreUnavailableError
from opx.ingestion.events import Result
from opx.ports import CopyChange, SearchFilter, SearchRequest
from opx.retrieval.citations import citation
from opx.system import bootstrap
from opx_aws.queue import SqsQueue
from tests.doubles.bedrock import THROTTLED
from tests.doubles.bedrock_knowledge_base import DATA_SOURCE_ID, KNOWLEDGE_BASE_ID, KnowledgeBaseDouble
from tests.e2e.systems import SystemUnderTest, a_system, created, key_of, with_leases
from tests.support.builders import ports_of
from tests.support.fakes import FakeContext, WordsEmbedder, function_logs

DISK = "documents/runbooks/disk.md"
VAULT = "clients/acme/documents/runbooks/vault.md"
DISK_TEXT = "---\ntags: [linux]\n---\n# Disk full\n\n## First steps\n\nFind the biggest directories with du.\n"
ANYTHING = QueryConfig(min_confidence=0)
JOB_SECONDS = 60.0
NO_RETRIES = Config(retries={"total_max_attempts": 1}, connect_timeout=2, read_timeout=2)


class Managed:
    """A system whose questions a knowledge base answers, and the queue and function that keep it up to date."""

    def __init__(
        self, system: SystemUnderTest, double: KnowledgeBaseDouble, session: boto3.Session, queue: Any
    ) -> None:
        self.system = system
        self.double = double
        self.queue = queue
        services = system.services
        others = ports_of(services).given["aws"]

        def client(service: str, **options: Any) -> Any:
            if service.startswith("bedrock-agent"):
                return session.client(service, endpoint_url=double.endpoint, config=NO_RETRIES)  # type: ignore[call-overload]
            return others(service, **options)

        ports_of(services).given["aws"] = client
        self.sync = make_handler(lambda: services.ports.index_sync)

    def put(self, key: str, text: str) -> None:
        self.system.put(key, text)
        assert [outcome.result for outcome in self.system.work()] == [Result.INGESTED]

    def delete(self, key: str) -> None:
        self.system.delete(key)
        assert [outcome.result for outcome in self.system.work()] == [Result.DELETED]

    def deliver(self) -> int:
        """Call the sync function with the requests that are visible; the number of those that must come again."""
        messages = self.queue.receive(hide_seconds=0)
        if not messages:
            return 0
        records = [{"messageId": message.receipt, "body": message.body} for message in messages]
        failures = self.sync({"Records": records}, FakeContext())["batchItemFailures"]
        again = {failure["itemIdentifier"] for failure in failures}
        for message in messages:
            if message.receipt not in again:
                self.queue.done(message.receipt)
        return len(again)

    def index(self) -> None:
        """Let the requests through, and the job that answers them end."""
        self.system.time.sleep(JOB_SECONDS)
        assert self.deliver() == 0
        self.system.time.sleep(JOB_SECONDS)

    def answer(self, query: str, config: QueryConfig = ANYTHING, client: str = "") -> Answer:
        return self.system.services.questions.for_reader(Identity(client)).search(query, config)

    def results(self, query: str, client: str = "") -> tuple[RetrievalResult, ...]:
        return self.answer(query, client=client).results

    def copies(self) -> list[str]:
        return [info.key for info in self.system.silent.list("managed/")]


@contextmanager
def a_managed_system(home: Path, session: boto3.Session, embedder: WordsEmbedder) -> Iterator[Managed]:
    url = session.client("sqs").create_queue(QueueName="sync")["QueueUrl"]
    with a_system("nextgen", home, session, embedder=embedder, **_settings(url)) as system:
        queue = SqsQueue(session.client("sqs"), url, wait_seconds=0)
        with KnowledgeBaseDouble(system.silent, system.time.clock, job_seconds=JOB_SECONDS) as double:
            yield Managed(system, double, session, queue)


def _settings(url: str) -> dict[str, str]:
    engine = {"search_engine": "bedrock_knowledge_base", "knowledge_base_id": KNOWLEDGE_BASE_ID}
    return {**engine, "data_source_id": DATA_SOURCE_ID, "sync_queue_url": url}


class CountingEmbedder(WordsEmbedder):
    """Counts questions."""

    questions = 0

    def embed_documents(self, texts: Any) -> Any:
        return [(super(CountingEmbedder, self).embed_query(text),) for text in texts]

    def embed_query(self, text: str) -> Any:
        self.questions += 1
        return super().embed_query(text)


@pytest.fixture
def embedder() -> CountingEmbedder:
    return CountingEmbedder()


@pytest.fixture
def managed(tmp_path: Path, aws: boto3.Session, embedder: CountingEmbedder) -> Iterator[Managed]:
    with function_logs(), a_managed_system(tmp_path, aws, embedder) as made:
        yield made


class TestAnswers:
    def test_document_is_found_with_its_source(self, managed: Managed) -> None:
        managed.put(DISK, DISK_TEXT)
        managed.index()
        (result,) = managed.results("biggest directories")
        document = managed.system.document(DISK)
        assert (result.document_id, result.source) == (document.document_id, document.source_uri)
        assert citation(result).startswith("Source: Disk full\nCategory: runbooks/procedures\n")
        assert f"[Document ID: {document.document_id}]" in citation(result)

    def test_results_are_the_chunks_of_the_own_index(self, managed: Managed) -> None:
        managed.put(DISK, DISK_TEXT)
        managed.index()
        (found,) = managed.system.services.indexing.search_engine.search(
            _question("biggest directories")
        ).chunks.values()
        assert [found] == managed.system.entries(DISK)

    def test_confidence_is_the_score_of_the_service(self, managed: Managed) -> None:
        managed.put(DISK, DISK_TEXT)
        managed.index()
        response = managed.system.services.indexing.search_engine.search(_question("biggest directories"))
        assert response.fused
        ((_, score),) = response.fused.hits
        (result,) = managed.results("biggest directories")
        assert result.parts
        score = round(score, 6)
        assert (result.confidence, result.parts.fused) == (score, score)
        assert result.score == round(score * result.trust_score, 6)

    def test_results_below_the_threshold_are_left_out(self, managed: Managed) -> None:
        managed.put(DISK, DISK_TEXT)
        managed.index()
        assert len(managed.answer("biggest directories", QueryConfig()).results) == 1
        weak = managed.answer("how do I brew green tea with a bamboo whisk", QueryConfig())
        assert weak.results == ()
        assert weak.best_rejected
        assert weak.best_rejected.confidence < 0.7

    def test_question_is_not_embedded_here(self, managed: Managed, embedder: CountingEmbedder) -> None:
        managed.results("biggest directories")
        assert embedder.questions == 0

    def test_other_clients_documents_are_never_returned(self, managed: Managed) -> None:
        managed.put(VAULT, "# Vault\n\nUnseal the vault with three keys.\n")
        managed.put(DISK, DISK_TEXT)
        managed.index()
        for reader in ("", "other"):
            found = managed.results("unseal the vault", client=reader)
            assert [result.title for result in found] == ["Disk full"]
        assert managed.results("unseal the vault", client="acme")[0].title == "Vault"

    def test_unavailable_service_is_an_error_and_not_an_answer(self, managed: Managed) -> None:
        managed.double.inject(THROTTLED, path="/retrieve")
        with pytest.raises(IndexUnavailableError):
            managed.answer("disk")

    def test_a_cut_question_is_noted(self, managed: Managed) -> None:
        (note,) = managed.answer("disk " * 300).notes
        assert "first 1,000 characters" in note


class TestChanges:
    def test_document_is_not_found_before_a_job_has_taken_it_in(self, managed: Managed) -> None:
        managed.put(DISK, DISK_TEXT)
        assert managed.results("biggest directories") == ()
        assert managed.deliver() == 0
        assert managed.results("biggest directories") == ()
        managed.system.time.sleep(JOB_SECONDS)
        assert len(managed.results("biggest directories")) == 1

    def test_new_version_takes_the_place_of_the_old_one(self, managed: Managed) -> None:
        managed.put(DISK, DISK_TEXT)
        managed.put(DISK, "# Disk full\n\nGrow the volume.\n")
        managed.index()
        (result,) = managed.results("disk")
        assert "Grow the volume." in result.content
        assert result.document_id == managed.system.document(DISK).document_id
        assert len(managed.copies()) == 2

    def test_deleted_document_is_gone_after_the_next_job(self, managed: Managed) -> None:
        managed.put(DISK, DISK_TEXT)
        managed.index()
        managed.delete(DISK)
        assert managed.copies() == []
        managed.index()
        assert managed.results("biggest directories") == ()

    def test_unchanged_document_requests_no_job(self, managed: Managed) -> None:
        managed.put(DISK, DISK_TEXT)
        managed.index()
        managed.system.put(DISK, DISK_TEXT)
        assert [outcome.result for outcome in managed.system.work()] == [Result.UNCHANGED]
        assert managed.queue.waiting() == 0

    def test_change_during_a_job_is_ingested_by_the_next_one(self, managed: Managed) -> None:
        managed.put(DISK, DISK_TEXT)
        managed.deliver()
        managed.system.time.sleep(JOB_SECONDS / 2)
        managed.put(VAULT, "# Vault\n\nUnseal the vault.\n")
        assert managed.deliver() == 1
        assert managed.double.statuses == ["IN_PROGRESS"]
        managed.system.time.sleep(JOB_SECONDS / 2)
        assert managed.deliver() == 0
        managed.system.time.sleep(JOB_SECONDS)
        assert managed.double.statuses == ["COMPLETE", "COMPLETE"]
        assert managed.results("unseal the vault", client="acme")[0].title == "Vault"

    def test_documents_of_a_batch_are_ingested_by_one_job(self, managed: Managed) -> None:
        for number in range(5):
            managed.system.put(f"documents/runbooks/{number}.md", f"# Runbook {number}\n\nDo step {number}.\n")
        assert len(managed.system.work()) == 5
        assert managed.queue.waiting() == 1
        managed.index()
        assert len(managed.results("runbook step")) == 5

    def test_document_of_before_there_was_a_knowledge_base_is_copied_when_it_is_announced_again(
        self, managed: Managed
    ) -> None:
        services = managed.system.services
        parts = {name: getattr(services, name) for name in ("store", "work", "index")}
        parts["embedder"] = services.indexing.embedder
        settings = replace(services.settings, sync_queue_url="")
        before = bootstrap(settings, clock=services.clock, aws=ports_of(services).given["aws"], **parts)
        managed.system.put_silently(DISK, DISK_TEXT)
        assert before.ingestion.worker.process([(created(DISK, 1), 1)])[0].result is Result.INGESTED
        assert managed.copies() == []
        assert managed.system.deliver(created(DISK, 2))[0].result is Result.INGESTED
        assert len(managed.copies()) == 2
        assert managed.system.deliver(created(DISK, 3))[0].result is Result.UNCHANGED

    def test_bucket_that_is_away_makes_the_document_come_again(
        self, managed: Managed, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def away(*_: object, **__: object) -> None:
            raise StoreUnavailableError("the bucket is away")

        managed.system.put_silently(DISK, DISK_TEXT)
        with monkeypatch.context() as outage:
            outage.setattr(managed.system.services.copies, "apply", away)
            assert managed.system.deliver(created(DISK, 1))[0].result is Result.RETRY
        assert managed.system.deliver(created(DISK, 1), receives=2)[0].result is Result.INGESTED
        managed.index()
        assert len(managed.results("biggest directories")) == 1


class TestLostClaims:
    def test_slow_worker_takes_its_copies_back_when_another_was_faster(
        self, managed: Managed, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        system = with_leases(managed.system)
        copies = system.services.copies
        assert copies
        apply = copies.apply

        def overtaken(changes: Iterable[CopyChange]) -> None:
            monkeypatch.setattr(copies, "apply", apply)
            system.lease_over()
            system.put_silently(DISK, "# Disk full\n\nThe newer text.\n")
            assert system.deliver(created(DISK, 2))[0].result is Result.INGESTED
            apply(changes)
            assert len(managed.copies()) == 4

        monkeypatch.setattr(copies, "apply", overtaken)
        system.put_silently(DISK, "# Disk full\n\nThe older text.\n")
        assert system.deliver(created(DISK, 1))[0].result is Result.RETRY
        newer = f"managed/{key_of(DISK).id}/{system.document(DISK).document_id}/"
        assert managed.copies() == [f"{newer}000000.txt", f"{newer}000000.txt.metadata.json"]


def _question(text: str) -> Any:
    return SearchRequest(SearchFilter(scopes=("global",)), text=text)
