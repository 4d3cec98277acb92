"""Dependencies of the stages of bulk jobs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from opx.ingestion.capability import Ingestion
from opx.ingestion.corpus.capability import Corpus
from opx.ingestion.indexing.capability import Indexing
from opx.lifecycle.bulk.job import BulkJob, BulkJobs, BulkKind, BulkWork
from opx.ports import ObjectStore, Storage, Table, Tables
from opx.ports.bulk import BatchEmbedder, NewBatchEmbedder
from opx.ports.tables import KEYS
from opx.runtime.knowledge_file import Installation

if TYPE_CHECKING:
    from opx.domain.scopes import Scope
    from opx.lifecycle.consistency.comparing import Comparison
    from opx.lifecycle.consistency.reconcile import Repairs
    from opx.lifecycle.reindex.filling import Filler, SearchedDocuments
    from opx.lifecycle.reindex.reindexing import Reindexer
    from opx.ports import Queue


@dataclass(frozen=True, slots=True)
class StageParts:
    """Dependencies of the stages. `batch` makes embedding in batches for a model that has it; `filler` makes one with an
    embedder."""

    installation: Installation
    tables: Tables
    storage: Storage
    corpus: Corpus
    indexing: Indexing
    ingestion: Ingestion
    jobs: BulkJobs
    scopes: Callable[[], Sequence[Scope]]
    filler: Callable[[Any], Filler]
    searched: Callable[[], SearchedDocuments]
    reindexer: Callable[[], Reindexer]
    rebuilds: Callable[[], Queue | None]
    comparison: Callable[[BulkWork], Comparison]
    repairs: Callable[[BulkWork], Repairs]
    batch: NewBatchEmbedder = lambda _model, _dimension: None

    @property
    def keys(self) -> Table:
        return self.tables.table(KEYS)

    def batch_of(self, job: BulkJob) -> BatchEmbedder | None:
        """Embeds in batches with the model of the edition that the job writes to; None where it has no batch jobs, and for a
        job that embeds nothing."""
        if job.work.kind is BulkKind.RECONCILE:
            return None
        state = self.indexing.editions.book.read()
        edition = state.edition(job.edition) if job.edition else state.active
        return self.batch(edition.model, edition.dimension) if edition else None

    @property
    def store(self) -> ObjectStore:
        return self.corpus.store
