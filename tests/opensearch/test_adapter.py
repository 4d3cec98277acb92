"""The OpenSearch adapter against a real node: refusals and their messages, and agreement of the double with the node."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from botocore.credentials import Credentials
from opensearchpy import OpenSearch, TransportError

from opx.domain.record import replace
from opx.domain.scopes import Scope
from opx.errors import IncompatibleIndexError, IndexUnavailableError
from opx.ports import IndexEntry, SearchFilter, SearchIndex, SearchRequest
from opx_aws.opensearch import OpenSearchIndex, ensure_index, opensearch_client
from opx_aws.opensearch_queries import MAX_CLAUSES, MAX_QUERY_TERMS
from opx_aws.opensearch_schema import RECORD_FIELD, STORED_TEXT
from opx_testing.entries import EVERYONE, VECTOR_DIMENSION, a_removal, a_unit_vector, an_entry, any_vector
from opx_testing.searches import (
    SCORE_TOLERANCE,
    an_operations_corpus,
    fill,
    ids_of,
    lexical,
    lexical_ids,
    vector_ids,
)
from tests.doubles.opensearch import OpenSearchDouble
from tests.opensearch.indices import RefreshedIndex, create_node_index, node_index_body
from tests.support.fakes import WordsEmbedder

MODEL = "test-model/8"
pytestmark = pytest.mark.opensearch


@pytest.fixture
def index_name(client: OpenSearch, names: Callable[[], str]) -> Iterator[str]:
    name = names()
    create_node_index(client, name, model_id=MODEL, dimension=VECTOR_DIMENSION)
    yield name
    client.indices.delete(index=name)


@pytest.fixture
def index(client: OpenSearch, index_name: str) -> RefreshedIndex:
    return RefreshedIndex(client, index_name)


@pytest.fixture
def double(index_name: str) -> Iterator[OpenSearch]:
    """A client of the double, which has an index of the same name."""
    with OpenSearchDouble() as service:
        client = opensearch_client(service.endpoint, Credentials("AKID", "secret"), "eu-west-1")
        ensure_index(client, index_name, model_id=MODEL, dimension=VECTOR_DIMENSION)
        yield client
        client.close()


class TestWriting:
    def test_refused_entry_is_reported_with_the_reason(self, index: SearchIndex) -> None:
        wrong = IndexEntry(an_entry().indexed, [[1.0, 0.0]])
        with pytest.raises(IndexUnavailableError, match=r"refused 1 of 1 writes: 400 .*Vector dimension mismatch"):
            fill(index, wrong)

    def test_index_that_is_not_there_is_an_error_for_every_operation(self, client: OpenSearch) -> None:
        missing = OpenSearchIndex(client, "missing")
        entry = an_entry("disk")
        for call in (
            lambda: fill(missing, entry),
            lambda: missing.apply([a_removal(entry, ids_of(entry))]),
            lambda: lexical(missing, "disk"),
            lambda: missing.count(EVERYONE),
            lambda: missing.references("key"),
        ):
            with pytest.raises(IndexUnavailableError, match="no such index"):
                call()

    def test_text_that_is_no_valid_unicode_is_stored(self, index: SearchIndex) -> None:
        entry = an_entry("half \ud83d of a pair")
        fill(index, entry)
        assert lexical_ids(index, "pair") == ids_of(entry)

    def test_entry_larger_than_a_request_should_be_is_stored(self, index: SearchIndex) -> None:
        entry = an_entry("disk " * 1_500_000)
        fill(index, entry)
        assert lexical_ids(index, "disk") == ids_of(entry)


class TestSearching:
    def test_vector_of_another_dimension_leaves_the_lexical_hits(self, index: SearchIndex) -> None:
        entry = an_entry("disk full")
        fill(index, entry)
        response = index.search(SearchRequest(EVERYONE, text="disk", vector=[1.0, 0.0]))
        assert [entry_id for entry_id, _ in response.lexical.hits] == ids_of(entry)
        assert "invalid dimension: 2" in response.vector.error

    def test_longest_query_with_every_filter_is_within_the_limit_on_clauses(self, index: SearchIndex) -> None:
        entry = an_entry("needle", tags=("a",), language="en")
        fill(index, entry)
        where = replace(
            EVERYONE,
            categories=("runbooks/procedures",),
            tiers=("internal",),
            tags=("a",),
            document_ids=(entry.indexed.chunk.document_id,),
            languages=("en",),
        )
        text = " ".join(["needle", *(f"word{n}" for n in range(MAX_QUERY_TERMS))])
        assert lexical_ids(index, text, where) == ids_of(entry)

    def test_more_clauses_than_that_are_refused(self, client: OpenSearch, index_name: str) -> None:
        terms = [{"term": {"terms_title": str(n)}} for n in range(MAX_CLAUSES + 1)]
        with pytest.raises(TransportError, match="maxClauseCount"):
            client.search(index=index_name, body={"query": {"bool": {"should": terms}}})

    def test_term_longer_than_the_tokenizer_keeps_whole_is_found(self, index: SearchIndex) -> None:
        entry = an_entry("x" * 700 + " disk")
        fill(index, entry)
        assert lexical_ids(index, "x" * 700) == ids_of(entry)

    def test_filter_without_scopes_finds_nothing(self, index: SearchIndex) -> None:
        fill(index, an_entry("disk"))
        nobody = SearchFilter(scopes=())
        assert lexical_ids(index, "disk", nobody) == vector_ids(index, any_vector("q"), nobody) == []
        assert index.count(nobody) == 0


class TestIndexes:
    def test_deployed_mapping_is_accepted_once(self, client: OpenSearch, names: Callable[[], str]) -> None:
        name = names()
        assert ensure_index(client, name, model_id=MODEL, dimension=1024)
        assert not ensure_index(client, name, model_id=MODEL, dimension=1024)
        client.indices.delete(index=name)

    @pytest.mark.parametrize(
        ("model_id", "dimension", "field", "reason"),
        [
            ("other/8", 8, {}, "model_id 'other/8', not 'test-model/8'"),
            (MODEL, 16, {}, "field vector of dimension 16, not 8"),
            (MODEL, 8, {"terms_content": {"type": "text", "analyzer": "standard"}}, "analyzer 'standard', not"),
            (MODEL, 8, {"terms_content": {"type": "text"}}, "field terms_content of analyzer None"),
            (MODEL, 8, {"scope": {"type": "text"}}, "field scope of type 'text', not 'keyword'"),
        ],
    )
    def test_index_made_for_something_else_is_refused_with_what_to_do(
        self, client: OpenSearch, names: Callable[[], str], model_id: str, dimension: int, field: Any, reason: str
    ) -> None:
        name = names()
        body = node_index_body(model_id, dimension)
        body["mappings"]["properties"] |= field
        client.indices.create(index=name, body=body)
        with pytest.raises(IncompatibleIndexError, match=f"{name} was made with .*{reason}.*`opx rebuild`"):
            ensure_index(client, name, model_id=MODEL, dimension=VECTOR_DIMENSION)
        client.indices.delete(index=name)

    def test_writing_to_an_index_for_other_vectors_is_refused(self, client: OpenSearch, index_name: str) -> None:
        index = OpenSearchIndex(client, index_name, vectors_of=WordsEmbedder())
        with pytest.raises(IncompatibleIndexError, match="dimension 8, not 64"):
            fill(index, an_entry())

    def test_fitting_index_is_written_to(self, client: OpenSearch, names: Callable[[], str]) -> None:
        name, embedder = names(), WordsEmbedder()
        create_node_index(client, name, model_id=embedder.model_id, dimension=embedder.dimension)
        index = RefreshedIndex(client, name, vectors_of=embedder)
        fill(index, an_entry(vector=embedder.embed_query("disk")))
        assert index.count(EVERYONE) == 1
        client.indices.delete(index=name)

    def test_index_of_an_earlier_release_stores_judging_records_from_the_first_write_on(
        self, client: OpenSearch, names: Callable[[], str]
    ) -> None:
        name, embedder = names(), WordsEmbedder()
        body = node_index_body(embedder.model_id, embedder.dimension)
        del body["mappings"]["properties"][RECORD_FIELD]
        client.indices.create(index=name, body=body)
        entry = an_entry("disk", vector=embedder.embed_query("disk"))
        index = RefreshedIndex(client, name, vectors_of=embedder)
        fill(index, entry)
        assert lexical(index, "disk").records.keys() == set(ids_of(entry))
        client.indices.delete(index=name)


class TestDouble:
    """The double of the service answers as a node does, so that tests on it are meaningful."""

    @pytest.mark.parametrize(
        "search",
        [
            SearchRequest(EVERYONE, text="disk full on the database", vector=any_vector("q")),
            SearchRequest(EVERYONE, text="incident steps", depth=2),
            SearchRequest(EVERYONE, vector=a_unit_vector(-1, 1), depth=3),
            SearchRequest(replace(EVERYONE, tags=("rare",)), text="disk pod", vector=any_vector("r")),
            SearchRequest(SearchFilter(scopes=(Scope("other").key,)), text="disk", vector=any_vector("q")),
            SearchRequest(EVERYONE, text="disk", vector=[1.0]),
        ],
        ids=["both", "lexical", "vector", "filtered", "nobody's", "one-fails"],
    )
    def test_double_finds_what_the_node_finds(
        self, index: SearchIndex, index_name: str, double: OpenSearch, search: SearchRequest
    ) -> None:
        corpus = [*an_operations_corpus(), an_entry("long " * 90 + "disk", source="long.md", tags=("rare",))]
        other = OpenSearchIndex(double, index_name)
        for each in (index, other):
            fill(each, *corpus)
        real, doubled = index.search(search), other.search(search)
        for found, expected in ((doubled.lexical, real.lexical), (doubled.vector, real.vector)):
            assert [entry_id for entry_id, _ in found.hits] == [entry_id for entry_id, _ in expected.hits]
            assert dict(found.hits) == pytest.approx(dict(expected.hits), rel=SCORE_TOLERANCE, abs=SCORE_TOLERANCE)
            assert bool(found.error) == bool(expected.error)
        assert doubled.chunks == real.chunks
        assert doubled.records == real.records
        assert (doubled.term_frequencies, doubled.entry_count) == (real.term_frequencies, real.entry_count)

    @pytest.mark.parametrize(
        "lines",
        [
            '{"index":{"_id":"a"}}\n{"unknown":1}\n',
            '{"index":{"_id":"a"}}\n{"vector":[1]}\n',
            '{"delete":{"_id":"absent"}}\n',
            '{"index":{"_id":"a"}}\n{}\n{"create":{"_id":"a"}}\n{}\n{"delete":{"_id":"a"}}\n',
        ],
        ids=["unknown-field", "dimension", "absent", "several"],
    )
    @pytest.mark.parametrize("there", [True, False], ids=["there", "missing"])
    def test_double_answers_bulk_items_as_the_node_does(
        self, client: OpenSearch, double: OpenSearch, index_name: str, lines: str, there: bool
    ) -> None:
        name = index_name if there else "missing"
        real, doubled = (each.bulk(body=lines, index=name) for each in (client, double))
        assert [outline(item) for item in doubled["items"]] == [outline(item) for item in real["items"]]
        assert doubled["errors"] == real["errors"]

    @pytest.mark.parametrize(
        "body",
        [
            {"query": {"match_al": {}}},
            {"query": {"term": {"content": "stored only"}}},
            {"query": {"bool": {"must_nt": []}}},
            {"query": {"bool": {}}, "sise": 1},
            {"query": {"knn": {"vector": {"vector": [1.0], "k": 3}}}},
            {"query": {"knn": {"vector": {"vector": [0.0] * 8, "k": 10_001}}}},
            {"size": 10_001, "query": {"bool": {}}},
        ],
    )
    def test_double_refuses_what_the_node_refuses(
        self, client: OpenSearch, double: OpenSearch, index_name: str, body: dict[str, Any]
    ) -> None:
        for each in (client, double):
            with pytest.raises(TransportError) as refusal:
                each.search(index=index_name, body=body)
            assert refusal.value.status_code == 400

    def test_double_refuses_another_form_of_a_field_as_the_node_does(
        self, client: OpenSearch, double: OpenSearch, index_name: str
    ) -> None:
        for each in (client, double):
            each.indices.put_mapping(index=index_name, body={"properties": {RECORD_FIELD: STORED_TEXT}})
            with pytest.raises(TransportError) as refusal:
                each.indices.put_mapping(index=index_name, body={"properties": {RECORD_FIELD: {"type": "keyword"}}})
            assert refusal.value.status_code == 400


def outline(item: dict[str, Any]) -> tuple[Any, ...]:
    """The parts of a bulk item that the adapter reads: operation, id, status, result, kind of error, and whether it has
    a cause."""
    ((operation, result),) = item.items()
    error = result.get("error") or {}
    caused = (error.get("caused_by") or {}).get("reason")
    return operation, result["_id"], result["status"], result.get("result"), error.get("type"), caused
