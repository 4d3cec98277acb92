"""From what was found as text, and from what a question names, along the graph to what is related."""

from __future__ import annotations

import logging
import math
import re
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from opx.domain.graph import MAX_NODES, Direction, Edge, EdgeName, GraphEvidence, Node, Walk
from opx.domain.knowledge import Tier
from opx.domain.record import replace
from opx.domain.results import (
    EvidenceItem,
    EvidencePack,
    EvidenceSource,
    Expanded,
    FoundText,
    PathStep,
    RetrievalResult,
)
from opx.errors import OpxError, StoreUnavailableError
from opx.graph.questions.answers import Row, is_a, name_of, walked
from opx.graph.questions.recognising import named, recognised
from opx.graph.views import in_words
from opx.runtime.threads import within

if TYPE_CHECKING:
    from opx.graph.knowledge_graph import KnowledgeGraph
    from opx.graph.passages import PassageReader
    from opx.graph.questions.answers import GraphAnswer
    from opx.graph.views import Passage
    from opx.ports import Clock


# -- evidence


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
    proof: tuple[GraphEvidence, ...] = ()
    about: tuple[GraphEvidence, ...] = ()


@dataclass(frozen=True, slots=True)
class Chosen:
    """A lead with the statement whose passage is shown. `found`: that passage is among the results already."""

    lead: Lead
    shown: GraphEvidence | None
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


# -- expansion


log = logging.getLogger(__name__)

NO_GRAPH = "the graph is missing from this answer (it didn't answer in time, or is unavailable)"
NO_PASSAGES = "the passages behind relations are missing (they could not be read in time)"
INCOMPLETE = "; there may be more, as some things have more relations than are followed"

MIN_CONFIDENCE = 0.005
"""Of what is related; what is less sure says nothing."""

FAN_OUT = 25
MOST_SEEDS = 20
FOLLOWED = 30
"""Things next to the seeds whose own relations are looked at, the surest: each costs a request or two."""

MOST_HITS = 5
"""Hits whose references are looked up, the best ones."""

CONSIDERED = 4 * MAX_GRAPH_ITEMS
"""Leads of which it is looked up whether a document is about them."""

_WANTED = (
    (r"runbooks?|procedures?|what (?:do|should) (?:i|we) do", ("runbook",)),
    (r"incidents?|outages?|postmortems?|happened", ("incident",)),
    (r"chang\w+|deploy\w+|releas\w+|roll\w*[ -]?outs?", ("change", "commit")),
    (r"commit\w*", ("commit",)),
    (r"tickets?|issues?|jira", ("jira",)),
    (r"who|whose|owners?|owns?|teams?|responsible|on[ -]call|call|duty", ("team", "user", "email")),
    (r"mitigat\w+", ("mitigation",)),
    (r"techniques?|attack\w*", ("technique",)),
    (r"vulnerab\w+|cves?|patch\w*", ("cve",)),
    (r"alerts?|alarms?", ("alert", "alert_event")),
    (r"hosts?|machines?|servers?", ("host",)),
    (r"files?", ("file",)),
)
"""Which kinds of things a question asks for, by its words."""

_PATTERNS = tuple((re.compile(rf"\b(?:{words})\b", re.IGNORECASE), kinds) for words, kinds in _WANTED)


@dataclass(frozen=True, slots=True)
class _Related:
    chosen: tuple[Chosen, ...] = ()
    understood: str = ""


class GraphExpansion:
    """Goes on along one reader's graph, for `seconds` at most."""

    def __init__(self, graph: KnowledgeGraph, passages: PassageReader, *, clock: Clock, seconds: float) -> None:
        self._graph = graph
        self._passages = passages
        self._clock = clock
        self._seconds = seconds

    def __call__(self, found: FoundText) -> Expanded:
        """The pack for what was found. A graph that fails or is slow leaves what was found as text, with a note."""
        until = time.monotonic() + self._seconds
        try:
            related = within(self._seconds, lambda: self._related(found), "the graph", StoreUnavailableError)
        except OpxError:  # also of a thing that is gone since it was found
            log.warning("a question was answered without the graph", exc_info=True)
            return pack_of(found.results, (), {}), (NO_GRAPH,)
        passages, notes = self._texts(related.chosen, until - time.monotonic())
        return pack_of(found.results, related.chosen, passages, related.understood), notes

    def _related(self, found: FoundText) -> _Related:
        graph = self._graph
        answer = recognised(graph, found.text, now=self._clock(), identifiers=found.identifiers)
        rows = rows_as_leads(answer.rows, found.tiers) if answer else []
        leads = [*rows, *self._leads(graph, found)]
        nodes = graph.nodes([lead.node for lead in leads[:CONSIDERED]])
        kept = chosen(with_abouts(leads[:CONSIDERED], nodes, found.tiers), found.results)
        return _Related(tuple(kept), _understood(answer, rows, kept) if answer else "")

    def _leads(self, graph: KnowledgeGraph, found: FoundText) -> list[Lead]:
        seeds, wanted = self._seeds(graph, found), wanted_types(found.text)
        near = self._edges(graph, seeds, found)
        nearest = dict.fromkeys(lead.node for lead in leads_of(near, seeds) if lead.node not in seeds)
        far = self._edges(graph, list(nearest)[:FOLLOWED], found)
        return [lead for lead in leads_of({**near, **far}, seeds, wanted) if lead.confidence >= MIN_CONFIDENCE]

    def _edges(self, graph: KnowledgeGraph, keys: Iterable[str], found: FoundText) -> Relations:
        """The relations of these things by what they say, as far as tiers that were searched prove them."""
        walk = Walk(1, Direction.BOTH, fan_out=FAN_OUT, most_nodes=MAX_NODES)
        return by_name(within_tiers(walked(graph, keys, walk).edges, found.tiers))

    def _seeds(self, graph: KnowledgeGraph, found: FoundText) -> dict[str, float]:
        """Where to start, with how sure that is: 1 for what the question names; for what a passage names, the passage's
        confidence divided by the root of how many things it names."""
        seeds = dict.fromkeys(named(graph, found.text, found.identifiers), 1.0)
        hits = {hit.chunk_id: hit for hit in reversed(found.hits[:MOST_HITS])}
        chunks = [(hit.key_id, hit.chunk_id) for hit in found.hits[:MOST_HITS]]
        references = graph.related_to_chunks(chunks)
        for chunk_id, keys in references.items():
            share = hits[chunk_id].confidence / math.sqrt(len(keys))
            for key in keys:
                seeds[key] = max(seeds.get(key, 0.0), share)
        best = sorted(seeds.items(), key=lambda one: (-one[1], one[0]))
        return dict(best[:MOST_SEEDS])

    def _texts(self, found: Sequence[Chosen], seconds: float) -> tuple[Mapping[str, Passage], tuple[str, ...]]:
        evidence = [one.shown for one in found if one.shown and not one.found]
        if not evidence:
            return {}, ()
        try:
            passages: Iterable[Passage] = within(
                seconds, lambda: self._passages.of(evidence), "the corpus store", StoreUnavailableError
            )
        except StoreUnavailableError:
            log.warning("relations are shown without their passages", exc_info=True)
            return {}, (NO_PASSAGES,)
        return {passage.chunk_id: passage for passage in passages}, ()


def _understood(answer: GraphAnswer, rows: Sequence[Lead], kept: Sequence[Chosen]) -> str:
    """What the graph was asked and says, with what of it isn't shown."""
    text = answer.explanation + (INCOMPLETE if answer.cut else "")
    shown = sum(one.lead.answers for one in kept)
    if shown < len(rows):
        text += f"; the first {shown} are here"
    hidden = len(answer.rows) - len(rows)
    return f"{text}; {hidden} not shown, as tiers prove them that were not searched" if hidden else text


def wanted_types(text: str) -> frozenset[str]:
    """Namespaces of what the question asks for, as its words say it; none if they don't."""
    return frozenset(kind for pattern, kinds in _PATTERNS if pattern.search(text) for kind in kinds)


# -- leads


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


def of_tiers(evidence: Iterable[GraphEvidence], tiers: Collection[Tier]) -> tuple[GraphEvidence, ...]:
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
