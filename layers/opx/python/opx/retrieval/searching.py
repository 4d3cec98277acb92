"""Routes a question to tiers in order, and searches each: from words and vector to hits with a confidence.

Internal knowledge is always searched first. Vendor and security knowledge is searched if the question names its categories
or one of its identifiers, or if internal knowledge doesn't cover it; the internet only if it was enabled.
"""

from __future__ import annotations

import logging
import math
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from msgspec import Struct

from opx.domain.knowledge import NO_KNOWLEDGE, KnowledgeModel, Tier
from opx.domain.queries import Fusion, SearchMode
from opx.domain.record import replace
from opx.domain.results import TierStep
from opx.errors import EmbeddingError, IndexUnavailableError, StoreUnavailableError
from opx.ports import Embedder, Item, SearchFilter, Vector
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
from opx.retrieval.query_language import ParsedQuery
from opx.retrieval.question import focused, value_words
from opx.retrieval.stages import Found, enough
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
    """Searches the tiers of a question, and judges the hits; safe to share between threads. No `embedder`: the index embeds
    by itself. `models` are those of confidence, `bound` returns the runbooks of alerts.

    Tiers, identifiers and judgement are one stage: the hits of a tier decide if the next one is searched, and entries with
    the question's identifiers are looked up after each.
    """

    name = "search"
    embedder: Embedder | None
    knowledge: KnowledgeModel = NO_KNOWLEDGE
    rules: SearchRules = field(default_factory=SearchRules)
    models: ModelsOf = shipped
    bound: Bound | None = None

    def apply(self, query: ParsedQuery, state: Found) -> Found:
        """The hits of all tiers that were searched, in place of those found so far. Raises `IndexUnavailableError` if the
        first search fails; a later failure is noted."""
        state, vector, router = Found(), self._vector(query), _Router(query, self.knowledge)
        for tier in Tier:
            reason, where = router.decide(tier, state)
            if where is None:
                state.steps.append(TierStep(tier.value, False, reason))
                continue
            try:
                hits = self.search(query, vector, where)
            except IndexUnavailableError:
                if not any(step.searched for step in state.steps):
                    raise
                query.lacks(f"partial: the tier {tier} is missing (the search index didn't answer)")
                hits = []
            good = sum(hit.confidence >= query.config.min_confidence for hit in hits)
            best = max((hit.confidence for hit in hits), default=0.0)
            state.judged.extend(hits)
            state.steps.append(TierStep(tier.value, True, reason, good, best))
        return state

    def _vector(self, query: ParsedQuery) -> Vector | None:
        """The question's vector; None if the index computes its own, there is nothing to embed, the vector leg is off, or
        the model fails, which is noted."""
        embedder = None if query.by_words or self.rules.legs == LEXICAL else self.embedder
        if embedder is None or not query.text.strip():
            return None
        try:
            with query.timed("embed"):
                return embedder.embed_query(query.searched)
        except EmbeddingError:
            log.exception("query embedding failed")
            query.lacks("partial: the vector search is missing (the embedding model is unavailable)")
            return None

    def search(self, query: ParsedQuery, vector: Vector | None, where: SearchFilter) -> list[Judged]:
        """The hits that pass the filter and the question's conditions, by document, the likeliest first, followed by
        warnings; none if nothing is near the question. Raises `IndexUnavailableError`."""
        config = replace(query.config, fusion=query.config.fusion or self.rules.fusion)
        with query.timed("search"):
            hits = HybridSearch(query.engine, self.knowledge).search(
                self._hybrid_query(query, vector), where, config, per_document=PASSAGES
            )
        _report(query, hits)
        named = self._named(query, hits)
        hits = self._with_all_of(query, named, where, hits)
        with query.timed("judge"):
            judgement = self._judgement(query, hits)
            pages = self._certain(query, named, self._apart(query, hits, judgement.pages), where)
            pages = self._its_own_first(query, vector, where, named, pages)
            is_known = any(identifier.is_known for identifier in named)
            far = is_far(judgement, hits.entries, english=query.languages == ENGLISH)
            is_empty = not (hits.words or hits.judged)
            if (far or is_empty) and not (is_known or where.document_ids or query.question.narrows):
                return []
            judged_hits = self._hits(query, pages)
            if hits.with_warnings:
                again = self._judgement(query, hits.with_warnings)
                judged_hits += [hit for hit in self._hits(query, again.pages) if hit.warns]
        return judged_hits

    def _hybrid_query(self, query: ParsedQuery, vector: Vector | None) -> HybridQuery:
        return HybridQuery(
            query.searched,
            vector,
            query.languages,
            _accepts(query),
            by_meaning=self.rules.legs == VECTOR and vector is not None,
            values=value_words(query.searched, query.languages),
        )

    def _named(self, query: ParsedQuery, hits: FusedHits) -> Sequence[QuestionIdentifier]:
        """The identifiers of the question."""
        if not (query.question.identifiers or query.question.alert):
            return ()
        from opx.retrieval.identifiers import named_in

        try:
            return named_in(query.question, hits, self.bound)
        except StoreUnavailableError:
            log.exception("runbooks of alerts can't be looked up")
            query.lacks("partial: the runbooks that rules of alerts name are missing (the graph is unavailable)")
            return named_in(query.question, hits)

    def _with_all_of(
        self,
        query: ParsedQuery,
        named: Sequence[QuestionIdentifier],
        where: SearchFilter,
        hits: FusedHits,
    ) -> FusedHits:
        """Adds every entry with a rare identifier of the question, and the documents that an alert is bound to: with many
        words, a search may have missed some."""
        rare = [identifier for identifier in named if identifier.term and identifier.count and identifier.is_rare]
        bound = {document_id for identifier in named for document_id in identifier.bound}
        if not (rare or bound):
            return hits
        from opx.retrieval.identifiers import holding

        read = {passage.entry_id: passage for passages in hits.passages.values() for passage in passages}
        shown = {one.entry_id for hit in hits.hits for one in (hit, *hit.copies)}
        is_cut = len(read) >= DEPTH[query.config.mode]
        holders: dict[str, FusedHit] = {}
        missing = []
        for identifier in rare:
            passages = holding(identifier, read.values())
            holders |= {passage.entry_id: passage for passage in passages}
            if is_cut and len(passages) < (identifier.count or 0):
                missing.append(identifier.term)
        more: list[FusedHit] = []
        if missing:
            more += self._entries(query, replace(where, required_terms=(*where.required_terms, tuple(missing))))
        if left := bound - {passage.document_id for passage in read.values()}:
            allowed = left.intersection(where.document_ids or left)
            more += self._entries(query, replace(where, document_ids=tuple(sorted(allowed)))) if allowed else []
        holders |= {passage.entry_id: passage for passage in more}
        accepts = accepted_by(query.config.require_provenance, _accepts(query))
        added = [
            FusedHit(entry, passage.record, passage.chunks)
            for entry, passage in holders.items()
            if entry not in shown and accepts(passage)
        ]
        own = hits.instructions
        if own is not None:
            ours = [hit for hit in added if not self.knowledge.is_report(hit.record.facts.category)]
            hits = replace(hits, instructions=_with_hits(own, ours))
        return _with_hits(hits, added)

    def _apart(
        self, query: ParsedQuery, hits: FusedHits, pages: Sequence[JudgedPage]
    ) -> tuple[Sequence[JudgedPage], ...]:
        """The documents of instructions, judged as if there were no reports, and the reports, judged beside them."""
        if hits.instructions is None:
            return (pages,)
        instructions = hits.instructions.passages
        reports = [page for page in pages if page.page.document_id not in instructions]
        return self._judgement(query, hits.instructions).pages, reports

    def _its_own_first(
        self,
        query: ParsedQuery,
        vector: Vector | None,
        where: SearchFilter,
        named: Sequence[QuestionIdentifier],
        pages: Sequence[JudgedPage],
    ) -> Sequence[JudgedPage]:
        """Adds the documents about the resources of an alert, and ranks these first."""
        if not query.question.about:
            return pages
        from opx.retrieval.identifiers import Belonging

        belonging = Belonging(query.question)
        own: dict[str, JudgedPage] = {}
        for narrowed in belonging.filters(where):
            found = HybridSearch(query.engine, self.knowledge).search(
                self._hybrid_query(query, vector), narrowed, query.config, per_document=PASSAGES
            )
            for page in self._judgement(query, found.instructions or found).pages:
                own.setdefault(page.page.document_id, page)
        bound = {document_id for one in named for document_id in one.bound}
        return belonging.ranked(pages, list(own.values()), bound)

    def _entries(self, query: ParsedQuery, where: SearchFilter) -> Sequence[FusedHit]:
        with query.timed("search"):
            search = HybridSearch(query.engine, self.knowledge).search
            return search(HybridQuery(query.text, None), where, query.config, per_document=PASSAGES).hits

    @staticmethod
    def _certain(
        query: ParsedQuery,
        named: Sequence[QuestionIdentifier],
        lanes: Sequence[Sequence[JudgedPage]],
        where: SearchFilter,
    ) -> Sequence[JudgedPage]:
        """Applies certainty by identifiers to the documents of each lane, and records absent ones in `query`. An identifier
        that some entry has isn't absent for a search within a category, a tag or the like: its page may be elsewhere."""
        if not named:
            return [page for lane in lanes for page in lane]
        from opx.retrieval.identifiers import absent_of, bounded, certain, is_sought

        pages = [page for lane in lanes for page in certain(lane, named, query.question.labels)]
        missing = absent_of(named, pages)
        elsewhere = {identifier.name for identifier in named if identifier.count} if _is_narrow(where) else set()
        query.is_missing(absent for absent in missing if absent.name not in elsewhere)
        return bounded(pages) if missing and not is_sought(pages, named) else pages

    def _judgement(self, query: ParsedQuery, hits: FusedHits) -> Judgement:
        pages = pages_of(hits)
        if hits.judged:
            return engine_judgement(pages)
        embedder = self.embedder.model_id if self.embedder else OTHER
        judges = self.models(embedder, hits.legs, query.config.mode)
        if self.rules.rerank:
            query.ranked_by = LOCAL
        return judged(focused(query.searched), hits, pages, judges, reorder=self.rules.rerank)

    def _hits(self, query: ParsedQuery, pages: Sequence[JudgedPage]) -> list[Judged]:
        most = query.config.max_chunks_per_document
        is_report = self.knowledge.is_report
        return [
            Judged(
                hit,
                page.confidence,
                tuple(page.page.evidence),
                page.least,
                page.most,
                page.why,
                is_report=is_report(hit.record.facts.category),
            )
            for page in pages
            for hit in page.page.hits[:most]
        ]


def _report(query: ParsedQuery, hits: FusedHits) -> None:
    """Records the timings, notes, failed legs and unknown words of a search in the question's state."""
    for leg, taken in hits.leg_ms.items():
        query.took(leg, taken)
    for note in hits.notes:
        query.note(note)
    for leg, reason in hits.failed_legs.items():
        query.lacks(f"partial: the {leg} search is missing ({reason})")
    query.lacking(word for word, entries in hits.frequencies.items() if not entries)


def _with_hits(hits: FusedHits, added: Sequence[FusedHit]) -> FusedHits:
    """Appends further hits."""
    if not added:
        return hits
    passages = dict(hits.passages)
    for hit in added:
        passages[hit.document_id] = (*passages.get(hit.document_id, ()), hit)
    return replace(hits, hits=(*hits.hits, *added), levels=(*hits.levels, *[0.0] * len(added)), passages=passages)


def _is_narrow(where: SearchFilter) -> bool:
    """True if the filter has conditions other than scopes and tiers."""
    return replace(where, scopes=(), tiers=()) != SearchFilter(scopes=())


def _accepts(query: ParsedQuery) -> Accepts:
    question, valid = query.question, query.valid

    def accepts(hit: FusedHit) -> bool:
        if valid is not None and not valid(hit.record):
            return False
        return not question.exact or question.matches(hit.chunk.title, hit.chunk.section, hit.chunk.content)

    return accepts


# -- routing

_KEPT_ELSEWHERE = re.compile(
    r"CVE-\d{4}-\d{4,}|CWE-\d+|T\d{4}(?:\.\d{3})?|RFC[ -]?\d{1,5}|KB\d{6,7}|GHSA(?:-\w{4}){3}", re.IGNORECASE
)
"""Identifiers of vulnerabilities, weaknesses, techniques, standards and vendors' articles."""


class _Router:
    """Decides for each tier if it is searched for a question."""

    def __init__(self, query: ParsedQuery, knowledge: KnowledgeModel) -> None:
        self._query = query
        self._categories = knowledge.categories

    def decide(self, tier: Tier, state: Found) -> tuple[str, SearchFilter | None]:
        """The reason why the tier is searched or not, and the filter to search it with, None if it is not."""
        config = self._query.config
        if tier not in config.searched_tiers:
            return ("it was not enabled" if tier is Tier.INTERNET else "it was not requested"), None
        where = self._within(tier)
        if where is None:
            return "nothing of it passes the question's filters", None
        if tier is not Tier.SPECIALIZED:
            return ("always first" if tier is Tier.INTERNAL else "it was enabled"), where
        if reason := self._wanted_anyway(state, where):
            return reason, where
        covered, needed = state.covered(config), enough(config)
        reason = f"{covered} of our own documents have a good result"
        return (f"{reason}, fewer than {needed}", where) if covered < needed else (reason, None)

    def _wanted_anyway(self, state: Found, where: SearchFilter) -> str:
        reasons = {
            "its categories were requested": bool(where.categories),
            "a document was requested": bool(where.document_ids),
            "nothing before it was searched": not any(step.searched for step in state.steps),
        }
        names = (name for name in self._query.question.identifiers if _KEPT_ELSEWHERE.fullmatch(name))
        if named := next(names, ""):
            reasons[f"the question names {named}"] = True
        return next((reason for reason, holds in reasons.items() if holds), "")

    def _within(self, tier: Tier) -> SearchFilter | None:
        """The filter for one tier; None if nothing can pass it."""
        categories = self._of(tier, self._query.where.categories)
        if self._query.where.categories and not categories:
            return None
        within_tier = replace(self._query.where, tiers=(tier.value,), categories=categories)
        narrowed = self._query.question.narrowed(within_tier)
        if narrowed is None or not narrowed.categories:
            return narrowed
        kept = self._of(tier, narrowed.categories)
        return replace(narrowed, categories=kept) if kept else None

    def _of(self, tier: Tier, paths: Sequence[str]) -> tuple[str, ...]:
        """Those of the categories that are of a tier, or unknown."""
        categories = self._categories
        return tuple(path for path in paths if path not in categories or categories[path].tier is tier)


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
        vector = self._vectors.get(text)
        try:
            return self._embedder.embed_query(text) if vector is None else vector
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
        models = self._current(embedder)
        return models(legs, mode) if models else shipped(embedder, legs, mode)

    def _current(self, embedder: str) -> OfLegs | None:
        """The models, at most `CACHE_SECONDS` old, or older while the table is unavailable."""
        at, models = self._seen.get(embedder, (-math.inf, None))
        now = self._clock()
        if now - at < CACHE_SECONDS:
            return models
        try:
            item = self._kept(embedder)
        except StoreUnavailableError as exc:
            log.warning("calibrated models can't be looked up: %s", exc)
        else:
            models = _models_in(item, embedder) if item else None
        self._seen[embedder] = now, models
        return models


def _models_in(item: Item, embedder: str) -> OfLegs | None:
    from opx.retrieval.calibration.models import models_in  # most searches have none

    return models_in(item, embedder)
