"""What is kept by scope or client, and not by document: questions, baselines, aliases, the registry."""

from __future__ import annotations

from collections.abc import Iterator

from opx.connectors.capability import Connectors
from opx.connectors.repository import REGISTERED
from opx.connectors.streams.definitions import REGISTERED as REGISTERED_STREAMS
from opx.domain.scopes import Scope
from opx.lifecycle.clients.holdings import Counted, Held, Holding
from opx.lifecycle.clients.table_holdings import delete, in_table
from opx.ports import Item, Tables
from opx.ports.tables_specs import ALIASES, AUDIT, BASELINES, GAPS, PROJECTS, SOURCES
from opx.records.audit import SCOPES as AUDIT_SCOPES
from opx.records.gaps.log import DROPPED
from opx.records.gaps.log import SCOPES as GAP_SCOPES
from opx.telemetry.baselines.items import SCOPES as BASELINE_SCOPES
from opx.telemetry.baselines.items import recorded_partition, series_partition


def scope_holdings(tables: Tables) -> list[Holding]:
    rows = ScopeRows(tables)
    return [
        in_table(tables, "gaps", GAPS, rows.gaps),
        in_table(tables, "audit records", AUDIT, rows.audit),
        in_table(tables, "baselines", BASELINES, rows.baselines),
        in_table(tables, "aliases", ALIASES, rows.aliases),
    ]


def registry_holdings(tables: Tables) -> list[Holding]:
    """Last, as the projects say which scopes there are."""
    return [in_table(tables, "projects", PROJECTS, lambda held: tables.table(PROJECTS).query(held.client_id))]


def source_holdings(sources: InstallationSources) -> list[Holding]:
    """First, so that nothing goes on being pulled."""
    return [Counted("sources and streams", sources.count, sources.remove)]


class ScopeRows:
    """The items of tables whose partitions are scopes or clients; of a scope first what is in it, then its note."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def gaps(self, held: Held) -> Iterator[Item]:
        table = self._tables.table(GAPS)
        for scope in held.scopes:
            yield from table.query(scope)
        yield from table.get_many(
            [{"scopeKey": partition, "gapId": scope} for partition in (DROPPED, GAP_SCOPES) for scope in held.scopes]
        )

    def audit(self, held: Held) -> Iterator[Item]:
        """By scope; scopes of projects ask, and those of clients. The principal is no key: it is nobody's own."""
        table = self._tables.table(AUDIT)
        for scope in held.scopes:
            yield from table.query(scope, index="who-askedAt-index")
        yield from table.get_many([{"receiptId": f"{AUDIT_SCOPES} {scope}"} for scope in held.scopes])

    def baselines(self, held: Held) -> Iterator[Item]:
        table = self._tables.table(BASELINES)
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
        return self._tables.table(ALIASES).query(held.client_id)


class InstallationSources:
    """Sources and streams that were registered while the system ran, if what they bring goes to the client. Those that
    knowledge.yaml declares are for people to take out; what is known of their documents goes."""

    def __init__(self, tables: Tables, connectors: Connectors, scope: Scope) -> None:
        self._table = tables.table(SOURCES)
        self._connectors = connectors
        self._scope = scope

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
            self._connectors.control.remove(source)
        for stream in self._registered(REGISTERED_STREAMS):
            self._connectors.stream_control.end(stream)

    def declared(self, held: Held) -> list[str]:
        """Those that go on until they are taken out of knowledge.yaml."""
        if not self._is_own(held):
            return []
        registered = {*self._registered(REGISTERED), *self._registered(REGISTERED_STREAMS)}
        found = [one.source_id for one in self._connectors.sources.all()] + [
            one.name for one in self._connectors.streams.all()
        ]
        return sorted(set(found) - registered)

    def _is_own(self, held: Held) -> bool:
        return self._scope.client_id == held.client_id

    def _registered(self, partition: str) -> list[str]:
        return [str(item["entry"]) for item in self._table.query(partition)]

    def _sources(self) -> list[str]:
        declared = [definition.source_id for definition in self._connectors.sources.all()]
        return list(dict.fromkeys([*declared, *self._registered(REGISTERED)]))

    def _rows(self, source: str) -> list[Item]:
        return list(self._table.query(source))
