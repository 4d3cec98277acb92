"""Ends of bulk jobs: a job is finished with its report, and a new index switched to, or it is cancelled."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from opx.domain.ids import epoch_seconds, iso_time
from opx.errors import IndexWakingError
from opx.ingestion.events import Result
from opx.ingestion.indexing.book import EditionState
from opx.lifecycle.bulk.embedding import GroupEmbeddings
from opx.lifecycle.bulk.files import BulkFiles
from opx.lifecycle.bulk.finishing import read_report, sum_up, write_report
from opx.lifecycle.bulk.job import BulkJob, BulkKind, BulkReport, BulkStage, Shard, ShardApplied
from opx.lifecycle.bulk.parts import StageParts
from opx.lifecycle.bulk.reconciling import sum_up_found
from opx.lifecycle.reindex.job import ReindexPhase
from opx.lifecycle.reindex.reindexing import CALIBRATE_IF_DUE, SEEN_EVERYWHERE
from opx.runtime.threads import Each


class JobEnds:
    """Ends jobs."""

    def __init__(self, parts: StageParts) -> None:
        self._parts = parts

    # -- finish

    def finish(self, job_id: str, shards: Sequence[Shard], stop: Callable[[], bool]) -> BulkReport | None:
        """As `BulkStages.finish`."""
        job = self._parts.jobs.get(job_id)
        files = BulkFiles(self._parts.store, job_id)
        if job.is_ended:
            files.clear()  # an earlier process may not have come to it
            return read_report(files)
        self._parts.jobs.update(job_id, lambda found: found.enter(BulkStage.FINISH))
        report, applied = sum_up(files, shards, job, Each(self._parts.storage.read_threads))
        if job.work.kind is BulkKind.RECONCILE:
            self._reconciled(job, report)
            report.unsettled = len(shards) - len(applied)  # segments, whose documents were estimated
        if job.work.kind is BulkKind.REINDEX and not self._switched(job, report, applied, stop):
            return None
        end = BulkStage.REFUSED if report.problems else BulkStage.DONE
        now = self._parts.installation.clock()
        report.seconds = now - (epoch_seconds(job.started_at) or now)
        write_report(files, report, applied)
        self._end(job_id, end)
        files.clear()
        return report

    def _reconciled(self, job: BulkJob, report: BulkReport) -> None:
        """Sums up what was found, and ingests what was repaired by that, where this process does."""
        found = sum_up_found(BulkFiles(self._parts.store, job.job_id), repair=job.work.repair)
        drain = self._parts.ingestion.drain
        if job.work.repair and drain:
            found.waiting = sum(1 for one in drain.run() if one.result is Result.FAILED)
        report.reconciled = found

    def _switched(
        self, job: BulkJob, report: BulkReport, applied: Sequence[ShardApplied], stop: Callable[[], bool]
    ) -> bool:
        """Catches up, compares and switches to the edition of the job; False if there is more to do."""
        reindexer = self._parts.reindexer()
        known = reindexer.status()[1]
        if not (known and known.edition == job.edition and known.phase in (ReindexPhase.DONE, ReindexPhase.REFUSED)):
            lacking = [key for one in applied for key in one.lacking]
            sample = [key for one in applied for key in one.sample]
            counts = {"documents": report.ingested, "chunks": report.chunks}
            reindexer.loaded(job.job_id, **counts, lacking=lacking, sample=sample)
            progress = reindexer.advance(stop)
            if progress.wait_seconds and not progress.finished:
                raise IndexWakingError("changes of the index have to settle", progress.wait_seconds)
            if not progress.finished:
                return False
            known = progress.job
            rebuilds = self._parts.rebuilds()
            if rebuilds and known.phase is ReindexPhase.DONE:
                rebuilds.send(CALIBRATE_IF_DUE, delay_seconds=SEEN_EVERYWHERE)
        if known.phase is ReindexPhase.REFUSED:
            report.problems = list(known.report.get("problems", []))
        return True

    def _end(self, job_id: str, stage: BulkStage) -> None:
        def ended(job: BulkJob) -> None:
            job.stage = stage
            job.ended_at = iso_time(self._parts.installation.clock())

        self._parts.jobs.update(job_id, ended, ended=True)

    # -- cancel

    def cancel(self, job_id: str, shards: Sequence[Shard]) -> BulkJob:
        """As `BulkStages.cancel`."""
        job = self._parts.jobs.get(job_id)
        files = BulkFiles(self._parts.store, job_id)
        if not job.is_ended:

            def cancelling(found: BulkJob) -> None:
                found.cancelling = True

            job = self._parts.jobs.update(job_id, cancelling, ended=True)
            batch = self._parts.batch_of(job)
            if batch:
                GroupEmbeddings(files, batch).stop()
            self._discard(job)
            report, applied = sum_up(files, shards, job, Each(self._parts.storage.read_threads))
            write_report(files, report, applied)
            self._end(job_id, BulkStage.CANCELLED)
        if job.is_ended and job.stage is not BulkStage.CANCELLED:
            return job
        files.clear()
        return self._parts.jobs.get(job_id)

    def _discard(self, job: BulkJob) -> None:
        state = self._parts.indexing.editions.book.read() if job.edition else None
        edition = state.edition(job.edition) if state else None
        if edition and edition.state is EditionState.BUILDING:
            self._parts.reindexer().discard()
