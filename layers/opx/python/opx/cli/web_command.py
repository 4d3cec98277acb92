"""`opx web`: a question to the web."""

from __future__ import annotations

import click

from opx.cli.hits import heading
from opx.cli.output import NO_ANSWER, CommandFailed, print_json, warn
from opx.cli.session import Session, pass_session
from opx.domain.results import Answer
from opx.errors import InvalidInputError
from opx.retrieval.query import NOT_CONFIGURED
from opx.websearch.providers import MAX_RESULTS


@click.command("web")
@click.argument("query")
@click.option("--limit", "max_results", type=click.IntRange(1, MAX_RESULTS), default=5, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON.")
@pass_session
def web_command(session: Session, query: str, *, max_results: int, as_json: bool) -> None:
    """Ask QUERY of a search engine on the web, now; nothing is taken in.

    Needs the section `internet` of knowledge.yaml. The question's words leave this machine, without what looks like a
    secret. Answers are kept for an hour.

    Exit codes: 0 there are results, 1 none, 2 no engine is configured or it doesn't answer.
    """
    if not query.strip():
        raise InvalidInputError('the question is empty: opx web "what is it"')
    search = session.services.questions.internet
    if search is None:
        raise CommandFailed(NOT_CONFIGURED)
    answer = search.answer(query, max_results)
    if answer.partial:
        raise CommandFailed("; ".join(answer.notes))
    if as_json:
        print_json(answer.to_json())
    else:
        _print(answer)
    if not answer.results:
        click.get_current_context().exit(NO_ANSWER)


def _print(answer: Answer) -> None:
    for rank, hit in enumerate(answer.results, start=1):
        site, trust = hit.metadata["site"], hit.trust_score
        click.echo(click.style(f"{rank}. {heading(hit)}", bold=True))
        click.echo(f"   {site}, trust {trust:.2f}, score {hit.score:.2f}")
        click.echo(f"   | {hit.content}")
        click.echo("   " + click.style(hit.source, dim=True))
    if not answer.results:
        click.echo("Nothing was found.")
    for note in answer.notes:
        warn(note)
