"""What is measured of taking documents in, beside their outcomes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from opx.ingestion.indexing.embedding_cache import CachedEmbedder
from opx.runtime.metrics import Metric, Report


@contextmanager
def reported_cache(embedder: CachedEmbedder, report: Report) -> Iterator[None]:
    """Report how many texts the block found in the cache of embeddings, and how many not. Nothing if it embedded none."""
    hits, misses = embedder.hits, embedder.misses
    try:
        yield
    finally:
        found, missed = embedder.hits - hits, embedder.misses - misses
        if found + missed:
            report(Metric.CACHE_HITS, float(found))
            report(Metric.CACHE_MISSES, float(missed))
