"""Creation of OpenSearch indexes, and refusal of those whose vectors or fields are others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from opx.adapters.embedded.object_store import FolderObjectStore
from opx.errors import IncompatibleIndexError, IndexUnavailableError
from opx.ingestion.indexing.book import Edition
from opx.settings import Settings
from opx.system import bootstrap
from opx.text.fields import LEXICAL_FIELDS
from opx_aws.opensearch import OpenSearchIndex, ensure_index
from opx_aws.opensearch_schema import VECTOR_FIELD, index_body
from opx_testing.entries import an_entry
from opx_testing.fake_time import FakeTime
from opx_testing.searches import fill
from tests.doubles.http_double import Response
from tests.doubles.opensearch import OpenSearchDouble
from tests.support.fakes import WordsEmbedder
from tests.support.opensearch_support import INDEX, MODEL, Collection, a_client, a_collection


@pytest.fixture
def nextgen() -> Iterator[Collection]:
    with a_collection("nextgen") as made:
        yield made


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
