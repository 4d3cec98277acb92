"""Composes ingestion: the pipeline, its worker, and the managers that put documents into the corpus."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Protocol

from opx.domain.procedures import Step, StoredEffects
from opx.domain.scopes import Scope
from opx.errors import KnowledgeConfigError
from opx.ingestion.channels import read_channel_rules
from opx.ingestion.corpus.capability import Corpus
from opx.ingestion.indexing.capability import Indexing
from opx.ingestion.reading import DocumentReader
from opx.ports import ChatModel, ChunkCopies, Embedder, ObjectInfo, ObjectStore, Storage, Tables, WorkQueue
from opx.ports.models import ParsingTools
from opx.ports.search import GraphWriter
from opx.ports.sources import Secrets
from opx.runtime.knowledge_file import Installation
from opx.settings import ENCRYPT, FOLDER

if TYPE_CHECKING:
    from opx.ingestion.contexts import ContextCache, ContextWriter
    from opx.ingestion.evidence import EvidenceRules
    from opx.ingestion.manager import IngestionManager, WaysIn
    from opx.ingestion.originals import OriginalsKey, OriginalsProtection
    from opx.ingestion.pipeline import CutBefore, IngestionPipeline, UnitOfWork
    from opx.ingestion.prepared import Extract
    from opx.ingestion.worker import IngestionWorker, QueueDrain

PutBaseline = Callable[[Mapping[str, Any], Scope], object]
"""Adds a record of baseline values for a scope."""


class DocumentGraph(Protocol):
    """The graph's interface to ingestion."""

    @property
    def writer(self) -> GraphWriter: ...

    @property
    def extractor(self) -> Extract:
        """Finds nodes and edges in documents."""

    @property
    def written_texts(self) -> ContextCache:
        """Cache of texts that language models generated for passages."""


@dataclass(eq=False)
class Ingestion:
    """Ingestion of an installation. `copies` get the same changes as the index. `new_chat` creates the language model of a
    name. `after` is called after each batch of documents."""

    installation: Installation
    tables: Tables
    storage: Storage
    work: WorkQueue
    _: KW_ONLY
    corpus: Corpus
    indexing: Indexing
    graph: DocumentGraph
    after: Callable[[], None]
    put_baseline: PutBaseline
    parsing_tools: Callable[[], ParsingTools]
    copies: Callable[[], ChunkCopies | None]
    new_chat: Callable[[str], ChatModel]
    secrets: Callable[[], Secrets]

    @cached_property
    def pipeline(self) -> IngestionPipeline:
        return self.pipeline_with(self.indexing.document_embedder)

    def pipeline_with(
        self, embedder: Embedder, cut_before: CutBefore = lambda _key, _fingerprint, _stack: None
    ) -> IngestionPipeline:
        """A pipeline with this embedder of documents, which takes what `cut_before` has of them instead of reading them."""
        from opx.ingestion.pipeline import ChunkingRules, IngestionPipeline

        installation, settings, store = self.installation, self.installation.settings, self.corpus.store
        return IngestionPipeline(
            store=store,
            reader=DocumentReader(
                self.readable_store,
                installation.knowledge,
                max_bytes=settings.max_document_bytes,
                clock=installation.clock,
                tools=self.parsing_tools(),
                channels=read_channel_rules(installation.knowledge, installation.knowledge_path),
            ),
            catalog=self.corpus.catalog,
            embedder=embedder,
            index=self.indexing.written_index,
            rules=ChunkingRules(settings.chunk_tokens, settings.chunk_overlap, self.effects_of),
            unit_of_work=self.tables.unit_of_work,
            repeatable=self._repeatable,
            read_threads=self.storage.read_threads,
            puts_together=self.storage.together,
            index_identity=self.indexing.identity,
            copies=self.copies(),
            contexts=self.context_writer,
            graph=self.graph.writer,
            extract=self.graph.extractor,
            writers=self.indexing.writers,
            originals=self.originals if settings.secret_originals == ENCRYPT else None,
            cut_before=cut_before,
            clock=installation.clock,
        )

    def effects_of(self, steps: Sequence[Step]) -> StoredEffects | None:
        """Classifies the commands of steps, with a table that is read for the first of them."""
        if not any(step.commands for step in steps):
            return None
        from opx.text.procedures.effects import read_effect_table

        try:
            return self.installation.declared(read_effect_table).of_steps(steps)
        except KnowledgeConfigError:  # which every question raises: ingestion goes on
            return None

    @property
    def _repeatable(self) -> UnitOfWork:
        """For writes that are made again if a loss of power takes them: the event is still in the queue then."""
        return partial(self.tables.unit_of_work, synced=False)

    @property
    def readable_store(self) -> ObjectStore:
        """The corpus store with originals in place of encrypted objects, for reading on behalf of the installation."""
        from opx.ingestion.originals import DecryptingObjectStore

        return DecryptingObjectStore(self.corpus.store, self._originals_key)

    @cached_property
    def _originals_key(self) -> OriginalsKey:
        """The key, where originals may be read: in a folder, and in functions that encrypt them."""
        from opx.ingestion.originals import OriginalsKey

        settings = self.installation.settings
        reads = settings.secret_originals == ENCRYPT or settings.address("secrets") == FOLDER
        return OriginalsKey(self.secrets, settings.originals_key if reads else "")

    @cached_property
    def originals(self) -> OriginalsProtection:
        """Encrypts originals."""
        from opx.ingestion.originals import OriginalsProtection

        return OriginalsProtection(self.corpus.store, self.storage.replaceable, self._originals_key)

    @cached_property
    def context_writer(self) -> ContextWriter | None:
        """Writes contexts of chunks during ingestion; None if no model is configured for that."""
        model = self.installation.settings.context_model
        if not model:
            return None
        from opx.ingestion.contexts import ContextWriter

        return ContextWriter(self.new_chat(model), self.graph.written_texts)

    @cached_property
    def worker(self) -> IngestionWorker:
        return self.worker_with(self.pipeline)

    def worker_with(self, pipeline: IngestionPipeline) -> IngestionWorker:
        """A worker that processes events with this pipeline."""
        from opx.ingestion.worker import IngestionWorker, RetryRules

        settings = self.installation.settings
        rules = RetryRules(settings.max_attempts, settings.retry_base_seconds)
        return IngestionWorker(
            pipeline,
            self.corpus.failures,
            rules,
            unit_of_work=self._repeatable,
            after=self.after,
            settle=None if self.work.in_process else self.corpus.announcements.settle,
        )

    @property
    def drain(self) -> QueueDrain | None:
        """Processes the queue in this process; None where Lambda functions do."""
        if not self.work.in_process:
            return None
        from opx.ingestion.worker import QueueDrain

        work = self.work
        return QueueDrain(work.queue, self.worker, exclusive=work.exclusive, unit_of_work=self._repeatable)

    def _fingerprint(self, info: ObjectInfo, sidecar: ObjectInfo | None) -> str:
        return self.pipeline.fingerprint(info, sidecar)

    def manager_of(self, scope: Scope, ways: WaysIn | None = None) -> IngestionManager:
        """The manager that puts documents of this scope into the corpus."""
        return self._manager(scope, self.corpus.store, ways)

    def quiet_manager_of(self, scope: Scope) -> IngestionManager:
        """The manager that puts documents without events of their changes, for a bulk job that ingests them."""
        return self._manager(scope, self.corpus.quiet_store, None)

    def _manager(self, scope: Scope, store: ObjectStore, ways: WaysIn | None) -> IngestionManager:
        from opx.ingestion.manager import IngestionManager

        return IngestionManager(
            store=store,
            catalog=self.corpus.catalog,
            knowledge=self.installation.knowledge,
            drain=self.drain,
            fingerprint=self._fingerprint,
            scope=scope,
            evidence_rules=lambda: self.evidence_rules,
            ways=ways,
            records=lambda record: self.put_baseline(record, scope),
            grouped=self.corpus.grouped,
        )

    @cached_property
    def evidence_rules(self) -> EvidenceRules:
        """Rules that choose the category of evidence. Raises `KnowledgeConfigError`."""
        from opx.ingestion.evidence import read_evidence_rules

        return read_evidence_rules(self.installation.knowledge, self.installation.knowledge_path)
