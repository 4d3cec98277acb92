"""Taking documents in, as it is put together."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from opx.composition.graph import GraphServices
from opx.domain.scopes import Scope
from opx.ports import ObjectInfo

if TYPE_CHECKING:
    from opx.domain.graph import Relinked
    from opx.graph.relinking import Relinker
    from opx.ingestion.manager import IngestionManager
    from opx.ingestion.pipeline import IngestionPipeline
    from opx.ingestion.worker import IngestionWorker
    from opx.ways_in import WaysIn


class IngestionServices(GraphServices):
    """The pipeline and those who work with it."""

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
            writers=self.writers,
        )

    @cached_property
    def worker(self) -> IngestionWorker:
        from opx.ingestion.worker import IngestionWorker, RetryRules

        rules = RetryRules(self.settings.max_attempts, self.settings.retry_base_seconds)
        return IngestionWorker(
            self.pipeline, self.failures, rules, unit_of_work=self.unit_of_work, after=self.relink_new
        )

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
            unit_of_work=self.unit_of_work,
            seconds=self.relink_seconds,
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

    def _fingerprint(self, info: ObjectInfo, sidecar: ObjectInfo | None) -> str:
        return self.pipeline.fingerprint(info, sidecar)

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
