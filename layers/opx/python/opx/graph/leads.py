"""From where a question starts in the graph to what relations lead to, the surest first."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from opx.domain.graph import Edge, EdgeName, Evidence, Node
from opx.domain.knowledge import Tier
from opx.domain.record import replace
from opx.graph.evidence import Lead
from opx.graph.questions.answers import Row, is_a

HOPS = 2
DECAY = 0.7
"""What is left of the confidence with each relation that is gone along."""

UNWANTED = 0.25
"""The same for things of other kinds than those that the question asks for."""

ABOUT = (
    "runbook", "incident", "change", "commit", "jira", "confluence", "document", "cve", "technique", "mitigation",
    "team", "alert_event",
)  # fmt: skip
"""Things that are what a document is about: it says more than the relation to them."""


Relations = dict[EdgeName, Edge]


@dataclass(frozen=True, slots=True)
class _Way:
    confidence: float
    path: tuple[Edge, ...] = ()


def by_name(edges: Iterable[Edge]) -> Relations:
    return {edge.name: edge for edge in edges}


def leads_of(found: Relations, seeds: Mapping[str, float], wanted: Collection[str] = ()) -> list[Lead]:
    """What is up to `HOPS` relations away from the seeds, along the surest way; the best first, ties by reference.

    The confidence of a lead is that of its seed, times for each relation on the way its own confidence, `DECAY`, and
    1 / sqrt(log2(1 + d)), where d is how many relations the thing has that it begins at: what is related to everything says
    little. Things that are not of a `wanted` type, if there are any, have `UNWANTED` of it.
    """
    touching: dict[str, list[Edge]] = {}
    for edge in found.values():
        for key in {edge.source, edge.target}:
            touching.setdefault(key, []).append(edge)
    best = {key: _Way(confidence) for key, confidence in seeds.items()}
    front = dict(best)
    leads: list[Lead] = []
    for _ in range(HOPS):
        ways = [
            (edge.other(key), _further(way, edge, len(touching[key])))
            for key, way in front.items()
            for edge in touching.get(key, ())
        ]
        leads.extend(_lead(key, way, wanted) for key, way in ways)
        front = {}
        for key, way in ways:
            if way.confidence > best.get(key, _Way(0.0)).confidence:
                best[key] = front[key] = way
    return _ordered(leads)


def _further(way: _Way, edge: Edge, relations: int) -> _Way:
    return _Way(way.confidence * edge.confidence * DECAY / math.sqrt(math.log2(1 + relations)), (*way.path, edge))


def _lead(key: str, way: _Way, wanted: Collection[str]) -> Lead:
    confidence = way.confidence * (1.0 if not wanted or is_a(key, *wanted) else UNWANTED)
    last = way.path[-1]
    return Lead(key, confidence, way.path, at=last.at, proof=last.evidence)


def _ordered(leads: Iterable[Lead]) -> list[Lead]:
    """One for each relation, however it was come to."""
    best: dict[EdgeName, Lead] = {}
    for lead in leads:
        name = lead.path[-1].name
        if name not in best or lead.confidence > best[name].confidence:
            best[name] = lead
    return sorted(best.values(), key=lambda lead: (-lead.confidence, lead.node))


def rows_as_leads(rows: Iterable[Row], tiers: Collection[Tier]) -> list[Lead]:
    """Answers of the graph in their order, as far as relations of these tiers lead to them."""
    leads = []
    for row in rows:
        path = within_tiers(row.path, tiers)
        if len(path) < len(row.path):
            continue
        confidence = math.prod(edge.confidence * DECAY for edge in path)
        note = ", ".join(f"{name.replace('_', ' ')}: {value}" for name, value in row.values.items() if value != "")
        proof = path[-1].evidence if path else ()
        leads.append(Lead(row.key, confidence, path, answers=True, note=note, at=row.at, proof=proof))
    return leads


def within_tiers(edges: Iterable[Edge], tiers: Collection[Tier]) -> tuple[Edge, ...]:
    """The edges that documents of these tiers prove, with their evidence alone."""
    kept = []
    for edge in edges:
        evidence = of_tiers(edge.evidence, tiers)
        if evidence:
            kept.append(edge if len(evidence) == len(edge.evidence) else replace(edge, evidence=evidence))
    return tuple(kept)


def of_tiers(evidence: Iterable[Evidence], tiers: Collection[Tier]) -> tuple[Evidence, ...]:
    return tuple(one for one in evidence if one.tier in tiers)


def with_abouts(leads: Sequence[Lead], nodes: Iterable[Node], tiers: Collection[Tier]) -> list[Lead]:
    """The leads with what documents say that are about the things themselves; of rows without a path, with anything that
    names them."""
    by_key = {node.key: node for node in nodes}
    return [_with_about(lead, by_key.get(lead.node), tiers) for lead in leads]


def _with_about(lead: Lead, node: Node | None, tiers: Collection[Tier]) -> Lead:
    if node is None or not ((node.declared and is_a(node.key, *ABOUT)) or not lead.path):
        return lead
    return replace(lead, about=of_tiers(node.evidence, tiers)[:1])
