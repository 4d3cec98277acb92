"""The contract of `SearchIndex`, held by the OpenSearch adapter against a real node."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from opensearchpy import OpenSearch

from opx.ports import SearchIndex
from opx_testing.entries import VECTOR_DIMENSION
from opx_testing.search_index import SearchIndexContract
from opx_testing.searches import nearness_of_mean
from tests.doubles.opensearch_search import BM25_FACTOR
from tests.opensearch.indices import RefreshedIndex, create_node_index

MODEL = "test-model/8"
pytestmark = pytest.mark.opensearch


@pytest.fixture
def index_name(client: OpenSearch, names: Callable[[], str]) -> Iterator[str]:
    name = names()
    create_node_index(client, name, model_id=MODEL, dimension=VECTOR_DIMENSION)
    yield name
    client.indices.delete(index=name)


class TestOwnIds(SearchIndexContract):
    bm25_factor = BM25_FACTOR
    nearness = staticmethod(nearness_of_mean)

    @pytest.fixture
    def index(self, client: OpenSearch, index_name: str) -> SearchIndex:
        return RefreshedIndex(client, index_name)


class TestAssignedIds(SearchIndexContract):
    """As on a classic collection: without `_id`, a node gives its own too."""

    bm25_factor = BM25_FACTOR
    nearness = staticmethod(nearness_of_mean)

    @pytest.fixture
    def index(self, client: OpenSearch, index_name: str) -> SearchIndex:
        return RefreshedIndex(client, index_name, generation="classic")
