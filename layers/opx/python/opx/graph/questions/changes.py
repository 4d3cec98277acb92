"""What changed upstream of a service, in what it depends on, or downstream, in what depends on it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from opx.domain.graph import MAX_HOPS, Direction
from opx.graph.questions.answers import GraphAnswer, Row, counted, name_of
from opx.graph.questions.walking import along, is_a, paths_of, walked

if TYPE_CHECKING:
    from opx.graph.knowledge_graph import KnowledgeGraph

MAKERS = ("change", "commit")
"""What makes a change, by namespace."""


def changes(
    graph: KnowledgeGraph,
    reference: str,
    *,
    since: str = "",
    until: str = "",
    hops: int = MAX_HOPS,
    upstream: bool = True,
) -> GraphAnswer:
    """Changes and commits that affect or modify what the thing depends on, in up to `hops` steps, or what depends on it;
    the newest first. `since` and `until` bound when they were made, ISO 8601, both included.

    Each is there once, by the shortest path. Raises `NodeNotFoundError`, `InvalidReferenceError` and
    `StoreUnavailableError`.
    """
    what = ("change", "changes", "what changed")
    return _happened(graph, reference, MAKERS, what, _Bounds(since, until, hops, upstream))


def incidents(graph: KnowledgeGraph, reference: str, *, since: str = "") -> GraphAnswer:
    """The same of incidents, upstream."""
    what = ("incident", "incidents", "incidents")
    return _happened(graph, reference, ("incident",), what, _Bounds(since))


@dataclass(frozen=True, slots=True)
class _Bounds:
    since: str = ""
    until: str = ""
    hops: int = MAX_HOPS
    upstream: bool = True


def _happened(
    graph: KnowledgeGraph, reference: str, makers: tuple[str, ...], what: tuple[str, str, str], bounds: _Bounds
) -> GraphAnswer:
    start = graph.key_of(reference)
    upstream, since, until = bounds.upstream, bounds.since, bounds.until
    around = walked(graph, [start], along(bounds.hops, Direction.OUT if upstream else Direction.IN, "depends_on"))
    paths = {key: path for key, path in paths_of(around).items() if key != start}
    made = walked(graph, paths, along(1, Direction.IN, "affects", "modifies", since=since, until=until))
    rows: dict[str, Row] = {}
    for edge in made.edges:
        if not is_a(edge.source, *makers) or edge.target not in paths:
            continue
        row = Row(edge.source, (*paths[edge.target], edge), edge.at, {"affects": edge.target})
        known = rows.get(edge.source)
        if known is None or len(row.path) < len(known.path):
            rows[edge.source] = row
    found = sorted(rows.values(), key=lambda row: (row.at, row.key), reverse=True)
    side = "upstream" if upstream else "downstream"
    explanation = (
        f"{counted(len(found), *what[:2])}{_span(since, until)} {side} of {name_of(start)}, "
        f"where {counted(len(paths), 'thing is', 'things are')} known"
    )
    return GraphAnswer(f"{what[2]} {side} of {start}", explanation, tuple(found), bool(around.cut or made.cut))


def _span(since: str, until: str) -> str:
    return (f" since {since}" if since else "") + (f" until {until}" if until else "")
