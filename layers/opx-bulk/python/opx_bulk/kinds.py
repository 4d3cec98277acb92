"""The parts of the stages that depend on the kind of a job."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import Any

from opx.errors import ObjectNotFoundError
from opx.ingestion.events import EventOutcome
from opx.ports.bulk import BatchEmbedder
from opx.runtime.threads import cores
from opx_bulk.embedding import GroupEmbeddings
from opx_bulk.files import PREPARED, VECTORS, BulkFiles
from opx_bulk.job import BulkJob, BulkReport, BulkWork, ShardApplied, ShardPrepared
from opx_bulk.listing import LOCAL_SHARD_DOCUMENTS, SHARD_DOCUMENTS, Listed, list_documents
from opx_bulk.parts import StageParts
from opx_bulk.planning import BulkPlan, PlanCount, Sampler, estimate
from opx_bulk.preparing import NeededTexts
from opx_bulk.vectors import PreparedEmbedder, VectorFile, batch_vectors, json_lines, read_vectors


class KindStages(ABC):
    """The stages of one kind of job. `BulkStages` keeps their results, and calls none again whose result is there."""

    builds_index = False
    """True if a job builds an index, which one process of a machine may do at a time."""

    applies_alone = True
    """True if a shard is applied while no other process writes to the stores; else its stage locks them where it has to."""

    def __init__(self, parts: StageParts) -> None:
        self._parts = parts

    @abstractmethod
    def plan(self, work: BulkWork, known: PlanCount, stop: Callable[[], bool]) -> BulkPlan:
        """As `BulkStages.plan`."""

    @abstractmethod
    def list(self, job: BulkJob, files: BulkFiles, stop: Callable[[], bool]) -> bool:
        """Writes the job's shards and their manifest until `stop` returns True; returns True when all are written."""

    @abstractmethod
    def names(self, files: BulkFiles, shard: int) -> Sequence[str]:
        """The keys of a shard's documents, in order, or a name of what it has instead."""

    @abstractmethod
    def prepare(self, job: BulkJob, files: BulkFiles, shard: int, *, attempt: int, embed: bool) -> ShardPrepared:
        """As `BulkStages.prepare`."""

    def batch(self, job: BulkJob) -> BatchEmbedder | None:  # noqa: ARG002 - of a kind that embeds nothing
        """Embeds in batches for the job; None where the model has no batch jobs, or the job embeds nothing."""
        return None

    @abstractmethod
    def apply(self, job: BulkJob, files: BulkFiles, shard: int) -> ShardApplied:
        """As `BulkStages.apply`."""

    def writing(self, job: BulkJob) -> AbstractContextManager[Any]:  # noqa: ARG002 - of the index that is searched
        """Binds index and embedder to those that the job writes to, within the block."""
        return self._parts.indexing.writers.writing()

    def abandon(self, keys: Sequence[str], reason: str) -> None:  # noqa: B027 - most kinds are retried as a whole
        """Records documents that can't be applied, so that they can be retried."""

    def finish(
        self,
        job: BulkJob,  # noqa: ARG002 - most kinds have nothing to do
        report: BulkReport,  # noqa: ARG002
        applied: Sequence[ShardApplied],  # noqa: ARG002
        stop: Callable[[], bool],  # noqa: ARG002
    ) -> bool:
        """Completes the report of what was applied; returns False if there is more to do, when `stop` returned True."""
        return True

    def cancel(self, job: BulkJob) -> None:  # noqa: B027 - most kinds build nothing
        """Discards what the job was building."""


class DocumentStages(KindStages):
    """Stages of a job whose shards are documents, which are chunked and embedded."""

    @abstractmethod
    def listed(self, work: BulkWork, after: str) -> Iterator[Listed]:
        """The documents of the work behind a position of the listing."""

    @abstractmethod
    def sample(self, line: dict[str, str], stack: ExitStack) -> Sequence[str] | EventOutcome:
        """The texts of a listed document that are embedded, or the outcome of one that has none to embed."""

    def plan(self, work: BulkWork, known: PlanCount, stop: Callable[[], bool]) -> BulkPlan:
        embedder = self._parts.indexing.document_embedder
        batch_or_cores = 0 if self._parts.batch(work.model, work.dimension) else cores()
        sampler = Sampler(self.sample, embedder, times=batch_or_cores > 0)
        count = sampler.count(self.listed(work, known.after), known, stop)
        return estimate(work, count, model_id=embedder.model_id, cores=batch_or_cores)

    def list(self, job: BulkJob, files: BulkFiles, stop: Callable[[], bool]) -> bool:
        most = LOCAL_SHARD_DOCUMENTS if self._parts.tables.in_folder else SHARD_DOCUMENTS
        return list_documents(files, lambda after: self.listed(job.work, after), stop, most)

    def batch(self, job: BulkJob) -> BatchEmbedder | None:
        state = self._parts.indexing.editions.book.read()
        edition = state.edition(job.edition) if job.edition else state.active
        return self._parts.batch(edition.model, edition.dimension) if edition else None

    def _prepared(self, files: BulkFiles, shard: int) -> ShardPrepared:
        """The result of `prepare`; of a shard that was not prepared, all of its documents are left."""
        found = files.get(PREPARED, shard, ShardPrepared)
        return found or ShardPrepared(shard=shard, left=tuple(self.names(files, shard)))

    def _needed_texts(self, job: BulkJob, *, embed: bool) -> NeededTexts:
        embedder, batch = self._parts.indexing.document_embedder, self.batch(job)
        usable = batch if batch and batch.model_id == embedder.model_id and not embed else None
        return NeededTexts(embedder, usable, embed=embed)

    def _embedder(self, job: BulkJob, files: BulkFiles, shard: int) -> PreparedEmbedder:
        """An embedder that knows the vectors of the shard's texts."""
        embedder = PreparedEmbedder(self._parts.indexing.document_embedder, keeps=self._parts.tables.in_folder)
        embedder.load(self._vectors(job, files, shard))
        return embedder

    def _vectors(self, job: BulkJob, files: BulkFiles, shard: int) -> Iterator[VectorFile]:
        """The vectors of a shard's texts, from its own file and from the output of a batch job."""
        data = files.read(files.name(VECTORS, shard))
        if data is not None:
            yield read_vectors(data)
        batch = self.batch(job)
        output = GroupEmbeddings(files, batch).outputs_of(shard) if batch else ""
        if batch and output:
            dimension = self._parts.indexing.document_embedder.dimension
            try:
                with self._parts.store.open(output) as stream:
                    yield batch_vectors(batch, dimension, json_lines(stream))
            except ObjectNotFoundError:
                return
