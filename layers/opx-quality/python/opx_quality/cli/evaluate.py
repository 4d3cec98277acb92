"""`opx eval`: measures retrieval on a labelled question set and compares two runs."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from opx.domain.queries import DEFAULT_BUDGET, Band, QueryConfig, SearchMode
from opx.domain.record import replace
from opx.domain.scopes import Identity
from opx.edges.cli.hits import HitPage
from opx.edges.cli.output import Screen, print_lines, warn
from opx.edges.cli.session import SESSION, Session, is_remote, pass_session
from opx.errors import InvalidInputError
from opx.operations.context import Caller, Context
from opx.operations.search import Query, query
from opx.operations.system import StartSystem, System
from opx.settings import Settings
from opx_quality.cli.evaluations import COMMANDS, run_own
from opx_quality.evaluation.abstention import abstention, separation
from opx_quality.evaluation.answers import Form, ReplyJudgement, Shown, answer_tables
from opx_quality.evaluation.bands import band_table, calibrations
from opx_quality.evaluation.comparison import (
    Compared,
    Loser,
    check_comparable,
    compare_runs,
    false_answers,
    losers,
    unhelped,
)
from opx_quality.evaluation.datasets import ENOUGH, Dataset, LabelledQuestion, load_dataset
from opx_quality.evaluation.figures import PERCENTILES, Table, lapses, latencies, quality, summary
from opx_quality.evaluation.kept import Evaluations
from opx_quality.evaluation.querying import MODES, agent_forms, run_queries, sources
from opx_quality.evaluation.report import write_report
from opx_quality.evaluation.runner import Evaluation
from opx_quality.evaluation.runs import EvaluationRun, load_run, save_run

DEFAULT_SYSTEM = "balanced"
READABLE = click.Path(exists=True, dir_okay=False, path_type=Path)
FLOOR = click.option(
    "--floor",
    type=click.FloatRange(0, 1),
    default=0.7,
    show_default=True,
    help="Confidence below which a question counts as refused.",
)
WRITABLE = click.Path(dir_okay=False, path_type=Path)


class RunByDefault(click.Group):
    """`opx eval DATASET` is `opx eval run DATASET`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        known = bool(args) and args[0] in self.commands
        return super().parse_args(ctx, args if known else ["run", *args])


@click.group("eval", cls=RunByDefault)
def eval_command() -> None:
    """Measure the quality of answers on a labelled set of questions."""


@eval_command.command("run")
@click.argument("dataset", required=False, type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option(
    "--mode",
    "modes",
    multiple=True,
    type=click.Choice(["fast", "balanced", "thorough"]),
    help="May be repeated.  [default: all]",
)
@click.option(
    "--questions", type=READABLE, help="Use the questions of this file; their spans label the pages of DATASET."
)
@click.option("--split", default="", help="Use only the questions whose metadata have this split.")
@FLOOR
@click.option("--losers", "worst", type=click.IntRange(min=0), default=0, help="Show this many of the worst questions.")
@click.option("--against", type=READABLE, help="Compare with a saved run; losers are then those that lost most.")
@click.option("--save", type=WRITABLE, help="Save the run to this file, for later comparison.")
@click.option("--html", type=WRITABLE, help="Write an HTML report with charts to this file.")
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON.")
@pass_session
def run_command(
    session: Session, /, dataset: Path | None, modes: tuple[str, ...], questions: Path | None, split: str, **wanted: Any
) -> None:
    """Measure answers to DATASET, a folder in BEIR form; without it, to the knowledge base's own questions (`opx eval add`).

    The folder has queries.jsonl (_id, text, metadata.kind), qrels/test.tsv, and its corpus: corpus.jsonl (_id, title,
    text) or a folder `documents`. The usual pipeline ingests the corpus into an index of its own under the home folder,
    and reuses that index while the corpus stays the same. Prints nDCG@10, recall@5, hit rate@5 and MRR by kind of
    question, for each mode, each leg and each fusion; the share of questions below the confidence floor; and latencies.
    For questions with spans (metadata.spans), it also prints whether replies contain the lines that help.

    The run is kept: `opx eval runs` lists runs. `opx eval compare FIRST SECOND` compares two saved runs.
    """
    if dataset is None:
        _refuse_options(modes, questions, split, **wanted)
        run_own(session, as_json=wanted["as_json"])
        return
    given = session.settings
    if is_remote(given):
        raise InvalidInputError("eval measures on this machine: omit --profile and --api")
    loaded = load_dataset(dataset, questions)
    selected = loaded.of_split(split) if split else loaded
    before = _comparable(wanted.pop("against"), selected)
    run = _measured(session.start, evaluation_settings(given, loaded), selected, modes)
    _keep(session, run)
    _show(run, before, **wanted)


def _refuse_options(modes: tuple[str, ...], questions: Path | None, split: str, **wanted: Any) -> None:
    """Raises `InvalidInputError` for options that need a dataset."""
    given = (questions, split, modes, *(wanted[name] for name in ("worst", "against", "save", "html")))
    if any(given):
        raise InvalidInputError("these options are for a DATASET; the own questions are asked as people ask them")


def _keep(session: Session, run: EvaluationRun) -> None:
    """Keeps the run beside the knowledge of the session."""
    kept = Evaluations.of(session.services).keep(run, session.user)
    warn(f"kept as run {kept.run_id}: `opx eval runs` lists all")


def evaluation_settings(settings: Settings, dataset: Dataset) -> Settings:
    """Settings with a home for this state of the dataset's corpus, below the ordinary one; questions aren't recorded."""
    name = f"{dataset.folder.resolve().name}-{dataset.corpus_fingerprint()[:8]}"
    home = str(settings.home_path / "eval" / name)
    return replace(settings, home=home, client_id="", project_id="", audit_days=0, gap_days=0)


def _comparable(path: Path | None, dataset: Dataset) -> EvaluationRun | None:
    """The run to compare with; one over other questions is refused before any query runs."""
    if path is None:
        return None
    before = load_run(path)
    check_comparable(before, EvaluationRun("", "", dataset.all_questions, {}, ()))
    return before


def _measured(start: StartSystem, settings: Settings, dataset: Dataset, modes: tuple[str, ...]) -> EvaluationRun:
    with start(settings) as services, _progress_shown() as progress:
        evaluation = Evaluation(services, dataset, progress)
        ingested = evaluation.ingest()
        chosen = [SearchMode(mode) for mode in dict.fromkeys(modes)] or MODES
        run = run_queries(evaluation, chosen, forms=reply_forms(services))
    return replace(run, ingest=ingested.to_json())


def reply_forms(services: System) -> dict[str, Form]:
    """Every form of reply that is judged: those for agents, at several thresholds, and the terminal's."""
    context = Context(services, Caller(Identity(), owns_system=True))
    return {**agent_forms(context, Band.LIKELY.least, Band.SURE.least), "terminal": _terminal(context)}


def _terminal(context: Context) -> Form:
    """The lines that `opx search` prints for a question, without colours."""

    def reply(question: str) -> Shown:
        config = QueryConfig(min_confidence=0)
        answer = query(context, Query(query=question, config=config, budget=DEFAULT_BUDGET))
        text = "\n".join(HitPage(Screen(), config.expand, False, ()).answer(answer))
        return Shown(text, sources(answer.documents), rendered=True)

    return reply


def _show(
    run: EvaluationRun,
    before: EvaluationRun | None,
    *,
    as_json: bool,
    floor: float,
    worst: int,
    save: Path | None,
    html: Path | None,
) -> None:
    if save:
        save_run(run, save)
    if html:
        write_report(run, html, floor, before)
    if as_json:
        compared = {"against": _comparison(before, run, (), floor)} if before else {}
        click.echo(json.dumps({**summary(run, floor), **compared}, indent=2))
        return
    print_lines(_run_lines(run, floor))
    if before:
        _show_comparison(before, run, (), floor, as_json=False)
    if worst:
        print_lines(_loser_lines(run, worst, before))


def _run_lines(run: EvaluationRun, floor: float) -> Iterator[str]:
    yield f"ingest: {json.dumps(run.ingest)}\n"
    yield from _table_lines(quality(run))
    for table in answer_tables(run.questions, run.answers):
        yield from _grid(*table, 7)
    yield from _confidence_lines(run, floor)
    yield from _grid(*band_table(run), 7)  # how often first pages are right, by mode and band
    yield from _refusal_lines(run, floor)
    yield from _latency_lines(run)
    yield from lapse_lines(run)


# -- comparison of two runs


@eval_command.command("compare")
@click.argument("first")
@click.argument("second")
@click.option(
    "--system",
    "systems",
    multiple=True,
    help="A system, or two as first:second. May be repeated.  [default: every mode of both]",
)
@FLOOR
@click.option(
    "--losers", "worst", type=click.IntRange(min=0), default=0, help="Show this many of the questions that lost most."
)
@click.option("--json", "as_json", is_flag=True, help="Print the differences as JSON.")
def compare_command(
    first: str, second: str, *, systems: tuple[str, ...], floor: float, worst: int, as_json: bool
) -> None:
    """Compare two runs, question by question: SECOND minus FIRST. Each is the id of a kept run, or a saved file.

    Each row has the means, their difference with a 95 % bootstrap interval, and p of a paired randomisation test. Runs
    over different questions are refused.
    """
    one, other = _run_named(first), _run_named(second)
    pairs = [_pair(name) for name in systems]
    _show_comparison(one, other, pairs, floor, as_json=as_json)
    if worst and not as_json:
        print_lines(_loser_lines(other, worst, one))


def _run_named(name: str) -> EvaluationRun:
    """The kept run with this id, or the one in this file. Raises `EvaluationNotFoundError` and `InvalidInputError`."""
    path = Path(name)
    if path.is_file() or path.suffix:
        return load_run(path)
    session: Session = click.get_current_context().meta[SESSION]
    session.require_local("runs of a deployed system are compared by `opx call compare_evaluations`")
    evaluations = Evaluations.of(session.services)
    return evaluations.whole(evaluations.run(name))


def _pair(name: str) -> tuple[str, str]:
    first, _, second = name.partition(":")
    return first, second or first


def _comparison(
    first: EvaluationRun, second: EvaluationRun, systems: Sequence[tuple[str, str]], floor: float
) -> list[dict[str, Any]]:
    """Rows of a comparison as JSON."""
    return [row.to_json() for row in compare_runs(first, second, systems, floor)]


def _show_comparison(
    first: EvaluationRun, second: EvaluationRun, systems: Sequence[tuple[str, str]], floor: float, *, as_json: bool
) -> None:
    """Prints a comparison."""
    if as_json:
        click.echo(json.dumps(_comparison(first, second, systems, floor), indent=2))
        return
    if first.corpus != second.corpus:
        click.echo("the two runs have different documents, so their answers may differ for that reason")
    print_lines(_comparison_lines(compare_runs(first, second, systems, floor)))


def _loser_lines(run: EvaluationRun, count: int, before: EvaluationRun | None) -> Iterator[str]:
    """The questions with the worst results, or that lost most since another run."""
    system = DEFAULT_SYSTEM if DEFAULT_SYSTEM in run.modes else run.modes[-1]
    yield f"\nquestions that {system} {'lost at' if before else 'does worst at'}"
    yield from _lines_of_losers(losers(run, system, count, before))
    if before is None:
        yield f"\nquestions without an answer that {system} is most certain of"
        yield from _false_answer_lines(false_answers(run, system, count))
    for form in list(run.answers)[:1]:
        yield f"\nquestions whose {form}, {'no longer helps' if before else 'lacks the line that helps'}"
        yield from _unhelped_lines(unhelped(run, form, count, before))


for _command in COMMANDS:
    eval_command.add_command(_command)

# -- rendering and progress

SHOWN_INSTEAD = 3
NOT_CORRECTED = "p of each row alone: with many rows, a few are below .05 by luck"


def _grid(heads: Sequence[str], rows: Iterable[Sequence[str]], least: int, gap: int = 3) -> Iterator[str]:
    """A plain table with a line at its end: names on the left, the other columns on the right, at least `least` wide."""
    widths = [max(len(head), least) + gap for head in heads[1:]]
    for name, *cells in (heads, *((f"  {row[0]}", *row[1:]) for row in rows)):
        yield f"{name:<24}" + "".join(f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=False))
    yield ""


def _table_lines(figures: Table) -> Iterator[str]:
    """A block per measure, a row per system, a column per kind; empty if no question has an answer."""
    counts = next(iter(figures.values()))
    kinds = list(counts)
    if not kinds:
        return
    titles = [f"{kind} ({int(counts[kind]['questions'])})" for kind in kinds]
    for measure in [name for name in counts[kinds[0]] if name != "questions"]:
        rows = [(system, *(f"{by[kind][measure]:.4f}" for kind in kinds)) for system, by in figures.items()]
        yield from _grid((measure, *titles), rows, 14, 2)


def _confidence_lines(run: EvaluationRun, floor: float) -> Iterator[str]:
    """A row per mode: shares refused at the floor, precision of the rest, and calibration of confidences."""
    heads = ("answerable refused", "unanswerable refused", "first page right", "separation", "Brier", "ECE")
    rows = []
    for mode in run.modes:
        at, first = abstention(run, mode, floor), calibrations(run, mode)["first page"]
        values = (at.answerable, at.unanswerable, at.right, separation(run, mode), first.brier, first.error)
        rows.append((mode, *map(_number, values)))
    return _grid((f"confidence, floor {floor:g}", *heads), rows, 6)


def _refusal_lines(run: EvaluationRun, floor: float) -> Iterator[str]:
    """Shares refused of each kind of question without an answer, a row per mode; empty for fewer than two kinds."""
    kinds = Counter(question.kind for question in run.questions if not question.answerable)
    if len(kinds) < 2:
        return
    shares = ((mode, abstention(run, mode, floor).by_kind) for mode in run.modes)
    rows = [(mode, *(_number(of[kind]) for kind in kinds)) for mode, of in shares]
    heads = [f"{kind} ({count})" for kind, count in kinds.items()]
    yield from _grid((f"refused, floor {floor:g}", *heads), rows, 6)


def _latency_lines(run: EvaluationRun) -> Iterator[str]:
    """A row per mode and phase of its answers, in milliseconds."""
    taken = ((f"{mode} {part}", of) for mode in run.modes for part, of in latencies(run, mode).items())
    rows = [(name, *(f"{value:.2f}" for value in of.values())) for name, of in taken]
    return _grid(("milliseconds", *(f"p{at}" for at in PERCENTILES)), rows, 9)


def lapse_lines(run: EvaluationRun) -> Iterator[str]:
    """A line for each mode whose answers had lapses."""
    for mode in run.modes:
        found = lapses(run, mode)
        if found:
            listed = ", ".join(f"{count} {name}" for name, count in found.items())
            yield f"of {len(run.questions)} answers of {mode}: {listed}"


def _comparison_lines(rows: Iterable[Compared]) -> Iterator[str]:
    """A row per system, kind and measure: second minus first."""
    yield f"{'second - first':<34}{'kind':<16}{'n':>6}{'first':>9}{'second':>9}{'diff':>9}{'95 % interval':>20}{'p':>10}"
    for row in rows:
        found = row.difference
        systems = row.first if row.first == row.second else f"{row.first}:{row.second}"
        interval = f"[{found.low:+.4f}, {found.high:+.4f}]"
        yield (
            f"  {f'{systems} {row.measure}':<32}{row.kind:<16}{found.count:>6}{found.first:>9.4f}{found.second:>9.4f}"
            f"{found.difference:>+9.4f}{interval:>20}{found.p:>10.5f}"
        )
    yield NOT_CORRECTED


def _lines_of_losers(found: Iterable[Loser]) -> Iterator[str]:
    """A question, the ranks of its relevant pages, and the pages found instead."""
    for loser in found:
        lost = "" if loser.lost is None else f", {loser.lost:.2f} less than before"
        yield f"{loser.question.id} ({loser.question.kind}): nDCG@10 {loser.ndcg:.2f}{lost}"
        yield f"    {loser.question.text}"
        for page, rank in loser.ranks.items():
            yield f"    wanted  {page} ({f'found at {rank}' if rank else 'not found'})"
        yield from _instead(loser)


def _false_answer_lines(found: Iterable[Loser]) -> Iterator[str]:
    """A question without an answer, and the pages that were returned for it."""
    for loser in found:
        yield f"{loser.question.id} ({loser.question.kind}): has no answer"
        yield f"    {loser.question.text}"
        yield from _instead(loser)


def _unhelped_lines(found: Iterable[tuple[LabelledQuestion, ReplyJudgement]]) -> Iterator[str]:
    """A question, the rank of its page, and the lines that would have been enough."""
    for question, one in found:
        where = "not found" if one.rank is None else f"found at {one.rank}"
        yield f"{question.id} ({question.kind}): grade {one.grade}, its page {where}"
        yield f"    {question.text}"
        yield from (f"    wanted  {span.page}: {span.text}" for span in question.spans if span.grade == ENOUGH)


def _instead(loser: Loser) -> Iterator[str]:
    confidences = loser.reply.confidences or (None,) * len(loser.reply.pages)
    found = [
        pair for pair in zip(loser.reply.pages, confidences, strict=True) if pair[0] not in loser.question.relevant
    ]
    for page, confidence in found[:SHOWN_INSTEAD]:
        yield f"    found   {page}" + ("" if confidence is None else f" ({confidence:.2f})")


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"


@contextmanager
def _progress_shown() -> Iterator[Any]:
    """Progress bar on a terminal, else a line for every tenth of the work; both on stderr."""
    if not sys.stderr.isatty():
        yield _plain_progress
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bars:
        tasks: dict[str, Any] = {}

        def show(phase: str, done: int, total: int) -> None:
            if phase not in tasks:
                tasks[phase] = bars.add_task(phase, total=total)
            bars.update(tasks[phase], completed=done)

        yield show


def _plain_progress(phase: str, done: int, total: int) -> None:
    if done == total or done % max(1, total // 10) == 0:
        click.echo(f"{phase}: {done}/{total}", err=True)
