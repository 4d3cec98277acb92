"""The functions of the graph design (Jervis): normalising references, and search with expansion along the graph."""

from __future__ import annotations

from opx.domain.queries import QueryConfig
from opx.domain.results import EvidenceItem, EvidencePack
from opx.errors import InvalidInputError
from opx.facade.knowledge import Knowledge
from opx.graph.names import canonical_form, normalised

__all__ = [
    "EvidenceItem",
    "EvidencePack",
    "canonicalizeGraphRef",
    "normalizeSingleGraphRef",
    "resolveCanonicalGraphRef",
    "search",
    "traverse",
]


def normalizeSingleGraphRef(reference: str) -> str:  # noqa: N802 - the design's name
    """The normalised reference: `User:John  Smith` is `user:john smith`. Raises `InvalidReferenceError`."""
    return normalised(reference)


def canonicalizeGraphRef(reference: str) -> str:  # noqa: N802
    """The reference without its namespace in front of an identifier: `order:order_5` is `order:5`."""
    return canonical_form(normalised(reference))


def resolveCanonicalGraphRef(knowledge: Knowledge, reference: str) -> str:  # noqa: N802
    """The name under which all aliases of a node are filed. Raises `NodeNotFoundError`."""
    from opx.operations.graph import GetNode, get_node

    return knowledge.call(get_node, GetNode(reference=canonicalizeGraphRef(reference), limit=1)).node.key


def search(knowledge: Knowledge, query: str) -> EvidencePack:
    """The passages for a question and what the graph relates to them, two hops far."""
    pack = knowledge.answer(query, QueryConfig(expand_graph=True)).evidence
    if pack is None:
        raise InvalidInputError("this knowledge has no graph")
    return pack


def traverse(knowledge: Knowledge, seed: str, max_depth: int = 2) -> tuple[str, ...]:
    """References of the nodes around a seed, the nearest first. Raises `NodeNotFoundError`."""
    from opx.operations.graph import ListNeighbours, list_neighbours

    found = knowledge.call(list_neighbours, ListNeighbours(reference=seed, hops=max_depth))
    return tuple(one.key for one in found.reached)
