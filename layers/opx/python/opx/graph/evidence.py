"""The evidence pack: what was found as text, and what relations say about it, each with its proof.

Every relation that is in it has been stated by a document that the reader may see, of a tier that was searched.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from opx.domain.evidence_pack import EvidenceItem, EvidencePack, EvidenceSource, PathStep
from opx.domain.results import RetrievalResult
from opx.graph.questions.answers import name_of
from opx.graph.views import in_words

if TYPE_CHECKING:
    from opx.domain.graph import Edge, Evidence
    from opx.graph.views import Passage

MAX_GRAPH_ITEMS = 12
MAX_OF_ONE_DOCUMENT = 3
"""Relations that are shown of one document: an inventory proves hundreds."""

MAX_CHARACTERS = 700
"""Of the passage in an item of the graph."""

MAX_TEXT_CHARACTERS = 1_500
"""Of the passage in an item of the text: `Answer.results` has all of it."""


@dataclass(frozen=True, slots=True)
class Lead:
    """Something that relations lead to. `path` begins at what was found or named, and its last relation is the one that is
    told. `answers`: it is a row of an answer to a question that the graph was asked; `note` is what else that says.
    `about` is evidence of what the thing itself is, where a document is about it."""

    node: str
    confidence: float
    path: tuple[Edge, ...] = ()
    answers: bool = False
    note: str = ""
    at: str = ""
    proof: tuple[Evidence, ...] = ()
    about: tuple[Evidence, ...] = ()


@dataclass(frozen=True, slots=True)
class Chosen:
    """A lead with the statement whose passage is shown."""

    lead: Lead
    shown: Evidence | None


def chosen(leads: Iterable[Lead], results: Sequence[RetrievalResult]) -> list[Chosen]:
    """The leads to show, the best first: none whose passage is among the results already, each thing and relation once,
    and few of one document. Rows of an answer are kept whatever the text has found."""
    known = {str(result.metadata.get("chunkId", "")) for result in results}
    documents: dict[str, int] = {}
    told: set[tuple[str, str]] = set()
    kept: list[Chosen] = []
    for lead in leads:
        one = _choice(lead, known)
        relation = said(lead.path[-1]) if lead.path else ""
        if one is None or (lead.node, relation) in told:
            continue
        document = one.shown.document_id if one.shown else ""
        if not lead.answers and document and documents.get(document, 0) >= MAX_OF_ONE_DOCUMENT:
            continue
        documents[document] = documents.get(document, 0) + 1
        told.add((lead.node, relation))
        kept.append(one)
        if len(kept) == MAX_GRAPH_ITEMS:
            break
    return kept


def _choice(lead: Lead, known: set[str]) -> Chosen | None:
    """What to show of a lead; None if the results show it."""
    for evidence in (*lead.about, *lead.proof):
        if not known.intersection(evidence.chunk_ids):
            return Chosen(lead, evidence)
    if lead.answers:
        return Chosen(lead, next(iter((*lead.about, *lead.proof)), None))
    return None


def pack_of(
    results: Sequence[RetrievalResult],
    graph: Sequence[Chosen],
    passages: Mapping[str, Passage],
    understood: str = "",
) -> EvidencePack:
    """Rows of an answer first, then text and relations by their confidence; those of one kind keep their order."""
    items = [_graph_item(one, passages) for one in graph]
    answers = [item for item in items if item.answers]
    related = [item for item in items if not item.answers]
    merged = _merged([_text_item(result) for result in results], related)
    return EvidencePack((*answers, *merged), understood)


def _merged(texts: Sequence[EvidenceItem], related: Sequence[EvidenceItem]) -> Iterator[EvidenceItem]:
    """Two lists as one, the surer head first, text before what is as sure."""
    first, second = list(texts), list(related)
    while first and second:
        yield (second if second[0].confidence > first[0].confidence else first).pop(0)
    yield from (*first, *second)


def _text_item(result: RetrievalResult) -> EvidenceItem:
    return EvidenceItem(
        source=EvidenceSource.RAG,
        content=_cut(result.content, MAX_TEXT_CHARACTERS),
        confidence=result.confidence,
        document_id=result.document_id,
        chunk_id=str(result.metadata.get("chunkId", "")),
        title=result.title,
        tier=result.tier,
        at=result.timestamp,
        flags=result.flags,
    )


def _graph_item(one: Chosen, passages: Mapping[str, Passage]) -> EvidenceItem:
    lead, shown = one.lead, one.shown
    ids = shown.chunk_ids if shown else ()
    passage = next((passages[chunk] for chunk in ids if chunk in passages), None)
    relation = said(lead.path[-1]) if lead.path else ""
    told = "; ".join(filter(None, (said_along(lead.path) or name_of(lead.node), lead.note)))
    text = _around(passage.content, lead.node) if passage else ""
    return EvidenceItem(
        source=EvidenceSource.GRAPH,
        content=f"{told}\n\n{text}" if text else told,
        confidence=lead.confidence,
        path=tuple(PathStep(edge.source, edge.edge_type, edge.target) for edge in lead.path),
        document_id=shown.document_id if shown else "",
        chunk_id=passage.chunk_id if passage else next(iter(ids), ""),
        title=passage.title if passage else "",
        tier=_least_trusted(lead, shown),
        node=lead.node,
        relation=relation,
        at=lead.at,
        evidence_chunk_ids=tuple(dict.fromkeys(chunk for proof in lead.proof for chunk in proof.chunk_ids)),
        answers=lead.answers,
    )


def _least_trusted(lead: Lead, shown: Evidence | None) -> str:
    """The tier of what is shown, or of what proves the way there, whichever is least trusted."""
    from opx.domain.knowledge import Tier

    order = list(Tier)
    tiers = [min((one.tier for one in edge.evidence), key=order.index) for edge in lead.path]
    tiers.extend([shown.tier] if shown else [])
    return max(tiers, key=order.index, default=Tier.INTERNAL).value


def said(edge: Edge) -> str:
    """`checkout depends on payments`."""
    return f"{name_of(edge.source)} {in_words(edge.edge_type)} {name_of(edge.target)}"


def said_along(path: Sequence[Edge]) -> str:
    """A path in words: `checkout depends on payments; change CHG-12 affects payments`."""
    return "; ".join(map(said, path))


def _around(text: str, node: str) -> str:
    """The part of a passage where a thing is named, or its beginning."""
    name = node.partition(":")[2]
    at = text.casefold().find(name)
    start = max(0, at - MAX_CHARACTERS // 2) if at + len(name) > MAX_CHARACTERS else 0
    cut = text[start : start + MAX_CHARACTERS].strip()
    return f"{'... ' if start else ''}{cut}{' ...' if start + MAX_CHARACTERS < len(text) else ''}"


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most].rstrip()} ..."
