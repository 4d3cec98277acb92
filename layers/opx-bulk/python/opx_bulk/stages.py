"""The stages of bulk jobs: each a function of a job, and of a shard or a group of shards, wherever it runs.

    list      turns, until it returns `True`             → shards/NNNNN.jsonl, shards.json
    prepare   a call for each shard                      → prepared/NNNNN.json, with cuts, and texts or vectors
    group     one call, where there are batch jobs       → groups.json
    embed     calls for each group, until it is ended    → batches/NNNNN.json
    apply     a call for each shard                      → applied/NNNNN.json
    finish    turns, until it returns a report           → report.json

A stage may be called again at any time, also while it is running: it returns the result that it has stored, or does its
work again, with the same result. It raises `StoreUnavailableError` (`ThrottledError` and `IndexWakingError` with the seconds
to wait) when it has to be called again, and `BulkCancelledError` when the job was ended; then its runner stops.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from opx.domain.record import Record, from_json
from opx.errors import BulkCancelledError
from opx_bulk.embedding import GroupEmbedding, GroupEmbeddings, ShardGroup, group_shards
from opx_bulk.ending import JobEnds
from opx_bulk.files import APPLIED, CUTS, GROUPS, MANIFEST, PREPARED, READING, TEXTS, VECTORS, BulkFiles
from opx_bulk.ingesting import IngestStages
from opx_bulk.job import (
    BulkFailure,
    BulkJob,
    BulkKind,
    BulkReport,
    BulkStage,
    BulkWork,
    Shard,
    ShardApplied,
    ShardPrepared,
)
from opx_bulk.kinds import KindStages
from opx_bulk.parts import StageParts
from opx_bulk.planning import BulkPlan, PlanCount
from opx_bulk.reconciling import ReconcileStages
from opx_bulk.reindexing import ReindexStages


class BulkStages:
    """Runs stages. One instance may serve several threads."""

    def __init__(self, parts: StageParts) -> None:
        self._parts = parts
        self._kinds: Mapping[BulkKind, KindStages] = {
            BulkKind.INGEST: IngestStages(parts),
            BulkKind.REINDEX: ReindexStages(parts),
            BulkKind.RECONCILE: ReconcileStages(parts),
        }

    def files(self, job_id: str) -> BulkFiles:
        return BulkFiles(self._parts.store, job_id)

    def kind_of(self, job_id: str) -> KindStages:
        """The stages of the job's kind."""
        return self._kinds[self._parts.jobs.get(job_id).work.kind]

    def _running(self, job_id: str) -> tuple[BulkJob, KindStages, BulkFiles]:
        """A job that was not ended. Raises `BulkCancelledError`."""
        job = self._parts.jobs.running(job_id)
        return job, self._kinds[job.work.kind], self.files(job_id)

    # -- list

    def list(self, job_id: str, stop: Callable[[], bool] = lambda: False) -> bool:
        """Lists the documents of the job until `stop` returns True; returns True when all are listed."""
        job, kind, files = self._running(job_id)
        if not kind.list(job, files, stop):
            return False
        shards = self.shards(job_id)

        def listed(found: BulkJob) -> None:
            found.shards = len(shards)
            found.documents = sum(shard.documents for shard in shards)
            found.bytes = sum(shard.bytes for shard in shards)
            found.stage = BulkStage.PREPARE if found.stage is BulkStage.LIST else found.stage

        self._parts.jobs.update(job_id, listed)
        return True

    def shards(self, job_id: str) -> Sequence[Shard]:
        """The shards of a job, once it is listed."""
        return [from_json(Shard, row) for row in self.files(job_id).get_list(MANIFEST) or ()]

    def plan(self, work: BulkWork, known: PlanCount, stop: Callable[[], bool] = lambda: False) -> BulkPlan:
        """Estimates work by the documents behind those of `known`, listed until `stop` returns True."""
        return self._kinds[work.kind].plan(work, known, stop)

    # -- prepare

    def prepare(self, job_id: str, shard: int, *, attempt: int = 1, embed: bool = False) -> ShardPrepared:
        """Reads and chunks a shard's documents; nothing but files of the job is written. The texts that need vectors are
        written for batch jobs, or with `embed` embedded at once. `attempt` counts the calls for this shard: from the second
        on, a document at which the process ends is found, and left out of the next attempt."""
        job, kind, files = self._running(job_id)
        found = files.get(PREPARED, shard, ShardPrepared)
        if found is None:
            with kind.writing(job):
                found = kind.prepare(job, files, shard, attempt=attempt, embed=embed)
            self._keep(job_id, PREPARED, shard, found)
            files.delete(shard, [READING])
        return found

    # -- embed

    def group(self, job_id: str) -> Sequence[ShardGroup]:
        """Groups the prepared shards into batch jobs; no groups where the model has none."""
        job, kind, files = self._running(job_id)
        if files.get_list(GROUPS) is None:
            batch = kind.batch(job)
            shards = self.shards(job_id) if batch else ()
            prepared = (files.get(PREPARED, shard.number, ShardPrepared) for shard in shards)
            known = [one for one in prepared if one]
            files.put_list(GROUPS, list(group_shards(known, batch.limits)) if batch else [])
        self._parts.jobs.update(job_id, lambda found: found.enter(BulkStage.EMBED))
        return [from_json(ShardGroup, row) for row in files.get_list(GROUPS) or ()]

    def embed(self, job_id: str, group: int) -> GroupEmbedding:
        """Starts the batch job of a group, or looks at it; ended if `is_ended`, else call it again after
        `embedding.POLL_SECONDS`."""
        job, kind, files = self._running(job_id)
        batch = kind.batch(job)
        assert batch is not None
        return GroupEmbeddings(files, batch).step(group)

    # -- apply

    def apply(self, job_id: str, shard: int) -> ShardApplied:
        """Applies a shard by the ordinary path, with the vectors that are there. One that was not prepared is read here, and
        embedded on demand."""
        job, kind, files = self._running(job_id)
        found = files.get(APPLIED, shard, ShardApplied)
        if found is None:
            with kind.writing(job):
                found = kind.apply(job, files, shard)
            self._keep(job_id, APPLIED, shard, found)
            files.delete(shard, [CUTS, TEXTS, VECTORS])
        return found

    def abandon(self, job_id: str, shard: int, reason: str) -> ShardApplied:
        """Ends a shard that can't be applied: its documents are failed, for this reason, and are in the list of failed items,
        from which they can be retried."""
        _, kind, files = self._running(job_id)
        found = files.get(APPLIED, shard, ShardApplied)
        if found:
            return found
        names = kind.names(files, shard)
        kind.abandon(names, reason)
        failures = tuple(BulkFailure(name, reason) for name in names)
        found = ShardApplied(shard=shard, documents=len(names), failed=len(names), failures=failures)
        self._keep(job_id, APPLIED, shard, found)
        return found

    # -- ends

    def finish(self, job_id: str, stop: Callable[[], bool] = lambda: False) -> BulkReport | None:
        """Compares the counts of the job, and has a new index answer; works until `stop` returns True, and returns the report
        when all is done, else None. Raises `IndexWakingError` while changes have to settle."""
        return self._ends(job_id).finish(job_id, self.shards(job_id), stop)

    def cancel(self, job_id: str) -> BulkJob:
        """Ends a job: its batch jobs are stopped, a new index is discarded, and its files are removed, but for the report of
        what was done. Documents that were ingested stay. Doing so again removes what stages that were running left. Raises
        `InvalidInputError` for a new index that answers already."""
        return self._ends(job_id).cancel(job_id, self.shards(job_id))

    def _ends(self, job_id: str) -> JobEnds:
        return JobEnds(self._parts, self.kind_of(job_id))

    # -- shared

    def _keep(self, job_id: str, result: str, shard: int, found: Record) -> None:
        """Stores a result; nothing of a job that was ended meanwhile. Raises `BulkCancelledError`."""
        files = self.files(job_id)
        files.put(result, shard, found)
        try:
            self._parts.jobs.running(job_id)
        except BulkCancelledError:
            files.delete(shard, [result, CUTS, TEXTS, VECTORS, READING])
            raise
