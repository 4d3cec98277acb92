"""Relations that can't both be true."""

from __future__ import annotations

from collections.abc import Iterable

from opx.domain.graph import Edge

ONE_WAY = frozenset((
    "blocks", "caused", "contains", "creates", "depends_on", "extends", "fixes", "hosted_on", "instance_of", "owned_by",
    "parent", "resolved_by",
))  # fmt: skip
"""Types of relations that two things have in one direction at most."""


def contradicting(edges: Iterable[Edge]) -> tuple[tuple[Edge, Edge], ...]:
    """Pairs of edges that say the opposite of one another. Both are kept: which of them is right, their evidence says."""
    known = {edge.name: edge for edge in edges if edge.edge_type in ONE_WAY}
    pairs = (
        (edge, known.get((target, kind, source))) for (source, kind, target), edge in known.items() if source < target
    )
    return tuple((edge, back) for edge, back in pairs if back)
