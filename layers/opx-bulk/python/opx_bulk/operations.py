"""Operations of bulk jobs: an estimate with its price, start, progress, and cancellation.

On a machine, a job runs in the process that starts it, on all cores; on AWS, an execution of a state machine runs it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from opx.domain.policy import Action
from opx.domain.record import Record, about, like, replace
from opx.domain.requests import Request, Text
from opx.errors import BulkBusyError, BulkCancelledError, ForbiddenError, InvalidInputError
from opx.operations.administration import MODEL_PATH_HERE, require_stores
from opx.operations.context import Context
from opx.operations.registry import Function, operation
from opx.runtime.deadlines import remaining, unlimited
from opx.runtime.threads import cores
from opx_bulk.capability import Bulk
from opx_bulk.job import BulkFailure, BulkJob, BulkKind, BulkReport, BulkStage, BulkWork
from opx_bulk.planning import BulkPlan, PlanCount

if TYPE_CHECKING:
    from opx.operations.system import System
    from opx.runtime.children import OpenState
    from opx.settings import Settings

LEFT_SECONDS = 15.0
"""Time that is kept for the rest of a request when its listing stops."""

_LOCAL_MODEL = "local"

Address = Annotated[str, Meta(max_length=1200)]


class BulkRequest(Request, frozen=True, kw_only=True):
    """Base of requests that state the work of a job."""

    kind: Annotated[
        BulkKind, about("Objects of the corpus, the catalog's documents into a new index, or a comparison of stores.")
    ]
    prefix: Annotated[Address, about("With ingest: only objects whose key begins so.")] = ""
    inventory: Annotated[
        Address,
        about(
            "With ingest, on AWS: manifest of an S3 Inventory in CSV, s3://BUCKET/KEY.",
            pattern=r"^(s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]/.+)?$",
        ),
    ] = ""
    model: Annotated[Text, about("With reindex: another embedding model.")] = ""
    model_path: Annotated[
        str, about("With reindex: the folder of one, for the machine's owner alone.", max_length=4096)
    ] = ""
    dimension: Annotated[int, about("With reindex: numbers of its vectors, where the model leaves a choice.", ge=0)] = 0
    collection: Annotated[str, about("With reindex, on AWS: the search collection.", max_length=32)] = ""
    repair: Annotated[bool, about("With reconcile: repair differences, but remove nothing.")] = False
    thorough: Annotated[bool, about("With reconcile: read every file, and compare entries one by one.")] = False

    def work(self) -> BulkWork:
        """Raises `InvalidInputError` for fields that are of the other kind."""
        of_kind = _FIELDS[self.kind]
        for name in chain.from_iterable(_FIELDS.values()):
            if getattr(self, name) and name not in of_kind:
                raise InvalidInputError(f"{name} is not for a job of kind {self.kind}")
        return BulkWork(kind=self.kind, **{name: getattr(self, name) for name in of_kind})


_FIELDS: Mapping[BulkKind, Sequence[str]] = {
    BulkKind.INGEST: ("prefix", "inventory"),
    BulkKind.REINDEX: ("model", "model_path", "dimension", "collection"),
    BulkKind.RECONCILE: ("repair", "thorough"),
}


class PlanBulk(BulkRequest, frozen=True, kw_only=True):
    counted: Annotated[PlanCount | None, about("`counted` of the last plan, to go on listing.")] = None


@operation(http="POST /bulk/plans", function=Function.MANAGE, action=Action.ADMINISTER)
def plan_bulk(context: Context, request: PlanBulk) -> BulkPlan:
    """Estimate a bulk job: documents, bytes, chunks, tokens, dollars by service, and hours, with what was assumed.

    Nothing is changed. A listing that takes longer than a request stops; `counted` goes on with it. Raises
    `InvalidInputError`, and `StoreUnavailableError`.
    """
    _check_model_path(context, request)
    return context.system.part(Bulk.of).stages.plan(request.work(), request.counted or PlanCount(), _is_late)


def _is_late() -> bool:
    left = remaining()
    return left is not None and left < LEFT_SECONDS


class StartBulk(BulkRequest, frozen=True, kw_only=True):
    pass


class BulkStatus(Record, frozen=True, kw_only=True):
    """A job with its progress: numbers of shards that are prepared and applied, and of the documents that are settled.
    `failures` are those behind the first `after` of the request, `next` the number to ask for more; null if there are
    none."""

    job: BulkJob
    prepared: int
    applied: int
    settled: int
    report: BulkReport | None
    failures: tuple[BulkFailure, ...]
    next: int | None


@operation(http="POST /bulk", function=Function.MANAGE, status=202, action=Action.ADMINISTER)
def start_bulk(context: Context, request: StartBulk) -> BulkStatus:
    """Start a bulk job, or continue the interrupted one with the same work.

    On a machine it returns when the job is done; on AWS an execution runs it, and `get_bulk_job` shows its progress. Raises
    `BulkBusyError` that names another unfinished job of this kind, or this one if it is running, `InvalidInputError` as
    `reindex` does and over HTTP where nothing can run it, and `StoreUnavailableError`: then start it again, and it goes on.
    """
    _check_model_path(context, request)
    system, work = context.system, request.work()
    runner = system.ports.bulk_runner()
    if runner is None:
        require_stores(context)
    with system.work.exclusive_reindex() if work.kind is BulkKind.REINDEX else nullcontext():
        job = system.part(Bulk.of).begin(work, context.author)
    if runner is None:
        _run_here(context, job)
        return _status(system.part(Bulk.of), job.job_id)
    if job.execution and not runner.problem(job.execution):
        raise BulkBusyError(f"the bulk job {job.job_id} is running: `opx bulk status` shows it")
    execution = runner.start(job.job_id)

    def started(found: BulkJob) -> None:
        found.execution, found.problem = execution, ""

    system.part(Bulk.of).jobs.update(job.job_id, started)
    return _status(system.part(Bulk.of), job.job_id)


def _run_here(context: Context, job: BulkJob) -> None:
    from opx_bulk.local import LocalRunner

    system = context.system
    context.progress(f"bulk job {job.job_id}", 0)
    embeds = system.settings.address("embedder").partition(":")[0] == _LOCAL_MODEL
    runner = LocalRunner(
        system.part(Bulk.of).stages,
        system.work,
        opened=_opened(system) if embeds or job.work.kind is BulkKind.RECONCILE else None,
        processes=cores(),
        progress=context.progress,
    )
    try:
        with unlimited():  # a request has a deadline that documents would wait for again and again
            runner.run(job.job_id)
    except BulkCancelledError:
        system.part(Bulk.of).stages.cancel(job.job_id)
        raise
    if job.work.kind is BulkKind.REINDEX and system.part(Bulk.of).jobs.get(job.job_id).stage is BulkStage.DONE:
        from opx.operations.administration import calibrate_after_reindex

        calibrate_after_reindex(context)


def _opened(system: System) -> OpenState[Bulk] | None:
    """Opens the same system in a child process; None where ports were passed to this process."""
    if system.restart is None:
        return None
    settings = replace(system.settings, embedding_threads=1)
    return partial(_open_bulk, system.restart, settings)


@contextmanager
def _open_bulk(start: Callable[[Settings], System], settings: Settings) -> Iterator[Bulk]:
    with start(settings) as system:
        yield system.part(Bulk.of)


def _check_model_path(context: Context, request: BulkRequest) -> None:
    if request.model_path and not context.caller.owns_system:
        raise ForbiddenError(MODEL_PATH_HERE)


# -- jobs

JobId = Annotated[Text, about("The id of a bulk job.")]


class ListBulkJobs(Request, frozen=True):
    limit: Annotated[int, about("How many at most.", ge=1, le=100)] = 20
    before: Annotated[Text, about("Only jobs before the one with this id.")] = ""


class BulkJobList(Record, frozen=True):
    jobs: tuple[BulkJob, ...]


@operation(http="GET /bulk", function=Function.MANAGE, action=Action.ADMINISTER)
def list_bulk_jobs(context: Context, request: ListBulkJobs) -> BulkJobList:
    """List the bulk jobs, the newest first."""
    return BulkJobList(tuple(context.system.part(Bulk.of).jobs.all(limit=request.limit, before=request.before)))


class GetBulkJob(Request, frozen=True):
    job_id: JobId
    after: Annotated[int, about("Leave out so many failures.", ge=0)] = 0
    limit: Annotated[int, about("How many failures at most.", ge=1, le=1000)] = 100


@operation(http="GET /bulk/{jobId}", function=Function.MANAGE, action=Action.ADMINISTER)
def get_bulk_job(context: Context, request: GetBulkJob) -> BulkStatus:
    """Get a bulk job: its stage, shards and documents that are done, and failures with their reasons.

    Raises `BulkJobNotFoundError`.
    """
    return _status(context.system.part(Bulk.of), request.job_id, after=request.after, limit=request.limit)


class CancelBulkJob(Request, frozen=True):
    job_id: JobId


@operation(http="DELETE /bulk/{jobId}", function=Function.MANAGE, action=Action.ADMINISTER)
def cancel_bulk_job(context: Context, request: CancelBulkJob) -> BulkStatus:
    """Cancel a bulk job: its execution and its batch jobs are stopped, a new index is discarded, and its files are removed.
    Documents that were ingested stay.

    Of a job that is done nothing changes. Raises `BulkJobNotFoundError`, and `StoreUnavailableError`: then call it again.
    """
    system = context.system
    job = system.part(Bulk.of).jobs.get(request.job_id)
    runner = system.ports.bulk_runner()
    if runner and job.execution and not job.is_ended:
        runner.cancel(job.execution)
    with system.work.exclusive_reindex() if job.work.kind is BulkKind.REINDEX else nullcontext():
        system.part(Bulk.of).stages.cancel(request.job_id)
    return _status(system.part(Bulk.of), request.job_id)


def _status(bulk: Bulk, job_id: str, *, after: int = 0, limit: int = 100) -> BulkStatus:
    job = bulk.jobs.get(job_id)
    progress = bulk.progress(job)
    found = bulk.failures(job, after=after, limit=limit + 1)
    following = after + limit if len(found) > limit else None
    return like(BulkStatus, progress, job=job, failures=tuple(found[:limit]), next=following)
