"""`opx search`: a question and its answer."""

from __future__ import annotations

import sys
from typing import Any

import click

from opx.cli.exits import NO_ANSWER, CommandFailed
from opx.cli.hits import answer_lines, no_answer_lines
from opx.cli.output import print_json, warn
from opx.cli.session import Session, pass_session
from opx.domain.knowledge import Tier
from opx.domain.queries import MAX_RESULTS, Fusion, QueryConfig, SearchMode
from opx.domain.results import Answer
from opx.errors import InvalidInputError
from opx.retrieval.query import INDEX_DOWN

_DEFAULTS = QueryConfig()
MIN_CONFIDENCE = 0.3
"""Lower than for agents (0.7): a person sees each confidence and judges. At 0.3, 95 % of questions about other things are
refused, and 9 % of those that have an answer (docs/confidence.md)."""


@click.command("search")
@click.argument("query")
@click.option("--mode", type=click.Choice([*map(str, SearchMode)]), default=_DEFAULTS.mode.value, show_default=True)
@click.option("--category", "categories", multiple=True, metavar="NAME", help="Only this category or what is below it.")
@click.option(
    "--tag", "tags", multiple=True, metavar="TAG", help="Only documents with this tag (or another one given)."
)
@click.option("--tier", "tiers", multiple=True, type=click.Choice([*map(str, Tier)]), help="Only this tier of trust.")
@click.option("--include-internet", is_flag=True, help="Also what was fetched from the internet.")
@click.option("--document", "document_id", default="", metavar="ID", help="Only within this document.")
@click.option("--language", default="", metavar="CODE", help="Only documents in this language, e.g. en.")
@click.option("--limit", "max_results", type=click.IntRange(min=1), default=_DEFAULTS.max_results, show_default=True)
@click.option(
    "--min-confidence",
    type=click.FloatRange(0, 1),
    default=MIN_CONFIDENCE,
    show_default=True,
    help="Leave out what is less likely to answer the question.",
)
@click.option("--fusion", type=click.Choice([*map(str, Fusion)]), help="How words and meaning are put together.")
@click.option("--explain", is_flag=True, help="Show all parts of each score.")
@click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON.")
@pass_session
def search_command(session: Session, /, query: str, *, explain: bool, as_json: bool, **options: Any) -> None:
    """Ask QUERY, in plain words or with an exact identifier; `-` reads the question from standard input.

    Each hit comes with its title and section, category, score (confidence x trust), an excerpt and its source.

    Exit codes: 0 there are results, 1 no good answer, 2 wrong usage or another error.
    """
    text = _question(query)
    config = _config(options)
    answer = session.existing_base().search(text, config)
    if INDEX_DOWN in answer.notes:
        raise CommandFailed(INDEX_DOWN)
    if as_json:
        print_json(answer.to_json())
    else:
        _print(answer, config, limit=options["max_results"], explain=explain)
    if not answer.results:
        click.get_current_context().exit(NO_ANSWER)


def _question(query: str) -> str:
    text = sys.stdin.read() if query == "-" else query
    text = text.replace("\0", " ").encode("utf-8", "replace").decode("utf-8").strip()
    if not text:
        raise InvalidInputError('the question is empty: opx search "what goes wrong"')
    return text


def _config(options: dict[str, Any]) -> QueryConfig:
    """Absent options keep `QueryConfig`'s defaults. Who names the internet tier wants it searched."""
    tiers = options["tiers"] or _DEFAULTS.tiers
    internet = options["include_internet"] or Tier.INTERNET in tiers
    categories = options["categories"] or None
    return QueryConfig(**{**options, "tiers": tiers, "include_internet": internet, "categories": categories})


def _print(answer: Answer, config: QueryConfig, *, limit: int, explain: bool) -> None:
    for line in answer_lines(answer.results, answer.query, explain=explain):
        click.echo(line)
    if not answer.results:
        for line in no_answer_lines(answer, config.min_confidence, "--min-confidence"):
            click.echo(line)
    for note in answer.notes:
        warn(note)
    if limit > MAX_RESULTS:
        warn(f"at most {MAX_RESULTS} results are given")
