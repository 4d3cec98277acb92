"""`opx research`, `opx web`: researches a topic with several searches, and queries a web search engine."""

from __future__ import annotations

from typing import Any

import click

from opx.domain.ids import shortened
from opx.domain.queries import QueryConfig
from opx.domain.results import Answer
from opx.edges.cli.hits import HitPage, heading
from opx.edges.cli.output import CommandFailed, Screen, aligned, exit_unless, print_json, print_lines, safe, warn
from opx.edges.cli.session import Session, pass_session
from opx.errors import InvalidInputError
from opx.operations.search import MAX_QUESTION
from opx.retrieval.query import NOT_CONFIGURED
from opx_web.live.providers import MAX_RESULTS
from opx_web.live.setup import internet_search
from opx_web.operations import Research, research
from opx_web.reports import DEFAULT_ITERATIONS, MOST_ITERATIONS, ResearchReport, ResearchStep, StepKind, Stopped

_DEFAULTS = QueryConfig()
_SHOWN_CHARACTERS = 70
_STOPPED = {
    Stopped.ENOUGH: "each part of the topic has a good finding",
    Stopped.NOTHING_LEFT: "no other query was left",
    Stopped.ITERATIONS: "no more iterations were allowed",
    Stopped.TIME: "the time was over",
    Stopped.UNAVAILABLE: "nothing could be searched",
}


@click.command("research")
@click.argument("topic")
@click.option(
    "--iterations",
    type=click.IntRange(1, MOST_ITERATIONS),
    default=DEFAULT_ITERATIONS,
    show_default=True,
    help="Rounds of up to four searches each, at most.",
)
@click.option("--category", "categories", multiple=True, metavar="NAME", help="Only this category or those below it.")
@click.option("--limit", "max_results", type=click.IntRange(min=1), default=_DEFAULTS.max_results, show_default=True)
@click.option(
    "--min-confidence",
    type=click.FloatRange(0, 1),
    default=_DEFAULTS.min_confidence,
    show_default=True,
    help="Minimum confidence of a finding; parts without one are searched again in other words.",
)
@click.option("--trace", "with_trace", is_flag=True, help="Show every search with its reason.")
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON, the trace included.")
@pass_session
def research_command(
    session: Session, /, topic: str, *, iterations: int, with_trace: bool, as_json: bool, **bounds: Any
) -> None:
    """Search for TOPIC and for each part of it, and again in other words for parts without a finding.

    Exit codes: 0 there are findings, 1 there are none, 2 wrong usage, or nothing could be searched.
    """
    config = QueryConfig(**{**bounds, "categories": bounds["categories"] or None})
    report = session.call(research, Research(topic=topic[:MAX_QUESTION], max_iterations=iterations, config=config))
    if report.stopped_because is Stopped.UNAVAILABLE and not report.findings:
        raise CommandFailed("; ".join(report.notes))
    if as_json:
        print_json(report.to_json())
    else:
        _print(report, with_trace=with_trace)
    exit_unless(report.findings)


def _print(report: ResearchReport, *, with_trace: bool) -> None:
    for rank, finding in enumerate(report.findings, start=1):
        found_by = click.style(f"   found by: {'; '.join(map(_short, finding.found_by))}", dim=True)
        print_lines((*HitPage(Screen.current()).passage(rank, finding), found_by))
        click.echo("")
    if not report.findings:
        click.echo("Nothing good enough was found.")
    print_lines(f"Nothing good enough for: {gap}" for gap in report.gaps)
    print_lines(f"Closest: {heading(near)} ({near.confidence:.2f})  {near.source}" for near in report.nearest)
    click.echo(f"{_searches(report.searches_performed)} by {report.planner}; {_STOPPED[report.stopped_because]}")
    if with_trace:
        print_lines(aligned([("#", "MS", "RESULTS", "NEW", "BEST", "SEARCHED FOR", "WHY"), *map(_row, report.trace)]))
    warn(*report.notes)


def _row(step: ResearchStep) -> tuple[str, ...]:
    took, counts = f"{step.milliseconds:.0f}", (str(step.results), str(step.new))
    if step.kind is StepKind.PLAN:
        return str(step.iteration), took, *counts, "", f"(plan by {step.text})", _reason(step)
    return str(step.iteration), took, *counts, f"{step.best_confidence:.2f}", _short(step.text), _reason(step)


def _reason(step: ResearchStep) -> str:
    return f"{step.why} - FAILED: {step.error}" if step.error else step.why


def _short(text: str) -> str:
    return shortened(text, _SHOWN_CHARACTERS)


def _searches(count: int) -> str:
    return f"{count} search" if count == 1 else f"{count} searches"


# -- the web


@click.command("web")
@click.argument("query")
@click.option("--limit", "max_results", type=click.IntRange(1, MAX_RESULTS), default=5, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON.")
@pass_session
def web_command(session: Session, query: str, *, max_results: int, as_json: bool) -> None:
    """Send QUERY to a search engine on the web; nothing is ingested.

    Needs the section `internet` of knowledge.yaml. The words of QUERY leave this machine, except for suspected secrets.
    Answers are cached for an hour.

    Exit codes: 0 there are results, 1 none, 2 no engine is configured or it doesn't answer.
    """
    if not query.strip():
        raise InvalidInputError('the question is empty: opx web "what is it"')
    search = session.services.part(internet_search)
    if search is None:
        raise CommandFailed(NOT_CONFIGURED)
    answer = search.search(query, max_results)
    if answer.partial:
        raise CommandFailed("; ".join(answer.notes))
    if as_json:
        print_json(answer.to_json())
    else:
        _print_pages(answer)
    exit_unless(answer.results)


def _print_pages(answer: Answer) -> None:
    for rank, hit in enumerate(answer.results, start=1):
        site, trust = hit.metadata["site"], hit.trust_score
        click.echo(click.style(safe(f"{rank}. {heading(hit)}"), bold=True))
        click.echo(safe(f"   {site}, trust {trust:.2f}, score {hit.score:.2f}"))
        click.echo(safe(f"   | {hit.content}"))
        click.echo("   " + click.style(safe(hit.source), dim=True))
    if not answer.results:
        click.echo("Nothing was found.")
    warn(*answer.notes)
