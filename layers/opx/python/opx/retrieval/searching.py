"""One search within a filter: from words and vector to hits with a confidence."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from opx.domain.queries import Fusion, SearchMode
from opx.domain.record import replace
from opx.domain.results import IndexedChunk
from opx.errors import EmbeddingError, ModelError, StoreUnavailableError
from opx.ports import Embedder, Item, SearchEngine, SearchFilter, Vector, Vectors
from opx.retrieval.confidence import (
    OTHER,
    JudgedPage,
    Judgement,
    Judges,
    ModelsOf,
    as_the_engine_says,
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
    Asking,
    FusedHit,
    FusedHits,
    HybridSearch,
    accepted_by,
)
from opx.retrieval.judging import PASSAGES, Judged, pages_of
from opx.retrieval.query_language import ParsedQuery, Question
from opx.retrieval.question import focused
from opx.runtime.threads import within
from opx.text.analyzer import ENGLISH
from opx.text.fields import words

if TYPE_CHECKING:
    from opx.retrieval.identifiers import Bound, QuestionIdentifier

log = logging.getLogger(__name__)

EMBED_SECONDS = 3.0
"""After so long the words alone are searched. A model that was not used for a while takes a second or two."""

LOCAL = "local"
"""Named in answers where the library's own models decided the order."""


@dataclass(frozen=True, slots=True)
class SearchRules:
    """`legs`: which are searched; `fusion`: how they become one list where a question doesn't say it, None for the
    measured default; `rerank`: whether the order model decides the order, or the fused scores do; `reword`: whether words
    that the corpus doesn't have are corrected and translated."""

    legs: str = BOTH
    fusion: Fusion | None = None
    rerank: bool = True
    reword: bool = True


class TierSearch:
    """Searches for one question at a time; threads may share it. No `embedder`: the index embeds by itself. `valid` says
    which hits may be shown at all, `models` are those of confidence, `bound` gives the runbooks of alerts."""

    def __init__(
        self,
        index: SearchEngine,
        embedder: Embedder | None,
        rules: SearchRules,
        *,
        valid: Accepts | None = None,
        models: ModelsOf = shipped,
        bound: Bound | None = None,
    ) -> None:
        self._valid = valid
        self._bound = bound
        self._search = HybridSearch(index)
        self._embedder = embedder
        self._rules = rules
        self._models = models

    def vector_of(self, asked: ParsedQuery) -> Vector | None:
        """The question's vector; None if the index makes its own, there is nothing to embed, it isn't wanted, or the
        model fails, which is noted."""
        if self._rules.legs == LEXICAL:
            return None
        return self._embedded(asked, asked.text)

    def _embedded(self, asked: ParsedQuery, text: str) -> Vector | None:
        """The vector of a text for this question."""
        embedder = self._embedder
        if embedder is None or not text.strip():
            return None
        try:
            with asked.timed("embed"):
                return within(EMBED_SECONDS, lambda: embedder.embed_query(text), "the embedding model")
        except (EmbeddingError, ModelError):
            log.exception("query embedding failed")
            asked.lacks("partial: the vector search is missing (the embedding model is unavailable)")
            return None

    def run(self, asked: ParsedQuery, vector: Vector | None, where: SearchFilter) -> list[Judged]:
        """The hits that pass the filter and the question's conditions, document by document, the likeliest first, and then
        warnings; none if nothing is near the question. Raises `IndexUnavailableError`."""
        found = self._found(asked, vector, where, asked.text)
        asked.lacking(word for word, entries in found.frequencies.items() if not entries)
        text, focus = self._focused(asked, vector, where, found)
        named = self._named(asked, found)
        found, focus = self._with_all_of(asked, named, where, found, focus)
        with asked.timed("judge"):
            judgement = self._judgement(asked, text, found, focus)
            pages = self._certain(asked, named, judgement, where)
            is_known = any(one.is_known for one in named)
            far = is_far(judgement, found.entries, english=asked.languages == ENGLISH)
            is_empty = not (found.words or found.judged)
            if (far or is_empty) and not (is_known or where.document_ids or asked.question.narrows):
                return []
            hits = self._hits(asked, pages)
            if found.with_warnings:
                again = self._judgement(asked, text, found.with_warnings, focus.with_warnings or focus)
                hits += [one for one in self._hits(asked, again.pages) if one.warns]
        return hits

    def _named(self, asked: ParsedQuery, found: FusedHits) -> Sequence[QuestionIdentifier]:
        """The identifiers of the question."""
        if not (asked.question.identifiers or asked.question.alert):
            return ()
        from opx.retrieval.identifiers import named_in

        try:
            return named_in(asked.question, found, self._bound)
        except StoreUnavailableError:
            log.exception("runbooks of alerts can't be looked up")
            asked.lacks("partial: the runbooks that rules of alerts name are missing (the graph is unavailable)")
            return named_in(asked.question, found)

    def _with_all_of(
        self,
        asked: ParsedQuery,
        named: Sequence[QuestionIdentifier],
        where: SearchFilter,
        found: FusedHits,
        focus: FusedHits,
    ) -> tuple[FusedHits, FusedHits]:
        """Both, with every entry that has a rare identifier of the question, and the documents that an alert is bound to:
        among many words some may have been left out."""
        wanted = [one for one in named if one.term and one.count and one.is_rare]
        bound = {document_id for one in named for document_id in one.bound}
        if not (wanted or bound):
            return found, focus
        from opx.retrieval.identifiers import holding

        searches = (found,) if focus is found else (found, focus)
        known = {chunk.entry_id: chunk for one in searches for some in one.passages.values() for chunk in some}
        shown = {chunk.entry_id for one in searches for hit in one.hits for chunk in (hit.indexed, *hit.copies)}
        is_cut = len(known) >= DEPTH[asked.config.mode]
        holders: dict[str, IndexedChunk] = {}
        missing = []
        for one in wanted:
            chunks = holding(one, known.values())
            holders |= {chunk.entry_id: chunk for chunk in chunks}
            if is_cut and len(chunks) < (one.count or 0):
                missing.append(one.term)
        more = []
        if missing:
            more += self._entries(asked, replace(where, required_terms=(*where.required_terms, tuple(missing))))
        if left := bound - {chunk.chunk.document_id for chunk in known.values()}:
            allowed = left.intersection(where.document_ids or left)
            more += self._entries(asked, replace(where, document_ids=tuple(sorted(allowed)))) if allowed else []
        holders |= {chunk.entry_id: chunk for chunk in more}
        accepts = accepted_by(asked.config.require_provenance, _accepts(asked.question, self._valid))
        added = [
            FusedHit(chunk, 0.0, None, None)
            for chunk in holders.values()
            if chunk.entry_id not in shown and (accepts is None or accepts(chunk))
        ]
        whole = _with_hits(found, added)
        return whole, whole if focus is found else _with_hits(focus, added)

    def _entries(self, asked: ParsedQuery, where: SearchFilter) -> list[IndexedChunk]:
        with asked.timed("search"):
            found = self._search.run(Asking(asked.text, None), where, asked.config, per_document=PASSAGES)
        return [hit.indexed for hit in found.hits]

    @staticmethod
    def _certain(
        asked: ParsedQuery, named: Sequence[QuestionIdentifier], judgement: Judgement, where: SearchFilter
    ) -> Sequence[JudgedPage]:
        """The documents with what identifiers make certain, and in `asked` what is absent. Of what some entry has, a search
        within a category, a tag or the like can't say that: its page may be elsewhere."""
        if not named:
            return judgement.pages
        from opx.retrieval.identifiers import absent_of, bounded, certain, is_sought

        pages = certain(judgement.pages, named, asked.question.labels)
        missing = absent_of(named, pages)
        elsewhere = {one.name for one in named if one.count} if _is_narrow(where) else set()
        asked.is_missing(one for one in missing if one.name not in elsewhere)
        return bounded(pages) if missing and not is_sought(pages, named) else pages

    def _focused(
        self, asked: ParsedQuery, vector: Vector | None, where: SearchFilter, found: FusedHits
    ) -> tuple[str, FusedHits]:
        """In thorough searches the question without its values, and the hits of a search for that; else the question with
        what was found."""
        if asked.config.mode is not SearchMode.THOROUGH or found.judged:
            return asked.text, found
        text = focused(asked.text, lambda word: any(found.frequencies.get(first, 0) for first in words(word)))
        if text == asked.text:
            return text, found
        return text, self._found(asked, None if vector is None else self._embedded(asked, text), where, text)

    def _judgement(self, asked: ParsedQuery, text: str, whole: FusedHits, focus: FusedHits) -> Judgement:
        pages = pages_of(whole, focus)
        if whole.judged:
            return as_the_engine_says(pages)
        embedder = self._embedder.model_id if self._embedder else OTHER
        judges = self._models(embedder, whole.legs, asked.config.mode)
        if self._rules.rerank:
            asked.ranked_by = LOCAL
        return judged(text, focus, pages, judges, reorder=self._rules.rerank)

    @staticmethod
    def _hits(asked: ParsedQuery, pages: Sequence[JudgedPage]) -> list[Judged]:
        most = asked.config.max_chunks_per_document
        return [
            Judged(hit, one.confidence, tuple(one.page.evidence), one.least, one.most, one.why)
            for one in pages
            for hit in one.page.hits[:most]
        ]

    def _found(self, asked: ParsedQuery, vector: Vector | None, where: SearchFilter, text: str) -> FusedHits:
        """The fused hits for a text, and in `asked` what they lack."""
        accepts = _accepts(asked.question, self._valid)
        by_meaning = self._rules.legs == VECTOR and vector is not None
        asking = Asking(text, vector, asked.languages, accepts, by_meaning=by_meaning)
        config = replace(asked.config, fusion=asked.config.fusion or self._rules.fusion)
        with asked.timed("search"):
            found = self._search.run(asking, where, config, per_document=PASSAGES)
        for leg, taken in found.leg_ms.items():
            asked.took(leg, taken)
        for note in found.notes:
            asked.note(note)
        for leg, reason in found.failed_legs.items():
            asked.lacks(f"partial: the {leg} search is missing ({reason})")
        return found


def _with_hits(found: FusedHits, added: Sequence[FusedHit]) -> FusedHits:
    """The same with further hits behind the others."""
    if not added:
        return found
    passages = dict(found.passages)
    for hit in added:
        name = hit.indexed.chunk.document_id
        passages[name] = (*passages.get(name, ()), hit.indexed)
    return replace(found, hits=(*found.hits, *added), levels=(*found.levels, *[0.0] * len(added)), passages=passages)


def _is_narrow(where: SearchFilter) -> bool:
    """True if it leaves anything out of its scopes and tiers."""
    return replace(where, scopes=(), tiers=()) != SearchFilter(scopes=())


def _accepts(question: Question, valid: Accepts | None) -> Accepts | None:
    def accepts(indexed: IndexedChunk) -> bool:
        matches = question.matches(indexed.chunk.title, indexed.chunk.section, indexed.chunk.content)
        return matches and (valid is None or valid(indexed))

    return accepts if question.exact else valid


# -- the vectors of the latest questions, for what looks at an answer afterwards

_KEPT = 8


class RememberedVectors:
    """An `Embedder` that remembers the last few questions."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._vectors: dict[str, Vector] = {}

    @property
    def model_id(self) -> str:
        return self._embedder.model_id

    @property
    def dimension(self) -> int:
        return self._embedder.dimension

    def embed_documents(self, texts: Sequence[str]) -> list[Vectors]:
        return self._embedder.embed_documents(texts)

    def embed_query(self, text: str) -> Vector:
        vector = self._embedder.embed_query(text)
        if len(self._vectors) >= _KEPT:
            self._vectors.clear()
        self._vectors[text] = vector
        return vector

    def of(self, text: str) -> Vector | None:
        """The vector of a question, for which the model is asked if need be; None if it fails."""
        found = self._vectors.get(text)
        try:
            return self._embedder.embed_query(text) if found is None else found
        except EmbeddingError:
            return None


# -- models that are calibrated on the corpus (opx.retrieval.calibration.models)

CACHE_SECONDS = 120.0
"""After which searches see a new calibration."""

OfLegs = Callable[[str, SearchMode], Judges]


class CalibratedModels:
    """The models for searches: calibrated ones where `kept` has a row for the embedding model, else the shipped ones. Threads
    may share it."""

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
        """The models that were read at most `CACHE_SECONDS` ago, or longer ago while the table doesn't answer."""
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
