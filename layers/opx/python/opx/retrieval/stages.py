"""Stages of an answer: each takes the question with its state and what was found so far, and returns what is found after it.

`opx.retrieval.capability` has their list. A stage that needs something else than the index notes its failures; the answer
goes on without it. Stages of plugins come after the ranking, before the results are cut to the requested number.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from msgspec import Struct, field

from opx.domain.knowledge import KnowledgeModel, Tier
from opx.domain.queries import MAX_QUERY_CHARACTERS, Band, QueryConfig, band_of
from opx.domain.record import replace
from opx.domain.results import Answer, EvidencePack, FoundText, Hit, RetrievalResult, TierStep
from opx.errors import IndexUnavailableError, PluginError, StoreUnavailableError
from opx.ports import SearchEngine, SearchFilter
from opx.ports.search import WakeableIndex
from opx.retrieval.judging import (
    HELD_BACK,
    WORTHLESS,
    HitOutcomes,
    Judged,
    NoOutcomes,
    OutcomeLookup,
    calls_for_action,
    folded,
    in_order,
    ranked,
    result_of,
    seeks_reports,
    without_copies,
)
from opx.retrieval.query_language import ParsedQuery, seeks_exposure
from opx.runtime.knowledge_file import read_section

if TYPE_CHECKING:
    from pathlib import Path

    from opx.domain.documents import KnowledgeDocument
    from opx.domain.results import ExpandGraph
    from opx.retrieval.learned_words import LearnedWords, StandIn
    from opx.retrieval.words_only import Substitute
    from opx.runtime.knowledge_file import Marked

log = logging.getLogger(__name__)

INDEX_DOWN = "the search index is unavailable: nothing was searched"
INDEX_EMPTIED = (
    "the search index has none of the documents in the catalog: it was lost, or replaced by an empty one. `opx rebuild` "
    "(on AWS: `opx reindex`) restores it from the corpus"
)
UNSEARCHED = "waiting to be ingested, not searched yet: `opx ingest` or `opx run` continues"
"""End of the note of an answer without a good result, while documents wait."""
NO_METADATA = "the metadata that these documents were given could not be read"
NOT_READ = "the recorded outcomes of these documents could not be read: scores and warnings don't include them"
NO_WARNINGS = "warnings about steps of these documents could not be read"

ENOUGH = 3
"""Documents with a good result that cover a question, or the number of requested results if lower."""


class Found(Struct):
    """The state of an answer: hits, then results.

    `judged` are the hits of all tiers, the best first once they are ranked; `steps` the tiers in the order in which they were
    considered; `added`: pages of another search were added. `results` and `unconfirmed` are as in the answer, empty until
    the hits are cut to the requested number; `live` results of the web are merged with them then. `is_final`: no further
    stage is applied.
    """

    judged: list[Judged] = field(default_factory=list)
    steps: list[TierStep] = field(default_factory=list)
    added: bool = False
    outcomes: HitOutcomes = field(default_factory=NoOutcomes)
    live: tuple[RetrievalResult, ...] = ()
    results: tuple[RetrievalResult, ...] = ()
    unconfirmed: tuple[RetrievalResult, ...] = ()
    evidence: EvidencePack | None = None
    is_final: bool = False

    @property
    def best(self) -> float:
        """The highest confidence of a hit, 0 without any."""
        return max((hit.confidence for hit in self.judged), default=0.0)

    @property
    def is_mixed(self) -> bool:
        """True if several searches found something, so that there may be near-duplicates; one search has none."""
        return self.added or sum(step.good > 0 or step.best > 0 for step in self.steps) > 1

    def covered(self, config: QueryConfig) -> int:
        """Number of documents with a good result."""
        floor = max(config.min_confidence, WORTHLESS)
        return len({hit.document_id for hit in self.judged if hit.confidence >= floor})


def enough(config: QueryConfig) -> int:
    """Number of documents with a good result that cover a question."""
    return min(ENOUGH, config.max_results)


@runtime_checkable
class Stage(Protocol):
    """A stage of an answer. It may change the question's state, such as its notes. `name` is also that of its timing."""

    name: str

    def apply(self, query: ParsedQuery, state: Found) -> Found:
        """Returns the state of the answer after this stage."""


# -- searches

Past = Callable[[ParsedQuery, SearchFilter, SearchEngine], SearchEngine]
"""Returns the search engine for a question as of a past time, in place of the index. Raises `StoreUnavailableError`."""


@dataclass(eq=False)
class ByWords:
    """Applies the searches by words alone while the index wakes up. `while_waking` returns what is searched then, None if the
    index is awake. If the words find nothing, the question is unchanged, and the index may find something."""

    name = "words"
    while_waking: Callable[[], Substitute | None]
    searches: Sequence[Stage]

    def apply(self, query: ParsedQuery, state: Found) -> Found:
        substitute = None if query.config.as_of else self.while_waking()
        if substitute is None:
            return state
        attempt = replace(query, notes=[*query.notes], timings={}, engine=substitute.engine, by_words=True)
        attempt.lacks(substitute.note)
        by_words = state
        try:
            for stage in self.searches:
                by_words = stage.apply(attempt, by_words)
        except StoreUnavailableError:
            log.exception("the words of the corpus can't be searched")
            return state
        if by_words.judged:
            query.become(attempt)
        return by_words


@dataclass(eq=False)
class ByIndex:
    """Applies the searches to the index, or as of a past time to the engine of `past`.

    `emptied` is called if nothing was found, and returns True if that is because the index is lost. If the index fails,
    `related` may still find evidence, and ends the answer; else `StoreUnavailableError` is raised.
    """

    name = "index"
    index: SearchEngine
    past: Past
    emptied: Callable[[], bool]
    searches: Sequence[Stage]
    related: Stage

    def apply(self, query: ParsedQuery, state: Found) -> Found:
        if state.judged:
            return state
        if isinstance(self.index, WakeableIndex):
            self.index.wake()
        try:
            query.engine = self.past(query, query.where, self.index) if query.config.as_of else self.index
            for stage in self.searches:
                state = stage.apply(query, state)
            if not (state.judged or query.config.as_of) and self.emptied():
                raise IndexUnavailableError(INDEX_EMPTIED)
        except StoreUnavailableError:
            query.lacks(INDEX_DOWN)
            related = self.related.apply(query, Found(is_final=True))
            if related.evidence is None or not related.evidence.items:  # "nothing was found" would be wrong
                raise
            log.exception("search failed")
            return related
        return state


@dataclass(eq=False)
class RelaxPhrases:
    """Searches the words of the question's phrases, if nothing has these."""

    name = "phrases"
    search: Stage

    def apply(self, query: ParsedQuery, state: Found) -> Found:
        return state if state.judged or not query.relaxed() else self.search.apply(query, state)


@dataclass(eq=False)
class Reword:
    """Searches with the question's unknown words corrected and translated; the question is unchanged if that finds
    nothing."""

    name = "reword"
    search: Stage

    def apply(self, query: ParsedQuery, state: Found) -> Found:
        if not (query.is_prose and query.unknown):
            return state
        from opx.retrieval.rewording import reworded

        before = query.question
        try:
            with query.timed(self.name):
                other = reworded(query, query.typed, query.engine, query.where.scopes)
            if other is not None:
                query.question = replace(before, text=other.text)
                again = self.search.apply(query, state)
                if again.judged:
                    query.changes = other.changes
                    query.note(other.note)
                    return again
        except StoreUnavailableError:
            log.exception("a question can't be reworded")
        query.question = before
        return state


@dataclass(eq=False)
class AddLearnt:
    """Adds pages that learnt words of the question mean, unless a document is sure. `words` returns the reader's, None if
    there are none. Not for past times, as learnt words are today's, nor for questions within a document."""

    name = "learnt"
    search: Stage
    words: Callable[[], LearnedWords | None]

    def apply(self, query: ParsedQuery, state: Found) -> Found:
        is_sure = band_of(round(state.best, 6)) is Band.SURE
        if not query.is_prose or query.config.as_of or query.config.document_id or is_sure:
            return state
        before, where = query.question, query.where
        try:
            if (learnt := self.words()) is not None:
                from opx.retrieval.learned_words import StandIns

                pages = StandIns(query.engine, learnt, where.scopes).of(query, query.typed)
                add_pages(query, pages, state, self.search)
        except StoreUnavailableError:
            log.exception("learnt words can't be looked up")
        finally:
            query.question, query.where = before, where
        return state


def add_pages(query: ParsedQuery, pages: Sequence[StandIn], state: Found, search: Stage) -> None:
    """Adds the passages that `search` finds within each of these pages, by the question with its title. A page's confidence
    is the probability that it is meant, at most that of the best document found without it, if that was likely. A page that
    was surer by itself is unchanged. The question stays that of the last search. Raises `StoreUnavailableError`."""
    text, where = query.question.text, query.where
    bound = state.best if state.best >= Band.LIKELY.least else 1.0
    for stand_in in pages:
        confidence, name = min(stand_in.page.confidence, bound), stand_in.document.document_id
        if any(hit.confidence >= confidence for hit in state.judged if hit.document_id == name):
            continue
        query.question = replace(query.question, text=f"{text} {stand_in.document.title}")
        query.where = replace(where, document_ids=(name,))
        hits = [replace(hit, confidence=confidence) for hit in search.apply(query, Found()).judged]
        if not hits:
            continue
        state.judged = [*(hit for hit in state.judged if hit.document_id != name), *hits]
        state.added = True
        query.changes = (*query.changes, stand_in.change)
        query.note(stand_in.note)


# -- ranking


@dataclass(eq=False)
class Outcomes:
    """Weighs the hits by the recorded outcomes of their documents."""

    name = "outcomes"
    recorded: OutcomeLookup

    def apply(self, query: ParsedQuery, state: Found) -> Found:
        if not state.judged:
            return state
        try:
            state.outcomes = self.recorded.of(state.judged)
        except StoreUnavailableError:
            log.exception("outcomes can't be read")
            query.lacks(NOT_READ)
        state.judged = state.outcomes.weighed(state.judged)
        return state


class Rank:
    """Ranks the hits of all tiers by confidence x trust, without near-duplicates."""

    name = "rank"

    def apply(self, query: ParsedQuery, state: Found) -> Found:
        state.judged = ranked(query.text, state.judged)
        if state.is_mixed:
            state.judged = without_copies(state.judged)
        return state


@dataclass(eq=False)
class Fold:
    """Leaves one report for each event, unless the question asks for reports, or searches within a document or within
    categories of them."""

    name = "fold"
    knowledge: KnowledgeModel

    def apply(self, query: ParsedQuery, state: Found) -> Found:
        within = query.where.categories
        is_list = bool(within) and all(map(self.knowledge.is_report, within))
        if not (is_list or query.where.document_ids or seeks_reports(query.text)):
            state.judged = folded(state.judged)
        return state


# -- stages of plugins

SECTION = "retrieval"


@dataclass(eq=False)
class PluginStage:
    """Applies a plugin's stage. One that fails is noted by its name and logged, without the words of its error, which may
    quote documents."""

    name: str
    stage: Stage

    def apply(self, query: ParsedQuery, state: Found) -> Found:
        try:
            with query.timed(self.name):
                return _checked(self.stage.apply(query, replace(state, judged=[*state.judged])))
        except Exception as exc:  # a plugin's code may raise anything
            log.exception("the stage %s of a plugin failed", self.name)
            query.note(f"the stage {self.name} is missing from this answer: it failed with {type(exc).__name__}")
            return state


def _checked(state: object) -> Found:
    if not (isinstance(state, Found) and all(isinstance(hit, Judged) for hit in state.judged)):
        raise TypeError("a stage returns `Found` with hits of the type `Judged`")
    return state


def read_stages(path: Path | None = None) -> Sequence[Stage]:
    """The stages of plugins that `knowledge.yaml` names, in order. Entry points are looked up only if it names one. Raises
    `KnowledgeConfigError` with file and line."""
    section = read_section(SECTION, path)
    entries = section.fields(required=("stages",))["stages"].items() if section else ()
    return [PluginStage(entry.text(), _provided(entry)) for entry in entries]


def _provided(entry: Marked) -> Stage:
    """The stage of a plugin; a class is called without arguments."""
    from opx import plugins

    try:
        provided = plugins.used(plugins.STAGES, entry.text())
        stage = provided() if isinstance(provided, type) else provided
    except PluginError as exc:
        raise entry.error(f"{exc}; install the distribution that has it, or remove the stage") from exc
    except Exception as exc:  # a plugin's code may raise anything
        raise entry.error(
            f"the plugin {entry.text()!r} of {plugins.STAGES} can't be made: {type(exc).__name__}: {exc}"
        ) from exc
    if not isinstance(stage, Stage):
        raise entry.error(f"the plugin {entry.text()!r} of {plugins.STAGES} is no stage: it needs `name` and `apply`")
    return stage


# -- the live web, the last tier

LIVE = "live"
BEST_LIVE_CONFIDENCE = 0.6
"""Confidence of a search engine's first result: only its rank is known, so that it is below the 0.7 that an internal answer
needs."""

Internet = Callable[[str, int], Answer]
"""Answers a question from the web, with so many results at most."""


class LiveSearch(Protocol):
    """Live search of the web, which another distribution provides."""

    def search(self, query: str, max_results: int = 5, *, client_id: str = "") -> Answer:
        """Up to `max_results` results by confidence x trust. Failures are in the notes, not raised."""


def configures_internet(path: Path | None = None) -> bool:
    """True if `knowledge.yaml` configures live search. Raises `KnowledgeConfigError`."""
    return read_section("internet", path) is not None


@dataclass(eq=False)
class LiveWeb:
    """Searches the web if the question allows it, and the hits don't cover it; the routing has the reason."""

    name = "internet"
    internet: Internet

    def apply(self, query: ParsedQuery, state: Found) -> Found:
        if not query.config.include_internet:
            return state
        covered, needed = state.covered(query.config), enough(query.config)
        if reason := _against(query.config, covered, needed):
            state.steps.append(TierStep(LIVE, False, reason))
            return state
        with query.timed(self.name):
            answer = self.internet(query.text, query.config.max_results)
        query.partial |= answer.partial
        for note in answer.notes:
            query.note(note)
        state.live = tuple(result for result in answer.results if result.confidence >= query.config.min_confidence)
        best = max((result.confidence for result in answer.results), default=0.0)
        reason = f"{covered} documents have a good result, fewer than {needed}"
        state.steps.append(TierStep(LIVE, True, reason, len(state.live), best))
        return state


def _against(config: QueryConfig, covered: int, needed: int) -> str:
    """The reason why the web is not searched, "" if it is."""
    if config.as_of:
        return "the web can't be searched as of a past time"
    if covered >= needed:
        return f"{covered} documents have a good result"
    if config.min_confidence > BEST_LIVE_CONFIDENCE:
        return f"a live result is never surer than {BEST_LIVE_CONFIDENCE:g}, and {config.min_confidence:g} is required"
    return ""


# -- results


@dataclass(eq=False)
class ShowResults:
    """Cuts the hits to the requested number, the good ones first, and converts them to results with the metadata of their
    `documents`. Results of the web are merged with them; they come last for a question that asks to act."""

    name = "results"
    documents: Callable[[Sequence[tuple[str, str]]], Mapping[tuple[str, str], KnowledgeDocument]]
    """Returns the documents with these key ids and document ids. Raises `StoreUnavailableError`."""

    def apply(self, query: ParsedQuery, state: Found) -> Found:
        config, is_demand = query.config, calls_for_action(query.text)
        good_first = sorted(state.judged, key=lambda hit: not reaches(hit.confidence, config))
        results = self._results(query, state.judged if state.live else good_first[: config.max_results])
        if state.live:
            results = [*results, *in_order(state.live)] if is_demand else in_order([*results, *state.live])
        if is_demand:
            results = _marked(results)
        shown = sorted(results, key=lambda result: not reaches(result.confidence, config))[: config.max_results]
        state.results = tuple(result for result in shown if reaches(result.confidence, config))
        state.unconfirmed = tuple(shown[len(state.results) :])
        return state

    def _results(self, query: ParsedQuery, hits: Sequence[Judged]) -> list[RetrievalResult]:
        names = [(hit.hit.record.facts.key_id, hit.document_id) for hit in hits]
        try:
            documents = self.documents(names)
        except StoreUnavailableError:
            log.exception("the documents of results can't be read")
            query.note(NO_METADATA)
            documents = {}
        return [result_of(hit, query.day, documents.get(name)) for hit, name in zip(hits, names, strict=True)]


def reaches(confidence: float, config: QueryConfig) -> bool:
    """True if a result is as sure as requested."""
    return round(confidence, 6) >= config.min_confidence


def _marked(results: Sequence[RetrievalResult]) -> list[RetrievalResult]:
    """Flags text from the internet that ranks behind results of lower scores."""
    ours = min((result.score for result in results if result.tier != Tier.INTERNET), default=math.inf)
    return [
        replace(result, metadata={**result.metadata, "flags": [*result.flags, HELD_BACK]})
        if result.tier == Tier.INTERNET and result.score > ours
        else result
        for result in results
    ]


_LEAST, _MOST = Band.LIKELY.least, QueryConfig().min_confidence
"""Results below `_LEAST` answer nothing, even if they are shown; an unmet `min_confidence` above `_MOST` is no gap."""


def good_from(config: QueryConfig) -> float:
    """The confidence from which a result is a good answer: the requested one, and at least likely."""
    return min(max(config.min_confidence, _LEAST), _MOST)


@dataclass(eq=False)
class NoteWaiting:
    """Notes that documents wait to be ingested, if nothing good was found; without `counts` not their number: it would
    disclose to a client how much of other clients waits."""

    name = "waiting"
    waiting: Callable[[], int]
    counts: bool

    def apply(self, query: ParsedQuery, state: Found) -> Found:
        good = good_from(query.config)
        is_answered = any(result.confidence >= good for result in (*state.results, *state.unconfirmed))
        if (is_answered and not query.absent) or query.config.as_of:
            return state
        if waiting := self.waiting():
            number = f"{waiting:,}" if self.counts else "some"
            noun = "document is" if number == "1" else "documents are"
            query.note(f"{number} {noun} {UNSEARCHED}")
        return state


class Warn:
    """Adds warnings to the results with a step that was tried before."""

    name = "warnings"

    def apply(self, query: ParsedQuery, state: Found) -> Found:
        try:
            state.results = state.outcomes.warned(state.results)
        except StoreUnavailableError:
            log.exception("warnings can't be read")
            query.lacks(NO_WARNINGS)
        return state


@dataclass(eq=False)
class Relate:
    """Adds evidence from the graph, if requested or if the question is about what a vulnerability affects. The question's
    filters limit only the tiers: relations lead elsewhere."""

    name = "graph"
    graph: Callable[[], ExpandGraph]

    def apply(self, query: ParsedQuery, state: Found) -> Found:
        if not (query.config.expand_graph or seeks_exposure(query.query)):
            return state
        hits = [Hit(hit.hit.record.facts.key_id, hit.hit.chunk.chunk_id, hit.confidence) for hit in state.judged]
        text = query.query[:MAX_QUERY_CHARACTERS]  # `service:checkout` is a filter of searches, here a name
        tiers = frozenset(query.config.searched_tiers)
        with query.timed(self.name):
            state.evidence, notes = self.graph()(
                FoundText(text, query.question.identifiers, state.results, hits, tiers)
            )
        for note in notes:
            query.lacks(note)
        return state
