"""The OpenSearch adapter against a double of the service, both generations."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import boto3
import pytest
from opensearchpy import NotFoundError, OpenSearch, RequestError, Urllib3AWSV4SignerAuth

from opx.adapters.embedded.object_store import FolderObjectStore
from opx.domain.scopes import Scope
from opx.errors import IncompatibleIndexError, IndexUnavailableError, InvalidInputError
from opx.ingestion.indexing.book import Edition
from opx.ports import DocumentChange, Embedder, IndexEntry, SearchFilter, SearchIndex, SearchRequest
from opx.retrieval.judging_records import ChunkRecords
from opx.settings import Settings
from opx.system import bootstrap
from opx.text.fields import LEXICAL_FIELDS
from opx_aws.opensearch import OpenSearchIndex, check_index, ensure_index, serverless_client
from opx_aws.opensearch_bulk import BulkLimits
from opx_aws.opensearch_schema import RECORD_FIELD, SOURCE_FIELDS, VECTOR_FIELD, index_body, to_source
from opx_testing.entries import EVERYONE, a_change, a_removal, a_unit_vector, an_entry, any_vector
from opx_testing.fake_time import FakeTime
from opx_testing.search_index import SearchIndexContract
from opx_testing.searches import fill, ids_of, lexical, lexical_ids, nearness_of_mean, vector_ids
from tests.doubles.http_double import Response
from tests.doubles.opensearch import OpenSearchDouble
from tests.doubles.opensearch_search import BM25_FACTOR
from tests.support.fakes import WordsEmbedder
from tests.support.opensearch_support import CREDENTIALS, INDEX, MODEL, THREE_TRIES, Collection, a_client, a_collection


class TestOpenSearchIndex(SearchIndexContract):
    bm25_factor = BM25_FACTOR
    nearness = staticmethod(nearness_of_mean)

    @pytest.fixture
    def index(self, collection: Collection) -> SearchIndex:
        return collection.index


@pytest.fixture(params=["nextgen", "classic"])
def collection(request: pytest.FixtureRequest) -> Iterator[Collection]:
    with a_collection(request.param) as made:
        yield made


@pytest.fixture
def nextgen() -> Iterator[Collection]:
    with a_collection("nextgen") as made:
        yield made


@pytest.fixture
def classic() -> Iterator[Collection]:
    with a_collection("classic") as made:
        yield made


def some_entries(count: int, source: str = "a.md") -> list[IndexEntry]:
    return [an_entry(f"disk part{n}", index=n, document_id="d", source=source) for n in range(count)]


class TestWriting:
    def test_nextgen_collection_stores_entries_under_their_own_id(self, nextgen: Collection) -> None:
        entry = an_entry()
        assert fill(nextgen.index, entry) == [ids_of(entry)]
        assert nextgen.index.references(entry.indexed.key_id) == ids_of(entry)

    def test_classic_collection_assigns_ids_that_remove_the_entry_later(self, classic: Collection) -> None:
        entry = an_entry("disk")
        ((reference,),) = fill(classic.index, entry)
        assert reference != entry.indexed.entry_id
        classic.index.apply([a_removal(entry, [reference])])
        assert classic.index.count(EVERYONE) == 0

    @pytest.mark.parametrize("status", [402, 429, 503])
    def test_only_failed_items_are_sent_again(self, collection: Collection, status: int) -> None:
        collection.double.fail_items(status, times=2)
        entries = some_entries(5)
        (references,) = collection.index.apply([a_change(*entries)])
        assert [len(actions) for actions in collection.bulk_actions()] == [5, 2]
        assert sorted(lexical_ids(collection.index, "disk")) == sorted(ids_of(*entries))
        assert sorted(references) == sorted(collection.index.references(entries[0].indexed.key_id))

    def test_references_are_in_the_order_of_the_entries_after_a_retry(self, classic: Collection) -> None:
        classic.double.fail_items(429, times=1)
        first, second = some_entries(2)
        ((first_reference, _),) = classic.index.apply([a_change(first, second)])
        classic.index.apply([a_removal(first, [first_reference])])
        assert lexical_ids(classic.index, "disk") == ids_of(second)

    def test_pauses_between_tries_grow(self, nextgen: Collection) -> None:
        nextgen.double.fail_items(429, times=2)
        fill(nextgen.index, an_entry())
        assert nextgen.pauses == [1.0, 2.0]

    def test_writes_that_keep_failing_raise_how_many_and_why(self, nextgen: Collection) -> None:
        nextgen.double.fail_items(402, times=12, reason="Maximum OCU capacity reached")
        with pytest.raises(IndexUnavailableError, match=r"2 of 5 writes.*402.*Maximum OCU capacity reached"):
            nextgen.index.apply([a_change(*some_entries(5))])
        assert len(nextgen.bulk_actions()) == THREE_TRIES.attempts

    def test_removal_from_an_index_that_is_not_there_raises(self, nextgen: Collection) -> None:
        missing = OpenSearchIndex(nextgen.client, "missing")
        entry = an_entry()
        with pytest.raises(IndexUnavailableError, match=r"refused 1 of 1 writes: 404 .*no such index"):
            missing.apply([a_removal(entry, ids_of(entry))])

    def test_refused_entry_is_not_tried_again(self, nextgen: Collection) -> None:
        wrong = IndexEntry(an_entry().indexed, [[1.0, 0.0]])
        with pytest.raises(IndexUnavailableError, match=r"refused 1 of 2 writes.*dimension mismatch"):
            fill(nextgen.index, wrong, an_entry(source="other.md"))
        assert len(nextgen.bulk_actions()) == 1

    @pytest.mark.parametrize(
        "problem", [Response(503), Response(429), Response(402), Response(hang_up=True)], ids=lambda r: str(r.status)
    )
    def test_request_that_fails_as_a_whole_is_sent_again(self, collection: Collection, problem: Response) -> None:
        collection.double.inject(problem, times=2, path="_bulk")
        entry = an_entry("disk")
        fill(collection.index, entry)
        assert lexical_ids(collection.index, "disk") == ids_of(entry)
        assert collection.index.count(EVERYONE) == 1

    def test_request_that_keeps_failing_raises(self, nextgen: Collection) -> None:
        nextgen.double.inject(Response(503), times=3, path="_bulk")
        with pytest.raises(IndexUnavailableError, match="1 of 1 writes"):
            fill(nextgen.index, an_entry())

    @pytest.mark.parametrize("status", [400, 403, 413])
    def test_request_that_is_refused_as_a_whole_is_not_sent_again(self, nextgen: Collection, status: int) -> None:
        nextgen.double.inject(Response(status), path="_bulk")
        with pytest.raises(IndexUnavailableError, match=str(status)):
            fill(nextgen.index, an_entry())
        assert nextgen.pauses == []

    def test_slow_write_is_sent_again(self, nextgen: Collection) -> None:
        nextgen.double.inject(Response(200, delay=2.0), path="_bulk")
        index = nextgen.with_limits(BulkLimits(timeout=0.1))
        fill(index, an_entry("disk"))
        assert index.count(EVERYONE) == 1

    def test_entry_stored_twice_after_a_lost_answer_is_found_once(self, classic: Collection) -> None:
        classic.double.lose_answers(path="_bulk")
        entry = an_entry("disk")
        fill(classic.index, entry)
        assert len(classic.index.references(entry.indexed.key_id)) == 2
        assert lexical_ids(classic.index, "disk") == ids_of(entry)
        assert vector_ids(classic.index, any_vector("q")) == ids_of(entry)

    def test_lost_answer_stores_nothing_twice_where_ids_are_derived(self, nextgen: Collection) -> None:
        nextgen.double.lose_answers(path="_bulk")
        fill(nextgen.index, an_entry("disk"))
        assert nextgen.index.count(EVERYONE) == 1

    def test_removals_follow_in_a_request_after_the_new_entries(self, collection: Collection) -> None:
        (superseded,) = collection.index.apply([a_change(*some_entries(3))])
        collection.index.apply([a_change(an_entry("new"), superseded=superseded)])
        assert collection.bulk_actions()[1:] == [["index"], ["delete"] * 3]

    def test_old_entries_stay_when_the_new_ones_cannot_be_stored(self, collection: Collection) -> None:
        old = an_entry("disk old")
        (superseded,) = fill(collection.index, old)
        collection.double.fail_items(429, times=99, operation="index")
        with pytest.raises(IndexUnavailableError):
            collection.index.apply([a_change(an_entry("disk new"), superseded=superseded)])
        assert lexical_ids(collection.index, "disk") == ids_of(old)

    def test_failed_change_can_be_applied_again(self, nextgen: Collection) -> None:
        old, new = an_entry("disk old"), some_entries(3)
        (superseded,) = fill(nextgen.index, old)
        change = a_change(*new, superseded=superseded)
        nextgen.double.fail_items(429, times=3, operation="delete")
        with pytest.raises(IndexUnavailableError):
            nextgen.index.apply([change])
        nextgen.index.apply([change])
        assert sorted(lexical_ids(nextgen.index, "disk")) == sorted(ids_of(*new))

    def test_many_removals_are_split_over_requests(self, collection: Collection) -> None:
        index = collection.with_limits(BulkLimits(actions=4))
        (superseded,) = index.apply([a_change(*some_entries(10))])
        index.apply([a_removal(some_entries(1)[0], superseded)])
        assert index.count(EVERYONE) == 0
        assert max(len(actions) for actions in collection.bulk_actions()) == 4

    def test_several_changes_share_a_request(self, nextgen: Collection) -> None:
        fill(nextgen.index, *(an_entry(source=f"{n}.md") for n in range(7)))
        assert [len(actions) for actions in nextgen.bulk_actions()] == [7]

    def test_large_change_is_split_by_bytes(self, nextgen: Collection) -> None:
        index = nextgen.with_limits(BulkLimits(bytes=10_000))
        index.apply([a_change(*some_entries(100))])
        sizes = [len(request.body) for request in nextgen.double.requests_to("_bulk")]
        assert len(sizes) > 5
        assert max(sizes) <= 10_000
        assert index.count(EVERYONE) == 100

    def test_entries_are_sent_while_the_generator_runs(self, nextgen: Collection) -> None:
        requests_seen: list[int] = []

        def entries() -> Iterator[IndexEntry]:
            for entry in some_entries(40):
                requests_seen.append(len(nextgen.bulk_actions()))
                yield entry

        index = nextgen.with_limits(BulkLimits(actions=10))
        index.apply([DocumentChange("key", "d", entries())])
        assert requests_seen == [0] * 11 + [1] * 10 + [2] * 10 + [3] * 9

    def test_writes_become_visible_later_and_are_replaced_all_the_same(self) -> None:
        with a_collection("classic", visible_after=None) as late:
            old, new = an_entry("disk old"), an_entry("disk new")
            (superseded,) = fill(late.index, old)
            assert lexical_ids(late.index, "disk") == []
            assert late.index.references(old.indexed.key_id) == []
            late.index.apply([a_change(new, superseded=superseded)])
            late.double.refresh()
            assert lexical_ids(late.index, "disk") == ids_of(new)

    def test_entry_with_an_unpaired_surrogate_is_stored(self, collection: Collection) -> None:
        fill(collection.index, an_entry("disk \ud800 full"))
        (found,) = lexical(collection.index, "disk").chunks.values()
        assert found.chunk.content == "disk ? full"

    def test_unknown_generation_is_refused(self, nextgen: Collection) -> None:
        with pytest.raises(InvalidInputError, match="nextgen"):
            OpenSearchIndex(nextgen.client, INDEX, generation="third")


class TestSearching:
    def test_both_legs_take_one_request(self, collection: Collection) -> None:
        fill(collection.index, an_entry("disk"))
        before = len(collection.double.requests)
        collection.index.search(SearchRequest(EVERYONE, text="disk", vector=any_vector("q")))
        assert [request.path for request in collection.double.requests[before:]] == [f"/{INDEX}/_msearch"]

    def test_hits_bring_back_neither_vectors_nor_terms(self, collection: Collection) -> None:
        fill(collection.index, an_entry("disk"))
        collection.index.search(SearchRequest(EVERYONE, text="disk", vector=any_vector("q")))
        answer = collection.double.responses[-1].body
        assert isinstance(answer, dict)
        sources = [hit["_source"] for response in answer["responses"] for hit in response["hits"]["hits"]]
        assert [set(source) for source in sources] == [set(SOURCE_FIELDS)] * 2
        assert not {"vector", *LEXICAL_FIELDS} & set(SOURCE_FIELDS)

    def test_failed_vector_leg_leaves_the_lexical_hits(self, collection: Collection) -> None:
        entry = an_entry("disk")
        fill(collection.index, entry)
        error = {"error": {"type": "circuit_breaking_exception", "reason": "too much memory"}, "status": 429}
        collection.double.fail_leg("knn", error)
        response = collection.index.search(SearchRequest(EVERYONE, text="disk", vector=any_vector("q")))
        assert [entry_id for entry_id, _ in response.lexical.hits] == ids_of(entry)
        assert response.vector.hits == ()
        assert response.vector.error == "429 circuit_breaking_exception: too much memory"
        assert response.chunks.keys() == {entry.indexed.entry_id}

    def test_failed_lexical_leg_leaves_the_vector_hits(self, collection: Collection) -> None:
        entry = an_entry("disk")
        fill(collection.index, entry)
        collection.double.fail_leg("bool", {"error": "internal", "status": 500})  # statistics
        collection.double.fail_leg("bool", {"error": "internal", "status": 500})  # lexical
        response = collection.index.search(SearchRequest(EVERYONE, text="disk", vector=any_vector("q")))
        assert response.lexical.error == "500 internal"
        assert response.lexical.hits == ()
        assert response.vector.error == ""
        assert [entry_id for entry_id, _ in response.vector.hits] == ids_of(entry)
        assert (response.entry_count, response.term_frequencies) == (0, {})

    @pytest.mark.parametrize(
        ("answer", "message"),
        [
            ({"_shards": {"total": 2, "failed": 1}, "hits": {"hits": []}}, "1 shards failed"),
            ({"timed_out": True, "hits": {"hits": []}}, "timed out"),
        ],
    )
    def test_leg_that_may_lack_hits_has_an_error(
        self, nextgen: Collection, answer: dict[str, object], message: str
    ) -> None:
        nextgen.double.fail_leg("knn", answer)
        response = nextgen.index.search(SearchRequest(EVERYONE, text="disk", vector=any_vector("q")))
        assert message in response.vector.error

    def test_search_raises_when_every_leg_fails(self, nextgen: Collection) -> None:
        nextgen.double.fail_leg("knn", {"error": {"type": "x", "reason": "why"}, "status": 500})
        with pytest.raises(IndexUnavailableError, match="500 x: why"):
            nextgen.index.search(SearchRequest(EVERYONE, vector=any_vector("q")))

    @pytest.mark.parametrize("problem", [Response(503), Response(403), Response(hang_up=True)])
    def test_search_that_fails_as_a_whole_raises_without_another_try(
        self, nextgen: Collection, problem: Response
    ) -> None:
        nextgen.double.inject(problem, path="_msearch")
        with pytest.raises(IndexUnavailableError, match=f"searching index {INDEX}"):
            lexical(nextgen.index, "disk")
        assert len(nextgen.double.requests_to("_msearch")) == 1

    def test_slow_search_raises_in_time(self, nextgen: Collection) -> None:
        nextgen.double.inject(Response(200, {}, delay=2.0), path="_msearch")
        with pytest.raises(IndexUnavailableError, match="timed out"):
            lexical(nextgen.with_limits(timeout=0.1), "disk")

    def test_searching_an_index_that_is_not_there_raises(self, nextgen: Collection) -> None:
        missing = OpenSearchIndex(nextgen.client, "missing")
        for ask in (lambda: lexical(missing, "disk"), lambda: missing.count(EVERYONE), lambda: missing.references("k")):
            with pytest.raises(IndexUnavailableError, match="no such index"):
                ask()

    def test_statistics_count_only_what_the_reader_may_see(self, collection: Collection) -> None:
        mine, theirs = Scope("acme"), Scope("other")
        fill(
            collection.index,
            an_entry("disk", scope=mine, source="1.md"),
            an_entry("disk secret", scope=theirs, source="2.md"),
            an_entry("disk secret", scope=theirs, source="3.md"),
        )
        response = lexical(collection.index, "disk secret", SearchFilter(scopes=(mine.key,)))
        assert response.term_frequencies == {"disk": 1, "secret": 0}
        assert response.entry_count == 1

    def test_filter_without_scopes_finds_nothing(self, collection: Collection) -> None:
        fill(collection.index, an_entry("disk"))
        nobody = SearchFilter(scopes=())
        assert lexical_ids(collection.index, "disk", nobody) == []
        assert vector_ids(collection.index, any_vector("q"), nobody) == []
        assert collection.index.count(nobody) == 0

    def test_term_longer_than_the_service_keeps_whole_is_found(self, collection: Collection) -> None:
        entry = an_entry("x" * 700 + " disk")
        fill(collection.index, entry)
        assert lexical_ids(collection.index, "x" * 700) == ids_of(entry)

    def test_vector_of_python_or_numpy_numbers_is_sent(self, nextgen: Collection) -> None:
        numpy = pytest.importorskip("numpy")
        entry = an_entry(vector=numpy.array(a_unit_vector(1, 1), dtype="float32"))
        fill(nextgen.index, entry)
        assert vector_ids(nextgen.index, numpy.array(a_unit_vector(1, 1), dtype="float32")) == ids_of(entry)

    def test_fields_have_the_weights_of_the_library(self, nextgen: Collection, monkeypatch: pytest.MonkeyPatch) -> None:
        entry, other = an_entry("pod", title="disk"), an_entry("disk " * 4, title="pod", source="other.md")
        fill(nextgen.index, entry, other)
        for field, first in (("terms_title", entry), ("terms_content", other)):
            with monkeypatch.context() as patch:
                patch.setitem(LEXICAL_FIELDS, field, 50.0)
                assert lexical_ids(nextgen.index, "disk")[0] == first.indexed.entry_id


@contextmanager
def an_earlier_index(embedder: Embedder) -> Iterator[Collection]:
    """A collection with an index of an earlier release, which has no field for judging records."""
    body = index_body(embedder.model_id, embedder.dimension)
    del body["mappings"]["properties"][RECORD_FIELD]
    with OpenSearchDouble() as double, a_client(double) as client:
        client.indices.create(index=INDEX, body=body)
        yield Collection(double, client, "nextgen")


class TestJudgingRecords:
    def test_all_hits_bring_them(self, collection: Collection) -> None:
        entries = some_entries(3)
        fill(collection.index, *entries)
        response = collection.index.search(SearchRequest(EVERYONE, text="part1", vector=any_vector("q")))
        assert response.records.keys() == response.chunks.keys() == set(ids_of(*entries))

    @pytest.mark.parametrize("damaged", ["", "A", "AAAA", "ä", None])
    def test_record_that_is_missing_or_damaged_is_made_from_the_chunk(
        self, nextgen: Collection, damaged: str | None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        entry = an_entry("disk full on db-01")
        with monkeypatch.context() as patch:
            stored = {**to_source(entry), RECORD_FIELD: damaged}
            patch.setattr("opx_aws.opensearch_bulk.to_source", lambda _: stored)
            fill(nextgen.index, entry)
        found = ChunkRecords(lexical(nextgen.index, "disk"))
        assert found[entry.indexed.entry_id].identifiers == ["db-01"]

    def test_index_of_an_earlier_release_stores_them_from_the_first_write_on(self) -> None:
        embedder = WordsEmbedder()
        entry = an_entry("disk", vector=embedder.embed_query("disk"))
        with an_earlier_index(embedder) as earlier:
            index = OpenSearchIndex(earlier.client, INDEX, vectors_of=embedder)
            fill(index, entry)
            assert lexical(index, "disk").records.keys() == set(ids_of(entry))

    def test_entries_are_stored_without_them_where_the_field_may_not_be_added(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        embedder = WordsEmbedder()
        entry = an_entry("disk", vector=embedder.embed_query("disk"))
        with an_earlier_index(embedder) as earlier:
            earlier.double.inject(Response(403), method="PUT", path="_mapping")
            index = OpenSearchIndex(earlier.client, INDEX, vectors_of=embedder)
            for _ in range(2):
                fill(index, entry)
            response = lexical(index, "disk")
        assert (dict(response.chunks), dict(response.records)) == ({entry.indexed.entry_id: entry.indexed}, {})
        assert "aoss:UpdateIndex" in caplog.text

    def test_deployment_adds_the_field_to_an_index_of_an_earlier_release(self) -> None:
        embedder = WordsEmbedder()
        with an_earlier_index(embedder) as earlier:
            about: dict[str, Any] = {"model_id": embedder.model_id, "dimension": embedder.dimension}
            assert not ensure_index(earlier.client, INDEX, **about)
            assert RECORD_FIELD in check_index(earlier.client, INDEX, **about)


class TestSigning:
    def test_every_request_is_signed_for_serverless_with_the_hash_of_its_body(self, nextgen: Collection) -> None:
        fill(nextgen.index, an_entry("Gerät"))
        nextgen.index.search(SearchRequest(EVERYONE, text="gerät", vector=any_vector("q")))
        nextgen.index.count(EVERYONE)
        assert all("/eu-west-1/aoss/aws4_request" in r.headers["authorization"] for r in nextgen.double.requests)
        assert all("x-amz-content-sha256" in r.headers for r in nextgen.double.requests)

    def test_client_takes_credentials_and_region_from_the_session(self, nextgen: Collection) -> None:
        session = boto3.Session("AKIDSESSION", "secret", "token", region_name="us-west-2")
        client = serverless_client(nextgen.double.endpoint, session=session)
        OpenSearchIndex(client, INDEX).count(EVERYONE)
        client.close()
        headers = nextgen.double.requests[-1].headers
        assert re.search(r"Credential=AKIDSESSION/\d+/us-west-2/aoss/", headers["authorization"])
        assert headers["x-amz-security-token"] == "token"

    def test_client_without_a_region_is_refused(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.delenv("AWS_DEFAULT_REGION", raising=False)
        monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
        with pytest.raises(IndexUnavailableError, match="region"):
            serverless_client("https://localhost", session=boto3.Session("AKID", "secret"))

    @pytest.mark.parametrize("auth", [None, Urllib3AWSV4SignerAuth(CREDENTIALS, "eu-west-1", "es")])
    def test_double_refuses_requests_that_are_not(
        self, nextgen: Collection, auth: Urllib3AWSV4SignerAuth | None
    ) -> None:
        client = OpenSearch(hosts=[nextgen.double.endpoint], http_auth=auth, max_retries=0)
        with pytest.raises(IndexUnavailableError, match="403"):
            OpenSearchIndex(client, INDEX).count(EVERYONE)
        client.close()


class TestDouble:
    """Requests that the double must refuse for the tests above to be meaningful."""

    def test_operations_that_serverless_lacks_are_not_found(self, collection: Collection) -> None:
        client = collection.client
        for call in (
            lambda: client.indices.refresh(index=INDEX),
            lambda: client.delete_by_query(index=INDEX, body={"query": {"match_all": {}}}),
            lambda: client.update_by_query(index=INDEX),
            lambda: client.reindex(body={}),
            client.cluster.health,
            client.info,
        ):
            with pytest.raises(NotFoundError):
                call()

    def test_refresh_parameter_is_refused(self, collection: Collection) -> None:
        with pytest.raises(RequestError, match="true refresh policy is not supported"):
            collection.client.bulk(body='{"index":{}}\n{}\n', index=INDEX, refresh="true")

    def test_classic_collection_refuses_own_ids(self, classic: Collection) -> None:
        answer = classic.client.bulk(body='{"index":{"_id":"x"}}\n{}\n', index=INDEX)
        assert answer["items"][0]["index"]["error"]["reason"].startswith("Document ID is not supported")

    def test_nextgen_collection_refuses_an_engine(self) -> None:
        body = index_body(MODEL, 8)
        body["mappings"]["properties"]["vector"]["method"] = {"name": "hnsw", "engine": "faiss"}
        refusal = pytest.raises(RequestError, match="'engine' is not supported")
        with OpenSearchDouble() as double, a_client(double) as client, refusal:
            client.indices.create(index=INDEX, body=body)

    @pytest.mark.parametrize(
        "body",
        [
            {"query": {"match_al": {}}},
            {"query": {"term": {"nowhere": "x"}}},
            {"query": {"term": {"content": "stored only"}}},
            {"query": {"bool": {"must_nt": []}}},
            {"query": {"bool": {}}, "sise": 1},
            {"query": {"bool": {"should": [{"term": {"terms_title": str(n)}} for n in range(1025)]}}},
        ],
    )
    def test_wrong_query_is_refused(self, collection: Collection, body: dict[str, object]) -> None:
        with pytest.raises(RequestError):
            collection.client.search(index=INDEX, body=body)


def with_fields(body: dict[str, Any], changes: Mapping[str, Mapping[str, object] | None]) -> dict[str, Any]:
    """The body with other parameters of some fields; None leaves out a parameter, or the field."""
    del body["mappings"]["_meta"]
    fields = body["mappings"]["properties"]
    for name, change in changes.items():
        changed = {**fields.pop(name), **(change or {})}
        if change is not None:
            fields[name] = {parameter: value for parameter, value in changed.items() if value is not None}
    return body


class TestIndexCreation:
    def test_index_is_created_once(self) -> None:
        with OpenSearchDouble() as double, a_client(double) as client:
            assert ensure_index(client, INDEX, model_id=MODEL, dimension=8)
            assert not ensure_index(client, INDEX, model_id=MODEL, dimension=8)

    def test_new_index_is_waited_for(self) -> None:
        time = FakeTime()
        with OpenSearchDouble(index_after=15.0, clock=time.clock) as double, a_client(double) as client:
            assert ensure_index(client, INDEX, model_id=MODEL, dimension=8, sleep=time.sleep, clock=time.clock)
            assert time.elapsed == 15.0

    def test_index_that_does_not_appear_raises(self) -> None:
        time = FakeTime()
        raises = pytest.raises(IndexUnavailableError, match="did not appear within 60 s")
        with OpenSearchDouble(index_after=900.0, clock=time.clock) as double, a_client(double) as client, raises:
            ensure_index(client, INDEX, model_id=MODEL, dimension=8, sleep=time.sleep, clock=time.clock)

    def test_index_that_someone_else_just_created_is_taken(self) -> None:
        time = FakeTime()
        with OpenSearchDouble(index_after=5.0, clock=time.clock) as double, a_client(double) as client:
            client.indices.create(index=INDEX, body=index_body(MODEL, 8))
            assert not ensure_index(client, INDEX, model_id=MODEL, dimension=8, sleep=time.sleep, clock=time.clock)

    @pytest.mark.parametrize(
        ("model_id", "dimension", "message"),
        [("other/8", 8, "model_id 'test-model/8', not 'other/8'"), (MODEL, 16, "dimension 8, not 16")],
    )
    def test_index_for_other_vectors_is_refused(
        self, nextgen: Collection, model_id: str, dimension: int, message: str
    ) -> None:
        with pytest.raises(IncompatibleIndexError, match=message):
            ensure_index(nextgen.client, INDEX, model_id=model_id, dimension=dimension)

    def test_index_that_was_made_by_hand_is_taken_with_a_warning_if_its_fields_fit(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        body = index_body(MODEL, 8)
        del body["mappings"]["_meta"]
        with OpenSearchDouble() as double, a_client(double) as client:
            client.indices.create(index=INDEX, body=body)
            assert not ensure_index(client, INDEX, model_id=MODEL, dimension=8)
        assert "doesn't record the model" in caplog.text

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({VECTOR_FIELD: {"dimension": 16}}, "field vector of dimension 16, not 8"),
            ({VECTOR_FIELD: {"space_type": "l2"}}, "field vector of space_type 'l2', not 'innerproduct'"),
            ({"terms_title": {"type": "keyword", "analyzer": None}}, "field terms_title of type 'keyword', not 'text'"),
            ({"entry_id": {"type": "text"}}, "field entry_id of type 'text', not 'keyword'"),
            ({"trust": None}, "no field trust"),
        ],
    )
    def test_index_with_other_fields_is_refused(
        self, change: dict[str, dict[str, object] | None], message: str
    ) -> None:
        with OpenSearchDouble() as double, a_client(double) as client:
            client.indices.create(index=INDEX, body=with_fields(index_body(MODEL, 8), change))
            with pytest.raises(IncompatibleIndexError, match=f"{message}.*OPX_SEARCH_INDEX.*`opx rebuild`"):
                ensure_index(client, INDEX, model_id=MODEL, dimension=8)

    def test_first_write_is_refused_if_the_index_is_for_other_vectors(self, nextgen: Collection) -> None:
        index = OpenSearchIndex(nextgen.client, INDEX, vectors_of=WordsEmbedder())
        for _ in range(2):
            with pytest.raises(IncompatibleIndexError, match="model_id 'test-model/8', not 'words/64'"):
                fill(index, an_entry())
        assert nextgen.double.requests_to("_bulk") == []

    def test_fitting_index_is_looked_at_before_the_first_write_only(self) -> None:
        embedder = WordsEmbedder()
        with OpenSearchDouble() as double, a_client(double) as client:
            ensure_index(client, INDEX, model_id=embedder.model_id, dimension=embedder.dimension)
            double.requests.clear()
            index = OpenSearchIndex(client, INDEX, vectors_of=embedder)
            for _ in range(2):
                fill(index, an_entry(vector=embedder.embed_query("disk")))
            assert len(double.requests_to("_mapping")) == 1

    def test_system_refuses_to_write_to_an_index_for_other_vectors(
        self, nextgen: Collection, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name, value in (("ACCESS_KEY_ID", "AKID"), ("SECRET_ACCESS_KEY", "x"), ("DEFAULT_REGION", "eu-west-1")):
            monkeypatch.setenv(f"AWS_{name}", value)
        settings = Settings(backend="aws", search_endpoint=nextgen.double.endpoint, search_index=INDEX)
        with bootstrap(settings, embedder=WordsEmbedder()) as services:
            index = services.indexing.edition_index(Edition())
            with pytest.raises(IncompatibleIndexError):
                fill(index, an_entry())
            index._client.close()  # type: ignore[attr-defined]

    def test_documents_are_not_taken_for_unchanged_in_an_index_of_another_name(self, tmp_path: Path) -> None:
        store = FolderObjectStore(tmp_path)
        info = store.put("documents/a.md", b"# A\n\ntext\n")
        parts: dict[str, Any] = {"store": store, "embedder": WordsEmbedder(), "aws": lambda service, **_: None}
        with OpenSearchDouble() as double, a_client(double) as client:
            systems = [
                bootstrap(Settings(backend="aws", search_index=name), index=OpenSearchIndex(client, name), **parts)
                for name in ("first", "first", "second")
            ]
            first, again, second = (system.ingestion.pipeline.fingerprint(info, None) for system in systems)
        assert first == again != second

    def test_refused_creation_raises(self) -> None:
        with OpenSearchDouble() as double, a_client(double) as client:
            with pytest.raises(IndexUnavailableError, match="creating index"):
                ensure_index(client, INDEX, model_id=MODEL, dimension=0)
            double.inject(Response(403))
            with pytest.raises(IndexUnavailableError, match="reading the mapping"):
                ensure_index(client, INDEX, model_id=MODEL, dimension=8)

    def test_searched_fields_are_those_of_the_library(self) -> None:
        properties = index_body(MODEL, 8)["mappings"]["properties"]
        analysed = {name for name, field in properties.items() if field.get("analyzer") == "whitespace"}
        assert analysed == set(LEXICAL_FIELDS)
