"""The composition root: a system of ports and of the capabilities over them, made from settings.

A capability is imported when it is first used: a function that only searches never loads what ingestion needs. Tests give
their own adapters to the same function.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from opx.adapters.chosen import Given, Ports
from opx.ingestion.corpus.capability import Corpus
from opx.ingestion.indexing.capability import Indexing
from opx.ports import Clock
from opx.records.capability import QuestionRecords
from opx.retrieval.capability import Questions
from opx.runtime.installation import Installation
from opx.settings import MANAGED_ENGINE, Settings

if TYPE_CHECKING:
    from typing import Unpack

    from opx.connectors.capability import Connectors
    from opx.connectors.runner import Feed, Runner
    from opx.domain.scopes import Identity, Scope
    from opx.graph.capability import Graph
    from opx.ingestion.capability import Ingestion
    from opx.ingestion.manager import IngestionManager
    from opx.learning.capability import Learning
    from opx.learning.queries import PatternQueries
    from opx.lifecycle.capability import Lifecycle
    from opx.lifecycle.clients.capability import Tenants
    from opx.ports import (
        ChunkCopies,
        Embedder,
        ObjectStore,
        Queue,
        SearchEngine,
        SearchFilter,
        SearchIndex,
        Storage,
        Tables,
        WorkQueue,
    )
    from opx.ports.functions import Functions
    from opx.ports.sources import Secrets
    from opx.retrieval.models import Models
    from opx.retrieval.query import KnowledgeQuery
    from opx.retrieval.query_language import Asked
    from opx.retrieval.web.service import InternetSearch
    from opx.telemetry.capability import Telemetry


def bootstrap(settings: Settings, *, clock: Clock = time.time, **given: Unpack[Given]) -> System:
    """The system of the settings. Nothing is opened yet. Raises `TypeError` for a port that doesn't exist."""
    unknown = given.keys() - Given.__annotations__.keys()
    if unknown:
        raise TypeError(f"bootstrap() has no port {', '.join(sorted(unknown))}")
    return System(settings, clock, given)


class System:
    """The ports of an installation and the capabilities over them. A context manager: leaving it closes what it opened."""

    def __init__(self, settings: Settings, clock: Clock, given: Given) -> None:
        self.installation = Installation(settings, clock)
        self.ports = Ports(self.installation, given)

    def __enter__(self) -> System:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release files and connections that were opened; afterwards the system can't be used."""
        if "indexing" in self.__dict__:
            self.indexing.close()
        self.ports.close()

    def load(self) -> None:
        """Read the code and files that questions need. Opens no connection and asks for no credentials, so that a
        snapshot may be made afterwards."""
        self.ports.load()
        assert self.installation.knowledge

    def open(self) -> None:
        """Make what questions need, so that the first one doesn't wait for it."""
        indexing = self.indexing
        _ = (indexing.search_engine, indexing.query_embedder, self.corpus.projects, self.corpus.catalog)
        if indexing.has_editions and self.settings.search_engine != MANAGED_ENGINE:
            self.ports.connect()
            assert indexing.embedder

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
    def functions(self) -> Functions:
        return self.ports.functions

    @property
    def secrets(self) -> Secrets:
        return self.ports.secrets

    @property
    def index(self) -> SearchIndex:
        """The index that answers, for readers and writers."""
        return self.indexing.index

    @property
    def embedder(self) -> Embedder:
        """The embedder that the settings name."""
        return self.indexing.embedder

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
    def telemetry(self) -> Telemetry:
        from opx.telemetry.capability import Telemetry

        return Telemetry(self.installation, self.tables, self.ports.telemetry_stores, self.ports.metric_reader)

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
            telemetry=self.telemetry,
            parsing_tools=self.ports.parsing_tools,
            copies=lambda: self.copies,
            new_chat=self.ports.new_chat,
        )

    @cached_property
    def copies(self) -> ChunkCopies | None:
        """Also gets what the index gets, where a managed service makes an index of its own."""
        return self.ports.copies_of(self.store)

    @cached_property
    def records(self) -> QuestionRecords:
        return QuestionRecords(self.installation, self.tables, self.corpus, self.indexing)

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
        return self.ingestion.manager_of(scope)

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
            schedule=self._schedule,
        )

    def _schedule(self) -> None:
        self.connectors.schedule()

    @cached_property
    def questions(self) -> Questions:
        return Questions(
            self.installation,
            corpus=self.corpus,
            indexing=self.indexing,
            models=lambda: self.models,
            graph=lambda: self.graph,
            learning=self.learning,
            telemetry=lambda: self.telemetry,
            records=self.records,
            past=self._past,
            internet=self._internet,
        )

    def query_service(self, identity: Identity | None = None) -> KnowledgeQuery:
        """The earlier name of `questions.search`."""
        return self.questions.search(identity)

    def _internet(self) -> InternetSearch | None:
        from opx.retrieval.web.setup import internet_search

        return internet_search(self.installation, self.tables, self.secrets)

    def _past(self, asked: Asked, where: SearchFilter, index: SearchEngine) -> SearchEngine:
        return self.lifecycle.as_of.engine(asked, where, index)

    @cached_property
    def pattern_queries(self) -> PatternQueries:
        from opx.learning.queries import PatternQueries

        return PatternQueries(self.installation, self.corpus, self.learning, self.questions, self.records)

    @cached_property
    def connectors(self) -> Connectors:
        from opx.connectors.capability import Connectors

        return Connectors(
            self.installation,
            self.tables,
            self.storage,
            self.work,
            secrets=lambda: self.secrets,
            telemetry=self.telemetry,
            manager=lambda: self.manager,
            functions=self.functions,
            feeds=self.ports.redis_feeds,
        )

    @cached_property
    def tenants(self) -> Tenants:
        from opx.lifecycle.clients.capability import Tenants
        from opx.lifecycle.clients.holdings import ClientStores

        tables, storage, work = self.tables, self.storage, self.work
        return Tenants(
            self.installation,
            ClientStores(tables, storage, work, self.corpus, self.indexing, lambda: self.copies),
            graph=self.graph,
            ingestion=self.ingestion,
            holds=self.lifecycle.holds,
            connectors=self.connectors,
        )

    def runner(self, tell: Callable[[str], None], feeds: Sequence[Feed] = ()) -> Runner:
        """Does in this process what schedules and functions do on AWS."""
        from opx.connectors.runner import Runner

        sources, clock = self.connectors.sources, self.clock
        return Runner(
            sources, self.connectors.puller, lambda: self.ingestion.drain, clock=clock, tell=tell, feeds=feeds
        )

    @cached_property
    def manager(self) -> IngestionManager:
        """Puts documents of the installation's own scope into the corpus."""
        return self.ingestion.manager_of(self.installation.scope, self.connectors.ways_in)
