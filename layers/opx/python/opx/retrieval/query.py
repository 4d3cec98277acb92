"""Answers questions: embed, search both legs, judge, cite, and degrade without ever raising to an agent."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import Any

from opx.domain.documents import DocumentChunk
from opx.domain.knowledge import KnowledgeModel
from opx.domain.queries import MAX_QUERY_CHARACTERS, QueryConfig
from opx.domain.results import Answer, RetrievalResult, ScoreParts
from opx.domain.scopes import Reader
from opx.errors import EmbeddingError, StoreUnavailableError
from opx.ports import Embedder, SearchFilter, SearchIndex, Vector
from opx.retrieval.confidence import confidences
from opx.retrieval.hybrid import FusedHit, FusedHits, HybridSearch

log = logging.getLogger(__name__)

INDEX_DOWN = "the search index is unavailable: nothing was searched"


class KnowledgeQuery:
    """Questions of one reader. The reader's scope is part of every search and can't be widened by a question."""

    def __init__(self, *, index: SearchIndex, embedder: Embedder, knowledge: KnowledgeModel, reader: Reader) -> None:
        self._search = HybridSearch(index)
        self._embedder = embedder
        self._knowledge = knowledge
        self._reader = reader

    def query(self, query: str, config: QueryConfig | None = None) -> list[RetrievalResult]:
        """The results that reach `min_confidence`, ranked by confidence x trust; `[]` if none does."""
        return list(self.answer(query, config).results)

    def answer(self, query: str, config: QueryConfig | None = None) -> Answer:
        """Like `query`, with what was left out and why. Store failures are noted in the answer, not raised.

        Raises `UnknownCategoryError` for a category that doesn't exist: an empty answer would look like "no knowledge".
        """
        used = config or QueryConfig()
        where = self._filter(used)
        text, notes = _cut(query)
        timings: dict[str, float] = {}
        vector = self._embed(text, notes, timings)
        started = time.perf_counter()
        try:
            found = self._search.run(text, vector, where, used)
        except StoreUnavailableError:
            log.exception("search failed")
            return Answer(query, (), partial=True, notes=(*notes, INDEX_DOWN), timings_ms=timings)
        timings["search"] = _elapsed(started)
        notes.extend(_leg_note(leg, reason) for leg, reason in found.failed_legs.items())
        degraded = bool(found.failed_legs) or vector is None and bool(text.strip())
        return self._judged(query, text, found, used, notes, degraded, timings)

    def _filter(self, config: QueryConfig) -> SearchFilter:
        categories: list[str] = []
        for name in config.categories or ():
            categories.extend(self._knowledge.within(name))
        return SearchFilter(
            scopes=self._reader.visible,
            categories=tuple(dict.fromkeys(categories)),
            tiers=tuple(tier.value for tier in config.searched_tiers),
            tags=tuple(config.tags),
            document_ids=(config.document_id,) if config.document_id else (),
            languages=(config.language,) if config.language else (),
        )

    def _embed(self, text: str, notes: list[str], timings: dict[str, float]) -> Vector | None:
        if not text.strip():
            return None
        started = time.perf_counter()
        try:
            return self._embedder.embed_query(text)
        except EmbeddingError:
            log.exception("query embedding failed")
            notes.append(_leg_note("vector", "the embedding model is unavailable"))
            return None
        finally:
            timings["embed"] = _elapsed(started)

    def _judged(
        self,
        query: str,
        text: str,
        found: FusedHits,
        config: QueryConfig,
        notes: list[str],
        degraded: bool,
        timings: dict[str, float],
    ) -> Answer:
        started = time.perf_counter()
        results = [
            _result(hit, confidence)
            for hit, confidence in zip(found.hits, confidences(text, found), strict=True)
            if hit.indexed.source_uri or not config.require_provenance
        ]
        results.sort(key=lambda result: -result.score)
        good = [result for result in results if result.confidence >= config.min_confidence]
        rejected = next((result for result in results if result.confidence < config.min_confidence), None)
        timings["judge"] = _elapsed(started)
        return Answer(
            query=query,
            results=tuple(good[: config.max_results]),
            partial=degraded,
            notes=tuple(notes),
            best_rejected=None if good else rejected,
            timings_ms=timings,
        )


def _cut(query: str) -> tuple[str, list[str]]:
    if len(query) <= MAX_QUERY_CHARACTERS:
        return query, []
    return query[:MAX_QUERY_CHARACTERS], [
        f"the query has {len(query):,} characters; only the first {MAX_QUERY_CHARACTERS:,} were searched"
    ]


def _leg_note(leg: str, reason: str) -> str:
    return f"partial: the {leg} search is missing ({reason})"


def _elapsed(started: float) -> float:
    return 1000 * (time.perf_counter() - started)


def _result(hit: FusedHit, confidence: float) -> RetrievalResult:
    indexed, chunk = hit.indexed, hit.indexed.chunk
    final = confidence * indexed.trust
    lexical, vector = hit.lexical, hit.vector
    parts = ScoreParts(
        lexical_rank=lexical[0] if lexical else None,
        lexical_score=lexical[1] if lexical else None,
        vector_rank=vector[0] if vector else None,
        vector_score=vector[1] if vector else None,
        fused=hit.fused,
        confidence=confidence,
        trust=indexed.trust,
        final=final,
    )
    return RetrievalResult(
        content=chunk.content,
        score=final,
        tier=indexed.tier.value,
        category=chunk.category,
        source=indexed.source_uri,
        timestamp=indexed.last_updated,
        trust_score=indexed.trust,
        metadata=_metadata(chunk, indexed.language),
        parts=parts,
    )


def _metadata(chunk: DocumentChunk, language: str) -> dict[str, Any]:
    return {
        "title": chunk.title,
        "section": list(chunk.section),
        "documentId": chunk.document_id,
        "chunkId": chunk.chunk_id,
        "chunkIndex": chunk.chunk_index,
        "tags": list(chunk.tags),
        "language": language,
    }
