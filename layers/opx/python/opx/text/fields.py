"""Defines the searched fields of a chunk, their terms and their boosts, the same on every search engine."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache

from opx.domain.documents import DEFAULT_LANGUAGE, DocumentChunk
from opx.text.analyzer import ENGLISH, analyze, stems
from opx.text.languages import document_languages

LEXICAL_FIELDS: dict[str, float] = {"terms_title": 1.0, "terms_content": 1.0}
"""Boost of each field. An entry's lexical score is the sum over fields and distinct words of a question of boost x BM25,
of a word's best term where it has several; each field has its own lengths and document frequencies. Measured:
docs/decisions/0003-fusion.md."""

TITLE_FIELD = "terms_title"
"""Field with the terms of the title only."""

WHOLE_FIELD = "terms_content"
"""Field with the terms of title, section and content."""

VALUE_WEIGHT = 0.5
"""Share of its weight that a value of a question keeps, such as a pod's name or a percentage. Measured:
docs/decisions/0097-one-search.md."""

Words = Mapping[str, tuple[str, ...]]
"""Distinct words in order: the first term of each, with all terms that represent the word."""

MAX_TERM_LENGTH = 120
"""Characters kept of a term. Lucene's `whitespace` analyzer splits words of more than 255 UTF-16 units."""


def analysed_fields(chunk: DocumentChunk, language: str = DEFAULT_LANGUAGE) -> dict[str, list[str]]:
    """The terms of each field of `LEXICAL_FIELDS`. The content is read under its title and section.

    Text in any language also gets English terms, so that filters, questions of an unknown language and
    quotations find it, and a language taken for another costs rank, not hits.
    """
    languages = document_languages(language)
    return {
        "terms_title": list(_title_terms(chunk.title, languages)),
        "terms_content": all_terms(chunk.text, languages),
    }


def words(text: str, languages: Sequence[str] = ENGLISH) -> dict[str, tuple[str, ...]]:
    """The words of a question, comparable with the terms of `analysed_fields`. Only in English has each a single term."""
    found: dict[str, tuple[str, ...]] = {}
    for terms in stems(text, languages):
        cut = [term[:MAX_TERM_LENGTH] for term in terms]
        found[cut[0]] = tuple(dict.fromkeys((*found.get(cut[0], ()), *cut)))
    return found


def query_terms(text: str, languages: Sequence[str] = ENGLISH) -> list[str]:
    """The distinct terms of a question, in order."""
    return list(dict.fromkeys(all_terms(text, languages)))


def first_words(text: str, languages: Sequence[str], most: int) -> dict[str, tuple[str, ...]]:
    """The first words of a question, with at most `most` terms in total."""
    kept: dict[str, tuple[str, ...]] = {}
    room = most
    for first, terms in words(text, languages).items():
        room -= len(terms)
        if room < 0:
            break
        kept[first] = terms
    return kept


@lru_cache(1024)
def _title_terms(title: str, languages: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(all_terms(title, languages))


def all_terms(text: str, languages: Sequence[str]) -> list[str]:
    """The terms of `text`, in order."""
    return list(_cut(analyze(text, languages)))


def _cut(terms: Collection[str]) -> Collection[str]:
    """The terms, none longer than `MAX_TERM_LENGTH`."""
    if max(map(len, terms), default=0) <= MAX_TERM_LENGTH:
        return terms
    return [term[:MAX_TERM_LENGTH] for term in terms]
