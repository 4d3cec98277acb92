"""Entries of search indexes, searches by words or by vector, and BM25 written down plainly."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from opx.ports import IndexEntry, SearchFilter, SearchIndex, SearchRequest, SearchResponse, Vector, Vectors
from opx.text.fields import LEXICAL_FIELDS, analysed_fields, words
from opx_testing.entries import EVERYONE, a_change, an_entry, any_vector

K1, B = 1.2, 0.75
SCORE_TOLERANCE = 1e-4
"""Relative: engines compute in 32-bit floats."""

OPERATIONS_TEXTS = (
    "Disk full on the database server: delete old archive logs, then extend the volume.",
    "The pod is crash looping. Read the pod log, then the events of the namespace.",
    "Disk latency alert. Compare the disk queue of both servers, then fail over.",
    "Certificate expired on the gateway. Renew it and reload the gateway.",
    "Login fails with ORA-01555, snapshot too old. Extend the undo retention of the database.",
)


def an_operations_corpus() -> list[IndexEntry]:
    """Five documents whose title, section and content all have terms, each short enough for exact field lengths."""
    sections = (("Steps",), ("Pod log", "Steps"), ("Steps",), ("Gateway",), ("Steps", "Database"))
    return [
        an_entry(text, title=f"Incident {n} disk" if n % 2 else f"Incident {n}", section=section, source=f"{n}.md")
        for n, (text, section) in enumerate(zip(OPERATIONS_TEXTS, sections, strict=True))
    ]


def a_german_corpus() -> list[IndexEntry]:
    """Among them one in English, with a word of the German ones' and an English one."""
    german = ("Festplatten prüfen.", "Die Festplatte ist voll, alte Protokolle löschen.", "Zertifikate erneuern.")
    entries = [an_entry(text, title=f"Vorfall {n}", language="de", source=f"{n}.md") for n, text in enumerate(german)]
    return [*entries, an_entry("Festplatten means disks, and disks are full.", title="Glossary", source="g.md")]


def bm25(entries: Sequence[IndexEntry], text: str, languages: Sequence[str] = ("en",)) -> dict[str, float]:
    """BM25 in Lucene's form (no `k1 + 1` in the numerator) summed over the searched fields, written down plainly; of the
    terms that stand for one word the best counts.

    Robertson and Zaragoza, The Probabilistic Relevance Framework (2009), section 3.
    """
    scores: defaultdict[str, float] = defaultdict(float)
    for field, boost in LEXICAL_FIELDS.items():
        documents = {e.indexed.entry_id: analysed_fields(e.indexed.chunk, e.indexed.language)[field] for e in entries}
        for terms in words(text, languages).values():
            of_terms = [bm25_of_term(documents, term) for term in terms]
            for entry_id in set().union(*of_terms):
                scores[entry_id] += boost * max(each.get(entry_id, 0.0) for each in of_terms)
    return dict(scores)


def bm25_of_term(documents: dict[str, list[str]], term: str) -> dict[str, float]:
    """The scores of the documents that have the term."""
    average = sum(map(len, documents.values())) / len(documents)
    found = {entry_id: terms.count(term) for entry_id, terms in documents.items() if term in terms}
    idf = math.log(1 + (len(documents) - len(found) + 0.5) / (len(found) + 0.5))
    lengths = {entry_id: K1 * (1 - B + B * len(documents[entry_id]) / average) for entry_id in found}
    return {entry_id: idf * times / (times + lengths[entry_id]) for entry_id, times in found.items()}


def dot(one: Vector, other: Vector) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True))


def nearness_of_mean(vectors: Vectors, query: Vector) -> float:
    """Cosine with the mean vector, for indexes with one vector an entry."""
    summed = [sum(values) for values in zip(*vectors, strict=True)]
    return dot(summed, query) / math.hypot(*summed)


def with_vectors(*counts: int, **facets: Any) -> list[IndexEntry]:
    """Entries of one document with so many vectors each."""
    return [
        an_entry(
            f"disk part {n}",
            index=n,
            document_id="windows",
            vectors=[any_vector(f"{n}/{at}") for at in range(count)],
            **facets,
        )
        for n, count in enumerate(counts)
    ]


def by_score(scores: dict[str, float]) -> list[str]:
    return sorted(scores, key=lambda entry_id: (-scores[entry_id], entry_id))


def fill(index: SearchIndex, *entries: IndexEntry) -> list[list[str]]:
    """Apply each entry as a document of its own."""
    return index.apply([a_change(entry) for entry in entries])


def lexical(index: SearchIndex, text: str, where: SearchFilter = EVERYONE, depth: int = 50) -> SearchResponse:
    return index.search(SearchRequest(where, text=text, depth=depth))


def by_vector(index: SearchIndex, vector: Vector, where: SearchFilter = EVERYONE, depth: int = 50) -> SearchResponse:
    return index.search(SearchRequest(where, vector=vector, depth=depth))


def lexical_ids(index: SearchIndex, text: str, where: SearchFilter = EVERYONE, depth: int = 50) -> list[str]:
    return [entry_id for entry_id, _ in lexical(index, text, where, depth).lexical.hits]


def vector_ids(index: SearchIndex, vector: Vector, where: SearchFilter = EVERYONE, depth: int = 50) -> list[str]:
    return [entry_id for entry_id, _ in by_vector(index, vector, where, depth).vector.hits]


def ids_of(*entries: IndexEntry) -> list[str]:
    return [entry.indexed.entry_id for entry in entries]
