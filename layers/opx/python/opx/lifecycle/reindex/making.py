"""What the making of an index is made of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from opx.domain.documents import DocumentChunk, DocumentKey
from opx.domain.record import replace
from opx.domain.scopes import Scope
from opx.errors import EmbeddingError, IncompatibleIndexError, InvalidInputError
from opx.ingestion.corpus.catalog import Catalog
from opx.ingestion.indexing.book import Edition
from opx.ingestion.indexing.editions import Editions, IndexService
from opx.lifecycle.reindex.filling import Filler
from opx.lifecycle.reindex.job import Job, JobStore, Phase
from opx.ports import Clock, Embedder, Table


@dataclass(frozen=True, slots=True)
class Progress:
    """Where the work is. `wait_seconds`: nothing is to be done until then."""

    job: Job
    wait_seconds: float = 0.0

    @property
    def finished(self) -> bool:
        return self.job.phase in (Phase.DONE, Phase.REFUSED)


@dataclass(frozen=True, slots=True)
class Pace:
    """`start_seconds` after which nobody is at work any more who began before the new index was noted; `settling_seconds`
    after which all that was written is found, and `pause_seconds` is for others to finish what they are at. `alone`: nobody
    is at work while it is switched, so that what seems to be under way was interrupted."""

    start_seconds: float = 0.0
    settling_seconds: float = 0.0
    pause_seconds: float = 1.0
    alone: bool = True


@dataclass(frozen=True, slots=True)
class Making:
    """`embedder` gives the model of an edition, `chunks` reads those of a version, `exclusive` keeps out who ingests
    documents, where that can be, and `switched` is called after a switch."""

    editions: Editions
    jobs: JobStore
    indexes: IndexService
    embedder: Callable[[Edition], Embedder]
    filler: Filler
    catalog: Catalog
    keys: Table
    chunks: Callable[[DocumentKey, str], Iterator[DocumentChunk]]
    scopes: Callable[[], Iterable[Scope]]
    categories: Callable[[], Sequence[str]]
    clock: Clock
    pace: Pace
    exclusive: Callable[[], AbstractContextManager[Any]]
    switched: Callable[[], None]

    def is_readable(self, edition: Edition) -> bool:
        """Whether this program can use its index, and has its model. Raises `IndexUnavailableError`."""
        try:
            embedder = self.editions.open(edition).embedder
            self.indexes.check(replace(edition, model_id=embedder.model_id, dimension=embedder.dimension))
        except (EmbeddingError, IncompatibleIndexError, InvalidInputError):
            return False
        return True
