"""The searched fields of a chunk: which terms each holds and how much it counts, the same on every engine."""

from __future__ import annotations

from functools import lru_cache

from opx.domain.documents import DocumentChunk
from opx.text.analyzer import analyze

LEXICAL_FIELDS: dict[str, float] = {"terms_title": 1.0, "terms_content": 1.0}
"""Boost of each field. An entry's lexical score is the sum over fields and distinct query terms of boost x BM25; each
field has its own lengths and document frequencies. Measured: docs/decisions/0003-fusion.md."""

MAX_TERM_LENGTH = 120
"""Characters kept of a term. Lucene's `whitespace` analyzer splits words of more than 255 UTF-16 units."""


def analysed_fields(chunk: DocumentChunk) -> dict[str, list[str]]:
    """The terms of each field of `LEXICAL_FIELDS`. The content is read under its title and section."""
    return {"terms_title": list(_title_terms(chunk.title)), "terms_content": _terms(chunk.text)}


def query_terms(text: str) -> list[str]:
    """The distinct terms of a question, in order, comparable with those of `analysed_fields`."""
    return list(dict.fromkeys(_terms(text)))


@lru_cache(1024)
def _title_terms(title: str) -> tuple[str, ...]:
    return tuple(_terms(title))


def _terms(text: str) -> list[str]:
    return [term[:MAX_TERM_LENGTH] for term in analyze(text)]
