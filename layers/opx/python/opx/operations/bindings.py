"""The runbooks that alerts are bound to: by their rules, and by the pages that say which alerts they are for."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from opx.domain.documents import KnowledgeDocument
from opx.domain.graph import MAX_FAN_OUT, Direction, Edge, Node, Walk
from opx.graph.extraction.own_node import is_runbook_category, page_parts, reference_of_source
from opx.ingestion.events import DOCUMENTS_FOLDER
from opx.operations.context import Context
from opx.operations.documents import documents_within

RUNBOOK = "runbook"
"""The property of an alert's node with the address or the path that its rule names."""

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


class Runbooks:
    """Runbooks by what others call them. `scopes` are those of the reader, the widest first: of equal pages the one of the
    narrowest scope is meant."""

    def __init__(self, documents: Iterable[KnowledgeDocument], scopes: Sequence[str]) -> None:
        self._rank = {scope: rank for rank, scope in enumerate(scopes)}
        self._by_reference: dict[str, KnowledgeDocument] = {}
        self._by_address: dict[str, KnowledgeDocument] = {}
        self._by_name: dict[str, list[tuple[tuple[str, ...], KnowledgeDocument]]] = defaultdict(list)
        for document in sorted(documents, key=self._rank_of):
            self._by_reference[reference_of_source(document.key.source, document.category)] = document
            if _SCHEME.match(document.source_uri):
                self._by_address[_address(document.source_uri)] = document
            if parts := _parts(document.key.source.removeprefix(DOCUMENTS_FOLDER)):
                self._by_name[parts[-1]].append((parts, document))

    def about(self, reference: str) -> KnowledgeDocument | None:
        """The page that is itself what a reference names."""
        return self._by_reference.get(reference)

    def at(self, place: str) -> KnowledgeDocument | None:
        """The runbook that a path or an address means: the page from this address, else the one of this file name, of several
        the one with most of the folders before it. None for none, and where several are as likely."""
        if _SCHEME.match(place) and (found := self._by_address.get(_address(place))):
            return found
        parts = _parts(place)
        named = self._by_name.get(parts[-1], []) if parts else []
        best = max((_common(parts, own) for own, _ in named), default=0)
        likely = [one for own, one in named if _common(parts, own) == best]
        narrowest = max(map(self._rank_of, likely), default=0)
        meant = [one for one in likely if self._rank_of(one) == narrowest]
        return meant[0] if len(meant) == 1 else None

    def _rank_of(self, document: KnowledgeDocument) -> int:
        return self._rank.get(document.scope.key, -1)


def runbooks_of(context: Context) -> Runbooks:
    """The current runbooks that the caller may see."""
    categories = [
        path for path in sorted(context.system.installation.knowledge.categories) if is_runbook_category(path)
    ]
    return Runbooks(documents_within(context, categories), context.reader.visible)


def _parts(place: str) -> tuple[str, ...]:
    return tuple(part.casefold() for part in page_parts(place))


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    """How many parts both end with."""
    pairs = zip(reversed(one), reversed(other), strict=False)
    return next((at for at, (mine, theirs) in enumerate(pairs) if mine != theirs), min(len(one), len(other)))


def _address(text: str) -> str:
    """An address without what doesn't tell pages apart: its scheme, its section and a / at its end."""
    return text.partition("#")[0].partition("://")[2].rstrip("/").casefold()


# -- alerts


@dataclass(frozen=True)
class Bindings:
    """What some alerts, by their references, are bound to."""

    context: Context
    alerts: Sequence[str]

    @cached_property
    def nodes(self) -> Mapping[str, Node]:
        return {node.key: node for node in self.context.system.graph.seen_by(self.context.identity).nodes(self.alerts)}

    def documents(self) -> dict[str, list[KnowledgeDocument]]:
        """The runbooks of each alert, the surest first: the one that its rule names, then pages that say they handle it."""
        found = {alert: dict.fromkeys(self._of(alert)) for alert in self.alerts}
        return {alert: list(documents) for alert, documents in found.items()}

    def firings(self) -> dict[str, list[Edge]]:
        """The firings of each alert that the graph has, the newest first."""
        return self._edges("instance_of")

    def _of(self, alert: str) -> Iterator[KnowledgeDocument]:
        named = self.place_of(alert)
        if named and (found := self._runbooks.at(named)):
            yield found
        for edge in sorted(self._handling.get(alert, ()), key=lambda edge: -edge.confidence):
            if found := self._runbooks.about(edge.source):
                yield found

    def place_of(self, alert: str) -> str:
        """The address or the path of its runbook that an alert's rule names, "" for none."""
        return str(self.nodes[alert].properties.get(RUNBOOK, "")) if alert in self.nodes else ""

    @cached_property
    def _runbooks(self) -> Runbooks:
        return runbooks_of(self.context)

    @cached_property
    def _handling(self) -> dict[str, list[Edge]]:
        return self._edges("handles")

    def _edges(self, edge_type: str) -> dict[str, list[Edge]]:
        graph = self.context.system.graph.seen_by(self.context.identity)
        walk = Walk(1, Direction.IN, (edge_type,), MAX_FAN_OUT)
        return {key: edges for key, (edges, _) in graph.store.edges_of(graph.reader.visible, self.alerts, walk).items()}
