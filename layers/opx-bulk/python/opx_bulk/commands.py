"""`opx bulk`: plans, starts, follows and cancels bulk jobs."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from opx.domain.record import replace
from opx.edges.calling import OperationClient
from opx.edges.cli.intake import Intake, IntakeTally, planned_files, warn_of
from opx.edges.cli.operations import OperationGroup
from opx.edges.cli.output import (
    CommandFailed,
    aligned,
    exit_unless,
    plural,
    print_either,
    print_json,
    print_lines,
    print_table,
    warn,
)
from opx.edges.cli.reporting import reporter_for_stderr
from opx.edges.cli.session import Session
from opx.edges.loading import QuietLoader
from opx.errors import InvalidInputError
from opx.ingestion.events import EventOutcome
from opx.ingestion.files import FileToIngest
from opx_assurance.consistency.differences import StoreDifference
from opx_bulk import operations as bulk
from opx_bulk.job import ENDED, BulkKind, BulkStage, BulkWork
from opx_bulk.planning import SAMPLE, BulkPlan, enlarged

POLL_SECONDS = 10.0
SHOWN_FAILURES = 20
_FIELDS = {
    "kind": "--kind KIND  `ingest`: stored objects that are new or changed; `reindex`: a new index; `reconcile`: compare the "
    "stores.",
    "prefix": "--prefix KEY  Only objects whose key begins with this.",
    "inventory": "--inventory ADDRESS  Manifest of an S3 Inventory in CSV, on AWS: s3://BUCKET/KEY.",
    "model": "--model NAME  With --kind reindex: another embedding model.",
    "model_path": "--model-path DIR  With --kind reindex: the folder of one.",
    "dimension": "--dimension N  With --kind reindex: numbers of its vectors.",
    "collection": "--collection NAME  With --kind reindex, on AWS: blue or green.",
    "repair": "--repair  With --kind reconcile: repair differences, but remove nothing.",
    "thorough": "--thorough  With --kind reconcile: read every file.",
}
_SHAPE = {"fields": _FIELDS, "defaults": {"kind": BulkKind.INGEST}, "anywhere": True}
_PATHS_HERE = (
    "paths are for a folder of this machine: upload the files to the bucket of the deployed system (`aws s3 sync`), then "
    "start the job without them"
)


@click.group("bulk", cls=OperationGroup)
def bulk_command() -> None:
    """Ingest or reindex many documents at once, on all cores of this machine or by a state machine on AWS.

    \b
    opx bulk plan [FOLDER]           documents, price and hours, before it starts
    opx bulk start FOLDER            all files of a folder
    opx bulk start --kind reindex    a new index from the stored chunks
    opx bulk start --kind reconcile  compare all stores
    opx bulk status                  progress
    opx bulk cancel JOB              end it, and remove what it left
    """


# -- plan


@bulk_command.request("plan", bulk.plan_bulk, without=("counted",), **_SHAPE)
@click.argument("paths", nargs=-1, metavar="[PATH...]", type=click.Path(path_type=Path))
def plan_command(session: Session, request: bulk.PlanBulk, *, paths: tuple[Path, ...], as_json: bool) -> None:
    """Estimate a bulk job: documents, chunks, dollars by service, and hours. Nothing is changed.

    With paths, it estimates a job that ingests these files of this machine.
    """
    if paths:
        found = _planned_files(session, request, paths)
    else:
        session.require_knowledge()
        found = _planned(session.client, request)
    print_either(found, _plan_lines(found), as_json=as_json)


def _planned(client: OperationClient, request: bulk.PlanBulk) -> BulkPlan:
    """The plan at the end of the listing."""
    while True:
        found = client.call(bulk.plan_bulk, request)
        if not found.counted.after:
            return found
        click.echo(f"{found.documents:,} documents so far", err=True)
        request = replace(request, counted=found.counted)


def _planned_files(session: Session, request: bulk.PlanBulk, paths: tuple[Path, ...]) -> BulkPlan:
    """The plan for files: some of them are stored in a home of their own, which is removed, and planned there."""
    session.require_local(_PATHS_HERE)
    if request.work() != BulkWork(kind=BulkKind.INGEST):
        raise InvalidInputError("paths are for a job that ingests them, without other options")
    files = [one for one in planned_files(paths, session.working_folder) if isinstance(one, FileToIngest)]
    few = random.Random(0).sample(files, min(SAMPLE, len(files)))  # noqa: S311 - a sample, the same for the same files
    with TemporaryDirectory() as folder:
        sampling = session.at_home(Path(folder) / "home")
        with closing(sampling.services):
            _put(sampling, few)
            plan = _planned(sampling.client, request)
    return enlarged(plan, len(files), sum(file.path.stat().st_size for file in files))


def _plan_lines(plan: BulkPlan) -> list[str]:
    rows = [
        ("documents", f"{plan.documents:,}, {plan.bytes / 1e6:,.1f} MB" if plan.bytes else f"{plan.documents:,}"),
        *([("chunks", f"about {plan.chunks:,}, {plan.tokens:,} tokens")] if plan.chunks else []),
        *((name, f"${value:,.2f}") for name, value in plan.dollars.items()),
        ("together" if plan.dollars else "time", _price(plan)),
    ]
    return [*aligned(rows), *(f"assumed: {one}" for one in plan.assumptions)]


def _price(plan: BulkPlan) -> str:
    minutes = max(1, round(plan.hours * 60))
    hours = f"about {plan.hours:,.1f} h" if plan.hours >= 0.1 else f"about {minutes} min"
    return f"${plan.total:,.2f}, {hours}" if plan.dollars else hours


# -- start


@bulk_command.request("start", bulk.start_bulk, **_SHAPE)
@click.argument("paths", nargs=-1, metavar="[PATH...]", type=click.Path(path_type=Path))
@click.option("--yes", is_flag=True, help="Start without showing the plan.")
@click.option("--wait/--no-wait", default=True, help="Deployed system: follow the job to its end.  [default: wait]")
def start_command(
    session: Session, request: bulk.StartBulk, *, paths: tuple[Path, ...], yes: bool, wait: bool, as_json: bool
) -> None:
    """Start a bulk job, or continue an interrupted one.

    With paths, it stores the files first, and then ingests all new or changed documents of the corpus. Without paths,
    it ingests only stored documents. After Ctrl-C or a crash, the same command continues.

    Exit codes: 0 done, 1 documents failed, or the old index stays in use, 2 another error.
    """
    if paths:
        _store(session, paths)
    session.require_knowledge()
    if not yes and not _is_wanted(session, request):
        raise CommandFailed("not started", 1)
    client = session.watched_client(_Progress())
    found = client.call(bulk.start_bulk, request)
    if found.job.stage not in ENDED and wait:
        found = _followed(client, found)
    _print_end(found, as_json=as_json)


def _store(session: Session, paths: tuple[Path, ...]) -> None:
    session.require_local(_PATHS_HERE)
    warn_of(_put(session, planned_files(paths, session.working_folder)))


def _put(session: Session, files: Sequence[FileToIngest | EventOutcome]) -> Sequence[EventOutcome]:
    """Stores files without events; returns the outcomes of those that can't be."""
    tally = IntakeTally()
    with reporter_for_stderr(uploads=False) as reporter:
        intake = Intake(session.client, QuietLoader(session.context), session.working_folder, reporter)
        intake.put(files, {}, tally)
    return tally.failures


def _is_wanted(session: Session, request: bulk.StartBulk) -> bool:
    """Shows the plan, and asks; an unfinished job is continued without."""
    jobs = session.client.call(bulk.list_bulk_jobs, bulk.ListBulkJobs(limit=10)).jobs
    if any(job.work == request.work() and job.stage not in ENDED for job in jobs):
        return True
    given = {name: getattr(request, name) for name in bulk.BulkRequest.__struct_fields__}
    print_lines(_plan_lines(_planned(session.client, bulk.PlanBulk(**given))))
    return click.confirm("go on?", err=True)


class _Progress:
    """Prints the steps of a job to stderr."""

    def __call__(self, step: str, count: int) -> None:
        click.echo(f"{step}: {count:,} documents" if count else step, err=True)


def _followed(client: OperationClient, found: bulk.BulkStatus) -> bulk.BulkStatus:
    click.echo(f"bulk job {found.job.job_id}; Ctrl-C ends watching, and `opx bulk status` shows it", err=True)
    while found.job.stage not in ENDED:
        time.sleep(POLL_SECONDS)
        found = client.call(bulk.get_bulk_job, bulk.GetBulkJob(job_id=found.job.job_id))
        click.echo(f"{found.job.stage}: {found.settled:,} of {found.job.documents:,} documents", err=True)
        if found.job.problem:
            raise CommandFailed(f"{found.job.problem}: `opx bulk start` goes on", 2)
    return found


def _print_end(found: bulk.BulkStatus, *, as_json: bool) -> None:
    _print_status(found, as_json=as_json)
    report = found.report
    differs = report and report.reconciled and report.reconciled.total
    exit_unless(not (differs or (report and (report.failed or report.problems or report.unsettled))))


def _print_status(found: bulk.BulkStatus, *, as_json: bool) -> None:
    print_either(found, _status_lines(found), as_json=as_json)
    if as_json:
        return
    warn(*(f"failed: {one.object_key}: {one.reason}" for one in found.failures[:SHOWN_FAILURES]))
    if found.report:
        warn(*found.report.problems)
        warn(*(f"{one.object_key or one.document_id}: {one.text}" for one in _differences(found)))


def _differences(found: bulk.BulkStatus) -> Sequence[StoreDifference]:
    compared = found.report and found.report.reconciled
    return compared.differences[:SHOWN_FAILURES] if compared else ()


# -- status and cancellation

_COMPARED = ("objects", "documents", "chunk_files", "outlines", "index_documents")


@bulk_command.request("status", bulk.get_bulk_job, arguments=("job_id",), without=("after", "limit"))
@click.argument("job_id", required=False, default="", metavar="[JOB]")
def status_command(session: Session, request: bulk.GetBulkJob, *, as_json: bool) -> None:
    """Show the progress of a bulk job, or list the last ones."""
    if request.job_id:
        _print_status(session.call(bulk.get_bulk_job, request), as_json=as_json)
        return
    jobs = session.call(bulk.list_bulk_jobs, bulk.ListBulkJobs()).jobs
    if as_json:
        print_json([job.to_json() for job in jobs])
        return
    rows = [(job.job_id, job.work.kind.value, job.stage.value, f"{job.documents:,}", job.started_at) for job in jobs]
    print_table(("JOB", "KIND", "STAGE", "DOCUMENTS", "STARTED"), rows, "no bulk jobs")


def _status_lines(found: bulk.BulkStatus) -> list[str]:
    job, report = found.job, found.report
    rows = [
        ("job", job.job_id),
        ("stage", job.stage.value if not job.cancelling or job.stage is BulkStage.CANCELLED else "cancelling"),
        ("documents", f"{found.settled:,} of {job.documents:,} settled"),
    ]
    if report is None:
        rows.append(("shards", f"{job.shards:,}; {found.prepared:,} prepared, {found.applied:,} applied"))
    elif report.reconciled:
        compared = report.reconciled
        counts = (f"{getattr(compared, name):,} {name.replace('_', ' ')}" for name in _COMPARED)
        rows.append(("compared", f"{', '.join(counts)} in {report.seconds:,.0f} s"))
        rows.append(
            ("differences", f"{compared.total:,}; {compared.repaired:,} repaired, {compared.held_back:,} held back")
        )
    else:
        counts = (
            f"{getattr(report, name):,} {name}" for name in ("ingested", "unchanged", "skipped", "deleted", "failed")
        )
        rows.append(("results", f"{', '.join(counts)}; {plural(report.chunks, 'chunk')} in {report.seconds:,.0f} s"))
    if job.problem:
        rows.append(("problem", job.problem))
    return list(aligned(rows))


@bulk_command.operation("cancel", bulk.cancel_bulk_job, arguments=("job_id",))
def cancel_command(found: bulk.BulkStatus) -> list[str]:
    """End a bulk job, discard a new index, and remove the job's files. Ingested documents stay."""
    return _status_lines(found)
