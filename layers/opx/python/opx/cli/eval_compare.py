"""`opx eval compare`: two runs over the same questions."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from opx.cli import eval_output as output

if TYPE_CHECKING:
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


@click.command("compare")
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
    show_comparison(one, other, pairs, floor, as_json=as_json)
    if losers and not as_json:
        show_losers(other, losers, one)


def _pair(name: str) -> tuple[str, str]:
    first, _, second = name.partition(":")
    return first, second or first


def comparison(first: Run, second: Run, systems: Sequence[tuple[str, str]], floor: float) -> list[dict[str, Any]]:
    """The rows of a comparison as JSON."""
    from opx.evaluation.comparison import compare_runs

    return [row.to_json() for row in compare_runs(first, second, systems, floor)]


def show_comparison(
    first: Run, second: Run, systems: Sequence[tuple[str, str]], floor: float, *, as_json: bool
) -> None:
    """Print a comparison."""
    from opx.evaluation.comparison import compare_runs

    if as_json:
        click.echo(json.dumps(comparison(first, second, systems, floor), indent=2))
        return
    if first.corpus != second.corpus:
        click.echo("the documents of the two runs differ: so may their answers")
    for line in output.comparison_lines(compare_runs(first, second, systems, floor)):
        click.echo(line)


def show_losers(run: Run, count: int, before: Run | None) -> None:
    """Print the questions that went worst, or lost most since another run."""
    for line in _loser_lines(run, count, before):
        click.echo(line)


def _loser_lines(run: Run, count: int, before: Run | None) -> Iterator[str]:
    from opx.evaluation.losers import false_answers, losers

    system = DEFAULT_SYSTEM if DEFAULT_SYSTEM in run.modes else run.modes[-1]
    yield f"\nquestions that {system} {'lost at' if before else 'does worst at'}"
    yield from output.loser_lines(losers(run, system, count, before))
    if before is None:
        yield f"\nquestions without an answer that {system} is most certain of"
        yield from output.false_answer_lines(false_answers(run, system, count))
