"""Composes bulk jobs: their stages, and what starts, follows and cancels them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING

from opx.domain.record import Record
from opx.errors import InvalidInputError, OpxError
from opx.graph.naming import ScopeDirectory
from opx.ingestion.capability import Ingestion
from opx.ingestion.corpus.capability import Corpus
from opx.ingestion.indexing.capability import Indexing
from opx.lifecycle.capability import Lifecycle
from opx.ports import Storage, Tables
from opx.ports.bulk import NewBatchEmbedder
from opx.ports.queues import Functions
from opx.ports.tables import LIFECYCLE
from opx.runtime.knowledge_file import Installation
from opx_assurance.capability import Assurance, assurance
from opx_bulk.files import APPLIED, PREPARED
from opx_bulk.finishing import failures, read_report
from opx_bulk.job import BulkFailure, BulkJob, BulkJobs, BulkKind, BulkReport, BulkWork
from opx_bulk.parts import StageParts

if TYPE_CHECKING:
    from opx.operations.system import System
    from opx_bulk.calls import StageCalls
    from opx_bulk.stages import BulkStages


@dataclass(eq=False)
class Bulk:
    """Bulk jobs of an installation. `batch` makes the service's embedding in batches."""

    installation: Installation
    tables: Tables
    storage: Storage
    _: KW_ONLY
    corpus: Corpus
    indexing: Indexing
    ingestion: Ingestion
    lifecycle: Lifecycle
    assurance: Assurance
    functions: Callable[[], Functions]
    batch: NewBatchEmbedder

    @classmethod
    def of(cls, system: System) -> Bulk:
        return cls(
            system.installation,
            system.tables,
            system.storage,
            corpus=system.corpus,
            indexing=system.indexing,
            ingestion=system.ingestion,
            lifecycle=system.lifecycle,
            assurance=system.part(assurance),
            functions=lambda: system.ports.functions,
            batch=system.ports.batch_embedder,
        )

    @cached_property
    def jobs(self) -> BulkJobs:
        return BulkJobs(self.tables.table(LIFECYCLE), self.installation.clock)

    @cached_property
    def calls(self) -> StageCalls:
        """Calls of stages by a state machine."""
        from opx_bulk.calls import StageCalls

        return StageCalls(self.stages, self.jobs)

    @cached_property
    def stages(self) -> BulkStages:
        from opx_bulk.stages import BulkStages

        parts = StageParts(
            installation=self.installation,
            tables=self.tables,
            storage=self.storage,
            corpus=self.corpus,
            indexing=self.indexing,
            ingestion=self.ingestion,
            jobs=self.jobs,
            scopes=lambda: list(ScopeDirectory(self.corpus.clients, self.corpus.projects).all()),
            filler=self.lifecycle.filler,
            searched=self.lifecycle.searched_documents,
            comparison=lambda work: self.assurance.comparison(thorough=work.thorough),
            repairs=lambda work: self.assurance.repairs(thorough=work.thorough),
            reindexer=lambda: self.lifecycle.reindexer,
            rebuilds=lambda: self.functions().rebuilds,
            batch=self.batch,
        )
        return BulkStages(parts)

    def begin(self, work: BulkWork, by: str) -> BulkJob:
        """Adds a job, with the edition of the index that it builds, or returns the unfinished one with the same work. Raises
        `BulkBusyError` that names another unfinished one, and `InvalidInputError` as `reindex` does."""
        known = self.jobs.last(work.kind)
        if known and known.is_ended:
            self.stages.files(known.job_id).clear()  # its process may have ended before it did so
        elif known and known.work == work and not known.cancelling:
            return self._with_edition(known)
        job = self.jobs.begin(work, by)
        try:
            return self._with_edition(job)
        except OpxError:
            self.stages.cancel(job.job_id)
            raise

    def _with_edition(self, job: BulkJob) -> BulkJob:
        """Starts the edition that the job builds, if it builds one that isn't started."""
        if job.work.kind is not BulkKind.REINDEX or job.edition:
            return job
        reindexer, work = self.lifecycle.reindexer, job.work
        if reindexer.is_under_way:
            raise InvalidInputError("a new index is being built already: finish it with `opx reindex`, or discard it")
        edition = reindexer.start(
            model=work.model, model_path=work.model_path, dimension=work.dimension, collection=work.collection
        )
        reindexer.leave_to(job.job_id)

        def named(found: BulkJob) -> None:
            found.edition = edition.name

        return self.jobs.update(job.job_id, named)

    def progress(self, job: BulkJob) -> BulkProgress:
        """Numbers of the shards that are prepared and applied, and of the documents in the latter, by the files of a job."""
        files = self.stages.files(job.job_id)
        report = read_report(files)
        if report is not None:
            return BulkProgress(job.shards, job.shards, job.documents - report.unsettled, report)
        sizes = {shard.number: shard.documents for shard in self.stages.shards(job.job_id)}
        applied = files.numbers(APPLIED)
        settled = sum(sizes.get(number, 0) for number in applied)
        return BulkProgress(len(files.numbers(PREPARED)), len(applied), settled)

    def failures(self, job: BulkJob, *, after: int, limit: int) -> list[BulkFailure]:
        """Documents that failed so far, those behind the first `after`."""
        files = self.stages.files(job.job_id)
        return list(islice(failures(files, self.stages.shards(job.job_id)), after, after + limit))


class BulkProgress(Record, frozen=True):
    """Progress of a job; `report` is there at its end."""

    prepared: int
    applied: int
    settled: int
    report: BulkReport | None = None
