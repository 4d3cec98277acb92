"""Making a new index, as it is put together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from opx.composition.ingestion import IngestionServices
from opx.errors import InvalidInputError, ObjectNotFoundError
from opx.settings import MANAGED_ENGINE
from opx.tables import KEYS, LIFECYCLE

if TYPE_CHECKING:
    from opx.domain.documents import DocumentChunk, DocumentKey
    from opx.lifecycle.reindex.filling import Filler
    from opx.lifecycle.reindex.reindexing import Reindexer

MANAGED = "a managed knowledge base makes its index itself, of a model that its deployment names: see docs/deploy.md"
ASSIGNED = (
    "a classic collection names its entries itself, so that no second index can be kept in step with it: make a "
    "next-generation one, and import there what `opx export` writes"
)


class ReindexServices(IngestionServices):
    """A new index beside the one that answers."""

    @property
    def reindexer(self) -> Reindexer:
        """Makes a new index. Raises `InvalidInputError` where that can't be."""
        from opx.graph.naming_scopes import ScopeDirectory
        from opx.lifecycle.reindex.job import JobStore
        from opx.lifecycle.reindex.making import Making
        from opx.lifecycle.reindex.reindexing import Reindexer

        self._require_editions()
        subject = self.editions_subject
        making = Making(
            editions=self.editions,
            jobs=JobStore(self.table(LIFECYCLE), subject, clock=self.clock, lease_seconds=self.reindex_lease_seconds),
            parts=self,
            filler=self._filler,
            catalog=self.catalog,
            keys=self.table(KEYS),
            chunks=self._chunks_on_file,
            scopes=ScopeDirectory(self.clients, self.projects).all,
            categories=lambda: list(self.knowledge.categories),
            own_identity=self.settings.search_index,
            clock=self.clock,
            pace=self.reindex_pace,
            exclusive=self.exclusive_work,
            switched=self.index_changed,
        )
        return Reindexer(making)

    def _chunks_on_file(self, key: DocumentKey, document_id: str) -> Iterator[DocumentChunk]:
        """Not by the pipeline, which needs an index that can be read; nothing if they are gone."""
        from opx.ingestion.chunk_files import read_chunks

        try:
            yield from read_chunks(self.store, key, document_id)
        except ObjectNotFoundError:
            return

    def _require_editions(self) -> None:
        if self.settings.search_engine == MANAGED_ENGINE:
            raise InvalidInputError(MANAGED)
        if self.settings.backend == "aws" and self.settings.search_generation == "classic":
            raise InvalidInputError(ASSIGNED)
        if not self.has_editions:
            raise InvalidInputError("the index was given to this process: there is no other one to make")

    @property
    def _filler(self) -> Filler:
        from opx.lifecycle.reindex.filling import Filler

        return Filler(
            catalog=self.catalog,
            read_chunks=self._chunks_on_file,
            knowledge=self.knowledge,
            embedder=self.document_embedder,
            editions=self.editions,
            contexts=self.context_writer,
            threads=self.read_threads,
        )
