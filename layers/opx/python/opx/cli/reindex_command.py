"""`opx reindex`: a new index beside the old one, which answers meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from opx.cli.output import NO_ANSWER, CommandFailed, aligned, print_json
from opx.cli.session import Session, pass_session
from opx.errors import InvalidInputError
from opx.lifecycle.reindex.job import Phase
from opx.operations.administration import (
    GetIndexStatus,
    Reindex,
    SwitchIndex,
    discard_indexes,
    force_reindex,
    get_index_status,
    progress_of,
    reindex,
    roll_back_reindex,
)

if TYPE_CHECKING:
    from opx.edges.calling import Client
    from opx.operations.administration import IndexJob

REMOTE = (
    "reindex works on a folder of this machine, or with OPX_BACKEND=aws on what is deployed in the account of your "
    "credentials; there, a message to the queue of rebuilds does the same: see docs/rebuild.md"
)


class _Steps:
    """Prints the progress to stderr, each line once."""

    def __init__(self) -> None:
        self._shown = ""

    def __call__(self, line: str, _count: int) -> None:
        if line != self._shown:
            click.echo(line, err=True)
        self._shown = line


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
    session.require_knowledge()
    if sum((rollback, discard, status_only, force, bool(model), bool(model_path))) > 1:
        raise InvalidInputError("give one of --model, --model-path, --force, --rollback, --discard and --status")
    client = session.watched_client(_Steps())
    if status_only:
        _print_status(client, as_json=as_json)
    elif discard:
        _discard(client)
    elif rollback or force:
        _finish(client.call(roll_back_reindex if rollback else force_reindex, SwitchIndex()), as_json=as_json)
    else:
        request = Reindex(model=model, model_path=model_path, dimension=dimension)
        _finish(client.call(reindex, request), as_json=as_json)


def _finish(job: IndexJob, *, as_json: bool) -> None:
    if as_json:
        print_json(job.to_json())
    if job.phase is Phase.REFUSED:
        found = "; ".join(job.report.get("problems", []))
        raise CommandFailed(
            f"not switched: {found}. The old index answers on. `opx reindex` compares again, --force switches all the "
            "same, --discard gives the new one up",
            NO_ANSWER,
        )
    if not as_json:
        for line in _report_lines(job):
            click.echo(line)


def _report_lines(job: IndexJob) -> list[str]:
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


def _discard(client: Client) -> None:
    gone = client.call(discard_indexes, SwitchIndex()).indexes
    if not gone:
        click.echo("there is no index but the one that answers")
    for edition in gone:
        click.echo(f"removed the index {edition.name or 'that was the first'} for {edition.embedding_model}")


def _print_status(client: Client, *, as_json: bool) -> None:
    status = client.call(get_index_status, GetIndexStatus())
    if as_json:
        print_json(status.to_json())
        return
    rows = [
        (one.name or "(first)", one.state.value, one.embedding_model or one.model or "(default)")
        for one in status.indexes
    ]
    for line in aligned(rows):
        click.echo(line)
    job = status.job
    if job and status.target is not None:
        click.echo(progress_of(job), err=True)
        if job.goes_on_at:
            click.echo(f"goes on at {job.goes_on_at}")
    for problem in job.report.get("problems", []) if job else []:
        click.echo(f"problem: {problem}")
