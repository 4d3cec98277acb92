"""The parts of a system, over whichever adapters: what each backend gives its own of is declared here.

Everything is built when it is first asked for, so that a function which only searches never loads what ingestion
needs.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opx.domain.knowledge import KnowledgeModel
from opx.domain.queries import Fusion
from opx.domain.results import Answer
from opx.domain.scopes import Identity, Reader, Scope
from opx.errors import InvalidInputError, KnowledgeConfigError, SourceRefusedError
from opx.knowledge_file import load_knowledge
from opx.operations.metrics import Report, unreported
from opx.operations.queries import MeasuredQuery, counted_as_unavailable
from opx.ports import (
    ChunkCopies,
    Clock,
    Embedder,
    ObjectInfo,
    ObjectStore,
    Queue,
    SearchEngine,
    SearchIndex,
    Table,
    UploadSigner,
)
from opx.ports.metrics import MetricReader
from opx.ports.models import ChatModel, Reranker
from opx.ports.sources import Secrets, SourceSchedules, StreamSubscriptions
from opx.retrieval.expansion import Expander
from opx.retrieval.query import NOT_CONFIGURED, KnowledgeQuery
from opx.retrieval.readers import ProjectRegistry
from opx.retrieval.reranking import RerankStage
from opx.retrieval.searching import SearchRules
from opx.settings import Settings
from opx.tables import (
    ALIASES,
    BASELINES,
    DOCUMENTS,
    EMBEDDINGS,
    ENTRIES,
    FAILURES,
    GRAPH,
    KEYS,
    PROJECTS,
    SOURCES,
    TableSpec,
)

if TYPE_CHECKING:
    from opx.domain.baselines import BaselineStats
    from opx.domain.documents import DocumentChunk
    from opx.domain.sources import KnowledgeSource, SourceDefinition
    from opx.domain.streams import StreamDefinition
    from opx.graph.aliases import AliasRegistry
    from opx.graph.extraction.extractor import Extractor
    from opx.graph.extraction.mentions import KnownNames
    from opx.graph.extraction.model import ModelExtraction
    from opx.graph.found_text import Expanded, FoundText
    from opx.graph.knowledge_graph import KnowledgeGraph
    from opx.graph.merging import Merging
    from opx.graph.naming_writer import NamingWriter
    from opx.graph.relinking import Relinked, Relinker
    from opx.graph.store import GraphStore
    from opx.ingestion.catalog import Catalog
    from opx.ingestion.contexts import ContextWriter
    from opx.ingestion.embedding_cache import CachedEmbedder
    from opx.ingestion.evidence import EvidenceRules
    from opx.ingestion.failures import FailureLog
    from opx.ingestion.manager import IngestionManager
    from opx.ingestion.pipeline import IngestionPipeline
    from opx.ingestion.worker import IngestionWorker, QueueDrain
    from opx.knowledge_base import RelatedKnowledge
    from opx.models.budgets import CallBudget
    from opx.operations.baselines.rolling_up import RollUp
    from opx.operations.baselines.store import BaselineStore
    from opx.operations.baselines.taking import BaselineTaker
    from opx.operations.records import QuestionRecords
    from opx.operations.telemetry.rules import TelemetryRules
    from opx.ports.corpus_version import CorpusVersion
    from opx.ports.object_history import ObjectHistory
    from opx.ports.reading import ParsingTools
    from opx.ports.telemetry import TelemetryStores
    from opx.retrieval.research.planning import Planner
    from opx.retrieval.research.researcher import Researcher
    from opx.running import Feed
    from opx.sources.connecting import ConnectedSource
    from opx.sources.pulling import SourcePuller
    from opx.sources.repository import SourceRepository
    from opx.streams.repository import StreamRepository
    from opx.tenants.clients import ClientRegistry
    from opx.tools.grants import ToolGrants
    from opx.ways_in import WaysIn
    from opx.websearch.service import InternetSearch

log = logging.getLogger(__name__)

QUEUE_NAME = "ingest"


class Services:
    """The parts of a system over one set of adapters. A context manager: leaving it closes what it opened."""

    def __init__(self, settings: Settings, *, clock: Clock = time.time) -> None:
        self.settings = settings
        self.clock = clock
        self._provided: dict[str, KnowledgeSource] = {}

    # -- adapters: each backend's class gives its own

    store: ObjectStore
    queue: Queue
    embedder: Embedder
    index: SearchIndex

    def table(self, spec: TableSpec) -> Table:  # noqa: ARG002 - each backend's class has its own
        """The table of a specification."""
        raise TypeError(f"{type(self).__name__} has no tables")

    def foreign_bucket(self, name: str) -> ObjectStore:
        """The objects of another bucket. Raises `SourceRefusedError` where there are no buckets, and
        `ForbiddenAddressError` for the corpus itself."""
        raise SourceRefusedError(
            f"bucket {name} can be read by a system on AWS alone (OPX_BACKEND=aws); copy its files here and watch the folder"
        )

    def close(self) -> None:
        """Release files and connections; afterwards the services can't be used."""

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

    copies: ChunkCopies | None = None
    """Also get what the index gets, where a managed service makes an index of its own."""

    upload_signer: UploadSigner | None = None
    """For uploads past this process; None where there are none."""

    object_history: ObjectHistory
    """What the corpus store holds beside its objects, for the removal of a client."""

    settling_seconds = 0.0
    """After which all that was written is found everywhere."""

    def exclusive_work(self) -> AbstractContextManager[Any]:
        """Held while nobody else may take documents in; nothing where many do, who hold claims."""
        return nullcontext()

    def discard_messages(self, unwanted: Callable[[str], bool], *, dry: bool = False) -> int | None:  # noqa: ARG002
        """Remove waiting messages of these bodies, or with `dry` count them; None where messages can't be looked at."""
        return None

    def scrub(self) -> None:
        """Overwrite what removed items left in files of this process's own."""

    @property
    def search_engine(self) -> SearchEngine:
        """What answers questions."""
        return self.index

    @property
    def query_embedder(self) -> Embedder | None:
        """For questions; None if the engine embeds them itself."""
        return self.embedder

    def chat_model(self, model: str) -> ChatModel:
        """The language model of this name; each backend's class has its own."""
        raise TypeError(f"{type(self).__name__} has no language model {model}")

    def reranking_service(self, model: str) -> Reranker:
        """The service's reranker of this name, where the backend has such a service."""
        raise TypeError(f"{type(self).__name__} has no service for the reranker {model}")

    secrets: Secrets
    """Credentials of sources, by name."""

    source_schedules: SourceSchedules | None = None
    """Has registered sources pulled at their times; None where the process that pulls looks at the clock itself."""

    pulls: Queue | None = None
    """Where pulls are asked for; None where they are done in this process."""

    def exclusive_pull(self, source_id: str) -> AbstractContextManager[Any]:  # noqa: ARG002
        """Held while this process pulls a source, where a lock of the machine is better than a lease."""
        return nullcontext()

    pull_lease_seconds = 900.0

    # -- models

    @cached_property
    def model_budget(self) -> CallBudget:
        """What this process may ask of models; one for all of them."""
        from opx.models.budgets import CallBudget

        return CallBudget(self.settings.model_calls_per_minute)

    @cached_property
    def chat(self) -> ChatModel | None:
        """The language model, within the budget; None if none is chosen."""
        if not self.settings.chat_model:
            return None
        from opx.models.budgets import BudgetedChat

        return BudgetedChat(self.chat_model(self.settings.chat_model), self.model_budget)

    @cached_property
    def reranker(self) -> Reranker | None:
        """What is asked to read candidates again, within the budget; None where the library does it itself, or nobody."""
        if self.settings.reranker == "bedrock":
            from opx.models.budgets import BudgetedReranker

            return BudgetedReranker(self.reranking_service(self.settings.rerank_model), self.model_budget)
        if self.settings.reranker == "chat" and self.chat:
            from opx.retrieval.chat_reranker import ChatReranker

            return ChatReranker(self.chat)
        return None

    # -- capabilities

    @cached_property
    def knowledge(self) -> KnowledgeModel:
        path = self.settings.knowledge_file
        return load_knowledge(Path(path) if path else None)

    @cached_property
    def clients(self) -> ClientRegistry:
        """Which clients there are, and which were removed."""
        from opx.tenants.clients import ClientRegistry

        return ClientRegistry(self.table(PROJECTS), self.clock)

    @cached_property
    def projects(self) -> ProjectRegistry:
        return ProjectRegistry(self.table(PROJECTS))

    @cached_property
    def catalog(self) -> Catalog:
        from opx.ingestion.catalog import Catalog

        tables = (self.table(DOCUMENTS), self.table(KEYS), self.table(ENTRIES))
        lease = self.settings.lease_seconds
        return Catalog(*tables, clock=self.clock, lease_seconds=lease, admits=self.clients.admit)

    @cached_property
    def aliases(self) -> AliasRegistry:
        """Other names of things."""
        from opx.graph.aliases import AliasRegistry

        return AliasRegistry(self.table(ALIASES), clock=self.clock)

    @cached_property
    def graph_store(self) -> GraphStore:
        """What documents say of things, of all scopes."""
        from opx.graph.store import GraphStore

        return GraphStore(self.table(GRAPH), self.clock, aliases=self.aliases, threads=self.read_threads)

    def graph(self, identity: Identity | None = None) -> KnowledgeGraph:
        """Things and relations as this identity may know them, or the one that the installation is configured for."""
        return self._graph_of(
            self.projects.reader(identity or Identity(self.settings.client_id, self.settings.project_id))
        )

    def _graph_of(self, reader: Reader) -> KnowledgeGraph:
        from opx.graph.aliased import AliasedReads
        from opx.graph.knowledge_graph import KnowledgeGraph

        return KnowledgeGraph(AliasedReads(self.graph_store, self.aliases), reader, self.aliases)

    @cached_property
    def extractor(self) -> Extractor:
        """Finds what documents say of things."""
        from opx.graph.extraction.extractor import Extractor

        model = self.model_extraction
        return Extractor(known=(self.known_names.mentions,), whole=(model.relations,) if model else ())

    @cached_property
    def known_names(self) -> KnownNames:
        """The names that documents may mention."""
        from opx.graph.extraction.mentions import MAX_NAMES, KnownNames

        def aliases(scopes: Sequence[str]) -> list[str]:
            return [one.alias for one in self.aliases.aliases(scopes, limit=MAX_NAMES)]

        return KnownNames(self.graph_store, aliases)

    @cached_property
    def model_extraction(self) -> ModelExtraction | None:
        """Has a model read relations out of passages; None if none is chosen for that."""
        if not self.settings.graph_model:
            return None
        from opx.graph.extraction.model import ModelExtraction
        from opx.ingestion.context_cache import ContextCache

        cache = ContextCache(self.table(EMBEDDINGS), days=self.settings.embedding_cache_days, clock=self.clock)
        return ModelExtraction(self.chat_model(self.settings.graph_model), cache)

    @cached_property
    def graph_writer(self) -> NamingWriter:
        """The graph's store, for the pipeline."""
        from opx.graph.naming_writer import NamingWriter

        return NamingWriter(self.graph_store, self.known_names)

    @cached_property
    def relinker(self) -> Relinker:
        """Has documents mention what was declared after them."""
        from opx.graph.naming_scopes import ScopeDirectory
        from opx.graph.relinking import Relinker

        return Relinker(
            store=self.graph_store,
            index=self.written_index,
            catalog=self.catalog,
            chunks=self.pipeline.read_chunks,
            scopes=ScopeDirectory(self.clients, self.projects),
        )

    def relink_new(self) -> None:
        """What is left to do after documents were taken in. What can't be done now is left to the next full run."""
        names = self.graph_writer.taken()
        if names:
            self.relinker.relink_or_leave(names)

    def relink(self, *, seconds: float = 0.0) -> Relinked:
        """Have all documents mention what is declared, within `seconds` if they are given. Raises
        `StoreUnavailableError`."""
        with self.exclusive_work():
            return self.relinker.relink_all(seconds=seconds)

    @cached_property
    def merging(self) -> Merging:
        """Makes two things one."""
        from opx.graph.merging import Merging

        return Merging(self.table(ALIASES), self.aliases, self.graph_store, clock=self.clock)

    @cached_property
    def failures(self) -> FailureLog:
        from opx.ingestion.failures import FailureLog

        return FailureLog(self.table(FAILURES), self.clock)

    @cached_property
    def document_embedder(self) -> CachedEmbedder:
        """The embedder with its cache; questions don't go through it."""
        from opx.ingestion.embedding_cache import CachedEmbedder

        days = self.settings.embedding_cache_days
        return CachedEmbedder(self.embedder, self.table(EMBEDDINGS), days=days, clock=self.clock)

    @cached_property
    def pipeline(self) -> IngestionPipeline:
        from opx.ingestion.pipeline import ChunkingRules, IngestionPipeline
        from opx.ingestion.reading import DocumentReader

        limit = self.settings.max_document_bytes
        return IngestionPipeline(
            store=self.store,
            reader=DocumentReader(
                self.store, self.knowledge, max_bytes=limit, clock=self.clock, tools=self.parsing_tools
            ),
            catalog=self.catalog,
            embedder=self.document_embedder,
            index=self.written_index,
            rules=ChunkingRules(self.settings.chunk_tokens, self.settings.chunk_overlap),
            unit_of_work=self.unit_of_work,
            read_threads=self.read_threads,
            index_identity=self.index_identity,
            copies=self.copies,
            contexts=self.context_writer,
            graph=self.graph_writer,
            extract=self.extractor,
        )

    @cached_property
    def context_writer(self) -> ContextWriter | None:
        """Has contexts of chunks written as documents are taken in; None if no model is chosen for that."""
        if not self.settings.context_model:
            return None
        from opx.ingestion.context_cache import ContextCache
        from opx.ingestion.contexts import ContextWriter

        cache = ContextCache(self.table(EMBEDDINGS), days=self.settings.embedding_cache_days, clock=self.clock)
        return ContextWriter(self.chat_model(self.settings.context_model), cache)

    @cached_property
    def parsing_tools(self) -> ParsingTools:
        """What there is to read pictures with."""
        from opx.ports.reading import ParsingTools

        return ParsingTools()

    read_threads = 1
    corpus_version: CorpusVersion | None = None
    """Tells one state of what can be found from the next; None where a service has an index of its own."""

    @property
    def written_index(self) -> SearchIndex:
        """The index, for those who change it."""
        return self.index

    index_identity = ""
    """Tells this index from one that was deleted and made anew, where that can happen unseen."""

    def unit_of_work(self) -> AbstractContextManager[Any]:
        """Groups table writes into one commit where the store can; nothing depends on it but speed."""
        return nullcontext()

    @cached_property
    def worker(self) -> IngestionWorker:
        from opx.ingestion.worker import IngestionWorker, RetryRules

        rules = RetryRules(self.settings.max_attempts, self.settings.retry_base_seconds)
        return IngestionWorker(
            self.pipeline, self.failures, rules, unit_of_work=self.unit_of_work, after=self.relink_new
        )

    @property
    def drain(self) -> QueueDrain | None:
        """Works on the queue in this process; None where functions do."""
        return None

    @property
    def scope(self) -> Scope:
        """Where documents of this installation go, as configured."""
        return Scope(self.settings.client_id, project_id=self.settings.project_id)

    @cached_property
    def manager(self) -> IngestionManager:
        from opx.ways_in import WaysIn

        return self.manager_of(self.scope, WaysIn(self))

    def manager_of(self, scope: Scope, ways: WaysIn | None = None) -> IngestionManager:
        """Takes documents in for this scope."""
        from opx.ingestion.manager import IngestionManager

        return IngestionManager(
            store=self.store,
            catalog=self.catalog,
            knowledge=self.knowledge,
            drain=self.drain,
            fingerprint=self._fingerprint,
            scope=scope,
            ways=ways,
            records=lambda record: self.baselines.put_record(record, scope=scope),
        )

    @cached_property
    def sources(self) -> SourceRepository:
        """The sources that are declared or registered. Raises `KnowledgeConfigError`."""
        from opx.sources.declared import declared_sources
        from opx.sources.repository import SourceRepository

        path = self.settings.knowledge_file
        declared = declared_sources(self.knowledge, Path(path) if path else None)
        return SourceRepository(self.table(SOURCES), declared, self.knowledge, self.clock)

    @cached_property
    def streams(self) -> StreamRepository:
        """The streams that are declared or subscribed to. Raises `KnowledgeConfigError`."""
        from opx.streams.definitions import declared_streams
        from opx.streams.repository import StreamRepository

        path = self.settings.knowledge_file
        declared = declared_streams(self.knowledge, Path(path) if path else None)
        return StreamRepository(self.table(SOURCES), declared, self.knowledge)

    stream_subscriptions: StreamSubscriptions | None = None
    """Has streams read on AWS; None where the process that runs reads them itself."""

    def stream_feeds(self) -> Sequence[Feed]:
        """The streams that this process can read."""
        return ()

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

    @cached_property
    def baselines(self) -> BaselineStore:
        """What is normal for metrics of nodes."""
        from opx.operations.baselines.store import BaselineStore

        return BaselineStore(self.table(BASELINES), clock=self.clock, scope=self.scope, unit_of_work=self.unit_of_work)

    def taker_of_values(self, stream: StreamDefinition) -> BaselineTaker:
        """Adds the values of a stream to baselines."""
        from opx.operations.baselines.taking import BaselineTaker

        return BaselineTaker(stream, self.baselines, self.manager, self.clock)

    metric_reader: MetricReader | None = None
    """What other systems measured; None where nothing is to be asked."""

    def roll_up(self, report: Report = unreported) -> RollUp:
        """Rolls metrics up into baselines. Raises `KnowledgeConfigError`, and `InvalidInputError` without a reader."""
        from opx.operations.baselines.definitions import declared_metrics
        from opx.operations.baselines.rolling_up import RollUp

        if self.metric_reader is None:
            raise InvalidInputError("metrics are rolled up by a system on AWS (OPX_BACKEND=aws), from CloudWatch")
        path = self.settings.knowledge_file
        metrics = declared_metrics(Path(path) if path else None)
        return RollUp(metrics, self.metric_reader, self.baselines, clock=self.clock, report=report)

    @cached_property
    def evidence_rules(self) -> EvidenceRules:
        """Which evidence is of which category. Raises `KnowledgeConfigError`."""
        from opx.ingestion.evidence import read_evidence_rules

        path = self.settings.knowledge_file
        return read_evidence_rules(self.knowledge, Path(path) if path else None)

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

    def _fingerprint(self, info: ObjectInfo, sidecar: ObjectInfo | None) -> str:
        return self.pipeline.fingerprint(info, sidecar)

    @cached_property
    def web_search(self) -> InternetSearch | None:
        """Live search of the web; None unless `knowledge.yaml` names an engine."""
        from opx.websearch.making import internet_search

        return internet_search(self)

    telemetry: TelemetryStores | None = None
    """Logs, metrics and traces of running systems; None where there are none to ask."""

    @cached_property
    def telemetry_rules(self) -> TelemetryRules:
        """What may be asked of them. Raises `KnowledgeConfigError`."""
        from opx.operations.telemetry.rules import read_telemetry

        path = self.settings.knowledge_file
        return read_telemetry(Path(path) if path else None)

    @cached_property
    def tool_grants(self) -> ToolGrants:
        """Which agent may use which tools. Raises `KnowledgeConfigError`."""
        from opx.tools.grants import read_grants

        path = self.settings.knowledge_file
        return read_grants(Path(path) if path else None)

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
        from opx.operations.remembered_vectors import RememberedVectors

        asked = identity or Identity(self.settings.client_id, self.settings.project_id)
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
            observers=self.records.observers(reader, embedder, report, gaps=gaps) if recorded else (),
        )

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
        from opx.local_reading import LocalReading

        return LocalReading(self, identity).chunks(document_id)

    def _go_on(self, reader: Reader, found: FoundText) -> Expanded:
        """From what was found as text along the graph."""
        from opx.graph.expansion import GraphExpansion
        from opx.graph.passages import PassageReader

        passages = PassageReader(self.catalog, self.store, reader, threads=self.read_threads)
        graph = self._graph_of(reader)
        return GraphExpansion(graph, passages, clock=self.clock, seconds=self.settings.graph_seconds)(found)

    def _baseline_of(self, reader: Reader, node: str, metric: str, time_window: str) -> BaselineStats:
        return self.baselines.get(reader, node, metric, time_window)

    def related(self, identity: Identity | None = None) -> RelatedKnowledge:
        """Things and relations with the text that proves them, for this identity, or for the one that the installation is
        configured for."""
        from opx.local_knowledge_base import LocalKnowledgeBase

        return LocalKnowledgeBase(self, identity or Identity(self.settings.client_id, self.settings.project_id))

    def research_service(self, identity: Identity | None = None, report: Report = unreported) -> Researcher:
        """Research for this identity, or for the one that the installation is configured for. Its searches are reported
        and audited as questions are; in a planner's words, they tell of no gaps."""
        from opx.operations.turns import in_turns
        from opx.retrieval.research.researcher import Researcher

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
    def records(self) -> QuestionRecords:
        """What is kept of questions."""
        from opx.operations.records import QuestionRecords

        return QuestionRecords(self)

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
