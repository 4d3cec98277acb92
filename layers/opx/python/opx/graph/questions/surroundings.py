"""What there is to do about an alert, and what a failure would take with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opx.domain.graph import MAX_HOPS, Direction
from opx.graph.questions.answers import GraphAnswer, Row, counted, name_of
from opx.graph.questions.walking import along, is_a, walked

if TYPE_CHECKING:
    from opx.domain.graph import Edge
    from opx.graph.knowledge_graph import KnowledgeGraph


BREAKS_WITH = ("depends_on", "hosted_on", "runs")
"""Relations whose source is in trouble where their target is."""


def what_handles(graph: KnowledgeGraph, alert: str) -> GraphAnswer:
    """The runbooks for an alert, or for the alert that this is a firing of; the surest first. Raises `NodeNotFoundError`,
    `InvalidReferenceError` and `StoreUnavailableError`."""
    start = graph.key_of(alert)
    rules: dict[str, tuple[Edge, ...]] = {start: ()}
    cut = False
    if is_a(start, "alert_event"):
        of = walked(graph, [start], along(1, Direction.OUT, "instance_of"))
        rules = {edge.target: (edge,) for edge in of.edges}
        cut = bool(of.cut)
    handled = walked(graph, rules, along(1, Direction.IN, "handles"))
    edges = sorted(handled.edges, key=lambda edge: (-edge.confidence, edge.source))
    rows = {edge.source: Row(edge.source, (*rules[edge.target], edge)) for edge in edges if edge.target in rules}
    explanation = f"{counted(len(rows), 'runbook')} for {name_of(start)}"
    return GraphAnswer(f"what handles {start}", explanation, tuple(rows.values()), bool(cut or handled.cut))


def blast_radius(graph: KnowledgeGraph, reference: str, hops: int = MAX_HOPS) -> GraphAnswer:
    """What depends on a service, also by way of others, the nearest first; of a host or a product, what is hosted on it or
    runs it and what depends on that. Raises `NodeNotFoundError`, `InvalidReferenceError` and `StoreUnavailableError`."""
    start = graph.key_of(reference)
    found = walked(graph, [start], along(hops, Direction.IN, *BREAKS_WITH))
    rows = tuple(Row(one.key, one.path, values={"distance": one.distance}) for one in found.reached if one.distance)
    direct = sum(1 for row in rows if row.values["distance"] == 1)
    explanation = (
        f"{counted(len(rows), 'thing depends', 'things depend')} on {name_of(start)}, {direct} of them directly"
    )
    return GraphAnswer(f"what depends on {start}", explanation, rows, bool(found.cut))
