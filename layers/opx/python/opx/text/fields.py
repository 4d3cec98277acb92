"""The searched fields of a chunk: which terms each holds and how much it counts, the same on every engine."""

from __future__ import annotations

from opx.domain.documents import DocumentChunk
from opx.text.analyzer import analyze

LEXICAL_FIELDS: dict[str, float] = {"terms_title": 1.0, "terms_section": 0.5, "terms_content": 1.0}
"""Boost of each field. An entry's lexical score is the sum over fields and query terms of boost x BM25, where a term
counts as often as the query has it, and each field has its own lengths and document frequencies."""

MAX_TERM_LENGTH = 120
"""Characters kept of a term. Lucene's `whitespace` analyzer splits words of more than 255 UTF-16 units."""


def analysed_fields(chunk: DocumentChunk) -> dict[str, list[str]]:
    """The terms of each field of `LEXICAL_FIELDS`. The content is read under its title and section."""
    return {
        "terms_title": query_terms(chunk.title),
        "terms_section": query_terms("\n".join(chunk.section)),
        "terms_content": query_terms(chunk.text),
    }


def query_terms(text: str) -> list[str]:
    """The terms of a question, comparable with those of `analysed_fields`; in order, repeated ones included."""
    return [term[:MAX_TERM_LENGTH] for term in analyze(text)]
