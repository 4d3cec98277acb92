"""Operation on one resource: pages about it, records of what happened to it, its relations in the graph, its baselines.

Documents are looked up in the index by exact names, and not ranked as answers: a search shows near-duplicates once, and
each of them is a record.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from itertools import chain, islice
from typing import Annotated, NamedTuple

from opx.domain.documents import DocumentState, KnowledgeDocument
from opx.domain.graph import Walk
from opx.domain.ids import day_number
from opx.domain.knowledge import Tier, Untrusted
from opx.domain.outcomes import JudgedPassage, Tally
from opx.domain.record import Record, about, replace
from opx.domain.requests import Filled, Request
from opx.domain.resources import MAX_CHARACTERS, labels_in, resources_in, workload_of
from opx.domain.results import IndexedChunk
from opx.errors import InvalidInputError
from opx.graph.extraction.own_node import make_reference
from opx.graph.traversal import since_when
from opx.graph.views import in_words
from opx.hygiene.untrusted import QUOTED, one_line, quoted
from opx.operations.alerts import alerts_of, outcomes_of
from opx.operations.context import Context
from opx.operations.documents import expired_since
from opx.operations.paging import Notes, Paragraphs, noted
from opx.operations.registry import KNOWLEDGE, Tool, operation
from opx.ports import SearchFilter, SearchRequest
from opx.retrieval.query_language import in_any_case
from opx.retrieval.question import folded, required_groups

MOST_PAGES, MOST_EVENTS, MOST_OUTCOMES, MOST_RELATIONS, MOST_THINGS, MOST_METRICS = 5, 10, 4, 6, 5, 4
MOST_VERSIONS = 100
"""Versions of an alert's record that are read: each may be of another firing."""
DEPTH = 200
"""Passages that a lookup reads in each leg. If there are more, those of the last days are looked up by themselves."""
RECENT_DAYS = (30, 7)
RELATIONS = ("owned_by", "depends_on", "hosted_on", "runs", "fires_on")
_HAS_WORD = re.compile(r"[^\W_]")
_PORT = re.compile(r":\d{1,5}\Z")
_ORDINAL = re.compile(r"-\d{1,3}")


class GetResource(Request, frozen=True):
    resource: Annotated[
        Filled,
        about("A node, pod, workload, service, database or queue, as alerts name it.", max_length=MAX_CHARACTERS),
    ]
    since: Annotated[
        str, about("Only records from then on: how long ago (12h, 1d, 2w), a day or a time.", max_length=40)
    ] = ""


class ResourcePage(Record, frozen=True, kw_only=True, omit_defaults=True):
    document_id: str
    title: str
    category: str
    updated: Annotated[str, about("The day of its last update.")]
    owner: str = ""
    states_it: Annotated[bool, about("True if metadata, tags or title name the resource; else the text does.")] = False
    untrusted: Untrusted = False

    @property
    def text(self) -> str:
        title = quoted(self.title) if self.untrusted else self.title
        facts = ("" if self.states_it else "mentions it", f"owner {self.owner}" if self.owner else "", self.category)
        return f"{title} ({', '.join(filter(None, facts))})"


class ResourceEvent(Record, frozen=True, kw_only=True, omit_defaults=True):
    """Records with one name: the firings of an alert, or incidents, changes, tickets or runs with one title."""

    document_id: Annotated[str, about("The latest record.")]
    name: Annotated[str, about("The alert, or the title: data that nobody reviewed.")]
    category: str
    count: Annotated[int, about("Number of firings of an alert, or of records.")]
    first: Annotated[str, about("The day of the first one.")]
    last: Annotated[str, about("The day of the last one.")]
    state: Annotated[str, about("Of an alert: firing or resolved, if known.")] = ""

    @property
    def text(self) -> str:
        """`"KubePodNotReady" fired 14 times since 2026-11-23, resolved`, `incident "INC-3001: high CPU"`."""
        kind = self.category.rpartition("/")[2].removesuffix("s").replace("_", " ")
        often = f"{self.count} times since {self.first}" if self.count > 1 else ""
        if kind != "alert":
            return f"{kind} {quoted(self.name)} {often}".rstrip()
        state = {"": "", "firing": ", still firing"}.get(self.state, f", {self.state}")
        return f"{quoted(self.name)} fired {often or 'once'}{state}"


class ResourceOutcome(Record, frozen=True, kw_only=True):
    document_id: str
    text: Annotated[str, about("Outcomes of following the document, or a step of it that was tried before.")]


class KnownResource(Record, frozen=True, kw_only=True, omit_defaults=True):
    name: Annotated[str, about("The name in lower case.")]
    guidance: Annotated[tuple[ResourcePage, ...], about("Pages about it, then those that mention it.")] = ()
    records: Annotated[tuple[ResourceEvent, ...], about("What happened to it, the newest first.")] = ()
    outcomes: Annotated[tuple[ResourceOutcome, ...], about("What was tried before, and its result.")] = ()
    relations: Annotated[tuple[str, ...], about("Owners, dependencies, hosts and alerts in the graph.")] = ()
    baselines: Annotated[tuple[str, ...], about("The usual values of its metrics in the last 7 days.")] = ()
    notes: Notes = ()

    @property
    def is_known(self) -> bool:
        return bool(self.guidance or self.records or self.relations or self.baselines)

    def sections(self, *, id_digits: int | None = None) -> Iterator[tuple[str, list[str]]]:
        """The lines of each part that has some, by heading; ids have the first digits."""
        records = [f"{one.document_id[:id_digits]}  {one.last}  {one.text}" for one in self.records]
        pages = [f"{one.document_id[:id_digits]}  {one.updated}  {one.text}" for one in self.guidance]
        tried = [f"{one.document_id[:id_digits]}  {one.text}" for one in self.outcomes]
        titles = ("Guidance", "Records", "Tried before", "Relations", "Usual values")
        parts = (pages, records, tried, list(self.relations), list(self.baselines))
        return ((title, lines) for title, lines in zip(titles, parts, strict=True) if lines)


@dataclass(frozen=True, slots=True)
class ResourceAnswer(Paragraphs):
    """The reply as text for an agent."""

    found: KnownResource

    def record(self) -> KnownResource:
        return self.found

    def _paragraphs(self) -> Iterator[str]:
        is_quoted = self.found.records or any(page.untrusted for page in self.found.guidance)
        yield from noted(self.found.notes, after=QUOTED if is_quoted else "")
        for title, lines in self.found.sections():
            heading = f"{title} of {one_line(self.found.name)} (document id, day, text):"
            yield "\n".join((heading, *(f"- {line}" for line in lines)))


@operation(
    http="GET /resources/{resource}",
    tool=Tool(
        KNOWLEDGE,
        "List what is known of one node, pod, workload, service, database or queue by its exact name: pages about it, its "
        "alerts, incidents and changes, what was tried before, owners and dependencies, usual values. Use it once you know "
        "what an alert is about, before you search for the symptom.",
    ),
)
def get_resource(context: Context, request: GetResource) -> ResourceAnswer:
    """List what is known of a resource, each part bounded: pages, records since a time, outcomes, relations, baselines.

    Records with one name are one event. If nothing states or mentions the name, a note has similar names. Raises
    `InvalidInputError` for an invalid `since`, and for a name without letters and digits.
    """
    lookup = _Lookup(context, request.resource)
    pages = lookup.pages()
    events = lookup.events(since_when(request.since, context.system.clock()))
    found = KnownResource(
        name=lookup.name,
        guidance=tuple(map(lookup.page_of, (one.document for one in pages))),
        records=tuple(event for event, _ in events),
        outcomes=tuple(islice(lookup.outcomes([*pages, *(one for _, one in events)]), MOST_OUTCOMES)),
        relations=tuple(_relations(context, lookup.names[0], [event for event, _ in events])),
        baselines=tuple(_baselines(context, lookup.names)),
        notes=lookup.notes,
    )
    return ResourceAnswer(found if found.is_known else replace(found, notes=(*found.notes, lookup.unknown())))


# -- documents


class _Found(NamedTuple):
    """A document and those of its passages that were found."""

    document: KnowledgeDocument
    passages: list[IndexedChunk]


class _Lookup:
    """Documents about a resource that the caller may see. A pod of a deployment has the `names` of its workload, too.
    `group` is what a numbered name belongs to (`kafka` of `kafka-2`): pages about it count, records of its others don't."""

    def __init__(self, context: Context, given: str) -> None:
        text = given.strip()
        if not _HAS_WORD.search(text):
            raise InvalidInputError(
                f"{quoted(given)} is no name: give that of a node, a workload, a service or the like"
            )
        self.context = context
        self.names = resources_in({"host" if _PORT.search(text) else "resource": text}) or (text.casefold(),)
        self.name = self.names[0]
        self.group = workload_of(self.name)
        self.notes: tuple[str, ...] = ()
        if self.group != self.name and not _ORDINAL.fullmatch(self.name.removeprefix(self.group)):
            self.names = (self.group, *self.names)
            pod, workload = one_line(self.name), one_line(self.group)
            self.notes = (f"{pod} is a pod of {workload}: what is known of {workload} is listed",)
        self.is_word = self.names[0].isalpha()
        self._named = re.compile(rf"(?<!\w)(?<!\w-)(?:{'|'.join(map(re.escape, self.names))})(?!-?\w)")
        if self.is_word:
            self.notes = (*self.notes, f"{self.names[0]} is a plain word: texts that only mention it are not listed")
        system = context.system
        system.indexing.wake()
        self.model = system.installation.knowledge
        self.categories = sorted(self.model.categories.keys() - system.learning.rules.hidden_from_agents)

    def pages(self) -> list[_Found]:
        """The pages that state the resource, then those that mention it most."""
        categories = [path for path in self.categories if not self.model.is_report(path)]
        found = self._documents((*self.names, self.group), categories)
        found.sort(key=lambda one: (self._fit(one.document), self._mentions(one)), reverse=True)
        return found[:MOST_PAGES]

    def events(self, since: str) -> list[tuple[ResourceEvent, _Found]]:
        """Records since a time ("" for all), those of one name as one event, the newest first."""
        named: dict[tuple[str, str], list[_Found]] = defaultdict(list)
        for one in self._documents(self.names, list(filter(self.model.is_report, self.categories)), since):
            named[one.document.category, _name_of(one.document)].append(one)
        return [
            (self._event([one.document for one in some], since), some[0])
            for some in islice(named.values(), MOST_EVENTS)
        ]

    def outcomes(self, found: Sequence[_Found]) -> Iterator[ResourceOutcome]:
        """Warnings of steps in the passages of these documents, and counts of outcomes."""
        scopes, learning = self.context.reader.visible, self.context.system.learning
        passages = [passage for one in found for passage in one.passages]
        warned = learning.experience.warnings_of(scopes, lambda: [_judged(one) for one in passages])
        texts: dict[str, dict[str, None]] = defaultdict(dict)
        for passage, warnings in zip(passages, warned or [[] for _ in passages], strict=True):
            texts[passage.chunk.document_id] |= dict.fromkeys(one_line(warning.text) for warning in warnings)
        counts = outcomes_of(self.context, {one.document.key.id for one in found})
        for document, _ in found:
            counted = [Tally(counts[document.key.id]).explained()] if document.key.id in counts else []
            for text in (*texts[document.document_id], *counted):
                yield ResourceOutcome(document_id=document.document_id, text=text)

    def unknown(self) -> str:
        """The note of a name that nothing has, with similar ones."""
        where = SearchFilter(self.context.reader.visible)
        known = {name for one in self._chunks(where, re.sub(r"\W+", " ", self.name)) for name in one.resources}
        nodes = self.context.system.graph.seen_by(self.context.identity).find(self.name[:3])
        near = get_close_matches(self.name, known | {node.key.partition(":")[2] for node in nodes})
        similar = f"; similar names: {', '.join(map(one_line, near))}" if near else ""
        return f"nothing {'states' if self.is_word else 'states or mentions'} {one_line(self.name)}{similar}"

    def page_of(self, document: KnowledgeDocument) -> ResourcePage:
        return ResourcePage(
            document_id=document.document_id,
            title=one_line(document.title),
            category=document.category,
            updated=document.last_updated[:10],
            owner=one_line(document.owner),
            states_it=self._fit(document) > 0,
            untrusted=document.untrusted,
        )

    def _documents(self, names: Sequence[str], categories: Sequence[str], since: str = "") -> list[_Found]:
        """The documents with one of the names in metadata or tags, or with the resource's own in the title, or, unless it is
        a word, in the text; the newest first."""
        if not categories:
            return []
        tiers, first = (Tier.INTERNAL.value, Tier.SPECIALIZED.value), day_number(since)
        where = SearchFilter(self.context.reader.visible, tuple(categories), tiers, updated_from=first)
        field = "title_terms" if self.is_word else "required_terms"
        found: dict[tuple[str, str], dict[str, IndexedChunk]] = defaultdict(dict)
        stated = [replace(where, resources=tuple(names)), replace(where, tags=in_any_case(names))]
        groups = filter(None, map(required_groups, self.names))
        naming = [replace(where, **{field: some}) for some in groups]
        for chunk in chain.from_iterable(map(self._recent, (*stated, *naming))):
            found[chunk.key_id, chunk.chunk.document_id][chunk.entry_id] = chunk
        known = self.context.system.corpus.catalog.named(found)
        each = [_Found(document, list(found[name].values())) for name, document in known.items()]
        shown = [one for one in each if self._is_shown(one.document) and _is_since(one.document.last_updated, since)]
        about_it = [one for one in shown if _stated(one.document).intersection(names) or self._mentions(one)]
        return sorted(about_it, key=lambda one: one.document.last_updated, reverse=True)

    def _mentions(self, found: _Found) -> int:
        """The number of passages that name the resource."""
        return sum(map(self._names_it, found.passages))

    def _names_it(self, passage: IndexedChunk) -> bool:
        chunk = passage.chunk
        texts = (chunk.title,) if self.is_word else (chunk.title, *chunk.section, chunk.content)
        return any(self._named.search(folded(text)) for text in texts)

    def _recent(self, where: SearchFilter) -> Iterable[IndexedChunk]:
        """Passages that pass the filter; of more than are read, the newest are among them."""
        found = {one.entry_id: one for one in self._chunks(where, self.names[0])}
        today = int(self.context.system.clock()) // 86_400
        for days in RECENT_DAYS if len(found) >= DEPTH else ():
            recent = replace(where, updated_from=max(where.updated_from or 0, today - days))
            found |= {one.entry_id: one for one in self._chunks(recent, self.names[0])}
        return found.values()

    def _chunks(self, where: SearchFilter, text: str) -> Iterable[IndexedChunk]:
        engine = self.context.system.indexing.search_engine
        return engine.search(SearchRequest(where, text, self._vector, depth=DEPTH)).chunks.values()

    @cached_property
    def _vector(self) -> Sequence[float] | None:
        embedder = self.context.system.indexing.query_embedder
        return embedder.embed_query(self.name) if embedder else None

    def _is_shown(self, document: KnowledgeDocument) -> bool:
        is_current = document.state is DocumentState.CURRENT and self.context.reader.may_see(document.scope)
        return is_current and not expired_since(self.context, document)

    def _fit(self, document: KnowledgeDocument) -> int:
        """3 if metadata or tags name the resource, 2 if the title does, 1 if they name its group, 0 for a mention."""
        stated = _stated(document)
        if stated.intersection(self.names):
            return 3
        return 2 if self._named.search(folded(document.title)) else int(self.group in stated)

    def _event(self, documents: Sequence[KnowledgeDocument], since: str) -> ResourceEvent:
        """One event of records with one name, the newest first."""
        latest = documents[0]
        is_alert = latest.category.endswith("/alerts")
        times = [at for one in documents for at in (self._firings(one) if is_alert else (one.last_updated,))]
        counted = [at for at in times if _is_since(at, since)] or [latest.last_updated]
        states = {tag for one in documents for tag in one.tags} & {"firing", "resolved"} if is_alert else ()
        return ResourceEvent(
            document_id=latest.document_id,
            name=_name_of(latest),
            category=latest.category,
            count=len(counted),
            first=min(counted)[:10],
            last=max(counted)[:10],
            state=min(states, default=""),
        )

    def _firings(self, document: KnowledgeDocument) -> set[str]:
        """The times at which an alert began, as the versions of its record state them."""
        if document.version == 1:
            return {document.created_at}
        versions = islice(self.context.system.corpus.catalog.versions(document.key), MOST_VERSIONS)
        return {one.created_at for one in versions if self.context.reader.may_see(one.scope)}


def _stated(document: KnowledgeDocument) -> set[str]:
    return {*document.resources, *map(str.casefold, document.tags)}


def _is_since(at: str, since: str) -> bool:
    """True for a time, or a day, at or after `since`."""
    return at >= since[: len(at)]


def _name_of(document: KnowledgeDocument) -> str:
    """The name of the alert in its labels, else the title."""
    return one_line(labels_in(document.attributes).get("alertname") or document.title)


def _judged(passage: IndexedChunk) -> JudgedPassage:
    chunk = passage.chunk
    own = (passage.scope_key, passage.key_id, passage.source_uri)
    return JudgedPassage(chunk.title, " > ".join(chunk.section), chunk.content, chunk.document_id, *own)


# -- the graph and baselines


def _relations(context: Context, name: str, events: Iterable[ResourceEvent]) -> Iterator[str]:
    """A line for each kind of relation of the nodes with this name that an internal document states, and for each
    alert's runbook."""
    graph = context.system.graph.seen_by(context.identity)
    alerts = [make_reference("alert", one.name) for one in events if one.category.endswith("/alerts")]
    ends: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for key in graph.called(name):
        for edge in graph.neighbours(key, Walk(edge_types=RELATIONS)).edges:
            if any(one.tier is Tier.INTERNAL for one in edge.evidence):
                source, target = (key, "") if edge.source == key else ("", key)
                ends[source, in_words(edge.edge_type), target].append(edge.other(key))
                alerts += [edge.source] if edge.edge_type == "fires_on" else []
    for (source, words, target), others in islice(ends.items(), MOST_RELATIONS):
        more = f" and {len(others) - MOST_THINGS} more" if len(others) > MOST_THINGS else ""
        named = ", ".join(sorted(others)[:MOST_THINGS]) + more
        yield f"{source or named} {words} {target or named}"
    known = graph.existing([one for one in alerts if one]) if alerts else {}
    for alert in alerts_of(context, list(dict.fromkeys(known.values()))[:MOST_THINGS]) if known else ():
        if alert.document_id:
            yield f"runbook of {one_line(alert.name)}: {one_line(alert.title)} [Document ID: {alert.document_id}]"


def _baselines(context: Context, names: Sequence[str]) -> Iterator[str]:
    """A line for each metric of the node; none without the distribution that has baselines."""
    store = context.system.optional_part("baselines")
    if store is None:
        return
    for one in islice((one for one in store.series(context.reader) if one.node.casefold() in names), MOST_METRICS):
        stats = store.get(context.reader, one.node, one.metric)
        usual = f"{stats.mean:.3g}" if stats.p10 is None else f"{stats.p10:.3g} to {stats.p90:.3g}"
        if stats.count:
            unit = f" {one_line(stats.unit)}" if stats.unit else ""
            yield f"{one_line(one.metric)}: usually {usual}{unit} ({stats.count} values in 7 days)"
