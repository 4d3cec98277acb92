"""Expands the hits of a search along the graph: follows edges from hits and named nodes to an evidence pack."""

from __future__ import annotations

import logging
import math
import re
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from opx.domain.graph import MAX_NODES, Direction, Edge, EdgeName, GraphEvidence, Node, Walk
from opx.domain.knowledge import Tier
from opx.domain.record import replace
from opx.domain.results import (
    EvidenceItem,
    EvidencePack,
    EvidenceSource,
    Expanded,
    FoundText,
    Names,
    PathStep,
    RetrievalResult,
)
from opx.errors import OpxError, StoreUnavailableError
from opx.graph.knowledge_graph import KnowledgeGraph
from opx.graph.passages import PassageReader
from opx.graph.questions.answers import GraphAnswer, Row, is_a, name_of, walk_from
from opx.graph.questions.recognising import named_nodes, recognised
from opx.graph.views import Passage, in_words, names_of
from opx.ports import Clock
from opx.runtime.threads import within

log = logging.getLogger(__name__)

# -- evidence pack

MAX_GRAPH_ITEMS = 12
MAX_OF_ONE_DOCUMENT = 3
"""Edges that are shown of one document: an inventory is evidence of hundreds."""

MAX_CHARACTERS = 700
"""Characters of the passage in an item of the graph."""

CHARACTERS_BEFORE = 120
"""Characters of a passage that are shown before the node's name, approximately."""

MAX_TEXT_CHARACTERS = 1_500
"""Characters of the passage in an item of the search: `Answer.results` has all of it."""


@dataclass(frozen=True, slots=True)
class Lead:
    """A node that edges lead to. `path` begins at a found or named node, and its last edge is the one that is shown.
    `answers`: it is a row of a graph answer to the question; `note` has the other values of the row. `about` is evidence
    of the node itself, where a document is about it."""

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
    """A lead with the statement whose passage is shown. `found`: the search returned that passage already."""

    lead: Lead
    shown: GraphEvidence | None
    found: bool = False


def chosen(leads: Iterable[Lead], results: Sequence[RetrievalResult]) -> list[Chosen]:
    """The leads to show, the best first: each node and edge once, and few per document. The best lead to each passage that
    the search returned is added, and doesn't count."""
    known = {str(result.metadata.get("chunkId", "")) for result in results}
    selection = _Selection()
    for lead in leads:
        selection.consider(_choice(lead, known))
        if selection.shown == MAX_GRAPH_ITEMS:
            break
    return selection.kept


class _Selection:
    """Collects leads within the limits."""

    def __init__(self) -> None:
        self.kept: list[Chosen] = []
        self.shown = 0
        self._of_document: dict[str, int] = {}
        self._seen: set[tuple[str, ...]] = set()

    def consider(self, one: Chosen) -> None:
        lead, document = one.lead, one.shown.document_id if one.shown else ""
        if one.found and not lead.answers:
            self._keep(one, ("found", *(one.shown.chunk_ids if one.shown else ())))
            return
        identity = (lead.node, edge_sentence(lead.path[-1]) if lead.path else "")
        crowded = document and self._of_document.get(document, 0) >= MAX_OF_ONE_DOCUMENT
        if (lead.answers or not crowded) and self._keep(one, identity):
            self._of_document[document] = self._of_document.get(document, 0) + 1
            self.shown += 1

    def _keep(self, one: Chosen, identity: tuple[str, ...]) -> bool:
        if identity in self._seen:
            return False
        self._seen.add(identity)
        self.kept.append(one)
        return True


def _choice(lead: Lead, known: set[str]) -> Chosen:
    """Chooses the statement to show of a lead: one about the node itself, else the evidence of the edge."""
    best = next(iter((*lead.about, *lead.proof)), None)
    return Chosen(lead, best, found=bool(best and known.intersection(best.chunk_ids)))


def pack_of(
    results: Sequence[RetrievalResult],
    graph: Sequence[Chosen],
    passages: Mapping[str, Passage],
    understood: str = "",
    names: Names | None = None,
) -> EvidencePack:
    """Merges results and leads to one pack: rows of a graph answer first, then all others by confidence, ties in order.

    Each passage is there once: a passage that search and graph found is an item of the search, with the path that leads to
    it and the higher confidence.
    """
    both = {chunk: one for one in reversed(graph) if one.found and one.shown for chunk in one.shown.chunk_ids}
    texts = [_with_path(item, both.get(item.chunk_id)) for item in map(_text_item, results)]
    items = [_graph_item(one, passages) for one in graph if one.lead.answers or not one.found]
    answers = [item for item in items if item.answers]
    related = [item for item in items if not item.answers]
    merged = sorted((*texts, *related), key=lambda item: -item.confidence)
    return EvidencePack((*answers, *merged), understood, names=names or {})


def _text_item(result: RetrievalResult) -> EvidenceItem:
    return EvidenceItem(
        source=EvidenceSource.RAG,
        content=_cut(result.content, MAX_TEXT_CHARACTERS),
        confidence=result.confidence,
        document_id=result.document_id,
        chunk_id=str(result.metadata.get("chunkId", "")),
        title=result.title,
        tier=result.tier,
        untrusted=result.untrusted,
        at=result.timestamp,
        flags=result.flags,
    )


def _with_path(item: EvidenceItem, one: Chosen | None) -> EvidenceItem:
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
    summary = "; ".join(filter(None, (path_sentence(lead.path) or name_of(lead.node), lead.note)))
    text = _around(passage.content, lead.node) if passage and not one.found else ""
    return EvidenceItem(
        source=EvidenceSource.GRAPH,
        content=f"{summary}\n\n{text}" if text else summary,
        confidence=lead.confidence,
        document_id=shown.document_id if shown else "",
        chunk_id=passage.chunk_id if passage else next(iter(ids), ""),
        title=passage.title if passage else "",
        tier=_least_trusted(shown.tier if shown else Tier.INTERNAL, lead),
        untrusted=passage is not None and passage.untrusted,
        at=lead.at,
        answers=lead.answers,
        **_way(lead),
    )


def _way(lead: Lead) -> dict[str, Any]:
    """The path to a node and its evidence, as fields of an item."""
    return {
        "path": tuple(PathStep(*edge.name) for edge in lead.path),
        "node": lead.node,
        "relation": edge_sentence(lead.path[-1]) if lead.path else "",
        "evidence_chunk_ids": tuple(dict.fromkeys(chunk for proof in lead.proof for chunk in proof.chunk_ids)),
    }


def _least_trusted(tier: Tier, lead: Lead) -> str:
    """The least trusted of the tiers of a passage and of the edges that lead to it. Of several documents that prove an edge,
    the most trusted counts."""
    order = list(Tier)
    proven = [min((one.tier for one in edge.evidence), key=order.index) for edge in lead.path]
    return max((tier, *proven), key=order.index).value


def edge_sentence(edge: Edge) -> str:
    """An edge in words: `checkout depends on payments`."""
    return f"{name_of(edge.source)} {in_words(edge.edge_type)} {name_of(edge.target)}"


def path_sentence(path: Sequence[Edge]) -> str:
    """A path in words: `checkout depends on payments; change CHG-12 affects payments`."""
    return "; ".join(map(edge_sentence, path))


def _around(text: str, node: str) -> str:
    """The part of a passage that names a node, from the beginning of a line; without the name, its beginning."""
    at = text.casefold().find(node.partition(":")[2])
    start = text.rfind("\n", 0, max(0, at - CHARACTERS_BEFORE)) + 1 if at > CHARACTERS_BEFORE else 0
    cut = text[start : start + MAX_CHARACTERS].strip()
    return f"{'... ' if start else ''}{cut}{' ...' if start + MAX_CHARACTERS < len(text) else ''}"


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most].rstrip()} ..."


# -- expansion

NO_GRAPH = "the graph is missing from this answer (it didn't answer in time, or is unavailable)"
NO_PASSAGES = "the passages behind relations are missing (they could not be read in time)"
INCOMPLETE = "; there may be more, as some things have more relations than are followed"

MIN_CONFIDENCE = 0.005
"""Minimum confidence of a lead."""

FAN_OUT = 25
MOST_SEEDS = 12
FOLLOWED = 10
"""Neighbours of the seeds whose own edges are followed, the surest first. Each seed and each of these costs a request or
two: with 20 and 30 of them, the questions of `tests/quality/graph` have the same figures."""

MOST_HITS = 5
"""Best hits whose nodes are looked up."""

CONSIDERED = 3 * MAX_GRAPH_ITEMS
"""Leads whose nodes are read, to find documents about them."""

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
"""Namespaces that a question is about, by its words."""

_PATTERNS = tuple((re.compile(rf"\b(?:{words})\b", re.IGNORECASE), kinds) for words, kinds in _WANTED)


@dataclass(frozen=True, slots=True)
class _Related:
    chosen: tuple[Chosen, ...]
    understood: str
    names: Names


class GraphExpansion:
    """Follows edges in one reader's graph, for `seconds` at most."""

    def __init__(self, graph: KnowledgeGraph, passages: PassageReader, *, clock: Clock, seconds: float) -> None:
        self._graph = graph
        self._passages = passages
        self._clock = clock
        self._seconds = seconds

    def __call__(self, found: FoundText) -> Expanded:
        """The evidence pack for the hits of a search. If the graph fails or is slow: the hits alone, with a note."""
        until = time.monotonic() + self._seconds
        try:
            related = within(self._seconds, lambda: self._related(found), "the graph", StoreUnavailableError)
        except OpxError:  # also for a node that was deleted meanwhile
            log.warning("a question was answered without the graph", exc_info=True)
            return pack_of(found.results, (), {}), (NO_GRAPH,)
        passages, notes = self._read_passages(related.chosen, until - time.monotonic())
        return pack_of(found.results, related.chosen, passages, related.understood, related.names), notes

    def _related(self, found: FoundText) -> _Related:
        graph = self._graph
        answer = recognised(graph, found.text, now=self._clock(), identifiers=found.identifiers)
        rows = rows_as_leads(answer.rows, found.tiers) if answer else []
        leads = [*rows, *self._leads(graph, found)][:CONSIDERED]
        nodes = graph.nodes([lead.node for lead in leads if may_have_about(lead)])
        kept = chosen(with_abouts(leads, nodes, found.tiers), found.results)
        shown = {key for one in kept for edge in one.lead.path for key in (edge.source, edge.target)}
        names = names_of(node for node in nodes if node.key in shown)
        return _Related(tuple(kept), _understood(answer, rows, kept) if answer else "", names)

    def _leads(self, graph: KnowledgeGraph, found: FoundText) -> list[Lead]:
        seeds, wanted = self._seeds(graph, found), wanted_types(found.text)
        near = self._edges(graph, seeds, found)
        far = self._edges(graph, worth_following(near, seeds, wanted)[:FOLLOWED], found)
        return [lead for lead in leads_of({**near, **far}, seeds, wanted) if lead.confidence >= MIN_CONFIDENCE]

    def _edges(self, graph: KnowledgeGraph, keys: Iterable[str], found: FoundText) -> Relations:
        """The edges of these nodes by name, with evidence from the searched tiers alone."""
        walk = Walk(1, Direction.BOTH, fan_out=FAN_OUT, most_nodes=MAX_NODES)
        return by_name(within_tiers(walk_from(graph, keys, walk).edges, found.tiers))

    def _seeds(self, graph: KnowledgeGraph, found: FoundText) -> dict[str, float]:
        """Start nodes with their confidence: 1 for nodes that the question names; for nodes that a passage names, the
        passage's confidence divided by the square root of their number."""
        seeds = dict.fromkeys(named_nodes(graph, found.text, found.identifiers), 1.0)
        hits = {hit.chunk_id: hit for hit in reversed(found.hits[:MOST_HITS])}
        chunks = [(hit.key_id, hit.chunk_id) for hit in found.hits[:MOST_HITS]]
        references = graph.related_to_chunks(chunks)
        for chunk_id, keys in references.items():
            share = hits[chunk_id].confidence / math.sqrt(len(keys))
            for key in keys:
                seeds[key] = max(seeds.get(key, 0.0), share)
        best = sorted(seeds.items(), key=lambda one: (-one[1], one[0]))
        return dict(best[:MOST_SEEDS])

    def _read_passages(self, found: Sequence[Chosen], seconds: float) -> tuple[Mapping[str, Passage], tuple[str, ...]]:
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
    """The explanation of a graph answer, with the number of rows that are not shown."""
    text = answer.explanation + (INCOMPLETE if answer.cut else "")
    shown = sum(one.lead.answers for one in kept)
    if shown < len(rows):
        text += f"; the first {shown} are here"
    hidden = len(answer.rows) - len(rows)
    return f"{text}; {hidden} not shown, as their evidence is from tiers that were not searched" if hidden else text


def wanted_types(text: str) -> frozenset[str]:
    """Namespaces that the words of a question ask for; none if they name no kind of node."""
    return frozenset(kind for pattern, kinds in _PATTERNS if pattern.search(text) for kind in kinds)


# -- leads

HOPS = 2
DECAY = 0.7
"""Factor of the confidence for each edge of the path."""

UNWANTED = 0.25
"""Factor of the confidence for nodes of other namespaces than those that the question asks for."""

ABOUT = (
    "runbook", "incident", "change", "commit", "jira", "confluence", "document", "cve", "technique", "mitigation",
    "team", "alert_event",
)  # fmt: skip
"""Namespaces of nodes that have a document of their own, which is better evidence than that of the edge."""


Relations = dict[EdgeName, Edge]


@dataclass(frozen=True, slots=True)
class _ScoredPath:
    confidence: float
    path: tuple[Edge, ...] = ()


def by_name(edges: Iterable[Edge]) -> Relations:
    return {edge.name: edge for edge in edges}


def leads_of(found: Relations, seeds: Mapping[str, float], wanted: Collection[str] = ()) -> list[Lead]:
    """Nodes up to `HOPS` edges away from the seeds, along the surest path; the best first, ties by reference.

    The confidence of a lead is that of its seed, times for each edge of the path its own confidence, `DECAY`, and
    1 / sqrt(log2(1 + d)), where d is the degree of the node that the edge is followed from: nodes that are related to
    everything are weak evidence. If `wanted` types are given, nodes of other types have `UNWANTED` of it.
    """
    touching: dict[str, list[Edge]] = {}
    for edge in found.values():
        for key in {edge.source, edge.target}:
            touching.setdefault(key, []).append(edge)
    best = {key: _ScoredPath(confidence) for key, confidence in seeds.items()}
    frontier = dict(best)
    leads: list[Lead] = []
    for _ in range(HOPS):
        candidates = [
            (edge.other(key), _further(scored, edge, len(touching[key])))
            for key, scored in frontier.items()
            for edge in touching.get(key, ())
        ]
        leads.extend(_lead(key, scored, wanted) for key, scored in candidates)
        frontier = {}
        for key, scored in candidates:
            if scored.confidence > best.get(key, _ScoredPath(0.0)).confidence:
                best[key] = frontier[key] = scored
    return _ordered(leads)


def worth_following(near: Relations, seeds: Mapping[str, float], wanted: Collection[str] = ()) -> list[str]:
    """Neighbours of the seeds whose own edges can lead to one of the `CONSIDERED` best leads, the surest first: a lead
    through a neighbour has `DECAY` of its confidence at most."""
    enough = [lead.confidence for lead in leads_of(near, seeds, wanted)][CONSIDERED - 1 : CONSIDERED]
    least = max(MIN_CONFIDENCE, *enough) if enough else MIN_CONFIDENCE
    neighbours = (lead for lead in leads_of(near, seeds) if lead.node not in seeds)
    return list(dict.fromkeys(lead.node for lead in neighbours if lead.confidence * DECAY >= least))


def _further(scored: _ScoredPath, edge: Edge, relations: int) -> _ScoredPath:
    return _ScoredPath(
        scored.confidence * edge.confidence * DECAY / math.sqrt(math.log2(1 + relations)), (*scored.path, edge)
    )


def _lead(key: str, scored: _ScoredPath, wanted: Collection[str]) -> Lead:
    confidence = scored.confidence * (1.0 if not wanted or is_a(key, *wanted) else UNWANTED)
    last = scored.path[-1]
    return Lead(key, confidence, scored.path, at=last.at, proof=last.evidence)


def _ordered(leads: Iterable[Lead]) -> list[Lead]:
    """The best lead for each edge, sorted."""
    best: dict[EdgeName, Lead] = {}
    for lead in leads:
        name = lead.path[-1].name
        if name not in best or lead.confidence > best[name].confidence:
            best[name] = lead
    return sorted(best.values(), key=lambda lead: (-lead.confidence, lead.node))


def rows_as_leads(rows: Iterable[Row], tiers: Collection[Tier]) -> list[Lead]:
    """Rows of a graph answer in their order, without those whose path these tiers don't prove."""
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
    """The edges with evidence from these tiers, and with that evidence alone."""
    kept = []
    for edge in edges:
        evidence = of_tiers(edge.evidence, tiers)
        if evidence:
            kept.append(edge if len(evidence) == len(edge.evidence) else replace(edge, evidence=evidence))
    return tuple(kept)


def of_tiers(evidence: Iterable[GraphEvidence], tiers: Collection[Tier]) -> tuple[GraphEvidence, ...]:
    return tuple(one for one in evidence if one.tier in tiers)


def may_have_about(lead: Lead) -> bool:
    """True if a document about the node itself would be shown: nodes of other namespaces needn't be read."""
    return not lead.path or is_a(lead.node, *ABOUT)


def with_abouts(leads: Sequence[Lead], nodes: Iterable[Node], tiers: Collection[Tier]) -> list[Lead]:
    """The leads with evidence from documents about the nodes themselves; for rows without a path, from any document that
    names them."""
    by_key = {node.key: node for node in nodes}
    return [_with_about(lead, by_key.get(lead.node), tiers) for lead in leads]


def _with_about(lead: Lead, node: Node | None, tiers: Collection[Tier]) -> Lead:
    if node is None or not may_have_about(lead) or (lead.path and not node.declared):
        return lead
    return replace(lead, about=of_tiers(node.evidence, tiers)[:1])
