"""From what was found as text, and from what a question names, along the graph to what is related."""

from __future__ import annotations

import logging
import math
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from opx.domain.graph import MAX_NODES, Direction, Walk
from opx.errors import OpxError, StoreUnavailableError
from opx.graph.evidence import MAX_GRAPH_ITEMS, Chosen, Lead, chosen, pack_of
from opx.graph.leads import Relations, by_name, leads_of, rows_as_leads, with_abouts, within_tiers
from opx.graph.questions.answers import walked
from opx.graph.questions.recognising import named, recognised
from opx.retrieval.found_text import Expanded, FoundText
from opx.runtime.deadlines import within

if TYPE_CHECKING:
    from opx.graph.knowledge_graph import KnowledgeGraph
    from opx.graph.passages import PassageReader
    from opx.graph.questions.answers import GraphAnswer
    from opx.graph.views import Passage
    from opx.ports import Clock

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
