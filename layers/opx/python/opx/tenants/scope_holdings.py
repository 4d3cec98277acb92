"""What is kept by scope or client, and not by document: questions, baselines, aliases, the registry."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from opx.ports import Item
from opx.records.audit import SCOPES as AUDIT_SCOPES
from opx.records.gaps.log import DROPPED
from opx.records.gaps.log import SCOPES as GAP_SCOPES
from opx.sources.repository import REGISTERED
from opx.streams.definitions import REGISTERED as REGISTERED_STREAMS
from opx.tables import ALIASES, AUDIT, BASELINES, GAPS, PROJECTS, SOURCES
from opx.telemetry.baselines.items import SCOPES as BASELINE_SCOPES
from opx.telemetry.baselines.items import recorded_partition, series_partition
from opx.tenants.holdings import Counted, Held, Holding
from opx.tenants.table_holdings import delete, in_table

if TYPE_CHECKING:
    from opx.system import System


def scope_holdings(services: System) -> list[Holding]:
    rows = ScopeRows(services)
    return [
        in_table(services, "gaps", GAPS, rows.gaps),
        in_table(services, "audit records", AUDIT, rows.audit),
        in_table(services, "baselines", BASELINES, rows.baselines),
        in_table(services, "aliases", ALIASES, rows.aliases),
    ]


def registry_holdings(services: System) -> list[Holding]:
    """Last, as the projects say which scopes there are."""
    return [
        in_table(services, "projects", PROJECTS, lambda held: services.tables.table(PROJECTS).query(held.client_id))
    ]


def source_holdings(services: System) -> list[Holding]:
    """First, so that nothing goes on being pulled."""
    sources = InstallationSources(services)
    return [Counted("sources and streams", sources.count, sources.remove)]


class ScopeRows:
    """The items of tables whose partitions are scopes or clients; of a scope first what is in it, then its note."""

    def __init__(self, services: System) -> None:
        self._services = services

    def gaps(self, held: Held) -> Iterator[Item]:
        table = self._services.tables.table(GAPS)
        for scope in held.scopes:
            yield from table.query(scope)
        yield from table.get_many(
            [{"scopeKey": partition, "gapId": scope} for partition in (DROPPED, GAP_SCOPES) for scope in held.scopes]
        )

    def audit(self, held: Held) -> Iterator[Item]:
        """By scope; scopes of projects ask, and those of clients. The principal is no key: it is nobody's own."""
        table = self._services.tables.table(AUDIT)
        for scope in held.scopes:
            yield from table.query(scope, index="who-askedAt-index")
        yield from table.get_many([{"receiptId": f"{AUDIT_SCOPES} {scope}"} for scope in held.scopes])

    def baselines(self, held: Held) -> Iterator[Item]:
        table = self._services.tables.table(BASELINES)
        for scope in held.scopes:
            series = list(table.query(series_partition(scope)))
            records = list(table.query(recorded_partition(scope)))
            for key in dict.fromkeys(
                (*(f"{scope}#{note['day']}" for note in series), *(one["day"] for one in records))
            ):
                yield from table.query(key)
            yield from (*series, *records)
        yield from table.get_many([{"seriesKey": BASELINE_SCOPES, "day": scope} for scope in held.scopes])

    def aliases(self, held: Held) -> Iterator[Item]:
        return self._services.tables.table(ALIASES).query(held.client_id)


class InstallationSources:
    """Sources and streams that were registered while the system ran, if what they bring goes to the client. Those that
    knowledge.yaml declares are for people to take out; what is known of their documents goes."""

    def __init__(self, services: System) -> None:
        self._services = services
        self._table = services.tables.table(SOURCES)

    def count(self, held: Held) -> int:
        if not self._is_own(held):
            return 0
        registered, streams = self._registered(REGISTERED), self._registered(REGISTERED_STREAMS)
        return len(registered) + len(streams) + sum(len(self._rows(source)) for source in self._sources())

    def remove(self, held: Held) -> None:
        if not self._is_own(held):
            return
        for source in self._sources():
            delete(self._table, SOURCES, self._rows(source))
        for source in self._registered(REGISTERED):
            self._services.connectors.control.remove(source)
        for stream in self._registered(REGISTERED_STREAMS):
            self._services.connectors.stream_control.end(stream)

    def declared(self, held: Held) -> list[str]:
        """Those that go on until they are taken out of knowledge.yaml."""
        if not self._is_own(held):
            return []
        registered = {*self._registered(REGISTERED), *self._registered(REGISTERED_STREAMS)}
        found = [one.source_id for one in self._services.connectors.sources.all()] + [
            one.name for one in self._services.connectors.streams.all()
        ]
        return sorted(set(found) - registered)

    def _is_own(self, held: Held) -> bool:
        return self._services.installation.scope.client_id == held.client_id

    def _registered(self, partition: str) -> list[str]:
        return [str(item["entry"]) for item in self._table.query(partition)]

    def _sources(self) -> list[str]:
        declared = [definition.source_id for definition in self._services.connectors.sources.all()]
        return list(dict.fromkeys([*declared, *self._registered(REGISTERED)]))

    def _rows(self, source: str) -> list[Item]:
        return list(self._table.query(source))
