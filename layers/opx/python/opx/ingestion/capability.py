"""Composes ingestion: the pipeline, its worker, and the managers that put documents into the corpus."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

from opx.domain.scopes import Scope
from opx.graph.capability import Graph
from opx.ingestion.corpus.capability import Corpus
from opx.ingestion.indexing.capability import Indexing
from opx.ports import ChatModel, ChunkCopies, ObjectInfo, Storage, Tables, WorkQueue
from opx.ports.reading import ParsingTools
from opx.runtime.installation import Installation
from opx.telemetry.capability import Telemetry

if TYPE_CHECKING:
    from opx.domain.graph import Relinked
    from opx.graph.relinking import Relinker
    from opx.ingestion.contexts import ContextWriter
    from opx.ingestion.evidence_rules import EvidenceRules
    from opx.ingestion.manager import IngestionManager, WaysIn
    from opx.ingestion.pipeline import IngestionPipeline
    from opx.ingestion.worker import IngestionWorker, QueueDrain

RELINK_SECONDS = 45.0
"""For mentions of new names after a batch of documents: a function that ingests has five minutes. The rest is left to a daily
run; a machine's own process has none, and goes on until it is done."""


class Ingestion:
    """`copies` also get what the index gets. `new_chat` gives the language model of a name."""

    def __init__(
        self,
        installation: Installation,
        tables: Tables,
        storage: Storage,
        work: WorkQueue,
        *,
        corpus: Corpus,
        indexing: Indexing,
        graph: Graph,
        telemetry: Telemetry,
        parsing_tools: Callable[[], ParsingTools],
        copies: Callable[[], ChunkCopies | None],
        new_chat: Callable[[str], ChatModel],
    ) -> None:
        self._installation = installation
        self._tables = tables
        self._storage = storage
        self._work = work
        self._corpus = corpus
        self._indexing = indexing
        self._graph = graph
        self._telemetry = telemetry
        self._parsing_tools = parsing_tools
        self._copies = copies
        self._new_chat = new_chat

    @cached_property
    def pipeline(self) -> IngestionPipeline:
        from opx.ingestion.pipeline import ChunkingRules, IngestionPipeline
        from opx.ingestion.reading import DocumentReader

        installation, settings, store = self._installation, self._installation.settings, self._corpus.store
        return IngestionPipeline(
            store=store,
            reader=DocumentReader(
                store,
                installation.knowledge,
                max_bytes=settings.max_document_bytes,
                clock=installation.clock,
                tools=self._parsing_tools(),
            ),
            catalog=self._corpus.catalog,
            embedder=self._indexing.document_embedder,
            index=self._indexing.written_index,
            rules=ChunkingRules(settings.chunk_tokens, settings.chunk_overlap),
            unit_of_work=self._tables.unit_of_work,
            read_threads=self._storage.read_threads,
            index_identity=self._indexing.identity,
            copies=self._copies(),
            contexts=self.context_writer,
            graph=self._graph.writer,
            extract=self._graph.extractor,
            writers=self._indexing.writers,
        )

    @cached_property
    def context_writer(self) -> ContextWriter | None:
        """Has contexts of chunks written as documents are ingested; None if no model is chosen for that."""
        model = self._installation.settings.context_model
        if not model:
            return None
        from opx.ingestion.contexts import ContextWriter

        return ContextWriter(self._new_chat(model), self._graph.written_texts)

    @cached_property
    def worker(self) -> IngestionWorker:
        from opx.ingestion.worker import IngestionWorker, RetryRules

        settings = self._installation.settings
        rules = RetryRules(settings.max_attempts, settings.retry_base_seconds)
        return IngestionWorker(
            self.pipeline,
            self._corpus.failures,
            rules,
            unit_of_work=self._tables.unit_of_work,
            after=self.relink_new,
        )

    @property
    def drain(self) -> QueueDrain | None:
        """Works on the queue in this process; None where functions do."""
        if not self._work.in_process:
            return None
        from opx.ingestion.worker import QueueDrain

        work = self._work
        return QueueDrain(work.queue, self.worker, exclusive=work.exclusive, unit_of_work=self._tables.unit_of_work)

    @cached_property
    def relinker(self) -> Relinker:
        """Has documents mention what was declared after them."""
        from opx.graph.naming_scopes import ScopeDirectory
        from opx.graph.relinking import Relinker

        corpus = self._corpus
        return Relinker(
            store=self._graph.store,
            index=self._indexing.written_index,
            catalog=corpus.catalog,
            chunks=self.pipeline.read_chunks,
            scopes=ScopeDirectory(corpus.clients, corpus.projects),
            unit_of_work=self._tables.unit_of_work,
            seconds=0.0 if self._work.in_process else RELINK_SECONDS,
        )

    def relink_new(self) -> None:
        """Relink after documents were ingested. What can't be done now is left to the next full run."""
        names = self._graph.writer.taken()
        if names:
            self.relinker.relink_or_leave(names)

    def relink(self, *, seconds: float = 0.0) -> Relinked:
        """Have all documents mention what is declared, within `seconds` if they are given. Raises
        `StoreUnavailableError`."""
        with self._work.exclusive():
            return self.relinker.relink_all(seconds=seconds)

    def _fingerprint(self, info: ObjectInfo, sidecar: ObjectInfo | None) -> str:
        return self.pipeline.fingerprint(info, sidecar)

    def manager_of(self, scope: Scope, ways: WaysIn | None = None) -> IngestionManager:
        """Puts documents of this scope into the corpus."""
        from opx.ingestion.manager import IngestionManager

        return IngestionManager(
            store=self._corpus.store,
            catalog=self._corpus.catalog,
            knowledge=self._installation.knowledge,
            drain=self.drain,
            fingerprint=self._fingerprint,
            scope=scope,
            evidence_rules=lambda: self.evidence_rules,
            ways=ways,
            records=lambda record: self._telemetry.baselines.put_record(record, scope=scope),
        )

    @cached_property
    def evidence_rules(self) -> EvidenceRules:
        """The categories of evidence. Raises `KnowledgeConfigError`."""
        from opx.ingestion.evidence_rules import read_evidence_rules

        return read_evidence_rules(self._installation.knowledge, self._installation.knowledge_path)
