"""`opx graph alias`: which names mean the same thing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from opx.cli.exits import NO_ANSWER
from opx.cli.output import print_json, print_table, printable
from opx.cli.session import Session, pass_session

if TYPE_CHECKING:
    from opx.domain.aliases import Alias, Merge


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


@alias_command.command("list")
@click.option("--limit", type=click.IntRange(1, 1000), default=1000, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print them as JSON.")
@pass_session
def list_aliases(session: Session, *, limit: int, as_json: bool) -> None:
    """List other names that questions know."""
    found = session.existing_base().aliases(limit=limit)
    if as_json:
        print_json([one.to_json() for one in found])
    elif found:
        print_table(("NAME", "MEANS", "OF", "SEEN", "LAST", "BY"), [_row(one) for one in found])
    else:
        click.echo("no other names: `opx graph alias add`, or `aliases:` in a document's front matter")


def _row(one: Alias) -> tuple[str, ...]:
    said_by = one.set_by or ("set by hand" if one.is_set else f"{one.documents} documents")
    return one.alias, one.canonical, one.area, f"{one.seen_count}x", printable(one.last_seen_at), printable(said_by)


@alias_command.command("add")
@click.argument("alias")
@click.argument("canonical")
@pass_session
def add_alias(session: Session, alias: str, canonical: str) -> None:
    """Know CANONICAL by the name ALIAS, too."""
    added = session.existing_base().add_alias(alias, canonical)
    click.echo(f"{added.alias} means {added.canonical} in {added.area}")


@alias_command.command("remove")
@click.argument("alias")
@pass_session
def remove_alias(session: Session, alias: str) -> None:
    """Forget a name. Exit codes: 0 forgotten, 1 there was none."""
    if not session.existing_base().remove_alias(alias):
        click.echo(f"{printable(alias)} is no other name of anything in your scope")
        click.get_current_context().exit(NO_ANSWER)
    click.echo(f"{printable(alias)} is forgotten")


@alias_command.command("merge")
@click.argument("source", metavar="FROM")
@click.argument("into", metavar="INTO")
@pass_session
def merge_things(session: Session, source: str, into: str) -> None:
    """Make FROM another name of INTO: what is said of one is said of the other, with all its evidence."""
    done = session.existing_base().merge_things(source, into)
    click.echo(f"{done.source} is {done.into} now; to undo: opx graph alias undo {done.merge_id}")


@alias_command.command("merges")
@click.option("--json", "as_json", is_flag=True, help="Print them as JSON.")
@pass_session
def list_merges(session: Session, *, as_json: bool) -> None:
    """List what was merged in your scope, the newest first."""
    found = session.existing_base().merges()
    if as_json:
        print_json([one.to_json() for one in found])
    elif found:
        print_table(("ID", "FROM", "INTO", "STATE", "AT", "BY"), [_merge_row(one) for one in found])
    else:
        click.echo("nothing was merged")


def _merge_row(one: Merge) -> tuple[str, ...]:
    return one.merge_id, one.source, one.into, one.state.value, printable(one.at), printable(one.by) or "-"


@alias_command.command("undo")
@click.argument("merge_id", metavar="MERGE_ID")
@pass_session
def undo_merge(session: Session, merge_id: str) -> None:
    """Make two things of what was merged."""
    undone = session.existing_base().undo_merge(merge_id)
    click.echo(f"{undone.source} and {undone.into} are two things again")
