"""`SearchIndex` in one folder: SQLite says what is live, tantivy ranks by words, exact cosines rank by meaning.

A batch of changes is written to the vector file and to tantivy first, where nobody sees it, and becomes visible with
one SQLite commit. Readers take their hits from the two engines and keep those that SQLite says are live, so that a
crash at any moment leaves the state before or after, and readers never wait for the writer.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from opx.adapters.embedded.index_database import IndexDatabase
from opx.adapters.embedded.index_writer import IndexWriter
from opx.adapters.embedded.lexical import MAX_QUERY_TERMS, LexicalReader
from opx.adapters.embedded.segments import SegmentMap, SegmentRow, indexed_chunk
from opx.adapters.embedded.vector_file import VECTORS, Matrix, read_rows
from opx.domain.results import IndexedChunk
from opx.errors import IncompatibleIndexError
from opx.ports import DocumentChange, Leg, SearchFilter, SearchRequest, SearchResponse, Vector
from opx.text.analyzer import ANALYZER_VERSION
from opx.text.fields import query_terms

_SPARE_HITS = 16
_SCORE_DIGITS = 6
"""Scores are rounded, so that equal texts tie on every processor and ties are broken by id."""

_GATHER_BELOW = 0.1
"""Share of rows below which copying the wanted ones costs less than scoring all."""

_NEVER = np.float32(-2)
"""Below every cosine."""

Place = tuple[int, int]
"""Segment and position within it."""

Facts = tuple[SegmentRow, str, dict[str, str]]
"""A segment's row, its document key's id, and what its entries share beyond the row."""


@dataclass(frozen=True, slots=True)
class _View:
    """One consistent state: the live segments, their vectors, and which generation that is."""

    generation: str
    segments: SegmentMap
    matrix: Matrix


class EmbeddedIndex:
    """`SearchIndex` of one embedding model. Raises `IncompatibleIndexError` if the folder was built with another."""

    derives_ids = True

    def __init__(self, folder: Path, *, model_id: str, dimension: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._dimension = dimension
        self._lock = threading.RLock()
        self._database = IndexDatabase(folder / "index.db")
        self._check_identity(f"{model_id}/{dimension}/analyzer-{ANALYZER_VERSION}")
        self._lexical = LexicalReader(folder / "terms")
        self._view: _View | None = None
        self._facts: dict[int, Facts] = {}

    def close(self) -> None:
        self._database.close()

    def _check_identity(self, wanted: str) -> None:
        found = self._database.meta("identity")
        if not found:
            with self._database.transaction():
                self._database.set_meta("identity", wanted)
        elif found != wanted:
            raise IncompatibleIndexError(
                f"the index in {self._folder} was built for {found}, this program uses {wanted}: "
                "delete that folder and ingest again"
            )

    # -- writing

    def apply(self, changes: Iterable[DocumentChange]) -> list[list[str]]:
        with IndexWriter(self._folder, self._dimension) as writer:
            return writer.apply(changes)

    # -- reading

    def search(self, request: SearchRequest) -> SearchResponse:
        with self._lock:
            view = self._current()
            terms = Counter(query_terms(request.text or ""))
            terms = Counter(dict(list(terms.items())[:MAX_QUERY_TERMS]))
            lexical = self._lexical_leg(view, terms, request)
            vector = self._vector_leg(view, request)
            found = self._read({place for place, _ in lexical} | {place for place, _ in vector})
            return SearchResponse(
                lexical=_leg(lexical, found, request.depth),
                vector=_leg(vector, found, request.depth),
                chunks={indexed.entry_id: indexed for indexed in found.values()},
                term_frequencies=self._lexical.frequencies(terms),
                entry_count=view.segments.live,
            )

    def count(self, where: SearchFilter) -> int:
        with self._lock:
            segments = self._current().segments
            return int(segments.counts[segments.allowed(where)].sum())

    def references(self, key_id: str) -> list[str]:
        with self._lock:
            return self._database.references(key_id)

    def _current(self) -> _View:
        """The view of the last commit, loaded anew when another generation was committed."""
        with self._database.transaction("DEFERRED"):
            generation = self._database.meta("generation", "0")
            if self._view is not None and self._view.generation == generation:
                return self._view
            segments = SegmentMap(self._database.segments())
            matrix = read_rows(self._folder / self._database.meta("vectors", VECTORS), self._dimension, segments.slots)
        self._lexical.refresh()
        self._facts.clear()
        self._view = _View(generation, segments, matrix)
        return self._view

    def _lexical_leg(self, view: _View, terms: Counter[str], request: SearchRequest) -> list[tuple[Place, float]]:
        """Hits that are live; asks for more when dead ones (replaced, not yet cleaned up) took their places."""
        if not terms:
            return []
        limit = request.depth + _SPARE_HITS
        while True:
            found = self._lexical.search(terms, request.filter, limit)
            scored = zip(found.places, found.scores, strict=True)
            live = [(place, score) for place, score in scored if place[0] in view.segments]
            if len(live) >= request.depth or len(found.places) < limit:
                return live
            limit *= 4

    def _vector_leg(self, view: _View, request: SearchRequest) -> list[tuple[Place, float]]:
        if request.vector is None or not view.segments.slots:
            return []
        chosen = view.segments.slots_of(view.segments.allowed(request.filter))
        total = int(np.count_nonzero(chosen))
        query = np.asarray(request.vector, dtype=np.float32)
        limit = min(total, request.depth + _SPARE_HITS)
        if total < len(chosen) * _GATHER_BELOW:
            slots = np.flatnonzero(chosen)
            scores = view.matrix[slots] @ query
        else:
            slots = None
            scores = np.where(chosen, view.matrix @ query, _NEVER)
        best = _best(scores, limit)
        places = view.segments.places((best if slots is None else slots[best]).tolist())
        return list(zip(places, scores[best].tolist(), strict=True))

    def _read(self, places: set[Place]) -> dict[Place, IndexedChunk]:
        """The chunks at these places; one that was replaced a moment ago is left out."""
        facts = {segment: self._facts_of(segment) for segment, _ in places}
        found = {}
        for segment, position, entry_id, line in self._database.entries(sorted(places)):
            known = facts[segment]
            if known is not None:
                found[segment, position] = indexed_chunk((entry_id, line), *known)
        return found

    def _facts_of(self, segment: int) -> Facts | None:
        known = self._facts.get(segment)
        if known is None:
            stored = self._database.segment(segment)
            if stored is None:
                return None
            known = self._facts[segment] = (stored[0], stored[1], json.loads(stored[2]))
        return known


def _leg(scored: Sequence[tuple[Place, float]], found: Mapping[Place, IndexedChunk], depth: int) -> Leg:
    """The hits in order: best first, equal scores by id."""
    hits = [(found[place].entry_id, round(score, _SCORE_DIGITS)) for place, score in scored if place in found]
    hits.sort(key=lambda hit: (-hit[1], hit[0]))
    return Leg(tuple(hits[:depth]))


def _best(scores: Matrix, count: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Positions of the `count` highest scores, best first."""
    if count == 0:
        return np.empty(0, dtype=np.int64)
    chosen = np.argpartition(scores, -count)[-count:] if count < len(scores) else np.arange(len(scores))
    return chosen[np.argsort(-scores[chosen], kind="stable")]
