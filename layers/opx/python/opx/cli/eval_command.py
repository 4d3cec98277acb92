"""`opx eval`: how well a labelled set of questions is answered."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from opx.cli.target import is_remote
from opx.domain.ids import stable_hash
from opx.errors import InvalidInputError
from opx.settings import Settings

Figures = dict[str, dict[str, dict[str, float]]]


@click.command("eval")
@click.argument("dataset", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--mode", type=click.Choice(["fast", "balanced"]), default="balanced", show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON.")
@click.pass_context
def eval_command(context: click.Context, dataset: Path, mode: str, as_json: bool) -> None:
    """Measure retrieval on DATASET, a folder in BEIR form.

    The folder has corpus.jsonl (_id, title, text), queries.jsonl (_id, text, metadata.kind) and qrels/test.tsv. Its
    corpus goes through the same pipeline as any document, into an index of its own under the home folder, which is
    reused while the corpus stays the same. Prints nDCG@10, recall@5, hit rate@5 and MRR by kind of question, for each
    leg alone and for each way of fusing them.
    """
    from opx.bootstrap import bootstrap
    from opx.domain.queries import SearchMode
    from opx.evaluation.datasets import load_dataset
    from opx.evaluation.runner import Evaluation

    given = context.find_object(Settings) or Settings()
    if is_remote(given):
        raise InvalidInputError("eval measures on this machine: leave --profile and --api out")
    loaded = load_dataset(dataset)
    settings = evaluation_settings(given, dataset)
    with bootstrap(settings) as services, _progress() as progress:
        evaluation = Evaluation(services, loaded, progress)
        ingested = evaluation.ingest()
        figures = evaluation.measure(SearchMode(mode))
    if as_json:
        click.echo(json.dumps({"ingest": ingested.to_json(), "mode": mode, "figures": figures}, indent=2))
        return
    click.echo(f"ingest: {json.dumps(ingested.to_json())}\n")
    for line in table_lines(figures):
        click.echo(line)


def evaluation_settings(settings: Settings, dataset: Path) -> Settings:
    """Settings with a home for this state of the dataset's corpus, below the ordinary home."""
    corpus = dataset / "corpus.jsonl"
    name = f"{dataset.name}-{stable_hash(corpus.read_bytes().hex())[:8]}"
    return replace(settings, home=str(settings.home_path / "eval" / name), client_id="", project_id="")


def table_lines(figures: Figures) -> Iterator[str]:
    """A plain table: one block a measure, one row a system, one column a kind."""
    kinds = list(next(iter(figures.values())))
    measures = [name for name in next(iter(figures.values()))[kinds[0]] if name != "questions"]
    counts = next(iter(figures.values()))
    titles = [f"{kind} ({int(counts[kind]['questions'])})" for kind in kinds]
    head = "".join(f"{title:>16}" for title in titles)
    for measure in measures:
        yield f"{measure:<24}{head}"
        for system, by_kind in figures.items():
            yield f"  {system:<22}" + "".join(f"{by_kind[kind][measure]:>16.4f}" for kind in kinds)
        yield ""


@contextmanager
def _progress() -> Iterator[Any]:
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
