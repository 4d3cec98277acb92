"""The lexical leg of the embedded index: BM25 by tantivy over terms that our own analyzer produced."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import tantivy

from opx.domain.results import IndexedChunk
from opx.errors import IndexUnavailableError
from opx.ports import SearchFilter
from opx.text.fields import LEXICAL_FIELDS, analysed_fields

log = logging.getLogger(__name__)

WRITER_HEAP_BYTES = 64_000_000
MAX_QUERY_TERMS = 256
"""Distinct terms that are searched, the first ones of a longer query: more cost time and no longer change the best hits."""

_FACETS = ("scope", "category", "tier", "tag", "document_id", "language")
_TANTIVY_FACTOR = 2.2
"""tantivy multiplies by k1 + 1, which Lucene dropped in version 8; without it scores of both engines compare."""


def _schema() -> tantivy.Schema:
    builder = tantivy.SchemaBuilder()
    for name in LEXICAL_FIELDS:
        builder.add_text_field(name, tokenizer_name="whitespace", index_option="freq")
    for name in _FACETS:
        builder.add_text_field(name, tokenizer_name="raw", index_option="basic")
    builder.add_text_field("batch", tokenizer_name="raw", index_option="basic")
    builder.add_unsigned_field("segment", indexed=True, fast=True)
    builder.add_unsigned_field("position", fast=True)
    return builder.build()


class LexicalHits:
    """Hits of one search: segment and position of each, with its score, best first."""

    def __init__(self, segments: Sequence[int], positions: Sequence[int], scores: Sequence[float]) -> None:
        self.places = list(zip(segments, positions, strict=True))
        self.scores = list(scores)


class LexicalReader:
    """Searches the last committed state that `refresh` saw."""

    def __init__(self, folder: Path) -> None:
        self._schema = _schema()
        folder.mkdir(parents=True, exist_ok=True)
        self._index = tantivy.Index(self._schema, path=str(folder))
        self._index.config_reader("Manual")
        self.refresh()

    def refresh(self) -> None:
        self._index.reload()
        self._searcher = self._index.searcher()

    @property
    def entry_count(self) -> int:
        return int(self._searcher.num_docs)

    def search(self, terms: Counter[str], where: SearchFilter, limit: int) -> LexicalHits:
        """The best `limit` entries with any of the terms among those that pass the filter."""
        must = (tantivy.Occur.Must, self._scored(terms))
        query = tantivy.Query.boolean_query([must, *self._filters(where)])
        hits = self._searcher.search(query, limit, count=False).hits
        addresses = [address for _, address in hits]
        return LexicalHits(
            self._searcher.fast_field_values("segment", addresses),
            self._searcher.fast_field_values("position", addresses),
            [score for score, _ in hits],
        )

    def frequencies(self, terms: Iterable[str]) -> dict[str, int]:
        """How many entries contain each term in one of the fields that hold all of a chunk's text."""
        return {term: max(self._searcher.doc_freq(name, term) for name in LEXICAL_FIELDS) for term in terms}

    def _scored(self, terms: Counter[str]) -> tantivy.Query:
        parts = []
        for name, boost in LEXICAL_FIELDS.items():
            for term, times in terms.items():
                query = tantivy.Query.term_query(self._schema, name, term, index_option="freq")
                parts.append((tantivy.Occur.Should, tantivy.Query.boost_query(query, boost * times / _TANTIVY_FACTOR)))
        return tantivy.Query.boolean_query(parts)

    def _filters(self, where: SearchFilter) -> list[tuple[Any, tantivy.Query]]:
        wanted = {
            "scope": where.scopes,
            "category": where.categories,
            "tier": where.tiers,
            "tag": where.tags,
            "document_id": where.document_ids,
            "language": where.languages,
        }
        return [
            (tantivy.Occur.Must, tantivy.Query.const_score_query(self._any_of(name, values), 0.0))
            for name, values in wanted.items()
            if values or name == "scope"
        ]

    def _any_of(self, name: str, values: Sequence[str]) -> tantivy.Query:
        return tantivy.Query.term_set_query(self._schema, name, list(values))


class LexicalWriter:
    """Adds entries in batches; what a crash leaves behind of a batch is removed by its name."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._index = tantivy.Index(_schema(), path=str(folder))
        try:
            self._writer = self._index.writer(WRITER_HEAP_BYTES, 1)
        except ValueError as exc:
            raise IndexUnavailableError(f"the lexical index in {folder} can't be written: {exc}") from exc

    def add(self, segment: int, position: int, batch: str, indexed: IndexedChunk) -> None:
        document = tantivy.Document()
        document.add_unsigned("segment", segment)
        document.add_unsigned("position", position)
        document.add_text("batch", batch)
        for name, terms in analysed_fields(indexed.chunk).items():
            document.add_text(name, " ".join(terms))
        for name, value in _facets_of(indexed):
            document.add_text(name, value)
        self._writer.add_document(document)

    def remove_segment(self, segment: int) -> None:
        self._writer.delete_documents_by_term("segment", segment)

    def remove_batch(self, batch: str) -> None:
        self._writer.delete_documents_by_term("batch", batch)

    def commit(self) -> None:
        self._writer.commit()

    def rollback(self) -> None:
        self._writer.rollback()

    def close(self) -> None:
        self._writer.wait_merging_threads()


def _facets_of(indexed: IndexedChunk) -> Iterable[tuple[str, str]]:
    chunk = indexed.chunk
    yield "scope", indexed.scope_key
    yield "category", chunk.category
    yield "tier", indexed.tier.value
    yield "document_id", chunk.document_id
    yield "language", indexed.language
    for tag in chunk.tags:
        yield "tag", tag
