"""Dependencies of the stages of bulk jobs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from opx.domain.scopes import Scope
from opx.ingestion.capability import Ingestion
from opx.ingestion.corpus.capability import Corpus
from opx.ingestion.indexing.capability import Indexing
from opx.lifecycle.reindex.filling import Filler, SearchedDocuments
from opx.lifecycle.reindex.reindexing import Reindexer
from opx.ports import ObjectStore, Queue, Storage, Table, Tables
from opx.ports.bulk import NewBatchEmbedder
from opx.ports.tables import KEYS
from opx.runtime.knowledge_file import Installation
from opx_assurance.consistency.comparing import Comparison
from opx_assurance.consistency.reconcile import Repairs
from opx_bulk.job import BulkJobs, BulkWork


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

    @property
    def store(self) -> ObjectStore:
        return self.corpus.store
