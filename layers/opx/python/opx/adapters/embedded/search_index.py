"""Implements `SearchIndex` in one folder: SQLite records live entries, tantivy ranks by words, exact cosines by meaning.

A batch of changes is written to the vector files and to tantivy first, invisibly, and becomes visible with
one SQLite commit. Readers take their hits from the two engines and keep those that are live in SQLite, all within one
SQLite snapshot, so that a crash at any moment leaves the state before or after, and readers never wait for the writer.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set, Sized
from contextlib import contextmanager
from itertools import compress, count
from pathlib import Path
from threading import Lock

import numpy as np
from msgspec import Struct

from opx.adapters.embedded.durable_files import make_folders
from opx.adapters.embedded.hits import SPARE_HITS, Scored, leg_of, levelled, with_ties
from opx.adapters.embedded.lexical import MAX_QUERY_TERMS, LexicalReader, LexicalSearcher
from opx.adapters.embedded.segment_map import Mask, Numbers, SegmentMap
from opx.adapters.embedded.segments import Generation, IndexDatabase, SegmentFields, StoredChunks, index_errors
from opx.adapters.embedded.vector_files import ROWS, Floats, StoredRows, stored_rows
from opx.adapters.embedded.vectors import NearestRows, best_of_each
from opx.domain.record import replace
from opx.errors import IncompatibleIndexError, InvalidInputError
from opx.ports import DocumentChange, HeldDocument, SearchFilter, SearchRequest, SearchResponse, StoredRecord
from opx.text.analyzer import ANALYZER_VERSION
from opx.text.fields import Words, first_words

FORMAT = "6"
"""Version of the file format. Part of an index's identity."""

log = logging.getLogger(__name__)

_FILTER_AFTERWARDS_ABOVE = 0.1
"""Share of entries that pass a filter above which the words are searched without it first, with a larger limit."""

_SHARE_OF_A_TIER = 0.2
"""Share of entries from which hits for a filter are among those that a search for the tier before has found, too."""

_LISTED_ENTRIES = 10_000
"""Entries with the terms of a filter up to which all are listed for the vector leg: two microseconds each."""

_SPARE_SHARE = 1.3
"""Factor on the near entries examined, relative to an even spread of entries with the terms."""

_FEW_DOCUMENTS = 8
"""Documents of a batch up to which its writer gets little memory."""


class _View(Struct, frozen=True):
    """One consistent state: the live segments, their vectors and terms, and its generation. Later states use `rows`, too."""

    generation: Generation
    segments: SegmentMap
    rows: StoredRows
    nearest: NearestRows
    lexical: LexicalSearcher


class EmbeddedIndex:
    """`SearchIndex` of one embedding model. Threads may share it; `close` comes after their last call.

    Raises `IncompatibleIndexError` if the folder was built with another model, and `IndexUnavailableError`.
    """

    derives_ids = True

    def __init__(self, folder: Path, *, model_id: str, dimension: int) -> None:
        self._folder = folder
        self._dimension = dimension
        self._view: _View | None = None
        self._following = Lock()
        with index_errors(folder):
            make_folders(folder)
            self._database = IndexDatabase(folder / "index.db")
            try:
                self._check_identity(f"{model_id}/{dimension}/analyzer-{ANALYZER_VERSION}/format-")
                self._lexical = LexicalReader(folder / "terms")
            except BaseException:
                self._database.close()
                raise

    def close(self) -> None:
        self._database.close()

    @property
    def incarnation(self) -> str:
        """A random name, assigned once: an index that was deleted and created anew has another one."""
        with index_errors(self._folder), self._database.snapshot():
            return self._database.meta("incarnation")

    @property
    def version(self) -> str:
        """A string that changes with each batch of any process: the incarnation and the number of batches."""
        with index_errors(self._folder), self._database.snapshot():
            return f"{self._database.meta('incarnation')}.{self._database.meta('generation', '0')}"

    def _check_identity(self, lineage: str) -> None:
        self._identity = wanted = lineage + FORMAT
        with self._database.snapshot():
            found = self._database.meta("identity")
        if not found:  # new; only then, since this waits for a running writer
            with self._database.transaction():
                found = self._database.meta("identity", wanted)
                self._database.set_meta("identity", found)
                self._database.set_meta("incarnation", self._database.meta("incarnation", secrets.token_hex(8)))
        if found != wanted:
            raise IncompatibleIndexError(
                f"the index in {self._folder} was built for {found}, this program uses {wanted}: "
                "run `opx reindex`, which makes one for this program, or delete that folder and run `opx rebuild`"
            )

    # -- writing

    def apply(self, changes: Iterable[DocumentChange]) -> list[list[str]]:
        from opx.adapters.embedded.index_writer import IndexWriter

        small = isinstance(changes, Sized) and len(changes) <= _FEW_DOCUMENTS
        with (
            index_errors(self._folder),
            IndexWriter(self._folder, self._dimension, self._identity, small=small) as writer,
        ):
            return writer.apply(changes)

    # -- reading

    def search(self, request: SearchRequest) -> SearchResponse:
        words = first_words(request.text or "", request.languages, MAX_QUERY_TERMS)
        with self._snapshot() as view:
            allowed = view.segments.allowed(request.filter)
            started = time.perf_counter()
            lexical = with_ties(_lexical_leg(view, words, request, allowed), request.depth)
            between = time.perf_counter()
            vector = with_ties(_vector_leg(view, request, allowed), request.depth)
            taken = between - started, time.perf_counter() - between
            counted = SearchResponse(
                term_frequencies=view.lexical.frequencies(words, view.lexical.rarity(request.filter.scopes)),
                entry_count=view.segments.live_in(request.filter.scopes),
            )
            locations = sorted({location for location, _ in (*lexical, *vector)})
            rows = {(row.segment, row.position): row for row in self._database.entries(locations)}
            fields = self._fields(view, {segment for segment, _ in rows})
        ids = {location: row.entry_id for location, row in rows.items()}
        legs = [leg_of(scored, ids, request.depth) for scored in (lexical, vector)]
        searched = bool(words), request.vector is not None
        legs = [
            replace(leg, took_ms=1000 * seconds) if requested else leg
            for leg, requested, seconds in zip(legs, searched, taken, strict=True)
        ]
        named = {entry for leg in legs for entry, _ in leg.hits}
        hits = [row for row in rows.values() if row.entry_id in named]
        return replace(
            counted,
            lexical=legs[0],
            vector=legs[1],
            chunks=StoredChunks({row.entry_id: (row.line, fields[row.segment]) for row in hits}),
            records={
                row.entry_id: StoredRecord(fields[row.segment].document, row.record) for row in hits if row.record
            },
        )

    def _fields(self, view: _View, segments: Set[int]) -> dict[int, SegmentFields]:
        facts = self._database.facts_of(sorted(segments))
        return {segment: SegmentFields.of(view.segments.shared(segment), facts[segment]) for segment in segments}

    def entries_with(self, terms: Iterable[str], scopes: Sequence[str]) -> Mapping[str, int]:
        with self._snapshot() as view:
            return view.lexical.entries_with(terms, view.lexical.rarity(tuple(scopes)))

    def count(self, where: SearchFilter) -> int:
        with self._snapshot() as view:
            allowed = view.segments.allowed(where)
            if where.has_terms:
                return len(view.segments.entries_at(view.lexical.locations(where), allowed))
            return int(view.segments.counts[allowed].sum())

    def references(self, key_id: str) -> list[str]:
        with index_errors(self._folder), self._database.snapshot():
            return self._database.references(key_id)

    def held(self, *, after: HeldDocument | None = None, limit: int = 1000) -> list[HeldDocument]:
        position = (after.scope_key, after.key_id, after.document_id, after.category) if after else ()
        with index_errors(self._folder), self._database.snapshot():
            return [HeldDocument(*row) for row in self._database.held(position, limit)]

    @contextmanager
    def _snapshot(self) -> Iterator[_View]:
        """The last committed state; SQLite, vectors and terms agree until the block ends."""
        with index_errors(self._folder):
            searcher: tuple[Generation, LexicalSearcher] | None = None
            while True:
                before = self._view
                with self._database.snapshot():
                    generation = self._database.generation()
                    if before is not None and before.generation.number > generation.number:
                        self._view = None  # an older copy of the index replaced it
                    view = self._view_of(generation, searcher)
                    if view is not None:
                        yield view
                        return
                searcher = generation, self._lexical.latest()

    def _view_of(self, generation: Generation, searcher: tuple[Generation, LexicalSearcher] | None) -> _View | None:
        """The view of the state that SQLite shows, or None if that needs another searcher.

        tantivy commits before SQLite does. A searcher that was opened between two looks at the same generation is at
        most one batch ahead, and a batch removes only what was dead before it.
        """
        view = self._view
        if view is not None and view.generation == generation:
            return view
        if searcher is None or searcher[0] != generation:
            return None
        with self._following:  # threads that need the same state needn't read it at the same time
            view = self._view
            if view is not None and view.generation.number > generation.number:
                return None  # another thread follows a later commit already
            if view is None or view.generation != generation:
                segments = self._segments_after(view)
                base = self._folder / self._database.meta(ROWS, ROWS)
                rows = stored_rows(base, self._dimension, segments.slots, view.rows if view else None)
                view = self._view = _View(generation, segments, rows, NearestRows(rows), searcher[1])
        return view

    def _segments_after(self, view: _View | None) -> SegmentMap:
        """The live segments of the state that SQLite shows: those of the view with what changed since, or all read anew."""
        changed = self._database.changed_since(view.generation) if view else None
        if view is None or changed is None:
            return SegmentMap(self._database.each_segment())
        known = [segment for segment in changed if view.segments.holds(segment)]
        fresh = sorted(set(changed) - set(known))
        later = view.segments.after(self._database.segments_among(fresh), known)
        if later is None or later.live_slots != self._database.live_slots():
            return SegmentMap(self._database.each_segment())  # too much is dead, or a note was cut short
        return later


def _lexical_leg(view: _View, words: Words, request: SearchRequest, allowed: Mask) -> list[Scored]:
    """Hits that are live and allowed, best first: all of them, or more than the depth."""
    if not words or not allowed.any():
        return []
    wanted = request.depth + SPARE_HITS
    rarity = view.lexical.rarity(request.filter.scopes)
    for where, limit in _attempts(wanted, request.filter, view.segments.share(allowed)):
        found = view.lexical.search(words, where, limit, rarity, request.values)
        kept = list(compress(found, view.segments.are_among([segment for (segment, _), _ in found], allowed)))
        if len(kept) >= wanted or len(found) < limit:
            return levelled(kept) if rarity.corrects else kept
    return []


def _attempts(wanted: int, where: SearchFilter, share: float) -> Iterator[tuple[SearchFilter | None, int]]:
    """Filters and limits to try, until there are enough hits: dead entries (replaced, not yet cleaned up) take up hits."""
    if share >= _FILTER_AFTERWARDS_ABOVE and not where.has_terms:
        yield None, int(1.5 * wanted / (share if share == 1 else min(share, _SHARE_OF_A_TIER)))
    for doublings in count(step=2):
        yield where, wanted << doublings


def _vector_leg(view: _View, request: SearchRequest, allowed: Mask) -> list[Scored]:
    """The nearest of the allowed entries, best first."""
    if request.vector is None or not allowed.any():
        return []
    where, wanted = request.filter, request.depth + SPARE_HITS
    query = np.asarray(request.vector, dtype=np.float32)
    if not np.isfinite(query).all():
        raise InvalidInputError("the vector of a question has numbers that are not finite")
    nearest = _nearest(view, view.segments.runs_of(allowed), query)
    if not where.has_terms:
        return nearest(wanted)
    having = view.lexical.count(where)
    if having <= _LISTED_ENTRIES:
        entries = view.segments.entries_at(view.lexical.locations(where), allowed)
        return _nearest(view, view.segments.runs_at(entries), query)(wanted)
    count = int(view.segments.counts[allowed].sum())
    first = wanted + int(_SPARE_SHARE * wanted * count / max(having, 1))
    return _nearest_with_terms(view, nearest, where, wanted, first)


def _nearest(view: _View, runs: tuple[Numbers, Numbers], query: Floats) -> Callable[[int], list[Scored]]:
    """Returns a function of the number of entries to list, the nearest first, of those whose rows are in these runs of slots.
    An entry is as near as the nearest of its vectors."""

    def nearest(count: int) -> list[Scored]:
        slots, scores = view.nearest.nearest(runs, query, count, view.segments.holders)
        return _listed(view, *best_of_each(view.segments.holders(slots), scores), count)

    return nearest


def _listed(view: _View, entries: Numbers, scores: Floats, count: int) -> list[Scored]:
    """The `count` best of the entries, best first."""
    best = _best(scores, count)
    return list(zip(view.segments.locations(entries[best].tolist()), scores[best].tolist(), strict=True))


def _nearest_with_terms(
    view: _View, nearest: Callable[[int], list[Scored]], where: SearchFilter, wanted: int, first: int
) -> list[Scored]:
    """The nearest of those entries that have the terms of the filter.

    There are so many that listing them would take longer than examining the `first` nearest, or twice and more as
    many.
    """
    for doublings in count():
        near = nearest(first << doublings)
        having = set(view.lexical.locations(where, {segment for (segment, _), _ in near}))
        kept = [hit for hit in near if hit[0] in having]
        if len(kept) >= wanted or len(near) < first << doublings:
            return kept[:wanted]
    return []


def _best(scores: Floats, count: int) -> Numbers:
    """Positions of the `count` highest scores, best first."""
    worst = np.partition(scores, -count)[-count] if count < len(scores) else -np.inf
    chosen = np.flatnonzero(scores >= worst)
    return chosen[np.argsort(-scores[chosen], kind="stable")[:count]]
