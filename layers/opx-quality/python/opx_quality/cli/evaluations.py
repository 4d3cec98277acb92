"""Commands of `opx eval` on kept runs and on the knowledge base's own questions."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import click

from opx.edges.calling import plain
from opx.edges.cli.hits import shorten
from opx.edges.cli.operations import operation_command, whole
from opx.edges.cli.output import plural, print_json, print_lines, print_table, printable
from opx.edges.cli.session import Session
from opx_quality import canaries, quality
from opx_quality.evaluation.kept import RIGHT_VERDICTS, KeptRun, OwnQuestion, RunState

_MOST_QUESTION = 80
_RUN_HEADS = ("RUN", "QUESTIONS", "MODE", "NDCG@10", "ANSWERED", "RIGHT", "REFUSED", "CALIBRATION", "P95 MS", "OF")


@operation_command("runs", quality.list_evaluations, items="runs", without=("after", "limit"))
def runs_command(found: quality.EvaluationRuns) -> None:
    """List kept runs with their figures, the newest first.

    ANSWERED is the share of answerable questions that got an answer. RIGHT is the share of these with a right document
    first. REFUSED is the share of unanswerable questions that were refused. CALIBRATION is the error of the confidence.
    """
    print_table(_RUN_HEADS, [row for run in found.runs for row in _run_rows(run)], "no runs")


def _run_rows(run: KeptRun) -> Iterator[tuple[str, ...]]:
    of = run.dataset or "own questions"
    if run.state is RunState.RUNNING:
        yield (run.run_id, f"{run.asked} of {run.questions}", *["-"] * 7, of)
    for one in run.figures:
        shares = (one.ndcg, one.answered, one.right, one.refused, one.calibration_error)
        numbers = ("-" if value is None else f"{value:.3f}" for value in shares)
        yield (run.run_id, str(run.questions), one.mode, *numbers, f"{one.p95_ms:.0f}", of)


@operation_command(
    "show",
    quality.get_evaluation,
    arguments=("run_id",),
    fields={"run_id": "RUN"},
    items="questions",
    without=("after", "limit"),
)
def show_command(found: quality.EvaluationDetails) -> None:
    """Show the questions of RUN with the verdict on each reply.

    Verdicts: right; wrong (another document is first); unsure (below the confidence floor); refused (right, as the
    question has no answer); false (answered, although the question has no answer).
    """
    rows = [
        (one.reply.verdict, str(one.reply.rank or "-"), f"{one.reply.confidence:.2f}", _short(one.text))
        for one in found.questions
        if one.reply
    ]
    print_table(("VERDICT", "RANK", "CONFIDENCE", "QUESTION"), rows, "no question was asked yet")


@operation_command("set", quality.list_own_questions, items="questions", without=("after", "limit"))
def set_command(found: quality.OwnQuestions) -> None:
    """List the knowledge base's own questions, which `opx eval run` asks."""
    rows = [(one.question_id, _short(one.text), ", ".join(one.titles) or "none answers it") for one in found.questions]
    print_table(("ID", "QUESTION", "DOCUMENTS"), rows, "no questions; `opx eval add QUESTION DOCUMENT` adds one")


@operation_command(
    "add",
    quality.add_own_question,
    arguments=("text", "document_ids"),
    fields={"text": "QUESTION", "document_ids": "DOCUMENT"},
)
def add_command(added: OwnQuestion) -> None:
    """Add QUESTION to the own questions, with the ids of its right DOCUMENTs. If you give no id, the right answer is a
    refusal."""
    click.echo(f"{added.question_id}  {printable(added.text)}  <- {', '.join(added.titles) or 'no document'}")


@operation_command("remove", quality.remove_own_question, arguments=("question_id",), fields={"question_id": "ID"})
def remove_command(removed: OwnQuestion) -> None:
    """Remove an own question; earlier runs keep theirs."""
    click.echo(f"removed  {printable(removed.text)}")


@operation_command("canaries", canaries.list_canaries, items="canaries", without=("results",))
def canaries_command(found: canaries.Canaries) -> None:
    """List the own questions that are queried every hour, with the verdict on the last answer and how many were right."""
    rows = []
    for one in found.canaries:
        last = one.results[0] if one.results else None
        good = sum(bool(each.reply and each.reply.verdict in RIGHT_VERDICTS) for each in one.results)
        verdict = (last.reply.verdict if last.reply else "not searched") if last else "-"
        when = last.at if last else "-"
        rows.append(
            (one.question.question_id, verdict, when, f"{good} of {len(one.results)}", _short(one.question.text))
        )
    print_table(("ID", "LAST", "AT", "RIGHT", "QUESTION"), rows, "no canaries; `opx eval canary ID` makes one")


@operation_command(
    "canary",
    canaries.mark_canary,
    arguments=("question_id",),
    fields={"question_id": "ID", "canary": "--on/--off Ask it every hour, or stop that."},
)
def canary_command(marked: OwnQuestion) -> None:
    """Query the own question ID every hour, or stop that."""
    click.echo(f"{'asked every hour' if marked.canary else 'no canary any more'}  {printable(marked.text)}")


COMMANDS = (runs_command, show_command, set_command, add_command, remove_command, canaries_command, canary_command)


def run_own(session: Session, *, as_json: bool) -> None:
    """Asks the own questions, here or in a deployed system, until the run is done, and prints it."""
    session.require_knowledge()
    client = session.watched_client(_progress)
    run = client.call(quality.run_evaluation, quality.RunEvaluation())
    while run.state is RunState.RUNNING:
        run = client.call(quality.run_evaluation, quality.RunEvaluation(run_id=run.run_id))
    if as_json:
        print_json(plain(run))
        return
    print_table(_RUN_HEADS, list(_run_rows(run)))
    details = whole(client, quality.get_evaluation, quality.GetEvaluation(run_id=run.run_id), "questions")
    failed = [one for one in details.questions if one.reply and one.reply.verdict not in RIGHT_VERDICTS]
    if failed:
        click.echo(f"\n{plural(len(failed), 'question')} without a right answer")
        print_lines(f"  {one.reply.verdict:<8}{_short(one.text)}" for one in failed if one.reply)


def _progress(step: str, count: int) -> None:
    if sys.stderr.isatty() and count % 10 == 0:
        click.echo(step, err=True)


def _short(text: str) -> str:
    return shorten(printable(text), _MOST_QUESTION)
