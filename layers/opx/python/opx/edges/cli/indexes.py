"""`opx reindex`, `opx calibrate`, `opx reconcile`: a new index beside the old one, models of confidence for this corpus,
and stores that agree with each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from opx.domain.record import Record
from opx.edges.cli.operations import CommandShape, operation_command, request_command
from opx.edges.cli.output import (
    NO_ANSWER,
    CommandFailed,
    aligned,
    exit_unless,
    plural,
    print_json,
    print_lines,
    printable,
    warn,
)
from opx.edges.cli.session import Session
from opx.errors import InvalidInputError
from opx.lifecycle.reindex.job import ReindexPhase
from opx.operations import administration, calibration

if TYPE_CHECKING:
    from opx.edges.calling import OperationClient
    from opx.lifecycle.consistency.differences import ReconcileReport

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


@request_command(
    "reindex",
    administration.reindex,
    CommandShape(
        fields={
            "model": "NAME  Another embedding model, as in OPX_EMBEDDING_MODEL.",
            "model_path": "DIR  The folder of one, as in OPX_MODEL_PATH.",
        },
        elsewhere=REMOTE,
    ),
)
@click.option("--dimension", default=0, metavar="N", help="Numbers of its vectors, where the model leaves a choice.")
@click.option("--force", is_flag=True, help="Switch although the new index was found to be worse.")
@click.option("--rollback", is_flag=True, help="Go back to the index that answered before.")
@click.option("--discard", is_flag=True, help="Remove the indexes that don't answer, and give up what was begun.")
@click.option("--status", "status_only", is_flag=True, help="Say which indexes there are and how far the work is.")
def reindex_command(
    session: Session,
    request: administration.Reindex,
    *,
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
    if sum((rollback, discard, status_only, force, bool(request.model), bool(request.model_path))) > 1:
        raise InvalidInputError("give one of --model, --model-path, --force, --rollback, --discard and --status")
    client = session.watched_client(_Steps())
    if status_only:
        _print_status(client, as_json=as_json)
    elif discard:
        _discard(client)
    elif rollback or force:
        _finish(
            client.call(
                administration.roll_back_reindex if rollback else administration.force_reindex,
                administration.SwitchIndex(),
            ),
            as_json=as_json,
        )
    else:
        _finish(client.call(administration.reindex, request), as_json=as_json)


def _finish(job: administration.IndexJob, *, as_json: bool) -> None:
    if as_json:
        print_json(job.to_json())
    if job.phase is ReindexPhase.REFUSED:
        found = "; ".join(job.report.get("problems", []))
        raise CommandFailed(
            f"not switched: {found}. The old index answers on. `opx reindex` compares again, --force switches all the "
            "same, --discard gives the new one up",
            NO_ANSWER,
        )
    if not as_json:
        print_lines(_report_lines(job))


def _report_lines(job: administration.IndexJob) -> list[str]:
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


def _discard(client: OperationClient) -> None:
    gone = client.call(administration.discard_indexes, administration.SwitchIndex()).indexes
    if not gone:
        click.echo("there is no index but the one that answers")
    for edition in gone:
        click.echo(f"removed the index {edition.name or 'that was the first'} for {edition.embedding_model}")


def _print_status(client: OperationClient, *, as_json: bool) -> None:
    status = client.call(administration.get_index_status, administration.GetIndexStatus())
    if as_json:
        print_json(status.to_json())
        return
    rows = [
        (one.name or "(first)", one.state.value, one.embedding_model or one.model or "(default)")
        for one in status.indexes
    ]
    print_lines(aligned(rows))
    job = status.job
    if job and status.target is not None:
        click.echo(administration.progress_of(job), err=True)
        if job.goes_on_at:
            click.echo(f"goes on at {job.goes_on_at}")
    for problem in job.report.get("problems", []) if job else []:
        click.echo(f"problem: {problem}")


# -- models of confidence


@request_command("calibrate", calibration.calibrate)
@click.option("--show", is_flag=True, help="Say which models are in use, and how good they were found to be.")
@click.option("--discard", is_flag=True, help="Go back to the shipped models.")
def calibrate_command(
    session: Session, request: calibration.Calibrate, *, show: bool, discard: bool, as_json: bool
) -> None:
    """Fit the models of confidence to this corpus and its embedding model.

    Questions are made of the documents, and each is asked with its document and without it. The new models are used if they
    are better on questions that they weren't fitted on; else those in use stay. On AWS a function does it.

    Exit codes: 0 new models are in use or a function was asked, 1 the models stay as they are, 2 another error.
    """
    if show and discard:
        raise InvalidInputError("give one of --show and --discard")
    client = session.watched_client(_Steps())
    if show:
        status = client.call(calibration.get_calibration, calibration.GetCalibration())
        _print_either(status, _status_lines(status), as_json=as_json)
    elif discard:
        gone = client.call(calibration.discard_calibration, calibration.DiscardCalibration())
        _print_either(
            gone, ["the shipped models are in use" + ("" if gone.discarded else ", as before")], as_json=as_json
        )
    else:
        report = client.call(calibration.calibrate, request)
        _print_either(report, [_calibration_line(report)], as_json=as_json)
        exit_unless(not report.reason)


def _print_either(reply: Record, lines: list[str], *, as_json: bool) -> None:
    if as_json:
        print_json(reply.to_json())
    else:
        print_lines(lines)


_MODELS = {
    "calibrated": "calibrated on this corpus",
    "fitted": "shipped, fitted for this embedding model",
    "general": "shipped, for any embedding model: `opx calibrate` fits them to this one",
}


def _status_lines(status: calibration.CalibrationStatus) -> list[str]:
    rows = [("embedding model", status.embedding_model), ("models of confidence", _MODELS[status.models])]
    if status.calibration:
        made = status.calibration
        rows += [
            ("made", f"{made.made_at}, {made.questions} questions about {plural(made.documents, 'document')}"),
            ("log loss", f"{made.loss:.3f}, before {made.loss_before:.3f}"),
            (
                "cosines",
                "mapped to those of the shipped models" if made.maps_cosines else "as they are in the shipped models",
            ),
            ("log-odds", f"{made.slope:g} x {made.intercept:+g}"),
        ]
    return [*aligned(rows), *filter(None, [status.remark])]


def _calibration_line(report: calibration.CalibrationReport) -> str:
    if report.asked:
        return "a function calibrates; `opx calibrate --show` shows the outcome in some minutes"
    from opx.retrieval.calibration.calibrating import CalibrationOutcome, outcome_line

    return outcome_line(
        CalibrationOutcome(report.documents, report.questions, report.reason, report.loss, report.loss_before)
    )


# -- stores that agree


@operation_command(
    "reconcile",
    administration.reconcile,
    CommandShape(fields={"max_share": "SHARE  With --repair: remove up to this share of a kind.  [default: 0.2]"}),
    json="Print the report as JSON.",
)
def reconcile_command(report: ReconcileReport, *, as_json: bool) -> None:
    """Compare corpus, catalog, chunk files, index, graph and calendar of all clients, and say what differs.

    Others may work meanwhile, and it may be ended and begun again at any time. With --repair, documents that differ are
    taken in again or withdrawn, and what belongs to no document is removed; unless it would be more than a share of all,
    which says that a store was lost, and that a backup is what helps (docs/backup.md).

    For a folder of this machine, and for a system on AWS by whoever may use its stores themselves (OPX_BACKEND=aws with
    the settings of its functions), where functions do what --repair asks for: look again a few minutes later.

    Exit codes: 0 all say the same or were put right, 1 differences are left, 2 it could not be done.
    """
    if not as_json:
        _print_differences(report)
    if report.given_up:
        warn(f"{plural(report.given_up, 'import')} that was cut short is given up: what it brought is in order")
    left = report.total - report.repaired
    if report.held_back:
        warn(
            f"{plural(report.held_back, 'removal')} held back: so many say that a store was lost, and not that it has too "
            "much; restore it, or give --max-share"
        )
    exit_unless(not left)


def _print_differences(report: ReconcileReport) -> None:
    for difference in report.differences:
        name = printable(difference.object_key) or f"scope {difference.scope_key}"
        click.echo(f"{name}: {printable(difference.text)}; repair: {difference.repair}")
    if report.total > len(report.differences):
        click.echo(f"... and {report.total - len(report.differences):,} more")
    click.echo(
        f"compared {plural(report.objects, 'object')}, {plural(report.documents, 'document')} of the catalog, "
        f"{plural(report.index_documents, 'document')} of the index, {plural(report.chunk_files, 'chunk file')}: "
        f"{plural(report.total, 'difference')}, {report.repaired:,} repaired"
    )
    if report.waiting:
        click.echo(f"{plural(report.waiting, 'document')} asked for again; functions take them in")
    if report.in_flight:
        click.echo(f"{plural(report.in_flight, 'document')} just being worked on, not compared")
    if report.failed:
        click.echo(f"{plural(report.failed, 'failed item')}: `opx failed` lists them")
