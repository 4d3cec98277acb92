"""Metrics of the embedding cache."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from opx.ingestion.indexing.embedding_cache import CachedEmbedder, reported_cache
from opx.runtime.metrics import Metric
from tests.support.agent_calls import a_system
from tests.support.fakes import Measured


@pytest.fixture
def embedder(tmp_path: Path) -> Iterator[CachedEmbedder]:
    with a_system(tmp_path, {}) as system:
        yield system.indexing.document_embedder


@pytest.fixture
def measured() -> Measured:
    return Measured()


def test_hits_and_misses_of_the_block_are_reported(embedder: CachedEmbedder, measured: Measured) -> None:
    embedder.embed_documents(["a", "b"])
    with reported_cache(embedder, measured):
        embedder.embed_documents(["a", "b", "c"])
    assert measured.values == {Metric.CACHE_HITS: [2.0], Metric.CACHE_MISSES: [1.0]}


def test_block_that_embeds_nothing_reports_nothing(embedder: CachedEmbedder, measured: Measured) -> None:
    with reported_cache(embedder, measured):
        embedder.embed_documents([])
    assert measured.values == {}


def test_block_that_fails_reports_its_embeddings_before(embedder: CachedEmbedder, measured: Measured) -> None:
    def fail() -> None:
        with reported_cache(embedder, measured):
            embedder.embed_documents(["a"])
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert measured.values == {Metric.CACHE_HITS: [0.0], Metric.CACHE_MISSES: [1.0]}
