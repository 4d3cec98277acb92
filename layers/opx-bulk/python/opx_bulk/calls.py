"""Calls of stages by a state machine: each does a turn of a stage, or a shard of it, and says whether to call again."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from math import ceil
from typing import Any

from opx.domain.record import Record
from opx.errors import (
    BulkCancelledError,
    BulkFailedError,
    IndexWakingError,
    InvalidInputError,
    OpxError,
    StoreUnavailableError,
    ThrottledError,
)
from opx_bulk.embedding import POLL_SECONDS
from opx_bulk.files import APPLIED
from opx_bulk.job import BulkJob, BulkJobs
from opx_bulk.stages import BulkStages

log = logging.getLogger(__name__)

NOT_APPLIED = (
    "its shard could not be applied: every call of the function failed, or was ended by a limit of time or memory"
)


SHARDS = ("prepare", "apply")
"""Stages that are called for each shard. In the others, an index that wakes up, or whose changes have to settle, is waited
for between calls."""


class ServiceBusyError(OpxError):
    """The call is to be repeated: a model, an index or a store is busy, wakes up, or can't be reached."""


class Turn(Record, frozen=True):
    """Result of a call. Unless it is `finished`, the same call is to be made again after `wait_seconds`. `ended`: the job was
    cancelled, or is done, and no stage is left."""

    finished: bool = True
    wait_seconds: int = 0
    ended: bool = False


class StageCalls:
    """Calls of one job's stages, from any process. Raises `StoreUnavailableError` when a call is to be repeated."""

    def __init__(self, stages: BulkStages, jobs: BulkJobs) -> None:
        self._stages = stages
        self._jobs = jobs

    def call(
        self, stage: str, job_id: str, *, shard: int = 0, retries: int = 0, stop: Callable[[], bool] = lambda: False
    ) -> Turn:
        """`retries` counts the earlier calls for a shard. A stage of a job that was ended is finished. Raises
        `InvalidInputError` for an unknown stage."""
        calls: dict[str, Callable[[], Turn]] = {
            "list": lambda: Turn(self._stages.list(job_id, stop)),
            "prepare": lambda: self._done(self._stages.prepare(job_id, shard, attempt=retries + 1)),
            "embed": lambda: self._embed(job_id),
            "apply": lambda: self._done(self._stages.apply(job_id, shard)),
            "finish": lambda: self._finish(job_id, stop),
        }
        if stage not in calls:
            raise InvalidInputError(f"a bulk job has no stage {stage!r}")
        try:
            return calls[stage]()
        except BulkCancelledError:
            return Turn(ended=True)
        except IndexWakingError as exc:
            if stage in SHARDS:
                raise
            return Turn(finished=False, wait_seconds=ceil(exc.retry_after))

    def of_event(self, event: Mapping[str, Any], stop: Callable[[], bool]) -> Turn:
        """The call that an event of the state machine describes. Raises `ServiceBusyError`, whose message quotes no document,
        and `BulkFailedError`."""
        stage, job = str(event["stage"]), str(event["job"])
        if stage == "fail":
            reason = ": ".join(filter(None, (str(event.get("error", "")), str(event.get("cause", ""))[:300])))
            return self.fail(job, str(event["execution"]), reason)
        shard, retries = int(event.get("shard", 0)), int(event.get("retries", 0))
        try:
            return self.call(stage, job, shard=shard, retries=retries, stop=stop)
        except StoreUnavailableError as exc:
            log.info("%s of %s has to wait: %s", stage, job, exc)
            raise ServiceBusyError(type(exc).__name__) from exc

    @staticmethod
    def _done(_result: Record) -> Turn:
        return Turn()

    # -- embed

    def _embed(self, job_id: str) -> Turn:
        """Looks at the batch jobs that run, and starts others until the quota of jobs is used up."""
        waits = False
        for group in self._stages.group(job_id):
            try:
                waits = not self._stages.embed(job_id, group.number).is_ended or waits
            except ThrottledError:
                return Turn(finished=False, wait_seconds=int(POLL_SECONDS))
        return Turn(finished=not waits, wait_seconds=int(POLL_SECONDS) if waits else 0)

    # -- finish

    def _finish(self, job_id: str, stop: Callable[[], bool]) -> Turn:
        self._abandon(job_id, self._left(job_id))
        return Turn(self._stages.finish(job_id, stop) is not None)

    def _left(self, job_id: str) -> Sequence[int]:
        """Shards without a result, which are fewer than the job tolerates: otherwise its execution has failed. None of a job
        that is done, whose files are removed."""
        if self._jobs.get(job_id).is_ended:
            return []
        applied = set(self._stages.files(job_id).numbers(APPLIED))
        return [shard.number for shard in self._stages.shards(job_id) if shard.number not in applied]

    def _abandon(self, job_id: str, shards: Sequence[int]) -> None:
        for shard in shards:
            self._stages.abandon(job_id, shard, NOT_APPLIED)

    # -- failures

    def fail(self, job_id: str, execution: str, reason: str) -> Turn:
        """Records why an execution fails, and raises `BulkFailedError`, which ends it. A second call for the same execution
        is one of a redrive: the failure is forgotten, and the job goes on."""
        mark = f"{execution}: "
        known = self._jobs.get(job_id)
        if known.is_ended or known.cancelling:
            return Turn(ended=True)
        if known.problem.startswith(mark):
            self._jobs.update(job_id, _with_problem(""))
            return Turn(finished=False)
        self._jobs.update(job_id, _with_problem(mark + reason))
        raise BulkFailedError(f"the bulk job {job_id} stopped: {reason}")


def _with_problem(problem: str) -> Callable[[BulkJob], None]:
    def change(job: BulkJob) -> None:
        job.problem = problem

    return change
