"""`opx reindex`, `opx calibrate`: builds a new edition of the index, and fits confidence models to the corpus."""

from __future__ import annotations

import click

from opx.edges.calling import OperationClient
from opx.edges.cli.operations import request_command
from opx.edges.cli.output import (
    NO_ANSWER,
    CommandFailed,
    aligned,
    exit_unless,
    plural,
    print_either,
    print_json,
    print_lines,
)
from opx.edges.cli.session import Session
from opx.errors import InvalidInputError
from opx.lifecycle.reindex.job import ReindexPhase
from opx.operations import administration, calibration

REMOTE = (
    "reindex works on a folder of this machine, or with OPX_BACKEND=aws on the system deployed in the account of your "
    "credentials; there, a message to the rebuild queue does the same: see docs/rebuild.md"
)


class _Steps:
    """Prints progress to stderr, each line once."""

    def __init__(self) -> None:
        self._shown = ""

    def __call__(self, line: str, _count: int) -> None:
        if line != self._shown:
            click.echo(line, err=True)
        self._shown = line


@request_command(
    "reindex",
    administration.reindex,
    fields={
        "model": "NAME  Another embedding model, as in OPX_EMBEDDING_MODEL.",
        "model_path": "DIR  The folder of one, as in OPX_MODEL_PATH.",
        "collection": "NAME  The search collection to build it in: blue or green, on AWS.",
    },
    elsewhere=REMOTE,
)
@click.option("--dimension", default=0, metavar="N", help="Dimension of its vectors, if the model has several.")
@click.option("--force", is_flag=True, help="Switch even if the new index was measured to be worse.")
@click.option("--rollback", is_flag=True, help="Go back to the index that answered before.")
@click.option("--discard", is_flag=True, help="Remove inactive indexes, and cancel an unfinished reindex.")
@click.option("--status", "status_only", is_flag=True, help="List the indexes, and show the progress of the work.")
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
    """Build a new index from the stored chunks, and switch to it: for another embedding model, or if the old index is
    damaged or of another version.

    The old index answers until the new one has all documents, with the changes made meanwhile, and finds as much. The
    old one then stays up to date for --rollback. Run the command again to continue an interrupted reindex. Vectors of
    known passages are cached.

    Exit codes: 0 done, 1 the new index is worse, so the old one stays, 2 another error.
    """
    building = bool(request.model or request.collection)
    if sum((rollback, discard, status_only, force, building, bool(request.model_path))) > 1:
        raise InvalidInputError(
            "give one of --model (or --collection, or both), --model-path, --force, --rollback, --discard and --status"
        )
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
            f"not switched: {found}. The old index stays in use. `opx reindex` compares again, --force switches "
            "nevertheless, --discard removes the new one",
            NO_ANSWER,
        )
    if not as_json:
        print_lines(_report_lines(job))


def _report_lines(job: administration.IndexJob) -> list[str]:
    if job.rollback:
        return [f"the earlier index answers again; {job.renewed:,} changes applied to it"]
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
        click.echo("there is no index besides the one in use")
    for edition in gone:
        click.echo(f"removed the index {edition.name or '(initial)'} for {edition.embedding_model}")


def _print_status(client: OperationClient, *, as_json: bool) -> None:
    status = client.call(administration.get_index_status, administration.GetIndexStatus())
    if as_json:
        print_json(status.to_json())
        return
    rows = [
        (
            one.name or "(initial)",
            one.state.value,
            one.embedding_model or one.model or "(as configured)",
            one.collection,
        )
        for one in status.indexes
    ]
    columns = 4 if any(one.collection for one in status.indexes) else 3
    print_lines(aligned([row[:columns] for row in (("INDEX", "STATE", "MODEL", "COLLECTION"), *rows)]))
    job = status.job
    if job and status.target is not None:
        click.echo(administration.progress_of(job), err=True)
        if job.goes_on_at:
            click.echo(f"continues at {job.goes_on_at}")
    for problem in job.report.get("problems", []) if job else []:
        click.echo(f"problem: {problem}")


# -- calibration


@request_command("calibrate", calibration.calibrate)
@click.option("--show", is_flag=True, help="Show the models in use, and their measured quality.")
@click.option("--discard", is_flag=True, help="Go back to the shipped models.")
def calibrate_command(
    session: Session, request: calibration.Calibrate, *, show: bool, discard: bool, as_json: bool
) -> None:
    """Fit the confidence models to this corpus and its embedding model.

    Questions are generated from the documents, and each is searched with its document and without it. The new models are
    used if they are better on held-out questions; else those in use stay. On AWS a function calibrates.

    Exit codes: 0 new models are in use or a function was started, 1 the models stay as they are, 2 another error.
    """
    if show and discard:
        raise InvalidInputError("give one of --show and --discard")
    client = session.watched_client(_Steps())
    if show:
        status = client.call(calibration.get_calibration, calibration.GetCalibration())
        print_either(status, _status_lines(status), as_json=as_json)
    elif discard:
        gone = client.call(calibration.discard_calibration, calibration.DiscardCalibration())
        line = "the shipped models are in use" + ("" if gone.discarded else ", as before")
        print_either(gone, [line], as_json=as_json)
    else:
        report = client.call(calibration.calibrate, request)
        print_either(report, [_calibration_line(report)], as_json=as_json)
        exit_unless(not report.reason)


_MODELS = {
    "calibrated": "calibrated on this corpus",
    "fitted": "shipped, fitted for this embedding model",
    "general": "shipped, for any embedding model: `opx calibrate` fits them to this one",
}


def _status_lines(status: calibration.CalibrationStatus) -> list[str]:
    rows = [("embedding model", status.embedding_model), ("confidence models", _MODELS[status.models])]
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
