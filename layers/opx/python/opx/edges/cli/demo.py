"""`opx demo`: ingests the example corpus and runs five queries on it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from opx.domain.queries import QueryConfig
from opx.edges.calling import OperationClient
from opx.edges.cli.demo_data import example_folders, load_examples
from opx.edges.cli.hits import HitPage, no_answer_lines
from opx.edges.cli.intake import Intake, IntakeTally, summary, warn_of
from opx.edges.cli.output import Screen, print_lines, warn
from opx.edges.cli.reporting import reporter_for_stderr
from opx.edges.cli.session import Session, home_option, pass_session
from opx.errors import InvalidInputError
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
