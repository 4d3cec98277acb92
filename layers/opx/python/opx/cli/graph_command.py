"""`opx graph`: things, how they are related, and the text that says so."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from opx.cli.exits import NO_ANSWER
from opx.cli.graph_alias_command import alias_command
from opx.cli.graph_output import (
    answer_lines,
    contradiction_lines,
    coverage_lines,
    find_rows,
    neighbour_rows,
    node_lines,
    path_lines,
)
from opx.cli.output import plural, print_json, print_table, warn
from opx.cli.session import Session, pass_session
from opx.domain.graph import MAX_HOPS, Direction
from opx.graph.asked import MAX_FOUND, MAX_SHOWN, since_when, until_when, walk_of

if TYPE_CHECKING:
    from opx.graph.questions.answers import GraphAnswer

F = TypeVar("F", bound=Callable[..., Any])

as_json_option = click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
since_option = click.option(
    "--since", default="", metavar="TIME", help="Only what was so then or later: 12h, 1d or 2w ago, a day or a time."
)
until_option = click.option("--until", default="", metavar="TIME", help="Only what was so then or before.")
type_option = click.option(
    "--type", "edge_types", multiple=True, metavar="NAME", help="Only along relations of this type; may be repeated."
)
direction_option = click.option(
    "--direction",
    type=click.Choice([direction.value for direction in Direction]),
    default=Direction.BOTH.value,
    show_default=True,
    help="Along relations, against them, or both.",
)


def limit_option(default: int, help_text: str, most: int = MAX_SHOWN) -> Callable[[F], F]:
    return click.option("--limit", type=click.IntRange(1, most), default=default, show_default=True, help=help_text)


@click.group("graph", no_args_is_help=True)
def graph_command() -> None:
    """Things and how they are related: services, hosts, alerts, runbooks, changes, vulnerabilities. Each relation comes
    with the text that says so.

    \b
    opx graph find checkout                            things whose name begins so
    opx graph show service:checkout                    one thing and its relations
    opx graph neighbours service:checkout --hops 2     what is around it
    opx graph path alert:highlatency service:payments  how two things are connected
    opx graph changes service:checkout --since 1d      what changed upstream of it
    opx graph affected CVE-2024-1234                   services that run an affected version
    opx graph coverage                                 alerts without a runbook, runbooks that never fire
    opx graph alias list                               other names of things
    opx graph relink                                   have old documents mention what is new
    """


@graph_command.command("show")
@click.argument("reference")
@click.option("--all", "everything", is_flag=True, help="All relations, not the newest ten of each type.")
@limit_option(100, "How many relations at most.")
@as_json_option
@pass_session
def show_node(session: Session, reference: str, *, everything: bool, limit: int, as_json: bool) -> None:
    """Show a thing (namespace:value, such as service:checkout), its relations, and where that is written.

    Exit codes: 0 shown, 2 there is no such thing, or any other error.
    """
    found = session.existing_base().graph_node(reference, limit=limit)
    if as_json:
        print_json(found.to_json())
        return
    for line in node_lines(found, everything=everything):
        click.echo(line)


@graph_command.command("neighbours")
@click.argument("reference")
@click.option("--hops", type=click.IntRange(1, MAX_HOPS), default=1, show_default=True, help="How many steps away.")
@type_option
@direction_option
@since_option
@until_option
@limit_option(100, "How many things at most.")
@as_json_option
@pass_session
def show_neighbours(
    session: Session,
    /,
    reference: str,
    *,
    hops: int,
    edge_types: Sequence[str],
    direction: str,
    since: str,
    until: str,
    limit: int,
    as_json: bool,
) -> None:
    """List what is around a thing, the nearest first. Exit codes: 0 there is something, 1 there is nothing."""
    walk = walk_of(
        now=time.time(),
        hops=hops,
        direction=direction,
        edge_types=edge_types,
        since=since,
        until=until,
        limit=limit,
    )
    found = session.existing_base().graph_neighbours(reference, walk)
    rows = neighbour_rows(found)
    if as_json:
        print_json(found.to_json())
    elif rows:
        print_table(("STEPS", "THING", "NAME", "HOW", "AT", "DOCUMENT ID"), rows)
        for line in contradiction_lines(found):
            warn(line)
        if found.cut:
            warn(f"not all relations were followed, the newest were, of: {', '.join(found.cut)}")
    else:
        click.echo(f"nothing is related to {found.start} in this way")
    if not rows:
        click.get_current_context().exit(NO_ANSWER)


@graph_command.command("path")
@click.argument("source", metavar="FROM")
@click.argument("target", metavar="TO")
@type_option
@direction_option
@since_option
@until_option
@as_json_option
@pass_session
def show_path(
    session: Session,
    /,
    source: str,
    target: str,
    *,
    edge_types: Sequence[str],
    direction: str,
    since: str,
    until: str,
    as_json: bool,
) -> None:
    """Show the shortest way from one thing to another, each step with the passage that proves it.

    Exit codes: 0 there is one, 1 there is none of few enough steps.
    """
    walk = walk_of(now=time.time(), direction=direction, edge_types=edge_types, since=since, until=until)
    found = session.existing_base().graph_path(source, target, walk)
    if as_json:
        print_json(found.to_json())
    elif found.found:
        for line in path_lines(found):
            click.echo(line)
    else:
        bounds = f"; not all relations were followed of {', '.join(found.cut)}" if found.cut else ""
        click.echo(f"no way was found from {found.source} to {found.target}{bounds}")
    if not found.found:
        click.get_current_context().exit(NO_ANSWER)


@graph_command.command("find")
@click.argument("text")
@click.option("--type", "node_type", default="", metavar="NAME", help="Only things of this type, such as service.")
@limit_option(20, "How many at most.", MAX_FOUND)
@as_json_option
@pass_session
def find_nodes(session: Session, text: str, *, node_type: str, limit: int, as_json: bool) -> None:
    """List things whose name begins with TEXT. Exit codes: 0 there are some, 1 there are none."""
    found = session.existing_base().graph_find(text, node_type=node_type, limit=limit)
    if as_json:
        print_json([node.to_json() for node in found])
    elif found:
        print_table(("THING", "TYPE", "NAME"), find_rows(found))
    else:
        click.echo("nothing has a name that begins so")
    if not found:
        click.get_current_context().exit(NO_ANSWER)


@graph_command.command("changes")
@click.argument("reference")
@click.option("--upstream/--downstream", default=True, help="Of what it depends on, or of what depends on it.")
@since_option
@until_option
@as_json_option
@pass_session
def show_changes(session: Session, reference: str, *, upstream: bool, since: str, until: str, as_json: bool) -> None:
    """List what changed of a thing and of what it depends on. Exit codes: 0 something, 1 nothing that is known of."""
    now = time.time()
    times = {"since": since_when(since, now), "until": until_when(until, now)}
    _print_answer(session.existing_base().graph_changes(reference, upstream=upstream, **times), as_json=as_json)


@graph_command.command("affected")
@click.argument("cve", metavar="CVE")
@click.option("--runbooks", is_flag=True, help="The runbooks that cover these services.")
@as_json_option
@pass_session
def show_affected(session: Session, cve: str, *, runbooks: bool, as_json: bool) -> None:
    """List services that run a version which a vulnerability affects. Exit codes: 0 there are some, 1 there are none."""
    _print_answer(session.existing_base().graph_affected(cve, runbooks=runbooks), as_json=as_json)


def _print_answer(found: GraphAnswer, *, as_json: bool) -> None:
    if as_json:
        print_json(found.to_json())
    else:
        for line in answer_lines(found):
            click.echo(line)
        if found.cut:
            warn("there may be more: some things have more relations than are followed")
    if not found.rows:
        click.get_current_context().exit(NO_ANSWER)


@graph_command.command("coverage")
@since_option
@limit_option(200, "How many things of each type are looked at.", 1000)
@as_json_option
@pass_session
def show_coverage(session: Session, *, since: str, limit: int, as_json: bool) -> None:
    """List alerts without a runbook, runbooks whose alerts never fired, and services without a runbook."""
    found = session.existing_base().graph_coverage(since=since_when(since, time.time()), limit=limit)
    if as_json:
        print_json(found.to_json())
        return
    for line in coverage_lines(found):
        click.echo(line)
    for kind in found.cut:
        warn(f"there are more of type {kind} than {limit}: give --limit")


@graph_command.command("relink")
@pass_session
def relink(session: Session) -> None:
    """Have documents mention what was declared after them. It is done as documents are taken in; this goes through all
    names again. A deployed system does it every day."""
    done = session.services.relink()
    mentions = f"{plural(done.mentions, 'mention')} added in {plural(done.documents, 'document')}"
    click.echo(f"{plural(done.names, 'name')}, {mentions}")
    if done.busy:
        warn(f"{plural(done.busy, 'document')} being taken in just now: run it again")
    for left in done.left_out:
        warn(f"left out: {left}")


graph_command.add_command(alias_command)
