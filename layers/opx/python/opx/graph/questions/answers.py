"""Records of graph answers (nodes with the edges that lead to them), and the coverage report."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Annotated

from msgspec import field

from opx.domain.graph import MAX_FAN_OUT, MAX_NODES, Direction, Edge, Properties, Subgraph, Walk, shown
from opx.domain.record import Record, about, always, replace
from opx.graph.knowledge_graph import KnowledgeGraph
from opx.graph.traversal import Traversal
from opx.graph.views import Passage, Passages
from opx.text.procedures.alerts import RULE, STATED


class Row(Record, frozen=True, omit_defaults=True):
    """A node of an answer. `path` has the edges from the queried node to it, `at` is the time, where the query is about
    one, and `values` are further facts that decided."""

    key: str
    path: tuple[Edge, ...] = always(())
    at: str = ""
    values: Properties = field(default_factory=dict)


class GraphAnswer(Record, frozen=True):
    """The rows in the order of the query, and their evidence. `cut`: some nodes have more edges than are followed."""

    question: str
    explanation: Annotated[str, about("The query in words, with the number of results.")]
    rows: tuple[Row, ...] = ()
    cut: Annotated[bool, about("True if there may be more.")] = False
    passages: Passages = ()

    def with_passages(self, passages: tuple[Passage, ...]) -> GraphAnswer:
        """The answer as it is returned to the caller."""
        rows = tuple(replace(row, path=shown(row.path)) for row in self.rows)
        return replace(self, rows=rows, passages=passages)


def counted(count: int, one: str, several: str = "") -> str:
    """`no change`, `1 change`, `2 changes`."""
    return f"{count or 'no'} {one if count <= 1 else several or one + 's'}"


def name_of(key: str) -> str:
    """A reference in words: a service by its name, other nodes with their kind, codes in capitals."""
    kind, _, value = key.partition(":")
    if kind == "cve":
        return f"CVE-{value.removeprefix('cve-')}"
    if kind in _CODES:
        return value.upper()
    return value if kind in _PLAIN else f"{kind.replace('_', ' ')} {value}"


_CODES = ("jira", "technique", "mitigation")
_PLAIN = ("service", "user", "email", "file")


def walk_from(graph: KnowledgeGraph, starts: Iterable[str], walk: Walk) -> Subgraph:
    """A walk from these canonical references. Raises `StoreUnavailableError`."""
    found = list(dict.fromkeys(starts))
    return Traversal(graph.store, graph.reader.visible).walk(found, walk) if found else Subgraph()


def widest_walk(hops: int, direction: Direction, *edge_types: str, since: str = "", until: str = "") -> Walk:
    """Options of a walk with the widest permitted limits."""
    return Walk(hops, direction, edge_types, MAX_FAN_OUT, MAX_NODES, since, until)


def is_a(key: str, *namespaces: str) -> bool:
    return key.partition(":")[0] in namespaces


def paths_of(found: Subgraph) -> dict[str, tuple[Edge, ...]]:
    """The path to each reached node; an empty one for the starts."""
    return {one.key: one.path for one in found.reached}


# -- coverage

MOST_LOOKED_AT = 1_000
"""Nodes of each type that the report reads."""


class Uncovered(Record, frozen=True):
    """A node without coverage. `firings` counts those of its alert since the start of the report, `MAX_FAN_OUT` at most;
    `last_fired` is the time of the last one."""

    key: str
    firings: int = 0
    last_fired: str = ""


class NearRunbook(Record, frozen=True):
    """A page that may be about an alert, with the reason why that is not sure."""

    document_id: str
    title: str
    path: str
    why: str


class UnsureAlert(Uncovered, frozen=True, omit_defaults=True):
    """An alert that no page is bound to, and the pages that may be about it."""

    pages: tuple[NearRunbook, ...] = ()


class GraphCoverage(Record, frozen=True):
    """Missing runbooks and alerts, among the nodes that the reader may see. `since`: only firings from then on count, "" for
    all."""

    since: str = ""
    alerts_without_runbook: Annotated[
        tuple[Uncovered, ...], about("Alerts that no page seems to be about, those with most firings first.")
    ] = ()
    alerts_unsure: Annotated[
        tuple[UnsureAlert, ...],
        about("Alerts that a page exists for, but none that is certainly theirs, those with most firings first."),
    ] = ()
    runbooks_never_fired: Annotated[tuple[Uncovered, ...], about("Runbooks for alerts none of which fired.")] = ()
    runbooks_without_alert: tuple[Uncovered, ...] = ()
    services_without_runbook: tuple[Uncovered, ...] = ()
    looked_at: Annotated[Mapping[str, int], about("Number of nodes read, by type.")] = field(default_factory=dict)
    cut: Annotated[tuple[str, ...], about("Types that have more nodes than were read.")] = ()


def coverage(graph: KnowledgeGraph, *, since: str = "", limit: int = MOST_LOOKED_AT) -> GraphCoverage:
    """Reports missing coverage among up to `limit` alerts, runbooks and services each that the reader may see. Raises
    `InvalidInputError` for a `since` that is not a time, and `StoreUnavailableError`."""
    reads = _CoverageReads(graph, since, limit)
    alerts, runbooks, services = (reads.nodes(kind) for kind in ("alert", "runbook", "service"))
    handled = reads.edges(alerts, Direction.IN, "handles", "runbook")
    handles = reads.edges(runbooks, Direction.OUT, "handles", "alert")
    elsewhere = reads.elsewhere(edge for some in (*handled.values(), *handles.values()) for edge in some)
    handled = {
        key: [edge for edge in some if edge.source not in elsewhere and edge.confidence >= STATED]
        for key, some in handled.items()
    }
    handles = {book: some for book, some in handles.items() if book not in elsewhere}
    documented = reads.edges(services, Direction.IN, "documents", "runbook")
    fired = reads.firings({*alerts, *(edge.target for some in handles.values() for edge in some)})
    silent = [book for book, some in handles.items() if some and not any(fired[edge.target] for edge in some)]
    return GraphCoverage(
        since=since,
        alerts_without_runbook=_by_firings([alert for alert in alerts if not handled[alert]], fired),
        runbooks_never_fired=tuple(map(Uncovered, silent)),
        runbooks_without_alert=tuple(Uncovered(book) for book, some in handles.items() if not some),
        services_without_runbook=tuple(Uncovered(service) for service in services if not documented[service]),
        looked_at={"alert": len(alerts), "runbook": len(runbooks), "service": len(services)},
        cut=tuple(reads.cut),
    )


class _CoverageReads:
    """Reads nodes and edges for one report."""

    def __init__(self, graph: KnowledgeGraph, since: str, limit: int) -> None:
        self._store = graph.store
        self._scopes = graph.reader.visible
        self._since = since
        self._limit = limit
        self.cut: list[str] = []

    def nodes(self, node_type: str) -> list[str]:
        """The references of this type, in order. Nodes that are only mentioned count, too: an alert that fires is one. A
        runbook that is only mentioned doesn't: it is the target of a link to a page that isn't here."""
        found = [node.key for node in self._store.of_type(self._scopes, node_type, limit=self._limit + 1)]
        if len(found) > self._limit:
            self.cut.append(node_type)
        found = found[: self._limit]
        if node_type != "runbook":
            return found
        return sorted(node.key for node in self._store.nodes(self._scopes, found) if node.declared)

    def elsewhere(self, handling: Iterable[Edge]) -> set[str]:
        """Runbooks that only alert rules name, and that no document declares."""
        named = {edge.source for edge in handling if all(proof.rule == RULE for proof in edge.evidence)}
        return named - {node.key for node in self._store.nodes(self._scopes, sorted(named)) if node.declared}

    def firings(self, alerts: Collection[str]) -> dict[str, list[Edge]]:
        walk = Walk(1, Direction.IN, ("instance_of",), MAX_FAN_OUT, since=self._since)
        return self._edges(sorted(alerts), walk)

    def edges(self, keys: Sequence[str], direction: Direction, edge_type: str, other: str) -> dict[str, list[Edge]]:
        """Edges of a type from or to nodes of a namespace, by key."""
        found = self._edges(keys, Walk(1, direction, (edge_type,), MAX_FAN_OUT))
        return {key: [edge for edge in some if is_a(edge.other(key), other)] for key, some in found.items()}

    def _edges(self, keys: Sequence[str], walk: Walk) -> dict[str, list[Edge]]:
        found = self._store.edges_of(self._scopes, keys, walk)
        return {key: list(found[key][0]) if key in found else [] for key in keys}


def _by_firings(alerts: Iterable[str], fired: Mapping[str, list[Edge]]) -> tuple[Uncovered, ...]:
    found = [Uncovered(key, len(fired[key]), max((edge.at for edge in fired[key]), default="")) for key in alerts]
    return tuple(sorted(found, key=lambda one: (-one.firings, one.key)))
