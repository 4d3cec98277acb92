"""Searches within a filter: from words and vector to hits with a confidence."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING

from msgspec import Struct

from opx.domain.knowledge import NO_KNOWLEDGE, KnowledgeModel
from opx.domain.queries import Fusion, SearchMode
from opx.domain.record import replace
from opx.domain.results import IndexedChunk
from opx.errors import EmbeddingError, StoreUnavailableError
from opx.ports import Embedder, Item, SearchEngine, SearchFilter, Vector
from opx.ports.search import WrappedEmbedder
from opx.retrieval.confidence import (
    OTHER,
    JudgedPage,
    Judgement,
    Judges,
    ModelsOf,
    engine_judgement,
    is_far,
    judged,
    shipped,
)
from opx.retrieval.hybrid import (
    BOTH,
    DEPTH,
    LEXICAL,
    VECTOR,
    Accepts,
    FusedHit,
    FusedHits,
    HybridQuery,
    HybridSearch,
    accepted_by,
)
from opx.retrieval.judging import PASSAGES, Judged, pages_of
from opx.retrieval.query_language import ParsedQuery, Question
from opx.retrieval.question import focused, value_words
from opx.text.analyzer import ENGLISH

if TYPE_CHECKING:
    from opx.retrieval.identifiers import Bound, QuestionIdentifier

log = logging.getLogger(__name__)

LOCAL = "local"
"""Ranker named in answers that the library's own models ordered."""


class SearchRules(Struct, frozen=True):
    """Defaults of searches. `legs`: the legs to search; `fusion`: for questions that don't specify it, None for the measured
    default; `rerank`: the order model decides the order, else the fused scores; `reword`: words that the corpus doesn't
    have are corrected and translated."""

    legs: str = BOTH
    fusion: Fusion | None = None
    rerank: bool = True
    reword: bool = True


@dataclass(eq=False)
class TierSearch:
    """Searches for one question at a time; safe to share between threads. No `embedder`: the index embeds by itself. `valid`
    is a filter of hits, `models` are those of confidence, `bound` returns the runbooks of alerts, `knowledge` has the
    categories of reports."""

    index: SearchEngine
    embedder: Embedder | None
    rules: SearchRules
    _: KW_ONLY
    valid: Accepts | None = None
    models: ModelsOf = shipped
    bound: Bound | None = None
    knowledge: KnowledgeModel = NO_KNOWLEDGE

    def __post_init__(self) -> None:
        self._search = HybridSearch(self.index, self.knowledge)

    def vector_of(self, parsed: ParsedQuery) -> Vector | None:
        """The question's vector; None if the index computes its own, there is nothing to embed, the vector leg is off, or
        the model fails, which is noted."""
        if self.rules.legs == LEXICAL:
            return None
        return self._embedded(parsed, parsed.text)

    def _embedded(self, parsed: ParsedQuery, text: str) -> Vector | None:
        """Embeds `text`; None, with a note, if the model fails."""
        embedder = self.embedder
        if embedder is None or not text.strip():
            return None
        try:
            with parsed.timed("embed"):
                return embedder.embed_query(text)
        except EmbeddingError:
            log.exception("query embedding failed")
            parsed.lacks("partial: the vector search is missing (the embedding model is unavailable)")
            return None

    def run(self, parsed: ParsedQuery, vector: Vector | None, where: SearchFilter) -> list[Judged]:
        """The hits that pass the filter and the question's conditions, by document, the likeliest first, followed by
        warnings; none if nothing is near the question. Raises `IndexUnavailableError`."""
        found = self._found(parsed, vector, where)
        parsed.lacking(word for word, entries in found.frequencies.items() if not entries)
        named = self._named(parsed, found)
        found = self._with_all_of(parsed, named, where, found)
        with parsed.timed("judge"):
            judgement = self._judgement(parsed, found)
            pages = self._certain(parsed, named, self._apart(parsed, found, judgement.pages), where)
            is_known = any(one.is_known for one in named)
            far = is_far(judgement, found.entries, english=parsed.languages == ENGLISH)
            is_empty = not (found.words or found.judged)
            if (far or is_empty) and not (is_known or where.document_ids or parsed.question.narrows):
                return []
            hits = self._hits(parsed, pages)
            if found.with_warnings:
                again = self._judgement(parsed, found.with_warnings)
                hits += [one for one in self._hits(parsed, again.pages) if one.warns]
        return hits

    def _named(self, parsed: ParsedQuery, found: FusedHits) -> Sequence[QuestionIdentifier]:
        """The identifiers of the question."""
        if not (parsed.question.identifiers or parsed.question.alert):
            return ()
        from opx.retrieval.identifiers import named_in

        try:
            return named_in(parsed.question, found, self.bound)
        except StoreUnavailableError:
            log.exception("runbooks of alerts can't be looked up")
            parsed.lacks("partial: the runbooks that rules of alerts name are missing (the graph is unavailable)")
            return named_in(parsed.question, found)

    def _with_all_of(
        self,
        parsed: ParsedQuery,
        named: Sequence[QuestionIdentifier],
        where: SearchFilter,
        found: FusedHits,
    ) -> FusedHits:
        """Adds every entry with a rare identifier of the question, and the documents that an alert is bound to: with many
        words, a search may have missed some."""
        wanted = [one for one in named if one.term and one.count and one.is_rare]
        bound = {document_id for one in named for document_id in one.bound}
        if not (wanted or bound):
            return found
        from opx.retrieval.identifiers import holding

        known = {chunk.entry_id: chunk for some in found.passages.values() for chunk in some}
        shown = {chunk.entry_id for hit in found.hits for chunk in (hit.indexed, *hit.copies)}
        is_cut = found.is_cut or len(known) >= DEPTH[parsed.config.mode]
        holders: dict[str, IndexedChunk] = {}
        missing = []
        for one in wanted:
            chunks = holding(one, known.values())
            holders |= {chunk.entry_id: chunk for chunk in chunks}
            if is_cut and len(chunks) < (one.count or 0):
                missing.append(one.term)
        more = []
        if missing:
            more += self._entries(parsed, replace(where, required_terms=(*where.required_terms, tuple(missing))))
        if left := bound - {chunk.chunk.document_id for chunk in known.values()}:
            allowed = left.intersection(where.document_ids or left)
            more += self._entries(parsed, replace(where, document_ids=tuple(sorted(allowed)))) if allowed else []
        holders |= {chunk.entry_id: chunk for chunk in more}
        accepts = accepted_by(parsed.config.require_provenance, _accepts(parsed.question, self.valid))
        added = [
            FusedHit(chunk, 0.0, None, None)
            for chunk in holders.values()
            if chunk.entry_id not in shown and (accepts is None or accepts(chunk))
        ]
        own = found.instructions
        if own is not None:
            ours = [hit for hit in added if not self.knowledge.is_report(hit.indexed.chunk.category)]
            found = replace(found, instructions=_with_hits(own, ours))
        return _with_hits(found, added)

    def _apart(
        self, parsed: ParsedQuery, found: FusedHits, pages: Sequence[JudgedPage]
    ) -> tuple[Sequence[JudgedPage], ...]:
        """The documents of instructions, judged as if there were no reports, and the reports, judged beside them."""
        if found.instructions is None:
            return (pages,)
        known = found.instructions.passages
        reports = [one for one in pages if one.page.document_id not in known]
        return self._judgement(parsed, found.instructions).pages, reports

    def _entries(self, parsed: ParsedQuery, where: SearchFilter) -> list[IndexedChunk]:
        with parsed.timed("search"):
            found = self._search.run(
                HybridQuery(parsed.text, None, whole=True), where, parsed.config, per_document=PASSAGES
            )
        return [hit.indexed for hit in found.hits]

    @staticmethod
    def _certain(
        parsed: ParsedQuery,
        named: Sequence[QuestionIdentifier],
        lanes: Sequence[Sequence[JudgedPage]],
        where: SearchFilter,
    ) -> Sequence[JudgedPage]:
        """Applies certainty by identifiers to the documents of each lane, and records absent ones in `parsed`. An identifier
        that some entry has isn't absent for a search within a category, a tag or the like: its page may be elsewhere."""
        if not named:
            return [page for lane in lanes for page in lane]
        from opx.retrieval.identifiers import absent_of, bounded, certain, is_sought

        pages = [page for lane in lanes for page in certain(lane, named, parsed.question.labels)]
        missing = absent_of(named, pages)
        elsewhere = {one.name for one in named if one.count} if _is_narrow(where) else set()
        parsed.is_missing(one for one in missing if one.name not in elsewhere)
        return bounded(pages) if missing and not is_sought(pages, named) else pages

    def _judgement(self, parsed: ParsedQuery, found: FusedHits) -> Judgement:
        pages = pages_of(found)
        if found.judged:
            return engine_judgement(pages)
        embedder = self.embedder.model_id if self.embedder else OTHER
        judges = self.models(embedder, found.legs, parsed.config.mode)
        if self.rules.rerank:
            parsed.ranked_by = LOCAL
        return judged(focused(parsed.text), found, pages, judges, reorder=self.rules.rerank)

    def _hits(self, parsed: ParsedQuery, pages: Sequence[JudgedPage]) -> list[Judged]:
        most = parsed.config.max_chunks_per_document
        is_report = self.knowledge.is_report
        return [
            Judged(
                hit,
                one.confidence,
                tuple(one.page.evidence),
                one.least,
                one.most,
                one.why,
                is_report=is_report(hit.indexed.chunk.category),
            )
            for one in pages
            for hit in one.page.hits[:most]
        ]

    def _found(self, parsed: ParsedQuery, vector: Vector | None, where: SearchFilter) -> FusedHits:
        """Searches for the question; records timings, notes and failed legs in `parsed`."""
        accepts = _accepts(parsed.question, self.valid)
        by_meaning = self.rules.legs == VECTOR and vector is not None
        values = value_words(parsed.text, parsed.languages)
        query = HybridQuery(
            parsed.text,
            vector,
            parsed.languages,
            accepts,
            by_meaning=by_meaning,
            values=values,
            whole=parsed.question.exact,
        )
        config = replace(parsed.config, fusion=parsed.config.fusion or self.rules.fusion)
        with parsed.timed("search"):
            found = self._search.run(query, where, config, per_document=PASSAGES)
        for leg, taken in found.leg_ms.items():
            parsed.took(leg, taken)
        for note in found.notes:
            parsed.note(note)
        for leg, reason in found.failed_legs.items():
            parsed.lacks(f"partial: the {leg} search is missing ({reason})")
        return found


def _with_hits(found: FusedHits, added: Sequence[FusedHit]) -> FusedHits:
    """Appends further hits."""
    if not added:
        return found
    passages = dict(found.passages)
    for hit in added:
        name = hit.indexed.chunk.document_id
        passages[name] = (*passages.get(name, ()), hit.indexed)
    return replace(found, hits=(*found.hits, *added), levels=(*found.levels, *[0.0] * len(added)), passages=passages)


def _is_narrow(where: SearchFilter) -> bool:
    """True if the filter has conditions other than scopes and tiers."""
    return replace(where, scopes=(), tiers=()) != SearchFilter(scopes=())


def _accepts(question: Question, valid: Accepts | None) -> Accepts | None:
    def accepts(indexed: IndexedChunk) -> bool:
        matches = question.matches(indexed.chunk.title, indexed.chunk.section, indexed.chunk.content)
        return matches and (valid is None or valid(indexed))

    return accepts if question.exact else valid


# -- vectors of the latest questions, for observers of their answers

_KEPT = 8


class RememberedVectors(WrappedEmbedder):
    """An `Embedder` that caches the vectors of the last few questions."""

    def __init__(self, embedder: Embedder) -> None:
        super().__init__(embedder)
        self._vectors: dict[str, Vector] = {}

    def embed_query(self, text: str) -> Vector:
        vector = self._embedder.embed_query(text)
        if len(self._vectors) >= _KEPT:
            self._vectors.clear()
        self._vectors[text] = vector
        return vector

    def of(self, text: str) -> Vector | None:
        """The vector of a question, computed if it isn't cached; None if the model fails."""
        found = self._vectors.get(text)
        try:
            return self._embedder.embed_query(text) if found is None else found
        except EmbeddingError:
            return None


# -- calibrated models (opx.retrieval.calibration.models)

CACHE_SECONDS = 120.0
"""Time after which searches use a new calibration."""

OfLegs = Callable[[str, SearchMode], Judges]


class CalibratedModels:
    """The models for searches: calibrated ones if `kept` has an item for the embedding model, else the shipped ones. Safe to
    share between threads."""

    def __init__(self, kept: Callable[[str], Item | None], clock: Callable[[], float] = time.monotonic) -> None:
        self._kept = kept
        self._clock = clock
        self._seen: dict[str, tuple[float, OfLegs | None]] = {}

    def __call__(self, embedder: str, legs: str, mode: SearchMode) -> Judges:
        if embedder == OTHER:  # the engine embeds questions itself: there is nothing to calibrate for
            return shipped(embedder, legs, mode)
        found = self._current(embedder)
        return found(legs, mode) if found else shipped(embedder, legs, mode)

    def _current(self, embedder: str) -> OfLegs | None:
        """The models, at most `CACHE_SECONDS` old, or older while the table is unavailable."""
        at, known = self._seen.get(embedder, (-math.inf, None))
        now = self._clock()
        if now - at < CACHE_SECONDS:
            return known
        try:
            item = self._kept(embedder)
        except StoreUnavailableError as exc:
            log.warning("calibrated models can't be looked up: %s", exc)
        else:
            known = _models_in(item, embedder) if item else None
        self._seen[embedder] = now, known
        return known


def _models_in(item: Item, embedder: str) -> OfLegs | None:
    from opx.retrieval.calibration.models import models_in  # most searches have none

    return models_in(item, embedder)
