"""`opx graph alias`: which names mean the same thing."""

from __future__ import annotations

import click

from opx.cli.operations import Shape, operation_command
from opx.cli.output import NO_ANSWER, print_table, printable
from opx.domain.aliases import Alias, Merge
from opx.operations import graph
from opx.operations.graph import Aliases, Merges, RemoveAlias, RemovedAlias


@click.group("alias", no_args_is_help=True)
def alias_command() -> None:
    """Other names of things. What is changed holds for the documents of your own scope.

    \b
    opx graph alias list
    opx graph alias add service:cart service:checkout        know it by another name, too
    opx graph alias remove service:cart
    opx graph alias merge service:chk-out service:checkout   make two things one; evidence is kept
    opx graph alias merges                                   what was merged
    opx graph alias undo MERGE_ID                            make them two again
    """


@alias_command.add_command
@operation_command("list", graph.list_aliases, Shape(items="aliases"))
def list_aliases(found: Aliases) -> None:
    """List other names that questions know."""
    if found.aliases:
        print_table(("NAME", "MEANS", "OF", "SEEN", "LAST", "BY"), [_row(one) for one in found.aliases])
    else:
        click.echo("no other names: `opx graph alias add`, or `aliases:` in a document's front matter")


def _row(one: Alias) -> tuple[str, ...]:
    said_by = one.set_by or ("set by hand" if one.is_set else f"{one.documents} documents")
    return one.alias, one.canonical, one.area, f"{one.seen_count}x", printable(one.last_seen_at), printable(said_by)


@alias_command.add_command
@operation_command("add", graph.add_alias, Shape(arguments=("alias", "canonical")), json="")
def add_alias(added: Alias) -> None:
    """Know CANONICAL by the name ALIAS, too."""
    click.echo(f"{added.alias} means {added.canonical} in {added.area}")


@alias_command.add_command
@operation_command("remove", graph.remove_alias, Shape(arguments=("alias",)), json="")
def remove_alias(found: RemovedAlias, *, request: RemoveAlias) -> None:
    """Forget a name. Exit codes: 0 forgotten, 1 there was none."""
    if not found.removed:
        click.echo(f"{printable(request.alias)} is no other name of anything in your scope")
        click.get_current_context().exit(NO_ANSWER)
    click.echo(f"{printable(request.alias)} is forgotten")


@alias_command.add_command
@operation_command(
    "merge",
    graph.merge_nodes,
    Shape(arguments=("source", "into"), metavars={"source": "FROM"}),
    json="",
)
def merge_things(done: Merge) -> None:
    """Make FROM another name of INTO: what is said of one is said of the other, with all its evidence."""
    click.echo(f"{done.source} is {done.into} now; to undo: opx graph alias undo {done.merge_id}")


@alias_command.add_command
@operation_command("merges", graph.list_merges, Shape(items="merges"))
def list_merges(found: Merges) -> None:
    """List what was merged in your scope, the newest first."""
    if found.merges:
        print_table(("ID", "FROM", "INTO", "STATE", "AT", "BY"), [_merge_row(one) for one in found.merges])
    else:
        click.echo("nothing was merged")


def _merge_row(one: Merge) -> tuple[str, ...]:
    return one.merge_id, one.source, one.into, one.state.value, printable(one.at), printable(one.by) or "-"


@alias_command.add_command
@operation_command("undo", graph.undo_merge, Shape(arguments=("merge_id",)), json="")
def undo_merge(undone: Merge) -> None:
    """Make two things of what was merged."""
    click.echo(f"{undone.source} and {undone.into} are two things again")
