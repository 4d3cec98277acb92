"""Composes the capabilities of a system over its ports.

A capability is imported on first use: a function that only searches never loads the code of ingestion.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Protocol, TypedDict, TypeVar

from opx.errors import MissingDistributionError
from opx.ingestion.corpus.capability import Corpus
from opx.ingestion.indexing.capability import Indexing
from opx.ports import Clock
from opx.records.capability import QuestionRecords
from opx.retrieval.capability import Questions
from opx.runtime.knowledge_file import Installation
from opx.settings import MANAGED_ENGINE, Settings

if TYPE_CHECKING:
    from opx.connectors.capability import Connectors
    from opx.connectors.runner import Feed, Runner
    from opx.domain.scopes import Scope
    from opx.graph.capability import Graph
    from opx.graph.relinking import Relinking
    from opx.ingestion.capability import Ingestion
    from opx.ingestion.indexing.editions import IndexService
    from opx.ingestion.manager import IngestionManager
    from opx.learning.capability import Learning
    from opx.learning.context import PatternQueries
    from opx.lifecycle.capability import Lifecycle
    from opx.lifecycle.clients.capability import Tenants
    from opx.ports import (
        ChatModel,
        ChunkCopies,
        Embedder,
        IndexSync,
        ObjectStore,
        Queue,
        Reranker,
        SearchEngine,
        SearchFilter,
        SearchIndex,
        Storage,
        Tables,
        UploadSigner,
        WorkQueue,
    )
    from opx.ports.bulk import BatchEmbedder, BulkRunner
    from opx.ports.files import StoreFiles
    from opx.ports.models import ParsingTools
    from opx.ports.queues import Functions
    from opx.ports.search import WordsSegments
    from opx.ports.sources import OpenWeb, Secrets
    from opx.ports.telemetry import Baselines, MetricReader, TelemetryStores
    from opx.retrieval.models import Models
    from opx.retrieval.query_language import ParsedQuery
    from opx.runtime.speed_limit import SpeedLimit


class Overrides(TypedDict, total=False):
    """Ports that were given instead of those of the settings, and that a capability keeps."""

    chat: ChatModel
    embedder: Embedder
    index: SearchIndex
    store: ObjectStore
    upload_signer: UploadSigner


class Backend(Protocol):
    """The ports of an installation, by the adapters that its settings select. A port is opened on first use."""

    @property
    def given(self) -> Overrides: ...

    def load(self) -> None:
        """Import the code of queries. Opens no connection and requests no credentials."""

    def connect(self) -> None:
        """Open the clients of the index, which request credentials."""

    def close(self) -> None:
        """Release files and connections that were opened."""

    @property
    def remarks(self) -> Sequence[str]:
        """Remarks for the operator about what was mended when ports were opened."""

    @property
    def speed_limits(self) -> Mapping[str, SpeedLimit]:
        """The limits in use, by embedding model."""

    @property
    def tables(self) -> Tables: ...

    @property
    def storage(self) -> Storage: ...

    @property
    def work(self) -> WorkQueue: ...

    @property
    def functions(self) -> Functions: ...

    @property
    def secrets(self) -> Secrets: ...

    @property
    def deployment_secrets(self) -> Secrets: ...

    @property
    def indexes(self) -> IndexService: ...

    @property
    def files(self) -> StoreFiles | None:
        """The files of databases and indexes in a home folder; None where services hold them."""

    @property
    def words(self) -> WordsSegments: ...

    @property
    def index_sync(self) -> IndexSync: ...

    @property
    def open_web(self) -> OpenWeb: ...

    def new_embedder(self, model: str, model_path: str, dimension: int, /) -> Embedder: ...

    def bulk_runner(self) -> BulkRunner | None:
        """Runs bulk jobs outside of this process; None where it runs them itself."""

    def batch_embedder(self, model: str, dimension: int, /) -> BatchEmbedder | None:
        """Embeds in batches with a model, by default that of the settings; None where that isn't offered."""

    def new_chat(self, model: str, /) -> ChatModel: ...

    def new_reranker(self, model: str, /) -> Reranker: ...

    def parsing_tools(self) -> ParsingTools: ...

    def managed_engine(self) -> SearchEngine: ...

    def copies_of(self, store: ObjectStore, /) -> ChunkCopies | None: ...

    def telemetry_stores(self) -> TelemetryStores | None: ...

    def metric_reader(self) -> MetricReader | None: ...


T = TypeVar("T")
StartSystem = Callable[[Settings], "System"]
"""Opens the system that the settings name; closed by leaving it."""


class System:
    """The ports of an installation and the capabilities over them. A context manager: leaving it closes what it opened.
    `restart` makes the system of settings in another process; None if ports were passed to this one."""

    def __init__(self, installation: Installation, ports: Backend, restart: StartSystem | None = None) -> None:
        self.installation = installation
        self.ports = ports
        self.restart = restart
        self._parts: dict[Callable[[System], Any], Any] = {}
        self._gaps_wait = False

    def __enter__(self) -> System:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release files and connections that were opened; afterwards the system can't be used."""
        if "records" in self.__dict__:
            self.records.catch_up()
        if "indexing" in self.__dict__:
            self.indexing.close()
        self.ports.close()

    def load(self) -> None:
        """Load the code and files of queries. Opens no connection and requests no credentials, so that a snapshot may be
        taken afterwards."""
        self.ports.load()
        assert self.installation.knowledge

    def open(self) -> None:
        """Build the capabilities of queries, so that the first one doesn't wait for it."""
        indexing = self.indexing
        _ = (indexing.search_engine, indexing.query_embedder, self.corpus.projects, self.corpus.catalog)
        if indexing.has_editions and self.settings.search_engine != MANAGED_ENGINE:
            self.ports.connect()
            assert indexing.embedder
            indexing.wake()  # a first question follows

    def part(self, make: Callable[[System], T]) -> T:
        """A capability that another distribution makes of this system: `make(self)`, called once."""
        if make not in self._parts:
            from opx import plugins

            plugins.share_log(make.__module__)
            self._parts[make] = make(self)
        made: T = self._parts[make]
        return made

    def optional_part(self, name: str) -> Any | None:
        """The part whose `make` is the entry point `name` of `opx.parts`; None if no distribution has it."""
        from opx import plugins

        make = plugins.load(plugins.PARTS, name, object)
        return self.part(make) if callable(make) else None

    def needed_part(self, name: str) -> Any:
        """Like `optional_part`. Raises `MissingDistributionError` if no distribution has it."""
        part = self.optional_part(name)
        if part is None:
            raise MissingDistributionError("part", name)
        return part

    # -- ports

    @property
    def settings(self) -> Settings:
        return self.installation.settings

    @property
    def clock(self) -> Clock:
        return self.installation.clock

    @property
    def tables(self) -> Tables:
        return self.ports.tables

    @property
    def storage(self) -> Storage:
        return self.ports.storage

    @property
    def store(self) -> ObjectStore:
        """The corpus store."""
        return self.corpus.store

    @property
    def work(self) -> WorkQueue:
        return self.ports.work

    @property
    def queue(self) -> Queue:
        """Events of the corpus store that wait for ingestion."""
        return self.work.queue

    @property
    def index(self) -> SearchIndex:
        """The index that answers, for readers and writers."""
        return self.indexing.index

    # -- capabilities

    @cached_property
    def corpus(self) -> Corpus:
        return Corpus(
            self.installation,
            self.tables,
            self.storage,
            self.work,
            store=self.ports.given.get("store"),
            upload_signer=self.ports.given.get("upload_signer"),
        )

    @cached_property
    def indexing(self) -> Indexing:
        return Indexing(
            self.installation,
            self.tables,
            self.ports.indexes,
            self.ports.new_embedder,
            self.ports.managed_engine,
            index=self.ports.given.get("index"),
            embedder=self.ports.given.get("embedder"),
        )

    @cached_property
    def models(self) -> Models:
        from opx.retrieval.models import Models

        return Models(self.settings, self.ports.new_chat, self.ports.new_reranker, self.ports.given.get("chat"))

    @cached_property
    def graph(self) -> Graph:
        from opx.graph.capability import Graph

        return Graph(self.installation, self.tables, self.storage, self.corpus, self.ports.new_chat)

    @cached_property
    def ingestion(self) -> Ingestion:
        from opx.ingestion.capability import Ingestion

        return Ingestion(
            self.installation,
            self.tables,
            self.storage,
            self.work,
            corpus=self.corpus,
            indexing=self.indexing,
            graph=self.graph,
            after=self._relink_new,
            put_baseline=lambda record, scope: self.baselines.put_record(record, scope=scope),
            parsing_tools=self.ports.parsing_tools,
            copies=lambda: self.copies,
            new_chat=self.ports.new_chat,
            secrets=lambda: self.ports.deployment_secrets,
        )

    @cached_property
    def relinking(self) -> Relinking:
        """Adds mentions to documents of nodes that were declared after their ingestion."""
        from opx.graph.relinking import Relinking

        chunks = self.ingestion.pipeline.read_chunks
        index = self.indexing.written_index
        return Relinking(self.graph, self.corpus, self.tables, self.work, index=index, chunks=chunks)

    @cached_property
    def copies(self) -> ChunkCopies | None:
        """Copies of the index's chunks, for a managed service that builds its own index; None without one."""
        return self.ports.copies_of(self.store)

    @cached_property
    def records(self) -> QuestionRecords:
        records = QuestionRecords(self.installation, self.tables, self.corpus, self.indexing)
        if self._gaps_wait:
            records.deferred()
        return records

    def defer_gaps(self) -> Callable[[], list[str]]:
        """Has gaps wait until the result is called, after a reply; it returns failures. Opens nothing."""
        self._gaps_wait = True
        return lambda: self.records.catch_up() if "records" in self.__dict__ else []

    @cached_property
    def learning(self) -> Learning:
        from opx.learning.capability import Learning

        return Learning(
            self.installation,
            self.tables,
            corpus=self.corpus,
            indexing=self.indexing,
            manager_of=self._manager_of,
            records=self.records,
            incident_text=self._incident_text,
        )

    def _incident_text(self, scope: Scope, name: str) -> str:
        return self.graph.incident_text(scope, name)

    def _manager_of(self, scope: Scope) -> IngestionManager:
        from opx.domain.provenance import Channel, ChannelKind

        return self.ingestion.manager_of(scope).by(Channel(ChannelKind.LEARNING, proof="written by the installation"))

    @cached_property
    def lifecycle(self) -> Lifecycle:
        from opx.lifecycle.capability import Lifecycle

        return Lifecycle(
            self.installation,
            self.tables,
            self.storage,
            self.work,
            corpus=self.corpus,
            indexing=self.indexing,
            graph=self.graph,
            ingestion=self.ingestion,
            learning=self.learning,
            calibrations=lambda: self.questions.calibrations,
            audit=lambda: self.records.audit,
            words=lambda: self.ports.words,
            assurance=partial(self.optional_part, "assurance"),
        )

    @cached_property
    def questions(self) -> Questions:
        return Questions(
            self.installation,
            corpus=self.corpus,
            indexing=self.indexing,
            tables=self.tables,
            models=lambda: self.models,
            graph=lambda: self.graph,
            experience=lambda: self.learning.experience,
            observers=self.records.observers,
            past=self._past,
            new_internet=partial(self.needed_part, "internet"),
            words=lambda: self.ports.words,
        )

    def _relink_new(self) -> None:
        self.relinking.relink_new()

    def _past(self, query: ParsedQuery, where: SearchFilter, index: SearchEngine) -> SearchEngine:
        engine: SearchEngine = self.needed_part("assurance").as_of.engine(query, where, index)
        return engine

    @cached_property
    def pattern_queries(self) -> PatternQueries:
        from opx.learning.context import PatternQueries

        return PatternQueries(
            self.installation,
            self.corpus,
            self.learning,
            questions=self.questions,
            records=self.records,
            indexing=self.indexing,
        )

    @cached_property
    def connectors(self) -> Connectors:
        from opx.connectors.capability import Connectors

        return Connectors(
            self.installation,
            self.tables,
            self.storage,
            self.work,
            secrets=lambda: self.ports.secrets,
            manager=lambda: self.manager,
            functions=self.ports.functions,
            open_web=self.ports.open_web,
            optional_part=self.optional_part,
            needed_part=self.needed_part,
        )

    @property
    def baselines(self) -> Baselines:
        """Adds to baselines. Raises `MissingDistributionError` without the distribution that keeps baselines."""
        baselines: Baselines = self.needed_part("baselines")
        return baselines

    @cached_property
    def tenants(self) -> Tenants:
        from opx.lifecycle.clients.capability import Tenants
        from opx.lifecycle.clients.finding import ClientStores
        from opx.lifecycle.rows import row_holdings

        tables, storage, work = self.tables, self.storage, self.work
        return Tenants(
            self.installation,
            ClientStores(tables, storage, work, self.corpus, self.indexing, lambda: self.copies),
            graph=self.graph,
            ingestion=self.ingestion,
            holds=self.lifecycle.holds,
            row_holdings=lambda: row_holdings(self),
        )

    def runner(self, emit: Callable[[str], None], feeds: Sequence[Feed] = ()) -> Runner:
        """Runs the work of schedules and functions in this process. `emit` receives lines for people."""
        from opx.connectors.runner import Runner

        sources, clock = self.connectors.sources, self.clock
        return Runner(
            sources, self.connectors.puller, lambda: self.ingestion.drain, clock=clock, emit=emit, feeds=feeds
        )

    @cached_property
    def manager(self) -> IngestionManager:
        """Puts documents of the installation's own scope into the corpus."""
        return self.ingestion.manager_of(self.installation.scope, self.connectors.ways_in)
