"""A document's passages through all rules, to what the document says."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache
from typing import BinaryIO

from opx.domain.documents import KnowledgeDocument
from opx.domain.graph import EdgeStatement, NodeStatement, Origin, Statements, node_type
from opx.domain.record import replace
from opx.graph.extraction.material import (
    ChunkRule,
    DocumentRule,
    Findings,
    Gathered,
    Material,
    Naming,
    Passages,
    PassagesRule,
    whole_lines,
)
from opx.graph.extraction.mentions import without_needless
from opx.graph.extraction.own_node import own_reference
from opx.graph.manifest import statements_by_mark


@dataclass(frozen=True, slots=True)
class Extractor:
    """All rules, and those that need more than the document: `known` read one passage each, `whole` all together."""

    known: Sequence[ChunkRule] = ()
    whole: Sequence[PassagesRule] = ()

    def __call__(
        self,
        document: KnowledgeDocument,
        facts: Mapping[str, tuple[str, ...]],
        passages: Passages,
        opened: Callable[[], AbstractContextManager[BinaryIO]],
    ) -> Statements:
        """What the document says. Raises as `extract`, and `InvalidInputError` if the graph's store would refuse it: then
        other documents of a batch are at stake."""
        material = Material(document, own_reference(document, facts), facts, opened)
        found = extract(material, passages, known=self.known, whole=self.whole)
        statements_by_mark(Origin.of(document), found, "")
        return found


@cache
def _rules() -> tuple[tuple[DocumentRule, ...], tuple[ChunkRule, ...], tuple[PassagesRule, ...]]:
    """Those that read a document as a whole, one passage, and all passages together; each in their order."""
    from opx.graph.extraction import advisories, code, front_matter, inventory, mentions, operations, relation_lines

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
    return of_documents, of_chunks, (code.code_structure,)


def extract(
    material: Material, passages: Passages, *, known: Sequence[ChunkRule] = (), whole: Sequence[PassagesRule] = ()
) -> Statements:
    """What the document says. Each reference in it has a node, and each edge has evidence; a document without passages
    says nothing. `known` and `whole` are rules beside those that everybody has.

    Passages are read once for all rules that read one at a time, and for what is looked for in them. Raises what rules
    raise: `ObjectNotFoundError` and `StoreUnavailableError`.
    """
    gathered, findings = Gathered(), Findings()
    if material.own:
        properties = {"title": material.document.title, "category": material.document.category}
        gathered.add_node(NodeStatement(material.own, node_type(material.own), properties, declared=True))
    of_documents, of_chunks, of_all = _rules()
    for rule in of_documents:
        rule(material, findings)
    gathered.take(findings)
    naming = _naming(gathered)
    first = ""
    each_passage = (*of_chunks, *known)
    for chunk in whole_lines(passages()):
        first = first or chunk.chunk_id
        naming.read(chunk)
        for read in each_passage if not gathered.is_full else ():
            read(material, chunk, findings)
        gathered.take(findings)
    if not first:
        return Statements()
    for read_all in (*of_all, *whole):
        read_all(material, passages, findings)
        gathered.take(findings)
    return _settled(material.own, gathered, naming, first)


def _naming(gathered: Gathered) -> Naming:
    """Looks for what has no evidence yet: things by their names as they were written, and the ends of edges together."""
    pairs = [(one.source, one.target) for one in gathered.edges.values() if not one.chunk_ids]
    wanted = {one.key for one in gathered.nodes.values() if not one.chunk_ids}
    wanted.update(key for pair in pairs for key in pair)
    nodes = gathered.nodes
    written = {key: str(nodes[key].properties.get("name", "")) for key in wanted if key in nodes}
    return Naming({key: written.get(key) or key.partition(":")[2] for key in wanted}, pairs)


def _settled(own: str, gathered: Gathered, naming: Naming, first: str) -> Statements:
    def of_node(one: NodeStatement) -> tuple[str, ...]:
        return one.chunk_ids or naming.of(one.key) or (first,)

    def of_edge(one: EdgeStatement) -> tuple[str, ...]:
        ends = (one.target, one.source) if one.source == own else (one.source, one.target)
        return one.chunk_ids or naming.of((one.source, one.target), *ends) or (first,)

    return Statements(
        own=own,
        nodes=tuple(replace(one, chunk_ids=of_node(one)) for one in gathered.with_ends().values()),
        edges=tuple(replace(one, chunk_ids=of_edge(one)) for one in without_needless(gathered.edges.values())),
        aliases=tuple(gathered.aliases),
        remarks=gathered.remarks(),
    )
