"""The knowledge base adapters against a double of the service: what is copied is found, by whom it may be."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config

from opx.adapters.embedded.object_store import FolderObjectStore
from opx.domain.documents import DocumentKey
from opx.domain.scopes import Scope, scope_of_object
from opx.errors import IndexUnavailableError, StoreUnavailableError
from opx.ingestion.states import requested_since, sync_batch, sync_request
from opx.ports import CopyChange, IndexEntry, SearchFilter, SearchRequest
from opx_aws.bedrock_knowledge_base import BedrockKnowledgeBase
from opx_aws.knowledge_base_objects import (
    CLOCK_SKEW_SECONDS,
    SIDECAR_SUFFIX,
    KnowledgeBaseCopies,
    KnowledgeBaseSync,
    document_folder,
)
from opx_testing.entries import EVERYONE, an_entry, any_vector
from opx_testing.fake_time import FakeTime
from opx_testing.search_engine import Put, SearchEngineContract, found, ids, search
from tests.doubles.bedrock import THROTTLED, a_failure
from tests.doubles.bedrock_knowledge_base import DATA_SOURCE_ID, KNOWLEDGE_BASE_ID, PREFIX, KnowledgeBaseDouble
from tests.doubles.http_double import Response

JOB_SECONDS = 60.0
NO_RETRIES = Config(retries={"total_max_attempts": 1}, connect_timeout=2, read_timeout=2)
ACME = Scope("acme", project_id="web")


class Requests:
    """The queue of requests to index; only sending is of interest here."""

    def __init__(self) -> None:
        self.bodies: list[str] = []

    def send(self, body: str, *, delay_seconds: int = 0) -> None:
        self.bodies.append(body)


class Managed:
    """A knowledge base over the copies in a folder."""

    def __init__(self, folder: Path, session: boto3.Session, double: KnowledgeBaseDouble, time: FakeTime) -> None:
        self.double = double
        self.time = time
        self.store = FolderObjectStore(folder)
        self.requests = Requests()
        self.copies = KnowledgeBaseCopies(self.store, self.requests, time.clock)  # type: ignore[arg-type]
        runtime = session.client("bedrock-agent-runtime", endpoint_url=double.endpoint, config=NO_RETRIES)
        agent = session.client("bedrock-agent", endpoint_url=double.endpoint, config=NO_RETRIES)
        self.engine = BedrockKnowledgeBase(runtime, KNOWLEDGE_BASE_ID)
        self.sync = KnowledgeBaseSync(agent, KNOWLEDGE_BASE_ID, DATA_SOURCE_ID)

    def index(self) -> None:
        """Run a job from begin to end."""
        self.time.sleep(JOB_SECONDS)
        assert self.sync.cover(self.time.clock())
        self.time.sleep(JOB_SECONDS)

    def put(self, *entries: IndexEntry) -> None:
        self.copies.apply(a_copy(entry) for entry in entries)
        self.index()

    def objects(self) -> list[str]:
        return [info.key for info in self.store.list()]


def key_of(entry: IndexEntry) -> DocumentKey:
    """The document key of an entry that `an_entry` made."""
    source = entry.indexed.source_uri.removeprefix("file:///corpus/")
    names = dict(part.split(":") for part in entry.indexed.scope_key.split("/") if ":" in part)
    key = DocumentKey(Scope(names.get("client", ""), names.get("group", ""), names.get("project", "")), source)
    assert key.id == entry.indexed.key_id
    return key


def a_copy(*entries: IndexEntry, superseded: tuple[str, ...] = ()) -> CopyChange:
    chunks = (entry.indexed for entry in entries)
    return CopyChange(key_of(entries[0]), entries[0].indexed.chunk.document_id, chunks, superseded)


@contextmanager
def a_managed_search(folder: Path, session: boto3.Session) -> Iterator[Managed]:
    time = FakeTime()
    with KnowledgeBaseDouble(FolderObjectStore(folder), time.clock, job_seconds=JOB_SECONDS) as double:
        yield Managed(folder, session, double, time)


@pytest.fixture
def managed(tmp_path: Path, aws_session: boto3.Session) -> Iterator[Managed]:
    with a_managed_search(tmp_path, aws_session) as made:
        yield made


class TestKnowledgeBaseSearch(SearchEngineContract):
    @pytest.fixture
    def engine(self, managed: Managed) -> BedrockKnowledgeBase:
        return managed.engine

    @pytest.fixture
    def put(self, managed: Managed) -> Put:
        return managed.put


class TestSearching:
    def test_answer_is_one_list_with_scores_between_zero_and_one(self, managed: Managed) -> None:
        managed.put(an_entry("disk full"), an_entry("pod down", source="pod.md"))
        response = search(managed.engine, "disk full")
        assert response.fused
        scores = [score for _, score in response.fused.hits]
        assert scores == sorted(scores, reverse=True)
        assert all(0 <= score <= 1 for score in scores)
        assert (response.lexical.hits, response.vector.hits, response.term_frequencies) == ((), (), {})

    def test_search_is_hybrid(self, managed: Managed) -> None:
        managed.put(an_entry("disk full"))
        search(managed.engine, "disk")
        (request,) = (request for request in managed.double.requests if request.path.endswith("/retrieve"))
        assert request.json()["retrievalConfiguration"]["vectorSearchConfiguration"]["overrideSearchType"] == "HYBRID"

    @pytest.mark.parametrize("text", [None, "", "   "])
    def test_search_without_words_sends_no_request(self, managed: Managed, text: str | None) -> None:
        response = managed.engine.search(SearchRequest(EVERYONE, text=text, vector=any_vector("q")))
        assert response.fused
        assert response.fused.hits == ()
        assert managed.double.requests == []

    def test_entries_with_terms_are_not_known(self, managed: Managed) -> None:
        managed.put(an_entry("disk full"))
        assert managed.engine.entries_with(["disk"], EVERYONE.scopes) == {}

    def test_search_without_scopes_sends_no_request(self, managed: Managed) -> None:
        assert found(managed.engine, "disk", SearchFilter(scopes=())) == []
        assert managed.double.requests == []

    def test_all_pages_of_an_answer_are_read(self, managed: Managed) -> None:
        managed.put(*(an_entry(f"disk {n}", source=f"{n}.md") for n in range(90)))
        assert len(found(managed.engine, "disk", depth=100)) == 90

    def test_no_more_results_are_requested_than_the_service_returns(self, managed: Managed) -> None:
        managed.put(an_entry("disk full"))
        assert found(managed.engine, "disk", depth=1000) == ids(an_entry("disk full"))

    def test_long_question_is_cut_with_a_note(self, managed: Managed) -> None:
        managed.put(an_entry("disk full"))
        assert search(managed.engine, "disk " * 200).notes == ()
        (note,) = search(managed.engine, "disk " * 201).notes
        assert "first 1,000 characters" in note

    def test_chunk_of_another_scope_is_never_given_whatever_the_service_does(
        self, managed: Managed, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        managed.put(an_entry("disk full", scope=Scope("other")))
        monkeypatch.setattr("tests.doubles.bedrock_knowledge_base.compiled", lambda _: lambda _: True)
        assert found(managed.engine, "disk") == []

    def test_object_that_is_no_chunk_is_left_out_with_a_note(
        self, managed: Managed, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        managed.store.put(f"{PREFIX}note.txt", b"disk full")
        managed.put(an_entry("disk full"))
        assert found(managed.engine, "disk") == ids(an_entry("disk full"))
        monkeypatch.setattr("tests.doubles.bedrock_knowledge_base.compiled", lambda _: lambda _: True)
        response = search(managed.engine, "disk")
        assert sorted(response.chunks) == ids(an_entry("disk full"))
        assert "1 results of the knowledge base were left out" in response.notes[0]

    @pytest.mark.parametrize(
        "failure",
        [
            THROTTLED,
            a_failure(404, "ResourceNotFoundException"),
            a_failure(400, "ValidationException"),
            a_failure(403, "AccessDeniedException"),
            a_failure(424, "DependencyFailedException"),
            a_failure(502, "BadGatewayException"),
            Response(hang_up=True),
        ],
    )
    def test_failure_of_the_service_is_an_index_that_is_unavailable(self, managed: Managed, failure: Response) -> None:
        managed.double.inject(failure, path="/retrieve")
        with pytest.raises(IndexUnavailableError, match=KNOWLEDGE_BASE_ID):
            search(managed.engine, "disk")


class TestCopies:
    def test_chunk_is_an_object_in_its_owners_folder_with_its_metadata_beside_it(self, managed: Managed) -> None:
        entry = an_entry("disk full", scope=ACME, tags=("linux",))
        managed.copies.apply([a_copy(entry)])
        folder = f"managed/clients/acme/projects/web/{entry.indexed.key_id}/{entry.indexed.chunk.document_id}/"
        assert managed.objects() == [f"{folder}000000.txt", f"{folder}000000.txt.metadata.json"]
        with managed.store.open(f"{folder}000000.txt") as stream:
            assert stream.read().decode() == "# Runbook\n## Steps\n\ndisk full"
        with managed.store.open(f"{folder}000000.txt.metadata.json") as stream:
            attributes = json.load(stream)["metadataAttributes"]
        assert attributes["scope"] == "client:acme/project:web"
        assert attributes["tags"] == ["linux"]

    def test_owner_follows_from_the_folder(self) -> None:
        folder = document_folder(DocumentKey(ACME, "documents/a.md"), "d")
        assert scope_of_object(folder.removeprefix(PREFIX))[0] == ACME

    def test_new_version_replaces_the_old_one(self, managed: Managed) -> None:
        old = [an_entry(f"old disk {n}", index=n, document_id="old") for n in range(3)]
        new = an_entry("new disk", document_id="new")
        managed.copies.apply([a_copy(*old)])
        managed.copies.apply([a_copy(new, superseded=("old",))])
        managed.index()
        assert found(managed.engine, "disk") == ids(new)
        assert len(managed.objects()) == 2

    def test_version_that_is_cut_into_fewer_chunks_leaves_none_behind(self, managed: Managed) -> None:
        managed.copies.apply([a_copy(*(an_entry(f"disk {n}", index=n, document_id="d") for n in range(3)))])
        managed.copies.apply([a_copy(an_entry("disk", document_id="d"))])
        assert len(managed.objects()) == 2

    def test_version_without_chunks_leaves_and_others_stay(self, managed: Managed) -> None:
        gone, stays = an_entry("gone disk", document_id="gone"), an_entry("disk", document_id="stays")
        managed.copies.apply([a_copy(gone), a_copy(stays)])
        managed.copies.apply([CopyChange(key_of(gone), "gone")])
        managed.index()
        assert found(managed.engine, "disk") == ids(stays)

    def test_removing_what_is_not_there_does_nothing(self, managed: Managed) -> None:
        managed.copies.apply([CopyChange(key_of(an_entry()), "", superseded=("never", "there"))])
        assert managed.objects() == []

    def test_large_document_is_copied_whole(self, managed: Managed) -> None:
        entries = (an_entry(f"disk {n}", index=n, document_id="large") for n in range(250))
        first = an_entry("disk 0", document_id="large")
        managed.copies.apply([CopyChange(key_of(first), "large", (entry.indexed for entry in entries))])
        assert len(managed.objects()) == 500

    def test_chunk_whose_metadata_are_too_large_is_left_out_and_logged(
        self, managed: Managed, caplog: pytest.LogCaptureFixture
    ) -> None:
        managed.copies.apply([a_copy(an_entry("disk", tags=[f"{n}" * 200 for n in range(60)]))])
        assert managed.objects() == []
        assert "metadata are too large" in caplog.text

    def test_indexing_of_written_copies_is_requested_once(self, managed: Managed) -> None:
        managed.copies.apply([a_copy(an_entry("one")), a_copy(an_entry("two", source="two.md"))])
        (body,) = managed.requests.bodies
        assert requested_since(body) == managed.time.clock()

    def test_nothing_is_requested_without_changes(self, managed: Managed) -> None:
        managed.copies.apply([])
        assert managed.requests.bodies == []

    def test_text_is_not_written_without_its_metadata(self, managed: Managed, monkeypatch: pytest.MonkeyPatch) -> None:
        put = managed.store.put

        def failing(key: str, data: Any, **more: Any) -> Any:
            if key.endswith(SIDECAR_SUFFIX):
                raise StoreUnavailableError("the bucket is away")
            return put(key, data, **more)

        monkeypatch.setattr(managed.store, "put", failing)
        with pytest.raises(StoreUnavailableError):
            managed.copies.apply([a_copy(an_entry("disk"))])
        assert managed.objects() == []
        assert managed.requests.bodies == []


class TestSync:
    def test_job_begins_when_none_has_since(self, managed: Managed) -> None:
        assert managed.sync.cover(managed.time.clock())
        assert managed.double.statuses == ["IN_PROGRESS"]

    def test_job_that_began_before_is_waited_for_and_then_followed_by_another(self, managed: Managed) -> None:
        assert managed.sync.cover(managed.time.clock())
        managed.time.sleep(30)
        written = managed.time.clock()
        assert not managed.sync.cover(written)
        managed.time.sleep(30)
        assert managed.sync.cover(written)
        assert managed.double.statuses == ["COMPLETE", "IN_PROGRESS"]

    def test_job_that_began_after_covers_all_earlier_requests(self, managed: Managed) -> None:
        written = managed.time.clock()
        managed.time.sleep(CLOCK_SKEW_SECONDS)
        for _ in range(3):
            assert managed.sync.cover(written)
        managed.time.sleep(JOB_SECONDS)
        assert managed.sync.cover(written)
        assert managed.double.statuses == ["COMPLETE"]

    @pytest.mark.parametrize("status", ["FAILED", "STOPPED"])
    def test_job_that_did_not_end_well_covers_nothing(self, managed: Managed, status: str) -> None:
        written = managed.time.clock()
        managed.time.sleep(CLOCK_SKEW_SECONDS)
        managed.sync.cover(written)
        managed.double.end_job(status)
        managed.time.sleep(60)
        assert managed.sync.cover(written)
        assert managed.double.statuses == [status, "IN_PROGRESS"]

    def test_job_of_someone_else_that_comes_between_is_waited_for(self, managed: Managed) -> None:
        managed.double.inject(Response(200, {"ingestionJobSummaries": []}), path="/ingestionjobs/")
        managed.double.inject(a_failure(409, "ConflictException"), path="/ingestionjobs/")
        assert not managed.sync.cover(managed.time.clock())

    @pytest.mark.parametrize("code", ["ThrottlingException", "ServiceQuotaExceededException"])
    def test_throttled_service_is_called_again_later(self, managed: Managed, code: str) -> None:
        managed.double.inject(Response(200, {"ingestionJobSummaries": []}), path="/ingestionjobs/")
        managed.double.inject(a_failure(429, code), path="/ingestionjobs/")
        assert not managed.sync.cover(managed.time.clock())

    def test_two_calls_within_ten_seconds_are_too_many(self, managed: Managed) -> None:
        managed.sync.cover(managed.time.clock())
        managed.double.end_job("STOPPED")
        assert not managed.sync.cover(managed.time.clock() + 1)

    @pytest.mark.parametrize("failure", [a_failure(404, "ResourceNotFoundException"), Response(500)])
    def test_service_that_fails_raises(self, managed: Managed, failure: Response) -> None:
        managed.double.inject(failure, path="/ingestionjobs/")
        with pytest.raises(StoreUnavailableError):
            managed.sync.cover(0.0)

    def test_number_of_documents_that_a_job_could_not_index_is_logged(
        self, managed: Managed, caplog: pytest.LogCaptureFixture
    ) -> None:
        managed.store.put(f"{PREFIX}picture.xyz", b"?")
        managed.index()
        managed.sync.cover(0.0)
        assert "1 copies (one per chunk) could not be indexed" in caplog.text


class TestRequests:
    def test_one_job_answers_all_requests_of_a_batch(self, managed: Managed) -> None:
        now = managed.time.clock()
        assert sync_batch([sync_request(now - 5), sync_request(now), sync_request(now - 9)], managed.sync)
        assert len(managed.double.statuses) == 1

    def test_requests_come_again_while_an_earlier_job_is_under_way(self, managed: Managed) -> None:
        managed.sync.cover(managed.time.clock())
        assert not sync_batch([sync_request(managed.time.clock())], managed.sync)

    def test_requests_come_again_while_the_service_is_away(self, managed: Managed) -> None:
        managed.double.inject(Response(503), path="/ingestionjobs/")
        assert not sync_batch([sync_request(0.0)], managed.sync)

    @pytest.mark.parametrize("body", ["", "{}", "[]", '{"since": "soon"}', "null"])
    def test_message_that_is_no_request_is_dropped(self, managed: Managed, body: str) -> None:
        assert sync_batch([body], managed.sync)
        assert managed.double.statuses == []


class TestDouble:
    """Requests that the double must refuse for the tests above to be meaningful."""

    @pytest.mark.parametrize(
        "where",
        [
            {},
            {"equals": {"key": "a", "value": "b"}, "in": {"key": "a", "value": ["b"]}},
            {"andAll": [{"equals": {"key": "a", "value": "b"}}]},
            {"orAll": [{"equals": {"key": "a", "value": "b"}}] * 6},
            {"andAll": [{"orAll": [{"andAll": [{"equals": {"key": "a", "value": "b"}}] * 2}] * 2}] * 2},
            {"in": {"key": "a", "value": "b"}},
            {"in": {"key": "a", "value": []}},
            {"listContains": {"key": "a", "value": ["b"]}},
            {"equals": {"key": "", "value": "b"}},
        ],
    )
    def test_wrong_filter_is_refused(self, managed: Managed, where: dict[str, Any]) -> None:
        assert retrieve(managed, {"vectorSearchConfiguration": {"filter": where}}) == 400

    @pytest.mark.parametrize(
        "search", [{"numberOfResults": 101}, {"numberOfResults": 0}, {"overrideSearchType": "LEXICAL"}, {"top": 5}]
    )
    def test_wrong_search_is_refused(self, managed: Managed, search: dict[str, Any]) -> None:
        assert retrieve(managed, {"vectorSearchConfiguration": search}) == 400

    def test_question_over_the_quota_is_refused(self, managed: Managed) -> None:
        assert retrieve(managed, {"vectorSearchConfiguration": {}}, text="x" * 1001) == 400

    def test_other_knowledge_base_is_not_found(self, managed: Managed) -> None:
        assert retrieve(managed, {"vectorSearchConfiguration": {}}, base="KB00000000") == 404

    def test_job_during_a_job_is_a_conflict(self, managed: Managed) -> None:
        managed.sync.cover(managed.time.clock())
        managed.time.sleep(10)
        with pytest.raises(managed.sync._client.exceptions.ConflictException):
            managed.sync._client.start_ingestion_job(**managed.sync._ids)


def retrieve(managed: Managed, configuration: dict[str, Any], text: str = "disk", base: str = KNOWLEDGE_BASE_ID) -> int:
    """The status of an answer to a request that no client has checked."""
    body = {"retrievalQuery": {"text": text}, "retrievalConfiguration": configuration}
    signed = "AWS4-HMAC-SHA256 Credential=A/20260101/eu-west-1/bedrock/aws4_request, SignedHeaders=host, Signature="
    request = urllib.request.Request(
        f"{managed.double.endpoint}/knowledgebases/{base}/retrieve",
        json.dumps(body).encode(),
        {"Authorization": signed + "0" * 64},
        method="POST",
    )
    try:
        with urllib.request.urlopen(request, timeout=5) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code
