"""The parts of a system, over whichever adapters: what each backend gives its own of is declared here.

Everything is built when it is first asked for, so that a function which only searches never loads what ingestion
needs.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from functools import cached_property, partial
from typing import TYPE_CHECKING

from opx.composition.lifecycle import LifecycleServices
from opx.domain.queries import Fusion
from opx.domain.results import Answer
from opx.domain.scopes import Identity, Reader
from opx.errors import InvalidInputError, KnowledgeConfigError
from opx.retrieval.expansion import Expander
from opx.retrieval.measured_query import MeasuredQuery, counted_as_unavailable
from opx.retrieval.query import NOT_CONFIGURED, KnowledgeQuery
from opx.retrieval.reranking import RerankStage
from opx.retrieval.searching import SearchRules
from opx.runtime.metrics import Report, unreported
from opx.tables import SOURCES

if TYPE_CHECKING:
    from opx.domain.baselines import BaselineStats
    from opx.domain.documents import DocumentChunk
    from opx.domain.sources import KnowledgeSource, SourceDefinition
    from opx.domain.streams import StreamDefinition
    from opx.graph.found_text import Expanded, FoundText
    from opx.ingestion.manager import IngestionManager
    from opx.learning.context import OrchestratorContextBuilder
    from opx.learning.query import RAGQueryService
    from opx.lifecycle.as_of import AsOf
    from opx.ports import SearchEngine, SearchFilter
    from opx.records.records import QuestionRecords
    from opx.retrieval.asking import Asked
    from opx.retrieval.research.planning import Planner
    from opx.retrieval.research.researcher import Researcher
    from opx.sources.connecting import ConnectedSource
    from opx.sources.pulling import SourcePuller
    from opx.sources.repository import SourceRepository
    from opx.streams.definitions import StreamRepository
    from opx.telemetry.baselines.rolling_up import RollUp
    from opx.telemetry.baselines.taking import BaselineTaker
    from opx.websearch.service import InternetSearch

log = logging.getLogger(__name__)


class Services(LifecycleServices):
    """The parts of a system over one set of adapters. A context manager: leaving it closes what it opened."""

    def __enter__(self) -> Services:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def load(self) -> None:
        """Read the code and files that questions need. Opens no connection and asks for no credentials, so that a
        snapshot may be made afterwards."""
        assert self.knowledge

    def open(self) -> None:
        """Make what questions need, so that the first one doesn't wait for it."""
        _ = (self.search_engine, self.query_embedder, self.projects, self.catalog)

    @cached_property
    def manager(self) -> IngestionManager:
        from opx.ways_in import WaysIn

        return self.manager_of(self.scope, WaysIn(self))

    @cached_property
    def sources(self) -> SourceRepository:
        """The sources that are declared or registered. Raises `KnowledgeConfigError`."""
        from opx.sources.declared import declared_sources
        from opx.sources.repository import SourceRepository

        declared = declared_sources(self.knowledge, self.knowledge_path)
        return SourceRepository(self.table(SOURCES), declared, self.knowledge, self.clock)

    @cached_property
    def streams(self) -> StreamRepository:
        """The streams that are declared or subscribed to. Raises `KnowledgeConfigError`."""
        from opx.streams.definitions import StreamRepository, declared_streams

        declared = declared_streams(self.knowledge, self.knowledge_path)
        return StreamRepository(self.table(SOURCES), declared, self.knowledge)

    @cached_property
    def _provided(self) -> dict[str, KnowledgeSource]:
        """Sources that are objects of this process."""
        return {}

    def connected_source(self, definition: SourceDefinition) -> ConnectedSource:
        """A source that can be asked. Raises `InvalidInputError` for an unknown kind, and for wrong options."""
        from opx.sources.connecting import connected

        return connected(definition, self, self._provided.get(definition.source_id))

    def provide_source(self, source: KnowledgeSource, schedule: str, category: str) -> str:
        """Know a source that is an object of this process. Returns its id. Raises `InvalidInputError`."""
        from opx.sources.declared import definition_of
        from opx.sources.provided import KIND

        given = {"kind": KIND, "category": category, "schedule": schedule}
        self.sources.provide(definition_of(source.name, given, self.knowledge))
        self._provided[source.name] = source
        return source.name

    def taker_of_values(self, stream: StreamDefinition) -> BaselineTaker:
        """Adds the values of a stream to baselines."""
        from opx.telemetry.baselines.taking import BaselineTaker

        return BaselineTaker(stream, self.baselines, self.manager, self.clock)

    def roll_up(self, report: Report = unreported) -> RollUp:
        """Rolls metrics up into baselines. Raises `KnowledgeConfigError`, and `InvalidInputError` without a reader."""
        from opx.telemetry.baselines.definitions import declared_metrics
        from opx.telemetry.baselines.rolling_up import RollUp

        if self.metric_reader is None:
            raise InvalidInputError("metrics are rolled up by a system on AWS (OPX_BACKEND=aws), from CloudWatch")
        metrics = declared_metrics(self.knowledge_path)
        return RollUp(metrics, self.metric_reader, self.baselines, clock=self.clock, report=report)

    def puller(self, report: Report = unreported) -> SourcePuller:
        """Pulls sources into the installation's scope."""
        from opx.sources.pulling import SourcePuller
        from opx.sources.storing import PageStore

        store = PageStore(self.manager, threads=self.read_threads, unit_of_work=self.unit_of_work, report=report)
        return SourcePuller(
            sources=self.sources,
            connect=self.connected_source,
            store=store,
            clock=self.clock,
            lease_seconds=self.pull_lease_seconds,
            exclusive=self.exclusive_pull,
            report=report,
        )

    @cached_property
    def web_search(self) -> InternetSearch | None:
        """Live search of the web; None unless `knowledge.yaml` names an engine."""
        from opx.websearch.making import internet_search

        return internet_search(self)

    def query_service(
        self,
        identity: Identity | None = None,
        report: Report = unreported,
        *,
        recorded: bool = True,
        gaps: bool = True,
    ) -> KnowledgeQuery:
        """Questions of this identity, or of the one that the installation is configured for. Answers are reported, and
        `recorded` in the audit log and, with `gaps`, among the gaps, as the settings say."""
        from opx.retrieval.remembered_vectors import RememberedVectors

        asked = self.identity_of(identity)
        with counted_as_unavailable(report):
            reader = self.projects.reader(asked)
        embedder = RememberedVectors(self.query_embedder) if self.query_embedder else None
        return MeasuredQuery(
            index=self.search_engine,
            embedder=embedder,
            knowledge=self.knowledge,
            reader=reader,
            report=report,
            rules=self.search_rules,
            reranker=self._rerank_stage,
            internet=partial(self._ask_internet, asked.client_id),
            expander=Expander(partial(self._chunks_for, asked)),
            baselines=self._baseline_of,
            graph=partial(self._go_on, reader),
            experience=self.experience.seen_by(reader.visible),
            past=self._past,
            clock=self.clock,
            observers=self.records.observers(reader, embedder, report, gaps=gaps) if recorded else (),
        )

    def pattern_query(self, identity: Identity | None = None, *, operator: bool = False) -> RAGQueryService:
        """What earlier work taught, for this identity if it is an orchestrator's; or for the operator of the system, who
        gives none, or says so."""
        from opx.learning.query import pattern_query

        return pattern_query(self, identity, operator=operator)

    def context_builder(
        self, identity: Identity | None = None, *, operator: bool = False
    ) -> OrchestratorContextBuilder:
        """The same, as the text that an orchestrator gets with a task."""
        from opx.learning.context import OrchestratorContextBuilder

        return OrchestratorContextBuilder(self.pattern_query(identity, operator=operator))

    @cached_property
    def search_rules(self) -> SearchRules:
        """How this installation searches where a question doesn't say it."""
        settings = self.settings
        fusion = Fusion(settings.fusion) if settings.fusion else None
        return SearchRules(settings.search_legs, fusion, rerank=settings.reranker != "off")

    @property
    def _rerank_stage(self) -> RerankStage | None:
        reranker = self.reranker
        return RerankStage(reranker, self.settings.rerank_seconds) if reranker else None

    def _chunks_for(self, identity: Identity, document_id: str) -> Iterator[DocumentChunk]:
        from opx.operations.context import Caller, Context
        from opx.operations.documents import chunks_of

        return chunks_of(Context(self, Caller(identity)), document_id)

    def _go_on(self, reader: Reader, found: FoundText) -> Expanded:
        """From what was found as text along the graph."""
        from opx.graph.expansion import GraphExpansion

        passages = self.passage_reader(reader)
        graph = self._graph_of(reader)
        return GraphExpansion(graph, passages, clock=self.clock, seconds=self.settings.graph_seconds)(found)

    def _baseline_of(self, reader: Reader, node: str, metric: str, time_window: str) -> BaselineStats:
        return self.baselines.get(reader, node, metric, time_window)

    def research_service(self, identity: Identity | None = None, report: Report = unreported) -> Researcher:
        """Research for this identity, or for the one that the installation is configured for. Its searches are reported
        and audited as questions are; in a planner's words, they tell of no gaps."""
        from opx.retrieval.research.researcher import Researcher
        from opx.runtime.turns import in_turns

        query = self.query_service(identity, in_turns(report), gaps=False)
        return Researcher(query, self.research_planner, seconds=self.settings.research_seconds)

    @cached_property
    def research_planner(self) -> Planner:
        """What decides which searches a research does."""
        from opx.retrieval.research.model_planner import ChatPlanner
        from opx.retrieval.research.rules import RulePlanner

        chat = self.chat if self.settings.research_planner != "rules" else None
        return ChatPlanner(chat) if chat else RulePlanner()

    @cached_property
    def records(self) -> QuestionRecords:  # type: ignore[override]
        """What is kept of questions."""
        from opx.records.records import QuestionRecords

        return QuestionRecords(self)

    @cached_property
    def as_of(self) -> AsOf:
        """Answers as of times that are over."""
        from opx.lifecycle.as_of import AsOf

        return AsOf(
            catalog=self.catalog,
            calendar=self.calendar,
            store=self.store,
            knowledge=self.knowledge,
            embedder=self.document_embedder,
            clock=self.clock,
            threads=self.read_threads,
        )

    def _past(self, asked: Asked, where: SearchFilter, index: SearchEngine) -> SearchEngine:
        return self.as_of.engine(asked, where, index)

    def _ask_internet(self, client_id: str, query: str, max_results: int) -> Answer:
        """A mistake in the section `internet` is a note to an agent, not an error."""
        try:
            search = self.web_search
        except KnowledgeConfigError as exc:
            log.exception("live search can't be set up")
            return Answer(query, (), partial=True, notes=(str(exc),))
        if search is None:
            return Answer(query, (), notes=(NOT_CONFIGURED,))
        return search.answer(query, max_results, client_id=client_id)
