"""`opx graph`: things, how they are related, and the text that says so."""

from __future__ import annotations

import click

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
from opx.cli.operations import Shape, operation_command
from opx.cli.output import NO_ANSWER, plural, print_json, print_table, warn
from opx.cli.session import Session, pass_session
from opx.graph.coverage import GraphCoverage
from opx.graph.questions.answers import GraphAnswer
from opx.graph.views import Connection, Neighbourhood, NodesFound, NodeView
from opx.operations import graph
from opx.operations.graph import GetGraphCoverage, ListChanges, Relink, Side

TIME = "TIME"
BOUNDS = {"edge_types": "NAME", "since": TIME, "until": TIME}


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


@graph_command.add_command
@operation_command("show", graph.get_node, Shape(arguments=("reference",)))
@click.option("--all", "everything", is_flag=True, help="All relations, not the newest ten of each type.")
def show_node(found: NodeView, *, everything: bool) -> None:
    """Show a thing (namespace:value, such as service:checkout), its relations, and where that is written.

    Exit codes: 0 shown, 2 there is no such thing, or any other error.
    """
    for line in node_lines(found, everything=everything):
        click.echo(line)


@graph_command.add_command
@operation_command(
    "neighbours",
    graph.list_neighbours,
    Shape(arguments=("reference",), options={"edge_types": "--type"}, metavars=BOUNDS),
)
def show_neighbours(found: Neighbourhood, *, as_json: bool) -> None:
    """List what is around a thing, the nearest first. Exit codes: 0 there is something, 1 there is nothing."""
    rows = neighbour_rows(found)
    if rows and not as_json:
        print_table(("STEPS", "THING", "NAME", "HOW", "AT", "DOCUMENT ID"), rows)
        for line in contradiction_lines(found):
            warn(line)
        if found.cut:
            warn(f"not all relations were followed, the newest were, of: {', '.join(found.cut)}")
    elif not as_json:
        click.echo(f"nothing is related to {found.start} in this way")
    _exit_unless(rows)


@graph_command.add_command
@operation_command(
    "path",
    graph.find_path,
    Shape(
        arguments=("source", "target"),
        options={"edge_types": "--type"},
        metavars={**BOUNDS, "source": "FROM", "target": "TO"},
    ),
)
def show_path(found: Connection, *, as_json: bool) -> None:
    """Show the shortest way from one thing to another, each step with the passage that proves it.

    Exit codes: 0 there is one, 1 there is none of few enough steps.
    """
    if found.found and not as_json:
        for line in path_lines(found):
            click.echo(line)
    elif not as_json:
        bounds = f"; not all relations were followed of {', '.join(found.cut)}" if found.cut else ""
        click.echo(f"no way was found from {found.source} to {found.target}{bounds}")
    _exit_unless(found.found)


@graph_command.add_command
@operation_command(
    "find",
    graph.find_nodes,
    Shape(arguments=("text",), options={"node_type": "--type"}, metavars={"node_type": "NAME"}, items="nodes"),
)
def find_nodes(found: NodesFound, *, as_json: bool) -> None:
    """List things whose name begins with TEXT. Exit codes: 0 there are some, 1 there are none."""
    if found.nodes and not as_json:
        print_table(("THING", "TYPE", "NAME"), find_rows(found.nodes))
    elif not as_json:
        click.echo("nothing has a name that begins so")
    _exit_unless(found.nodes)


@graph_command.command("changes")
@click.argument("reference")
@click.option("--upstream/--downstream", default=True, help="Of what it depends on, or of what depends on it.")
@click.option(
    "--since", default="", metavar=TIME, help="Only what was so then or later: 12h, 1d or 2w ago, a day or a time."
)
@click.option("--until", default="", metavar=TIME, help="Only what was so then or before.")
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
@pass_session
def show_changes(session: Session, reference: str, *, upstream: bool, since: str, until: str, as_json: bool) -> None:
    """List what changed of a thing and of what it depends on. Exit codes: 0 something, 1 nothing that is known of."""
    side = Side.UPSTREAM if upstream else Side.DOWNSTREAM
    request = ListChanges(reference=reference, side=side, since=since, until=until)
    found = session.call(graph.list_changes, request)
    if as_json:
        print_json(found.to_json())
    _print_answer(found, as_json=as_json)


@graph_command.add_command
@operation_command("affected", graph.list_affected, Shape(arguments=("cve",)))
def show_affected(found: GraphAnswer, *, as_json: bool) -> None:
    """List services that run a version which a vulnerability affects. Exit codes: 0 there are some, 1 there are none."""
    _print_answer(found, as_json=as_json)


def _print_answer(found: GraphAnswer, *, as_json: bool) -> None:
    if not as_json:
        for line in answer_lines(found):
            click.echo(line)
        if found.cut:
            warn("there may be more: some things have more relations than are followed")
    _exit_unless(found.rows)


@graph_command.add_command
@operation_command("coverage", graph.get_graph_coverage, Shape(metavars={"since": TIME}))
def show_coverage(found: GraphCoverage, *, request: GetGraphCoverage) -> None:
    """List alerts without a runbook, runbooks whose alerts never fired, and services without a runbook."""
    for line in coverage_lines(found):
        click.echo(line)
    for kind in found.cut:
        warn(f"there are more of type {kind} than {request.limit}: give --limit")


@graph_command.command("relink")
@pass_session
def relink(session: Session) -> None:
    """Have documents mention what was declared after them. It is done as documents are taken in; this goes through all
    names again. A deployed system does it every day."""
    done = graph.relink(session.context, Relink())
    mentions = f"{plural(done.mentions, 'mention')} added in {plural(done.documents, 'document')}"
    click.echo(f"{plural(done.names, 'name')}, {mentions}")
    if done.busy:
        warn(f"{plural(done.busy, 'document')} being taken in just now: run it again")
    for left in done.left_out:
        warn(f"left out: {left}")


def _exit_unless(found: object) -> None:
    """End with the code of an answer that has nothing in it."""
    if not found:
        click.get_current_context().exit(NO_ANSWER)


graph_command.add_command(alias_command)
