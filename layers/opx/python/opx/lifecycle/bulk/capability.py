"""Composes bulk jobs: their stages, and what starts, follows and cancels them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

from opx.graph.naming import ScopeDirectory
from opx.ingestion.capability import Ingestion
from opx.ingestion.corpus.capability import Corpus
from opx.ingestion.indexing.capability import Indexing
from opx.lifecycle.bulk.job import BulkJobs
from opx.lifecycle.capability import Lifecycle
from opx.ports import Storage, Tables
from opx.ports.bulk import BatchEmbedder
from opx.ports.queues import Functions
from opx.ports.tables import LIFECYCLE
from opx.runtime.knowledge_file import Installation

if TYPE_CHECKING:
    from opx.lifecycle.bulk.calls import StageCalls
    from opx.lifecycle.bulk.stages import BulkStages


class Bulk:
    """Bulk jobs of an installation. `batch` is the service's embedding in batches, None where the model has none."""

    def __init__(
        self,
        installation: Installation,
        tables: Tables,
        storage: Storage,
        *,
        corpus: Corpus,
        indexing: Indexing,
        ingestion: Ingestion,
        lifecycle: Lifecycle,
        functions: Callable[[], Functions],
        batch: BatchEmbedder | None,
    ) -> None:
        self._installation = installation
        self._tables = tables
        self._storage = storage
        self._corpus = corpus
        self._indexing = indexing
        self._ingestion = ingestion
        self._lifecycle = lifecycle
        self._functions = functions
        self._batch = batch

    @cached_property
    def jobs(self) -> BulkJobs:
        return BulkJobs(self._tables.table(LIFECYCLE), self._installation.clock)

    @cached_property
    def calls(self) -> StageCalls:
        """Calls of stages by a state machine."""
        from opx.lifecycle.bulk.calls import StageCalls

        return StageCalls(self.stages, self.jobs)

    @cached_property
    def stages(self) -> BulkStages:
        from opx.lifecycle.bulk.stages import BulkStages, StageParts

        parts = StageParts(
            installation=self._installation,
            tables=self._tables,
            storage=self._storage,
            corpus=self._corpus,
            indexing=self._indexing,
            ingestion=self._ingestion,
            jobs=self.jobs,
            scopes=lambda: list(ScopeDirectory(self._corpus.clients, self._corpus.projects).all()),
            filler=self._lifecycle.filler,
            searched=self._lifecycle.searched_documents,
            reindexer=lambda: self._lifecycle.reindexer,
            rebuilds=lambda: self._functions().rebuilds,
            batch=self._batch,
        )
        return BulkStages(parts)
