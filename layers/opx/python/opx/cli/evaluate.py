"""`opx eval`: how well a labelled set of questions is answered, and what differs between two runs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from opx.cli import eval_output as output
from opx.cli.output import print_lines
from opx.cli.session import is_remote
from opx.domain.record import replace
from opx.errors import InvalidInputError
from opx.settings import Settings

if TYPE_CHECKING:
    from opx.evaluation.datasets import Dataset
    from opx.evaluation.runs import Run

DEFAULT_SYSTEM = "balanced"
READABLE = click.Path(exists=True, dir_okay=False, path_type=Path)
FLOOR = click.option(
    "--floor",
    type=click.FloatRange(0, 1),
    default=0.7,
    show_default=True,
    help="Confidence below which nothing is answered.",
)
WRITABLE = click.Path(dir_okay=False, path_type=Path)


class RunByDefault(click.Group):
    """`opx eval DATASET` is `opx eval run DATASET`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        known = bool(args) and args[0] in self.commands
        return super().parse_args(ctx, args if known else ["run", *args])


@click.group("eval", cls=RunByDefault)
def eval_command() -> None:
    """Measure how well a labelled set of questions is answered."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is to be done with a run."""

    as_json: bool
    floor: float
    losers: int
    save: Path | None
    html: Path | None
    before: Run | None


@eval_command.command("run")
@click.argument("dataset", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option(
    "--mode",
    "modes",
    multiple=True,
    type=click.Choice(["fast", "balanced", "thorough"]),
    help="May be repeated.  [default: all]",
)
@click.option("--split", default="", help="Ask only the questions whose metadata have this split.")
@FLOOR
@click.option("--losers", type=click.IntRange(min=0), default=0, help="Show so many of the questions that went worst.")
@click.option("--against", type=READABLE, help="Compare with a saved run; losers are then those that lost most.")
@click.option("--save", type=WRITABLE, help="Keep the run in this file, to compare with.")
@click.option("--html", type=WRITABLE, help="Write a report with drawings to this file.")
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON.")
@click.pass_context
def run_command(context: click.Context, /, dataset: Path, modes: tuple[str, ...], split: str, **wanted: Any) -> None:
    """Measure answers to DATASET, a folder in BEIR form.

    The folder has queries.jsonl (_id, text, metadata.kind), qrels/test.tsv, and its corpus: corpus.jsonl (_id, title,
    text) or a folder `documents`. The corpus goes through the same pipeline as any document, into an index of its own
    under the home folder, which is reused while the corpus stays the same. Prints nDCG@10, recall@5, hit rate@5 and MRR by
    kind of question, for each mode, each leg and each way of fusing them; what a floor of confidence refuses; and times.

    `opx eval compare FIRST SECOND` compares two saved runs.
    """
    from opx.evaluation.datasets import load_dataset

    given = context.find_object(Settings) or Settings()
    if is_remote(given):
        raise InvalidInputError("eval measures on this machine: leave --profile and --api out")
    loaded = load_dataset(dataset)
    asked = loaded.of_split(split) if split else loaded
    before = _comparable(wanted.pop("against"), asked)
    run = _asked(evaluation_settings(given, dataset), asked, modes)
    _show(run, Wanted(**wanted, before=before))


def evaluation_settings(settings: Settings, dataset: Path) -> Settings:
    """Settings with a home for this state of the dataset's corpus, below the ordinary home."""
    from opx.evaluation.datasets import load_dataset

    name = f"{dataset.resolve().name}-{load_dataset(dataset).corpus_fingerprint()[:8]}"
    return replace(settings, home=str(settings.home_path / "eval" / name), client_id="", project_id="")


def _comparable(path: Path | None, dataset: Dataset) -> Run | None:
    """The run to compare with, refused before anything is asked if it is over other questions."""
    from opx.evaluation.comparison import check_comparable
    from opx.evaluation.runs import Run, load_run

    if path is None:
        return None
    before = load_run(path)
    check_comparable(before, Run("", "", dataset.asked, {}, ()))
    return before


def _asked(settings: Settings, dataset: Dataset, modes: tuple[str, ...]) -> Run:
    from opx.domain.queries import SearchMode
    from opx.evaluation.asking import MODES, ask_all
    from opx.evaluation.runner import Evaluation
    from opx.system import bootstrap

    with bootstrap(settings) as services, output.progress_shown() as progress:
        evaluation = Evaluation(services, dataset, progress)
        ingested = evaluation.ingest()
        run = ask_all(evaluation, [SearchMode(mode) for mode in dict.fromkeys(modes)] or MODES)
    return replace(run, ingest=ingested.to_json())


def _show(run: Run, wanted: Wanted) -> None:
    from opx.evaluation.report import write_report
    from opx.evaluation.runs import save_run
    from opx.evaluation.summary import summary

    before = wanted.before
    if wanted.save:
        save_run(run, wanted.save)
    if wanted.html:
        write_report(run, wanted.html, wanted.floor, before)
    if wanted.as_json:
        compared = {"against": _comparison(before, run, (), wanted.floor)} if before else {}
        click.echo(json.dumps({**summary(run, wanted.floor), **compared}, indent=2))
        return
    print_lines(_run_lines(run, wanted.floor))
    if before:
        _show_comparison(before, run, (), wanted.floor, as_json=False)
    if wanted.losers:
        _show_losers(run, wanted.losers, before)


def _run_lines(run: Run, floor: float) -> Iterator[str]:
    from opx.evaluation.figures import quality

    yield f"ingest: {json.dumps(run.ingest)}\n"
    yield from output.table_lines(quality(run))
    yield from output.confidence_lines(run, floor)
    yield from output.latency_lines(run)
    yield from output.lapse_lines(run)


# -- two runs over the same questions


@eval_command.command("compare")
@click.argument("first", type=READABLE)
@click.argument("second", type=READABLE)
@click.option(
    "--system",
    "systems",
    multiple=True,
    help="A system, or two as first:second. May be repeated.  [default: every mode of both]",
)
@FLOOR
@click.option("--losers", type=click.IntRange(min=0), default=0, help="Show so many of the questions that lost most.")
@click.option("--json", "as_json", is_flag=True, help="Print the differences as JSON.")
def compare_command(
    first: Path, second: Path, *, systems: tuple[str, ...], floor: float, losers: int, as_json: bool
) -> None:
    """Compare two saved runs, question by question: SECOND minus FIRST.

    Each row has the means, their difference with a 95 % bootstrap interval, and p of a paired randomisation test. Runs
    over different questions are refused.
    """
    from opx.evaluation.runs import load_run

    one, other = load_run(first), load_run(second)
    pairs = [_pair(name) for name in systems]
    _show_comparison(one, other, pairs, floor, as_json=as_json)
    if losers and not as_json:
        _show_losers(other, losers, one)


def _pair(name: str) -> tuple[str, str]:
    first, _, second = name.partition(":")
    return first, second or first


def _comparison(first: Run, second: Run, systems: Sequence[tuple[str, str]], floor: float) -> list[dict[str, Any]]:
    """The rows of a comparison as JSON."""
    from opx.evaluation.comparison import compare_runs

    return [row.to_json() for row in compare_runs(first, second, systems, floor)]


def _show_comparison(
    first: Run, second: Run, systems: Sequence[tuple[str, str]], floor: float, *, as_json: bool
) -> None:
    """Print a comparison."""
    from opx.evaluation.comparison import compare_runs

    if as_json:
        click.echo(json.dumps(_comparison(first, second, systems, floor), indent=2))
        return
    if first.corpus != second.corpus:
        click.echo("the documents of the two runs differ: so may their answers")
    print_lines(output.comparison_lines(compare_runs(first, second, systems, floor)))


def _show_losers(run: Run, count: int, before: Run | None) -> None:
    """Print the questions that went worst, or lost most since another run."""
    print_lines(_loser_lines(run, count, before))


def _loser_lines(run: Run, count: int, before: Run | None) -> Iterator[str]:
    from opx.evaluation.losers import false_answers, losers

    system = DEFAULT_SYSTEM if DEFAULT_SYSTEM in run.modes else run.modes[-1]
    yield f"\nquestions that {system} {'lost at' if before else 'does worst at'}"
    yield from output.loser_lines(losers(run, system, count, before))
    if before is None:
        yield f"\nquestions without an answer that {system} is most certain of"
        yield from output.false_answer_lines(false_answers(run, system, count))
