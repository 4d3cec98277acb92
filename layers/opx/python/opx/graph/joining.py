"""Statements of several documents and scopes to the nodes and edges that they are about."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from opx.domain.graph import Edge, Node, Value
from opx.graph.rows import evidence_in
from opx.graph.versions import several
from opx.ports import Item

MOST_EVIDENCE = 50


def node_of(key: str, rows: Sequence[Item]) -> Node | None:
    """What these rows say of a thing, the best first; None if there are none."""
    if not rows:
        return None
    best = sorted(rows, key=lambda row: str(row["entry"]), reverse=True)[:MOST_EVIDENCE]
    return Node(
        key=key,
        type=str(best[0]["type"]),
        properties=of_best(_best_first(best)),
        evidence=tuple(map(evidence_in, best)),
        declared=any(row["declared"] for row in best),
    )


def edges_of(rows: Iterable[Item], most: int = 0) -> list[Edge]:
    """The relations of these rows, the newest first; with `most`, so many."""
    found: dict[tuple[str, str, str], dict[tuple[str, str], Item]] = {}
    for row in rows:
        statements = found.setdefault((row["from"], row["edgeType"], row["to"]), {})
        statements[row["place"], row["entry"]] = row  # in both directions, an edge to itself comes twice
    last = {name: max(str(row["at"]) for row in statements.values()) for name, statements in found.items()}
    newest = sorted(sorted(found), key=last.__getitem__, reverse=True)
    return [_edge(*name, list(found[name].values())) for name in (newest[:most] if most else newest)]


def _edge(source: str, edge_type: str, target: str, rows: list[Item]) -> Edge:
    rows.sort(key=lambda row: str(row["keyId"]))
    newest = sorted(rows, key=lambda row: str(row["at"]), reverse=True)[:MOST_EVIDENCE]
    properties = of_relation(edge_type, _best_first(newest))
    return Edge(source, edge_type, target, tuple(map(evidence_in, newest)), properties)


def of_relation(edge_type: str, stated: Sequence[Mapping[str, Value]]) -> dict[str, Value]:
    """The properties of a relation, of the best statement that has them. What runs in several versions, as several
    documents say, runs in all of them: production and staging have an inventory each."""
    found = of_best(stated)
    if edge_type == "runs" and "version" in found:
        found["version"] = several(*(str(one["version"]) for one in stated if "version" in one))
    return found


def of_best(stated: Sequence[Mapping[str, Value]]) -> dict[str, Value]:
    """Properties as the first statement has them that does."""
    found: dict[str, Value] = {}
    for one in stated:
        for name, value in one.items():
            found.setdefault(name, value)
    return found


def _best_first(rows: Sequence[Item]) -> list[Mapping[str, Value]]:
    """What the most trusted, then the newest statement says comes first."""
    return [row["properties"] for row in sorted(rows, key=lambda row: (row["trust"], str(row["at"])), reverse=True)]
