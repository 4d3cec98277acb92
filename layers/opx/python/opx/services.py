"""The parts of a system, over whichever adapters: what each backend gives its own of is declared here.

Everything is built when it is first asked for, so that a function which only searches never loads what ingestion
needs.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opx.domain.knowledge import KnowledgeModel
from opx.domain.results import Answer
from opx.domain.scopes import Identity, Scope
from opx.errors import KnowledgeConfigError, SourceRefusedError
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
from opx.ports.sources import Secrets, SourceSchedules, StreamSubscriptions
from opx.retrieval.query import NOT_CONFIGURED, KnowledgeQuery
from opx.retrieval.readers import ProjectRegistry
from opx.settings import Settings
from opx.tables import DOCUMENTS, EMBEDDINGS, ENTRIES, FAILURES, KEYS, PROJECTS, SOURCES, TableSpec

if TYPE_CHECKING:
    from opx.domain.sources import KnowledgeSource, SourceDefinition
    from opx.ingestion.catalog import Catalog
    from opx.ingestion.embedding_cache import CachedEmbedder
    from opx.ingestion.evidence import EvidenceRules
    from opx.ingestion.failures import FailureLog
    from opx.ingestion.manager import IngestionManager
    from opx.ingestion.pipeline import IngestionPipeline
    from opx.ingestion.worker import IngestionWorker, QueueDrain
    from opx.ports.reading import ParsingTools
    from opx.running import Feed
    from opx.sources.connecting import ConnectedSource
    from opx.sources.pulling import SourcePuller
    from opx.sources.repository import SourceRepository
    from opx.streams.repository import StreamRepository
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

    @property
    def search_engine(self) -> SearchEngine:
        """What answers questions."""
        return self.index

    @property
    def query_embedder(self) -> Embedder | None:
        """For questions; None if the engine embeds them itself."""
        return self.embedder

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

    # -- capabilities

    @cached_property
    def knowledge(self) -> KnowledgeModel:
        path = self.settings.knowledge_file
        return load_knowledge(Path(path) if path else None)

    @cached_property
    def projects(self) -> ProjectRegistry:
        return ProjectRegistry(self.table(PROJECTS))

    @cached_property
    def catalog(self) -> Catalog:
        from opx.ingestion.catalog import Catalog

        tables = (self.table(DOCUMENTS), self.table(KEYS), self.table(ENTRIES))
        return Catalog(*tables, clock=self.clock, lease_seconds=self.settings.lease_seconds)

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
            index=self.index,
            rules=ChunkingRules(self.settings.chunk_tokens, self.settings.chunk_overlap),
            unit_of_work=self.unit_of_work,
            read_threads=self.read_threads,
            index_identity=self.index_identity,
            copies=self.copies,
        )

    @cached_property
    def parsing_tools(self) -> ParsingTools:
        """What there is to read pictures with."""
        from opx.ports.reading import ParsingTools

        return ParsingTools()

    read_threads = 1
    index_identity = ""
    """Tells this index from one that was deleted and made anew, where that can happen unseen."""

    def unit_of_work(self) -> AbstractContextManager[Any]:
        """Groups table writes into one commit where the store can; nothing depends on it but speed."""
        return nullcontext()

    @cached_property
    def worker(self) -> IngestionWorker:
        from opx.ingestion.worker import IngestionWorker, RetryRules

        rules = RetryRules(self.settings.max_attempts, self.settings.retry_base_seconds)
        return IngestionWorker(self.pipeline, self.failures, rules, unit_of_work=self.unit_of_work)

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

    def query_service(self, identity: Identity | None = None, report: Report = unreported) -> KnowledgeQuery:
        """Questions of this identity, or of the one that the installation is configured for. Answers are reported."""
        asked = identity or Identity(self.settings.client_id, self.settings.project_id)
        with counted_as_unavailable(report):
            reader = self.projects.reader(asked)
        return MeasuredQuery(
            index=self.search_engine,
            embedder=self.query_embedder,
            knowledge=self.knowledge,
            reader=reader,
            report=report,
            internet=self._ask_internet,
        )

    def _ask_internet(self, query: str, max_results: int) -> Answer:
        """A mistake in the section `internet` is a note to an agent, not an error."""
        try:
            search = self.web_search
        except KnowledgeConfigError as exc:
            log.exception("live search can't be set up")
            return Answer(query, (), partial=True, notes=(str(exc),))
        if search is None:
            return Answer(query, (), notes=(NOT_CONFIGURED,))
        return search.answer(query, max_results)
