"""Ends of bulk jobs: a job is finished with its report, or cancelled."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from opx.domain.ids import epoch_seconds, iso_time
from opx.runtime.threads import Each
from opx_bulk.embedding import GroupEmbeddings
from opx_bulk.files import BulkFiles
from opx_bulk.finishing import read_report, sum_up, write_report
from opx_bulk.job import BulkJob, BulkReport, BulkStage, Shard
from opx_bulk.kinds import KindStages
from opx_bulk.parts import StageParts


class JobEnds:
    """Ends jobs."""

    def __init__(self, parts: StageParts, kind: KindStages) -> None:
        self._parts = parts
        self._kind = kind

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
        if not self._kind.finish(job, report, applied, stop):
            return None
        end = BulkStage.REFUSED if report.problems else BulkStage.DONE
        now = self._parts.installation.clock()
        report.seconds = now - (epoch_seconds(job.started_at) or now)
        write_report(files, report, applied)
        self._end(job_id, end)
        files.clear()
        return report

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
            batch = self._kind.batch(job)
            if batch:
                GroupEmbeddings(files, batch).stop()
            self._kind.cancel(job)
            report, applied = sum_up(files, shards, job, Each(self._parts.storage.read_threads))
            write_report(files, report, applied)
            self._end(job_id, BulkStage.CANCELLED)
        if job.is_ended and job.stage is not BulkStage.CANCELLED:
            return job
        files.clear()
        return self._parts.jobs.get(job_id)
