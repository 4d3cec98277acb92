"""From an S3 event in a queue to an agent's answer, on the AWS adapters."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lambdas.ingest_documents.handler import make_handler
from opx.domain.scopes import Identity
from opx.errors import StoreUnavailableError
from opx.graph.daily import RELINK
from opx.ingestion.worker import RetryRules
from opx.ports import SearchFilter, SearchRequest
from opx.ports.tables import DOCUMENTS, FAILURES, IDEMPOTENCY
from opx.retrieval.citations import NOTHING_FOUND
from opx.runtime.metrics import Metric
from opx.settings import Settings, env_name
from opx_aws.handled_events import event_identity
from tests.aws.cloud import BUCKET, INDEX, PREFIX, Cloud
from tests.doubles.http_double import Response
from tests.support.agent_calls import a_function_event, ask, text_of
from tests.support.fakes import FakeContext

DISK = "documents/runbooks/disk.md"
TITLE = "Disk full on Linux hosts"
TEXT = f"# {TITLE}\n\nFind the biggest directories with du. Delete rotated logs. Grow the volume."
VAULT = "clients/acme/documents/runbooks/vault.md"
VAULT_TITLE = "Unseal the acme vault"
EVERYTHING = SearchFilter(scopes=("global", "client:acme"))


def test_object_is_found_by_an_agent_after_its_event(cloud: Cloud) -> None:
    cloud.put(DISK, TEXT)
    assert cloud.deliver() == []
    assert cloud.ask(TITLE).startswith(f"Source: {TITLE}\nCategory: runbooks/procedures\n")


def test_the_scheduler_has_documents_mention_what_was_declared_after_them(cloud: Cloud) -> None:
    cloud.put(DISK, TEXT)
    cloud.deliver()
    assert set(cloud.ingest(dict(RELINK), FakeContext())) == {"names", "documents", "mentions", "busy"}


def test_details_of_a_found_document_name_its_object(cloud: Cloud) -> None:
    cloud.put(DISK, TEXT)
    cloud.deliver()
    document_id = cloud.ask(TITLE).rpartition("[Document ID: ")[2].partition("]")[0]
    details = json.loads(ask(cloud.retrieve, "get_document_details", document_id=document_id))
    assert details["s3Location"] == f"s3://{BUCKET}/{DISK}"


def test_batch_goes_into_the_index_with_one_request(cloud: Cloud) -> None:
    for number in range(5):
        cloud.put(f"documents/runbooks/{number}.md", f"# Runbook {number}\n\nDo step {number}.")
    cloud.deliver()
    assert cloud.services.index.count(EVERYTHING) == 5
    assert len(cloud.search.requests_to("_bulk")) == 1


class TestPartialFailure:
    def test_only_the_item_to_be_retried_is_reported(self, cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
        cloud.put(DISK, TEXT)
        broken = cloud.put("documents/runbooks/cpu.md", "# High CPU on web servers\n\nLook at top.")
        unreadable(cloud, monkeypatch, "documents/runbooks/cpu.md")
        assert cloud.deliver() == [broken]
        assert f"Source: {TITLE}" in cloud.ask(TITLE)

    def test_retried_item_comes_again_when_its_delay_is_over(
        self, cloud: Cloud, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        retry_at_once(cloud, monkeypatch)
        event = cloud.put(DISK, TEXT)
        with monkeypatch.context() as outage:
            unreadable(cloud, outage, DISK)
            assert cloud.deliver() == [event]
        assert cloud.deliver() == []
        assert f"Source: {TITLE}" in cloud.ask(TITLE)

    def test_delay_is_the_workers_and_grows(self, cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
        delays = []
        retry = cloud.services.queue.retry

        def noted(receipt: str, *, delay_seconds: int = 0) -> None:
            delays.append(delay_seconds)
            retry(receipt, delay_seconds=0)

        monkeypatch.setattr(cloud.services.queue, "retry", noted)
        cloud.put(DISK, TEXT)
        unreadable(cloud, monkeypatch, DISK)
        while cloud.deliver():
            pass
        assert delays == [1, 2]

    def test_item_that_fails_every_time_is_recorded_after_the_last_attempt(
        self, cloud: Cloud, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        retry_at_once(cloud, monkeypatch)
        cloud.put(DISK, TEXT)
        unreadable(cloud, monkeypatch, DISK)
        while cloud.deliver():
            assert cloud.items(FAILURES.name) == []
        (item,) = cloud.items(FAILURES.name)
        assert item["attempts"]["N"] == "3"

    def test_failed_retry_delay_still_reports_the_item(self, cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
        def refused(receipt: str, *, delay_seconds: int = 0) -> None:
            raise StoreUnavailableError("the queue is away")

        broken = cloud.put(DISK, TEXT)
        unreadable(cloud, monkeypatch, DISK)
        monkeypatch.setattr(cloud.services.queue, "retry", refused)
        assert cloud.deliver() == [broken]

    def test_item_that_fails_for_good_is_recorded_and_done(self, cloud: Cloud) -> None:
        cloud.put("documents/runbooks/empty.md", "")
        assert cloud.deliver() == []
        (item,) = cloud.items(FAILURES.name)
        assert item["objectKey"]["S"] == "documents/runbooks/empty.md"

    def test_failed_item_is_tried_again_when_its_event_comes_again(self, cloud: Cloud) -> None:
        event = cloud.put("documents/runbooks/late.md", "")
        cloud.deliver()
        cloud.s3.put_object(Bucket=BUCKET, Key="documents/runbooks/late.md", Body=TEXT.encode())
        cloud.send(event)
        cloud.deliver()
        assert f"Source: {TITLE}" in cloud.ask(TITLE)
        assert cloud.items(FAILURES.name) == []

    def test_item_that_could_not_be_recorded_comes_again_alone(
        self, cloud: Cloud, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def away(*args: object) -> None:
            raise StoreUnavailableError("the failures table is away")

        monkeypatch.setattr(cloud.services.corpus.failures, "record", away)
        cloud.put(DISK, TEXT)
        broken = cloud.put("documents/runbooks/empty.md", "")
        assert cloud.deliver() == [broken]
        assert f"Source: {TITLE}" in cloud.ask(TITLE)

    @pytest.mark.parametrize("body", ["no json", "[]", "{}", '{"source": "aws.ec2"}', "[" * 5000])
    def test_body_that_is_no_event_does_not_hold_up_the_others(self, cloud: Cloud, body: str) -> None:
        cloud.send(body)
        cloud.put(DISK, TEXT)
        assert cloud.deliver() == []
        assert f"Source: {TITLE}" in cloud.ask(TITLE)


class TestRepeatedAndDisorderedEvents:
    def test_redelivered_event_is_skipped_without_work(self, cloud: Cloud, capsys: pytest.CaptureFixture[str]) -> None:
        event = cloud.put(DISK, TEXT)
        cloud.deliver()
        cloud.search.reset()
        cloud.bedrock.reset()
        capsys.readouterr()
        cloud.send(event)
        assert cloud.deliver() == []
        assert cloud.search.requests == cloud.bedrock.requests == []
        (line,) = [json.loads(line) for line in capsys.readouterr().out.splitlines() if '"_aws"' in line]
        assert line[Metric.DUPLICATE_EVENTS] == [1.0]
        assert Metric.EVENTS_SKIPPED not in line

    def test_redelivered_event_changes_nothing_without_the_idempotency_table(self, cloud: Cloud) -> None:
        event = cloud.put(DISK, TEXT)
        cloud.deliver()
        cloud.dynamodb.delete_table(TableName=PREFIX + IDEMPOTENCY.name)
        cloud.send(event)
        assert cloud.deliver() == []
        assert cloud.services.index.count(EVERYTHING) == 1
        assert f"Source: {TITLE}" in cloud.ask(TITLE)

    def test_same_event_twice_in_a_batch_gives_one_document(self, cloud: Cloud) -> None:
        cloud.send(cloud.put(DISK, TEXT))
        assert cloud.deliver() == []
        assert cloud.services.index.count(EVERYTHING) == 1

    def test_handled_event_is_kept_under_the_tables_names_until_it_expires(self, cloud: Cloud) -> None:
        cloud.put(DISK, TEXT)
        cloud.deliver()
        (item,) = cloud.items(IDEMPOTENCY.name)
        assert item[IDEMPOTENCY.partition]["S"].startswith("ingest#")
        assert int(item[IDEMPOTENCY.ttl]["N"]) > 1_700_000_000

    def test_event_to_be_retried_is_not_kept(self, cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
        cloud.put(DISK, TEXT)
        unreadable(cloud, monkeypatch, DISK)
        cloud.deliver()
        assert cloud.items(IDEMPOTENCY.name) == []

    def test_creation_that_arrives_after_a_later_deletion_brings_nothing_back(self, cloud: Cloud) -> None:
        created, deleted = cloud.event(DISK), cloud.event(DISK, "Object Deleted")
        cloud.send(deleted)
        cloud.deliver()
        cloud.send(created)
        assert cloud.deliver() == []
        assert cloud.ask(TITLE) == NOTHING_FOUND

    def test_deletion_that_arrives_after_a_later_creation_takes_nothing_away(self, cloud: Cloud) -> None:
        deleted = cloud.event(DISK, "Object Deleted")
        cloud.put(DISK, TEXT)
        cloud.deliver()
        cloud.send(deleted)
        assert cloud.deliver() == []
        assert f"Source: {TITLE}" in cloud.ask(TITLE)

    def test_object_deleted_before_its_event_arrives_is_skipped(self, cloud: Cloud) -> None:
        cloud.put(DISK, TEXT)
        cloud.s3.delete_object(Bucket=BUCKET, Key=DISK)
        assert cloud.deliver() == []
        assert cloud.items(FAILURES.name) == []
        assert cloud.services.index.count(EVERYTHING) == 0

    def test_deleted_object_leaves_the_answers(self, cloud: Cloud) -> None:
        cloud.put(DISK, TEXT)
        cloud.deliver()
        cloud.delete(DISK)
        assert cloud.deliver() == []
        assert cloud.ask(TITLE) == NOTHING_FOUND


class TestOtherClients:
    @pytest.fixture
    def document_id(self, cloud: Cloud) -> str:
        cloud.put(VAULT, f"# {VAULT_TITLE}\n\nThree key holders unseal the vault.")
        cloud.put(DISK, TEXT)
        cloud.deliver()
        return cloud.ask(VAULT_TITLE, "acme").partition("[Document ID: ")[2].partition("]")[0]

    def test_owner_finds_the_document(self, cloud: Cloud, document_id: str) -> None:
        assert f"Source: {VAULT_TITLE}" in cloud.ask(VAULT_TITLE, "acme")

    @pytest.mark.parametrize("client", ["other", ""])
    def test_others_find_neither_hit_nor_candidate(self, cloud: Cloud, document_id: str, client: str) -> None:
        assert "vault" not in cloud.ask(VAULT_TITLE, client).lower()

    def test_others_get_no_details(self, cloud: Cloud, document_id: str) -> None:
        tool = "get_document_details"
        assert json.loads(ask(cloud.retrieve, tool, {"opxClientId": "acme"}, document_id=document_id))["title"]
        answer = ask(cloud.retrieve, tool, {"opxClientId": "other"}, document_id=document_id)
        assert answer == f"no document with this id: {document_id}"

    def test_others_do_not_see_it_in_counts(self, cloud: Cloud, document_id: str) -> None:
        visible = cloud.services.corpus.projects.reader(Identity("other")).visible
        response = cloud.services.index.search(SearchRequest(SearchFilter(visible), text="vault disk"))
        assert response.term_frequencies == {"vault": 0, "disk": 1}
        assert response.entry_count == 1
        assert cloud.services.index.count(SearchFilter(visible)) == 1


class TestUnavailableServices:
    def test_search_that_is_refused_is_not_an_empty_answer(self, cloud: Cloud) -> None:
        cloud.put(DISK, TEXT)
        cloud.deliver()
        cloud.search.inject(Response(403), path="_msearch")
        response = cloud.retrieve(a_function_event("search_runbooks", query=TITLE), FakeContext())
        assert response["response"]["functionResponse"]["responseState"] == "REPROMPT"
        assert "nothing was searched: the search index is unavailable for now" in text_of(response)

    def test_embedding_model_that_is_down_gives_a_marked_lexical_answer(
        self, cloud: Cloud, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        cloud.put(DISK, TEXT)
        cloud.deliver()
        cloud.bedrock.inject(Response(400, {"message": "no"}, (("x-amzn-ErrorType", "AccessDeniedException"),)))
        text = cloud.ask(TITLE)
        assert text.startswith("Partial answer: ")
        assert f"Source: {TITLE}" in text

    def test_item_is_retried_while_the_index_refuses(self, cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
        retry_at_once(cloud, monkeypatch)
        cloud.put(DISK, TEXT)
        cloud.search.inject(Response(403), path="_bulk")
        assert len(cloud.deliver()) == 1
        assert cloud.deliver() == []
        assert f"Source: {TITLE}" in cloud.ask(TITLE)


def test_function_starts_from_its_environment(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = cloud.services.settings
    names = {"backend", "corpus_bucket", "table_prefix", "ingest_queue_url"}
    environment = {env_name(name): str(getattr(settings, name)) for name in names}
    environment |= {
        "OPX_SEARCH_ENDPOINT": cloud.search.endpoint,
        "OPX_SEARCH_INDEX": INDEX,
        "AWS_ENDPOINT_URL_BEDROCK_RUNTIME": cloud.bedrock.endpoint,
        "AWS_DEFAULT_REGION": "eu-central-1",
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
    }
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert Settings.from_environ(environment).backend == "aws"
    cloud.put(DISK, TEXT)
    cloud.ingest = make_handler()
    assert cloud.deliver() == []
    assert f"Source: {TITLE}" in cloud.ask(TITLE)
    assert [item["title"]["S"] for item in cloud.items(DOCUMENTS.name) if "title" in item] == [TITLE]


class TestEventIdentity:
    def test_identity_is_bucket_key_and_sequencer(self, cloud: Cloud) -> None:
        identity = event_identity(cloud.event("documents/a.md"))
        assert identity is not None
        assert identity | {"sequencer": ""} == {"bucket": BUCKET, "key": "documents/a.md", "sequencer": ""}

    @pytest.mark.parametrize("missing", ["bucket", "key", "sequencer"])
    def test_event_without_a_part_of_it_has_none(self, missing: str) -> None:
        detail: dict[str, Any] = {"bucket": {"name": "b"}, "object": {"key": "k", "sequencer": "1"}}
        if missing == "bucket":
            del detail["bucket"]
        else:
            detail["object"][missing] = ""
        assert event_identity(json.dumps({"detail": detail})) is None

    @pytest.mark.parametrize("body", ["", "[]", "null", '{"detail": 5}', '{"detail": {"object": []}}', "[" * 100_000])
    def test_anything_else_has_none(self, body: str) -> None:
        assert event_identity(body) is None


def unreadable(cloud: Cloud, monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    """Let the bucket fail for this object."""
    head = cloud.services.store.head

    def failing(name: str) -> Any:
        if name == key:
            raise StoreUnavailableError(f"can't read {name} for now")
        return head(name)

    monkeypatch.setattr(cloud.services.store, "head", failing)


def retry_at_once(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    """Retries without a pause. The queue itself would hide a message for an hour and a half."""
    monkeypatch.setattr(cloud.services.ingestion.worker, "rules", RetryRules(attempts=3, base_seconds=0.0))


def test_handlers_are_short() -> None:
    for handler in (Path(__file__).parents[2] / "lambdas").glob("*/handler.py"):
        assert len(handler.read_text(encoding="utf-8").splitlines()) <= 60, handler
