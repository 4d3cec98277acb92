"""Which alerts nobody has written a runbook for, and which runbooks nothing calls for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from opx.domain.graph import MAX_FAN_OUT, Direction, Edge, Walk
from opx.graph.questions.walking import is_a

if TYPE_CHECKING:
    from opx.graph.knowledge_graph import KnowledgeGraph

MOST_LOOKED_AT = 1_000
"""Of each type of things. Each costs a request or two."""


@dataclass(frozen=True, slots=True)
class Uncovered:
    """A thing that something is missing for. `firings` of the alerts in question in the time that was looked at, of each
    alert `MAX_FAN_OUT` at most, and when the last was."""

    key: str
    firings: int = 0
    last_fired: str = ""

    def to_json(self) -> dict[str, Any]:
        return {"key": self.key, "firings": self.firings, "lastFired": self.last_fired}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Uncovered:
        return cls(data["key"], data["firings"], data["lastFired"])


@dataclass(frozen=True, slots=True)
class GraphCoverage:
    """What is missing, as far as the reader may know. `since`: firings from then on count, "" for all.

    Alerts without a runbook come in the order of how often they fired. A runbook never fired if it is for alerts, and none
    of them did; `runbooks_without_alert` are for none. `looked_at` counts the things by type, and `cut` names the types
    that have more of them.
    """

    since: str = ""
    alerts_without_runbook: tuple[Uncovered, ...] = ()
    runbooks_never_fired: tuple[Uncovered, ...] = ()
    runbooks_without_alert: tuple[Uncovered, ...] = ()
    services_without_runbook: tuple[Uncovered, ...] = ()
    looked_at: Mapping[str, int] | None = None
    cut: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        lists = {name: [one.to_json() for one in getattr(self, field)] for name, field in _LISTS.items()}
        return {"since": self.since, **lists, "lookedAt": dict(self.looked_at or {}), "cut": list(self.cut)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> GraphCoverage:
        lists = {field: tuple(map(Uncovered.from_json, data[name])) for name, field in _LISTS.items()}
        return cls(since=data["since"], looked_at=dict(data["lookedAt"]), cut=tuple(data["cut"]), **lists)


_LISTS = {
    "alertsWithoutRunbook": "alerts_without_runbook",
    "runbooksNeverFired": "runbooks_never_fired",
    "runbooksWithoutAlert": "runbooks_without_alert",
    "servicesWithoutRunbook": "services_without_runbook",
}


def coverage(graph: KnowledgeGraph, *, since: str = "", limit: int = MOST_LOOKED_AT) -> GraphCoverage:
    """Looks at up to `limit` alerts, runbooks and services that the reader may see, by the index of types. Raises
    `StoreUnavailableError`."""
    looking = _Looking(graph, since, limit)
    alerts, runbooks, services = (looking.things(kind) for kind in ("alert", "runbook", "service"))
    fired = {alert: looking.firings(alert) for alert in alerts}
    bare = [alert for alert in alerts if not looking.edges(alert, Direction.IN, "handles", "runbook")]
    alerts_of = {runbook: [e.target for e in looking.edges(runbook, Direction.OUT, "handles")] for runbook in runbooks}
    for alert in {alert for some in alerts_of.values() for alert in some} - fired.keys():
        fired[alert] = looking.firings(alert)
    silent = [book for book, some in alerts_of.items() if some and not any(fired[alert] for alert in some)]
    return GraphCoverage(
        since=since,
        alerts_without_runbook=_by_firings(bare, fired),
        runbooks_never_fired=tuple(map(Uncovered, silent)),
        runbooks_without_alert=tuple(Uncovered(book) for book, some in alerts_of.items() if not some),
        services_without_runbook=tuple(
            Uncovered(one) for one in services if not looking.edges(one, Direction.IN, "documents", "runbook")
        ),
        looked_at={"alert": len(alerts), "runbook": len(runbooks), "service": len(services)},
        cut=tuple(looking.cut),
    )


class _Looking:
    """Reads of one report."""

    def __init__(self, graph: KnowledgeGraph, since: str, limit: int) -> None:
        self._graph = graph
        self._since = since
        self._limit = limit
        self.cut: list[str] = []

    def things(self, node_type: str) -> list[str]:
        """The references of this type, in order. Those that are only mentioned count, too: an alert that fires is one."""
        scopes = self._graph.reader.visible
        found = [node.key for node in self._graph.store.of_type(scopes, node_type, limit=self._limit + 1)]
        if len(found) > self._limit:
            self.cut.append(node_type)
        return sorted(found)[: self._limit]

    def firings(self, alert: str) -> list[Edge]:
        return self._edges(alert, Walk(1, Direction.IN, ("instance_of",), MAX_FAN_OUT, since=self._since))

    def edges(self, key: str, direction: Direction, edge_type: str, other: str = "") -> list[Edge]:
        """Its relations of a type, to things of a namespace."""
        found = self._edges(key, Walk(1, direction, (edge_type,), MAX_FAN_OUT))
        return [edge for edge in found if not other or is_a(edge.other(key), other)]

    def _edges(self, key: str, walk: Walk) -> list[Edge]:
        return list(self._graph.store.edges(self._graph.reader.visible, key, walk)[0])


def _by_firings(alerts: Iterable[str], fired: Mapping[str, list[Edge]]) -> tuple[Uncovered, ...]:
    found = [Uncovered(key, len(fired[key]), max((edge.at for edge in fired[key]), default="")) for key in alerts]
    return tuple(sorted(found, key=lambda one: (-one.firings, one.key)))
