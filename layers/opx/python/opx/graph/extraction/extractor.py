"""Runs all extraction rules over a document, and settles their findings to its statements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache
from typing import BinaryIO

from opx.domain.documents import KnowledgeDocument
from opx.domain.graph import EdgeStatement, NodeStatement, Origin, Statements, node_type
from opx.domain.record import replace
from opx.formats.metadata import texts_of
from opx.formats.registry import structure_of
from opx.graph.extraction.material import (
    ChunkRule,
    DocumentRule,
    Findings,
    Gathered,
    Material,
    NameFinder,
    Passages,
    PassagesRule,
    whole_lines,
)
from opx.graph.extraction.mentions import without_redundant
from opx.graph.extraction.own_node import own_reference
from opx.graph.manifest import statements_by_mark


@dataclass(frozen=True, slots=True)
class Extractor:
    """The built-in rules, with further ones: `known` read one passage each, `whole` read all passages together."""

    known: Sequence[ChunkRule] = ()
    whole: Sequence[PassagesRule] = ()

    def __call__(
        self,
        document: KnowledgeDocument,
        passages: Passages,
        opened: Callable[[], AbstractContextManager[BinaryIO]],
    ) -> Statements:
        """The statements of a document. Raises as `extract`, and `InvalidInputError` for statements that the graph's store
        would refuse, so that they don't fail a batch with other documents."""
        facts = {name: texts_of(value) for name, value in document.attributes.items()}
        material = Material(document, own_reference(document, facts), facts, opened)
        found = extract(material, passages, known=self.known, whole=self.whole)
        statements_by_mark(Origin.of(document), found, "")
        return found


@cache
def _rules() -> tuple[tuple[DocumentRule, ...], tuple[ChunkRule, ...]]:
    """The built-in rules for a document, and for one passage, each in order of execution."""
    from opx.graph.extraction import advisories, front_matter, inventory, mentions, operations, relation_lines

    of_documents: tuple[DocumentRule, ...] = (
        relation_lines.relationships_field,
        front_matter.stated_fields,
        operations.tagged_alerts,
        inventory.inventory_entries,
        operations.alerts_of_rules,
        advisories.affected_in_record,
        operations.author,
        mentions.listed,
    )
    of_chunks: tuple[ChunkRule, ...] = (
        relation_lines.stated_relations,
        operations.handled_alerts,
        operations.causes,
        advisories.affected_products,
        operations.changes,
        relation_lines.links,
        relation_lines.named_code,
        mentions.patterned,
    )
    return of_documents, of_chunks


def _of_format(material: Material) -> tuple[PassagesRule, ...]:
    """The rule for all passages of a file together that its format has."""
    rule = structure_of(material.document.key.source)
    return (rule,) if rule else ()


def extract(
    material: Material, passages: Passages, *, known: Sequence[ChunkRule] = (), whole: Sequence[PassagesRule] = ()
) -> Statements:
    """The statements of a document. Each reference has a node, and each edge has evidence; a document without passages has
    no statements. `known` and `whole` are added to the built-in rules.

    Passages are read once for all chunk rules and for the search for evidence. Raises errors of the rules:
    `ObjectNotFoundError` and `StoreUnavailableError`.
    """
    gathered, findings = Gathered(), Findings()
    if material.own:
        properties = {"title": material.document.title, "category": material.document.category}
        gathered.add_node(NodeStatement(material.own, node_type(material.own), properties, declared=True))
    of_documents, of_chunks = _rules()
    for rule in of_documents:
        rule(material, findings)
    gathered.take(findings)
    finder = _name_finder(gathered)
    first = ""
    each_passage = (*of_chunks, *known)
    for chunk in whole_lines(passages()):
        first = first or chunk.chunk_id
        finder.read(chunk)
        for read in each_passage if not gathered.is_full else ():
            read(material, chunk, findings)
        gathered.take(findings)
    if not first:
        return Statements()
    for read_all in (*_of_format(material), *whole):
        read_all(material, passages, findings)
        gathered.take(findings)
    return _settled(material.own, gathered, finder, first)


def _name_finder(gathered: Gathered) -> NameFinder:
    """Searches evidence for statements without it: nodes by their names as written, edges by both ends together."""
    pairs = [(one.source, one.target) for one in gathered.edges.values() if not one.chunk_ids]
    wanted = {one.key for one in gathered.nodes.values() if not one.chunk_ids}
    wanted.update(key for pair in pairs for key in pair)
    nodes = gathered.nodes
    written = {key: str(nodes[key].properties.get("name", "")) for key in wanted if key in nodes}
    return NameFinder({key: written.get(key) or key.partition(":")[2] for key in wanted}, pairs)


def _settled(own: str, gathered: Gathered, finder: NameFinder, first: str) -> Statements:
    def of_node(one: NodeStatement) -> tuple[str, ...]:
        return one.chunk_ids or finder.of(one.key) or (first,)

    def of_edge(one: EdgeStatement) -> tuple[str, ...]:
        ends = (one.target, one.source) if one.source == own else (one.source, one.target)
        return one.chunk_ids or finder.of((one.source, one.target), *ends) or (first,)

    return Statements(
        own=own,
        nodes=tuple(replace(one, chunk_ids=of_node(one)) for one in gathered.with_ends().values()),
        edges=tuple(replace(one, chunk_ids=of_edge(one)) for one in without_redundant(gathered.edges.values())),
        aliases=tuple(gathered.aliases),
        remarks=gathered.remarks(),
    )
