"""The evidence pack: what was found as text, and what relations say about it, each with its proof.

Every relation that is in it has been stated by a document that the reader may see, of a tier that was searched.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from opx.domain.knowledge import Tier
from opx.domain.record import replace
from opx.domain.results import EvidenceItem, EvidencePack, EvidenceSource, PathStep, RetrievalResult
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

CHARACTERS_BEFORE = 120
"""Of a passage that are shown before the thing's name, about."""

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
    """A lead with the statement whose passage is shown. `found`: that passage is among the results already."""

    lead: Lead
    shown: Evidence | None
    found: bool = False


def chosen(leads: Iterable[Lead], results: Sequence[RetrievalResult]) -> list[Chosen]:
    """The leads to show, the best first: each thing and relation once, and few of one document. What leads to a passage
    that was found as text comes besides, for the best of them."""
    known = {str(result.metadata.get("chunkId", "")) for result in results}
    choosing = _Choosing()
    for lead in leads:
        choosing.consider(_choice(lead, known))
        if choosing.shown == MAX_GRAPH_ITEMS:
            break
    return choosing.kept


class _Choosing:
    """What was chosen so far."""

    def __init__(self) -> None:
        self.kept: list[Chosen] = []
        self.shown = 0
        self._of_document: dict[str, int] = {}
        self._told: set[tuple[str, ...]] = set()

    def consider(self, one: Chosen) -> None:
        lead, document = one.lead, one.shown.document_id if one.shown else ""
        if one.found and not lead.answers:
            self._keep(one, ("found", *(one.shown.chunk_ids if one.shown else ())))
            return
        told = (lead.node, said(lead.path[-1]) if lead.path else "")
        crowded = document and self._of_document.get(document, 0) >= MAX_OF_ONE_DOCUMENT
        if (lead.answers or not crowded) and self._keep(one, told):
            self._of_document[document] = self._of_document.get(document, 0) + 1
            self.shown += 1

    def _keep(self, one: Chosen, told: tuple[str, ...]) -> bool:
        if told in self._told:
            return False
        self._told.add(told)
        self.kept.append(one)
        return True


def _choice(lead: Lead, known: set[str]) -> Chosen:
    """What to show of a lead: what the thing itself is, else what proves the relation."""
    best = next(iter((*lead.about, *lead.proof)), None)
    return Chosen(lead, best, found=bool(best and known.intersection(best.chunk_ids)))


def pack_of(
    results: Sequence[RetrievalResult],
    graph: Sequence[Chosen],
    passages: Mapping[str, Passage],
    understood: str = "",
) -> EvidencePack:
    """Rows of an answer first, then text and relations by their confidence, ties in their order.

    A passage is there once: one that was found both ways is text, with the way that leads to it and the confidence of the
    surer one.
    """
    both = {chunk: one for one in reversed(graph) if one.found and one.shown for chunk in one.shown.chunk_ids}
    texts = [_found_twice(item, both.get(item.chunk_id)) for item in map(_text_item, results)]
    items = [_graph_item(one, passages) for one in graph if one.lead.answers or not one.found]
    answers = [item for item in items if item.answers]
    related = [item for item in items if not item.answers]
    merged = sorted((*texts, *related), key=lambda item: -item.confidence)
    return EvidencePack((*answers, *merged), understood)


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


def _found_twice(item: EvidenceItem, one: Chosen | None) -> EvidenceItem:
    if one is None or one.lead.answers:
        return item
    return replace(
        item,
        confidence=max(item.confidence, one.lead.confidence),
        tier=_least_trusted(Tier(item.tier), one.lead),
        **_way(one.lead),
    )


def _graph_item(one: Chosen, passages: Mapping[str, Passage]) -> EvidenceItem:
    lead, shown = one.lead, one.shown
    ids = shown.chunk_ids if shown else ()
    passage = next((passages[chunk] for chunk in ids if chunk in passages), None)
    told = "; ".join(filter(None, (said_along(lead.path) or name_of(lead.node), lead.note)))
    text = _around(passage.content, lead.node) if passage and not one.found else ""
    return EvidenceItem(
        source=EvidenceSource.GRAPH,
        content=f"{told}\n\n{text}" if text else told,
        confidence=lead.confidence,
        document_id=shown.document_id if shown else "",
        chunk_id=passage.chunk_id if passage else next(iter(ids), ""),
        title=passage.title if passage else "",
        tier=_least_trusted(shown.tier if shown else Tier.INTERNAL, lead),
        at=lead.at,
        answers=lead.answers,
        **_way(lead),
    )


def _way(lead: Lead) -> dict[str, Any]:
    """How one came to a thing, as fields of an item."""
    return {
        "path": tuple(PathStep(*edge.name) for edge in lead.path),
        "node": lead.node,
        "relation": said(lead.path[-1]) if lead.path else "",
        "evidence_chunk_ids": tuple(dict.fromkeys(chunk for proof in lead.proof for chunk in proof.chunk_ids)),
    }


def _least_trusted(tier: Tier, lead: Lead) -> str:
    """The tier of a text, or of what proves the way to it, whichever is least trusted. Of several proofs of one relation,
    the best counts."""
    order = list(Tier)
    ways = [min((one.tier for one in edge.evidence), key=order.index) for edge in lead.path]
    return max((tier, *ways), key=order.index).value


def said(edge: Edge) -> str:
    """`checkout depends on payments`."""
    return f"{name_of(edge.source)} {in_words(edge.edge_type)} {name_of(edge.target)}"


def said_along(path: Sequence[Edge]) -> str:
    """A path in words: `checkout depends on payments; change CHG-12 affects payments`."""
    return "; ".join(map(said, path))


def _around(text: str, node: str) -> str:
    """The part of a passage where a thing is named, from the beginning of a line on; its beginning if it isn't named."""
    at = text.casefold().find(node.partition(":")[2])
    start = text.rfind("\n", 0, max(0, at - CHARACTERS_BEFORE)) + 1 if at > CHARACTERS_BEFORE else 0
    cut = text[start : start + MAX_CHARACTERS].strip()
    return f"{'... ' if start else ''}{cut}{' ...' if start + MAX_CHARACTERS < len(text) else ''}"


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most].rstrip()} ..."
