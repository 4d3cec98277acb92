"""Composes search for one identity at a time."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property, lru_cache, partial
from typing import TYPE_CHECKING, Protocol

from opx.domain.ids import iso_time
from opx.domain.queries import Fusion
from opx.domain.results import Answer
from opx.domain.scopes import Identity, Reader
from opx.errors import KnowledgeConfigError, PluginError, StoreUnavailableError
from opx.ingestion.corpus.capability import Corpus
from opx.ingestion.indexing.capability import Indexing
from opx.ports import Embedder, Item, SearchFilter, Tables
from opx.ports.search import WakeableIndex
from opx.ports.tables import LIFECYCLE
from opx.retrieval.confidence import calibration_key
from opx.retrieval.documents import Expander, ReadableDocuments
from opx.retrieval.judging import Validity
from opx.retrieval.query import NOT_CONFIGURED, KnowledgeQuery, MeasuredQuery
from opx.retrieval.searching import CalibratedModels, RememberedVectors, SearchRules, TierSearch
from opx.retrieval.stages import (
    AddLearnt,
    ByIndex,
    ByWords,
    Fold,
    LiveWeb,
    NoteWaiting,
    Outcomes,
    Past,
    Rank,
    Relate,
    RelaxPhrases,
    Reword,
    ShowResults,
    Warn,
    configures_internet,
    read_stages,
)
from opx.runtime.knowledge_file import Installation
from opx.runtime.metrics import Metric, Report, unreported
from opx.settings import MANAGED_ENGINE

if TYPE_CHECKING:
    from opx.domain.learning import StepWarning
    from opx.domain.outcomes import JudgedPassage
    from opx.domain.procedures import Classified, Command, KnownEffects
    from opx.domain.results import ExpandGraph
    from opx.ports.search import WordsSegments
    from opx.retrieval.calibration.models import CalibrationStore
    from opx.retrieval.handover import Classify, Handover
    from opx.retrieval.judging import OutcomeLookup
    from opx.retrieval.learned_words import LearnedWords
    from opx.retrieval.models import Models
    from opx.retrieval.query import Observer
    from opx.retrieval.stages import Internet, LiveSearch, Stage
    from opx.retrieval.words_only import WordsOnly
    from opx.text.procedures.effects import EffectTable

log = logging.getLogger(__name__)

LIBRARY_RERANKERS = ("local", "off")
"""Settings with which no model reranks."""

_COMMANDS, _LONG = 16_384, 500
"""Number of commands whose effect is cached, those of 100,000 chunks, and characters above which one isn't: few are."""


class ExperienceByScope(Protocol):
    """Outcomes, warnings and learned words of documents, by the scopes that a reader may see."""

    def seen_by(self, scopes: Sequence[str]) -> OutcomeLookup: ...

    def words(self, scopes: Sequence[str]) -> LearnedWords | None: ...

    def warnings_of(
        self, scopes: Sequence[str], passages: Callable[[], Sequence[JudgedPassage]]
    ) -> list[list[StepWarning]]: ...


class RelatedNodes(Protocol):
    """The part of the graph that answers need."""

    def expansion(self, reader: Reader) -> ExpandGraph:
        """Returns the expansion of found text along edges, for one reader."""

    def named_runbooks(self, reader: Reader, alert: str, labels: Mapping[str, str], runbook: str) -> Mapping[str, str]:
        """Ids of the documents that an alert itself (`runbook`) or else its rules name, each with the reason."""


class NewObservers(Protocol):
    """Makes the observers that keep records of the answers to a reader."""

    def __call__(
        self, reader: Reader, embedder: RememberedVectors | None, report: Report, /, *, gaps: bool
    ) -> Sequence[Observer]: ...


@dataclass(eq=False)
class Questions:
    """Answers questions over the whole corpus. `past` returns the engine for a question as of a past time,
    `new_internet` opens live search of the web, or raises `MissingDistributionError`; `words` opens segments of words."""

    installation: Installation
    _: KW_ONLY
    corpus: Corpus
    indexing: Indexing
    tables: Tables
    models: Callable[[], Models]
    graph: Callable[[], RelatedNodes]
    experience: Callable[[], ExperienceByScope]
    observers: NewObservers
    past: Past
    new_internet: Callable[[], LiveSearch]
    words: Callable[[], WordsSegments]

    @cached_property
    def documents(self) -> ReadableDocuments:
        return ReadableDocuments(self.installation, self.corpus)

    def for_reader(
        self,
        identity: Identity | None = None,
        report: Report = unreported,
        *,
        recorded: bool = True,
        gaps: bool = True,
        hidden: frozenset[str] = frozenset(),
        words: bool = False,
    ) -> KnowledgeQuery:
        """The query service of this identity, or of the configured one. Answers are reported as metrics and, if `recorded`,
        written to the audit log and, with `gaps`, to the gaps, depending on the settings. Categories in `hidden` aren't
        searched. With `words`, a question that finds the index asleep is answered by words alone, where the settings allow
        that."""
        caller = self.installation.identity_of(identity)
        try:
            reader = self.corpus.projects.reader(caller)
        except StoreUnavailableError:
            report(Metric.SEARCH_UNAVAILABLE, 1.0)
            raise
        questions = self.indexing.query_embedder
        embedder = RememberedVectors(questions) if questions else None
        internet = partial(self._search_internet, caller.client_id)
        return MeasuredQuery(
            stages=self._stages(reader, embedder, internet, words=words),
            knowledge=self.installation.knowledge,
            reader=reader,
            validity=Validity(self.installation.knowledge, self.installation.clock, hidden),
            internet=internet,
            report=report,
            observers=self.observers(reader, embedder, report, gaps=gaps) if recorded else (),
        )

    def _stages(self, reader: Reader, embedder: Embedder | None, internet: Internet, *, words: bool) -> list[Stage]:
        """The stages of an answer, in order."""
        knowledge, rules, experience = self.installation.knowledge, self.search_rules, self.experience()
        search = TierSearch(
            embedder,
            knowledge,
            rules,
            self._confidence_models,
            bound=lambda *alert: self.graph().named_runbooks(reader, *alert),
        )
        related = Relate(lambda: self.graph().expansion(reader))
        by_words = self._words_only if words else None
        learns = self.installation.settings.learned_words == "on"
        searches: list[Stage] = [
            search,
            RelaxPhrases(search),
            *([Reword(search)] if rules.reword else []),
            *([AddLearnt(search, partial(experience.words, reader.visible))] if learns else []),
        ]
        return [
            *([ByWords(by_words.while_waking, searches)] if by_words else []),
            ByIndex(self.indexing.search_engine, self.past, partial(self._is_emptied, reader), searches, related),
            Outcomes(experience.seen_by(reader.visible)),
            Rank(),
            Fold(knowledge),
            *self._rerank_stages,
            *self.installation.declared(read_stages),
            LiveWeb(internet),
            ShowResults(self.corpus.catalog.named),
            NoteWaiting(self._waiting_documents, counts=not reader.identity.client_id),
            Expander(lambda document_id: self.documents.chunks(reader, document_id)),
            Warn(),
            related,
        ]

    @cached_property
    def _words_only(self) -> WordsOnly | None:
        """The stand-in for an index that wakes up; None where none is kept, or where the index never sleeps."""
        index = self.indexing.search_engine
        if not (self.indexing.keeps_words and isinstance(index, WakeableIndex)):
            return None
        from opx.retrieval.words_only import WordsOnly

        shelf = self.indexing.words_shelf(self.corpus.store)
        return WordsOnly(shelf, self.words(), self.corpus.catalog, index.waking)

    def handover(self, reader: Reader) -> Handover:
        """Assembly of documents for this reader."""
        from opx.retrieval.handover import Handover
        from opx.runtime.threads import Each

        experience, table = self.experience(), self.effects.version
        known: KnownEffects = {}
        return Handover(
            read=lambda document_id: self.documents.outline(reader, document_id, known),
            classify=lambda command: known.get((table, command)) or self._classify(command),
            warnings_of=lambda passages: experience.warnings_of(reader.visible, passages),
            each=Each(self.corpus.read_threads),
            today=iso_time(self.installation.clock()),
        )

    @cached_property
    def effects(self) -> EffectTable:
        """The table of commands' effects. Raises `KnowledgeConfigError`."""
        from opx.text.procedures.effects import read_effect_table

        return self.installation.declared(read_effect_table)

    @cached_property
    def _classify(self) -> Classify:
        """Classifies a command's effect. The latest are cached: without stored effects, the same steps are handed over again
        and again."""
        cached = lru_cache(_COMMANDS)(self.effects.classify)

        def classify(command: Command) -> Classified:
            classified = cached if len(command.text) <= _LONG else self.effects.classify
            return classified(command.text, command.language)

        return classify

    @cached_property
    def search_rules(self) -> SearchRules:
        """Default legs, fusion and reranking of questions."""
        settings = self.installation.settings
        fusion = Fusion(settings.fusion) if settings.fusion else None
        return SearchRules(
            settings.search_legs, fusion, rerank=settings.reranker != "off", reword=settings.rewording == "on"
        )

    @cached_property
    def _confidence_models(self) -> CalibratedModels:
        """Shared by all searches of this process, so that a calibration is read only every now and then."""
        return CalibratedModels(self.kept_calibration)

    def kept_calibration(self, embedder: str) -> Item | None:
        """The item with the calibration for an embedding model, None if there is none. Raises `StoreUnavailableError`."""
        return self.tables.table(LIFECYCLE).get(calibration_key(self.indexing.indexes.subject, embedder))

    @property
    def calibrations(self) -> CalibrationStore:
        """Store of calibrations on this corpus, by embedding model."""
        from opx.retrieval.calibration.models import CalibrationStore

        return CalibrationStore(self.tables.table(LIFECYCLE), self.indexing.indexes.subject)

    @property
    def _rerank_stages(self) -> list[Stage]:
        """The stage that reranks; none if no model is configured for it."""
        settings = self.installation.settings
        reranker = None if settings.reranker in LIBRARY_RERANKERS else self.models().reranker
        if reranker is None:
            return []
        from opx.retrieval.reranking import RerankStage

        return [RerankStage(reranker, settings.rerank_seconds)]

    def _is_emptied(self, reader: Reader) -> bool:
        """True if the index has nothing of what the catalog has for this reader since its writes must be visible."""
        if self.installation.settings.search_engine == MANAGED_ENGINE:
            return False
        if self.indexing.index.count(SearchFilter(reader.visible)):
            return False
        visible_by = iso_time(self.installation.clock() - self.indexing.settling_seconds)
        categories = self.installation.knowledge.categories
        searched = sorted(path for path, category in categories.items() if category.embed)
        documents = self.corpus.catalog.visible(reader.visible, categories=searched)
        return any(document.chunk_count and document.current_since <= visible_by for document in documents)

    def _waiting_documents(self) -> int:
        """The number of documents in the queue of this machine."""
        try:
            return self.corpus.waiting_here()
        except StoreUnavailableError:
            log.warning("the queue can't be counted", exc_info=True)
            return 0

    def _search_internet(self, client_id: str, query: str, max_results: int) -> Answer:
        """Live search where `knowledge.yaml` configures it. Returns the reason why there is none as a note to the agent, not
        as an error."""
        try:
            if not self.installation.declared(configures_internet):
                return Answer(query, (), notes=(NOT_CONFIGURED,))
            live = self.new_internet()
        except (KnowledgeConfigError, PluginError) as exc:
            log.exception("live search can't be set up")
            return Answer(query, (), partial=True, notes=(str(exc),))
        return live.search(query, max_results, client_id=client_id)
