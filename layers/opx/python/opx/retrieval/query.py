"""Answers questions: parses, routes, searches, judges and ranks, and degrades with notes when a part fails."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct

from opx.domain.documents import DEFAULT_LANGUAGE
from opx.domain.ids import day_number, stable_hash
from opx.domain.knowledge import KnowledgeModel, Tier
from opx.domain.queries import MAX_QUERY_CHARACTERS, Band, Expand, QueryConfig, SearchMode, band_of
from opx.domain.record import replace
from opx.domain.results import Answer, FoundText, Hit, Results, RetrievalResult, TierStep
from opx.domain.scopes import Reader
from opx.errors import IndexUnavailableError, InvalidInputError, StoreUnavailableError
from opx.ports import Clock, Embedder, SearchEngine, SearchFilter
from opx.ports.search import WakeableIndex
from opx.retrieval.confidence import ModelsOf, shipped
from opx.retrieval.hybrid import LEXICAL
from opx.retrieval.judging import HELD_BACK, Judged, OutcomeLookup, Validity, outcomes_of, result_of, without_copies
from opx.retrieval.query_language import ParsedQuery, parse_query, seeks_exposure
from opx.retrieval.question import Question, Why
from opx.retrieval.routing import WORTHLESS, Internet, Routed, Router, calls_for_action, in_order, live_results
from opx.retrieval.searching import SearchRules, TierSearch
from opx.runtime.metrics import Metric, Report

if TYPE_CHECKING:
    from opx.domain.documents import KnowledgeDocument
    from opx.domain.results import ExpandGraph
    from opx.retrieval.documents import Expander
    from opx.retrieval.identifiers import Bound
    from opx.retrieval.learned_words import LearnedWords
    from opx.retrieval.reranking import RerankStage
    from opx.retrieval.words_only import Substitute

log = logging.getLogger(__name__)

INDEX_DOWN = "the search index is unavailable: nothing was searched"
INDEX_EMPTIED = (
    "the search index has none of the documents in the catalog: it was lost, or replaced by an empty one. `opx rebuild` "
    "(on AWS: `opx reindex`) restores it from the corpus"
)
NO_TIER = "no tier to search: the internet tier needs include_internet"
NOT_CONFIGURED = (
    "no web search is configured: add `internet: {search_provider: brave, api_key_env: BRAVE_API_KEY}` to knowledge.yaml "
    "and set that secret"
)
UNSEARCHED = "waiting to be ingested, not searched yet: `opx ingest` or `opx run` continues"
"""End of the note of an answer without a good result, while documents wait."""
NO_GRAPH = "this knowledge base has no graph"
NO_METADATA = "the metadata that these documents were given could not be read"
NO_PAST = "this knowledge base can't answer as of a time that is over"

_Found = tuple[ParsedQuery, Router, Routed]
"""A question with its state after the search, the router, and the hits."""

Past = Callable[[ParsedQuery, SearchFilter, SearchEngine], SearchEngine]
"""Returns the search engine for a question as of a past time, in place of the index. Raises `StoreUnavailableError`."""

MAX_CHANGES = 50
"""Changes of a question's words that an answer lists."""

Documents = Callable[[Sequence[tuple[str, str]]], Mapping[tuple[str, str], "KnowledgeDocument"]]
"""Returns the documents with these key ids and document ids. Raises `StoreUnavailableError`."""


@dataclass(eq=False, kw_only=True)
class KnowledgeQuery:
    """Answers questions of one `reader`, whose scopes are part of every search and can't be widened by a question.

    No `embedder`: the index embeds questions itself. `models` are those of confidence. `internet` answers questions from
    the web, if it is configured; `reranker` reads the best documents of thorough searches; `expander` reads the text around
    a passage; `graph` expands the found results along edges; `experience` looks up recorded outcomes of documents;
    `documents` returns the documents of results, for their metadata; `learnt` returns the words that were learnt from
    incidents, None if there are none; `bound` returns the runbooks that rules of alerts name; documents of the categories
    `hidden` are never found; `emptied` is called if nothing was found, and returns True if that is because the index is
    lost; `waiting` is called if nothing good was found, and returns the number of documents that wait to be ingested;
    `words` returns what to search by words alone while the index wakes up, None if it is awake.
    """

    index: SearchEngine
    embedder: Embedder | None
    knowledge: KnowledgeModel
    reader: Reader
    rules: SearchRules = field(default_factory=SearchRules)
    models: ModelsOf = shipped
    reranker: RerankStage | None = None
    internet: Internet | None = None
    expander: Expander | None = None
    graph: ExpandGraph | None = None
    experience: OutcomeLookup | None = None
    bound: Bound | None = None
    documents: Documents = lambda _: {}
    learnt: Callable[[], LearnedWords | None] | None = None
    past: Past | None = None
    emptied: Callable[[], bool] = lambda: False
    waiting: Callable[[], int] = lambda: 0
    words: Callable[[], Substitute | None] | None = None
    clock: Clock = time.time
    hidden: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        self._validity = Validity(self.knowledge, self.clock, self.hidden)
        self._search_of = partial(
            TierSearch,
            embedder=self.embedder,
            rules=self.rules,
            models=self.models,
            bound=self.bound,
            knowledge=self.knowledge,
        )

    def query(self, query: str, config: QueryConfig | None = None, *, expand_graph: bool = False) -> Results:
        """The results that reach `min_confidence`, ranked by confidence x trust; the list's `unconfirmed` has the best of
        the others, with their `band`. Both are empty if nothing is near the question. Raises as `answer`.

        `expand_graph` is a shortcut for that of `QueryConfig`; the evidence pack itself is in the `Answer` of `answer`.
        """
        answer = self.answer(query, with_graph(config) if expand_graph else config)
        found = Results(answer.results)
        found.unconfirmed = answer.unconfirmed
        return found

    def answer(self, query: str, config: QueryConfig | None = None) -> Answer:
        """Like `query`, with notes on what was left out and why: failures of parts are noted in the answer, not raised.

        With `expand_graph`, the answer has an evidence pack: the results with what is related to them and to the nodes that
        the question names. In the graph, the question's filters limit only the tiers: relations lead elsewhere.

        Raises `UnknownCategoryError` for a category that doesn't exist, and `StoreUnavailableError` if nothing could be
        searched (`IndexWakingError` while the index wakes up): an empty answer would look like "no knowledge".
        """
        parsed = parse_query(query, config or QueryConfig(), self.knowledge)
        by_index = self.words is None or parsed.config.as_of
        if by_index and isinstance(self.index, WakeableIndex):
            self.index.wake()
        where, day = self._filter(parsed.config), self._validity.day(parsed.config.as_of)
        if not parsed.config.searched_tiers:  # to the index, no tier means every tier
            parsed.note(NO_TIER)
            return _answer(parsed)
        try:
            parsed, router, routed = self._by_words(parsed, where, day) or self._by_index(parsed, where, day)
        except StoreUnavailableError:
            parsed.lacks(INDEX_DOWN)
            related = self._related(parsed, _answer(parsed))
            if related.evidence is None or not related.evidence.items:  # "nothing was found" would be wrong
                raise
            log.exception("search failed")
            return related
        known = outcomes_of(parsed, self.experience, routed.judged)
        merged = self._ranked(parsed, known.weighed(routed.judged), routed)
        live, step = live_results(parsed, self.internet, router.covered(merged), router.enough)
        shown = merged if live else _shown(parsed.config, merged)
        results = _with_live(parsed, self._results(parsed, shown, day), live)
        results = _marked(results) if calls_for_action(parsed.text) else results
        self._note_waiting(parsed, results)
        answer = self._expanded(parsed, _answer(parsed, results, (*routed.steps, *step)))
        return self._related(parsed, _with_learnt(parsed, known.annotated(answer)), merged)

    def search_internet(self, query: str, max_results: int = 5) -> list[RetrievalResult]:
        """Results of a live search of the web, ranked by confidence x trust; `[]` if there is none, or it fails."""
        return list(self.internet_answer(query, max_results).results)

    def internet_answer(self, query: str, max_results: int = 5) -> Answer:
        """Like `search_internet`, with failures in the notes. Raises `InvalidInputError` for `max_results` below 1. Nothing
        about the reader is sent."""
        if self.internet is None:
            return Answer(query, (), notes=(NOT_CONFIGURED,))
        return self.internet(query, max_results)

    def _results(self, parsed: ParsedQuery, shown: Sequence[Judged], day: str) -> list[RetrievalResult]:
        names = [(one.hit.indexed.key_id, one.hit.indexed.chunk.document_id) for one in shown]
        try:
            known = self.documents(names)
        except StoreUnavailableError:
            log.exception("the documents of results can't be read")
            parsed.note(NO_METADATA)
            known = {}
        return [result_of(one, day, known.get(name)) for one, name in zip(shown, names, strict=True)]

    def _by_words(self, parsed: ParsedQuery, where: SearchFilter, day: str) -> _Found | None:
        """Searches by words alone while the index wakes up; None, and the question unchanged, if the index is awake, if there
        are no words to search, or if they find nothing: then the index may."""
        substitute = None if self.words is None or parsed.config.as_of else self.words()
        if substitute is None:
            return None
        attempt = replace(parsed, notes=list(parsed.notes), timings={})
        attempt.lacks(substitute.note)
        search = self._search_of(
            substitute.engine, valid=self._validity.on(day), rules=replace(self.rules, legs=LEXICAL)
        )
        try:
            router, routed = self._routed(attempt, where, search, substitute.engine)
        except StoreUnavailableError:
            log.exception("the words of the corpus can't be searched")
            return None
        return (attempt, router, routed) if routed.judged else None

    def _by_index(self, parsed: ParsedQuery, where: SearchFilter, day: str) -> _Found:
        engine = self._searched(parsed, where)
        search = self._search_of(engine, valid=self._validity.on(day))
        router, routed = self._routed(parsed, where, search, engine)
        if not (routed.judged or parsed.config.as_of) and self.emptied():
            raise IndexUnavailableError(INDEX_EMPTIED)
        return parsed, router, routed

    def _routed(
        self, parsed: ParsedQuery, where: SearchFilter, search: TierSearch, engine: SearchEngine
    ) -> tuple[Router, Routed]:
        """Searches tier by tier, then again with other words where these help."""
        as_typed = parsed.question

        def router_within(document_ids: tuple[str, ...] = where.document_ids) -> Router:
            vector, within_documents = search.vector_of(parsed), replace(where, document_ids=document_ids)
            return Router(parsed, self.knowledge, within_documents, lambda within: search.run(parsed, vector, within))

        router = router_within()
        routed = router.run()
        if not routed.judged and parsed.relaxed():
            routed = router.run()
        in_words = not (as_typed.plain or as_typed.pasted or as_typed.alert)
        if in_words and parsed.unknown and self.rules.reword:
            routed = self._reworded(parsed, as_typed, engine, lambda: router_within().run()) or routed
        if in_words:
            self._add_learnt(parsed, as_typed, engine, routed, lambda page: router_within((page,)).run())
        return router, routed

    def _searched(self, parsed: ParsedQuery, where: SearchFilter) -> SearchEngine:
        """The index, or the engine that replaces it as of a past time."""
        if not parsed.config.as_of:
            return self.index
        if self.past is None:
            raise InvalidInputError(NO_PAST)
        return self.past(parsed, where, self.index)

    def _reworded(
        self, parsed: ParsedQuery, as_typed: Question, engine: SearchEngine, search: Callable[[], Routed]
    ) -> Routed | None:
        """Searches with the question's unknown words corrected and translated; None, and the question unchanged, if there is
        nothing to change or nothing is found."""
        from opx.retrieval.rewording import reworded

        before, other, found = parsed.question, None, None
        try:
            with parsed.timed("reword"):
                other = reworded(parsed, as_typed, engine, self.reader.visible)
            if other is None:
                return None
            parsed.question = replace(before, text=other.text)
            found = search()
        except StoreUnavailableError:
            log.exception("a question can't be reworded")
        if other is None or found is None or not found.judged:
            parsed.question = before
            return None
        parsed.changes = other.changes
        parsed.note(other.note)
        return found

    def _add_learnt(
        self,
        parsed: ParsedQuery,
        as_typed: Question,
        engine: SearchEngine,
        routed: Routed,
        search: Callable[[str], Routed],
    ) -> None:
        """Adds pages that learnt words of the question mean, unless a document is sure. `search` searches within one page.
        Not for past times, as learnt words are today's, nor for questions within a document."""
        if self.learnt is None or parsed.config.as_of or parsed.config.document_id or _is_sure(routed):
            return
        before = parsed.question
        try:
            learnt = self.learnt()
            if learnt is None:
                return
            from opx.retrieval.learned_words import StandIns, add_pages

            add_pages(parsed, StandIns(engine, learnt, self.reader.visible).of(parsed, as_typed), routed, search)
        except StoreUnavailableError:
            log.exception("learnt words can't be looked up")
        finally:
            parsed.question = before

    def _filter(self, config: QueryConfig) -> SearchFilter:
        categories: list[str] = []
        for name in config.categories or ():
            categories.extend(self.knowledge.within(name))
        return SearchFilter(
            scopes=self.reader.visible,
            categories=tuple(dict.fromkeys(categories)),
            tiers=tuple(tier.value for tier in config.searched_tiers),
            tags=tuple(config.tags),
            document_ids=(config.document_id,) if config.document_id else (),
            languages=(config.language,) if config.language else (),
            services=tuple(config.services),
            updated_from=day_number(config.updated_from) if config.updated_from else None,
            updated_before=day_number(config.updated_before) if config.updated_before else None,
        )

    def _note_waiting(self, parsed: ParsedQuery, results: Sequence[RetrievalResult]) -> None:
        """Notes that documents wait to be ingested, if nothing good was found. Readers of a client get no number: it would
        disclose how much of other clients waits."""
        good = good_from(parsed.config)
        is_answered = any(one.confidence >= good for one in results) and not parsed.absent
        if is_answered or parsed.config.as_of:
            return
        if waiting := self.waiting():
            number = "some" if self.reader.identity.client_id else f"{waiting:,}"
            noun = "document is" if number == "1" else "documents are"
            parsed.note(f"{number} {noun} {UNSEARCHED}")

    def _ranked(self, parsed: ParsedQuery, judged: Sequence[Judged], routed: Routed) -> list[Judged]:
        """Ranks the hits, without near-duplicates; in thorough searches after reranking."""
        merged = self._merged(parsed, judged)
        if routed.is_mixed:
            merged = without_copies(merged)
        if self.reranker is not None and parsed.config.mode is SearchMode.THOROUGH:
            merged = self._merged(parsed, self.reranker.read(parsed, merged))
        return merged

    def _merged(self, parsed: ParsedQuery, judged: Sequence[Judged]) -> list[Judged]:
        """Ranks the hits. For a question that asks to act, reports come after all instructions that may help, and none is
        surer than the best of these; hits from the internet come last."""
        if not calls_for_action(parsed.text):
            return in_order(judged)
        outside = [one for one in judged if one.hit.indexed.tier is Tier.INTERNET]
        inside = [one for one in judged if one.hit.indexed.tier is not Tier.INTERNET]
        helpful = [one for one in inside if not one.is_report and one.confidence >= WORTHLESS]
        most = max((one.confidence for one in helpful), default=1.0)
        reports = [replace(one, confidence=min(one.confidence, most)) for one in inside if one.is_report]
        others = [one for one in inside if not one.is_report and one.confidence < WORTHLESS]
        return [*in_order(helpful, last=[*reports, *others]), *in_order(outside)]

    def _expanded(self, parsed: ParsedQuery, answer: Answer) -> Answer:
        """Adds more text of each document, if requested."""
        expand = parsed.config.expand
        if expand is Expand.NONE or self.expander is None:
            return answer
        with parsed.timed("expand"):
            results, notes = self.expander.expanded(answer.results, expand)
        return replace(answer, results=results, notes=(*answer.notes, *notes), timings_ms=parsed.timings)

    def _related(self, parsed: ParsedQuery, answer: Answer, found: Sequence[Judged] = ()) -> Answer:
        """Adds evidence from the graph, if requested or if the question is about what a vulnerability affects."""
        if not parsed.config.expand_graph and (self.graph is None or not seeks_exposure(parsed.query)):
            return answer
        if self.graph is None:
            return replace(answer, notes=(*answer.notes, NO_GRAPH))
        hits = [Hit(one.hit.indexed.key_id, one.hit.indexed.chunk.chunk_id, one.confidence) for one in found]
        text = parsed.query[:MAX_QUERY_CHARACTERS]  # `service:checkout` is a filter of searches, here a name
        tiers = frozenset(parsed.config.searched_tiers)
        with parsed.timed("graph"):
            evidence, notes = self.graph(FoundText(text, parsed.question.identifiers, answer.results, hits, tiers))
        return replace(
            answer,
            evidence=evidence,
            partial=answer.partial or bool(notes),
            notes=(*answer.notes, *notes),
            timings_ms=parsed.timings,
        )


def with_graph(config: QueryConfig | None) -> QueryConfig:
    """The same configuration with `expand_graph`."""
    return replace(config or QueryConfig(), expand_graph=True)


_LEAST, _MOST = Band.LIKELY.least, QueryConfig().min_confidence
"""Results below `_LEAST` answer nothing, even if they are shown; an unmet `min_confidence` above `_MOST` is no gap."""


def good_from(config: QueryConfig) -> float:
    """The confidence from which a result is a good answer: the requested one, and at least likely."""
    return min(max(config.min_confidence, _LEAST), _MOST)


def _shown(config: QueryConfig, merged: Sequence[Judged]) -> Sequence[Judged]:
    """The requested number of hits, those that are good enough first."""
    good = [one for one in merged if _reaches(one.confidence, config)]
    weak = (one for one in merged if not _reaches(one.confidence, config))
    shown = good[: config.max_results]
    return [*shown, *islice(weak, config.max_results - len(shown))]


def _reaches(confidence: float, config: QueryConfig) -> bool:
    return round(confidence, 6) >= config.min_confidence


def _is_sure(routed: Routed) -> bool:
    best = max((one.confidence for one in routed.judged), default=0.0)
    return band_of(round(best, 6)) is Band.SURE


def _with_learnt(parsed: ParsedQuery, answer: Answer) -> Answer:
    """Adds the changes for learnt words to the hash of outcomes."""
    learnt = [change.to_json() for change in parsed.changes if change.why is Why.LEARNT]
    return replace(answer, outcomes=stable_hash("learnt", answer.outcomes, learnt)[:16]) if learnt else answer


def _with_live(
    parsed: ParsedQuery, ours: Sequence[RetrievalResult], live: Sequence[RetrievalResult]
) -> Sequence[RetrievalResult]:
    """Merges results of the live web with ours; they come last for a question that asks to act."""
    if not live:
        return ours
    return [*ours, *in_order(live)] if calls_for_action(parsed.text) else in_order([*ours, *live])


def _marked(results: Sequence[RetrievalResult]) -> Sequence[RetrievalResult]:
    """Flags text from the internet that ranks behind results of lower scores."""
    ours = min((one.score for one in results if one.tier != Tier.INTERNET), default=math.inf)
    return [
        replace(one, metadata={**one.metadata, "flags": [*one.flags, HELD_BACK]})
        if one.tier == Tier.INTERNET and one.score > ours
        else one
        for one in results
    ]


def _answer(parsed: ParsedQuery, results: Sequence[RetrievalResult] = (), steps: tuple[TierStep, ...] = ()) -> Answer:
    """The results that are good enough, and the best of the others up to `max_results`."""
    config = parsed.config
    good = [result for result in results if _reaches(result.confidence, config)][: config.max_results]
    weak = [result for result in results if not _reaches(result.confidence, config)]
    return Answer(
        query=parsed.query,
        results=tuple(good),
        partial=parsed.partial,
        notes=tuple(parsed.notes),
        absent=parsed.absent or (),
        unconfirmed=tuple(weak[: config.max_results - len(good)]),
        timings_ms=parsed.timings,
        routing=steps,
        ranked_by=parsed.ranked_by,
        understood=_understood(parsed),
    )


def _understood(parsed: ParsedQuery) -> dict[str, Any]:
    languages = [language for language in parsed.languages if language != DEFAULT_LANGUAGE]
    changes = [change.to_json() for change in parsed.changes[:MAX_CHANGES]]
    return {
        **parsed.question.understood,
        **({"languages": languages} if languages else {}),
        **({"reworded": changes} if changes else {}),
    }


# -- metrics of questions, for all entry points

LEGS = ("lexical", "vector")
STAGES = ("embed", "search", "judge")
"""Stages in `Answer.timings_ms` beside the legs."""


class Answered(Struct, frozen=True):
    """A question, its configuration, its answer, and the duration in milliseconds."""

    query: str
    config: QueryConfig
    answer: Answer
    took_ms: float


Finish = Callable[[Answered], Answer]
"""Called with a finished answer; returns the answer to hand out."""


class Observer(Protocol):
    """Observes, and may change, answers before they are handed out."""

    def begin(self) -> Finish:
        """Called when a question begins. The result is called with its answer, unless the question is refused."""


class MeasuredQuery(KnowledgeQuery):
    """A `KnowledgeQuery` that reports metrics of every answer, and then passes it through the observers. A refused question,
    such as one for a category that doesn't exist, is not reported; one that nothing was searched for is, without
    observers."""

    def __init__(self, *, report: Report, observers: Sequence[Observer] = (), **parts: Any) -> None:
        super().__init__(**parts)
        self._report = report
        self._observers = observers

    def answer(self, query: str, config: QueryConfig | None = None) -> Answer:
        config = config or QueryConfig()
        finishing = [observer.begin() for observer in self._observers]
        started = time.perf_counter()
        try:
            answer = super().answer(query, config)
        except StoreUnavailableError:
            report_unsearched(config, 1000 * (time.perf_counter() - started), self._report)
            raise
        taken = 1000 * (time.perf_counter() - started)
        report_answer(answer, config, taken, self._report)
        for finish in finishing:
            answer = finish(Answered(query, config, answer, taken))
        return answer


def report_answer(answer: Answer, config: QueryConfig, milliseconds: float, report: Report) -> None:
    """Reports the metrics of an answer and its duration. An answer without a search has no metrics of confidence and
    results."""
    mode = config.mode.value
    report(Metric.QUERIES, 1.0, mode=mode)
    report(Metric.QUERY_LATENCY, milliseconds, mode=mode)
    for part, taken in answer.timings_ms.items():
        if part in LEGS:
            report(Metric.LEG_LATENCY, taken, mode=mode, leg=part)
        else:
            report(Metric.STAGE_LATENCY, taken, mode=mode, stage=part)
    report(Metric.SEARCH_UNAVAILABLE, float(INDEX_DOWN in answer.notes))
    report(Metric.PARTIAL_ANSWERS, float(answer.partial))
    if INDEX_DOWN not in answer.notes and NO_TIER not in answer.notes:
        best = answer.results[0] if answer.results else answer.best_rejected
        report(Metric.CONFIDENCE, best.confidence if best else 0.0)
        report(Metric.ZERO_RESULTS, float(not answer.results))


def report_unsearched(config: QueryConfig, milliseconds: float, report: Report) -> None:
    """Reports the metrics of a question that was not searched."""
    mode = config.mode.value
    report(Metric.QUERIES, 1.0, mode=mode)
    report(Metric.QUERY_LATENCY, milliseconds, mode=mode)
    report(Metric.SEARCH_UNAVAILABLE, 1.0)
    report(Metric.PARTIAL_ANSWERS, 1.0)


@contextmanager
def counted_as_unavailable(report: Report) -> Iterator[None]:
    """Reports a store's failure in the block, before there is a query, as a failed search."""
    try:
        yield
    except StoreUnavailableError:
        report(Metric.SEARCH_UNAVAILABLE, 1.0)
        raise
