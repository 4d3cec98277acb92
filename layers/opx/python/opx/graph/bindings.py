"""Binds alerts to runbooks: by alert rules, by titles, and by pages that state the alerts they handle.

Bindings are not stored: each query reads the current rules and pages."""

from __future__ import annotations

import json
import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property

from opx.domain.documents import KnowledgeDocument
from opx.domain.graph import MAX_FAN_OUT, Direction, Edge, Node, Walk
from opx.errors import InvalidReferenceError
from opx.graph.extraction.own_node import is_alert_name, page_parts, reference_of_source, runbook_at
from opx.graph.knowledge_graph import KnowledgeGraph
from opx.ingestion.events import DOCUMENTS_FOLDER
from opx.text.analyzer import analyze
from opx.text.procedures.alerts import RULE, RUNBOOK, STATED, WHEN

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_LABEL = re.compile(r"\{\{-?\s*\$labels\.(\w+)\s*-?\}\}")
_CALLED = re.compile(r"\s*(?:(?:alert|alarm|runbook|playbook)\s*[:\u2013\u2014-]\s*)+", re.IGNORECASE)
_NAMING = re.compile(r"\s\(`?([^\s()`]+)`?\)\s*\Z|(?:\s[\u2013\u2014-]|:)\s+`?([^\s`]+)`?\s*\Z")
"""The name of an alert at the end of a title: `Disk almost full (PgDiskAlmostFull)`, `Disk full: PgDiskAlmostFull`."""
_SEPARATORS = re.compile(r"[\s_`-]+")


class Runbooks:
    """Index of runbooks by reference, address, file name and title. `scopes` are those of the reader, the widest first: of
    equal matches the page of the narrowest scope wins."""

    def __init__(self, documents: Iterable[KnowledgeDocument], scopes: Sequence[str]) -> None:
        self._rank = {scope: rank for rank, scope in enumerate(scopes)}
        self._by_reference: dict[str, KnowledgeDocument] = {}
        self._by_address: dict[str, KnowledgeDocument] = {}
        self._by_name: dict[str, list[tuple[tuple[str, ...], KnowledgeDocument]]] = defaultdict(list)
        self._called: dict[str, dict[str, KnowledgeDocument]] = defaultdict(dict)
        self._naming: dict[str, dict[str, KnowledgeDocument]] = defaultdict(dict)
        self._documents = sorted(documents, key=self._rank_of)
        for document in self._documents:
            self._by_reference[reference_of_source(document.key.source, document.category)] = document
            if _SCHEME.match(document.source_uri):
                self._by_address[_address(document.source_uri)] = document
            names = {_without_separators(_CALLED.sub("", document.title, count=1))}
            if parts := _parts(document.key.source.removeprefix(DOCUMENTS_FOLDER)):
                self._by_name[parts[-1]].append((parts, document))
                names.add(_without_separators(parts[-1]))
            for name in names - {""}:
                self._called[name][document.key.id] = document
            if alert := _alert_in(document.title):
                self._naming[alert.casefold()][document.key.id] = document

    def about(self, reference: str) -> KnowledgeDocument | None:
        """The page with this reference as its own node."""
        return self._by_reference.get(reference)

    def at(self, location: str) -> KnowledgeDocument | None:
        """The runbook at a path or an address: the page from this address, else the one with this file name, of several the
        one that shares most folders. None without a match, and for several equal ones."""
        if _SCHEME.match(location) and (found := self._by_address.get(_address(location))):
            return found
        parts = _parts(location)
        named = self._by_name.get(parts[-1], []) if parts else []
        best = max((_common(parts, own) for own, _ in named), default=0)
        matching = self._narrowest([one for own, one in named if _common(parts, own) == best])
        return matching[0] if len(matching) == 1 else None

    def called(self, name: str) -> list[KnowledgeDocument]:
        """The pages whose title or file name is this name: `KafkaDown`, `Runbook: KafkaDown`, `kafka-down.md`; else those
        whose title ends with it: `Broker down (KafkaDown)`."""
        found = self._called.get(_without_separators(name)) or self._naming.get(name.casefold()) or {}
        return self._narrowest(list(found.values()))

    def like(self, name: str) -> Sequence[KnowledgeDocument]:
        """The pages whose titles are most like a name."""
        return self._title_words.like(name)

    @cached_property
    def _title_words(self) -> TitleWords:
        return TitleWords(self._documents)

    def _narrowest(self, documents: Sequence[KnowledgeDocument]) -> list[KnowledgeDocument]:
        rank = max(map(self._rank_of, documents), default=0)
        return [one for one in documents if self._rank_of(one) == rank]

    def _rank_of(self, document: KnowledgeDocument) -> int:
        return self._rank.get(document.scope.key, -1)


def _parts(location: str) -> tuple[str, ...]:
    return tuple(part.casefold() for part in page_parts(location))


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    """The number of parts at the end that both share."""
    pairs = zip(reversed(one), reversed(other), strict=False)
    return next((at for at, (mine, theirs) in enumerate(pairs) if mine != theirs), min(len(one), len(other)))


def _address(text: str) -> str:
    """An address without its scheme, section and trailing slash, which don't distinguish pages."""
    return text.partition("#")[0].partition("://")[2].rstrip("/").casefold()


def _alert_in(title: str) -> str:
    """The name of an alert at the end of a title; "" if the title ends with another word."""
    match = _NAMING.search(title)
    name = (match[1] or match[2]) if match else ""
    return name if is_alert_name(name) or len(re.split("[-_]", name)) > 2 else ""


def _without_separators(name: str) -> str:
    """A name in lower case without separators between its words."""
    return _SEPARATORS.sub("", name).casefold()


# -- bindings


NEAR_PAGES = 3
"""Pages that an alert without a binding may be about, at most."""


@dataclass(frozen=True, slots=True)
class NearPage:
    """A page that may be about an alert, and the reason why that is not sure."""

    document: KnowledgeDocument
    why: str


class BoundBy(StrEnum):
    """URL: an alert's rule names the page, by its address or path. TITLE: the page is the only one with the alert's name as
    its title. PAGE: the page states that it handles the alert."""

    URL = "url"
    TITLE = "title"
    PAGE = "page"


@dataclass(frozen=True, slots=True)
class RuleRunbook:
    """A runbook that an alert rule names: `location` is its address or path, `labels` are those of the rule's alerts."""

    location: str
    labels: Mapping[str, str] = field(default_factory=dict)

    def rank(self, given: Mapping[str, str]) -> int:
        """The match with an alert's labels: positive if it has all of the rule's, negative if one has another value."""
        if any(given.get(name, text) != text for name, text in self.labels.items()):
            return -1
        return sum(name in given for name in self.labels) if given.keys() >= self.labels.keys() else 0

    def missing(self, given: Mapping[str, str]) -> dict[str, str]:
        """The rule's labels that an alert doesn't have."""
        return {name: text for name, text in self.labels.items() if name not in given}

    def address(self, given: Mapping[str, str]) -> str:
        """The location with an alert's labels filled in."""
        return _LABEL.sub(lambda match: given.get(match[1], match[0]), self.location)


@dataclass(frozen=True, slots=True)
class Bound:
    """A page that an alert is bound to; `rule` is the rule that names it, if any."""

    document: KnowledgeDocument
    by: BoundBy
    rule: RuleRunbook | None = None
    fits: bool = True
    """False if the rules name the page for other labels than the alert's."""


@dataclass(frozen=True)
class Bindings:
    """The bindings of alerts, given by their references. `labels` of an alert choose among several rules of its name;
    `list_runbooks` is called for the runbooks of the graph's reader when they are first needed."""

    graph: KnowledgeGraph
    list_runbooks: Callable[[], Runbooks]
    alerts: Sequence[str]
    labels: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def nodes(self) -> Mapping[str, Node]:
        return {node.key: node for node in self.graph.nodes(self.alerts)}

    def pages(self) -> dict[str, list[Bound]]:
        """The runbooks of each alert, the surest first: those that its rules name, the one with its name as title, then
        pages that state that they handle it. Pages of rules with other labels come last."""
        found: dict[str, dict[str, Bound]] = {alert: {} for alert in self.alerts}
        for alert, pages in found.items():
            for bound in self._of(alert):
                pages.setdefault(bound.document.key.id, bound)
        return {alert: list(pages.values()) for alert, pages in found.items()}

    def called(self, alert: str) -> list[KnowledgeDocument]:
        """The pages with the name of a known alert as title or file name."""
        if alert not in self.nodes:
            return []
        return self._runbooks.called(self._name(alert))

    def near(self, alert: str) -> list[NearPage]:
        """Pages that may be about an alert without a binding: those that share its name, that mention it, or that have a
        similar title."""
        called = self.called(alert)
        if called:
            ordered = sorted(called, key=lambda one: one.source)
            return [NearPage(one, f"one of {len(called)} pages with its name") for one in ordered[:NEAR_PAGES]]
        pages = (self._runbooks.about(edge.source) for edge in self._mentioning.get(alert, ()))
        mentioning = {page.key.id: page for page in pages if page}
        if mentioning:
            return [NearPage(one, "mentions it") for one in list(mentioning.values())[:NEAR_PAGES]]
        return [NearPage(one, "has a similar title") for one in self._runbooks.like(self._name(alert))[:NEAR_PAGES]]

    def _name(self, alert: str) -> str:
        return str(self.nodes[alert].properties.get("name", "")) or alert.partition(":")[2]

    def firings(self) -> dict[str, list[Edge]]:
        """The firings of each alert in the graph, the newest first."""
        return self._edges("instance_of")

    def location_of(self, alert: str) -> str:
        """The address or path of the runbook that an alert's rule names, "" for none."""
        return str(self.nodes[alert].properties.get(RUNBOOK, "")) if alert in self.nodes else ""

    def _of(self, alert: str) -> Iterator[Bound]:
        rules = self.rules_of(alert)
        several = len({rule.location for rule in rules}) > 1
        others = [rule for rule in rules if several and rule.rank(self.labels) < 0]
        yield from self._named((rule for rule in rules if rule not in others), fits=True)
        if len(called := self.called(alert)) == 1:
            yield Bound(called[0], BoundBy.TITLE)
        yield from self._handling_pages(alert, several=len(called) > 1)
        yield from self._named(others, fits=False)

    def _handling_pages(self, alert: str, *, several: bool) -> Iterator[Bound]:
        """Pages that state that they handle the alert; of several with its name, only those that speak of alerts."""
        for edge in sorted(self._handling.get(alert, ()), key=lambda edge: -edge.confidence):
            stated = any(proof.rule != RULE for proof in edge.evidence)
            if stated and not (several and edge.confidence < STATED) and (found := self._runbooks.about(edge.source)):
                yield Bound(found, BoundBy.PAGE)

    def _named(self, rules: Iterable[RuleRunbook], *, fits: bool) -> Iterator[Bound]:
        for rule in rules:
            if found := self.page_of(rule):
                yield Bound(found, BoundBy.URL, rule, fits)

    def page_of(self, rule: RuleRunbook) -> KnowledgeDocument | None:
        """The page that a rule names."""
        location = rule.address(self.labels)
        return self._runbooks.at(location) or (
            None if "://" in location else self._runbooks.about(runbook_at(location))
        )

    def rules_of(self, alert: str) -> list[RuleRunbook]:
        """The runbooks that rules of an alert name: first those with matching labels, then those without labels; of equal
        ones, the one that the alert's node names first."""
        best = self.location_of(alert)
        rules = [rule for edge in self._handling.get(alert, ()) for rule in _rules_of(edge)]
        if best and all(rule.location != best for rule in rules):
            rules.append(RuleRunbook(best))
        return sorted(
            rules, key=lambda rule: (-rule.rank(self.labels), bool(rule.missing(self.labels)), rule.location != best)
        )

    @cached_property
    def _runbooks(self) -> Runbooks:
        return self.list_runbooks()

    @cached_property
    def _handling(self) -> dict[str, list[Edge]]:
        return self._edges("handles")

    @cached_property
    def _mentioning(self) -> dict[str, list[Edge]]:
        return self._edges("mentions")

    def _edges(self, edge_type: str) -> dict[str, list[Edge]]:
        walk = Walk(1, Direction.IN, (edge_type,), MAX_FAN_OUT)
        found = self.graph.store.edges_of(self.graph.reader.visible, self.alerts, walk)
        return {key: edges for key, (edges, _) in found.items()}


def named_runbooks(
    graph: KnowledgeGraph, list_runbooks: Callable[[], Runbooks], alert: str, labels: Mapping[str, str], runbook: str
) -> dict[str, str]:
    """Implements `opx.graph.capability.Graph.named_runbooks`."""
    if runbook and (own := list_runbooks().at(runbook)):
        return {own.document_id: "is the runbook that the alert names"}
    try:
        key = graph.resolve(f"alert:{alert}")
    except InvalidReferenceError:
        return {}
    bindings = Bindings(graph, list_runbooks, [key], labels)
    rules = bindings.rules_of(key)
    if not rules:
        return {}
    found = [one for one in bindings.pages()[key] if one.by is BoundBy.URL and one.fits]
    return {one.document.document_id: f"is the runbook that the rule of {alert} names" for one in found}


def _rules_of(edge: Edge) -> Iterator[RuleRunbook]:
    location = str(edge.properties.get(RUNBOOK, ""))
    if location:
        for labels in json.loads(str(edge.properties.get(WHEN, "[{}]"))):
            yield RuleRunbook(location, labels)


LEAST = 0.6
"""Share of the weight of an alert's words that a title must have, and of the title's that the alert must have: of the words
of both, about two of three."""

_BEGINNING = 6
"""Characters of a word that count: `healthy` and `health`, `latency` and `latencies`."""

_HUMPS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_EMPTY = frozenset(
    ("alert", "runbook", "playbook", "is", "the", "a", "of", "in", "on", "for", "to", "how", "not", "has")
)


class TitleWords:
    """Index of pages by the words of their titles."""

    def __init__(self, documents: Iterable[KnowledgeDocument]) -> None:
        self._titles = [(document, words_of(document.title)) for document in documents]
        self._counts = Counter(word for _, words in self._titles for word in words)

    def like(self, name: str) -> Sequence[KnowledgeDocument]:
        """The pages whose titles are most like an alert's name; none if none is like it enough."""
        wanted = words_of(name)
        if len(wanted) < 2:
            return ()
        scores = [(self._likeness(wanted, words), document) for document, words in self._titles if words & wanted]
        best = max((score for score, _ in scores), default=0.0)
        return [document for score, document in scores if score == best] if best >= LEAST else ()

    def _likeness(self, wanted: frozenset[str], words: frozenset[str]) -> float:
        shared = self._weight(wanted & words)
        return min(shared / self._weight(wanted), shared / self._weight(words)) if shared else 0.0

    def _weight(self, words: Iterable[str]) -> float:
        return sum(math.log(1 + len(self._titles) / (1 + self._counts[word])) for word in words)


def words_of(name: str) -> frozenset[str]:
    """The analysed words of a name or a title, without those that say nothing."""
    words = (part.lower() for part in _HUMPS.findall(name))
    return frozenset(term[:_BEGINNING] for term in analyze(" ".join(word for word in words if word not in _EMPTY)))
