"""`opx graph` and `opx resource`: queries nodes and relations with their evidence, manages aliases, and shows what is known
of a resource."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import click

from opx.domain.graph import Alias, Edge, GraphEvidence, Merge, Node, Value
from opx.domain.ids import shortened
from opx.domain.results import Names
from opx.edges.calling import record_of
from opx.edges.cli import hits
from opx.edges.cli.hits import untrusted_line
from opx.edges.cli.operations import OperationGroup, operation_command
from opx.edges.cli.output import NO_ANSWER, SHORT_ID, Screen, aligned, exit_unless, plural, print_table, printable, warn
from opx.edges.cli.session import Session, pass_session
from opx.graph.questions.answers import GraphAnswer, GraphCoverage, Uncovered
from opx.graph.views import Connection, Neighbourhood, NodesFound, NodeView, Passage, edge_text, in_words
from opx.operations import graph
from opx.operations.graph import Aliases, GetGraphCoverage, Merges, Relink, RemoveAlias, RemovedAlias, Side
from opx.operations.resources import KnownResource, ResourceAnswer, get_resource

TIME = "TIME"
BOUNDS = {"edge_types": "--type NAME", "since": TIME, "until": TIME}


@click.group("graph", no_args_is_help=True, cls=OperationGroup)
def graph_command() -> None:
    """Things and their relations: services, hosts, alerts, runbooks, changes, vulnerabilities. Each relation comes with
    the passage that states it.

    \b
    opx graph find checkout                            things whose name begins with this
    opx graph show service:checkout                    one thing and its relations
    opx graph neighbours service:checkout --hops 2     things within two relations
    opx graph path alert:highlatency service:payments  shortest connection of two things
    opx graph changes service:checkout --since 1d      recent changes upstream of it
    opx graph affected CVE-2024-1234                   services that run an affected version
    opx graph coverage                                 alerts without a runbook, runbooks whose alerts never fired
    opx graph alias list                               other names of things
    opx graph relink                                   link old documents to newly declared things
    """


@graph_command.operation("show", graph.get_node, arguments=("reference",))
@click.option("--all", "everything", is_flag=True, help="All relations, not the newest ten of each type.")
def show_node(view: NodeView, *, everything: bool) -> Iterator[str]:
    """Show a thing (namespace:value, such as service:checkout), its relations, and the documents that state them.

    Exit codes: 0 shown, 2 there is no such thing, or any other error.
    """
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
        yield from ("", "there are more relations: raise --limit")


@graph_command.operation("neighbours", graph.list_neighbours, arguments=("reference",), fields=BOUNDS)
def show_neighbours(found: Neighbourhood, *, as_json: bool) -> None:
    """List the neighbours of a thing, the nearest first. Exit codes: 0 found some, 1 found none."""
    rows = neighbour_rows(found)
    if rows and not as_json:
        print_table(("STEPS", "THING", "NAME", "HOW", "AT", "DOCUMENT ID"), rows)
        warn(*(f"these contradict each other: {'; '.join(map(edge_text, pair))}" for pair in found.contradicting))
        if found.cut:
            warn(f"only the newest relations were followed of: {', '.join(found.cut)}")
    elif not as_json:
        click.echo(f"nothing is related to {found.start} in this way")
    exit_unless(rows)


@graph_command.operation(
    "path", graph.find_path, arguments=("source", "target"), fields={**BOUNDS, "source": "FROM", "target": "TO"}
)
def show_path(found: Connection, *, as_json: bool) -> Iterator[str]:
    """Show the shortest path from one thing to another, each step with the passage that proves it.

    Exit codes: 0 found a path, 1 found none within the limit of steps.
    """
    if found.found and not as_json:
        yield from path_lines(found)
    elif not as_json:
        bounds = f"; not all relations were followed of {', '.join(found.cut)}" if found.cut else ""
        yield f"no path was found from {found.source} to {found.target}{bounds}"
    exit_unless(found.found)


@graph_command.operation(
    "find", graph.find_nodes, arguments=("text",), fields={"node_type": "--type NAME"}, items="nodes"
)
def find_nodes(found: NodesFound, *, as_json: bool) -> None:
    """List things whose name begins with TEXT. Exit codes: 0 found some, 1 found none."""
    if not as_json:
        rows = [(n.key, printable(n.type), printable(str(_name_of(n)))) for n in found.nodes]
        print_table(("THING", "TYPE", "NAME"), rows, "no name begins with this")
    exit_unless(found.nodes)


@graph_command.operation(
    "changes",
    graph.list_changes,
    arguments=("reference",),
    fields={"since": "TIME  Only changes since then: 12h, 1d or 2w ago, a day or a time.", "until": TIME},
)
@click.option(
    "--upstream/--downstream",
    "side",
    default=True,
    callback=lambda _context, _param, upstream: Side.UPSTREAM if upstream else Side.DOWNSTREAM,
    help="Changes of its dependencies, or of its dependents.",
)
def show_changes(found: GraphAnswer, *, as_json: bool) -> Iterator[str]:
    """List changes of a thing and of its dependencies. Exit codes: 0 found some, 1 found none."""
    return _answer(found, as_json=as_json)


@graph_command.operation("affected", graph.list_affected, arguments=("cve",))
def show_affected(found: GraphAnswer, *, as_json: bool) -> Iterator[str]:
    """List services that run a version affected by a vulnerability. Exit codes: 0 found some, 1 found none."""
    return _answer(found, as_json=as_json)


def _answer(found: GraphAnswer, *, as_json: bool) -> Iterator[str]:
    if not as_json:
        yield from answer_lines(found)
        if found.cut:
            warn("there may be more results: some things have more relations than were followed")
    exit_unless(found.rows)


@graph_command.operation("coverage", graph.get_graph_coverage, fields={"since": TIME})
def show_coverage(found: GraphCoverage, *, request: GetGraphCoverage) -> Iterator[str]:
    """List alerts without a runbook, runbooks whose alerts never fired, and services without a runbook."""
    yield from coverage_lines(found)
    warn(*(f"there are more than {request.limit} of type {kind}: raise --limit" for kind in found.cut))


@graph_command.command("relink")
@pass_session
def relink(session: Session) -> None:
    """Add mentions of things that were declared after a document. Ingestion links new documents; this command checks all
    names again. A deployed system does so every day."""
    done = graph.relink(session.context, Relink())
    mentions = f"{plural(done.mentions, 'mention')} added in {plural(done.documents, 'document')}"
    click.echo(f"{plural(done.names, 'name')}, {mentions}")
    if done.busy:
        warn(f"{plural(done.busy, 'document')} being ingested just now: run it again")
    warn(*(f"left out: {left}" for left in done.left_out))


# -- aliases


@click.group("alias", no_args_is_help=True, cls=OperationGroup)
def alias_command() -> None:
    """Aliases: other names of things. Changes apply to the documents of your own scope.

    \b
    opx graph alias list
    opx graph alias add service:cart service:checkout        add another name of a thing
    opx graph alias remove service:cart
    opx graph alias merge service:chk-out service:checkout   make two things one; evidence is kept
    opx graph alias merges                                   list merges
    opx graph alias undo MERGE_ID                            split them again
    """


@alias_command.operation("list", graph.list_aliases, items="aliases")
def list_aliases(found: Aliases) -> None:
    """List the aliases that queries resolve."""
    empty = "no aliases: `opx graph alias add`, or `aliases:` in a document's front matter"
    print_table(("NAME", "MEANS", "OF", "SEEN", "LAST", "BY"), list(map(_alias_row, found.aliases)), empty)


def _alias_row(one: Alias) -> tuple[str, ...]:
    set_by = one.set_by or ("set by hand" if one.is_set else f"{one.documents} documents")
    return one.alias, one.canonical, one.area, f"{one.seen_count}x", printable(one.last_seen_at), printable(set_by)


@alias_command.operation("add", graph.add_alias, arguments=("alias", "canonical"), json="")
def add_alias(added: Alias) -> None:
    """Add ALIAS as another name of CANONICAL."""
    click.echo(f"{added.alias} means {added.canonical} in {added.area}")


@alias_command.operation("remove", graph.remove_alias, arguments=("alias",), json="")
def remove_alias(found: RemovedAlias, *, request: RemoveAlias) -> None:
    """Remove an alias. Exit codes: 0 removed, 1 there was none."""
    if not found.removed:
        click.echo(f"{printable(request.alias)} is no alias in your scope")
        click.get_current_context().exit(NO_ANSWER)
    click.echo(f"removed the alias {printable(request.alias)}")


@alias_command.operation("merge", graph.merge_nodes, arguments=("source", "into"), fields={"source": "FROM"}, json="")
def merge_things(done: Merge) -> None:
    """Merge FROM into INTO: FROM becomes an alias, and its relations with all their evidence are those of INTO."""
    click.echo(f"{done.source} is an alias of {done.into} now; to undo: opx graph alias undo {done.merge_id}")


@alias_command.operation("merges", graph.list_merges, items="merges")
def list_merges(found: Merges) -> None:
    """List the merges of your scope, the newest first."""
    rows = [(m.merge_id, m.source, m.into, m.state, printable(m.at), printable(m.by) or "-") for m in found.merges]
    print_table(("ID", "FROM", "INTO", "STATE", "AT", "BY"), rows, "no merges")


@alias_command.operation("undo", graph.undo_merge, arguments=("merge_id",), json="")
def undo_merge(undone: Merge) -> None:
    """Undo a merge: both things are separate again."""
    click.echo(f"{undone.source} and {undone.into} are two things again")


graph_command.add_command(alias_command)


# -- rendering


_INDENT = "   "
_NAME_SHOWN = 50
_SOURCES = 3
"""Documents named for one relation; the rest is counted."""

A_GROUP = 10
"""Relations shown of one type."""

Passages = Mapping[str, "Passage"]


def by_id(passages: Sequence[Passage]) -> Passages:
    return {passage.chunk_id: passage for passage in passages}


def _grouped(view: NodeView) -> dict[str, list[Edge]]:
    """Relations by their phrase seen from the thing: `depends on`, `documents it`."""
    found: dict[str, list[Edge]] = {}
    for edge in view.edges:
        words = in_words(edge.edge_type)
        found.setdefault(words if edge.source == view.node.key else f"{words} it", []).append(edge)
    return dict(sorted(found.items()))


def _line(edge: Edge, key: str, names: Names, passages: Passages) -> Iterator[str]:
    """The thing at the other end, then the documents that state the relation."""
    name = f'  "{printable(names[key])}"' if key in names else ""
    yield f"  {key}{name}{_values(edge)}"
    yield from evidence_lines(edge.evidence, passages, "     ", known=names.get(key, ""))


def _values(edge: Edge) -> str:
    values = ", ".join(f"{printable(name)} {_shown(value)}" for name, value in edge.properties.items() if value)
    return f"  ({values})" if values else ""


def edge_lines(edge: Edge, passages: Passages, lead: str = "") -> Iterator[str]:
    """A relation in words, then the documents that state it."""
    yield click.style(lead + edge_text(edge), bold=True) + _values(edge)
    yield from evidence_lines(edge.evidence, passages, _INDENT)


def _shown(value: Value) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return printable(str(value))


def evidence_lines(
    evidence: Sequence[GraphEvidence], passages: Passages, indent: str = "", *, known: str = ""
) -> Iterator[str]:
    """`Title > Section  2026-03-31  sure 0.90  [Document ID: 3f9a..., chunk 81ab...]`, without a title equal to `known`."""
    for one in evidence[:_SOURCES]:
        yield indent + click.style(_source(one, passages, known), dim=True)
    if len(evidence) > _SOURCES:
        yield indent + click.style(f"{plural(len(evidence) - _SOURCES, 'more document')}", dim=True)


def _source(one: GraphEvidence, passages: Passages, known: str) -> str:
    passage = next((passages[chunk] for chunk in one.chunk_ids if chunk in passages), None)
    where = [_heading(passage, known)] if passage else []
    outside = [untrusted_line(one.tier, passage.category)] if passage and passage.untrusted else []
    sure = [f"confidence {one.confidence:.2f}"] if one.confidence < 1 else []
    chunk = passage.chunk_id if passage else next(iter(one.chunk_ids), "-")
    ids = f"[Document ID: {one.document_id[:SHORT_ID]}, chunk {chunk[:SHORT_ID]}]"
    return "  ".join(part for part in (*where, printable(one.at), *sure, *outside, ids) if part)


def _heading(passage: Passage, known: str) -> str:
    """Title and section, with equal parts once: a section often has the title of its document."""
    parts = [passage.title, *passage.section.split(" > ")]
    return printable(" > ".join(part for part in dict.fromkeys(parts) if part and part != known))


def neighbour_rows(found: Neighbourhood) -> list[tuple[str, ...]]:
    """Distance, thing, name, relation to the previous thing on the path, date, and the document that states it."""
    rows: list[tuple[str, ...]] = []
    for one, path in found.related:
        edge = path[-1]
        name = printable(found.names.get(one.key, ""))[:_NAME_SHOWN]
        document = edge.evidence[0].document_id[:SHORT_ID]
        rows.append((str(one.distance), one.key, name, _how(edge, one.key), printable(edge.at)[:10], document))
    return rows


def _how(edge: Edge, key: str) -> str:
    """`documents service:checkout`, or, for an incoming relation, `service:checkout depends on it`."""
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
    """The whole block of a passage that has most of these names."""
    from opx.edges.cli.rendering import rendered
    from opx.text.procedures.blocks import parse_blocks

    blocks = [passage.content[block.start : block.end] for block in parse_blocks(passage.content)]
    best = max(blocks, key=lambda text: sum(name.casefold() in text.casefold() for name in names), default="")
    yield from ("", *rendered(best, Screen.current()))


def answer_lines(found: GraphAnswer) -> Iterator[str]:
    """The explanation of the query, then each thing with its path and evidence."""
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
    """Lists of uncovered things, each under a heading."""
    when = f" since {found.since}" if found.since else ""
    looked = ", ".join(plural(count, kind) for kind, count in found.looked_at.items())
    yield f"checked {looked or 'nothing'}"
    yield ""
    yield click.style(f"alerts that may have a runbook: {len(found.alerts_unsure) or 'none'}", bold=True)
    for alert in found.alerts_unsure:
        yield f"  {_uncovered(alert)}"
        yield from (f"      {printable(one.title)} ({printable(one.path)}): {one.why}" for one in alert.pages)
    for title, things in (
        ("alerts without a runbook", found.alerts_without_runbook),
        (f"runbooks whose alerts never fired{when}", found.runbooks_never_fired),
        ("runbooks without an alert", found.runbooks_without_alert),
        ("services without a runbook", found.services_without_runbook),
    ):
        yield ""
        yield click.style(f"{title}: {len(things) or 'none'}", bold=True)
        yield from (f"  {_uncovered(one)}" for one in things)


def _uncovered(one: Uncovered) -> str:
    fired = f"  fired {one.firings}x, last {printable(one.last_fired)}" if one.firings else ""
    return one.key + fired


def _name_of(node: Node) -> Value:
    return node.properties.get("title", node.properties.get("name", ""))


# -- a resource


@operation_command("resource", get_resource, arguments=("resource",), fields={"resource": "NAME", "since": "TIME"})
def resource_command(reply: ResourceAnswer, *, as_json: bool) -> Iterator[str]:
    """Show what is known of a node, pod, workload, service, database or queue NAME: pages about it, what happened to it and
    what was tried, its relations in the graph, and the usual values of its metrics.

    \b
    opx resource web-server-01                 pages, incidents, changes and alerts of a node
    opx resource web-server-01 --since 2w      only what happened in the last two weeks
    opx resource orders-7c9f8d6b5-x2k9q        a pod: what is known of its workload
    opx show ID                                one of the listed documents

    Exit codes: 0 shown, 1 nothing is known of it, 2 any other error.
    """
    found: KnownResource = record_of(reply)
    if not as_json:
        warn(*found.notes)
        width = Screen.current().width
        for title, lines in found.sections(id_digits=hits.SHORT_ID):
            yield click.style(title, bold=True)
            yield from (shortened(f"  {printable(line)}", width) for line in lines)
    exit_unless(found.is_known)
