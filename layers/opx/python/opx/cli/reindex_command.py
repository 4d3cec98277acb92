"""`opx reindex`: a new index beside the old one, which answers meanwhile."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

from opx.cli.exits import NO_ANSWER, CommandFailed
from opx.cli.output import aligned, print_json
from opx.cli.session import Session, pass_session
from opx.domain.times import iso_time
from opx.errors import InvalidInputError, ReindexBusyError

if TYPE_CHECKING:
    from opx.lifecycle.reindex.job import Job
    from opx.lifecycle.reindex.making import Progress
    from opx.lifecycle.reindex.reindexing import Reindexer
    from opx.services import Services

STEP_SECONDS = 2.0
LONGEST_WAIT = 5.0
REMOTE = (
    "reindex works on a folder of this machine, or with OPX_BACKEND=aws on what is deployed in the account of your "
    "credentials; there, a message to the queue of rebuilds does the same: see docs/rebuild.md"
)


@click.command("reindex")
@click.option("--model", default="", metavar="NAME", help="Another embedding model, as in OPX_EMBEDDING_MODEL.")
@click.option("--model-path", default="", metavar="DIR", help="The folder of one, as in OPX_MODEL_PATH.")
@click.option("--dimension", default=0, metavar="N", help="Numbers of its vectors, where the model leaves a choice.")
@click.option("--force", is_flag=True, help="Switch although the new index was found to be worse.")
@click.option("--rollback", is_flag=True, help="Go back to the index that answered before.")
@click.option("--discard", is_flag=True, help="Remove the indexes that don't answer, and give up what was begun.")
@click.option("--status", "status_only", is_flag=True, help="Say which indexes there are and how far the work is.")
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
@pass_session
def reindex_command(
    session: Session,
    *,
    model: str,
    model_path: str,
    dimension: int,
    force: bool,
    rollback: bool,
    discard: bool,
    status_only: bool,
    as_json: bool,
) -> None:
    """Make a new index from the chunks on file, for another embedding model or because the old one is damaged or of
    another program, and have it answer.

    The old index answers until the new one has everything, what changed meanwhile included, and finds as much; it is
    kept, and kept in step, for --rollback. Interrupted, it goes on where it was when it is called again. Vectors of texts
    that the model has seen are cached.

    Exit codes: 0 done, 1 the new index is worse and was not switched to, 2 another error.
    """
    if session.is_remote:
        raise InvalidInputError(REMOTE)
    session.existing_base()
    if sum((rollback, discard, status_only, force, bool(model), bool(model_path))) > 1:
        raise InvalidInputError("give one of --model, --model-path, --force, --rollback, --discard and --status")
    services = session.services
    if status_only:
        _print_status(services.reindexer, as_json=as_json)
        return
    with services.exclusive_reindex():
        reindexer = services.reindexer
        if discard:
            _discard(reindexer)
            return
        if rollback:
            reindexer.roll_back()
        elif force:
            reindexer.force()
        elif model or model_path or not reindexer.is_under_way:
            edition = reindexer.start(model=model, model_path=model_path, dimension=dimension)
            click.echo(f"a new index for {edition.model_id}", err=True)
        _finish(_worked(services, reindexer), as_json=as_json)


def _worked(services: Services, reindexer: Reindexer) -> Progress:
    """Work here, or watch the function that does."""
    if services.rebuilds:
        from opx.lifecycle.reindex.asked import GO_ON

        with suppress(ReindexBusyError):  # a function has it in hand already
            reindexer.compare_again()
        services.rebuilds.send(GO_ON)
        click.echo("a function works on it; Ctrl-C ends watching, and `opx reindex` watches again", err=True)
        return _watched(reindexer)
    reindexer.compare_again()
    shown = ""
    while True:
        progress = reindexer.advance(_timer(STEP_SECONDS))
        shown = _show(progress.job, shown)
        if progress.finished:
            return progress
        time.sleep(min(progress.wait_seconds, LONGEST_WAIT))


def _watched(reindexer: Reindexer) -> Progress:
    from opx.lifecycle.reindex.making import Progress

    shown = ""
    while True:
        time.sleep(LONGEST_WAIT)
        job = reindexer.status()[1]
        if job:
            shown = _show(job, shown)
            progress = Progress(job)
            if progress.finished:
                return progress


def _timer(seconds: float) -> Any:
    ends = time.monotonic() + seconds
    return lambda: time.monotonic() >= ends


def _show(job: Job, shown: str) -> str:
    line = f"{job.phase}: {job.documents:,} documents, {job.chunks:,} chunks, {job.renewed:,} changes made up for"
    if line != shown:
        click.echo(line, err=True)
    return line


def _finish(progress: Progress, *, as_json: bool) -> None:
    job = progress.job
    if as_json:
        print_json(_job_json(job))
    problems = job.report.get("problems", [])
    if job.phase == "refused":
        told = "; ".join(problems)
        raise CommandFailed(
            f"not switched: {told}. The old index answers on. `opx reindex` compares again, --force switches all the "
            "same, --discard gives the new one up",
            NO_ANSWER,
        )
    if not as_json:
        for line in _report_lines(job):
            click.echo(line)


def _report_lines(job: Job) -> list[str]:
    if job.rollback:
        return [f"the earlier index answers again; {job.renewed:,} changes made up for"]
    lines = [f"the new index answers: {job.documents:,} documents, {job.chunks:,} chunks"]
    report = job.report
    if report.get("questions"):
        old, new = report["found"]
        lines.append(f"of {report['questions']} questions the old one answered {old}, the new one {new}")
    if report.get("note"):
        return [*lines, report["note"], "`opx reindex --discard` removes it"]
    return [*lines, "the old one is kept for `opx reindex --rollback`; `opx reindex --discard` removes it"]


def _discard(reindexer: Reindexer) -> None:
    gone = reindexer.discard()
    if not gone:
        click.echo("there is no index but the one that answers")
    for edition in gone:
        click.echo(f"removed the index {edition.name or 'that was the first'} for {edition.model_id}")


def _print_status(reindexer: Reindexer, *, as_json: bool) -> None:
    state, job = reindexer.status()
    editions = [one for one in state.editions if one.state != "discarded"]
    if as_json:
        facts = [
            {"name": one.name, "state": one.state.value, "embeddingModel": one.model_id, "madeAt": one.made_at}
            for one in editions
        ]
        print_json({"indexes": facts, "target": state.target, "job": _job_json(job) if job else None})
        return
    rows = [(one.name or "(first)", one.state.value, one.model_id or one.model or "(default)") for one in editions]
    for line in aligned(rows):
        click.echo(line)
    if job and state.target is not None:
        _show(job, "")
        if job.not_before > time.time():
            click.echo(f"goes on at {iso_time(job.not_before)}")
    for problem in job.report.get("problems", []) if job else []:
        click.echo(f"problem: {problem}")


def _job_json(job: Job) -> dict[str, Any]:
    return {
        "index": job.edition,
        "phase": job.phase.value,
        "documents": job.documents,
        "chunks": job.chunks,
        "renewed": job.renewed,
        "lacking": job.lacking_count,
        "report": job.report,
    }
