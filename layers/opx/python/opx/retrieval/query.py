"""Answers questions: embed, search both legs, judge, cite, and degrade without ever raising to an agent."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from opx.domain.knowledge import KnowledgeModel
from opx.domain.queries import MAX_QUERY_CHARACTERS, QueryConfig
from opx.domain.results import Answer, IndexedChunk, RetrievalResult, ScoreParts
from opx.domain.scopes import Reader
from opx.errors import EmbeddingError, StoreUnavailableError
from opx.ports import Embedder, SearchEngine, SearchFilter, Vector
from opx.retrieval.confidence import confidences
from opx.retrieval.hybrid import FusedHit, FusedHits, HybridSearch

log = logging.getLogger(__name__)

INDEX_DOWN = "the search index is unavailable: nothing was searched"
MAX_COPIES = 10
"""Other documents that are named with a result that they say, too."""

NO_TIER = "no tier to search: the internet tier needs include_internet"
NOT_CONFIGURED = (
    "no web search is configured: add `internet: {search_provider: brave, api_key_env: BRAVE_API_KEY}` to knowledge.yaml "
    "and set that secret"
)


class KnowledgeQuery:
    """Questions of one reader. The reader's scope is part of every search and can't be widened by a question.

    No `embedder`: the index embeds questions itself. `internet` answers questions from the web, if it is configured.
    """

    def __init__(
        self,
        *,
        index: SearchEngine,
        embedder: Embedder | None,
        knowledge: KnowledgeModel,
        reader: Reader,
        internet: Callable[[str, int], Answer] | None = None,
    ) -> None:
        self._search = HybridSearch(index)
        self._embedder = embedder
        self._knowledge = knowledge
        self._reader = reader
        self._internet = internet

    def query(self, query: str, config: QueryConfig | None = None) -> list[RetrievalResult]:
        """The results that reach `min_confidence`, ranked by confidence x trust; `[]` if none does."""
        return list(self.answer(query, config).results)

    def answer(self, query: str, config: QueryConfig | None = None) -> Answer:
        """Like `query`, with what was left out and why. Store failures are noted in the answer, not raised.

        Raises `UnknownCategoryError` for a category that doesn't exist: an empty answer would look like "no knowledge".
        """
        asked = _asked(query, config or QueryConfig())
        where = self._filter(asked.config)
        if not where.tiers:  # to the index, no tier means every tier
            return Answer(query, (), notes=(*asked.notes, NO_TIER))
        vector = self._embed(asked)
        try:
            with _timed(asked, "search"):
                found = self._search.run(asked.text, vector, where, asked.config)
        except StoreUnavailableError:
            log.exception("search failed")
            return Answer(query, (), partial=True, notes=(*asked.notes, INDEX_DOWN), timings_ms=asked.timings)
        asked.timings |= found.leg_ms
        asked.notes.extend(found.notes)
        asked.notes.extend(_leg_note(leg, reason) for leg, reason in found.failed_legs.items())
        asked.partial |= bool(found.failed_legs)
        return _judged(asked, found)

    def search_internet(self, query: str, max_results: int = 5) -> list[RetrievalResult]:
        """Results of a live search of the web, ranked by confidence x trust; `[]` if there is none, or it fails."""
        return list(self.internet_answer(query, max_results).results)

    def internet_answer(self, query: str, max_results: int = 5) -> Answer:
        """Like `search_internet`, with what went wrong in the notes. Raises `InvalidInputError` for `max_results` below
        1. Of the reader nothing is sent."""
        if self._internet is None:
            return Answer(query, (), notes=(NOT_CONFIGURED,))
        return self._internet(query, max_results)

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

    def _embed(self, asked: _Asked) -> Vector | None:
        if self._embedder is None or not asked.text.strip():
            return None
        try:
            with _timed(asked, "embed"):
                return self._embedder.embed_query(asked.text)
        except EmbeddingError:
            log.exception("query embedding failed")
            asked.notes.append(_leg_note("vector", "the embedding model is unavailable"))
            asked.partial = True
            return None


@dataclass(slots=True)
class _Asked:
    """A question on its way to an answer: what is searched for, and what is to be said about it."""

    query: str
    text: str
    config: QueryConfig
    notes: list[str]
    partial: bool = False
    timings: dict[str, float] = field(default_factory=dict)


def _asked(query: str, config: QueryConfig) -> _Asked:
    """Cut to what is searched, without halves of surrogate pairs, which neither stores nor models take."""
    text = query[:MAX_QUERY_CHARACTERS].encode("utf-8", "replace").decode()
    cut = f"the query has {len(query):,} characters; only the first {MAX_QUERY_CHARACTERS:,} were searched"
    return _Asked(query, text, config, [cut] if len(query) > MAX_QUERY_CHARACTERS else [])


def _judged(asked: _Asked, found: FusedHits) -> Answer:
    config = asked.config
    with _timed(asked, "judge"):
        judged = zip(found.hits, confidences(asked.text, found), strict=True)
        results = [_result(hit, confidence) for hit, confidence in judged]
        results.sort(key=lambda result: -result.score)
        good = [result for result in results if result.confidence >= config.min_confidence]
    return Answer(
        query=asked.query,
        results=tuple(good[: config.max_results]),
        partial=asked.partial,
        notes=tuple(asked.notes),
        best_rejected=None if good else next(iter(results), None),
        timings_ms=asked.timings,
    )


@contextmanager
def _timed(asked: _Asked, part: str) -> Iterator[None]:
    """Note how long the block takes, in milliseconds, also if it fails."""
    started = time.perf_counter()
    try:
        yield
    finally:
        asked.timings[part] = 1000 * (time.perf_counter() - started)


def _leg_note(leg: str, reason: str) -> str:
    return f"partial: the {leg} search is missing ({reason})"


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
        metadata=_metadata(hit),
        parts=parts,
    )


def _metadata(hit: FusedHit) -> dict[str, Any]:
    chunk, copies = hit.indexed.chunk, _copies(hit)
    return {
        "title": chunk.title,
        "section": list(chunk.section),
        "documentId": chunk.document_id,
        "chunkId": chunk.chunk_id,
        "chunkIndex": chunk.chunk_index,
        "tags": list(chunk.tags),
        "language": hit.indexed.language,
        **({"flags": list(hit.indexed.flags)} if hit.indexed.flags else {}),
        **({"copies": copies} if copies else {}),
    }


def _copies(hit: FusedHit) -> list[dict[str, Any]]:
    """Where else the same is said; each document once, `MAX_COPIES` of them."""
    others: dict[str, IndexedChunk] = {}
    for indexed in hit.copies:
        others.setdefault(indexed.key_id, indexed)
    others.pop(hit.indexed.key_id, None)
    return [
        {
            "documentId": indexed.chunk.document_id,
            "title": indexed.chunk.title,
            "source": indexed.source_uri,
            "tier": indexed.tier.value,
            "trust": indexed.trust,
        }
        for indexed in islice(others.values(), MAX_COPIES)
    ]
