"""Indexes on a real node: the deployed mapping with the one k-NN engine that needs no native library."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from opensearchpy import OpenSearch

from opx.ports import DocumentChange, HeldDocument, SearchFilter, SearchRequest, SearchResponse
from opx_aws.opensearch import OpenSearchIndex
from opx_aws.opensearch_schema import VECTOR_FIELD, index_body


@contextmanager
def node_client(endpoint: str, *, timeout: float = 10.0) -> Iterator[OpenSearch]:
    """An unsigned client that doesn't retry, as the adapter's own one doesn't."""
    client = OpenSearch(
        hosts=[endpoint], timeout=timeout, max_retries=0, retry_on_timeout=False, retry_on_status=(), pool_maxsize=10
    )
    try:
        yield client
    finally:
        client.close()


def node_index_body(model_id: str, dimension: int) -> dict[str, Any]:
    """`index_body` with the vector engine `lucene`: the default one, faiss, is a library that the node doesn't have."""
    body = index_body(model_id, dimension)
    body["mappings"]["properties"][VECTOR_FIELD]["method"] = {"name": "hnsw", "engine": "lucene"}
    return body


def create_node_index(client: OpenSearch, name: str, *, model_id: str, dimension: int) -> None:
    client.indices.create(index=name, body=node_index_body(model_id, dimension))


class RefreshedIndex:
    """An `OpenSearchIndex` whose writes are visible when `apply` returns: tests don't wait for the node's second."""

    def __init__(self, client: OpenSearch, name: str, **options: Any) -> None:
        self._index = OpenSearchIndex(client, name, **options)
        self._client = client
        self._name = name

    @property
    def derives_ids(self) -> bool:
        return self._index.derives_ids

    def apply(self, changes: Iterable[DocumentChange]) -> list[list[str]]:
        references = self._index.apply(changes)
        self._client.indices.refresh(index=self._name)
        return references

    def search(self, request: SearchRequest) -> SearchResponse:
        return self._index.search(request)

    def entries_with(self, terms: Iterable[str], scopes: Sequence[str]) -> Mapping[str, int]:
        return self._index.entries_with(terms, scopes)

    def count(self, where: SearchFilter) -> int:
        return self._index.count(where)

    def references(self, key_id: str) -> list[str]:
        return self._index.references(key_id)

    def held(self, *, after: HeldDocument | None = None, limit: int = 1000) -> list[HeldDocument]:
        return self._index.held(after=after, limit=limit)

    def close(self) -> None:
        """Does nothing: the client is its maker's to close."""
