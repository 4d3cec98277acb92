"""How rare terms are among what a reader may see.

tantivy counts all entries of an index, whoever they belong to. What it makes of that would tell a reader, by the scores
of documents of his own, how many documents of others hold a term. So terms are counted again within the scopes, wherever
there is more than these.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

import tantivy

_TOTAL = "N, total number of docs"
"""How an explanation of tantivy names what it takes for the number of all entries; deleted ones count until a merge."""


class Rarity:
    """Counts of one committed state for some scopes, each taken once. Threads may share it."""

    def __init__(self, searcher: tantivy.Searcher, schema: tantivy.Schema, scopes: Sequence[str]) -> None:
        self._searcher = searcher
        self._schema = schema
        query = tantivy.Query.term_set_query(schema, "scope", list(scopes))
        self._within = tantivy.Query.const_score_query(query, 0.0)
        self._entries = self._count(self._within)
        self._all = self._entries == searcher.num_docs
        self._found: dict[tuple[str, str], int] = {}
        self._total = 0

    @property
    def corrects(self) -> bool:
        """Whether there is more than the entries of the scopes."""
        return not self._all

    def frequency(self, name: str, term: str) -> int:
        """How many entries have the term in this field, dead ones included."""
        if self._all:
            return self._searcher.doc_freq(name, term)
        found = self._found.get((name, term))
        if found is None:
            found = self._found[name, term] = self._within_scopes(name, term)
        return found

    def correction(self, name: str, term: str) -> float:
        """What the term's scores are to be multiplied with, as if there were no other entries."""
        if self._all:
            return 1.0
        here = self.frequency(name, term)
        if not here:
            return 1.0  # of no matter: nothing that it scores passes the filter
        there = self._searcher.doc_freq(name, term)
        return _idf(self._entries, here) / _idf(self._number_of_all(name, term), there)

    def _within_scopes(self, name: str, term: str) -> int:
        if not self._searcher.doc_freq(name, term):
            return 0
        query = tantivy.Query.term_query(self._schema, name, term, index_option="basic")
        parts = [(tantivy.Occur.Must, query), (tantivy.Occur.Must, self._within)]
        return self._count(tantivy.Query.boolean_query(parts))

    def _count(self, query: tantivy.Query) -> int:
        found: Any = self._searcher.search(query, 1, count=True)
        return int(found.count)

    def _number_of_all(self, name: str, term: str) -> int:
        """What tantivy takes for it, which it says nowhere but in explanations."""
        if not self._total:
            query = tantivy.Query.term_query(self._schema, name, term, index_option="freq")
            _, address = self._searcher.search(query, 1, count=False).hits[0]
            self._total = _explained(json.loads(query.explain(self._searcher, address).to_json()))
        return self._total


def _explained(part: dict[str, Any]) -> int:
    """The number of all entries in an explanation; 0 if it isn't there."""
    if part["description"] == _TOTAL:
        return int(part["value"])
    return max((_explained(each) for each in part.get("details") or ()), default=0)


def _idf(total: int, found: int) -> float:
    """Lucene's idf, which tantivy computes, too."""
    return math.log(1 + (max(total - found, 0) + 0.5) / (found + 0.5))
