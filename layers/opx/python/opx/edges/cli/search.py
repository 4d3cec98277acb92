"""`opx search`: runs a query and prints the documents that answer it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from opx.domain.ids import day_text, first_day
from opx.domain.knowledge import Tier
from opx.domain.queries import DEFAULT_BUDGET, MAX_BUDGET, MAX_RESULTS, Expand, Fusion, QueryConfig, SearchMode
from opx.domain.results import Answer, EvidenceItem, EvidencePack, EvidenceSource
from opx.edges.cli.hits import HitPage, absent_lines, no_answer_lines, receipt_line, untrusted_line
from opx.edges.cli.output import CommandFailed, Screen, exit_unless, print_json, print_page, printable, warn
from opx.edges.cli.session import Session, pass_session
from opx.errors import InvalidInputError
from opx.operations.search import MAX_QUESTION, Query, query
from opx.retrieval.stages import INDEX_DOWN

_DEFAULTS = QueryConfig()


@click.command("search")
@click.argument("words", nargs=-1, metavar="QUERY...")
@click.option("--mode", type=click.Choice([*map(str, SearchMode)]), default=_DEFAULTS.mode.value, show_default=True)
@click.option("--category", "categories", multiple=True, metavar="NAME", help="Only this category or those below it.")
@click.option("--tag", "tags", multiple=True, metavar="TAG", help="Only documents with one of these tags.")
@click.option("--tier", "tiers", multiple=True, type=click.Choice([*map(str, Tier)]), help="Only this tier of trust.")
@click.option("--include-internet", is_flag=True, help="Include documents fetched from the internet.")
@click.option(
    "--document", "document_id", default="", metavar="ID", help="Only within this document: its id, path or title."
)
@click.option(
    "--resource",
    "--service",
    "resources",
    multiple=True,
    metavar="NAME",
    help="Only documents about one of these nodes, services, workloads or other resources.",
)
@click.option(
    "--after",
    "updated_from",
    default="",
    metavar="DATE",
    help="Only documents updated on or after this date: 2026-03-31.",
)
@click.option(
    "--before", "updated_before", default="", metavar="DATE", help="Only documents last updated before this date."
)
@click.option("--as-of", default="", metavar="TIME", help="Answer as of this time: 2026-11-03T02:14Z.")
@click.option(
    "--plain", is_flag=True, help='Treat all of QUERY as words: no operators such as "phrase", -word or tag:.'
)
@click.option("--language", default="", metavar="CODE", help="Only documents in this language, e.g. en.")
@click.option("--limit", "max_results", type=click.IntRange(min=1), default=_DEFAULTS.max_results, show_default=True)
@click.option(
    "--min-confidence",
    type=click.FloatRange(0, 1),
    default=0.0,
    show_default=True,
    help="Omit results of lower confidence: sure is 0.95 or more, likely 0.5 or more.",
)
@click.option(
    "--fusion", type=click.Choice([*map(str, Fusion)]), help="Method of fusing the rankings by words and by meaning."
)
@click.option(
    "--expand",
    type=click.Choice([*map(str, Expand)]),
    default=_DEFAULTS.expand.value,
    show_default=True,
    help="Show the whole section or document of each result.",
)
@click.option(
    "--budget",
    type=click.IntRange(1, MAX_BUDGET),
    default=DEFAULT_BUDGET,
    show_default=True,
    help="Approximate number of tokens of text to show.",
)
@click.option("--graph", "expand_graph", is_flag=True, help="Add related results by following the graph.")
@click.option("--explain", is_flag=True, help="Show all parts of each score, and the times of the stages.")
@click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON.")
@click.option(
    "--receipt", "receipt", type=click.Path(dir_okay=False, path_type=Path), help="Write a receipt to this file."
)
@pass_session
def search_command(
    session: Session,
    /,
    words: tuple[str, ...],
    *,
    budget: int,
    explain: bool,
    as_json: bool,
    receipt: Path | None,
    **options: Any,
) -> None:
    """Search for QUERY, in plain words or an exact identifier; `-` reads it from standard input.

    QUERY may contain "exact phrases", -excluded words, tag:, category:, tier:, resource:, title:, after: and before:.
    Quote a term that begins with a dash together with a word before it.

    Each document is shown with its band of confidence (sure, likely, weak), age and owner, the relevant blocks, its other
    steps, and its location.

    Exit codes: 0 there are results, 1 no good answer, 2 wrong usage or another error.
    """
    text = _question(" ".join(words))
    if options["document_id"]:
        from opx.edges.cli.documents import version_named

        options["document_id"] = version_named(session, options["document_id"]).document.document_id
    config = _config(options)
    request = Query(query=text[:MAX_QUESTION], config=config, receipt=receipt is not None, budget=budget)
    answer = session.call(query, request)
    if INDEX_DOWN in answer.notes and not answer.evidence:
        raise CommandFailed(INDEX_DOWN)
    if receipt is not None:
        from opx.edges.cli.questions import write_receipt

        write_receipt(answer, receipt)
    if as_json:
        print_json(answer.to_json())
    else:
        _print(session, answer, config, limit=options["max_results"], explain=explain)
    exit_unless(answer.results or (answer.evidence and relations(answer.evidence)))


def _question(typed: str) -> str:
    text = sys.stdin.read() if typed == "-" else typed
    text = text.replace("\0", " ").encode("utf-8", "replace").decode("utf-8").strip()
    if not text:
        raise InvalidInputError('the question is empty: opx search "what goes wrong"')
    return text


def _config(options: dict[str, Any]) -> QueryConfig:
    """The config of the given options; others keep `QueryConfig`'s defaults. Naming the internet tier includes it."""
    tiers = options["tiers"] or _DEFAULTS.tiers
    internet = options["include_internet"] or Tier.INTERNET in tiers
    categories = options["categories"] or None
    days = {name: _first_day(name, options[name]) for name in ("updated_from", "updated_before")}
    return QueryConfig(**{**options, **days, "tiers": tiers, "include_internet": internet, "categories": categories})


def _first_day(name: str, value: str) -> str:
    """The first day of a date, which may be a month or a year; "" for none."""
    if not value:
        return ""
    day = first_day(value)
    if day is None:
        option = {"updated_from": "--after", "updated_before": "--before"}[name]
        raise InvalidInputError(f"{option} must be a day, month or year such as 2026-03-31, not {value!r}")
    return day_text(day)


def _print(session: Session, answer: Answer, config: QueryConfig, *, limit: int, explain: bool) -> None:
    screen = Screen.current()
    page = HitPage(screen, config.expand, explain, () if session.is_remote else (session.settings.home_path.parent,))
    lines = [*absent_lines(answer), *page.answer(answer)]
    if not answer.results:
        lines += no_answer_lines(answer, config.min_confidence, "--min-confidence")
    elif answer.receipt_id:
        lines += ("", receipt_line(answer, screen))
    if answer.evidence:
        lines += related_lines(answer.evidence)
    if explain:
        times = (f"{printable(stage)} {taken:.1f} ms" for stage, taken in answer.timings_ms.items())
        lines += ("", f"stages: {', '.join(times)}")
    print_page(lines, screen)
    warn(*answer.notes)
    if limit > MAX_RESULTS:
        warn(f"at most {MAX_RESULTS} results are returned")


# -- relations of an evidence pack

_INDENT = "   "
_LINES = 4
"""Lines shown of a passage."""


def related_lines(pack: EvidencePack) -> Iterator[str]:
    """The summary, the interpretation of the question, and each relation with its source."""
    yield ""
    yield click.style(pack.summary, bold=True)
    if pack.understood:
        yield f"From the graph: {printable(pack.understood)}"
    for item in relations(pack):
        yield ""
        yield from _item_lines(item)


def relations(pack: EvidencePack) -> tuple[EvidenceItem, ...]:
    """Items found in the graph."""
    return tuple(item for item in pack.items if item.source is EvidenceSource.GRAPH)


def _item_lines(item: EvidenceItem) -> Iterator[str]:
    statement, _, text = item.content.partition("\n\n")
    when = f", {printable(item.at)}" if item.at else ""
    yield click.style(f"- {printable(statement)}", bold=item.answers) + f"  ({item.confidence:.2f}{when})"
    if item.untrusted:
        yield _INDENT + click.style(untrusted_line(item.tier), fg="yellow")
    lines = [line for line in map(printable, text.splitlines()) if line]
    yield from (f"{_INDENT}| {line}" for line in lines[:_LINES])
    if item.document_id:
        yield _INDENT + click.style(f"{printable(item.title)}  [Document ID: {item.document_id}]", dim=True)
