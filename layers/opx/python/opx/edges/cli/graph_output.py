"""What the graph answers, for people: relations in words, each with where it is written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import click

from opx.edges.cli.output import SHORT_ID, Screen, aligned, plural, printable
from opx.graph.views import in_words, said

if TYPE_CHECKING:
    from opx.domain.graph import Edge, Evidence, Node, Value
    from opx.graph.questions.answers import GraphAnswer
    from opx.graph.questions.coverage import GraphCoverage, Uncovered
    from opx.graph.views import Connection, Names, Neighbourhood, NodeView, Passage

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
    """Relations by how they are said of the thing: `depends on`, `documents it`."""
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
    yield click.style(lead + said(edge), bold=True) + _values(edge)
    yield from evidence_lines(edge.evidence, passages, _INDENT)


def _shown(value: Value) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return printable(str(value))


def evidence_lines(
    evidence: Sequence[Evidence], passages: Passages, indent: str = "", *, told: str = ""
) -> Iterator[str]:
    """`Title > Section  2026-03-31  sure 0.90  [Document ID: 3f9a..., chunk 81ab...]`, without a title that was `told`."""
    for one in evidence[:_SOURCES]:
        yield indent + click.style(_source(one, passages, told), dim=True)
    if len(evidence) > _SOURCES:
        yield indent + click.style(f"{plural(len(evidence) - _SOURCES, 'more document')}", dim=True)


def _source(one: Evidence, passages: Passages, told: str) -> str:
    passage = next((passages[chunk] for chunk in one.chunk_ids if chunk in passages), None)
    where = [_heading(passage, told)] if passage else []
    outside = [f"untrusted: from outside ({one.tier.value})"] if passage and passage.untrusted else []
    sure = [f"sure {one.confidence:.2f}"] if one.confidence < 1 else []
    chunk = passage.chunk_id if passage else next(iter(one.chunk_ids), "-")
    ids = f"[Document ID: {one.document_id[:SHORT_ID]}, chunk {chunk[:SHORT_ID]}]"
    return "  ".join(part for part in (*where, printable(one.at), *sure, *outside, ids) if part)


def _heading(passage: Passage, told: str) -> str:
    """A section is often called like the document: that is said once."""
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
        yield f"these contradict each other: {said(first)}; {said(second)}"


def answer_lines(found: GraphAnswer) -> Iterator[str]:
    """What was looked for, then each thing, and how it is known."""
    passages = by_id(found.passages)
    yield printable(found.explanation)
    for row in found.rows:
        values = ", ".join(f"{printable(name)} {_shown(value)}" for name, value in row.values.items())
        yield ""
        yield "  ".join(filter(None, (click.style(row.key, bold=True), printable(row.at), values)))
        for edge in row.path:
            yield _INDENT + said(edge)
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
