"""A document's passages through all rules, to what the document says."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache

from opx.domain.documents import DocumentChunk
from opx.domain.graph import EdgeStatement, NodeStatement, Statements, node_type
from opx.domain.remarks import Remark, RemarkKind, bounded
from opx.graph.extraction.material import ChunkRule, DocumentRule, Findings, Material, Passages

log = logging.getLogger(__name__)

MAX_EDGES = 5_000
MAX_NODES = 5_000
"""Of one document. What is beyond is left out, and a remark says so."""

MAX_PASSAGES = 20
"""Chunk ids that are kept of a statement, the first ones."""


@cache
def document_rules() -> tuple[DocumentRule, ...]:
    """The rules that read a document as a whole, in their order."""
    return ()


@cache
def chunk_rules() -> tuple[ChunkRule, ...]:
    """The rules that read one passage, in their order."""
    return ()


def extract(material: Material, passages: Passages) -> Statements:
    """What the document says. Each reference in it has a node, and each edge has evidence; a document without passages
    says nothing."""
    findings = Findings()
    for rule in document_rules():
        rule(material, findings)
    first = ""
    rules = chunk_rules()
    for chunk in passages():
        first = first or chunk.chunk_id
        for each in rules:
            each(material, chunk, findings)
    return _settled(material, findings, passages, first) if first else Statements()


def _settled(material: Material, findings: Findings, passages: Passages, first: str) -> Statements:
    edges = _merged_edges(one for one in findings.statements if isinstance(one, EdgeStatement))
    nodes = _merged_nodes(_all_nodes(material, findings, edges))
    remarks = list(findings.remarks)
    for what, found, most in (("relations", edges, MAX_EDGES), ("things", nodes, MAX_NODES)):
        if len(found) > most:
            text = f"of {len(found):,} {what} in its text, the first {most:,} are in the graph: split the document"
            remarks.append(Remark(RemarkKind.LEFT_OUT_OF_GRAPH, text))
    edges, nodes = edges[:MAX_EDGES], nodes[:MAX_NODES]
    named = _passages_naming(_names(nodes, edges), passages)
    return Statements(
        own=material.own,
        nodes=tuple(replace(one, chunk_ids=_evidence(one.chunk_ids, named.get(one.key), first)) for one in nodes),
        edges=tuple(
            replace(one, chunk_ids=_evidence(one.chunk_ids, _far(one, named, material), first)) for one in edges
        ),
        remarks=bounded(remarks),
    )


def _all_nodes(material: Material, findings: Findings, edges: Sequence[EdgeStatement]) -> Iterable[NodeStatement]:
    """Those that were stated, the document's own, and the ends of all edges with the edges' passages."""
    if material.own:
        properties = {"title": material.document.title, "category": material.document.category}
        yield NodeStatement(material.own, node_type(material.own), properties, declared=True)
    yield from (one for one in findings.statements if isinstance(one, NodeStatement))
    for edge in edges:
        for key in (edge.source, edge.target):
            yield NodeStatement(key, node_type(key), chunk_ids=edge.chunk_ids)


def _merged_nodes(statements: Iterable[NodeStatement]) -> list[NodeStatement]:
    found: dict[str, NodeStatement] = {}
    for one in statements:
        known = found.get(one.key)
        found[one.key] = one if known is None else replace(
            known,
            properties={**one.properties, **known.properties},
            chunk_ids=tuple(dict.fromkeys((*known.chunk_ids, *one.chunk_ids))),
            declared=known.declared or one.declared,
        )  # fmt: skip
    return list(found.values())


def _merged_edges(statements: Iterable[EdgeStatement]) -> list[EdgeStatement]:
    """One statement for each relation: the surest rule's, with the passages of all."""
    found: dict[tuple[str, str, str], EdgeStatement] = {}
    for one in statements:
        name = (one.source, one.edge_type, one.target)
        known = found.get(name)
        if known is None:
            found[name] = one
            continue
        best, other = (known, one) if known.confidence >= one.confidence else (one, known)
        found[name] = replace(
            best,
            at=max(best.at, other.at),
            properties={**other.properties, **best.properties},
            chunk_ids=tuple(dict.fromkeys((*known.chunk_ids, *one.chunk_ids))),
        )
    return list(found.values())


def _names(nodes: Sequence[NodeStatement], edges: Sequence[EdgeStatement]) -> dict[str, str]:
    """What to look for in the passages, by reference: the values of those that have no evidence yet."""
    wanted = {one.key for one in nodes if not one.chunk_ids}
    wanted.update(key for one in edges if not one.chunk_ids for key in (one.source, one.target))
    return {key: key.partition(":")[2].casefold() for key in wanted}


def _passages_naming(names: dict[str, str], passages: Passages) -> dict[str, tuple[str, ...]]:
    found: dict[str, list[str]] = {}
    if not names:
        return {}
    for chunk in passages():
        text = _searched(chunk)
        for key, name in names.items():
            if name and name in text:
                found.setdefault(key, []).append(chunk.chunk_id)
    return {key: tuple(ids) for key, ids in found.items()}


def _searched(chunk: DocumentChunk) -> str:
    return chunk.own_text.casefold()


def _far(edge: EdgeStatement, named: dict[str, tuple[str, ...]], material: Material) -> tuple[str, ...] | None:
    """Passages with the end of an edge that the document isn't about."""
    far, near = (edge.source, edge.target) if edge.target == material.own else (edge.target, edge.source)
    return named.get(far) or named.get(near)


def _evidence(known: tuple[str, ...], named: tuple[str, ...] | None, first: str) -> tuple[str, ...]:
    return (known or named or (first,))[:MAX_PASSAGES]
