"""What `opx eval` prints: tables, losers, comparisons, and how far it is."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from opx.evaluation.comparison import Compared
    from opx.evaluation.figures import Table
    from opx.evaluation.losers import Loser
    from opx.evaluation.runs import Run

SHOWN_INSTEAD = 3
NOT_CORRECTED = "p of each row alone: with many rows, a few are below .05 by luck"


def table_lines(figures: Table) -> Iterator[str]:
    """A plain table: one block a measure, one row a system, one column a kind."""
    kinds = list(next(iter(figures.values())))
    measures = [name for name in next(iter(figures.values()))[kinds[0]] if name != "questions"]
    counts = next(iter(figures.values()))
    titles = [f"{kind} ({int(counts[kind]['questions'])})" for kind in kinds]
    head = "".join(f"{title:>{_width(title)}}" for title in titles)
    for measure in measures:
        yield f"{measure:<24}{head}"
        for system, by_kind in figures.items():
            cells = zip(kinds, titles, strict=True)
            yield f"  {system:<22}" + "".join(f"{by_kind[kind][measure]:>{_width(title)}.4f}" for kind, title in cells)
        yield ""


def confidence_lines(run: Run, floor: float) -> Iterator[str]:
    """A row a mode: what is refused at the floor, whether the rest is right, and whether confidences mean what they say."""
    from opx.evaluation.abstention import abstention, separation
    from opx.evaluation.calibration import calibrations

    heads = ("answerable refused", "unanswerable refused", "first page right", "separation", "Brier", "ECE")
    yield f"{f'confidence, floor {floor:g}':<24}" + "".join(f"{head:>{max(len(head), 6) + 3}}" for head in heads)
    for mode in run.modes:
        at, first = abstention(run, mode, floor), calibrations(run, mode)["first page"]
        values = (at.answerable, at.unanswerable, at.right, separation(run, mode), first.brier, first.error)
        cells = zip(heads, values, strict=True)
        yield f"  {mode:<22}" + "".join(f"{_number(value):>{max(len(head), 6) + 3}}" for head, value in cells)
    yield ""


def latency_lines(run: Run) -> Iterator[str]:
    """A row a mode and part of its answers, in milliseconds."""
    from opx.evaluation.latency import PERCENTILES, latencies

    yield f"{'milliseconds':<24}" + "".join(f"{f'p{at}':>12}" for at in PERCENTILES)
    for mode in run.modes:
        for part, taken in latencies(run, mode).items():
            yield f"  {f'{mode} {part}':<22}" + "".join(f"{value:>12.2f}" for value in taken.values())
    yield ""


def lapse_lines(run: Run) -> Iterator[str]:
    """A line for each mode whose answers were not all as they should be."""
    from opx.evaluation.figures import lapses

    for mode in run.modes:
        found = lapses(run, mode)
        if found:
            said = ", ".join(f"{count} {name}" for name, count in found.items())
            yield f"of {len(run.questions)} answers of {mode}: {said}"


def comparison_lines(rows: Iterable[Compared]) -> Iterator[str]:
    """A row a system, kind and measure: second minus first."""
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


def loser_lines(found: Iterable[Loser]) -> Iterator[str]:
    """A question, where its pages were found, and what was found instead."""
    for loser in found:
        lost = "" if loser.lost is None else f", {loser.lost:.2f} less than before"
        yield f"{loser.question.id} ({loser.question.kind}): nDCG@10 {loser.ndcg:.2f}{lost}"
        yield f"    {loser.question.text}"
        for page, rank in loser.ranks.items():
            yield f"    wanted  {page} ({f'found at {rank}' if rank else 'not found'})"
        yield from _instead(loser)


def false_answer_lines(found: Iterable[Loser]) -> Iterator[str]:
    """A question without an answer, and what it was answered with."""
    for loser in found:
        yield f"{loser.question.id} ({loser.question.kind}): has no answer"
        yield f"    {loser.question.text}"
        yield from _instead(loser)


def _instead(loser: Loser) -> Iterator[str]:
    confidences = loser.reply.confidences or (None,) * len(loser.reply.pages)
    found = [
        pair for pair in zip(loser.reply.pages, confidences, strict=True) if pair[0] not in loser.question.relevant
    ]
    for page, confidence in found[:SHOWN_INSTEAD]:
        yield f"    found   {page}" + ("" if confidence is None else f" ({confidence:.2f})")


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"


def _width(title: str) -> int:
    return max(16, len(title) + 2)


@contextmanager
def progress_shown() -> Iterator[Any]:
    """A bar on a terminal, a line every tenth elsewhere; both on stderr."""
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
