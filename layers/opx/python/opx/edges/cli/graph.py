"""`opx graph`: things, how they are related, the text that says so, and which names mean the same thing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import click

from opx.domain.graph import Alias, Merge
from opx.edges.cli.operations import CommandShape, OperationGroup
from opx.edges.cli.output import (
    NO_ANSWER,
    SHORT_ID,
    Screen,
    aligned,
    exit_unless,
    plural,
    print_lines,
    print_table,
    printable,
    warn,
)
from opx.edges.cli.session import Session, pass_session
from opx.graph.questions.answers import GraphAnswer, GraphCoverage
from opx.graph.views import Connection, Neighbourhood, NodesFound, NodeView, edge_text, in_words
from opx.operations import graph
from opx.operations.graph import Aliases, GetGraphCoverage, Merges, Relink, RemoveAlias, RemovedAlias, Side

if TYPE_CHECKING:
    from opx.domain.graph import Edge, GraphEvidence, Node, Value
    from opx.graph.questions.answers import Uncovered
    from opx.graph.views import Names, Passage


TIME = "TIME"
BOUNDS = {"edge_types": "--type NAME", "since": TIME, "until": TIME}


@click.group("graph", no_args_is_help=True, cls=OperationGroup)
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


@graph_command.operation("show", graph.get_node, CommandShape(arguments=("reference",)))
@click.option("--all", "everything", is_flag=True, help="All relations, not the newest ten of each type.")
def show_node(found: NodeView, *, everything: bool) -> None:
    """Show a thing (namespace:value, such as service:checkout), its relations, and where that is written.

    Exit codes: 0 shown, 2 there is no such thing, or any other error.
    """
    print_lines(node_lines(found, everything=everything))


@graph_command.operation("neighbours", graph.list_neighbours, CommandShape(arguments=("reference",), fields=BOUNDS))
def show_neighbours(found: Neighbourhood, *, as_json: bool) -> None:
    """List what is around a thing, the nearest first. Exit codes: 0 there is something, 1 there is nothing."""
    rows = neighbour_rows(found)
    if rows and not as_json:
        print_table(("STEPS", "THING", "NAME", "HOW", "AT", "DOCUMENT ID"), rows)
        warn(*contradiction_lines(found))
        if found.cut:
            warn(f"not all relations were followed, the newest were, of: {', '.join(found.cut)}")
    elif not as_json:
        click.echo(f"nothing is related to {found.start} in this way")
    exit_unless(rows)


@graph_command.operation(
    "path",
    graph.find_path,
    CommandShape(arguments=("source", "target"), fields={**BOUNDS, "source": "FROM", "target": "TO"}),
)
def show_path(found: Connection, *, as_json: bool) -> None:
    """Show the shortest way from one thing to another, each step with the passage that proves it.

    Exit codes: 0 there is one, 1 there is none of few enough steps.
    """
    if found.found and not as_json:
        print_lines(path_lines(found))
    elif not as_json:
        bounds = f"; not all relations were followed of {', '.join(found.cut)}" if found.cut else ""
        click.echo(f"no way was found from {found.source} to {found.target}{bounds}")
    exit_unless(found.found)


@graph_command.operation(
    "find", graph.find_nodes, CommandShape(arguments=("text",), fields={"node_type": "--type NAME"}, items="nodes")
)
def find_nodes(found: NodesFound, *, as_json: bool) -> None:
    """List things whose name begins with TEXT. Exit codes: 0 there are some, 1 there are none."""
    if not as_json:
        print_table(("THING", "TYPE", "NAME"), find_rows(found.nodes), "nothing has a name that begins so")
    exit_unless(found.nodes)


@graph_command.operation(
    "changes",
    graph.list_changes,
    CommandShape(
        arguments=("reference",),
        fields={"since": "TIME  Only what was so then or later: 12h, 1d or 2w ago, a day or a time.", "until": TIME},
    ),
)
@click.option(
    "--upstream/--downstream",
    "side",
    default=True,
    callback=lambda _context, _param, upstream: Side.UPSTREAM if upstream else Side.DOWNSTREAM,
    help="Of what it depends on, or of what depends on it.",
)
def show_changes(found: GraphAnswer, *, as_json: bool) -> None:
    """List what changed of a thing and of what it depends on. Exit codes: 0 something, 1 nothing that is known of."""
    _print_answer(found, as_json=as_json)


@graph_command.operation("affected", graph.list_affected, CommandShape(arguments=("cve",)))
def show_affected(found: GraphAnswer, *, as_json: bool) -> None:
    """List services that run a version which a vulnerability affects. Exit codes: 0 there are some, 1 there are none."""
    _print_answer(found, as_json=as_json)


def _print_answer(found: GraphAnswer, *, as_json: bool) -> None:
    if not as_json:
        print_lines(answer_lines(found))
        if found.cut:
            warn("there may be more: some things have more relations than are followed")
    exit_unless(found.rows)


@graph_command.operation("coverage", graph.get_graph_coverage, CommandShape(fields={"since": TIME}))
def show_coverage(found: GraphCoverage, *, request: GetGraphCoverage) -> None:
    """List alerts without a runbook, runbooks whose alerts never fired, and services without a runbook."""
    print_lines(coverage_lines(found))
    warn(*(f"there are more of type {kind} than {request.limit}: give --limit" for kind in found.cut))


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
    warn(*(f"left out: {left}" for left in done.left_out))


# -- names


@click.group("alias", no_args_is_help=True, cls=OperationGroup)
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


@alias_command.operation("list", graph.list_aliases, CommandShape(items="aliases"))
def list_aliases(found: Aliases) -> None:
    """List other names that questions know."""
    empty = "no other names: `opx graph alias add`, or `aliases:` in a document's front matter"
    print_table(("NAME", "MEANS", "OF", "SEEN", "LAST", "BY"), list(map(_alias_row, found.aliases)), empty)


def _alias_row(one: Alias) -> tuple[str, ...]:
    said_by = one.set_by or ("set by hand" if one.is_set else f"{one.documents} documents")
    return one.alias, one.canonical, one.area, f"{one.seen_count}x", printable(one.last_seen_at), printable(said_by)


@alias_command.operation("add", graph.add_alias, CommandShape(arguments=("alias", "canonical")), json="")
def add_alias(added: Alias) -> None:
    """Know CANONICAL by the name ALIAS, too."""
    click.echo(f"{added.alias} means {added.canonical} in {added.area}")


@alias_command.operation("remove", graph.remove_alias, CommandShape(arguments=("alias",)), json="")
def remove_alias(found: RemovedAlias, *, request: RemoveAlias) -> None:
    """Forget a name. Exit codes: 0 forgotten, 1 there was none."""
    if not found.removed:
        click.echo(f"{printable(request.alias)} is no other name of anything in your scope")
        click.get_current_context().exit(NO_ANSWER)
    click.echo(f"{printable(request.alias)} is forgotten")


@alias_command.operation(
    "merge", graph.merge_nodes, CommandShape(arguments=("source", "into"), fields={"source": "FROM"}), json=""
)
def merge_things(done: Merge) -> None:
    """Make FROM another name of INTO: what is edge_text of one is edge_text of the other, with all its evidence."""
    click.echo(f"{done.source} is {done.into} now; to undo: opx graph alias undo {done.merge_id}")


@alias_command.operation("merges", graph.list_merges, CommandShape(items="merges"))
def list_merges(found: Merges) -> None:
    """List what was merged in your scope, the newest first."""
    print_table(("ID", "FROM", "INTO", "STATE", "AT", "BY"), list(map(_merge_row, found.merges)), "nothing was merged")


def _merge_row(one: Merge) -> tuple[str, ...]:
    return one.merge_id, one.source, one.into, one.state.value, printable(one.at), printable(one.by) or "-"


@alias_command.operation("undo", graph.undo_merge, CommandShape(arguments=("merge_id",)), json="")
def undo_merge(undone: Merge) -> None:
    """Make two things of what was merged."""
    click.echo(f"{undone.source} and {undone.into} are two things again")


graph_command.add_command(alias_command)


# -- graph output


_INDENT = "   "
_NAME_SHOWN = 50
_SOURCES = 3
"""Documents that are named of one relation; the rest is counted."""

A_GROUP = 10
"""Relations of one type that are shown."""

Passages = Mapping[str, "Passage"]


def by_id(passages: Sequence[Passage]) -> Passages:
    return {passage.chunk_id: passage for passage in passages}


def node_lines(view: NodeView, *, everything: bool = False) -> Iterator[str]:
    """The thing, its properties, where it is named, and its relations by type, of each type the newest unless
    `everything` is wanted."""
    node, passages = view.node, by_id(view.passages)
    seen = "" if node.declared else ", only mentioned"
    yield click.style(f"{node.key}  ({printable(node.type)}{seen})", bold=True)
    facts = [(printable(name), printable(str(value))) for name, value in sorted(node.properties.items())]
    if view.aliases:
        facts.append(("also called", printable(", ".join(view.aliases))))
    yield from (f"  {line}" for line in aligned(facts))
    yield from (f"  named in {line.strip()}" for line in evidence_lines(node.evidence, passages))
    for heading, edges in _grouped(view).items():
        yield ""
        more = "+" if view.more else ""
        yield click.style(f"{heading}: {len(edges)}{more}", bold=True)
        shown = edges if everything else edges[:A_GROUP]
        for edge in shown:
            yield from _line(edge, edge.other(node.key), view.names, passages)
        if len(edges) > len(shown):
            yield f"  and {len(edges) - len(shown):,} more (--all)"
    if view.more:
        yield ""
        yield "there are more relations: give --limit"


def _grouped(view: NodeView) -> dict[str, list[Edge]]:
    """Relations by how they are edge_text of the thing: `depends on`, `documents it`."""
    found: dict[str, list[Edge]] = {}
    for edge in view.edges:
        words = in_words(edge.edge_type)
        found.setdefault(words if edge.source == view.node.key else f"{words} it", []).append(edge)
    return dict(sorted(found.items()))


def _line(edge: Edge, key: str, names: Names, passages: Passages) -> Iterator[str]:
    """The thing at the other end, then the documents that say so."""
    name = f'  "{printable(names[key])}"' if key in names else ""
    yield f"  {key}{name}{_values(edge)}"
    yield from evidence_lines(edge.evidence, passages, "     ", told=names.get(key, ""))


def _values(edge: Edge) -> str:
    values = ", ".join(f"{printable(name)} {_shown(value)}" for name, value in edge.properties.items() if value)
    return f"  ({values})" if values else ""


def edge_lines(edge: Edge, passages: Passages, lead: str = "") -> Iterator[str]:
    """A relation in words, then the documents that say so."""
    yield click.style(lead + edge_text(edge), bold=True) + _values(edge)
    yield from evidence_lines(edge.evidence, passages, _INDENT)


def _shown(value: Value) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return printable(str(value))


def evidence_lines(
    evidence: Sequence[GraphEvidence], passages: Passages, indent: str = "", *, told: str = ""
) -> Iterator[str]:
    """`Title > Section  2026-03-31  sure 0.90  [Document ID: 3f9a..., chunk 81ab...]`, without a title that was `told`."""
    for one in evidence[:_SOURCES]:
        yield indent + click.style(_source(one, passages, told), dim=True)
    if len(evidence) > _SOURCES:
        yield indent + click.style(f"{plural(len(evidence) - _SOURCES, 'more document')}", dim=True)


def _source(one: GraphEvidence, passages: Passages, told: str) -> str:
    passage = next((passages[chunk] for chunk in one.chunk_ids if chunk in passages), None)
    where = [_heading(passage, told)] if passage else []
    outside = [f"untrusted: from outside ({one.tier.value})"] if passage and passage.untrusted else []
    sure = [f"sure {one.confidence:.2f}"] if one.confidence < 1 else []
    chunk = passage.chunk_id if passage else next(iter(one.chunk_ids), "-")
    ids = f"[Document ID: {one.document_id[:SHORT_ID]}, chunk {chunk[:SHORT_ID]}]"
    return "  ".join(part for part in (*where, printable(one.at), *sure, *outside, ids) if part)


def _heading(passage: Passage, told: str) -> str:
    """A section is often called like the document: that is edge_text once."""
    parts = [passage.title, *passage.section.split(" > ")]
    return printable(" > ".join(part for part in dict.fromkeys(parts) if part and part != told))


def neighbour_rows(found: Neighbourhood) -> list[tuple[str, ...]]:
    """Steps, thing, its name, how it is related to one that is a step nearer, when, and the document that says so."""
    rows: list[tuple[str, ...]] = []
    for one, path in found.related:
        edge = path[-1]
        name = printable(found.names.get(one.key, ""))[:_NAME_SHOWN]
        document = edge.evidence[0].document_id[:SHORT_ID]
        rows.append((str(one.distance), one.key, name, _how(edge, one.key), printable(edge.at)[:10], document))
    return rows


def _how(edge: Edge, key: str) -> str:
    """`documents service:checkout`, or, the other way round, `service:checkout depends on it`."""
    words = in_words(edge.edge_type)
    return f"{words} {edge.target}" if edge.source == key else f"{edge.source} {words} it"


def path_lines(found: Connection) -> Iterator[str]:
    """Each step with the passage that proves it."""
    passages = by_id(found.passages)
    yield f"{found.source} to {found.target}: {plural(len(found.steps), 'step')}"
    for number, edge in enumerate(found.steps, 1):
        yield ""
        yield from edge_lines(edge, passages, f"{number}. ")
        passage = next((passages[chunk] for chunk in edge.evidence_chunk_ids if chunk in passages), None)
        if passage:
            yield from _proof(passage, [node.partition(":")[2] for node in (edge.source, edge.target)])


def _proof(passage: Passage, names: Sequence[str]) -> Iterator[str]:
    """The block of a passage that names most of these, whole."""
    from opx.edges.cli.rendering import rendered
    from opx.text.procedures.blocks import parse_blocks

    blocks = [passage.content[block.start : block.end] for block in parse_blocks(passage.content)]
    best = max(blocks, key=lambda text: sum(name.casefold() in text.casefold() for name in names), default="")
    yield from ("", *rendered(best, Screen.current()))


def contradiction_lines(found: Neighbourhood) -> Iterator[str]:
    for first, second in found.contradicting:
        yield f"these contradict each other: {edge_text(first)}; {edge_text(second)}"


def answer_lines(found: GraphAnswer) -> Iterator[str]:
    """What was looked for, then each thing, and how it is known."""
    passages = by_id(found.passages)
    yield printable(found.explanation)
    for row in found.rows:
        values = ", ".join(f"{printable(name)} {_shown(value)}" for name, value in row.values.items())
        yield ""
        yield "  ".join(filter(None, (click.style(row.key, bold=True), printable(row.at), values)))
        for edge in row.path:
            yield _INDENT + edge_text(edge)
            yield from evidence_lines(edge.evidence[:1], passages, _INDENT * 2)


def coverage_lines(found: GraphCoverage) -> Iterator[str]:
    """Each list of what is missing, under a heading."""
    when = f" since {found.since}" if found.since else ""
    looked = ", ".join(plural(count, kind) for kind, count in found.looked_at.items())
    yield f"looked at {looked or 'nothing'}"
    for title, things in (
        ("alerts without a runbook", found.alerts_without_runbook),
        (f"runbooks whose alerts never fired{when}", found.runbooks_never_fired),
        ("runbooks that are for no alert", found.runbooks_without_alert),
        ("services without a runbook", found.services_without_runbook),
    ):
        yield ""
        yield click.style(f"{title}: {len(things) or 'none'}", bold=True)
        yield from (f"  {_uncovered(one)}" for one in things)


def _uncovered(one: Uncovered) -> str:
    fired = f"  fired {one.firings}x, last {printable(one.last_fired)}" if one.firings else ""
    return one.key + fired


def find_rows(found: Sequence[Node]) -> list[tuple[str, ...]]:
    return [
        (node.key, printable(node.type), printable(str(node.properties.get("title", node.properties.get("name", "")))))
        for node in found
    ]
