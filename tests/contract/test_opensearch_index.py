"""The OpenSearch adapter against a double of the service, both generations."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from botocore.credentials import Credentials
from opensearchpy import OpenSearch

from opx.adapters.aws.opensearch import OpenSearchIndex, opensearch_client
from opx.adapters.aws.opensearch_indices import ensure_index
from opx.ports import SearchIndex
from tests.builders import VECTOR_DIMENSION
from tests.contract.search_index_contract import SearchIndexContract
from tests.doubles.opensearch import OpenSearchDouble

INDEX = "opx-knowledge"


@contextmanager
def a_client(double: OpenSearchDouble, timeout: float = 5.0) -> Iterator[OpenSearch]:
    client = opensearch_client(double.endpoint, Credentials("AKIDEXAMPLE", "secret"), "eu-west-1", timeout=timeout)
    yield client
    client.close()


class TestNextGenIndex(SearchIndexContract):
    generation = "nextgen"

    @pytest.fixture
    def index(self) -> Iterator[SearchIndex]:
        with OpenSearchDouble(self.generation) as double, a_client(double) as client:
            ensure_index(client, INDEX, model_id="test/8", dimension=VECTOR_DIMENSION)
            yield OpenSearchIndex(client, INDEX, generation=self.generation)


class TestClassicIndex(TestNextGenIndex):
    generation = "classic"
