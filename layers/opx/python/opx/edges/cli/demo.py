"""`opx demo`: ingests the example corpus and runs five queries on it."""

from __future__ import annotations

import csv
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from opx.domain.learning import CheckpointReport
from opx.domain.queries import QueryConfig
from opx.domain.requests import read_request
from opx.edges.calling import OperationClient
from opx.edges.cli.hits import HitPage, no_answer_lines
from opx.edges.cli.intake import Intake, IntakeTally, summary, warn_of
from opx.edges.cli.output import Screen, plural, print_lines, warn
from opx.edges.cli.reporting import reporter_for_stderr
from opx.edges.cli.session import Session, home_option, pass_session
from opx.errors import InvalidInputError, distribution_of
from opx.operations import of_route
from opx.operations.learning import CaptureEntry, ProcessCheckpoint, capture_entry, process_checkpoint
from opx.operations.search import Query, query
from opx.runtime.knowledge_file import corpus_path

HITS_SHOWN = 3
BUDGET = 500
"""Tokens of text shown for each question."""


@dataclass(frozen=True, slots=True)
class DemoQuestion:
    """A question, the ability that it demonstrates, and the file that answers it ("" for none)."""

    shows: str
    text: str
    answered_by: str


QUESTIONS = (
    DemoQuestion(
        "A symptom in plain words",
        "deleted the log files but df still shows the disk full",
        "runbooks/linux-disk-full.md",
    ),
    DemoQuestion("An exact identifier: the name of an alert", "KubePodCrashLooping", "runbooks/pod-crashlooping.md"),
    DemoQuestion(
        "No word of the question is in the answer: found by meaning alone, so it is less sure",
        "the website's photos are inaccessible",
        "postmortems/2024-11-s3-bucket-policy-lockout.md",
    ),
    DemoQuestion(
        "Only a postmortem knows",
        "why did customers receive the same e-mail several times",
        "postmortems/2024-08-kafka-consumer-lag.md",
    ),
    DemoQuestion("Nothing here is near this", "how long do I boil an egg", ""),
)


@click.command("demo")
@click.option("--documents", type=click.Path(path_type=Path), help="Folder to ingest.  [default: corpus/documents]")
@pass_session
def demo_command(session: Session, documents: Path | None) -> None:
    """Ingest the example corpus and run five queries on it. It has no answer to the last one."""
    started = time.perf_counter()
    session.require_local("the demo runs in a folder of this machine: omit --profile and --api")
    folder = documents or example_documents()
    if not folder.is_dir():
        raise InvalidInputError(f"there is no folder {folder}: name one with --documents")
    click.echo(f"Ingesting {folder if documents else folder.parent} into {session.settings.home_path}")
    _ingest(session, [folder] if documents else example_folders())
    if not documents:
        click.echo(load_examples(session.client))
    for number, question in enumerate(QUESTIONS, start=1):
        _ask(session.client, number, question)
    click.echo(f"\nDone in {time.perf_counter() - started:.1f} s. Try your own:")
    click.echo(f"  opx {home_option(session.settings)}search pods keep restarting")


def example_documents() -> Path:
    """The example corpus, in the checkout or in the package. Raises `InvalidInputError` if it is in neither."""
    found = corpus_path("documents")
    if found is None:
        raise InvalidInputError("the example corpus is not installed: name a folder with --documents")
    return found


def _ingest(session: Session, folders: Sequence[Path]) -> None:
    started = time.perf_counter()
    tally = IntakeTally()
    with reporter_for_stderr() as reporter:
        intake = Intake(session.client, session.loader, session.working_folder, reporter)
        intake.put(intake.plan(folders), {}, tally)
        intake.work(tally)
    warn_of(tally.failures)
    click.echo(summary(tally, started))


def _ask(client: OperationClient, number: int, question: DemoQuestion) -> None:
    config = QueryConfig(max_results=HITS_SHOWN, min_confidence=0.0)
    answer = client.call(query, Query(query=question.text, config=config, budget=BUDGET))
    click.echo("\n" + click.style(f"=== {number}. {question.shows}", bold=True))
    click.echo(f"    {question.text}\n")
    print_lines(HitPage(Screen.current()).answer(answer))
    if not answer.results:
        print_lines(no_answer_lines(answer, config.min_confidence))
    warn(*answer.notes)


FOLDERS = ("documents", "inventory", "changes", "alert-rules")
"""Folders of the corpus whose files are documents."""

BATCH = "example-corpus"
"""Id of the values' batch: however often the demo runs on a day, they count once."""


def example_folders() -> list[Path]:
    """The folders of the example corpus, in the checkout or in the package."""
    return [found for name in FOLDERS if (found := corpus_path(name)) is not None]


def load_examples(client: OperationClient) -> str:
    """Adds captured entries with their patterns, and values of baselines. Returns a line that counts them."""
    report = _learn(client, _entries())
    learnt = report.patterns_new if report else 0
    return f"{plural(learnt, 'new pattern')} learnt, {_add_values(client)}"


def _learn(client: OperationClient, entries: list[dict[str, Any]]) -> CheckpointReport | None:
    for entry in entries:
        client.call(capture_entry, read_request(CaptureEntry, entry))
    return client.call(process_checkpoint, ProcessCheckpoint()).report


def _entries() -> list[dict[str, Any]]:
    found = corpus_path("learnings.json")
    return json.loads(found.read_text(encoding="utf-8")) if found else []


def _add_values(client: OperationClient) -> str:
    """Adds values of baselines where they are installed. Returns a phrase that counts them."""
    add = of_route("POST /baselines")
    if add is None:
        return f"no values of baselines added: pip install {distribution_of('part', 'baselines')}"
    added = client.call(add.run, add.request(values=_values(), batch_id=BATCH)).added
    return f"{plural(added, 'value')} of baselines added"


def _values() -> tuple[dict[str, Any], ...]:
    found = corpus_path("baselines.csv")
    return tuple(csv.DictReader(found.read_text(encoding="utf-8").splitlines())) if found else ()
